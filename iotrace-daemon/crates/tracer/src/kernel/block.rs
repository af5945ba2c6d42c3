//! The block layer: what the programs must be told of it, and the hooks.
//!
//! Attaches the BTF raw tracepoints `block_rq_issue` and `block_rq_complete`, and where bytes are to be told by process
//! and file `block_bio_queue`: only where they are asked for. A kernel without them, or with other fields, is traced
//! without what they show, and that is said.

use std::fs;

use aya::{Btf, Ebpf};
use iotrace_common::abi::{
    Setting,
    globals::{self, BLOCK_FIELDS, DIRECT_FIELDS},
};

use super::{attach::attach_raw, btf::Types, offsets};

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

const DEVICES: [(&str, &str); 2] = [
    ("request_issued", "block_rq_issue"),
    ("request_completed", "block_rq_complete"),
];
const FILES: (&str, &str) = ("bio_queued", "block_bio_queue");

/// In place of a reason why nothing can be told: nothing is wanted.
pub const OFF: &str = "it is turned off";

/// What this kernel's block layer is like.
#[derive(Clone, Debug)]
pub struct Block {
    pub settings: Vec<Setting>,
    wanted: Wanted,
}

/// Reads it from the kernel's types; or why nothing of it can be told.
pub fn find(types: &Types, wanted: Wanted) -> Result<Block, String> {
    for (hook, arguments) in [(DEVICES[0].1, 1), (DEVICES[1].1, 3), (FILES.1, 1)] {
        match types.tracepoint_arguments(hook) {
            None => return Err(format!("this kernel has no tracepoint {hook}")),
            Some(found) if found != arguments => {
                return Err(format!(
                    "this kernel's tracepoint {hook} has {found} arguments, not {arguments}"
                ));
            }
            _ => {}
        }
    }
    let mut settings = offsets::all_optional(types, BLOCK_FIELDS)?;
    let append = OPERATIONS
        .into_iter()
        .find_map(|operations| types.enumerator(operations, "REQ_OP_ZONE_APPEND"));
    settings.push(globals::OP_ZONE_APPEND.set(append.unwrap_or(0)));
    settings.extend(direct(types).unwrap_or_else(|| {
        log::debug!("direct I/O is told by the call in flight: no {DIRECT_END} in /proc/kallsyms");
        Vec::new()
    }));
    Ok(Block { settings, wanted })
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

impl Block {
    /// Attaches the hooks.
    pub fn attach(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), String> {
        let mut hooks = DEVICES.to_vec();
        if self.wanted == Wanted::Files {
            hooks.push(FILES);
        }
        attach_raw(ebpf, &hooks, btf).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let block = find(&types, Wanted::Files).unwrap();
        let has = |setting| block.settings.contains(&setting);
        assert!(has(globals::VECTOR_PAGE.global.set(0)));
        assert!(has(globals::DIRECT_IOCB.global.set(0)));
        let is_end = |setting: &&Setting| setting.name == globals::DIRECT_END.name;
        let end = block.settings.iter().find(is_end).unwrap();
        assert!(end.value > 1 << 63);
    }
}
