//! What a thread's call in flight leaves for its end, and whether the thread is traced at all.
//!
//! Reads `TARGETS` and `SCOPE`; where a thread's state stands is said in `variant::threads`.

use core::{mem::offset_of, ptr};

use iotrace_common::{
    in_flight::{Head, RUNNING},
    key::{FailureKey, FileId, IoKey, start_key},
    latency,
    scope::{ALL_PROCESSES, IN_SCOPE, Recordings, VERDICT_BITS, kept},
};

use crate::{
    core::{
        config::{FOLLOW, FULL, LINES, REGS_ARG0, SELF_TGID, STACKS, TRACE},
        maps::{SCOPE, TARGETS},
        memory::{Address, is_not_zero, load, pid_tgid},
    },
    merged::global::Joined,
    platform::{current, owner, pages::Faulted, phase, running::start_of, waits},
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
    /// A call of libaio's in flight ([`crate::platform::aio`]).
    pub const AIO: u32 = 4;
    /// In place of a state: the call's file is not that of a descriptor which is its first argument, and is not looked for
    /// yet.
    pub const INDIRECT: u32 = 5;
}

/// In the number of a thread: it is that of a CPU, on which a request of io_uring ended.
pub const NO_THREAD: u32 = 1 << 31;

/// In place of its shape, a call whose path could not be read at its start, and whose file is found at its end.
pub const UNREAD_PATH: u8 = 0;

/// Per thread; all zero at first. The daemon reads how it begins ([`Head`]).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Thread {
    /// In the table: number of the thread whose state this is ([`owner`]); 0: nobody's.
    pub owner: u64,
    /// Start of the call, `CLOCK_MONOTONIC` nanoseconds.
    pub entered: u64,
    /// Its end.
    pub ended: u64,
    /// One of [`state`].
    pub state: u32,
    /// Scope verdict: the epoch above [`VERDICT_BITS`], [`IN_SCOPE`] and [`kept`]; 0: not taken yet.
    pub verdict: u32,
    /// Where the arguments of the call stand (`Call::shape`).
    pub shape: u8,
    /// How it uses its file: read or written ([`iotrace_common::phases::direction`]).
    pub direction: u8,
    /// Not 0: the thread has submitted requests that run beside its calls.
    pub asynchronous: u8,
    /// Whether the trace's filter names its process, or has the path of the call's file (`trace`).
    pub wanted: u8,
    /// Scratch of the program that handles the end of the call.
    pub copy: u32,
    /// Which call it is ([`call_id`]), where a start or an end may go unseen.
    pub call: u64,
    /// The key of the call's counters, and behind it that of its failure. It stands here and not on the programs'
    /// stack, which is 512 bytes for all functions in a chain of calls: process, thread and start are set with the
    /// verdict, the file and the operation by each call.
    pub key: FailureKey,
    /// Target of a transfer.
    pub target: FileId,
    /// Address of the `struct file` of `place` and `target`; 0: none.
    pub file: u64,
    pub target_file: u64,
    /// Block size of the file's filesystem, bytes.
    pub block: u64,
    /// The files used last.
    pub known: [Known; 2],
    /// What the end of the call adds to the merged time of its phase, nanoseconds.
    pub union_ns: u64,
    /// The call's phase among those in flight ([`crate::merged`]).
    pub flight: u32,
    /// The process's place in `FLIGHTS`, one more than its index; 0: not looked for.
    pub place: u32,
    /// Phase of the file opened last.
    pub opened_phase: u32,
    /// Bytes that it has read of what may be training data ([`crate::features::waits`]).
    pub data_bytes: u32,
    /// The call's words among those of all processes ([`crate::merged::global`]).
    pub joined: Joined,
    /// The cells of either kind that it used last, within their generation ([`crate::core::cells`]).
    pub cell: u32,
    pub full_cell: u32,
    /// Where latencies are kept: the key of the call's, and the cell that it used last of each class.
    pub latency_key: IoKey,
    pub latency_cells: [u32; latency::CLASS_PLACES],
    /// At detail full, of the entry that was found last: its generation, with [`crate::core::account::OVERFLOWN`] for an
    /// overflow entry, and the phase in its key.
    pub generation: u32,
    pub counted: u32,
    /// See [`Thread::forgotten`].
    pub forgotten: u64,
    /// What the thread's last page fault and fault-around were of ([`crate::platform::pages`]).
    pub faulted: Faulted,
    /// Nanoseconds in calls that have ended, where CPU time is counted.
    pub called: u64,
    /// First arguments of the call. Those of a read or write at detail basic are not kept.
    pub args: [u64; 5],
    /// The file that a library opens, and how its name ends ([`crate::platform::uprobe`]); where there are uprobes.
    pub used: FileId,
    pub opening: u64,
    /// Address of its state in a Python interpreter, as it was last ([`crate::platform::lines`]).
    pub python_state: u64,
}

const _: () = {
    assert!(state::RUNNING == RUNNING);
    assert!(offset_of!(Thread, entered) == offset_of!(Head, entered));
    assert!(offset_of!(Thread, state) == offset_of!(Head, state));
    assert!(offset_of!(Thread, verdict) == offset_of!(Head, verdict));
    assert!(offset_of!(Thread, key) == offset_of!(Head, key));
};

/// A file as a thread remembers it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Known {
    pub id: FileId,
    /// See [`iotrace_common::phases::Named`].
    pub sorted: u32,
    /// See [`iotrace_common::phases::Named`].
    pub stamp: u32,
}

