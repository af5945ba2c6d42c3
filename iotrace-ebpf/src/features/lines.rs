//! Lines of Python programs: which one opened a file, and which one made a slow call, of threads of which that is wanted
//! ([`Thread::keeps_lines`]). What is counted here is counted by the stacks of other programs, too ([`super::stacks`]).
//!
//! The frames of a thread are walked at the end of its call, in its own context: it runs no Python in a system call, so they
//! are those of the call. The daemon puts the interpreter of a process into `PYTHONS`; children inherit it. Each frame's code
//! must be an object of the interpreter's own type for code, or nothing is believed. Writes `LINE_COUNTS`, `LINED_FILES` (the
//! line of each open file) and `STACKS_SENT`; sends `STACK`, `CODE` and `LINE_TABLE` events at first sight, since code objects
//! do not live as long as what they did is told of. Sends `CODE_MAPPED` for each mapping of code by a process whose interpreter is
//! not known.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    btf_maps::{LruHashMap, PerCpuArray},
    helpers::generated,
};
use iotrace_common::{
    diag,
    event::{self, Header},
    key::FileId,
    limits::{COPIES, EVENT_RING_BYTES, LINED_FILE_ENTRIES},
    lines::{
        CODE_CONSTANT, CODE_WORDS, Code, FRAME_BYTES, FRAMES, Frame, LineCounts, LineKey,
        NO_CFRAME, PIECE_BYTES, PIECES, Piece, Python, SLOW_NS, STRING_BYTES, Stack,
    },
    op,
    scope::kept,
};

use super::stacks;
use crate::{
    core::{
        cells,
        config::{LINES, TASK_THREAD_POINTER},
        diagnose,
        maps::{BPF_NOEXIST, EVENTS, LINE_COUNTS, SCOPE},
        memory::{load, now, pid_tgid, probe_user},
        thread::Thread,
    },
    platform::{current, fetch_add, repeat, running::start_of},
};

/// Threads of a process that are looked at.
const MOST_THREADS: u32 = 4096;
/// FNV-1a, by words.
pub(super) const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_FACTOR: u64 = 0x0100_0000_01b3;
/// Owners of a frame from here on are the interpreter itself (`FRAME_OWNED_BY_CSTACK`).
const OWNED_BY_INTERPRETER: u64 = 3;
/// `PyObject`: the type; `PyVarObject`: the size; `PyBytesObject`: the bytes.
const OBJECT_TYPE: u64 = 8;
const OBJECT_SIZE: u64 = 16;
const BYTES_DATA: u64 = 32;
/// Pointers may have marks in these bits.
const POINTER_MARKS: u64 = 7;
pub(super) const PAGE: u64 = 4096;
/// `PROT_EXEC`.
const EXECUTABLE: u64 = 4;
/// `BPF_RB_AVAIL_DATA`.
const AVAILABLE_DATA: u64 = 0;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: u64 = 2;
/// Words that a frame or a code object has room for, a power of two.
const WORDS: usize = 32;
/// Room for frames, a power of two.
const ROOM: usize = FRAMES.next_power_of_two();

/// The line of an open file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Lined {
    stack: u64,
    /// The address may have become another file's.
    file: FileId,
}

opaque_map! {
    static LINED_FILES: LruHashMap<u64, Lined, { LINED_FILE_ENTRIES as usize }> = LruHashMap::new();
}

maps! {
    PYTHONS;
}

maps! {
    pub(super) STACKS_SENT;
}

/// A code object of a stack.
#[repr(C)]
#[derive(Clone, Copy)]
struct Met {
    filename: u64,
    qualname: u64,
    line_table: u64,
    first_line: u64,
}

#[repr(C)]
struct StackScratch {
    stack: Stack,
    frames: [Frame; ROOM],
}

#[repr(C)]
struct PieceScratch {
    piece: Piece,
    bytes: [u8; PIECE_BYTES],
}

