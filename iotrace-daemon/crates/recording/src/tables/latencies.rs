//! `latencies.parquet`: how long operations took.

use iotrace_common::latency;
use iotrace_model::{history::Bounds, input::ProcessId, latencies::Operations};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Device, PhaseCode, TimedClass, row};

row! {
    pub struct Row<'a> in "latencies" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// device of the files, as `major:minor`; null for operations that name no open file
        device: Option<Device>,
        /// the files' phase as the kernel side assigned it; `none` without files
        phase: PhaseCode,
        /// `read`, `write`, `open`, `metadata`, `sync`, or `failed`: any of these that failed
        operation: TimedClass,
        /// nanoseconds that none of these operations exceeds: bounds are powers of the fourth root of 2; null: longer than 69 s
        at_most_ns: Option<u64>,
        /// operations that took so long, and longer than the bound before
        calls: u64,
        /// the longest operation of the interval with this process, device, phase and operation, nanoseconds
        longest_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let interval = part.model.latencies().interval();
    interval.flat_map(move |(process, of, sum)| {
        let process = part.process(process);
        sum.buckets().map(move |(bound, calls)| Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process,
            device: (of.device != 0).then_some(Device(of.device)),
            phase: PhaseCode(of.phase),
            operation: TimedClass(of.class),
            at_most_ns: bound,
            calls,
            longest_ns: sum.longest(),
        })
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let of = Operations {
        device: row.device.map_or(0, |device| device.0),
        phase: row.phase.0,
        class: row.operation.0,
    };
    let bucket = latency::bucket(row.at_most_ns.unwrap_or(u64::MAX)) as u8;
    let model = &mut into.model;
    model.restore_latencies(row.process, of, (bucket, row.calls), row.longest_ns);
    into.cover(row.interval);
    Ok(())
}
