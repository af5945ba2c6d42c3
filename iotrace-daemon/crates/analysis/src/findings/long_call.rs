//! One call that took long, and returned.

use iotrace_common::op;

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, Subject, Value, facts::Facts, seconds,
    thresholds::*,
};
use iotrace_model::{
    Row,
    counters::{Counters, SLOWEST_READ_NS, SLOWEST_WRITE_NS, SYNC_NS},
};
use iotrace_phases::{
    context::Sorted,
    phase::{Class, Direction, Phase},
};

/// A read, write or sync of a file.
pub struct Call {
    /// Index of the process, and of the file.
    process: u32,
    file: u32,
    operation: &'static str,
    /// How long it took at least, nanoseconds.
    ns: u64,
}

/// Takes the longest call of a row, whose file is `sorted` and which has these counters, if it is longer than `longest`.
pub fn take_longest(longest: &mut Option<Call>, row: &Row, counters: &Counters, sorted: &Sorted) {
    let phase = sorted.phase(Direction::Read);
    if matches!(phase, Phase::Other(Some(Class::System | Class::Ipc))) {
        return;
    }
    for (operation, ns) in calls(counters) {
        if longest.as_ref().is_none_or(|known| known.ns < ns) {
            *longest = Some(Call {
                process: row.process,
                file: row.file,
                operation,
                ns,
            });
        }
    }
}

/// The longest of all reads, writes and syncs, if it alone took a part of the run that matters. Many calls that take as long
/// together are none, nor are reads of files that the kernel makes up: those wait for something to happen.
pub fn long_call(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let Call {
        process,
        file,
        operation,
        ns,
    } = *facts.longest_call.as_ref()?;
    let share = data.share_of_run(ns);
    if share < data.limit(LONG_CALL_SHARE) || (ns as f64) < data.limit(LONG_CALL_SECONDS) * 1e9 {
        return None;
    }
    let process = data.model.processes()[process as usize].id;
    Some(Finding {
        code: "long-call",
        saving: data.saving(ns, Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!(
            "A single {operation} took {:.0} s, {:.0} % of the run",
            ns as f64 / 1e9,
            share * 100.0
        ),
        evidence: vec![
            ("seconds", seconds(ns)),
            ("share_of_run", Value::Share(share)),
            ("operation", Value::Text(operation.to_owned())),
            ("pid", Value::Count(process.pid.into())),
        ],
        subjects: vec![Subject::File(file)],
        advice: advice(operation).into(),
        also: Vec::new(),
    })
}

/// The longest read, write and sync of a file by a process, nanoseconds. Of syncs only the sum is known: the longest takes at
/// least as long as they do on average.
fn calls(counters: &Counters) -> [(&'static str, u64); 3] {
    let syncs = counters.calls(op::is_sync);
    [
        ("read", counters.v[SLOWEST_READ_NS]),
        ("write", counters.v[SLOWEST_WRITE_NS]),
        ("sync", counters.v[SYNC_NS] / syncs.max(1)),
    ]
}

fn advice(operation: &str) -> &'static str {
    match operation {
        "sync" => {
            "Write it out earlier: sync_file_range or a sync after each part, in another thread, or to a faster local disk. \
             `--block` shows whether the device was busy."
        }
        _ => {
            "Look at the server or device of this file at that time: `--block` shows whether the device was busy. Else use \
             smaller calls, in another thread."
        }
    }
}