/// A walk under way; larger than the stack.
#[repr(C)]
struct Walk {
    python: Python,
    /// The thread's pointer, the state that is looked at, and the one that is its own.
    thread_id: u64,
    state: u64,
    own: u64,
    /// The next frame.
    frame: u64,
    hash: u64,
    count: u64,
    is_bad: u64,
    /// The code object that is sent, and how far its line table is: 0: it is not begun.
    sending: u64,
    sent: u64,
    words: [u64; WORDS],
    met: [Met; ROOM],
    stack: StackScratch,
    code: Code,
    piece: PieceScratch,
}

opaque_map! {
    static WALKS: PerCpuArray<Walk, COPIES> = PerCpuArray::new();
}

/// The walk of the running program.
#[inline(always)]
fn walk(copy: u32) -> Option<&'static mut Walk> {
    let walk = WALKS.get_ptr_mut(copy)?;
    // SAFETY: this CPU's and this program's own scratch.
    unsafe { walk.as_mut() }
}

/// The walk of a callback.
///
/// # Safety
/// The context is the copy's number.
#[inline(always)]
unsafe fn walk_of(copy: *mut c_void) -> Option<&'static mut Walk> {
    // SAFETY: the context is on the stack of the caller, which does not use the walk during the loop.
    walk(unsafe { *copy.cast::<u32>() })
}

/// What a loop has written, which the compiler cannot know.
#[inline(always)]
pub(super) fn peek(word: *const u64) -> u64 {
    // SAFETY: a field of the running program's own scratch.
    unsafe { ptr::read_volatile(word) }
}

#[inline(always)]
pub(super) fn poke(word: *mut u64, value: u64) {
    // SAFETY: as in `peek`.
    unsafe { ptr::write_volatile(word, value) }
}

/// The thread's call has opened a file.
#[inline(always)]
pub fn opened(thread: &mut Thread) {
    if thread.keeps_lines() && thread.file != 0 && !thread.key.io.file.is_none() {
        by_line(thread);
    }
}

// Functions of their own, since all in a chain of calls have 512 bytes of stack.
#[inline(never)]
fn by_line(thread: *mut Thread) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    let stack = stack_of(thread);
    if stack == 0 {
        // Not there where the address is new.
        let _ = LINED_FILES.remove(thread.file);
    } else {
        let lined = Lined {
            stack,
            file: thread.key.io.file,
        };
        // An LRU map takes every insert.
        let _ = LINED_FILES.insert(thread.file, lined, 0);
    }
    count(ptr::from_ref(thread).cast_mut(), stack, 0);
}

/// The thread's call did something with an open file, and moved so many bytes.
#[inline(always)]
pub fn used(thread: &Thread, bytes: u64) {
    if thread.keeps_lines() && thread.file != 0 && thread.op() != op::OPEN {
        by_file(ptr::from_ref(thread).cast_mut(), bytes);
    }
}

#[inline(never)]
fn by_file(thread: *mut Thread, bytes: u64) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    // SAFETY: the value is not kept.
    let Some(lined) = (unsafe { LINED_FILES.get(thread.file) }) else {
        return;
    };
    let (id, own) = (&lined.file, &thread.key.io.file);
    if id.inode == own.inode && id.device == own.device && id.generation == own.generation {
        let stack = lined.stack;
        count(thread, stack, bytes);
    }
}

/// When the thread's call began, for [`ended`]: what counts it may change that.
#[inline(always)]
pub fn began(thread: &Thread) -> u64 {
    if thread.keeps_lines() {
        thread.entered
    } else {
        0
    }
}

/// The thread's call has ended, which began then.
#[inline(always)]
pub fn ended(thread: &mut Thread, began: u64) {
    if !thread.keeps_lines() {
        return;
    }
    let ns = thread.ended - began;
    if ns >= SLOW_NS {
        slow(thread, ns);
    }
}

