//! The table of kernel fields that the programs read: the program's global, the struct and the field.
//!
//! One table serves the loader, the self-test's messages and `iotrace check`.

use iotrace_common::limits::COMPACT_INODE_BYTES;

use super::{KernelError, btf::Types};

/// A global of the programs and the kernel field whose offset it holds.
pub struct Field {
    pub global: &'static str,
    pub structure: &'static str,
    pub path: &'static str,
}

const fn field(global: &'static str, structure: &'static str, path: &'static str) -> Field {
    Field {
        global,
        structure,
        path,
    }
}

/// Fields that every kernel has by these names.
pub const FIELDS: &[Field] = &[
    field("TASK_FILES", "task_struct", "files"),
    field("TASK_FS", "task_struct", "fs"),
    field("TASK_MM", "task_struct", "mm"),
    field("TASK_TGID", "task_struct", "tgid"),
    field("TASK_PID", "task_struct", "pid"),
    field("TASK_GROUP_LEADER", "task_struct", "group_leader"),
    field("TASK_REAL_PARENT", "task_struct", "real_parent"),
    field("TASK_SIGNAL", "task_struct", "signal"),
    field("TASK_START", "task_struct", "start_boottime"),
    field("TASK_COMM", "task_struct", "comm"),
    field("TASK_EXIT_CODE", "task_struct", "exit_code"),
    field("TASK_CRED", "task_struct", "cred"),
    field("CRED_UID", "cred", "uid.val"),
    field("CRED_EUID", "cred", "euid.val"),
    field("CRED_SUID", "cred", "suid.val"),
    field("SIGNAL_LIVE", "signal_struct", "live.counter"),
    field("SIGNAL_THREADS", "signal_struct", "nr_threads"),
    field("SIGNAL_EXIT_CODE", "signal_struct", "group_exit_code"),
    field("MM_EXE_FILE", "mm_struct", "exe_file"),
    field("MM_FLAGS", "mm_struct", "flags"),
    field("MM_ARG_START", "mm_struct", "arg_start"),
    field("MM_ARG_END", "mm_struct", "arg_end"),
    field("MM_ENV_START", "mm_struct", "env_start"),
    field("MM_ENV_END", "mm_struct", "env_end"),
    field("FS_ROOT", "fs_struct", "root"),
    field("FS_PWD", "fs_struct", "pwd"),
    field("FILES_FDT", "files_struct", "fdt"),
    field("FDT_FD", "fdtable", "fd"),
    field("FDT_MAX", "fdtable", "max_fds"),
    field("FILE_INODE", "file", "f_inode"),
    field("FILE_PATH", "file", "f_path"),
    field("FILE_POS", "file", "f_pos"),
    field("FILE_MODE", "file", "f_mode"),
    field("INODE_MODE", "inode", "i_mode"),
    field("INODE_INO", "inode", "i_ino"),
    field("INODE_DEVICE", "inode", "i_rdev"),
    field("INODE_GENERATION", "inode", "i_generation"),
    field("INODE_SB", "inode", "i_sb"),
    field("INODE_SIZE", "inode", "i_size"),
    field("SB_DEV", "super_block", "s_dev"),
    field("SB_BLOCK_SIZE", "super_block", "s_blocksize"),
    field("SB_MAGIC", "super_block", "s_magic"),
    field("DENTRY_PARENT", "dentry", "d_parent"),
    field("DENTRY_INODE", "dentry", "d_inode"),
    field("DENTRY_HASHED", "dentry", "d_hash.pprev"),
    field("VFSMOUNT_ROOT", "vfsmount", "mnt_root"),
    field("MOUNT_VFSMOUNT", "mount", "mnt"),
    field("MOUNT_PARENT", "mount", "mnt_parent"),
];

/// Fields that the programs read as one piece: the second must stand this many bytes behind the first.
const NEIGHBOURS: &[(&str, &str, &str, u64)] = &[
    ("file", "f_path.mnt", "f_path.dentry", 8),
    ("dentry", "d_parent", "d_name.hash_len", 8),
    ("dentry", "d_parent", "d_name.name", 16),
    ("mount", "mnt_parent", "mnt_mountpoint", 8),
    ("path", "mnt", "dentry", 8),
];

