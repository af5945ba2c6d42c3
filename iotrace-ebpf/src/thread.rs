//! What a thread's call in flight leaves for its end, and whether the thread is traced at all.
//!
//! Writes `THREADS` (task storage); reads `TARGETS` and `EPOCH`.

use iotrace_common::key::{FileId, start_key};

use crate::{
    config::{SCOPE_ALL, SELF_TGID, TASK_GROUP_LEADER, TASK_START},
    kernel::{Address, pid_tgid, probe},
    maps::{EPOCH, TARGETS},
};

/// State of a thread's call.
pub mod state {
    /// None in flight.
    pub const IDLE: u32 = 0;
    /// A traced call in flight.
    pub const RUNNING: u32 = 1;
    /// A call in flight on something that is not traced (a socket, a pipe).
    pub const SKIPPED: u32 = 2;
    /// A call in flight that is no file operation (an anonymous mmap, an fcntl that duplicates nothing).
    pub const IGNORED: u32 = 3;
}

/// Per thread; all zero at first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Thread {
    /// Start of the call, nanoseconds; 0: not known.
    pub entered: u64,
    /// One of [`state`].
    pub state: u32,
    /// Scope verdict: epoch << 1 | traced; 0: not taken yet.
    pub verdict: u32,
    /// Process and thread id; an exec by another thread than the first changes both, and takes the verdict back.
    pub tgid: u32,
    pub tid: u32,
    /// [`start_key`] of the process.
    pub start: u32,
    /// `Call` of the call in flight.
    pub shape: u8,
    pub op: u8,
    pub pad: [u8; 2],
    /// The file of the call; of a transfer, its source.
    pub place: FileId,
    /// Target of a transfer.
    pub target: FileId,
    /// Address of the `struct file` of `place` and `target`; 0: none.
    pub file: u64,
    pub target_file: u64,
    /// Block size of the file's filesystem, bytes.
    pub block: u64,
    /// First arguments of the call. Those of a basic-detail read or write are not kept.
    pub args: [u64; 5],
}

/// Whether the running thread is in scope. Takes the verdict anew when the daemon has changed the scope.
#[inline(always)]
pub fn in_scope(thread: &mut Thread, task: Address) -> bool {
    let epoch = match EPOCH.get(0) {
        Some(epoch) => *epoch,
        None => return false,
    };
    if thread.verdict >> 1 == epoch {
        return thread.verdict & 1 != 0;
    }
    let (tgid, tid) = pid_tgid();
    (thread.tgid, thread.tid) = (tgid, tid);
    let traced = process_in_scope(tgid);
    thread.start = start_key(start_of(task));
    thread.verdict = epoch << 1 | u32::from(traced);
    traced
}

/// Whether process `tgid` is in scope.
#[inline(always)]
pub fn process_in_scope(tgid: u32) -> bool {
    // SAFETY: the value is not kept.
    let target = unsafe { TARGETS.get(tgid) }.is_some();
    target || SCOPE_ALL.is_set() && u64::from(tgid) != SELF_TGID.load()
}

/// `start_boottime` of a task's process, nanoseconds.
#[inline(always)]
pub fn start_of(task: Address) -> u64 {
    let leader: u64 = probe(task, &TASK_GROUP_LEADER);
    probe(leader as Address, &TASK_START)
}
