//! libaio: requests that `io_submit` hands over, from there to where the program is seen to have their results.
//!
//! Reached from the starts and ends of `io_setup`, `io_submit`, `io_getevents`, `io_pgetevents` and `io_destroy`, and from the
//! end of processes. Writes `AIO_REQUESTS`, `AIO_CONTEXTS` and `AIO_USERS`, and through `account` the counters.
//!
//! The kernel has no tracepoint where such a request ends. It puts each result into a ring in the program's memory, and
//! `io_getevents` copies it from there; programs may also take it out by themselves. So the ring is looked at, at the
//! start and the end of each of these calls, from where it was looked at last. What the program's tables do not map yet (it
//! cannot have read that either) is counted when `io_getevents` has returned it. A request is counted by whoever removes it
//! from the map, once. Between two looks no result can be overwritten: a ring has room for all that is in flight, and
//! whatever adds to that is one of these calls.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{
    diag,
    key::FileId,
    op::{self, shape},
    phases::direction,
    trace::NONE,
};

use crate::{
    account,
    config::{HAS_LOOP, MERGE_ALL},
    diagnose,
    enter::set_file,
    exit,
    file::{Kind, identify, of_descriptor},
    flight,
    kernel::{current, now, probe_user, registers_of},
    maps::{AIO_CONTEXTS, AIO_REQUESTS, AIO_USERS},
    path, sort,
    thread::{self, Thread, state},
    together::{self, Joined},
    trace,
};

/// A request in flight, found by its process and the address of its `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// The start of its `io_submit`, `CLOCK_MONOTONIC` nanoseconds.
    entered: u64,
    offset: u64,
    buffer: u64,
    length: u64,
    id: FileId,
    /// Address of the `struct file`, and the block size of its filesystem.
    file: u64,
    block: u64,
    phase: u32,
    /// See [`Thread::flight`].
    flight: u32,
    op: u32,
    /// See [`Thread::joined`].
    joined: Joined,
    direction: u8,
    pad: u8,
}

/// Process id and start key, and an address in its memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    process: u64,
    address: u64,
}

/// `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Iocb {
    data: u64,
    key: u64,
    opcode: u16,
    priority: u16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: u64,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    data: u64,
    iocb: u64,
    result: i64,
    second: i64,
}

/// Start of `struct aio_ring`, behind which its events stand.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ring {
    id: u32,
    events: u32,
    head: u32,
    tail: u32,
    magic: u32,
    features: [u32; 2],
    header_bytes: u32,
}

const MAGIC: u32 = 0xa10a_10a1;
/// Events of a ring at most, and requests of a submission that are looked at.
const MOST: u64 = 1 << 16;
const BPF_ANY: u64 = 0;
/// In place of a result: the request was not submitted after all.
const REFUSED: i64 = i64::MIN;

/// `IOCB_CMD_*`: opcode, operation, whether it has vectors.
#[inline(always)]
fn operation(opcode: u16) -> Option<(usize, bool)> {
    Some(match opcode {
        0 => (op::READ, false),
        1 => (op::WRITE, false),
        2 => (op::FSYNC, false),
        3 => (op::FDATASYNC, false),
        7 => (op::READ, true),
        8 => (op::WRITE, true),
        _ => return None,
    })
}

#[inline(always)]
fn process(thread: &Thread) -> u64 {
    u64::from(thread.key.io.tgid) << 32 | u64::from(thread.key.io.start)
}

/// One of the calls begins: the state that its thread is in.
#[inline(always)]
pub fn begun(copy: u32) -> u32 {
    if HAS_LOOP.is_set() {
        iotrace_aio_begun(copy);
        return state::AIO;
    }
    state::IGNORED
}

/// Global, as what each request needs: so the verifier looks at it once, and not at each of its calls and turns.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_begun(copy: u32) -> u32 {
    let Some(thread) = own() else { return 0 };
    let args = thread.args;
    let of = thread.shape;
    if of == shape::IO_SUBMIT || of == shape::IO_DESTROY {
        thread.ended = now();
        look(thread, args[0], 0, copy);
    }
    if of == shape::IO_SUBMIT {
        let [_, count, list, ..] = args;
        thread.asynchronous = 1;
        let mut given = Given {
            list,
            first: 0,
            count: if count > MOST { MOST } else { count },
            entered: thread.ended,
            copy,
        };
        if count > MOST && (count as i64) > 0 {
            diagnose::add(diag::AIO_LOST, count - MOST);
        }
        repeat(given.count, submit_callback, (&raw mut given).cast());
    }
    // What was looked at has left the arguments and the shape of its requests.
    thread.args = args;
    thread.shape = of;
    0
}

