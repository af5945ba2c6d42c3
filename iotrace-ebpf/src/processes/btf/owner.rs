//! Whose processes are traced: where a recording was asked for by a user without privileges, those alone that the user may
//! look into.
//!
//! The rule is that of ptrace(2) ([`Rights::are_open_to`]). It is asked whenever a thread's verdict is taken and at each
//! fork, exec and exit, so a pid that another user's process got is no way around it. Reads `SCOPE`.

use aya_ebpf::helpers::generated;
use iotrace_common::{
    rights::{INITIAL_NAMESPACE, NAMESPACES, Rights, flags},
    scope::Scope,
};

use crate::core::{
    config::{
        CRED_EGID, CRED_EUID, CRED_GID, CRED_NAMESPACE, CRED_PERMITTED, CRED_SGID, CRED_SUID,
        CRED_UID, MM_FLAGS, NAMESPACE_MAKER, NAMESPACE_NUMBER, NAMESPACE_PARENT, TASK_CRED,
        TASK_MM,
    },
    maps::SCOPE,
    memory::{Address, probe},
};

/// `MMF_DUMPABLE_MASK`, and the value in it that says that its user may look into a process (`SUID_DUMP_USER`).
const DUMPABLE: u64 = 3;
const DUMPABLE_BY_USER: u64 = 1;

/// Whether the running process, which is in scope, may be traced.
#[inline(always)]
pub fn may_trace_current() -> bool {
    client().is_none() || iotrace_is_current_open() != 0
}

/// Global, so that the verifier checks it once. It asks for the task itself, because a global function takes no pointer to one.
#[cfg_attr(not(feature = "compat_510"), unsafe(no_mangle))]
#[inline(never)]
pub extern "C" fn iotrace_is_current_open() -> u32 {
    // SAFETY: a plain helper; the address is a number to the verifier.
    let task = unsafe { generated::bpf_get_current_task() };
    u32::from(is_open(task as Address))
}

/// Whether a process that is in scope may be traced.
#[inline(always)]
pub fn may_trace(task: Address) -> bool {
    client().is_none() || is_open_to_client(task)
}

/// As [`may_trace`], of a process that ends: it has no memory any more.
#[inline(always)]
pub fn is_owned(task: Address) -> bool {
    client().is_none() || is_owned_by_client(task)
}

/// In a frame of its own: those of the callers have no room for what is compared.
#[inline(never)]
fn is_open_to_client(task: Address) -> bool {
    is_open(task)
}

#[inline(always)]
fn is_open(task: Address) -> bool {
    client().is_none_or(|client| rights(task).are_open_to(client))
}

#[inline(never)]
fn is_owned_by_client(task: Address) -> bool {
    client().is_none_or(|client| rights(task).are_owned_by(client))
}

/// Who alone is traced for.
#[inline(always)]
fn client() -> Option<&'static Rights> {
    let scope: &Scope = SCOPE.get(0)?;
    (scope.owned != 0).then_some(&scope.client)
}

/// What ptrace(2) would compare of a thread.
#[inline(always)]
pub fn rights(task: Address) -> Rights {
    let cred: u64 = probe(task, &TASK_CRED);
    let cred = cred as Address;
    let [uid, euid, suid, gid, egid, sgid]: [u32; 6] = [
        probe(cred, &CRED_UID),
        probe(cred, &CRED_EUID),
        probe(cred, &CRED_SUID),
        probe(cred, &CRED_GID),
        probe(cred, &CRED_EGID),
        probe(cred, &CRED_SGID),
    ];
    let is_one = uid == euid && uid == suid && gid == egid && gid == sgid;
    let (namespace, maker) = namespace(cred);
    Rights {
        capabilities: probe(cred, &CRED_PERMITTED),
        uid,
        gid,
        namespace,
        maker,
        flags: if is_one { flags::ONE_USER } else { 0 } | dumpable(task),
        pad: 0,
    }
}

/// The number of the user namespace, and who made the outermost one around it below the initial one.
#[inline(always)]
fn namespace(cred: Address) -> (u32, u32) {
    let mut space: u64 = probe(cred, &CRED_NAMESPACE);
    let number: u32 = probe(space as Address, &NAMESPACE_NUMBER);
    if number == INITIAL_NAMESPACE {
        return (number, u32::MAX);
    }
    for _ in 0..NAMESPACES {
        let parent: u64 = probe(space as Address, &NAMESPACE_PARENT);
        if probe::<u32>(parent as Address, &NAMESPACE_NUMBER) == INITIAL_NAMESPACE {
            return (number, probe(space as Address, &NAMESPACE_MAKER));
        }
        space = parent;
    }
    (number, u32::MAX)
}

#[inline(always)]
fn dumpable(task: Address) -> u32 {
    let mm: u64 = probe(task, &TASK_MM);
    let bits: u64 = probe(mm as Address, &MM_FLAGS);
    if bits & DUMPABLE == DUMPABLE_BY_USER {
        flags::DUMPABLE
    } else {
        0
    }
}
