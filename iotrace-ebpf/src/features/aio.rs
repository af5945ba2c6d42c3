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

use aya_ebpf::{
    bindings::BPF_F_NO_PREALLOC, btf_maps::HashMap, helpers::generated, macros::btf_map,
};
use iotrace_common::{
    diag,
    key::FileId,
    limits,
    op::{self, shape},
    phases::direction,
    trace::NONE,
};

use crate::{
    core::{
        account,
        config::{HAS_LOOP, MERGE_ALL},
        diagnose,
        enter::{arguments, set_unsorted},
        exit,
        memory::{now, probe_user},
        thread::{Thread, state},
    },
    features::oplog,
    merged::{
        self,
        global::{self, Joined},
    },
    platform::{
        self, Callback, current,
        identity::{Kind, identify, of_descriptor},
        path, phase, registers_of, threads,
    },
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

/// libaio's requests in flight, by process and the address of their `struct iocb`. Not preallocated: mostly empty.
#[btf_map]
static AIO_REQUESTS: HashMap<
    Key,
    Request,
    { limits::AIO_REQUEST_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Its contexts, by process and the address of their ring: up to where the ring was looked at. Not preallocated.
#[btf_map]
static AIO_CONTEXTS: HashMap<
    Key,
    u64,
    { limits::AIO_CONTEXT_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Processes that have such contexts, by process id and start key. Not preallocated.
#[btf_map]
static AIO_USERS: HashMap<
    u64,
    u64,
    { limits::AIO_CONTEXT_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

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

/// Of an address in the memory of the thread's process.
#[inline(always)]
fn key(thread: &Thread, address: u64) -> Key {
    Key {
        process: u64::from(thread.key.io.tgid) << 32 | u64::from(thread.key.io.start),
        address,
    }
}

/// The state of a thread in one of the calls.
#[inline(always)]
pub fn in_call(thread: &Thread) -> u32 {
    if HAS_LOOP.is_set() {
        return state::AIO;
    }
    let [_, count, ..] = thread.args;
    if thread.shape == shape::IO_SUBMIT && count <= MOST {
        diagnose::add(diag::AIO_UNSEEN, count);
    }
    state::IGNORED
}

/// One of the calls begins.
#[inline(always)]
pub fn begun(copy: u32) {
    if HAS_LOOP.is_set() {
        iotrace_aio_begun(copy);
    }
}

/// Global, as what each request needs: so the verifier looks at it once, and not at each of its calls and turns.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_begun(copy: u32) -> u32 {
    let Some(thread) = own() else { return 0 };
    let [context, count, mut list, ..] = thread.args;
    let of = thread.shape;
    thread.copy = copy;
    if of == shape::IO_SUBMIT || of == shape::IO_DESTROY {
        thread.ended = now();
        look(thread, context, 0);
    }
    if of == shape::IO_SUBMIT {
        thread.asynchronous = 1;
        if count > MOST && (count as i64) > 0 {
            diagnose::add(diag::AIO_LOST, count - MOST);
        }
        let count = if count > MOST { MOST } else { count };
        repeat(count, submit_callback, (&raw mut list).cast());
    }
    // What was looked at has left the shape of its requests. The arguments, too; those stand in the registers.
    thread.shape = of;
    0
}

/// Has a callback called `count` times at most; how often it was.
#[inline(always)]
fn repeat(count: u64, callback: Callback, context: *mut c_void) -> u64 {
    // SAFETY: the callback has the signature that the helper calls, and its context lives on the caller's stack.
    let turns = unsafe { platform::repeat(count as u32, callback, context) };
    if turns < 0 { 0 } else { turns as u64 }
}

#[inline(always)]
fn own() -> Option<&'static mut Thread> {
    threads::of(registers_of(current()), false)
}

/// A request is submitted, whose address stands in the list that the context is.
unsafe extern "C" fn submit_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let list = unsafe { *context.cast::<u64>() };
    iotrace_aio_submitted(list + 8 * u64::from(index));
    0
}

/// A request is submitted, whose address stands at `place`, at the moment that the thread holds as `ended`.
///
/// What it needs much of the stack for are functions of their own: all in a chain of calls have 512 bytes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_submitted(place: u64) -> u32 {
    let Some(thread) = own() else { return 0 };
    if read_request(thread, place) == 0 || open_file(thread) == 0 {
        return 0;
    }
    let used = if thread.op() == op::READ {
        direction::READ
    } else {
        direction::WRITE
    };
    phase::sort(thread, thread.file, used, thread.copy);
    // It may be closed before the request ends.
    if !phase::is_named(thread) {
        path::meet(thread, thread.file, thread.copy);
    }
    keep_request(thread);
    0
}

