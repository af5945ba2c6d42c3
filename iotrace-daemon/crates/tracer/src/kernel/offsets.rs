//! Where this kernel keeps the fields that the programs read ([`iotrace_common::abi::globals`]).

use iotrace_common::{
    abi::{
        Field, Setting,
        globals::{self, REQUIRED_FIELDS},
    },
    limits::COMPACT_INODE_BYTES,
};

use super::{KernelError, btf::Types};

/// Fields that the programs read as one piece: the second must stand this many bytes behind the first.
const NEIGHBOURS: &[(&str, &str, &str, u64)] = &[
    ("file", "f_path.mnt", "f_path.dentry", 8),
    ("dentry", "d_parent", "d_name.hash_len", 8),
    ("dentry", "d_parent", "d_name.name", 16),
    ("mount", "mnt_parent", "mnt_mountpoint", 8),
    ("path", "mnt", "dentry", 8),
];

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
    let mut settings = REQUIRED_FIELDS
        .iter()
        .map(|field| Ok(field.global.set(find(field.structure, field.paths[0])?)))
        .collect::<Result<Vec<_>, _>>()?;
    settings.push(globals::INODE_IS_COMPACT.set(inode_is_compact(&settings)));
    settings.extend(registers(&find)?);
    settings.extend(compat(types));
    Ok(settings)
}

/// The offset of a field that only an optional hook needs; or why there is none.
pub fn optional(types: &Types, field: &Field) -> Result<Setting, String> {
    let Field {
        global,
        structure,
        paths,
    } = field;
    let found = paths.iter().find_map(|path| types.offset(structure, path));
    let offset = found.ok_or_else(|| {
        let names = paths.join(" or .");
        format!("this kernel's type information has no {structure}.{names}")
    })?;
    Ok(global.set(offset))
}

/// The offsets of all fields of an optional hook; or why there is one less.
pub fn all_optional(types: &Types, fields: &[Field]) -> Result<Vec<Setting>, String> {
    fields.iter().map(|field| optional(types, field)).collect()
}

/// Whether all fields of a file's identity are in the first bytes of its inode.
fn inode_is_compact(settings: &[Setting]) -> bool {
    let identity = [
        (globals::INODE_MODE, 2),
        (globals::INODE_GENERATION, 4),
        (globals::INODE_INO, 8),
        (globals::INODE_SB, 8),
    ];
    identity.iter().all(|(field, bytes)| {
        settings
            .iter()
            .filter(|setting| setting.name == field.global.name)
            .all(|setting| setting.value + bytes <= COMPACT_INODE_BYTES as u64)
    })
}

/// Where `struct pt_regs` holds the arguments and the number of a system call.
#[cfg(target_arch = "x86_64")]
fn registers(
    find: &impl Fn(&'static str, &'static str) -> Result<u64, KernelError>,
) -> Result<Vec<Setting>, KernelError> {
    [
        (globals::REGS_ARG0, "di"),
        (globals::REGS_ARG1, "si"),
        (globals::REGS_ARG2, "dx"),
        (globals::REGS_ARG3, "r10"),
        (globals::REGS_ARG4, "r8"),
        (globals::REGS_ARG5, "r9"),
        (globals::REGS_NR, "orig_ax"),
        (globals::FUNCTION_ARG0, "di"),
        (globals::FUNCTION_ARG3, "cx"),
        (globals::REGS_RESULT, "ax"),
        (globals::REGS_STACK, "sp"),
        (globals::REGS_INSTRUCTION, "ip"),
    ]
    .into_iter()
    .map(|(global, register)| Ok(global.set(find("pt_regs", register)?)))
    .chain([Ok(globals::RETURN_POPS.set(8))])
    .collect()
}

/// As on x86-64. The first argument is taken from `orig_x0`, because x0 holds the result at the end of the call.
#[cfg(target_arch = "aarch64")]
fn registers(
    find: &impl Fn(&'static str, &'static str) -> Result<u64, KernelError>,
) -> Result<Vec<Setting>, KernelError> {
    let first = find("pt_regs", "regs")?;
    Ok(vec![
        globals::REGS_ARG0.set(find("pt_regs", "orig_x0")?),
        globals::REGS_ARG1.set(first + 8),
        globals::REGS_ARG2.set(first + 16),
        globals::REGS_ARG3.set(first + 24),
        globals::REGS_ARG4.set(first + 32),
        globals::REGS_ARG5.set(first + 40),
        globals::REGS_NR.set(find("pt_regs", "syscallno")?),
        globals::FUNCTION_ARG0.set(first),
        globals::FUNCTION_ARG3.set(first + 24),
        globals::REGS_RESULT.set(first),
        globals::REGS_STACK.set(find("pt_regs", "sp")?),
        globals::REGS_INSTRUCTION.set(find("pt_regs", "pc")?),
        globals::RETURN_POPS.set(0),
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
        Some(offset) => vec![
            globals::TASK_STATUS.set(offset),
            globals::TASK_COMPAT_MASK.set(mask),
        ],
        None => vec![],
    }
}