/// Requests that a program gives to `io_submit`.
#[repr(C)]
struct Given {
    list: u64,
    first: u64,
    count: u64,
    entered: u64,
    copy: u32,
}

type Callback = unsafe extern "C" fn(u32, *mut c_void) -> i64;

/// Has a callback called `count` times at most; how often it was.
#[inline(always)]
fn repeat(count: u64, callback: Callback, context: *mut c_void) -> u64 {
    // SAFETY: the callback has the signature that the helper calls, and its context lives on the caller's stack.
    let turns = unsafe { generated::bpf_loop(count as u32, callback as *mut c_void, context, 0) };
    if turns < 0 { 0 } else { turns as u64 }
}

#[inline(always)]
fn own() -> Option<&'static mut Thread> {
    thread::of(registers_of(current()), false)
}

/// A request is submitted.
unsafe extern "C" fn submit_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let given = unsafe { &*context.cast::<Given>() };
    iotrace_aio_submitted(given.list + 8 * u64::from(index), given.entered, given.copy);
    0
}

/// A request is submitted at `entered`, whose address stands at `place`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_submitted(place: u64, entered: u64, copy: u32) -> u32 {
    let Some(thread) = own() else { return 0 };
    let address = probe_user(place).unwrap_or(0);
    let Some(iocb) = probe_user::<Iocb>(address) else {
        diagnose::count(diag::AIO_LOST);
        return 0;
    };
    let Some((op, vectored)) = operation(iocb.opcode) else {
        return 0;
    };
    let used = if op == op::READ {
        direction::READ
    } else {
        direction::WRITE
    };
    let file = of_descriptor(current(), iocb.descriptor);
    match set_file(thread, file, used, copy) {
        Kind::Traced => {}
        // An error, which the call will return.
        Kind::Closed => return 0,
        Kind::Other => {
            diagnose::count(diag::SKIPPED);
            return 0;
        }
    }
    // It may be closed before the request ends.
    if !sort::is_named(thread) {
        path::meet(thread, thread.file, copy);
    }
    thread.entered = entered;
    flight::begin_beside(thread);
    let request = Request {
        entered,
        offset: iocb.offset,
        buffer: iocb.buffer,
        length: if vectored { NONE } else { iocb.bytes },
        id: thread.key.io.file,
        file: thread.file,
        block: thread.block,
        phase: thread.key.io.phase,
        flight: thread.flight,
        op: op as u32,
        joined: thread.joined,
        direction: thread.direction,
        pad: 0,
    };
    let key = Key {
        process: process(thread),
        address,
    };
    if AIO_REQUESTS.insert(key, request, BPF_ANY).is_err() {
        diagnose::count(diag::AIO_LOST);
        flight::abandon(thread);
    }
    0
}