/// A call as far as its number and its first argument tell it from the thread's next one.
#[inline(always)]
pub fn call_id(registers: Address, nr: u64) -> u64 {
    // SAFETY: the registers come from the tracepoint or from `bpf_task_pt_regs`.
    let first: u64 = unsafe { load(registers, &REGS_ARG0) };
    nr << 32 | u64::from(first as u32)
}

impl Thread {
    /// Operation class of the call.
    #[inline(always)]
    pub fn op(&self) -> usize {
        self.key.op as usize
    }

    /// Whether it is kept at detail full.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        FULL.is_set() && self.verdict & kept::FULL != 0
    }

    /// Whether each of its operations is kept.
    #[inline(always)]
    pub fn is_traced(&self) -> bool {
        TRACE.is_set() && self.verdict & kept::TRACE != 0
    }

    /// Whether it is kept what opened its files.
    #[inline(always)]
    pub fn keeps_lines(&self) -> bool {
        LINES.is_set() && self.verdict & (kept::LINES | kept::STACKS) != 0
    }

    /// Whether that is kept by the lines of a Python program.
    #[inline(always)]
    pub fn keeps_python(&self) -> bool {
        LINES.is_set() && self.verdict & kept::LINES != 0
    }

    /// Whether it is kept by the stack of a native program, where no Python runs.
    #[inline(always)]
    pub fn keeps_stacks(&self) -> bool {
        STACKS.is_set() && self.verdict & kept::STACKS != 0
    }

    /// The same number, of which the verifier knows nothing any more: it looks at what follows once, and not for each way
    /// to it. Of an address it makes a number.
    #[inline(always)]
    pub fn forgotten(&mut self, number: u64) -> u64 {
        let place = &raw mut self.forgotten;
        // SAFETY: a field of this thread's own.
        unsafe {
            ptr::write_volatile(place, number);
            ptr::read_volatile(place)
        }
    }

    /// Nanoseconds inside the call.
    #[inline(always)]
    pub fn ns(&self) -> u64 {
        self.ended - self.entered
    }
}

/// Whether the running thread is in scope. Takes the verdict anew when the daemon has changed the scope.
#[inline(always)]
pub fn in_scope(thread: &mut Thread) -> bool {
    let epoch = match SCOPE.get(0) {
        Some(scope) => scope.epoch,
        None => return false,
    };
    if thread.verdict >> VERDICT_BITS == epoch {
        return thread.verdict & IN_SCOPE != 0;
    }
    iotrace_take_verdict(thread, epoch) != 0
}

checked_once! {
    /// Takes the verdict on the running thread; whether it is in scope.
    pub fn iotrace_take_verdict(thread: &mut Thread, epoch: u32) -> u64 {
        let (tgid, tid) = pid_tgid();
        (thread.key.io.tgid, thread.key.io.tid) = (tgid, tid);
        let mut verdict = verdict_of(tgid);
        if verdict != 0 && !owner::may_trace_current() {
            verdict = 0;
        }
        let task = current();
        thread.key.io.start = start_key(start_of(task));
        // What stands here may be of the thread that had this place before.
        phase::forget(thread);
        (thread.place, thread.opened_phase, thread.wanted) = (0, 0, 0);
        thread.data_bytes = 0;
        thread.verdict = epoch << VERDICT_BITS | verdict;
        waits::follow(task, verdict);
        u64::from(verdict != 0)
    }
}

/// Whether every process is in scope.
#[inline(always)]
pub fn all() -> bool {
    SCOPE.get(0).is_some_and(|scope| scope.all != 0)
}

/// Whether process `tgid` is in scope.
#[inline(always)]
pub fn process_in_scope(tgid: u32) -> bool {
    // SAFETY: the value is not kept.
    let target = unsafe { TARGETS.get(tgid) }.is_some();
    target || all() && u64::from(tgid) != SELF_TGID.load()
}

/// Whether the children of process `tgid`, which is in scope, are in scope as well. Those of iotrace itself are not: it is in
/// scope for its self-test alone, while its other threads may start programs.
#[inline(always)]
pub fn is_followed(tgid: u32) -> bool {
    FOLLOW.is_set() && u64::from(tgid) != SELF_TGID.load()
}

/// What a verdict says of process `tgid`, without the epoch: [`IN_SCOPE`] and [`kept`]; 0: it is not in scope.
#[inline(always)]
pub fn verdict_of(tgid: u32) -> u32 {
    // SAFETY: the value is copied.
    let recordings = unsafe { TARGETS.get(tgid) }.copied();
    if recordings.is_none() && !(all() && u64::from(tgid) != SELF_TGID.load()) {
        return 0;
    }
    IN_SCOPE | kept_of(recordings.unwrap_or(0))
}

/// What is kept of the threads of a process in scope that these recordings have: [`kept`].
#[inline(always)]
pub fn kept_of(recordings: Recordings) -> u32 {
    SCOPE.get(0).map_or(0, |scope| {
        scope.kept(recordings | ALL_PROCESSES, is_not_zero)
    })
}

/// The recordings that a child of process `tgid` is in, as its parent is.
#[inline(always)]
pub fn recordings_of_child(tgid: u32) -> Recordings {
    // SAFETY: the value is copied.
    let recordings = unsafe { TARGETS.get(tgid) }.copied().unwrap_or(0);
    recordings & SCOPE.get(0).map_or(0, |scope| scope.follow)
}
