//! What a wait in a system call, or a wake-up out of one, tells.

/// Calls that sleep until a time.
const SLEEP_CALLS: [i64; 2] = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];

/// `io_pgetevents`, which libc has not on all architectures.
const IO_PGETEVENTS: i64 = if cfg!(target_arch = "x86_64") {
    333
} else {
    292
};

/// Calls on files that are not among the counted operations, or that wait for requests to files.
const STORAGE_CALLS: [i64; 11] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_getdents64,
    libc::SYS_io_getevents,
    IO_PGETEVENTS,
    libc::SYS_io_submit,
    libc::SYS_io_uring_enter,
    libc::SYS_msync,
    libc::SYS_readahead,
    libc::SYS_sync,
    libc::SYS_syncfs,
];

/// Calls that wait for descriptors which an interrupt can make ready.
const DESCRIPTOR_CALLS: [i64; 18] = [
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_splice,
    libc::SYS_write,
    libc::SYS_writev,
];
/// Those that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLD_DESCRIPTOR_CALLS: [i64; 3] = [libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_select];
#[cfg(not(target_arch = "x86_64"))]
const OLD_DESCRIPTOR_CALLS: [i64; 0] = [];

/// `futex_wake`, `futex_wait` and `futex_requeue` of Linux 6.7, which libc has not.
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;
const FUTEX_REQUEUE: i64 = 456;

/// Calls in which a thread wakes others, those of [`DESCRIPTOR_CALLS`] included: a full pipe's reader wakes the writer.
const WAKING_CALLS: [i64; 33] = [
    FUTEX_REQUEUE,
    FUTEX_WAKE,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_epoll_ctl,
    libc::SYS_execve,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_futex,
    libc::SYS_io_submit,
    libc::SYS_io_uring_enter,
    libc::SYS_kill,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_timedsend,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_sendfile,
    libc::SYS_shutdown,
    libc::SYS_tee,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_vmsplice,
    libc::SYS_wait4,
];
#[cfg(target_arch = "x86_64")]
const OLD_WAKING_CALLS: [i64; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const OLD_WAKING_CALLS: [i64; 0] = [];

/// Calls with a timeout that wait for anything but time.
const TIMEOUT_CALLS: [i64; 11] = [
    FUTEX_WAIT,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex,
    libc::SYS_mq_timedreceive,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_semtimedop,
];

/// Calls that open a file.
const OPEN_CALLS: [i64; 2] = [libc::SYS_openat, libc::SYS_openat2];
#[cfg(target_arch = "x86_64")]
const OLD_OPEN_CALLS: [i64; 2] = [libc::SYS_creat, libc::SYS_open];
#[cfg(not(target_arch = "x86_64"))]
const OLD_OPEN_CALLS: [i64; 0] = [];

/// Calls that wait for a child to end.
const CHILD_CALLS: [i64; 2] = [libc::SYS_wait4, libc::SYS_waitid];

pub fn sleeps(nr: i32) -> bool {
    SLEEP_CALLS.contains(&nr.into())
}

pub fn has_timeout(nr: i32) -> bool {
    let nr = nr.into();
    TIMEOUT_CALLS.contains(&nr) || OLD_DESCRIPTOR_CALLS.contains(&nr)
}

pub fn is_storage(nr: i32) -> bool {
    STORAGE_CALLS.contains(&nr.into())
}

pub fn waits_for_descriptors(nr: i32) -> bool {
    let nr = nr.into();
    DESCRIPTOR_CALLS.contains(&nr) || OLD_DESCRIPTOR_CALLS.contains(&nr)
}

/// Whether a thread in this call may have woken another; else it was interrupted.
pub fn can_wake(nr: i32) -> bool {
    let number = nr.into();
    WAKING_CALLS.contains(&number)
        || OLD_WAKING_CALLS.contains(&number)
        || waits_for_descriptors(nr)
}

pub fn opens(nr: i32) -> bool {
    let nr = nr.into();
    OPEN_CALLS.contains(&nr) || OLD_OPEN_CALLS.contains(&nr)
}

pub fn waits_for_child(nr: i32) -> bool {
    CHILD_CALLS.contains(&nr.into())
}