#[inline(never)]
fn slow(thread: *mut Thread, ns: u64) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    let stack = stack_of(thread);
    if stack != 0
        && let Some(counts) = entry(&key(thread, stack))
    {
        // SAFETY: aligned words of a map value, which the threads of a process share.
        unsafe {
            fetch_add(&raw mut (*counts).slow, 1);
            fetch_add(&raw mut (*counts).slow_ns, ns);
        }
    }
}

/// A process was made, which runs its parent's program and of which this is kept.
#[inline(always)]
pub fn forked(parent: u32, child: u32, kept: u32) {
    if !LINES.is_set() || kept & kept::LINES == 0 {
        return;
    }
    // SAFETY: the value is not kept.
    if let Some(python) = unsafe { PYTHONS.get(parent) } {
        // Where there is no room, its calls count for no line.
        let _ = PYTHONS.insert(child, python, 0);
    }
}

/// A process runs another program, or has ended.
#[inline(always)]
pub fn forget(process: u32) {
    if LINES.is_set() && SCOPE.get(0).is_some_and(|scope| scope.lines != 0) {
        // Most processes run no Python.
        let _ = PYTHONS.remove(process);
    }
}

/// Tells of the thread's call, if it has mapped a file as code and the process has no interpreter yet.
#[inline(always)]
pub fn mapped(thread: &Thread) {
    if thread.keeps_python() && thread.op() == op::MMAP && thread.args[2] & EXECUTABLE != 0 {
        code_mapped();
    }
}

#[inline(never)]
fn code_mapped() {
    let (tgid, _) = pid_tgid();
    // SAFETY: the value is not kept.
    if unsafe { PYTHONS.get(tgid) }.is_some() {
        return;
    }
    let header = header(event::CODE_MAPPED, 0);
    if !send(ptr::from_ref(&header).cast(), size_of::<Header>() as u64) {
        diagnose::count(diag::EVENTS_DROPPED);
    }
}

#[inline(always)]
fn key(thread: &Thread, stack: u64) -> LineKey {
    LineKey {
        tgid: thread.key.io.tgid,
        start: thread.key.io.start,
        phase: thread.key.io.phase_code(),
        pad: 0,
        stack,
    }
}

/// Counts the thread's call for a line.
#[inline(never)]
fn count(thread: *mut Thread, stack: u64, bytes: u64) {
    // SAFETY: the caller's own reference.
    let Some(thread) = (unsafe { thread.as_mut() }) else {
        return;
    };
    let Some(counts) = entry(&key(thread, stack)) else {
        return diagnose::count(diag::LINES_LOST);
    };
    let op = thread.op();
    // SAFETY: aligned words of a map value, which the threads of a process share.
    unsafe {
        let calls = match op {
            op::OPEN => &raw mut (*counts).opens,
            op::READ => &raw mut (*counts).reads,
            op::WRITE => &raw mut (*counts).writes,
            _ => &raw mut (*counts).others,
        };
        fetch_add(calls, 1);
        fetch_add(&raw mut (*counts).ns, thread.ns());
        if bytes != 0 && op::is_read(op) {
            fetch_add(&raw mut (*counts).bytes_read, bytes);
        } else if bytes != 0 {
            fetch_add(&raw mut (*counts).bytes_written, bytes);
        }
    }
}

/// The entry of a key, made if it is new.
#[inline(always)]
fn entry(key: &LineKey) -> Option<*mut LineCounts> {
    let map = LINE_COUNTS.get(cells::current_half())?;
    if let Some(found) = map.get_ptr_mut(key) {
        return Some(found);
    }
    // Where the insert fails, the look says so.
    let _ = map.insert(key, LineCounts::default(), BPF_NOEXIST);
    map.get_ptr_mut(key)
}

/// Number of the stack of the running thread; 0: none is known.
#[inline(always)]
fn stack_of(thread: &mut Thread) -> u64 {
    // Of the programs at the end of calls ([`crate::core::maps::scratch::exit`]).
    let copy = thread.copy >> 1;
    let (tgid, _) = pid_tgid();
    // SAFETY: the value is not kept.
    let runs_python = thread.keeps_python() && unsafe { PYTHONS.get(tgid) }.is_some();
    if !runs_python {
        return match thread.keeps_stacks() {
            true => stacks::iotrace_native_stack(copy),
            false => 0,
        };
    }
    let stack = iotrace_stack(copy, thread.python_state);
    if let Some(walk) = walk(copy) {
        thread.python_state = peek(&raw const walk.own);
    }
    stack
}

