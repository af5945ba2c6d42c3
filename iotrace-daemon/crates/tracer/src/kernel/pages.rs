//! The page cache and mapped files: what the programs must be told of them, and the end of major page faults, a software
//! event of perf, which each CPU has for itself.

use std::str::FromStr as _;

use aya::{
    Ebpf,
    programs::{
        ProgramError,
        perf_event::{PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    util::online_cpus,
};
use iotrace_common::abi::{Global, Number, Setting, globals};

use super::{
    KernelError,
    btf::Types,
    error::{chain, errno_of},
    program::{load, program},
};

/// Calls in which files are fetched, but not to be mapped, and which are not traced themselves.
const CALLS: [(Global<Number>, &str); 4] = [
    (globals::NR_IO_URING_ENTER, "io_uring_enter"),
    (globals::NR_IO_SUBMIT, "io_submit"),
    (globals::NR_READAHEAD, "readahead"),
    (globals::NR_FADVISE, "fadvise64"),
];

/// Reads it from the kernel's types; or why nothing of it can be known.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    let is_large = types
        .enumerator("pageflags", "PG_head")
        .ok_or("this kernel's type information has no PG_head")?;
    let mut settings = vec![
        globals::FOLIO_IS_LARGE.set(is_large),
        globals::PAGE_SHIFT.set(page_size().ilog2().into()),
        globals::O_DIRECT.set(libc::O_DIRECT as u64),
        globals::PAGE_CACHE.set(true),
    ];
    settings.extend(CALLS.iter().filter_map(|(global, name)| {
        let number = syscalls::Sysno::from_str(name).ok()?;
        Some(global.set(number as u64))
    }));
    Ok(settings)
}

/// Why no perf event could be had on a CPU, and what to do.
fn why_refused(cpu: u32, error: &ProgramError) -> String {
    let mend = match errno_of(error) {
        Some(libc::EACCES | libc::EPERM) => {
            ": it takes CAP_PERFMON, and a seccomp filter that lets perf_event_open pass"
        }
        Some(libc::EMFILE) => ": raise the limit of open files, each CPU takes one",
        _ => "",
    };
    format!("no perf event on CPU {cpu}: {}{mend}", chain(error))
}

/// Bytes of a page.
fn page_size() -> u64 {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096).max(1)
}

/// Attaches a program to the end of major page faults on every CPU.
pub fn attach_fault_ends(
    ebpf: &mut Ebpf,
    name: &'static str,
    event: &'static str,
) -> Result<(), KernelError> {
    let refused = |reason| KernelError::Attach {
        hook: event.into(),
        reason,
        hint: "",
    };
    let ended: &mut PerfEvent = program(ebpf, name)?;
    if ended.fd().is_err() {
        load(name, event, || ended.load())?;
    }
    let cpus = online_cpus().map_err(|(path, error)| refused(format!("{path}: {error}")))?;
    for cpu in cpus {
        let attached = ended.attach(
            PerfEventConfig::Software(SoftwareEvent::PageFaultsMaj),
            PerfEventScope::AllProcessesOneCpu { cpu },
            SamplePolicy::Period(1),
            false,
        );
        match attached {
            Ok(_) => {}
            // It went offline since it was listed.
            Err(error) if errno_of(&error) == Some(libc::ENODEV) => {}
            Err(error) => return Err(refused(why_refused(cpu, &error))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let settings = find(&types).unwrap();
        assert!(settings.contains(&globals::NR_IO_SUBMIT.set(libc::SYS_io_submit as u64)));
        assert_eq!(types.enumerator("pageflags", "PG_locked"), Some(0));
        assert_eq!(types.enumerator("pageflags", "PG_no_such_flag"), None);
    }
}
