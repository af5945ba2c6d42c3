//! What the programs for kernels without type information must be told, and their hooks.
//!
//! The registers of a system call stand where the machine's interface to user space says, the record of `task_newtask` where
//! tracefs says. Attaches the raw tracepoints `sys_enter`, `sys_exit` and `sched_process_exit`, and the tracepoint
//! `task_newtask`.

use std::{fs, path::Path, str::FromStr as _};

use aya::{
    Ebpf,
    programs::{RawTracePoint, TracePoint},
};
use iotrace_common::{
    abi::{Global, Offset, Setting, globals},
    limits::SYSCALLS,
    nobtf::ACTIONS,
};

use super::{
    KernelError,
    program::{attach_error, load, log_size, program},
};

/// The ends first: a call whose start alone was seen would pass for a lost one.
const RAW: [(&str, &str); 3] = [
    ("nobtf_process_exit", "sched_process_exit"),
    ("nobtf_exit", "sys_exit"),
    ("nobtf_enter", "sys_enter"),
];
/// Those on the start and the end of processes.
pub const PROCESS_PROGRAMS: [&str; 2] = [RAW[0].0, NEW_TASK.0];
const NEW_TASK: (&str, &str, &str) = ("nobtf_new_task", "task", "task_newtask");
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// `struct pt_regs` of x86-64 (linux/ptrace.h of the interface to user space).
const REGISTERS: [(Global<Offset>, u64); 9] = [
    (globals::REGS_ARG0, 112),
    (globals::REGS_ARG1, 104),
    (globals::REGS_ARG2, 96),
    (globals::REGS_ARG3, 56),
    (globals::REGS_ARG4, 72),
    (globals::REGS_ARG5, 64),
    (globals::REGS_NR, 120),
    (globals::REGS_SEGMENT, 136),
    (globals::REGS_STACK, 152),
];

/// What the programs must be told of this kernel.
pub fn settings() -> Result<Vec<Setting>, KernelError> {
    let format = TRACEFS.iter().find_map(|tracefs| {
        let (_, category, name) = NEW_TASK;
        let event = Path::new(tracefs).join("events").join(category).join(name);
        fs::read_to_string(event.join("format")).ok()
    });
    let format = format.ok_or_else(|| failed("no tracefs in /sys/kernel/tracing tells of its record\nmount -t tracefs tracefs /sys/kernel/tracing"))?;
    let field = |name: &str| field(&format, name).ok_or_else(|| failed("its record lacks a field"));
    let registers = REGISTERS.iter().map(|(global, offset)| global.set(*offset));
    let mut settings: Vec<Setting> = registers.collect();
    settings.push(globals::NEWTASK_PID.set(field("pid")?));
    settings.push(globals::NEWTASK_FLAGS.set(field("clone_flags")?));
    Ok(settings)
}

fn failed(why: &str) -> KernelError {
    KernelError::Attach {
        hook: NEW_TASK.2.into(),
        reason: why.into(),
        hint: "",
    }
}

/// Offset of a field in a tracepoint's record, by its format file: `field:pid_t pid; offset:8; size:4; signed:1;`.
fn field(format: &str, name: &str) -> Option<u64> {
    format.lines().find_map(|line| {
        let (declared, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let offset = rest.trim().strip_prefix("offset:")?.split(';').next()?;
        (declared.rsplit(' ').next()? == name)
            .then(|| offset.parse().ok())
            .flatten()
    })
}

/// What each system call does to descriptors, by number.
pub fn actions() -> [u8; SYSCALLS] {
    let mut table = [0; SYSCALLS];
    for (name, action) in ACTIONS {
        let number = syscalls::Sysno::from_str(name).ok();
        if let Some(entry) = number.and_then(|number| table.get_mut(number as usize)) {
            *entry = action;
        }
    }
    table
}

/// Loads all programs, then attaches them.
pub fn attach(ebpf: &mut Ebpf) -> Result<(), KernelError> {
    let (name, category, hook) = NEW_TASK;
    let new_task: &mut TracePoint = program(ebpf, name)?;
    load(name, hook, || new_task.load())?;
    for (name, hook) in RAW {
        let program: &mut RawTracePoint = program(ebpf, name)?;
        load(name, hook, || program.load())?;
        log_size(name, program.info());
    }
    let new_task: &mut TracePoint = program(ebpf, name)?;
    new_task
        .attach(category, hook)
        .map_err(|error| attach_error(hook, &error))?;
    for (name, hook) in RAW {
        let program: &mut RawTracePoint = program(ebpf, name)?;
        program
            .attach(hook)
            .map_err(|error| attach_error(hook, &error))?;
    }
    Ok(())
}

/// Takes all programs off, the starts of calls first.
pub fn detach(ebpf: &mut Ebpf) {
    for (name, _) in RAW.iter().rev() {
        if let Ok(program) = program::<RawTracePoint>(ebpf, name) {
            // Fails only where it was never loaded.
            let _ = program.unload();
        }
    }
    if let Ok(program) = program::<TracePoint>(ebpf, NEW_TASK.0) {
        let _ = program.unload();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_a_format() {
        let format = "format:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                      \tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
                      \tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n";
        assert_eq!(field(format, "pid"), Some(8));
        assert_eq!(field(format, "clone_flags"), None);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn registers_stand_where_the_interface_says() {
        let types = crate::kernel::load::read_types(None).unwrap();
        for (global, register) in [
            (globals::REGS_ARG3, "r10"),
            (globals::REGS_NR, "orig_ax"),
            (globals::REGS_STACK, "sp"),
            (globals::REGS_SEGMENT, "cs"),
        ] {
            let (_, offset) = REGISTERS
                .iter()
                .find(|(known, _)| *known == global)
                .unwrap();
            assert_eq!(
                types.offset("pt_regs", register),
                Some(*offset),
                "{register}"
            );
        }
    }
}