/// Makes the thread's arguments those of the request whose address stands at `place`: its descriptor, buffer, length,
/// offset and address; 0: it is none that is counted.
#[inline(never)]
fn read_request(thread: *mut Thread, place: u64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let address = probe_user(place).unwrap_or(0);
    let Some(iocb) = probe_user::<Iocb>(address) else {
        diagnose::count(diag::AIO_LOST);
        return 0;
    };
    let Some((op, vectored)) = operation(iocb.opcode) else {
        return 0;
    };
    let length = if vectored { NONE } else { iocb.bytes };
    let descriptor = u64::from(iocb.descriptor);
    thread.key.op = op as u32;
    thread.args = [descriptor, iocb.buffer, length, iocb.offset, address];
    1
}

/// Makes the thread's file that of the descriptor among its arguments; 0: it is none that is counted.
#[inline(never)]
fn open_file(thread: *mut Thread) -> u32 {
    // SAFETY: as above.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    match set_unsorted(thread, of_descriptor(current(), thread.args[0] as u32)) {
        Kind::Traced => 1,
        // An error, which the call will return.
        Kind::Closed => 0,
        Kind::Other => {
            diagnose::count(diag::skipped(thread.block));
            0
        }
    }
}

/// Keeps the request that the thread's arguments are of.
#[inline(never)]
fn keep_request(thread: *mut Thread) -> u32 {
    // SAFETY: as above.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    thread.entered = thread.ended;
    merged::begin_beside(thread);
    let [_, buffer, length, offset, address] = thread.args;
    let request = Request {
        entered: thread.entered,
        offset,
        buffer,
        length,
        id: thread.key.io.file,
        file: thread.file,
        block: thread.block,
        phase: thread.key.io.phase,
        flight: thread.flight,
        op: thread.key.op,
        joined: thread.joined,
        direction: thread.direction,
        pad: 0,
    };
    let key = key(thread, address);
    if AIO_REQUESTS.insert(key, request, BPF_ANY).is_err() {
        diagnose::count(diag::AIO_LOST);
        merged::abandon(thread);
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
    let [context, count, list, events, _] = arguments(registers_of(current()));
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
                let _ = AIO_CONTEXTS.remove(key(thread, context));
            }
            return 0;
        }
        _ => {}
    }
    let mut returned = 0;
    if of == shape::IO_GETEVENTS && result > 0 {
        returned = result as u64;
        let count = if returned > MOST { MOST } else { returned };
        take_events(events, Span::new(0, Span::LONGEST, count));
    }
    look(thread, context, returned);
    0
}

/// A new context: nothing was ever in its ring.
#[inline(always)]
fn made(thread: &mut Thread, context: u64) {
    let key = key(thread, context);
    let _ = AIO_CONTEXTS.insert(key, 0, BPF_ANY);
    let _ = AIO_USERS.insert(key.process, 1, BPF_ANY);
}

/// Of `count` requests the kernel took as many as `result` says, or none, for an error of the first.
#[inline(always)]
fn refused(list: u64, count: u64, result: i64) {
    let taken = if result > 0 { result as u64 } else { 0 };
    if taken >= count || count > MOST {
        return;
    }
    let mut first = taken;
    if result < 0 {
        // Of the first it is known why; the others were not looked at.
        if let Some(address) = probe_user(list) {
            iotrace_aio_finished(address, result);
        }
        first = 1;
    }
    let mut rest = list + 8 * first;
    repeat(count - first, refuse_callback, (&raw mut rest).cast());
}

unsafe extern "C" fn refuse_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let list = unsafe { *context.cast::<u64>() };
    if let Some(address) = probe_user(list + 8 * u64::from(index)) {
        iotrace_aio_finished(address, REFUSED);
    }
    0
}

/// Looks at the ring of a context from where it was looked at last. `returned`: events that the kernel has just taken out.
#[inline(always)]
fn look(thread: &mut Thread, context: u64, returned: u64) {
    let span = Span(unseen(thread, context, returned));
    if span.count() == 0 {
        return;
    }
    let taken = take_events(context + size_of::<Ring>() as u64, span);
    seen(thread, context, span.0, taken, returned);
}

/// The results in the ring of a context that were not looked at yet.
#[inline(never)]
fn unseen(thread: *mut Thread, context: u64, returned: u64) -> u64 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let key = key(thread, context);
    let ring = probe_user::<Ring>(context);
    let Some(seen) = AIO_CONTEXTS.get_ptr_mut(key) else {
        // Made before the trace began, or the program has not used the ring's memory.
        if let Some(ring) = ring
            && is_ring(&ring)
        {
            let _ = AIO_CONTEXTS.insert(key, u64::from(ring.head), BPF_ANY);
            let _ = AIO_USERS.insert(key.process, 1, BPF_ANY);
        }
        return 0;
    };
    let Some(ring) = ring else {
        // SAFETY: a map value. All that was taken out of the ring the kernel has.
        unsafe { *seen += returned };
        return 0;
    };
    if !is_ring(&ring) {
        return 0;
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
    Span::new(first, all, count).0
}

