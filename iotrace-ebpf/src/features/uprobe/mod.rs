//! Functions of libraries, by uprobes: what a program asks its libraries for, beside the system calls that come of it.
//!
//! Hooks: one uprobe program and one uretprobe program for all functions; what the function is travels as the probe's
//! cookie ([`iotrace_common::library`]). Writes `LIBRARY` (counters per thread, function and file) and the thread's calls in
//! flight; sends `OBJECT` and `MARK` events. `uprobe_stream` and `uprobe_handle` know what the functions work on,
//! `uprobe_open` which file they open, `uprobe_datatype` how much a datatype is, `uprobe_mark` the program's own marks; and
//! from the accounting of system calls, where a library is mapped.
//!
//! A uprobe's program can be preempted by another task, so nothing here is per CPU. It is inside an RCU section, so the
//! flip of generations waits for it.

pub mod datatype;
pub mod handle;
pub mod mark;
pub mod open;
pub mod stream;

use core::ptr;

use aya_ebpf::{
    EbpfContext as _,
    btf_maps::Array,
    helpers::generated,
    macros::{btf_map, uprobe, uretprobe},
    programs::{ProbeContext, RetProbeContext},
};
use iotrace_common::{
    bucket::size_bucket,
    diag,
    key::{FileId, start_key},
    library::{self, CallKey, Calls, Function, bytes, class, failure, subject},
};

use crate::{
    core::{
        cells,
        config::{
            FUNCTION_ARG0, FUNCTION_ARG3, REGS_ARG1, REGS_ARG2, REGS_ARG4, REGS_ARG5, REGS_RESULT,
            REGS_STACK, RETURN_POPS,
        },
        maps::{BPF_NOEXIST, DIAGNOSTICS, LIBRARY},
        memory::{Address, load, now, pid_tgid},
        thread::process_in_scope,
    },
    platform::{TaskStorage, current, fetch_add, registers_of, running::start_of},
};

/// Arguments that are kept, a power of two.
const ARGUMENTS: usize = 8;
/// Calls of a thread that may be in flight: one of each library; a power of two.
const LIBRARIES: usize = library::COUNT.next_power_of_two();

/// A call in flight.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Call {
    /// The stack pointer as it was at the start; 0: none is in flight. A call that a function makes that is in flight
    /// already has a lower one, and its return has the same, less the return address.
    pub stack: u64,
    /// The function, as a cookie.
    pub function: u64,
    /// Start, `CLOCK_MONOTONIC` nanoseconds.
    pub entered: u64,
    pub args: [u64; ARGUMENTS],
    pub file: FileId,
    /// Address of the `struct file`; 0: none.
    pub open: u64,
    /// See [`CallKey`].
    pub object: u64,
    /// Where the stream was at the start.
    pub position: u64,
    /// What inner calls returned first: the number of elements, and the size of one where they come from and where they go.
    /// Of MPI's calls ([`uprobe_datatype`]): where an inner call writes the size of one, and the size.
    pub points: u64,
    pub elements: [u64; 2],
}

#[btf_map]
static CALLS_IN_FLIGHT: TaskStorage<[Call; LIBRARIES]> = TaskStorage::new();

/// What new entries start from; too large for the stack.
#[btf_map]
static NO_CALLS: Array<Calls, 1> = Array::new();

/// The cookie of the probe that the running program was called for.
#[inline(always)]
pub fn cookie(context: Address) -> u64 {
    // SAFETY: the program's own context.
    unsafe { generated::bpf_get_attach_cookie(context.cast_mut()) }
}