/// Walks the frames of the running thread, whose state in the interpreter is thought to be at `known`. Global, with numbers for
/// arguments: so the verifier looks at it once and not at each of its calls.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_stack(copy: u32, known: u64) -> u64 {
    // Before Linux 6.8 the verifier looks at it also where nobody calls it, and before 5.17 there is no `bpf_loop`.
    if !LINES.is_set() {
        return 0;
    }
    let Some(walk) = walk(copy) else { return 0 };
    let (tgid, _) = pid_tgid();
    poke(&raw mut walk.own, 0);
    // SAFETY: the value is copied at once.
    let Some(python) = (unsafe { PYTHONS.get(tgid) }) else {
        return 0;
    };
    walk.python = *python;
    // SAFETY: the running task.
    walk.thread_id = unsafe { load(current(), &TASK_THREAD_POINTER) };
    let mut context = copy;
    let layout = &walk.python.layout;
    if known != 0 && read(known, layout.thread_id) == walk.thread_id {
        walk.own = known;
    } else {
        let main = read(walk.python.interpreter, 0);
        walk.state = if main == 0 {
            0
        } else {
            read(main, layout.threads)
        };
        // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
        unsafe { repeat(MOST_THREADS, find_callback, (&raw mut context).cast()) };
    }
    let own = peek(&raw const walk.own);
    if own == 0 {
        // A thread that runs no Python, or a program that has not begun to.
        return 0;
    }
    let mut frame = read(own, layout.frame);
    if layout.inner_frame != NO_CFRAME && frame != 0 {
        frame = read(frame, layout.inner_frame);
    }
    walk.frame = frame;
    walk.hash = HASH_START ^ walk.python.number;
    walk.count = 0;
    walk.is_bad = 0;
    // SAFETY: as above.
    unsafe { repeat(FRAMES as u32, frame_callback, (&raw mut context).cast()) };
    if peek(&raw const walk.is_bad) != 0 {
        diagnose::count(diag::LINES_UNREAD);
        return 0;
    }
    let count = peek(&raw const walk.count);
    if count == 0 {
        return 0;
    }
    let number = peek(&raw const walk.hash) | 1;
    // SAFETY: the value is not kept.
    if unsafe { STACKS_SENT.get(number) }.is_some() {
        return number;
    }
    (walk.sending, walk.sent) = (0, 0);
    let turns = (FRAMES * (PIECES + 1)) as u32;
    // SAFETY: as above.
    unsafe { repeat(turns, send_callback, (&raw mut context).cast()) };
    if peek(&raw const walk.is_bad) != 0 {
        diagnose::count(diag::LINES_UNSENT);
        return number;
    }
    let count = (peek(&raw const walk.count) as usize & (ROOM - 1)) as u64;
    let length = count * size_of::<Frame>() as u64;
    walk.stack.stack = Stack {
        header: header(event::STACK, length as u32),
        number,
        count: count as u32,
        pad: 0,
    };
    let event = (&raw const walk.stack).cast();
    if send(event, size_of::<Stack>() as u64 + length) {
        // An LRU map takes every insert.
        let _ = STACKS_SENT.insert(number, 1, 0);
    } else {
        diagnose::count(diag::LINES_UNSENT);
    }
    number
}

#[inline(always)]
pub(super) fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(HASH_FACTOR);
    hash ^ hash >> 29
}

/// The word of the program's memory at a field; 0 where it cannot be read.
#[inline(always)]
fn read(base: u64, field: u32) -> u64 {
    probe_user(base.wrapping_add(u64::from(field))).unwrap_or(0)
}

