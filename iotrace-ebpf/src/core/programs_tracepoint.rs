//! The programs on per-syscall tracepoints.

use aya_ebpf::{EbpfContext as _, macros::tracepoint, programs::TracePointContext};

use crate::{
    core::{enter, exit, memory::Address},
    platform::{current, registers_of},
};

/// `struct syscall_trace_enter`: the number at offset 8; the arguments are taken from the task's registers, since a
/// program that reads past a record's end cannot be attached to it.
#[tracepoint]
pub fn call_enter(ctx: TracePointContext) -> u32 {
    enter::enter(registers(), number(&ctx), 0);
    0
}

/// `struct syscall_trace_exit`: the number at offset 8, the result at offset 16.
#[tracepoint]
pub fn call_exit(ctx: TracePointContext) -> u32 {
    // SAFETY: the record is at least 24 bytes long.
    let result = unsafe { *ctx.as_ptr().byte_add(16).cast::<i64>() };
    exit::exit(registers(), number(&ctx), result, 0);
    0
}

#[inline(always)]
fn registers() -> Address {
    registers_of(current())
}

#[inline(always)]
fn number(ctx: &TracePointContext) -> u64 {
    // SAFETY: the record is at least 16 bytes long.
    u64::from(unsafe { *ctx.as_ptr().byte_add(8).cast::<u32>() })
}
