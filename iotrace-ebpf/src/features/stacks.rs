//! Stacks of native programs: what opened a file, where that is wanted ([`STACKS`]) and the process runs no Python.
//!
//! The kernel can follow frame pointers alone, which most programs and glibc's `open` use for something else. So the registers and
//! the top of the stack are sent at first sight, and the daemon unwinds them by the program's own tables. A stack is known by what
//! returns into the executable: the words of its top that are addresses of its code. Sends `NATIVE_STACK`, writes `STACKS_SENT`.

use core::ffi::c_void;

use aya_ebpf::{btf_maps::PerCpuArray, helpers::generated};
use iotrace_common::{
    diag, event,
    limits::COPIES,
    lines::{NativeStack, STACK_BYTES},
};

use super::lines::{HASH_START, PAGE, STACKS_SENT, header, mixed, peek, poke, send};
use crate::{
    core::{
        config::{
            MM_CODE_END, MM_CODE_START, REGS_BYTES, REGS_INSTRUCTION, REGS_STACK, STACKS,
            TASK_EXECS, TASK_MM,
        },
        diagnose,
        maps::SCOPE,
        memory::{load, pid_tgid},
    },
    platform::{current, load_of, registers_of, repeat, running::start_of},
};

const WORDS: usize = STACK_BYTES / 8;

/// A stack under way; larger than the stack of a program.
#[repr(C)]
struct Top {
    stack: NativeStack,
    words: [u64; WORDS],
    hash: u64,
    /// The code of the executable.
    start: u64,
    end: u64,
}

opaque_map! {
    static STACK_TOPS: PerCpuArray<Top, COPIES> = PerCpuArray::new();
}

#[inline(always)]
fn top(copy: u32) -> Option<&'static mut Top> {
    let top = STACK_TOPS.get_ptr_mut(copy)?;
    // SAFETY: this CPU's and this program's own scratch.
    unsafe { top.as_mut() }
}

/// Number of the stack of the running thread, which runs no Python; 0: none is known. Global, with a number for its argument, as
/// [`super::lines::iotrace_stack`] is.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn iotrace_native_stack(copy: u32) -> u64 {
    if !STACKS.is_set() {
        return 0;
    }
    let Some(top) = top(copy) else { return 0 };
    let registers = registers_of(current());
    // SAFETY: the registers that the task entered the kernel with.
    let (from, instruction) = unsafe {
        (
            load_of::<u64>(registers, &REGS_STACK),
            load_of::<u64>(registers, &REGS_INSTRUCTION),
        )
    };
    // SAFETY: the running task and its memory.
    unsafe {
        let memory = load_of(current(), &TASK_MM);
        top.start = load(memory, &MM_CODE_START);
        top.stack.code = top.start;
        top.end = load(memory, &MM_CODE_END);
        top.stack.execs = load_of(current(), &TASK_EXECS);
    }
    let Some(length) = read_top(top, from) else {
        diagnose::count(diag::LINES_UNREAD);
        return 0;
    };
    let (tgid, _) = pid_tgid();
    let process = mixed(HASH_START ^ u64::from(tgid), start_of(current()));
    let round = SCOPE.get(0).map_or(0, |scope| scope.stacks_round);
    top.hash = mixed(mixed(mixed(process, round), top.stack.execs), instruction);
    let mut context = copy;
    // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
    unsafe { repeat(WORDS as u32, hash_callback, (&raw mut context).cast()) };
    let number = peek(&raw const top.hash) | 1;
    // SAFETY: the value is not kept.
    if unsafe { STACKS_SENT.get(number) }.is_some() {
        return number;
    }
    // SAFETY: the registers have so many bytes, and the room is larger.
    let failed = unsafe {
        generated::bpf_probe_read_kernel(
            top.stack.registers.as_mut_ptr().cast(),
            REGS_BYTES.load() as u32,
            registers,
        )
    };
    top.stack.header = header(event::NATIVE_STACK, length);
    top.stack.number = number;
    let event = (&raw const top.stack).cast();
    let bytes = u64::from(length) & (2 * STACK_BYTES as u64 - 1);
    if failed == 0 && send(event, size_of::<NativeStack>() as u64 + bytes) {
        // An LRU map takes every insert.
        let _ = STACKS_SENT.insert(number, 1, 0);
    } else {
        diagnose::count(diag::LINES_UNSENT);
    }
    number
}

/// Reads the top of the stack: all of it, or up to the end of its page. The bytes; none if none can be read.
#[inline(always)]
fn read_top(top: &mut Top, from: u64) -> Option<u32> {
    let to = top.words.as_mut_ptr().cast::<c_void>();
    let rest = PAGE - (from & (PAGE - 1));
    // SAFETY: both lengths are at most the size of the buffer.
    unsafe {
        if generated::bpf_probe_read_user(to, STACK_BYTES as u32, from as *const c_void) == 0 {
            return Some(STACK_BYTES as u32);
        }
        // What could not be read is zero.
        (generated::bpf_probe_read_user(to, rest as u32, from as *const c_void) == 0)
            .then_some(rest as u32)
    }
}

/// Takes a word, if it is an address of the executable's code.
unsafe extern "C" fn hash_callback(index: u32, copy: *mut c_void) -> i64 {
    // SAFETY: the context is the copy's number, on the stack of the caller, which does not use the scratch during the loop.
    let Some(top) = top(unsafe { *copy.cast::<u32>() }) else {
        return 1;
    };
    let word = peek(&raw const top.words[index as usize & (WORDS - 1)]);
    if word >= peek(&raw const top.start) && word < peek(&raw const top.end) {
        let hash = mixed(peek(&raw const top.hash), word);
        poke(&raw mut top.hash, hash);
    }
    0
}
