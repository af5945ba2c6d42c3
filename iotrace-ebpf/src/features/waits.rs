//! Waits: when traced threads are off the CPU, who wakes them, and in which call they are, where that is wanted ([`WAITS`]).
//!
//! Hooks: the BTF raw tracepoints `sched_switch`, `sched_waking`, `hrtimer_expire_entry` and `hrtimer_expire_exit`. A
//! thread has a [`Waiter`] in its task storage from its birth, or from its first traced call. A task without task storage
//! costs a load of one field. Writes `WAIT_RECORDS` and `WAIT_RINGS`: a program on a switch cannot be interrupted by
//! another switch on its CPU, so the ring of a CPU has one writer.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    btf_maps::PerCpuArray,
    macros::{btf_map, btf_tracepoint},
    programs::BtfTracePointContext,
};
use iotrace_common::{
    diag,
    key::{FileId, start_key},
    op,
    phases::code,
    scope::kept,
    waits::{DATA_BYTES, NO_CALL, Wait, flag},
};

use crate::{
    core::{
        config::{
            HAS_PREVIOUS_STATE, REGS_NR, TASK_FLAGS, TASK_PID, TASK_STATE, TASK_STORAGE, TASK_TGID,
            WAIT_RECORDS_EACH, WAITS,
        },
        diagnose,
        maps::SCOPE,
        memory::{Address, cpu, load, now},
        ring::{self, Put},
        thread::{Thread, state},
    },
    platform::{TaskStorage, current, registers_of, running::start_of, threads},
};

/// `PF_KTHREAD`.
const KERNEL_THREAD: u32 = 0x0020_0000;
/// A waker that comes so shortly before the switch, nanoseconds, woke the thread while it was on its way off the CPU.
const JUST_BEFORE_NS: u64 = 50_000;

/// What is known of a thread that waits, or will.
#[repr(C)]
#[derive(Clone, Copy)]
struct Waiter {
    /// Since when it is followed, where no record says so yet; 0: one does.
    since: u64,
    /// When it left the CPU; 0: it runs.
    off: u64,
    /// When it was woken last; 0: not since it ran.
    woken: u64,
    by_tid: u32,
    by_tgid: u32,
    by_nr: i32,
    state: u32,
    start: u32,
    flags: u32,
    /// [`iotrace_common::scope::Scope::waits_round`] of all this.
    round: u32,
    pad: u32,
}

#[btf_map]
static WAITERS: TaskStorage<Waiter> = TaskStorage::new();

maps! {
    WAIT_RECORDS;
    WAIT_RINGS;
}

/// 1 while a timer's function runs on the CPU.
#[btf_map]
static IN_TIMER: PerCpuArray<u32, 1> = PerCpuArray::new();

/// The running thread has a new verdict. Its waits are kept from now on, or no longer.
#[inline(always)]
pub fn follow(task: Address, verdict: u32) {
    if !WAITS.is_set() {
        return;
    }
    if verdict & kept::WAITS == 0 {
        return WAITERS.forget(task);
    }
    if !stored(task).is_null() {
        return;
    }
    let waiter = begin(task);
    if !waiter.is_null() {
        // SAFETY: a map value of the running thread.
        unsafe { (*waiter).since = now() };
    }
}

/// A thread was made. `kept`: what is kept of its process.
#[inline(always)]
pub fn born(parent: Address, child: Address, kept: u32) {
    if !WAITS.is_set() || kept & kept::WAITS == 0 {
        return;
    }
    let waiter = begin(child);
    if waiter.is_null() {
        return;
    }
    // SAFETY: a map value; the child does not run yet.
    unsafe {
        (*waiter).off = now();
        (*waiter).woken = (*waiter).off;
        (*waiter).state = 0;
        (*waiter).flags = flag::BORN;
        (*waiter).by_tid = load(parent, &TASK_PID);
        (*waiter).by_tgid = load(parent, &TASK_TGID);
    }
}

/// The running thread has read or written `bytes`, or mapped a file: counts what may be training data.
#[inline(always)]
pub fn used(thread: &mut Thread, bytes: u64) {
    let is_kept = WAITS.is_set() && thread.verdict & kept::WAITS != 0;
    if !is_kept || thread.op() != op::MMAP && !op::is_read(thread.op()) {
        return;
    }
    let bytes = match thread.key.io.phase_code() {
        code::TRAINING => DATA_BYTES,
        code::UNMATCHED => bytes.min(u64::from(DATA_BYTES)) as u32,
        _ => 0,
    };
    thread.data_bytes = DATA_BYTES.min(thread.data_bytes + bytes);
}

