//! The hooks that do nothing: what every tracer on these hooks pays at least.
//!
//! Raw tracepoints `sys_enter` and `sys_exit`, which the kernel calls in the same way as the BTF ones
//! that iotrace uses; the difference is in the verifier. A program is one to three instructions,
//! written here, so that no compiler adds to the floor.

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};

const PROG_LOAD: c_int = 5;
const PROG_GET_NEXT_ID: c_int = 11;
const RAW_TRACEPOINT_OPEN: c_int = 17;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// What the programs do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Return.
    Empty,
    /// Read the clock and return.
    Clock,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    const fn new(code: u8, immediate: i32) -> Self {
        Self {
            code,
            registers: 0,
            offset: 0,
            immediate,
        }
    }
}

/// `call bpf_ktime_get_ns; r0 = 0; exit`.
const CLOCK: [Instruction; 3] = [
    Instruction::new(0x85, 5),
    Instruction::new(0xb7, 0),
    Instruction::new(0x95, 0),
];

/// The part of `union bpf_attr` that `BPF_PROG_LOAD` needs.
#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

/// That of `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
#[derive(Default)]
struct OpenAttr {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// That of `BPF_PROG_GET_NEXT_ID`.
#[repr(C)]
#[derive(Default)]
struct NextAttr {
    start_id: u32,
    next_id: u32,
    open_flags: u32,
}

/// A pair of programs on the hooks, until it is dropped.
pub struct Pair {
    _links: [OwnedFd; 2],
}

/// Attaches a pair.
pub fn attach(body: Body) -> Result<Pair> {
    let program = load(body).with_context(|| format!("the kernel refuses the {body:?} program"))?;
    let open = |hook: &CStr| {
        let fd = open(hook, &program);
        fd.with_context(|| format!("the kernel refuses the hook {hook:?}"))
    };
    Ok(Pair {
        _links: [open(c"sys_exit")?, open(c"sys_enter")?],
    })
}

fn load(body: Body) -> io::Result<OwnedFd> {
    let instructions = if body == Body::Clock {
        &CLOCK[..]
    } else {
        &CLOCK[1..]
    };
    let mut attr = LoadAttr {
        prog_type: PROG_TYPE_RAW_TRACEPOINT,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..LoadAttr::default()
    };
    owned(bpf(PROG_LOAD, &mut attr))
}

fn open(hook: &CStr, program: &OwnedFd) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    let mut attr = OpenAttr {
        name: hook.as_ptr() as u64,
        prog_fd,
        pad: 0,
    };
    owned(bpf(RAW_TRACEPOINT_OPEN, &mut attr))
}

/// How many BPF programs are loaded on this system. One that is attached is loaded, too.
pub fn loaded() -> usize {
    let mut attr = NextAttr::default();
    let mut count = 0;
    while bpf(PROG_GET_NEXT_ID, &mut attr) == 0 {
        attr.start_id = attr.next_id;
        count += 1;
    }
    count
}

fn bpf<A>(command: c_int, attr: &mut A) -> c_long {
    // SAFETY: the attribute is one of bpf(2)'s, and all that it points to outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr),
            size_of::<A>(),
        )
    }
}

fn owned(result: c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as c_int) })
}
