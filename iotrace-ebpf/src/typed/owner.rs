//! Whose processes are traced: where a recording was asked for by a user without privileges, that user's alone.
//!
//! The rule is that of ptrace(2): all ids of the process are the user's, and its memory may be dumped, which the kernel
//! takes away from who runs a program with more rights than the user's. It is asked whenever a thread's verdict is taken
//! and at each fork, exec and exit, so a pid that another user's process got is no way around it. Reads `SCOPE`.

use iotrace_common::scope::Scope;

use crate::{
    config::{CRED_EUID, CRED_SUID, CRED_UID, MM_FLAGS, TASK_CRED, TASK_MM},
    kernel::{Address, probe},
    maps::SCOPE,
};

/// `MMF_DUMPABLE_MASK`, and the value in it that says that its user may look into a process (`SUID_DUMP_USER`).
const DUMPABLE: u64 = 3;
const DUMPABLE_BY_USER: u64 = 1;

/// Whether a process that is in scope may be traced.
#[inline(always)]
pub fn may_trace(task: Address) -> bool {
    match owner() {
        None => true,
        Some(owner) => has_ids(task, owner) && is_dumpable(task),
    }
}

/// As [`may_trace`], of a process that ends: it has no memory any more.
#[inline(always)]
pub fn is_owned(task: Address) -> bool {
    owner().is_none_or(|owner| has_ids(task, owner))
}

/// The user whose processes alone are traced.
#[inline(always)]
fn owner() -> Option<u32> {
    let scope: &Scope = SCOPE.get(0)?;
    (scope.owned != 0).then_some(scope.owner)
}

#[inline(always)]
fn has_ids(task: Address, owner: u32) -> bool {
    let cred: u64 = probe(task, &TASK_CRED);
    let cred = cred as Address;
    let [uid, euid, suid]: [u32; 3] = [
        probe(cred, &CRED_UID),
        probe(cred, &CRED_EUID),
        probe(cred, &CRED_SUID),
    ];
    uid == owner && euid == owner && suid == owner
}

#[inline(always)]
fn is_dumpable(task: Address) -> bool {
    let mm: u64 = probe(task, &TASK_MM);
    let flags: u64 = probe(mm as Address, &MM_FLAGS);
    flags & DUMPABLE == DUMPABLE_BY_USER
}