/// A waiter of which nothing is known yet.
#[inline(always)]
fn begin(task: Address) -> *mut Waiter {
    let waiter = WAITERS.get(task, true);
    if waiter.is_null() {
        diagnose::count(diag::WAITS_LOST);
        return waiter;
    }
    // SAFETY: a map value.
    unsafe {
        ((*waiter).since, (*waiter).off, (*waiter).woken) = (0, 0, 0);
        (*waiter).start = start_key(start_of(task));
        (*waiter).round = round();
    }
    waiter
}

/// The waiter of a task; null where it is not followed. For programs that run for all tasks: one that has no storage costs a load.
/// Others use [`stored`]: for each path to the load of a pointer the verifier searches all names of types, which took 1.4 s
/// where calls begin and end.
#[inline(always)]
fn of(task: Address) -> *mut Waiter {
    // SAFETY: a program's argument; a pointer that is read as a number.
    if unsafe { load::<u64>(task, &TASK_STORAGE) } == 0 {
        return ptr::null_mut();
    }
    stored(task)
}

/// The same, without a look whether the task has any storage.
#[inline(always)]
fn stored(task: Address) -> *mut Waiter {
    let waiter = WAITERS.get(task, false);
    // SAFETY: a map value.
    if !waiter.is_null() && unsafe { (*waiter).round } != round() {
        return ptr::null_mut();
    }
    waiter
}

#[inline(always)]
fn round() -> u32 {
    SCOPE.get(0).map_or(0, |scope| scope.waits_round)
}

/// The CPU goes from one task to the other. `state`: what the first one's was, where the tracepoint says so.
#[inline(always)]
pub fn switched(preempted: bool, previous: Address, next: Address, state: impl FnOnce() -> u32) {
    let (leaves, comes) = (of(previous), of(next));
    if leaves.is_null() && comes.is_null() {
        return;
    }
    let now = now();
    if !leaves.is_null() {
        let state = if preempted {
            0
        } else if HAS_PREVIOUS_STATE.is_set() {
            state()
        } else {
            // SAFETY: the tracepoint's argument; the field is at least 32 bits, and no state needs more.
            unsafe { load::<u32>(previous, &TASK_STATE) }
        };
        // SAFETY: a map value. A waker on another CPU looks at `off`, which is written last.
        unsafe {
            (*leaves).state = state;
            (*leaves).flags = 0;
            ptr::write_volatile(&raw mut (*leaves).off, now);
        }
    }
    // SAFETY: a map value; nobody wakes a thread that is being switched to.
    unsafe {
        if !comes.is_null() && (*comes).off != 0 {
            tell(&*comes, next, now);
            ((*comes).since, (*comes).off, (*comes).woken) = (0, 0, 0);
        }
    }
}

/// Writes the record of a wait that has ended, and one of when the thread was met if this is the first.
#[inline(always)]
fn tell(waiter: &Waiter, task: Address, now: u64) {
    let (nr, thread) = call_of(task);
    let mut wait = Wait {
        off: waiter.off,
        woken: waiter.woken,
        on: now,
        start: waiter.start,
        by_tid: waiter.by_tid,
        by_tgid: waiter.by_tgid,
        state: waiter.state,
        nr,
        by_nr: waiter.by_nr,
        file: FileId::NONE,
        flags: waiter.flags,
        ..Wait::default()
    };
    // SAFETY: the tracepoint's argument.
    (wait.tid, wait.tgid) = unsafe { (load(task, &TASK_PID), load(task, &TASK_TGID)) };
    if wait.state == 0 {
        wait.woken = wait.off;
    } else if wait.woken + JUST_BEFORE_NS < wait.off {
        wait.woken = wait.off;
        wait.flags |= flag::WAKER_UNSEEN;
    } else if wait.woken < wait.off {
        wait.woken = wait.off;
    }
    if nr != NO_CALL && is_in_operation(thread) {
        // SAFETY: a map value, whose thread is not running yet.
        unsafe {
            wait.file = (*thread).key.io.file;
            wait.op = (*thread).key.op as u16;
            wait.phase = (*thread).key.io.phase as u16;
        }
        wait.flags |= flag::IN_OPERATION;
    }
    if reads_data(thread) {
        wait.flags |= flag::READS_DATA;
    }
    write(&wait);
    if waiter.since != 0 {
        (wait.off, wait.woken, wait.on) = (waiter.since, waiter.since, waiter.since);
        (wait.by_tid, wait.by_tgid, wait.by_nr, wait.nr) = (0, 0, NO_CALL, NO_CALL);
        (wait.state, wait.flags) = (0, flag::BORN);
        (wait.file, wait.op, wait.phase) = (FileId::NONE, 0, 0);
        write(&wait);
    }
}

