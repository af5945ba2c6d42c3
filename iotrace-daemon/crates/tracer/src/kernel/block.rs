//! The block layer: what the programs must be told of it.

use std::fs;

use iotrace_common::abi::{
    Setting,
    globals::{self, DIRECT_FIELDS},
};

use super::{btf::Types, offsets};

/// What is wanted of the block layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    Nothing,
    /// Requests by device.
    Devices,
    /// These, and bytes by process and file.
    Files,
}

/// The enum of operations: since Linux 6.0, and before.
const OPERATIONS: [&str; 2] = ["req_op", "req_opf"];
/// What ends the bios of direct I/O.
const DIRECT_END: &str = "iomap_dio_bio_end_io";

/// Reads it from the kernel's types; or why nothing of it can be known.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    has_arguments(types, "block_rq_issue", 1)?;
    has_arguments(types, "block_rq_complete", 3)?;
    Ok(Vec::new())
}

/// As [`find`], of whose bytes they are.
pub fn find_files(types: &Types) -> Result<Vec<Setting>, String> {
    has_arguments(types, "block_bio_queue", 1)?;
    let append = OPERATIONS
        .into_iter()
        .find_map(|operations| types.enumerator(operations, "REQ_OP_ZONE_APPEND"));
    let mut settings = vec![globals::OP_ZONE_APPEND.set(append.unwrap_or(0))];
    settings.extend(direct(types).unwrap_or_else(|| {
        log::debug!(
            "direct I/O is detected by the call in flight: no {DIRECT_END} in /proc/kallsyms"
        );
        Vec::new()
    }));
    Ok(settings)
}

fn has_arguments(types: &Types, hook: &str, arguments: usize) -> Result<(), String> {
    match types.tracepoint_arguments(hook) {
        Some(found) if found != arguments => Err(format!(
            "this kernel's tracepoint {hook} has {found} arguments, not {arguments}"
        )),
        _ => Ok(()),
    }
}

/// How direct I/O is told, whoever submits it: most filesystems' is by one function.
fn direct(types: &Types) -> Option<Vec<Setting>> {
    let symbols = fs::read_to_string("/proc/kallsyms").ok()?;
    let line = symbols
        .lines()
        .find(|line| line.split(' ').nth(2) == Some(DIRECT_END))?;
    let address = u64::from_str_radix(line.split(' ').next()?, 16).ok()?;
    let mut settings = offsets::all_optional(types, DIRECT_FIELDS).ok()?;
    settings.push(globals::DIRECT_END.set(address));
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        find(&types).unwrap();
        let settings = find_files(&types).unwrap();
        assert!(settings.contains(&globals::DIRECT_IOCB.global.set(0)));
        let is_end = |setting: &&Setting| setting.name == globals::DIRECT_END.name;
        let end = settings.iter().find(is_end).unwrap();
        assert!(end.value > 1 << 63);
    }
}