/// A function was called.
#[inline(always)]
pub fn entered(cookie: u64) {
    let function = Function::of_cookie(cookie);
    let (tgid, _) = pid_tgid();
    if !process_in_scope(tgid) {
        return;
    }
    let task = current();
    let registers = registers_of(task);
    if function.class == class::MARK {
        return mark::marked(function.index, registers);
    }
    let is_inner = function.class == class::INNER;
    let Some(call) = in_flight(task, function.library, !is_inner) else {
        if !is_inner {
            lost();
        }
        return;
    };
    // SAFETY: the registers are those of the running task.
    let stack: u64 = unsafe { load(registers, &REGS_STACK) };
    if is_inner {
        return datatype::asked(call, stack, registers);
    }
    if call.stack != 0 && stack <= call.stack {
        // Called by another function of the library, which counts; at the same place, if that one ends by a jump.
        return;
    }
    call.function = cookie;
    // SAFETY: as above.
    call.args = unsafe {
        [
            load(registers, &FUNCTION_ARG0),
            load(registers, &REGS_ARG1),
            load(registers, &REGS_ARG2),
            load(registers, &FUNCTION_ARG3),
            load(registers, &REGS_ARG4),
            load(registers, &REGS_ARG5),
            0,
            0,
        ]
    };
    call.file = FileId::NONE;
    call.open = 0;
    call.object = 0;
    call.points = 0;
    call.elements = [0; 2];
    call.stack = 0;
    let is_known = match function.subject {
        subject::STREAM => stream::set_stream(call, argument(call, function.argument)),
        subject::OUTPUT => stream::set_output(call),
        subject::HANDLE => handle::set(call, function.library, argument(call, function.argument)),
        subject::HANDLE_AT => {
            let handle = handle::behind(argument(call, function.argument));
            handle::set(call, function.library, handle)
        }
        subject::NEW_FILE | subject::NEW_FILE_AT => open::begins(call, &function),
        _ => true,
    };
    if is_known {
        call.stack = stack;
        call.entered = now();
    }
}

/// A function returned.
#[inline(always)]
pub fn returned(cookie: u64) {
    let function = Function::of_cookie(cookie);
    let task = current();
    let registers = registers_of(task);
    let Some(call) = in_flight(task, function.library, false) else {
        return;
    };
    // SAFETY: the registers are those of the running task.
    let (stack, result): (u64, u64) =
        unsafe { (load(registers, &REGS_STACK), load(registers, &REGS_RESULT)) };
    if function.class == class::INNER {
        if call.stack != 0 && stack < call.stack {
            match function.bytes & !bytes::LARGE {
                bytes::SIZE => datatype::told(call, function.bytes),
                what => keep(call, what, result),
            }
        }
        return;
    }
    if call.stack == 0 || stack != call.stack + RETURN_POPS.load() {
        return;
    }
    call.stack = 0;
    // Of two functions that end at one return, the one that was called.
    let function = Function::of_cookie(call.function);
    let ended = now();
    let has_failed = match function.failure {
        failure::NULL => result == 0,
        failure::STATUS => result as u32 != 0,
        failure::NEGATIVE_INT => (result as i32) < 0,
        failure::NEGATIVE => (result as i64) < 0,
        _ => false,
    };
    if !has_failed {
        let is_known = match function.subject {
            subject::NEW_STREAM => stream::set_stream(call, result),
            subject::REGISTERED => handle::registered(call),
            subject::NEW_FILE | subject::NEW_OBJECT => handle::opened(call, &function, result),
            subject::NEW_FILE_AT => {
                let handle = handle::behind(call.args[4]);
                handle::opened(call, &function, handle)
            }
            subject::BATCH => {
                handle::batch(call, ended);
                false
            }
            _ => true,
        };
        if !is_known {
            return;
        }
    }
    let moved = if has_failed {
        0
    } else {
        moved(call, &function, result)
    };
    let max_byte = if function.subject == subject::STREAM && moved > 0 {
        stream::position(call, argument(call, function.argument)).saturating_sub(1)
    } else {
        0
    };
    count(
        call,
        &Done {
            function: u32::from(function.index),
            has_failed,
            moved,
            max_byte,
            ended,
        },
    );
}

/// What is to be counted of a call.
pub struct Done {
    pub function: u32,
    pub has_failed: bool,
    pub moved: u64,
    pub max_byte: u64,
    pub ended: u64,
}

/// Keeps what the first inner calls returned.
#[inline(always)]
fn keep(call: &mut Call, what: u8, result: u64) {
    let [first, second] = &mut call.elements;
    let kept = match what {
        bytes::POINTS => &mut call.points,
        _ if *first == 0 => first,
        _ => second,
    };
    if *kept == 0 {
        *kept = result;
    }
}