#[inline(always)]
fn write(wait: &Wait) {
    let size = WAIT_RECORDS_EACH.load();
    if ring::put(&WAIT_RINGS, &WAIT_RECORDS, cpu(), size, || *wait) == Put::Lost {
        diagnose::count(diag::WAITS_LOST);
    }
}

/// Whether a thread is in an operation on a file.
#[inline(always)]
fn is_in_operation(thread: *const Thread) -> bool {
    // SAFETY: null, or an aligned word of a map value.
    !thread.is_null() && unsafe { ptr::read_volatile(&raw const (*thread).state) == state::RUNNING }
}

/// Whether a thread has read training data, or submits requests, of which that is not known.
#[inline(always)]
fn reads_data(thread: *const Thread) -> bool {
    // SAFETY: null, or a map value.
    !thread.is_null()
        && unsafe { (*thread).data_bytes >= DATA_BYTES || (*thread).asynchronous != 0 }
}

/// Number of the system call that a task is in, [`NO_CALL`], and the state of its thread, null if it has none.
#[inline(always)]
fn call_of(task: Address) -> (i32, *const Thread) {
    let registers = registers_of(task);
    // SAFETY: the registers that the task entered the kernel with; the field is the number.
    let nr = unsafe { load::<i32>(registers, &REGS_NR) };
    (nr, threads::of_registers(task, registers))
}

/// The running task wakes another, or is where an interrupt does.
#[inline(always)]
pub fn waking(task: Address) {
    let waiter = of(task);
    if waiter.is_null() {
        return;
    }
    // SAFETY: a map value; wakers take turns by the task's lock.
    let waiter = unsafe { &mut *waiter };
    // SAFETY: as above.
    let off = unsafe { ptr::read_volatile(&raw const waiter.off) };
    if off != 0 && (waiter.state == 0 || waiter.woken >= off) {
        return;
    }
    let waker = current();
    // SAFETY: the running task.
    unsafe {
        let is_kernel = load::<u32>(waker, &TASK_FLAGS) & KERNEL_THREAD != 0;
        waiter.by_tid = load(waker, &TASK_PID);
        waiter.by_tgid = load(waker, &TASK_TGID);
        (waiter.by_nr, waiter.flags) = if is_kernel {
            (NO_CALL, flag::BY_KERNEL)
        } else {
            match call_of(waker) {
                // Operations on files wake nobody who waits for anything else: it was interrupted.
                (_, thread) if is_in_operation(thread) => (NO_CALL, 0),
                (nr, thread) if reads_data(thread) => (nr, flag::WAKER_READS_DATA),
                (nr, _) => (nr, 0),
            }
        };
    }
    if IN_TIMER.get(0).is_some_and(|in_timer| *in_timer != 0) {
        waiter.flags |= flag::BY_TIMER;
    }
    waiter.woken = now();
}

/// A timer's function begins or has ended on this CPU.
#[inline(always)]
pub fn in_timer(begins: bool) {
    if let Some(in_timer) = IN_TIMER.get_ptr_mut(0) {
        // SAFETY: this CPU's own word.
        unsafe { *in_timer = u32::from(begins) };
    }
}

/// TRACE_EVENT sched_switch: (bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
#[btf_tracepoint(function = "sched_switch")]
pub fn task_switched(ctx: BtfTracePointContext) -> i32 {
    switched(
        ctx.arg::<u64>(0) as u8 != 0,
        ctx.arg::<*const c_void>(1),
        ctx.arg::<*const c_void>(2),
        || ctx.arg::<u64>(3) as u32,
    );
    0
}

/// TRACE_EVENT sched_waking: (struct task_struct *p)
#[btf_tracepoint(function = "sched_waking")]
pub fn task_waking(ctx: BtfTracePointContext) -> i32 {
    waking(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT hrtimer_expire_entry: (struct hrtimer *hrtimer, ktime_t *now)
#[btf_tracepoint(function = "hrtimer_expire_entry")]
pub fn timer_begins(_ctx: BtfTracePointContext) -> i32 {
    in_timer(true);
    0
}

/// TRACE_EVENT hrtimer_expire_exit: (struct hrtimer *hrtimer)
#[btf_tracepoint(function = "hrtimer_expire_exit")]
pub fn timer_ended(_ctx: BtfTracePointContext) -> i32 {
    in_timer(false);
    0
}
