//! The block layer: what the programs must be told of it, and the hooks.
//!
//! Attaches the BTF raw tracepoints `block_rq_issue` and `block_rq_complete`, and where bytes are to be told by process
//! and file `block_bio_queue`: only where they are asked for. A kernel without them, or with other fields, is traced
//! without what they show, and that is said.

use std::fs;

use aya::{Btf, Ebpf};

use super::{
    attach::attach_raw,
    btf::Types,
    offsets::{self, Setting},
};

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

/// Fields of requests, of bios and of what they lead to.
const FIELDS: [offsets::Optional; 19] = [
    ("BLOCK_QUEUE", "request", "q"),
    ("QUEUE_DISK", "request_queue", "disk"),
    ("BLOCK_OPERATION", "request", "cmd_flags"),
    ("BLOCK_LEFT", "request", "__data_len"),
    ("DISK_MAJOR", "gendisk", "major"),
    ("DISK_MINOR", "gendisk", "first_minor"),
    ("BIO_DEVICE", "bio", "bi_bdev"),
    ("BIO_OPERATION", "bio", "bi_opf"),
    ("BIO_FLAGS", "bio", "bi_flags"),
    ("BIO_SIZE", "bio", "bi_iter.bi_size"),
    ("BIO_INDEX", "bio", "bi_iter.bi_idx"),
    ("BIO_VECTORS", "bio", "bi_io_vec"),
    ("BIO_END", "bio", "bi_end_io"),
    ("BIO_PRIVATE", "bio", "bi_private"),
    ("VECTOR_PAGE", "bio_vec", "bv_page"),
    ("DEVICE_DISK", "block_device", "bd_disk"),
    ("SB_DEVICE", "super_block", "s_bdev"),
    ("INODE_MAPPING", "inode", "i_mapping"),
    ("TASK_BIOS", "task_struct", "bio_list"),
];
/// Where a page says which folio it is a part of: up to Linux 7.0, and since.
const HEAD: [&str; 2] = ["compound_head", "compound_info"];
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
    let mut settings = offsets::all_optional(types, &FIELDS)?;
    let head = offsets::either(types, "page", HEAD)?;
    let append = OPERATIONS
        .into_iter()
        .find_map(|operations| types.enumerator(operations, "REQ_OP_ZONE_APPEND"));
    settings.extend([("PAGE_HEAD", head), ("OP_ZONE_APPEND", append.unwrap_or(0))]);
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
    Some(vec![
        ("DIRECT_END", address),
        ("DIRECT_IOCB", types.offset("iomap_dio", "iocb")?),
        ("IOCB_FILE", types.offset("kiocb", "ki_filp")?),
    ])
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
        let value = |name| {
            let found = block.settings.iter().find(|(global, _)| *global == name);
            found.map(|(_, value)| *value)
        };
        assert_eq!(value("VECTOR_PAGE"), Some(0));
        assert_eq!(value("DIRECT_IOCB"), Some(0));
        assert!(value("DIRECT_END").is_some_and(|address| address > 1 << 63));
    }
}