/// Looks at the state of a thread.
unsafe extern "C" fn find_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number.
    let Some(walk) = (unsafe { walk_of(copy) }) else {
        return 1;
    };
    let state = peek(&raw const walk.state);
    if state == 0 {
        return 1;
    }
    let layout = &walk.python.layout;
    if read(state, layout.thread_id) == walk.thread_id {
        poke(&raw mut walk.own, state);
        return 1;
    }
    poke(&raw mut walk.state, read(state, layout.next));
    0
}

/// The word that the scratch has of a field at `offset`.
#[inline(always)]
fn word(walk: &Walk, offset: u32) -> u64 {
    peek(&raw const walk.words[offset as usize >> 3 & (WORDS - 1)])
}

/// Reads bytes of the program's memory into the words of the scratch; whether they could be.
#[inline(always)]
fn read_words(walk: &mut Walk, address: u64, bytes: usize) -> bool {
    // SAFETY: the words have room for so many bytes, which are constants of this file.
    unsafe {
        generated::bpf_probe_read_user(
            walk.words.as_mut_ptr().cast(),
            bytes as u32,
            address as *const c_void,
        ) == 0
    }
}

/// Takes a frame.
unsafe extern "C" fn frame_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number.
    let Some(walk) = (unsafe { walk_of(copy) }) else {
        return 1;
    };
    let frame = peek(&raw const walk.frame);
    if frame == 0 {
        return 1;
    }
    if !read_words(walk, frame, FRAME_BYTES) {
        poke(&raw mut walk.is_bad, 1);
        return 1;
    }
    let layout = walk.python.layout;
    let code = word(walk, layout.code) & !POINTER_MARKS;
    let instruction = word(walk, layout.instruction);
    let owner = word(walk, layout.owner) >> ((layout.owner & 7) * 8) & 0xff;
    poke(&raw mut walk.frame, word(walk, layout.previous));
    if owner >= OWNED_BY_INTERPRETER {
        return 0;
    }
    let is_read = read_words(walk, code, CODE_WORDS * 8);
    if !is_read || word(walk, OBJECT_TYPE as u32) != walk.python.code_type {
        poke(&raw mut walk.is_bad, 1);
        return 1;
    }
    let mut number = HASH_START ^ walk.python.number ^ code;
    for word in &walk.words[CODE_CONSTANT..CODE_WORDS] {
        number = mixed(number, peek(word));
    }
    let at = peek(&raw const walk.count) as usize & (ROOM - 1);
    let first_line = word(walk, layout.first_line) >> ((layout.first_line & 7) * 8);
    let met = Met {
        filename: word(walk, layout.filename),
        qualname: word(walk, layout.qualname),
        line_table: word(walk, layout.line_table),
        first_line,
    };
    let into = instruction.wrapping_sub(code);
    walk.met[at] = met;
    walk.stack.frames[at] = Frame {
        code: number,
        instruction: into,
    };
    poke(&raw mut walk.count, at as u64 + 1);
    let mut hash = (peek(&raw const walk.hash) ^ number).wrapping_mul(HASH_FACTOR);
    hash = (hash ^ into).wrapping_mul(HASH_FACTOR);
    poke(&raw mut walk.hash, hash ^ hash >> 29);
    0
}

