//! Processes of the page: those with the most time in I/O, in order of their start.

use std::cmp::Reverse;

use serde::Serialize;

use super::columns::{Amount, Columns};
use crate::{Report, text::escape};

/// Processes that are listed; a page with more rows than this is slow to lay out.
const LISTED: usize = 1_000;

#[derive(Default, Serialize)]
pub struct Processes {
    pid: Vec<u32>,
    ppid: Vec<u32>,
    name: Vec<String>,
    command: Vec<String>,
    /// Seconds since the start of the run.
    start: Vec<Option<f64>>,
    end: Vec<Option<f64>>,
    exit_code: Vec<Option<u32>>,
    files: Vec<u64>,
    #[serde(flatten)]
    sums: Columns,
}

impl Processes {
    /// The list, and for each process of the model its place in it; those that are not listed have the place behind it.
    pub fn new(report: &Report<'_>) -> (Self, Vec<u32>) {
        let ns = |index: &u32| report.processes[*index as usize].sum.counters.nanoseconds();
        let mut by_time = report.process_order.clone();
        by_time.sort_by_key(|index| Reverse(ns(index)));
        let unlisted = report.processes.len().min(LISTED) as u32;
        let mut places = vec![unlisted; report.processes.len()];
        for index in by_time.iter().take(LISTED) {
            places[*index as usize] = 0;
        }
        let mut listed = Self::default();
        for index in &report.process_order {
            let place = &mut places[*index as usize];
            if *place == 0 {
                *place = listed.pid.len() as u32;
                listed.push(report, *index as usize);
            }
        }
        (listed, places)
    }

    pub fn len(&self) -> usize {
        self.pid.len()
    }

    fn push(&mut self, report: &Report<'_>, index: usize) {
        let process = &report.model.processes()[index];
        let (about, sum) = (&process.about, &report.processes[index]);
        let clock = &report.run.clock;
        let since_start = |unix_ns: i64| (unix_ns - report.run.start_unix_ns) as f64 / 1e9;
        let start = (about.start_boottime != 0)
            .then(|| since_start(clock.unix_ns_of_boottime(about.start_boottime)));
        self.pid.push(process.id.pid);
        self.ppid.push(about.parent);
        self.name.push(escape(&about.comm));
        self.command.push(escape(&about.args.join(&b' ')));
        self.start.push(start);
        self.end
            .push(about.end.map(|end| since_start(clock.unix_ns(end))));
        self.exit_code.push(about.exit_code());
        self.files.push(sum.files);
        self.sums.push(&Amount::from(&sum.sum.counters));
    }
}