/// A global and its value.
pub type Setting = (&'static str, u64);

/// The offsets of all fields for the running machine's kind.
pub fn resolve(types: &Types) -> Result<Vec<Setting>, KernelError> {
    let find = |structure: &'static str, path: &'static str| {
        types.offset(structure, path).ok_or(KernelError::NoField {
            structure,
            field: path,
        })
    };
    for (structure, first, second, distance) in NEIGHBOURS {
        if find(structure, second)? != find(structure, first)? + distance {
            return Err(KernelError::MovedField {
                structure,
                first,
                second,
            });
        }
    }
    let mut settings = FIELDS
        .iter()
        .map(|field| Ok((field.global, find(field.structure, field.path)?)))
        .collect::<Result<Vec<_>, _>>()?;
    settings.push(("INODE_IS_COMPACT", u64::from(inode_is_compact(&settings))));
    settings.extend(registers(&find)?);
    settings.extend(compat(types));
    Ok(settings)
}

/// A field of an optional hook, and its global.
pub type Optional = (&'static str, &'static str, &'static str);

/// The offset of a field that only an optional hook needs; or why it cannot be told.
pub fn optional(types: &Types, structure: &str, path: &str) -> Result<u64, String> {
    types
        .offset(structure, path)
        .ok_or_else(|| format!("this kernel's type information has no {structure}.{path}"))
}

/// The offset of a field that only an optional hook needs and that newer kernels keep in another place; or why it cannot
/// be told.
pub fn either(types: &Types, structure: &str, [before, since]: [&str; 2]) -> Result<u64, String> {
    optional(types, structure, before).or_else(|_| optional(types, structure, since))
}

/// The offsets of all fields of an optional hook; or why one cannot be told.
pub fn all_optional(types: &Types, fields: &[Optional]) -> Result<Vec<Setting>, String> {
    let find =
        |(global, structure, path): &Optional| Ok((*global, optional(types, structure, path)?));
    fields.iter().map(find).collect()
}

/// Whether all fields of a file's identity stand in the first bytes of its inode.
fn inode_is_compact(settings: &[Setting]) -> bool {
    let end = |global: &str| match global {
        "INODE_MODE" => 2,
        "INODE_GENERATION" => 4,
        "INODE_INO" | "INODE_SB" => 8,
        _ => 0,
    };
    settings
        .iter()
        .filter(|(global, _)| end(global) > 0)
        .all(|(global, offset)| offset + end(global) <= COMPACT_INODE_BYTES as u64)
}

/// Where `struct pt_regs` holds the arguments and the number of a system call.
#[cfg(target_arch = "x86_64")]
fn registers(
    find: &impl Fn(&'static str, &'static str) -> Result<u64, KernelError>,
) -> Result<Vec<Setting>, KernelError> {
    [
        ("REGS_ARG0", "di"),
        ("REGS_ARG1", "si"),
        ("REGS_ARG2", "dx"),
        ("REGS_ARG3", "r10"),
        ("REGS_ARG4", "r8"),
        ("REGS_ARG5", "r9"),
        ("REGS_NR", "orig_ax"),
        ("FUNCTION_ARG0", "di"),
        ("FUNCTION_ARG3", "cx"),
        ("REGS_RESULT", "ax"),
        ("REGS_STACK", "sp"),
    ]
    .into_iter()
    .map(|(global, register)| Ok((global, find("pt_regs", register)?)))
    .chain([Ok(("RETURN_POPS", 8))])
    .collect()
}

/// As on x86-64. The first argument is taken from `orig_x0`, because x0 holds the result at the end of the call.
#[cfg(target_arch = "aarch64")]
fn registers(
    find: &impl Fn(&'static str, &'static str) -> Result<u64, KernelError>,
) -> Result<Vec<Setting>, KernelError> {
    let first = find("pt_regs", "regs")?;
    Ok(vec![
        ("REGS_ARG0", find("pt_regs", "orig_x0")?),
        ("REGS_ARG1", first + 8),
        ("REGS_ARG2", first + 16),
        ("REGS_ARG3", first + 24),
        ("REGS_ARG4", first + 32),
        ("REGS_ARG5", first + 40),
        ("REGS_NR", find("pt_regs", "syscallno")?),
        ("FUNCTION_ARG0", first),
        ("FUNCTION_ARG3", first + 24),
        ("REGS_RESULT", first),
        ("REGS_STACK", find("pt_regs", "sp")?),
        ("RETURN_POPS", 0),
    ])
}

/// How a 32-bit system call is told: `TS_COMPAT` in `thread_info.status` on x86-64, `TIF_32BIT` in
/// `thread_info.flags` on arm64. A kernel without the field runs no such calls.
fn compat(types: &Types) -> Vec<Setting> {
    let (path, mask) = if cfg!(target_arch = "aarch64") {
        ("thread_info.flags", 1 << 22)
    } else {
        ("thread_info.status", 2)
    };
    match types.offset("task_struct", path) {
        Some(offset) => vec![("TASK_STATUS", offset), ("TASK_COMPAT_MASK", mask)],
        None => vec![],
    }
}