/// Sends what the stack's code objects are, a piece at each turn. Where one cannot be sent it says so in `is_bad`.
unsafe extern "C" fn send_callback(_index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number.
    let Some(walk) = (unsafe { walk_of(copy) }) else {
        return 1;
    };
    let at = peek(&raw const walk.sending);
    if at >= peek(&raw const walk.count) {
        return 1;
    }
    let index = at as usize & (ROOM - 1);
    let number = peek(&raw const walk.stack.frames[index].code);
    let sent = peek(&raw const walk.sent);
    let table = peek(&raw const walk.met[index].line_table);
    if sent == 0 {
        // SAFETY: the value is not kept.
        if unsafe { STACKS_SENT.get(number) }.is_some() {
            poke(&raw mut walk.sending, at + 1);
            return 0;
        }
        walk.code.header = header(event::CODE, 0);
        walk.code.number = number;
        walk.code.python = walk.python.number;
        walk.code.first_line = peek(&raw const walk.met[index].first_line) as u32;
        walk.code.pad = 0;
        walk.code.table_type = read(table, OBJECT_TYPE as u32);
        walk.code.table_length = read(table, OBJECT_SIZE as u32);
        let (filename, qualname) = (
            peek(&raw const walk.met[index].filename),
            peek(&raw const walk.met[index].qualname),
        );
        string(&mut walk.code.filename, filename);
        string(&mut walk.code.qualname, qualname);
        if !send((&raw const walk.code).cast(), size_of::<Code>() as u64) {
            poke(&raw mut walk.is_bad, 1);
            return 1;
        }
        poke(&raw mut walk.sent, 1);
        return 0;
    }
    // One more than the bytes that were sent.
    let offset = sent - 1;
    let length = peek(&raw const walk.code.table_length);
    if offset >= length || offset >= (PIECES * PIECE_BYTES) as u64 {
        let _ = STACKS_SENT.insert(number, 1, 0);
        poke(&raw mut walk.sent, 0);
        poke(&raw mut walk.sending, at + 1);
        return 0;
    }
    let mut bytes = length - offset;
    if bytes > PIECE_BYTES as u64 {
        bytes = PIECE_BYTES as u64;
    }
    walk.piece.piece = Piece {
        header: header(event::LINE_TABLE, bytes as u32),
        number,
        offset,
    };
    // SAFETY: the bytes have room for so many.
    let failed = unsafe {
        generated::bpf_probe_read_user(
            walk.piece.bytes.as_mut_ptr().cast(),
            bytes as u32,
            (table + BYTES_DATA + offset) as *const c_void,
        )
    };
    let event = (&raw const walk.piece).cast();
    if failed != 0 || !send(event, size_of::<Piece>() as u64 + bytes) {
        poke(&raw mut walk.is_bad, 1);
        return 1;
    }
    poke(&raw mut walk.sent, sent + PIECE_BYTES as u64);
    0
}

/// Copies a string object: its page, and of the next page what can be read.
#[inline(always)]
fn string(to: &mut [u8; STRING_BYTES], address: u64) {
    // SAFETY: both lengths together are the size of the buffer.
    unsafe {
        let whole = generated::bpf_probe_read_user(
            to.as_mut_ptr().cast(),
            STRING_BYTES as u32,
            address as *const c_void,
        );
        if whole == 0 {
            return;
        }
        let mut first = PAGE - (address & (PAGE - 1));
        if first > STRING_BYTES as u64 {
            first = STRING_BYTES as u64;
        }
        // Where this fails as well the helper clears it, and it is no string.
        generated::bpf_probe_read_user(
            to.as_mut_ptr().cast(),
            first as u32,
            address as *const c_void,
        );
    }
}

#[inline(always)]
pub(super) fn header(kind: u32, payload: u32) -> Header {
    let (tgid, tid) = pid_tgid();
    Header {
        kind,
        payload,
        time: now(),
        tgid,
        tid,
        start: start_of(current()),
    }
}

/// Sends an event, and wakes the daemon at once; whether there was room. A program can make any number of stacks: half of the
/// buffer is for other events.
#[inline(always)]
pub(super) fn send(event: *const c_void, size: u64) -> bool {
    let events = (&raw const EVENTS).cast_mut().cast();
    // SAFETY: asks for a number.
    let waiting = unsafe { generated::bpf_ringbuf_query(events, AVAILABLE_DATA) };
    if waiting > u64::from(EVENT_RING_BYTES) / 2 {
        return false;
    }
    // SAFETY: `size` bytes stand at `event`, as the verifier checks.
    unsafe { generated::bpf_ringbuf_output(events, event.cast_mut(), size, FORCE_WAKEUP) == 0 }
}
