//! The page cache and mapped files: what the programs must be told of them, and the hooks.
//!
//! Attaches the BTF raw tracepoint `mm_filemap_add_to_page_cache`, and those of mapped files, `mm_filemap_fault`,
//! `mm_filemap_map_pages` (both since Linux 6.12 at the latest) and `writeback_dirty_folio`. A kernel without them is
//! traced without what they show, and that is said.

use std::str::FromStr as _;

use aya::{Btf, Ebpf};

use super::{
    KernelError,
    attach::attach_raw,
    btf::Types,
    offsets::{self, Setting},
};

/// Fields of folios and of what they belong to.
const FIELDS: [offsets::Optional; 12] = [
    ("FOLIO_FLAGS", "folio", "flags"),
    ("FOLIO_MAPPING", "folio", "mapping"),
    ("FOLIO_INDEX", "folio", "index"),
    ("MAPPING_HOST", "address_space", "host"),
    ("TASK_FLAGS", "task_struct", "flags"),
    ("TASK_MINOR_FAULTS", "task_struct", "min_flt"),
    ("TASK_MAJOR_FAULTS", "task_struct", "maj_flt"),
    ("FILE_FLAGS", "file", "f_flags"),
    ("FILE_PRIVATE", "file", "private_data"),
    ("INODE_DENTRY", "inode", "i_dentry.first"),
    ("DENTRY_ALIAS", "dentry", "d_u.d_alias"),
    ("VFSMOUNT_SB", "vfsmount", "mnt_sb"),
];
/// Where a large folio says how large it is: up to Linux 6.5, and since.
const ORDER: [&str; 2] = ["_folio_order", "_flags_1"];

/// Calls in which files are fetched, but not to be mapped, and which are not traced themselves.
const CALLS: [(&str, &str); 4] = [
    ("NR_IO_URING_ENTER", "io_uring_enter"),
    ("NR_IO_SUBMIT", "io_submit"),
    ("NR_READAHEAD", "readahead"),
    ("NR_FADVISE", "fadvise64"),
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
    let mut settings = offsets::all_optional(types, &FIELDS)?;
    let order = ORDER
        .into_iter()
        .find_map(|path| types.offset("folio", path))
        .ok_or("this kernel's type information has no folio._flags_1")?;
    let is_large = types
        .enumerator("pageflags", "PG_head")
        .ok_or("this kernel's type information has no PG_head")?;
    settings.extend([
        ("FOLIO_ORDER", order),
        ("FOLIO_IS_LARGE", is_large),
        ("PAGE_SHIFT", page_size().ilog2().into()),
        ("O_DIRECT", libc::O_DIRECT as u64),
        ("PAGE_CACHE", 1),
    ]);
    settings.extend(CALLS.iter().filter_map(|(global, name)| {
        let number = syscalls::Sysno::from_str(name).ok()?;
        Some((*global, number as u64))
    }));
    let missing = MAPPED
        .into_iter()
        .map(|(_, hook)| hook)
        .find(|hook| !types.has_tracepoint(hook));
    Ok(Pages { settings, missing })
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

    /// Attaches the hooks on mapped files, or says why not.
    pub fn attach_mapped(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), String> {
        if let Some(hook) = self.missing {
            return Err(format!("this kernel has no tracepoint {hook}"));
        }
        attach_raw(ebpf, &MAPPED, btf).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let pages = find(&types).unwrap();
        let value = |name| {
            let found = pages.settings.iter().find(|(global, _)| *global == name);
            found.map(|(_, value)| *value)
        };
        assert_eq!(value("NR_IO_SUBMIT"), Some(libc::SYS_io_submit as u64));
        assert_eq!(value("FOLIO_FLAGS"), Some(0));
        assert_eq!(types.enumerator("pageflags", "PG_locked"), Some(0));
        assert_eq!(types.enumerator("pageflags", "PG_no_such_flag"), None);
    }
}
