//! `transfers.parquet`: bytes moved between block devices and files, by process and file.

use iotrace_common::{block::Transfers, key::FileId};
use iotrace_model::{history::Bounds, input::ProcessId};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Name, row};

row! {
    pub struct Row<'a> in "transfers" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the submitting process; null for kernel threads (writeback) and untraced processes that sync
        pid: Option<u32>,
        /// the same, with `pid`
        start_key: Option<u32>,
        /// path of the file
        path: Name<'a>,
        /// the file; null for filesystem metadata and for files that no traced process used
        file: Option<FileId>,
        /// reads submitted by the filesystem, before they are split or merged into requests
        device_reads: u64,
        /// writes submitted
        device_writes: u64,
        /// bytes of the reads
        device_bytes_read: u64,
        /// bytes of the writes
        device_bytes_written: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let transfers = part.model.block().interval_of_transfers();
    transfers.map(move |(owner, transfers)| {
        let process = owner.process.map(|process| part.process(process));
        let file = owner.file.map(|file| part.model.file(file));
        Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            pid: process.map(|process| process.pid),
            start_key: process.map(|process| process.start),
            path: Name::of(file.as_ref()),
            file: file.map(|file| file.id),
            device_reads: transfers.reads,
            device_writes: transfers.writes,
            device_bytes_read: transfers.bytes_read,
            device_bytes_written: transfers.bytes_written,
        }
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let process = row.pid.zip(row.start_key);
    let process = process.map(|(pid, start)| ProcessId { pid, start });
    if let (Some(file), Some(path)) = (row.file, row.path.0) {
        into.model.restore_path(file, &path);
    }
    let transfers = Transfers {
        reads: row.device_reads,
        writes: row.device_writes,
        bytes_read: row.device_bytes_read,
        bytes_written: row.device_bytes_written,
    };
    into.model.add_transfers(process, row.file, &transfers);
    into.cover(row.interval);
    Ok(())
}
