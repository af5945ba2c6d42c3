//! What was done by process, file, directory, mount or phase: `iotrace report --by`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{Report, merged::Merged};
use iotrace_analysis::series::Flow;
use iotrace_model::counters::{
    BYTES_FETCHED, BYTES_READ, Counters, MAPPED_BYTES, READ_NS, READS, TRANSFER_READS,
    UNION_READ_NS,
};
use iotrace_phases::{
    phase::{Direction, Phase},
    used::Used,
};

/// What the rows of a view are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    Process,
    File,
    Directory,
    Mount,
    Phase,
}

impl By {
    /// As the command line and JSON write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::File => "file",
            Self::Directory => "directory",
            Self::Mount => "mount",
            Self::Phase => "phase",
        }
    }
}

/// What to show.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub by: By,
    /// Only what was done in phases of this name.
    pub phase: Option<&'static str>,
    /// Rows before the rest is summed up.
    pub top: usize,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct ViewRow {
    /// Any bytes; empty where no name is known.
    pub name: Vec<u8>,
    /// Index of the process.
    pub process: Option<u32>,
    pub flow: Flow,
    /// Distinct regular files.
    pub files: u64,
    /// Processes.
    pub processes: u64,
    /// Of a process, or a phase.
    pub merged: Option<Merged>,
}

/// Rows, those with the most time in calls first.
pub struct View {
    pub choice: Choice,
    pub rows: Vec<ViewRow>,
    /// Rows that are left out: how many, and their sum.
    pub rest: (u64, Flow),
}

/// A row that is being filled.
#[derive(Default)]
struct Filling {
    process: Option<u32>,
    flow: Flow,
    counters: Option<Box<Counters>>,
    files: BTreeSet<u32>,
    processes: BTreeSet<u32>,
}

impl View {
    /// What `report` has of it. Calls that opened no file are in no phase, and have no file, directory or mount.
    pub fn new(report: &Report<'_>, choice: Choice) -> Self {
        let mut rows: BTreeMap<(Vec<u8>, u32), Filling> = BTreeMap::new();
        for row in report.model.rows() {
            let counters = row.cell.total();
            let sorted = &report.sorted[row.file as usize];
            let used = Used::new(&counters, sorted);
            for (phase, direction) in used.phases(sorted) {
                if choice.phase.is_some_and(|name| name != phase.name()) {
                    continue;
                }
                let part = part(&counters, direction, used);
                let key = key(report, choice.by, row.process, row.file, phase);
                rows.entry(key)
                    .or_default()
                    .add(report, row.process, row.file, &part);
            }
        }
        if choice.phase.is_none() && choice.by == By::Process {
            for (index, process) in report.model.processes().iter().enumerate() {
                for counters in [process.path_only.total(), process.overflow.total()] {
                    let filling = rows.entry((Vec::new(), index as u32)).or_default();
                    filling.flow.add(&Flow::of(&counters));
                }
            }
        }
        let rows = rows
            .into_iter()
            .filter(|(_, filling)| filling.flow.io.operations > 0);
        let mut rows: Vec<ViewRow> = rows
            .map(|((name, process), filling)| filling.finish(report, choice, name, process))
            .collect();
        rows.sort_by(|a, b| {
            (Reverse(a.flow.io.ns), &a.name).cmp(&(Reverse(b.flow.io.ns), &b.name))
        });
        let mut rest = (0, Flow::default());
        for row in rows.drain(rows.len().min(choice.top)..) {
            rest.0 += 1;
            rest.1.add(&row.flow);
        }
        Self { choice, rows, rest }
    }
}

/// What of a row's counters is of one of its phases.
fn part(counters: &Counters, direction: Direction, used: Used) -> Counters {
    if !used.reads_apart {
        return counters.clone();
    }
    let mut part = Counters {
        v: counters.v,
        ..Counters::ZERO
    };
    let of_reads = [
        READS,
        TRANSFER_READS,
        BYTES_READ,
        READ_NS,
        UNION_READ_NS,
        BYTES_FETCHED,
        MAPPED_BYTES,
    ];
    for (index, value) in part.v.iter_mut().enumerate() {
        if of_reads.contains(&index) != (direction == Direction::Read) {
            *value = 0;
        }
    }
    part
}

fn key(report: &Report<'_>, by: By, process: u32, file: u32, phase: Phase) -> (Vec<u8>, u32) {
    let of = report.model.file(file);
    match by {
        By::Process => (Vec::new(), process),
        By::File if of.path.is_empty() => (Vec::new(), file),
        By::File => (of.path.to_vec(), 0),
        By::Directory if of.is_directory() => (of.path.to_vec(), 0),
        By::Directory => {
            let slash = of.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            (
                of.path[..slash.max(usize::from(!of.path.is_empty()))].to_vec(),
                0,
            )
        }
        By::Mount => {
            let (mount_point, fs_type) = report.model.mount_of(&of);
            ([mount_point, b" (", fs_type.as_bytes(), b")"].concat(), 0)
        }
        By::Phase => (phase.to_string().into_bytes(), 0),
    }
}

impl Filling {
    fn add(&mut self, report: &Report<'_>, process: u32, file: u32, part: &Counters) {
        self.process = Some(process);
        self.flow.add(&Flow::of(part));
        let values = Counters {
            v: part.v,
            ..Counters::ZERO
        };
        match &mut self.counters {
            Some(counters) => counters.absorb(&values),
            None => self.counters = Some(Box::new(values)),
        }
        if !report.model.file(file).is_directory() {
            self.files.insert(file);
        }
        self.processes.insert(process);
    }

    fn finish(self, report: &Report<'_>, choice: Choice, name: Vec<u8>, process: u32) -> ViewRow {
        let is_process = choice.by == By::Process;
        let merged = match (choice.by, &self.counters) {
            (By::Phase, _) => Some(report.merged(|phase| phase.to_string().as_bytes() == name)),
            (By::Process, Some(counters)) if choice.phase.is_some() => {
                Some(report.bounded(Merged::of(counters)))
            }
            _ => None,
        };
        ViewRow {
            process: is_process.then_some(process),
            flow: self.flow,
            files: self.files.len() as u64,
            processes: self.processes.len() as u64,
            merged,
            name,
        }
    }
}