/// Of the results of a span `taken` were counted.
#[inline(never)]
fn seen(thread: *mut Thread, context: u64, span: u64, taken: u64, returned: u64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let key = key(thread, context);
    let Some(seen) = AIO_CONTEXTS.get_ptr_mut(key) else {
        return 0;
    };
    let mut next = Span(span).first() + taken;
    // Where its memory is not mapped, nobody but the kernel has taken anything out.
    if taken < Span(span).count()
        && returned > 0
        && let Some(ring) = probe_user::<Ring>(context)
    {
        next = u64::from(ring.head);
    }
    // SAFETY: a map value.
    unsafe { ptr::write_volatile(seen, next) };
    0
}

#[inline(always)]
fn is_ring(ring: &Ring) -> bool {
    let Ring {
        events, head, tail, ..
    } = *ring;
    ring.magic == MAGIC && events > 0 && u64::from(events) <= MOST && head < events && tail < events
}

/// Where results stand in an array that begins anew behind its last element: the first of them, the elements of the
/// array, and the number of results, in 20 bits each.
#[derive(Clone, Copy)]
struct Span(u64);

impl Span {
    const BITS: u32 = 20;
    const LONGEST: u64 = (1 << Self::BITS) - 1;

    #[inline(always)]
    fn new(first: u64, all: u64, count: u64) -> Self {
        Self(first | all << Self::BITS | count << (2 * Self::BITS))
    }

    #[inline(always)]
    fn first(self) -> u64 {
        self.0 & Self::LONGEST
    }

    #[inline(always)]
    fn all(self) -> u64 {
        self.0 >> Self::BITS & Self::LONGEST
    }

    #[inline(always)]
    fn count(self) -> u64 {
        self.0 >> (2 * Self::BITS) & Self::LONGEST
    }
}

/// Results in a program's memory.
#[repr(C)]
struct Events {
    base: u64,
    span: Span,
}

/// Counts the requests whose results stand at `base`; how many could be read.
#[inline(always)]
fn take_events(base: u64, span: Span) -> u64 {
    let mut events = Events { base, span };
    // One turn more, which ends it: so a turn that ends it for another reason is told by their number.
    let turns = repeat(span.count() + 1, event_callback, (&raw mut events).cast());
    turns.saturating_sub(1)
}

unsafe extern "C" fn event_callback(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context stands on the caller's stack.
    let Events { base, span } = unsafe { &*context.cast::<Events>() };
    let index = u64::from(index);
    if index >= span.count() {
        return 1;
    }
    let mut place = span.first() + index;
    if place >= span.all() {
        place -= span.all();
    }
    let event = probe_user::<Event>(base + place * size_of::<Event>() as u64);
    let Some(event) = event else { return 1 };
    iotrace_aio_finished(event.iocb, event.result);
    0
}

/// Takes the request at `address` out of the map.
#[inline(always)]
fn take(thread: &Thread, address: u64) -> Option<Request> {
    let key = key(thread, address);
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
}

/// Takes the request at `address` for the thread's call; 0: it was counted before. A function of its own, since the request
/// would be on the stack of all that counts it, which is 512 bytes for all functions in a chain of calls.
#[inline(never)]
fn recall(thread: *mut Thread, address: u64) -> u32 {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return 0;
    };
    let Some(request) = take(thread, address) else {
        return 0;
    };
    set_request(thread, &request);
    1
}

/// Counts the request at `address`, unless it was counted before. `result`: that of its end, or [`REFUSED`].
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_aio_finished(address: u64, result: i64) -> u32 {
    let Some(thread) = own() else { return 0 };
    if recall(thread, address) == 0 {
        return 0;
    }
    if identify(thread.file, false).id != thread.key.io.file {
        // Closed meanwhile, and something else by now.
        thread.file = 0;
    }
    if result == REFUSED {
        merged::abandon(thread);
        return 0;
    }
    thread.union_ns = merged::end(thread);
    if result < 0 {
        thread.key.errno = -result as u32;
        oplog::operation(thread, result);
        account::failure_here(thread);
    } else if thread.op() <= op::WRITE {
        exit::data::<false>(thread, result as u64);
    } else {
        exit::metadata::<false>(thread, result);
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
        global::forget(joined, entered);
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