/// Bytes that a call moved, which succeeded.
#[inline(always)]
fn moved(call: &Call, function: &Function, result: u64) -> u64 {
    match function.bytes {
        bytes::RESULT if function.failure == failure::NEGATIVE_INT => u64::from(result as u32),
        bytes::RESULT => result,
        bytes::ITEMS => result.wrapping_mul(call.args[1]),
        bytes::ITEMS_CHECKED => result.wrapping_mul(call.args[2]),
        bytes::ONE => u64::from(result as i32 != -1),
        bytes::POSITION => {
            stream::position(call, argument(call, function.argument)).saturating_sub(call.position)
        }
        bytes::STRING => stream::length(call.args[0]),
        bytes::LINE => stream::length(call.args[0]) + 1,
        bytes::ASKED => handle::behind(call.args[2]),
        bytes::FIFTH => call.args[4],
        // The size in the file, which a read comes from and a write goes to.
        bytes::ELEMENTS if function.class == class::WRITE => {
            call.points.wrapping_mul(call.elements[1])
        }
        bytes::ELEMENTS => call.points.wrapping_mul(call.elements[0]),
        other => datatype::moved(call, function, other),
    }
}

/// Adds a call to its counters.
#[inline(never)]
pub fn count(call: &Call, done: &Done) {
    let (tgid, tid) = pid_tgid();
    let key = CallKey {
        file: call.file,
        object: call.object,
        tgid,
        tid,
        start: start_key(start_of(current())),
        function: done.function,
    };
    let calls = entry(&key);
    if calls.is_null() {
        return lost();
    }
    let ns = done.ended - call.entered;
    // SAFETY: a map value, whose one writer is this thread.
    let calls = unsafe { &mut *calls };
    calls.ns += ns;
    calls.last = done.ended;
    if calls.first == 0 {
        calls.first = call.entered;
    }
    if done.has_failed {
        calls.failures += 1;
        return;
    }
    calls.calls += 1;
    calls.bytes += done.moved;
    if ns > calls.slowest_ns {
        calls.slowest_ns = ns;
        calls.slowest_bytes = done.moved;
    }
    if done.max_byte > calls.max_byte {
        calls.max_byte = done.max_byte;
    }
    let bucket = size_bucket(done.moved);
    if bucket < calls.sizes.len() {
        calls.sizes[bucket] += 1;
    }
}

/// The entry of a key, made if it is new; null where there is no room.
#[inline(always)]
fn entry(key: &CallKey) -> *mut Calls {
    let Some(map) = LIBRARY.get(cells::current_half()) else {
        return ptr::null_mut();
    };
    if let Some(found) = map.get_ptr_mut(key) {
        return found;
    }
    if let Some(zero) = NO_CALLS.get(0) {
        // Where the insert fails, the look says so.
        let _ = map.insert(key, zero, BPF_NOEXIST);
    }
    map.get_ptr_mut(key).unwrap_or(ptr::null_mut())
}

/// The call of the running thread in flight in a library; none where it has no state and gets none.
#[inline(always)]
fn in_flight(task: Address, library: u8, create: bool) -> Option<&'static mut Call> {
    let calls = CALLS_IN_FLIGHT.get(task, create);
    if calls.is_null() {
        return None;
    }
    // A mask, which the verifier can follow where it loses a comparison.
    let index = usize::from(library) & (LIBRARIES - 1);
    // SAFETY: a task storage value is its thread's own, and the thread is here; the index is within it.
    unsafe { calls.cast::<Call>().add(index).as_mut() }
}

/// An argument of a call.
#[inline(always)]
pub fn argument(call: &Call, number: u8) -> u64 {
    // SAFETY: the mask keeps it inside, also for the verifier, which loses a comparison.
    unsafe {
        *call
            .args
            .as_ptr()
            .add(usize::from(number) & (ARGUMENTS - 1))
    }
}

/// Counts a call that is not counted.
#[inline(always)]
pub fn lost() {
    diagnose(diag::LIBRARY_LOST);
}

/// As `diagnose::count`, atomically: another program of this kind may come between.
#[inline(always)]
pub fn diagnose(reason: u32) {
    if let Some(slot) = DIAGNOSTICS.get_ptr_mut(reason) {
        // SAFETY: an aligned word of a map value.
        unsafe { fetch_add(slot, 1) };
    }
}

/// The start of a function of a library.
#[uprobe]
pub fn library_enter(ctx: ProbeContext) -> u32 {
    entered(cookie(ctx.as_ptr()));
    0
}

/// The return of one.
#[uretprobe]
pub fn library_return(ctx: RetProbeContext) -> u32 {
    returned(cookie(ctx.as_ptr()));
    0
}