/// One of the calls has returned `result`.
#[inline(always)]
pub fn ended(result: i64) {
    if HAS_LOOP.is_set() {
        iotrace_aio_ended(result);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_ended(result: i64) -> u32 {
    let Some(thread) = own() else { return 0 };
    let [context, count, list, events, _] = thread.args;
    let copy = thread.copy;
    thread.ended = now();
    let of = thread.shape;
    match of {
        shape::IO_SETUP => {
            if result == 0 {
                made(thread, probe_user(count).unwrap_or(0));
            }
            return 0;
        }
        shape::IO_SUBMIT => refused(list, count, result),
        shape::IO_DESTROY => {
            if result == 0 {
                let _ = AIO_CONTEXTS.remove(Key {
                    process: process(thread),
                    address: context,
                });
            }
            return 0;
        }
        _ => {}
    }
    let mut returned = 0;
    if of == shape::IO_GETEVENTS && result > 0 {
        returned = result as u64;
        let mut array = Events {
            base: events,
            first: 0,
            all: u64::MAX,
            count: returned,
        };
        take_events(&mut array);
    }
    look(thread, context, returned, copy);
    0
}

/// A new context: nothing was ever in its ring.
#[inline(always)]
fn made(thread: &mut Thread, context: u64) {
    let process = process(thread);
    let key = Key {
        process,
        address: context,
    };
    let _ = AIO_CONTEXTS.insert(key, 0, BPF_ANY);
    let _ = AIO_USERS.insert(process, 1, BPF_ANY);
}

/// Of `count` requests the kernel took as many as `result` says, or none, for an error of the first.
#[inline(always)]
fn refused(list: u64, count: u64, result: i64) {
    let taken = if result > 0 { result as u64 } else { 0 };
    if taken >= count || count > MOST {
        return;
    }
    let mut given = Given {
        list,
        first: taken,
        count,
        entered: 0,
        copy: 0,
    };
    if result < 0 {
        // Of the first it is known why; the others were not looked at.
        if let Some(address) = probe_user(list) {
            iotrace_aio_finished(address, result);
        }
        given.first = 1;
    }
    repeat(
        count - given.first,
        refuse_callback,
        (&raw mut given).cast(),
    );
}

unsafe extern "C" fn refuse_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let given = unsafe { &*context.cast::<Given>() };
    if let Some(address) = probe_user(given.list + 8 * (given.first + u64::from(index))) {
        iotrace_aio_finished(address, REFUSED);
    }
    0
}

/// Looks at the ring of a context from where it was looked at last. `returned`: events that the kernel has just taken out.
#[inline(always)]
fn look(thread: &mut Thread, context: u64, returned: u64, copy: u32) {
    thread.copy = copy;
    let key = Key {
        process: process(thread),
        address: context,
    };
    let ring = probe_user::<Ring>(context);
    let Some(seen) = AIO_CONTEXTS.get_ptr_mut(key) else {
        // Made before the trace began, or the program has not used the ring's memory.
        if let Some(ring) = ring
            && is_ring(&ring)
        {
            let _ = AIO_CONTEXTS.insert(key, u64::from(ring.head), BPF_ANY);
            let _ = AIO_USERS.insert(key.process, 1, BPF_ANY);
        }
        return;
    };
    let Some(ring) = ring else {
        // SAFETY: a map value. All that was taken out of the ring the kernel has.
        unsafe { *seen += returned };
        return;
    };
    if !is_ring(&ring) {
        return;
    }
    let all = u64::from(ring.events);
    // SAFETY: a map value.
    let first = unsafe { ptr::read_volatile(seen) } % all;
    let tail = u64::from(ring.tail);
    let count = if tail >= first {
        tail - first
    } else {
        tail + all - first
    };
    if count == 0 {
        return;
    }
    let mut events = Events {
        base: context + size_of::<Ring>() as u64,
        first,
        all,
        count,
    };
    let taken = take_events(&mut events);
    // Where its memory is not mapped, nobody but the kernel has taken anything out.
    let next = if taken < count && returned > 0 {
        u64::from(ring.head)
    } else {
        first + taken
    };
    // SAFETY: a map value.
    unsafe { ptr::write_volatile(seen, next) };
}

#[inline(always)]
fn is_ring(ring: &Ring) -> bool {
    let Ring {
        events, head, tail, ..
    } = *ring;
    ring.magic == MAGIC && events > 0 && u64::from(events) <= MOST && head < events && tail < events
}

/// Results in a program's memory: an array that begins anew behind its last element.
#[repr(C)]
struct Events {
    base: u64,
    first: u64,
    all: u64,
    count: u64,
}

/// Counts the requests whose results these are; how many could be read.
#[inline(always)]
fn take_events(events: &mut Events) -> u64 {
    // One turn more, which ends it: so a turn that ends it for another reason is told by their number.
    let count = if events.count > MOST {
        MOST
    } else {
        events.count
    };
    let turns = repeat(count + 1, event_callback, (&raw mut *events).cast());
    turns.saturating_sub(1)
}

unsafe extern "C" fn event_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let events = unsafe { &*context.cast::<Events>() };
    let index = u64::from(index);
    if index >= events.count {
        return 1;
    }
    let mut place = events.first + index;
    if place >= events.all {
        place -= events.all;
    }
    let event = probe_user::<Event>(events.base + place * size_of::<Event>() as u64);
    let Some(event) = event else { return 1 };
    iotrace_aio_finished(event.iocb, event.result);
    0
}

