//! How the front is confined: it drops its privileges before it reads anything, then all system calls that it does not need.
//! What examines job logs drops its privileges the same way.

use std::{collections::BTreeMap, fs, io};

use rustix::{
    io::Errno,
    process::{
        DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior,
        set_parent_process_death_signal, setrlimit,
    },
    thread::{
        CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_name, set_no_new_privs,
        set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The user and the group without rights, `nobody` on most machines.
const NOBODY: u32 = 65_534;
/// Limits of the front: no core; memory that it may write to, stacks excluded, in bytes; descriptors.
const LIMITS: [(Resource, u64); 3] = [
    (Resource::Core, 0),
    (Resource::Data, 256 << 20),
    (Resource::Nofile, 1024),
];
const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// The system calls that the front may make.
const ALLOWED: &[i64] = &[
    // On its sockets.
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    // On its descriptors.
    libc::SYS_close,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // Memory; see also `NOT_EXECUTABLE`.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Its threads, and time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    // Older calls, which this architecture has and the C library uses.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];
/// Allowed for memory that is not executable, according to their third argument.
const NOT_EXECUTABLE: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// Drops all privileges of the front, which must have one thread. Afterwards it is killed when its parent's thread ends.
pub fn drop_privileges() -> io::Result<()> {
    set_name(c"iotrace-front")?;
    // SAFETY: nothing in this process uses descriptors beyond the standard ones yet.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The tracer ends the front; a terminal and systemd also signal it.
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
        // SAFETY: replaces the default action; there is no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    remove_oom_protection();
    become_user(NOBODY, &LIMITS)
}

/// What a process needs to change its user, where its parent has the same: without CAP_KILL that could not kill it any more, not
/// even by its own end.
const CHANGES_USER: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// Limits this process, which must have one thread, and makes it one of `user` without privileges, if it may change its user.
/// Afterwards it is killed when its parent's thread ends.
pub fn become_user(user: u32, limits: &[(Resource, u64)]) -> io::Result<()> {
    for (resource, limit) in limits.iter().copied() {
        let limit = getrlimit(resource)
            .maximum
            .map_or(limit, |maximum| limit.min(maximum));
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)?;
    }
    empty_bounding_set()?;
    if capabilities(None)?.effective.contains(CHANGES_USER) {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(NOBODY));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, NO_CAPABILITIES)?;
    if capabilities(None)? != NO_CAPABILITIES {
        return Err(io::Error::other("capabilities are left"));
    }
    set_no_new_privs(true)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // After the change of the user, which resets it.
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Removes the protection from the kernel's OOM killer that the front has inherited, so that it is killed before the tracer.
fn remove_oom_protection() {
    const SCORE: &str = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(SCORE).ok();
    let score = score.and_then(|text| text.trim().parse::<i32>().ok());
    if score.is_some_and(|score| score < 0)
        && let Err(error) = fs::write(SCORE, "0")
    {
        log::debug!("{SCORE} stays: {error}");
    }
}

/// Removes all capabilities from the bounding set, which needs CAP_SETPCAP. Without that the set stays, and has no effect: a
/// process with no_new_privs gains no capability by exec.
fn empty_bounding_set() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel knows no more of them, or CAP_SETPCAP is missing.
            Err(Errno::INVAL | Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Lets all threads of this process make the system calls of the list and no others, which fail with EPERM.
pub fn filter_system_calls() -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter_all_threads(&filter()?)
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let executable = libc::PROT_EXEC as u64;
    let is_not = || SeccompCondition::new(2, Dword, MaskedEq(executable), 0);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for call in NOT_EXECUTABLE {
        rules.insert(call, vec![SeccompRule::new(vec![is_not()?])?]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _, net::TcpListener, process::Command, thread};

    use super::*;

    #[test]
    fn what_the_front_does_not_need_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        // The filter is of this thread alone.
        let refused = thread::spawn(move || {
            seccompiler::apply_filter(&filter().unwrap()).unwrap();
            let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            let is_denied = |number, a: i64, b: i64, c: i64| {
                let flags = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
                // SAFETY: at most a new mapping is made, which is not used.
                let result = unsafe { libc::syscall(number, a, b, c, flags, -1_i64, 0_i64) };
                result < 0 && denied(io::Error::last_os_error())
            };
            let executable = i64::from(libc::PROT_READ | libc::PROT_EXEC);
            let readable = i64::from(libc::PROT_READ);
            let outcome = [
                ("open", File::open("/etc/passwd").is_err_and(denied)),
                (
                    "socket",
                    TcpListener::bind("127.0.0.1:0").is_err_and(denied),
                ),
                (
                    "connect",
                    std::net::TcpStream::connect(address).is_err_and(denied),
                ),
                (
                    "exec",
                    Command::new("/bin/true").status().is_err_and(denied),
                ),
                (
                    "thread",
                    thread::Builder::new().spawn(|| ()).is_err_and(denied),
                ),
                (
                    "executable memory",
                    is_denied(libc::SYS_mmap, 0, 4096, executable),
                ),
                ("memory", !is_denied(libc::SYS_mmap, 0, 4096, readable)),
                (
                    "kill",
                    is_denied(libc::SYS_kill, i64::from(std::process::id()), 0, 0),
                ),
                ("bpf", is_denied(libc::SYS_bpf, 0, 0, 0)),
                ("ptrace", is_denied(libc::SYS_ptrace, 0, 0, 0)),
                (
                    "prctl",
                    is_denied(libc::SYS_prctl, i64::from(libc::PR_SET_DUMPABLE), 1, 0),
                ),
            ];
            writer.write_all(b"x").unwrap();
            outcome
        });
        let mut byte = [0];
        io::Read::read_exact(&mut reader, &mut byte).unwrap();
        for (what, as_wanted) in refused.join().unwrap() {
            assert!(as_wanted, "{what}");
        }
    }
}
