//! I/O that iotrace knows it did not trace.

use std::io;

use crate::Report;
use crate::text::{
    table::{Page, Style},
    units::{bytes, count},
};

/// A line for each kind of it; nothing where there is none.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let unseen = report.unseen();
    let mut lines = Vec::new();
    for device in &unseen.mapped_devices {
        lines.push(format!(
            "{} was mapped {} times, {} in all: what is done with a device's memory makes no call.",
            device.device,
            count(device.mappings),
            bytes(device.bytes)
        ));
    }
    let direct = &unseen.direct_files;
    if direct.files > 0 {
        lines.push(format!(
            "{} files were opened with O_DIRECT and used by no call that is seen, such as by GPUDirect Storage: {}.",
            count(direct.files),
            direct.paths.join(", ")
        ));
    }
    for own in &unseen.own_cache {
        lines.push(format!(
            "{} ({}) has a cache of its own: of {} read from {} files, what came from storage is not known.",
            own.mount_point,
            own.fs_type,
            bytes(own.bytes_read),
            count(own.files)
        ));
    }
    if unseen.aio_requests > 0 {
        lines.push(format!(
            "{} requests of libaio: this kernel has no bpf_loop.",
            count(unseen.aio_requests)
        ));
    }
    if unseen.fetched_by_kernel_bytes > 0 {
        lines.push(format!(
            "{} were fetched by threads of the kernel, for no process that could be told.",
            bytes(unseen.fetched_by_kernel_bytes)
        ));
    }
    let kinds = unseen.skipped.kinds().into_iter();
    let kinds: Vec<String> = kinds
        .filter(|(_, operations)| *operations > 0)
        .map(|(kind, operations)| format!("{} on {kind}", count(operations)))
        .collect();
    if !kinds.is_empty() {
        lines.push(format!(
            "Operations on what is no file: {}.",
            kinds.join(", ")
        ));
    }
    if lines.is_empty() {
        return Ok(());
    }
    page.section("Not seen")?;
    for line in lines {
        page.prose(Style::Plain, &line)?;
    }
    Ok(())
}
