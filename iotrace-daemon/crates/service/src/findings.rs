//! Findings of units that run: the analysis that reports have, over what is known of one unit, a unit at a time.
//!
//! The unit's processes and files are copied into a model of their own, so that nothing of another unit is in it, and
//! analysed in a thread of its own.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use iotrace_common::phases;

use super::{
    processes::Processes,
    totals::{Finding, OTHER, UnitId},
    undecided::Undecided,
};
use iotrace_analysis::{Analysis, findings::thresholds::Thresholds};
use iotrace_model::{
    Model, Process, host,
    input::Place,
    run::{CallInFlight, Run},
};
use iotrace_phases::{Classifier, context::sort, copies::Copies};

/// Between two looks at one unit.
const UNIT_INTERVAL: Duration = Duration::from_secs(60);
/// Processes x files of a unit, from which on it is not looked at: a copy of them is made.
const MAX_ROWS: usize = 100_000;

/// What a look at a unit has found.
#[derive(Debug, Default)]
pub struct Found {
    /// Codes with their severity, and how many subjects each has.
    pub findings: BTreeMap<Finding, u64>,
    /// Whether passes over its data cannot be known.
    pub epochs_untold: bool,
}

/// Looks at the units in turn.
pub struct Looks {
    classifier: Arc<Classifier>,
    thresholds: Thresholds,
    run: Run,
    /// When each unit was looked at.
    looked: HashMap<UnitId, Instant>,
    /// The look that goes on.
    current: Option<mpsc::Receiver<(UnitId, Found)>>,
    /// Units that were not looked at, because they have too many files.
    skipped: u64,
}

impl Looks {
    /// `run`: what is known of this host.
    pub fn new(classifier: Arc<Classifier>, thresholds: Thresholds, run: Run) -> Self {
        Self {
            classifier,
            thresholds,
            run,
            looked: HashMap::new(),
            current: None,
            skipped: 0,
        }
    }

    /// Units that were not looked at, because they have too many files.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Units that are remembered.
    pub fn entries(&self) -> usize {
        self.looked.len()
    }

    /// Takes the look that has ended, and begins the next one. The interval must be settled.
    pub fn go_on(
        &mut self,
        model: &Model,
        processes: &Processes,
        undecided: &Undecided,
        in_flight: &BTreeMap<UnitId, Vec<CallInFlight>>,
        now: Instant,
    ) -> Option<(UnitId, Found)> {
        let found = match &self.current {
            Some(current) => match current.try_recv() {
                Ok(found) => Some(found),
                Err(mpsc::TryRecvError::Empty) => return None,
                Err(mpsc::TryRecvError::Disconnected) => None,
            },
            None => None,
        };
        self.current = None;
        self.begin(model, processes, undecided, in_flight, now);
        found
    }

    /// Looks at the unit that was longest not looked at, where that is long enough ago.
    fn begin(
        &mut self,
        model: &Model,
        processes: &Processes,
        undecided: &Undecided,
        in_flight: &BTreeMap<UnitId, Vec<CallInFlight>>,
        now: Instant,
    ) {
        let units: Vec<Option<UnitId>> = model
            .processes()
            .iter()
            .map(|process| processes.known_unit(process.id))
            .collect();
        let mut rows: HashMap<UnitId, usize> = HashMap::new();
        for row in model.rows() {
            if let Some(unit) = units[row.process as usize] {
                *rows.entry(unit).or_default() += 1;
            }
        }
        // What has no name is no job.
        rows.retain(|unit, _| *unit > OTHER);
        self.looked.retain(|unit, _| rows.contains_key(unit));
        let due = |looked: Option<&Instant>| {
            looked.is_none_or(|looked| now.saturating_duration_since(*looked) >= UNIT_INTERVAL)
        };
        let next = rows
            .iter()
            .filter(|(unit, _)| due(self.looked.get(unit)))
            .min_by_key(|(unit, _)| (self.looked.get(unit), **unit));
        let Some((unit, rows)) = next.map(|(unit, rows)| (*unit, *rows)) else {
            return;
        };
        self.looked.insert(unit, now);
        if rows > MAX_ROWS {
            self.skipped += 1;
            return;
        }
        let mut part = part_of(model, |index| units[index as usize] == Some(unit));
        undecided.copy_spans(unit, &mut part);
        let run = Run {
            in_flight: in_flight.get(&unit).cloned().unwrap_or_default(),
            ..self.run_of(&part)
        };
        let (classifier, thresholds) = (Arc::clone(&self.classifier), self.thresholds.clone());
        let (sender, receiver) = mpsc::channel();
        let look = move || {
            let run = Run {
                // May wait for a server that does not answer: this thread may, and no other.
                room_bytes: host::room(&part),
                ..run
            };
            let copies = Copies::of(&part, run.clock);
            let sorted = sort(&part, &classifier, &copies);
            let analysis = Analysis::new(&part, &run, &sorted, copies, &thresholds);
            let mut found = Found {
                // Whether files were read unevenly, a model without intervals does not tell; the passes do.
                epochs_untold: analysis.epochs.may_be_unseen(),
                ..Found::default()
            };
            for finding in &analysis.findings {
                let subjects = finding.subjects.len().max(1) as u64;
                *found
                    .findings
                    .entry((finding.code, finding.saving.severity.name()))
                    .or_default() += subjects;
            }
            // Who asked may have ended.
            let _ = sender.send((unit, found));
        };
        let thread = std::thread::Builder::new()
            .name("iotrace-findings".into())
            .spawn(look);
        match thread {
            Ok(_) => self.current = Some(receiver),
            Err(error) => log::warn!("no findings: a thread cannot be started: {error}"),
        }
    }