/// Takes the request at `address` out of the map.
#[inline(always)]
fn take(thread: &Thread, address: u64) -> Option<Request> {
    let key = Key {
        process: process(thread),
        address,
    };
    // SAFETY: copied, and only who removes it uses it.
    let request = unsafe { *AIO_REQUESTS.get(key)? };
    AIO_REQUESTS.remove(key).ok().map(|()| request)
}

/// Makes the thread's call that of the request.
#[inline(always)]
fn set_request(thread: &mut Thread, request: &Request) {
    thread.entered = request.entered;
    (thread.flight, thread.joined) = (request.flight, request.joined);
    thread.key.op = request.op;
    thread.key.io.file = request.id;
    thread.key.io.phase = request.phase;
    thread.direction = request.direction;
    thread.block = request.block;
    thread.shape = match request.op as usize {
        op::READ => shape::PREAD,
        op::WRITE => shape::PWRITE,
        op::FSYNC => shape::FSYNC,
        _ => shape::FDATASYNC,
    };
    thread.args = [0, request.buffer, request.length, request.offset, 0];
    thread.file = request.file;
    if identify(request.file).id != request.id {
        // Closed meanwhile, and something else by now.
        thread.file = 0;
    }
}

/// Counts the request at `address`, unless it was counted before. `result`: that of its end, or [`REFUSED`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_finished(address: u64, result: i64) -> u32 {
    let Some(thread) = own() else { return 0 };
    let Some(request) = take(thread, address) else {
        return 0;
    };
    set_request(thread, &request);
    if result == REFUSED {
        flight::abandon(thread);
        return 0;
    }
    thread.union_ns = flight::end(thread);
    if result < 0 {
        thread.key.errno = -result as u32;
        trace::operation(thread, result);
        account::failure_here(thread);
    } else if thread.op() <= op::WRITE {
        exit::data(thread, result as u64);
    } else {
        exit::metadata(thread, result);
    }
    1
}

/// A process has ended: what it had in flight will not be seen to end.
#[inline(always)]
pub fn exited(tgid: u32, start: u32) {
    let process = u64::from(tgid) << 32 | u64::from(start);
    if !HAS_LOOP.is_set() || AIO_USERS.remove(process).is_err() {
        return;
    }
    let mut context = process;
    let context = (&raw mut context).cast::<c_void>();
    // SAFETY: the callbacks have the signature that the helper calls for an element of these maps.
    unsafe {
        generated::bpf_for_each_map_elem(
            ptr::from_ref(&AIO_REQUESTS).cast_mut().cast(),
            request_callback as *mut c_void,
            context,
            0,
        );
        generated::bpf_for_each_map_elem(
            ptr::from_ref(&AIO_CONTEXTS).cast_mut().cast(),
            context_callback as *mut c_void,
            context,
            0,
        );
    }
}

unsafe extern "C" fn request_callback(
    _map: *mut c_void,
    key: *mut Key,
    value: *mut Request,
    process: *mut u64,
) -> i64 {
    // SAFETY: the key of an element, and the caller's context.
    let (key, process) = unsafe { (*key, *process) };
    if MERGE_ALL.is_set() && key.process == process {
        // SAFETY: the element's value.
        let (joined, entered) = unsafe { ((*value).joined, (*value).entered) };
        together::forget(joined, entered);
    }
    if key.process == process && AIO_REQUESTS.remove(key).is_ok() {
        diagnose::count(diag::AIO_UNREPORTED);
    }
    0
}

unsafe extern "C" fn context_callback(
    _map: *mut c_void,
    key: *mut Key,
    _value: *mut c_void,
    process: *mut u64,
) -> i64 {
    // SAFETY: as above.
    let (key, process) = unsafe { (*key, *process) };
    if key.process == process {
        let _ = AIO_CONTEXTS.remove(key);
    }
    0
}
