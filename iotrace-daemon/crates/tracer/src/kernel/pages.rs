//! The page cache and mapped files: what the programs must be told of them, and the hooks.
//!
//! Attaches the BTF raw tracepoint `mm_filemap_add_to_page_cache`, and those of mapped files, `mm_filemap_fault`,
//! `mm_filemap_map_pages` (both since Linux 6.12 at the latest) and `writeback_dirty_folio`. A kernel without them is
//! traced without what they show, and that is said. Where major page faults end, a software event of perf tells, which each
//! CPU has for itself.

use std::str::FromStr as _;

use aya::{
    Btf, Ebpf,
    programs::{
        ProgramError,
        perf_event::{PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent},
    },
    util::online_cpus,
};
use iotrace_common::abi::{
    Global, Number, Setting,
    globals::{self, PAGE_FIELDS, TASK_FLAGS_FIELDS},
};

use super::{
    KernelError,
    attach::{attach_raw, program, program_error},
    btf::Types,
    error::{chain, errno_of},
    offsets,
};

/// Calls in which files are fetched, but not to be mapped, and which are not traced themselves.
const CALLS: [(Global<Number>, &str); 4] = [
    (globals::NR_IO_URING_ENTER, "io_uring_enter"),
    (globals::NR_IO_SUBMIT, "io_submit"),
    (globals::NR_READAHEAD, "readahead"),
    (globals::NR_FADVISE, "fadvise64"),
];

const ADDED: &str = "mm_filemap_add_to_page_cache";
/// Programs and tracepoints that see mapped files.
const MAPPED: [(&str, &str); 3] = [
    ("page_fault", "mm_filemap_fault"),
    ("pages_mapped", "mm_filemap_map_pages"),
    ("page_dirtied", "writeback_dirty_folio"),
];

/// In place of a reason why nothing can be told: nothing is wanted.
pub const OFF: &str = "it is turned off";

/// What this kernel's page cache is like.
#[derive(Clone, Debug)]
pub struct Pages {
    pub settings: Vec<Setting>,
    /// The first tracepoint on mapped files that this kernel does not have.
    missing: Option<&'static str>,
}

/// Reads it from the kernel's types; or why nothing of it can be told.
pub fn find(types: &Types) -> Result<Pages, String> {
    if !types.has_tracepoint(ADDED) {
        return Err(format!("this kernel has no tracepoint {ADDED}"));
    }
    let mut settings = offsets::all_optional(types, PAGE_FIELDS)?;
    settings.extend(offsets::all_optional(types, TASK_FLAGS_FIELDS)?);
    let is_large = types
        .enumerator("pageflags", "PG_head")
        .ok_or("this kernel's type information has no PG_head")?;
    settings.extend([
        globals::FOLIO_IS_LARGE.set(is_large),
        globals::PAGE_SHIFT.set(page_size().ilog2().into()),
        globals::O_DIRECT.set(libc::O_DIRECT as u64),
        globals::PAGE_CACHE.set(true),
    ]);
    settings.extend(CALLS.iter().filter_map(|(global, name)| {
        let number = syscalls::Sysno::from_str(name).ok()?;
        Some(global.set(number as u64))
    }));
    let missing = MAPPED
        .into_iter()
        .map(|(_, hook)| hook)
        .find(|hook| !types.has_tracepoint(hook));
    settings.push(globals::FAULTS_BY_FETCH.set(missing.is_some()));
    Ok(Pages { settings, missing })
}

/// Why no perf event could be had on a CPU, and what to do.
fn refused(cpu: u32, error: &ProgramError) -> String {
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

impl Pages {
    /// Attaches the hook on the page cache.
    pub fn attach_cache(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), KernelError> {
        attach_raw(ebpf, &[("page_added", ADDED)], btf)
    }

    /// Whether there are the hooks on mapped files; or which is missing.
    pub fn sees_mapped(&self) -> Result<(), String> {
        match self.missing {
            Some(hook) => Err(format!("this kernel has no tracepoint {hook}")),
            None => Ok(()),
        }
    }

    /// Attaches the hooks on mapped files, or says why not.
    pub fn attach_mapped(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), String> {
        self.sees_mapped()?;
        attach_raw(ebpf, &MAPPED, btf).map_err(|error| error.to_string())
    }

    /// Attaches to the end of major page faults on every CPU, or says why not.
    pub fn attach_fault_ends(&self, ebpf: &mut Ebpf) -> Result<(), String> {
        const NAME: &str = "fault_ended";
        const EVENT: &str = "PERF_COUNT_SW_PAGE_FAULTS_MAJ";
        let ended: &mut PerfEvent = program(ebpf, NAME).map_err(|error| error.to_string())?;
        let load = ended.load();
        load.map_err(|error| program_error(NAME, EVENT, &error).to_string())?;
        let cpus = online_cpus().map_err(|(path, error)| format!("{path}: {error}"))?;
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
                Err(error) => return Err(refused(cpu, &error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let pages = find(&types).unwrap();
        let has = |setting| pages.settings.contains(&setting);
        assert!(has(globals::NR_IO_SUBMIT.set(libc::SYS_io_submit as u64)));
        assert!(has(globals::FOLIO_FLAGS.global.set(0)));
        assert_eq!(types.enumerator("pageflags", "PG_locked"), Some(0));
        assert_eq!(types.enumerator("pageflags", "PG_no_such_flag"), None);
    }
}
