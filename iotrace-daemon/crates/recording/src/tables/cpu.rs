//! `cpu.parquet`: CPU time by process.

use iotrace_model::{computing::CpuTime, history::Bounds, input::ProcessId};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, row};

row! {
    pub struct Row<'a> in "cpu" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// CPU time of all threads, including those that ended
        cpu_ns: u64,
        /// lower bound of the time on a CPU outside calls, of the thread that computed most
        computing_at_least_ns: u64,
        /// upper bound of the CPU time outside calls while another thread of any process was in a call, summed over
        /// threads
        beside_calls_at_most_ns: u64,
        /// length of the period that these values cover
        between_looks_ns: u64,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let computing = part.model.computing();
    computing.interval().map(move |(process, time)| Row {
        interval: part.interval,
        host: Derived(&part.run.host),
        process: part.process(process),
        cpu_ns: time.cpu_ns,
        computing_at_least_ns: time.computing_at_least_ns,
        beside_calls_at_most_ns: time.beside_at_most_ns,
        between_looks_ns: computing.length_ns(),
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let time = CpuTime {
        cpu_ns: row.cpu_ns,
        computing_at_least_ns: row.computing_at_least_ns,
        beside_at_most_ns: row.beside_calls_at_most_ns,
    };
    into.model.add_cpu(row.process, &time);
    into.cover(row.interval);
    into.sampled_ns = row.between_looks_ns;
    Ok(())
}