    /// The unit's time, as far as the service has seen it: from the start of its first process, or its first operation, to the
    /// end of its last process, or until now if one of them runs.
    fn run_of(&self, part: &Model) -> Run {
        use iotrace_model::counters::{FIRST_OPERATION, LAST_OPERATION};
        let clock = &self.run.clock;
        let cells = part.rows().iter().map(|row| row.cell.total());
        let (first, last) = cells.fold((u64::MAX, 0), |(first, last), counters| {
            let started = Some(counters.v[FIRST_OPERATION]).filter(|first| *first > 0);
            (
                first.min(started.unwrap_or(u64::MAX)),
                last.max(counters.v[LAST_OPERATION]),
            )
        });
        let (mut start, mut end) = match last {
            0 => (i64::MAX, i64::MIN),
            _ => (clock.unix_ns(first.min(last)), clock.unix_ns(last)),
        };
        for process in part.processes() {
            let about = &process.about;
            let started = clock.unix_ns_of_boottime(about.start_boottime);
            if about.start_boottime > 0 {
                start = start.min(started.max(self.run.start_unix_ns));
            }
            end = end.max(clock.unix_ns(about.end.unwrap_or_else(host::monotonic)));
        }
        Run {
            start_unix_ns: start,
            duration_ns: u64::try_from(end.saturating_sub(start)).unwrap_or(0),
            ..self.run.clone()
        }
    }
}

/// A model of some processes of another, and of the files that they used.
fn part_of(model: &Model, is_of_it: impl Fn(u32) -> bool) -> Model {
    let mut part = Model::with_spans();
    model
        .mounts()
        .iter()
        .for_each(|mount| part.restore_mount(mount.clone()));
    let mut known = vec![false; model.file_count()];
    let mut know = |part: &mut Model, index: u32| {
        if !std::mem::replace(&mut known[index as usize], true) {
            let file = model.file(index);
            part.restore_file(&file.name(), file.opened_as, file.phases);
        }
    };
    let of_it = |index: u32| is_of_it(index).then(|| &model.processes()[index as usize]);
    for index in 0..model.processes().len() as u32 {
        if let Some(process) = of_it(index) {
            copy_process(process, &mut part);
            for (key, count) in model.failures().of(index) {
                let place = key.place.map(|file| {
                    know(&mut part, file);
                    model.file(file).id
                });
                part.add_failures(process.id, place, key.op, key.errno, count.calls, count.ns);
            }
        }
    }
    for row in model.rows() {
        if let Some(process) = of_it(row.process) {
            know(&mut part, row.file);
            let place = Place::File(model.file(row.file).id);
            part.add(process.id, place, &row.cell.total());
        }
    }
    part
}

fn copy_process(process: &Process, part: &mut Model) {
    part.restore_process(process.id, process.about.clone());
    part.add(process.id, Place::PathOnly, &process.path_only.total());
    part.add(process.id, Place::Overflow, &process.overflow.total());
    for code in 0..phases::COUNT as u16 {
        part.add_done(process.id, code.into(), &process.phases.total(code));
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::{key::FileId, rights::Rights};
    use iotrace_model::{
        counters::{Counters, FIRST_OPERATION, LAST_OPERATION, OPENS},
        input::{Event, ProcessId},
        run::Target,
    };

    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    /// Seconds of a unit whose process started 100 s ago and had operations for a second.
    fn seconds(ended_after: Option<i64>) -> i64 {
        let mut run = host::run("0", Target::All(true), "btf", "basic").unwrap();
        run.start_unix_ns -= 200 * SECOND_NS;
        let (clock, started) = (run.clock, run.start_unix_ns + 100 * SECOND_NS);
        let classifier = Arc::new(Classifier::new(Default::default()).unwrap());
        let looks = Looks::new(classifier, Thresholds::default(), run);
        let process = ProcessId { pid: 7, start: 7 };
        let mut part = Model::default();
        part.event(Event::Exec {
            process,
            start_boottime: (started - clock.realtime_minus_boottime_ns) as u64,
            parent: 1,
            rights: Rights::of_user(0),
            comm: b"python3".to_vec(),
            args: Vec::new(),
        });
        let file = FileId {
            device: 1,
            generation: 1,
            inode: 1,
        };
        let mut counters = Counters::ZERO;
        counters.v[OPENS] = 1;
        counters.v[FIRST_OPERATION] = clock.monotonic_ns(started + SECOND_NS);
        counters.v[LAST_OPERATION] = clock.monotonic_ns(started + 2 * SECOND_NS);
        part.add(process, Place::File(file), &counters);
        if let Some(after) = ended_after {
            part.event(Event::Exit {
                process,
                time: clock.monotonic_ns(started + after * SECOND_NS),
                status: 0,
            });
        }
        looks.run_of(&part).duration_ns as i64 / SECOND_NS
    }

    #[test]
    fn a_unit_lasts_as_long_as_its_processes() {
        assert_eq!(seconds(Some(60)), 60);
        assert_eq!(seconds(Some(2)), 2);
        assert!((99..102).contains(&seconds(None)), "it still runs");
    }
}
