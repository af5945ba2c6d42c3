//! `phases.parquet`: what each process did by the phase that the kernel side assigned at the time.

use iotrace_model::{history::Bounds, input::ProcessId, IoTotals};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, PhaseCode, row};

row! {
    pub struct Row<'a> in each "phases" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// `startup`, `training`, `checkpoint`, `restore`, `other`, or a class of `other`: `cache`, `log`, `system`,
        /// `ipc`; `none` for calls that name no open file
        phase: PhaseCode,
        /// calls of all kinds, failed ones included
        operations: u64,
        /// bytes read
        bytes_read: u64,
        /// bytes written
        bytes_written: u64,
        /// time inside calls, summed over calls
        calls_ns: u64,
        /// the same, overlap within the process counted once; a call counts in the interval in which it ends
        merged_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    part.model.processes().iter().flat_map(move |process| {
        process.phases.interval().map(move |(phase, done)| Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process: process.id,
            phase: PhaseCode(phase),
            operations: done.operations,
            bytes_read: done.bytes_read,
            bytes_written: done.bytes_written,
            calls_ns: done.ns,
            merged_ns: done.merged_ns,
        })
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let done = IoTotals {
        operations: row.operations,
        bytes_read: row.bytes_read,
        bytes_written: row.bytes_written,
        ns: row.calls_ns,
        merged_ns: row.merged_ns,
    };
    into.model.add_done(row.process, row.phase.0.into(), &done);
    Ok(())
}
