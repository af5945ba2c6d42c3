//! One program of an object: loaded and attached, and the errors of both.

use std::{
    path::Path,
    sync::Mutex,
    thread::{self, available_parallelism},
};

use aya::{
    Btf, Ebpf, Endianness,
    programs::{BtfTracePoint, Program, ProgramError, ProgramInfo, tp_btf::BtfTracePointLinkId},
};

use super::{
    KernelError,
    btf::Types,
    error::{chain, errno_of, hint},
    load::read_types,
};

/// What an iterator over tasks is loaded for.
pub const TASKS: &str = "task";
/// Hooks of all system calls.
const CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
/// How often a program is loaded at most while signals come.
const MAX_LOADS: u32 = 50;

/// What BTF programs attach by, of the running kernel's type information.
pub fn attach_points(types: &Types) -> Result<Btf, KernelError> {
    Btf::parse(&types.of_hooks(), Endianness::default()).map_err(|error| KernelError::Load {
        reason: chain(&error),
        hint: "\niotrace attaches by the kernel's type information",
    })
}

/// The same, of the kernel's own type information, or of a copy in `file`.
pub fn read_attach_points(file: Option<&Path>) -> Result<Btf, KernelError> {
    attach_points(&read_types(file)?)
}

/// Loads the programs at the same time, on as many CPUs as there are: the verifier takes up to half a second for one.
/// A program that cannot be loaded is left out, and who attaches it finds its error.
pub fn load_together(ebpf: &mut Ebpf, wanted: &[(&'static str, &str)], btf: &Btf) {
    let programs = ebpf.programs_mut().filter_map(|(name, program)| {
        let (_, hook) = wanted.iter().find(|(wanted, _)| *wanted == name)?;
        Some((program, *hook))
    });
    let mut programs: Vec<_> = programs.collect();
    // The last is taken first: those of calls take the verifier longest.
    programs.sort_by_key(|(_, hook)| CALLS.contains(hook));
    let workers = available_parallelism()
        .map_or(1, usize::from)
        .min(programs.len());
    let queue = Mutex::new(programs);
    let next = || queue.lock().ok()?.pop();
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((program, hook)) = next() {
                    let _ = undisturbed(|| match program {
                        Program::BtfTracePoint(program) => program.load(hook, btf),
                        Program::PerfEvent(program) => program.load(),
                        Program::Iter(program) => program.load(TASKS, btf),
                        // It is loaded where it is attached.
                        _ => Ok(()),
                    });
                }
            });
        }
    });
}

/// Loads a program for a hook.
pub fn load(
    program: &'static str,
    hook: &str,
    attempt: impl FnMut() -> Result<(), ProgramError>,
) -> Result<(), KernelError> {
    undisturbed(attempt).map_err(|error| program_error(program, hook, &error))
}

/// Loads a program, again if a signal came meanwhile: the verifier gives up with `EAGAIN` then.
fn undisturbed(mut attempt: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    let is_disturbed = |error: &ProgramError| {
        matches!(error, ProgramError::LoadError { io_error, .. }
            if io_error.raw_os_error() == Some(libc::EAGAIN))
    };
    for _ in 1..MAX_LOADS {
        match attempt() {
            Err(error) if is_disturbed(&error) => {}
            loaded => return loaded,
        }
    }
    attempt()
}

/// Loads the programs that are not yet loaded.
pub fn load_raw(
    ebpf: &mut Ebpf,
    hooks: &[(&'static str, &str)],
    btf: &Btf,
) -> Result<(), KernelError> {
    for (name, hook) in hooks {
        let program: &mut BtfTracePoint = program(ebpf, name)?;
        if program.fd().is_err() {
            load(name, hook, || program.load(hook, btf))?;
        }
        log_size(name, program.info());
    }
    Ok(())
}

/// Loads the programs that are not yet loaded, then attaches all: the hooks are to come on together.
pub fn attach_raw(
    ebpf: &mut Ebpf,
    hooks: &[(&'static str, &str)],
    btf: &Btf,
) -> Result<(), KernelError> {
    load_raw(ebpf, hooks, btf)?;
    for (name, hook) in hooks {
        attach_one(ebpf, name, hook)?;
    }
    Ok(())
}

/// Attaches a program that is loaded.
pub fn attach_one(
    ebpf: &mut Ebpf,
    name: &'static str,
    hook: &str,
) -> Result<BtfTracePointLinkId, KernelError> {
    let program: &mut BtfTracePoint = program(ebpf, name)?;
    program.attach().map_err(|error| attach_error(hook, &error))
}

/// Says how much of its limit of a million steps the verifier took for a program.
pub fn log_size(name: &str, info: Result<ProgramInfo, ProgramError>) {
    let steps = info.ok().and_then(|info| info.verified_instruction_count());
    log::debug!("program {name}: verified in {} steps", steps.unwrap_or(0));
}

/// The program of this name and type.
pub fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, KernelError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let missing = KernelError::Missing {
        kind: "program",
        name,
    };
    let Some(program) = ebpf.program_mut(name) else {
        return Err(missing);
    };
    program.try_into().map_err(|_| missing)
}

fn program_error(program: &'static str, hook: &str, error: &ProgramError) -> KernelError {
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        let (reason, hint) = (chain(error), hint(errno_of(error)));
        return KernelError::Program {
            program,
            hook: hook.into(),
            reason,
            hint,
        };
    };
    if io_error.raw_os_error() == Some(libc::EPERM) {
        return KernelError::Privilege(io_error.to_string());
    }
    let log = verifier_log.to_string();
    log::debug!("verifier log of {program}:\n{log}");
    let reason = format!("{io_error}; the verifier says: {}", verdict(&log));
    KernelError::Program {
        program,
        hook: hook.into(),
        reason,
        hint: "",
    }
}

/// The line of a verifier's log that says what it refused: the last one before its statistics.
fn verdict(log: &str) -> &str {
    const STATISTICS: [&str; 4] = ["processed ", "verification time ", "stack depth ", "insns_"];
    let told = |line: &&str| !STATISTICS.iter().any(|start| line.starts_with(start));
    log.lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .find(told)
        .unwrap_or("nothing")
}

pub fn attach_error(hook: &str, error: &ProgramError) -> KernelError {
    KernelError::Attach {
        hook: hook.into(),
        reason: chain(error),
        hint: hint(errno_of(error)),
    }
}
