//! Lines of one interval of the model: processes, and files as one process uses them. Pure but for names of users.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
    rc::Rc,
    time::Duration,
};

use iotrace_model::{
    IoTotals, Model, Process, counters::BYTES_FETCHED, input::ProcessId, latencies::Histogram,
};
use iotrace_phases::{
    Classifier,
    context::by_names,
    phase::{Direction, Phase},
};
use iotrace_report::{ShortCommand, escape};

use super::state::What;
use crate::user;

/// Most ancestors of a process that are looked for.
const MAX_ANCESTORS: usize = 32;
/// By how much /proc rounds start times down, at most.
const CLOCK_TICK_NS: u64 = 10_000_000;

/// What was done by phase, without classes; only phases in which anything was done.
pub type ByPhase = BTreeMap<Phase, IoTotals>;

/// What is known of a process.
#[derive(Debug, Default)]
pub struct About {
    pub command: String,
    /// The same for narrow screens; `None` if the arguments are not known.
    pub short: Option<ShortCommand>,
    /// Name of the user, or the number of one without a name; empty if unknown.
    pub user: String,
    /// The job and the rank in it; empty if unknown.
    pub job: String,
    /// The parent, its parent and so on, as far as they are known, whether or not they run.
    pub ancestors: Vec<ProcessId>,
}

/// One line: a process, a process in one phase, or a file as one process uses it.
#[derive(Clone, Debug)]
pub struct Line {
    pub process: ProcessId,
    pub about: Rc<About>,
    /// The file's path; `None` for a line of a process.
    pub path: Option<Rc<str>>,
    pub by_phase: ByPhase,
    /// Bytes fetched from storage, page faults included; `None` for a line of one phase, which they are not counted by.
    pub fetched: Option<u64>,
    /// How long the calls of a process took, if that is counted; empty for a line of one phase or of a file.
    pub latencies: Histogram,
    /// In a tree: number of its ancestors that are shown.
    pub depth: usize,
}

impl Line {
    /// What was done in all phases.
    pub fn done(&self) -> IoTotals {
        sum(&self.by_phase)
    }

    /// The phase that took the most time.
    pub fn main_phase(&self) -> Phase {
        let phases = self.by_phase.iter().rev();
        let longest = phases.max_by_key(|(_, done)| done.merged_ns);
        longest.map_or(Phase::UNMATCHED, |(phase, _)| *phase)
    }

    /// The time, nanoseconds, that the slowest hundredth of the calls exceeded; `None` if none were timed.
    pub fn slowest_percent(&self) -> Option<u64> {
        (self.latencies.calls() > 0).then(|| self.latencies.percentile(99))
    }

    /// The command or the path.
    pub fn name(&self) -> &str {
        self.path.as_deref().unwrap_or(&self.about.command)
    }

    /// A line for each phase.
    pub fn split(self) -> impl Iterator<Item = Self> {
        let Self {
            process,
            about,
            path,
            by_phase,
            depth,
            ..
        } = self;
        by_phase.into_iter().map(move |of_phase| Self {
            process,
            about: Rc::clone(&about),
            path: path.clone(),
            by_phase: ByPhase::from([of_phase]),
            fetched: None,
            latencies: Histogram::default(),
            depth,
        })
    }

    /// Shares of the phases in `whole`, by time; they add up to it.
    pub fn shares(&self, whole: u64) -> Vec<(Phase, u64)> {
        let of_time = |done: &IoTotals| done.merged_ns;
        let of_calls = |done: &IoTotals| done.operations;
        let has_time = self.by_phase.values().any(|done| done.merged_ns > 0);
        let weight = if has_time { of_time } else { of_calls };
        let weights = self.by_phase.values().map(|done| u128::from(weight(done)));
        let sum = weights.clone().sum::<u128>().max(1);
        let exact: Vec<u128> = weights.map(|weight| weight * u128::from(whole)).collect();
        let mut shares: Vec<u64> = exact.iter().map(|share| (share / sum) as u64).collect();
        let missing = whole.saturating_sub(shares.iter().sum()) as usize;
        // What rounding down has left goes to those that it took the most from.
        let mut by_rest: Vec<usize> = (0..exact.len()).collect();
        by_rest.sort_by_key(|index| std::cmp::Reverse(exact[*index] % sum));
        for index in by_rest.into_iter().take(missing) {
            shares[index] += 1;
        }
        self.by_phase.keys().copied().zip(shares).collect()
    }
}

/// All phases together.
pub fn sum(by_phase: &ByPhase) -> IoTotals {
    let mut sum = IoTotals::default();
    by_phase.values().for_each(|done| sum.add(done));
    sum
}

/// Adds what was done elsewhere.
pub fn add(by_phase: &mut ByPhase, other: &ByPhase) {
    for (phase, done) in other {
        by_phase.entry(*phase).or_default().add(done);
    }
}

/// All lines of an interval.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    pub period: Duration,
    pub processes: Vec<Line>,
    pub files: Vec<Line>,
}

impl Lines {
    /// Those of what the model counted in its interval, which lasted `period`.
    pub fn of(model: &Model, classifier: &Classifier, users: &mut Users, period: Duration) -> Self {
        let processes = model.processes();
        let by_pid = processes.iter().map(|process| (process.id.pid, process));
        let by_pid: HashMap<u32, &Process> = by_pid.collect();
        let mut abouts: HashMap<ProcessId, Rc<About>> = HashMap::new();
        let mut about = |process: &Process| {
            let known = abouts.entry(process.id);
            Rc::clone(known.or_insert_with(|| Rc::new(About::of(process, &by_pid, users))))
        };
        let mut lines = Self {
            period,
            ..Self::default()
        };
        let mut fetched = vec![0_u64; processes.len()];
        for row in model.dirty_rows() {
            let (file, counters) = (model.file(row.file), row.cell.interval());
            let done = IoTotals::of(&counters);
            let direction = if done.bytes_written > done.bytes_read {
                Direction::Write
            } else {
                Direction::Read
            };
            let sorted = by_names(model, classifier, &file);
            let path = match file.path {
                b"" => "(its name has not come yet)".into(),
                path => escape(path).into(),
            };
            let process = &processes[row.process as usize];
            let of_file = counters.v[BYTES_FETCHED];
            let of_process = &mut fetched[row.process as usize];
            *of_process = of_process.saturating_add(of_file);
            lines.files.push(Line {
                process: process.id,
                about: about(process),
                path: Some(path),
                by_phase: ByPhase::from([(without_class(sorted.phase(direction)), done)]),
                fetched: Some(of_file),
                latencies: Histogram::default(),
                depth: 0,
            });
        }
        let mut latencies = vec![Histogram::default(); processes.len()];
        for (process, _, done) in model.latencies().interval() {
            latencies[process as usize].absorb(done);
        }
        for ((process, of_files), latencies) in processes.iter().zip(fetched).zip(latencies) {
            let mut by_phase = ByPhase::new();
            for (code, done) in process.phases.interval() {
                let phase = without_class(Phase::from_code(code));
                by_phase.entry(phase).or_default().add(done);
            }
            let others = [&process.path_only, &process.overflow].into_iter();
            let others = others.filter(|cell| !cell.is_settled());
            let fetched = others.fold(of_files, |sum, cell| {
                sum.saturating_add(cell.interval().v[BYTES_FETCHED])
            });
            // Page faults fetch without a call.
            if !by_phase.is_empty() || fetched > 0 {
                lines.processes.push(Line {
                    process: process.id,
                    about: about(process),
                    path: None,
                    by_phase,
                    fetched: Some(fetched),
                    latencies,
                    depth: 0,
                });
            }
        }
        lines
    }

    pub fn get(&self, what: What) -> &[Line] {
        match what {
            What::Processes => &self.processes,
            What::Files => &self.files,
        }
    }

    /// What was done by phase, all processes together.
    pub fn by_phase(&self) -> ByPhase {
        let mut by_phase = ByPhase::new();
        for line in &self.processes {
            add(&mut by_phase, &line.by_phase);
        }
        by_phase
    }
}

impl About {
    fn of(process: &Process, by_pid: &HashMap<u32, &Process>, users: &mut Users) -> Self {
        let about = &process.about;
        let job = about.role.job.as_deref().map(str::to_owned);
        let rank = about.role.rank.map(|rank| format!("rank {}", rank.number));
        let job: Vec<String> = job.into_iter().chain(rank).collect();
        Self {
            command: command(&about.args, &about.comm),
            short: (!about.args.is_empty()).then(|| ShortCommand::new(&about.args)),
            user: about.uid.map_or_else(String::new, |uid| users.name(uid)),
            job: escape(job.join(" ").as_bytes()),
            ancestors: ancestors(process, by_pid)
                .map(|ancestor| ancestor.id)
                .collect(),
        }
    }
}

/// The parent of a process, its parent and so on. A process that started after its child is another one that got the
/// parent's pid.
fn ancestors<'a>(
    process: &'a Process,
    by_pid: &HashMap<u32, &'a Process>,
) -> impl Iterator<Item = &'a Process> {
    let parent = |child: &&'a Process| {
        let parent = by_pid.get(&child.about.parent).copied()?;
        let latest_start = child.about.start_boottime.saturating_add(CLOCK_TICK_NS);
        (parent.about.start_boottime <= latest_start).then_some(parent)
    };
    iter::successors(Some(process), parent)
        .skip(1)
        .take(MAX_ANCESTORS)
}

/// Names of users, each looked up once.
#[derive(Default)]
pub struct Users(HashMap<u32, String>);

impl Users {
    fn name(&mut self, uid: u32) -> String {
        let name =
            || user::name_of(uid).map_or_else(|| uid.to_string(), |name| escape(name.as_bytes()));
        self.0.entry(uid).or_insert_with(name).clone()
    }
}

fn without_class(phase: Phase) -> Phase {
    match phase {
        Phase::Other(_) => Phase::UNMATCHED,
        phase => phase,
    }
}

fn command(args: &[Vec<u8>], comm: &[u8]) -> String {
    match (args, comm) {
        ([], []) => "(not known)".into(),
        ([], comm) => format!("[{}]", escape(comm)),
        (args, _) => escape(&args.join(&b' ')),
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::key::FileId;
    use iotrace_model::{
        counters::{BYTES_READ, Counters, READS},
        history::Bounds,
        input::Place,
        latencies::Operations,
    };
    use iotrace_phases::phase::Class;

    use super::*;

    fn line(times: &[(Phase, u64)]) -> Line {
        let done = |(phase, merged_ns): &(Phase, u64)| {
            let done = IoTotals {
                operations: 1,
                merged_ns: *merged_ns,
                ..IoTotals::default()
            };
            (*phase, done)
        };
        Line {
            process: ProcessId { pid: 1, start: 1 },
            about: Rc::default(),
            path: None,
            by_phase: times.iter().map(done).collect(),
            fetched: Some(0),
            latencies: Histogram::default(),
            depth: 0,
        }
    }

    #[test]
    fn shares_add_up() {
        let (training, checkpoint, other) = (Phase::Training, Phase::Checkpoint, Phase::UNMATCHED);
        let cases: [&[(Phase, u64)]; 5] = [
            &[(training, 1), (checkpoint, 1), (other, 1)],
            &[(training, u64::MAX), (checkpoint, u64::MAX)],
            &[(training, 0), (checkpoint, 0)],
            &[(training, 999), (other, 1)],
            &[(other, 7)],
        ];
        for times in cases {
            for whole in [10, 100] {
                let shares = line(times).shares(whole);
                assert_eq!(shares.len(), times.len());
                let sum: u64 = shares.iter().map(|(_, share)| share).sum();
                assert_eq!(sum, whole, "{shares:?}");
            }
        }
        let shares = line(&[(training, 80), (checkpoint, 15), (other, 5)]).shares(100);
        assert_eq!(shares, [(training, 80), (checkpoint, 15), (other, 5)]);
        let shares = line(&[(training, 0), (checkpoint, 0)]).shares(100);
        assert_eq!(shares, [(training, 50), (checkpoint, 50)], "by calls");
    }

    #[test]
    fn ancestors_are_older_than_their_descendants() {
        let mut model = Model::default();
        let mut add = |pid, parent, start_boottime| {
            let about = iotrace_model::About {
                parent,
                start_boottime,
                ..iotrace_model::About::default()
            };
            model.describe_process(ProcessId { pid, start: pid }, about);
        };
        let second = 1_000_000_000;
        add(10, 0, second);
        add(11, 10, 2 * second);
        add(12, 11, 3 * second);
        add(13, 99, 3 * second);
        // The pid of its parent belongs to a later process by now.
        add(14, 15, 4 * second);
        add(15, 10, 5 * second);
        let by_pid = model.processes().iter();
        let by_pid = by_pid.map(|process| (process.id.pid, process)).collect();
        let of = |pid: u32| {
            let process: &HashMap<u32, &Process> = &by_pid;
            let pids = ancestors(process[&pid], &by_pid).map(|ancestor| ancestor.id.pid);
            pids.collect::<Vec<_>>()
        };
        assert_eq!(of(12), [11, 10]);
        assert_eq!([of(10), of(13), of(14)], [[0; 0]; 3]);
        assert_eq!(of(15), [10]);
    }

    #[test]
    fn a_process_has_one_line_with_all_that_it_did() {
        let mut model = Model::default();
        let counted = |reads, fetched| {
            let mut counters = Counters::ZERO;
            counters.v[READS] = reads;
            counters.v[BYTES_READ] = 1_000 * reads;
            counters.v[BYTES_FETCHED] = fetched;
            counters
        };
        let id = |pid| ProcessId { pid, start: pid };
        let file = |inode| {
            let device = 1;
            Place::File(FileId {
                device,
                inode,
                generation: 0,
            })
        };
        let [training, log] = [Phase::Training, Phase::Other(Some(Class::Log))];
        model.add_sorted(id(1), file(1), training.code().into(), &counted(2, 500));
        model.add_sorted(id(1), file(2), log.code().into(), &counted(1, 0));
        model.add_sorted(id(1), Place::Overflow, 0, &counted(4, 70));
        // Page faults are no calls.
        model.add_sorted(id(2), file(1), training.code().into(), &counted(0, 9));
        let lines = Lines::of(
            &model,
            Classifier::builtin(),
            &mut Users::default(),
            Duration::from_secs(1),
        );
        let lines: Vec<_> = lines
            .processes
            .iter()
            .map(|line| {
                let by_phase = line.by_phase.iter();
                let by_phase = by_phase.map(|(phase, done)| (*phase, done.bytes_read));
                let by_phase: Vec<_> = by_phase.collect();
                (line.process.pid, by_phase, line.fetched)
            })
            .collect();
        let of_first = vec![(training, 2_000), (Phase::UNMATCHED, 5_000)];
        assert_eq!(lines, [(1, of_first, Some(570)), (2, vec![], Some(9))]);
    }

    #[test]
    fn latencies_are_of_the_process_and_of_the_interval() {
        let mut model = Model::default();
        let id = |pid| ProcessId { pid, start: pid };
        let took = |bucket, calls, longest| {
            let mut histogram = Histogram::default();
            histogram.add(bucket, calls, longest);
            histogram
        };
        let of = |device| Operations {
            device,
            phase: 0,
            class: 0,
        };
        let mut read = Counters::ZERO;
        read.v[READS] = 1;
        for pid in [1, 2] {
            model.add_sorted(id(pid), Place::Overflow, 0, &read);
        }
        let longest = |model: &Model| {
            let users = &mut Users::default();
            let second = Duration::from_secs(1);
            let lines = Lines::of(model, Classifier::builtin(), users, second);
            let of_line = |line: &Line| (line.latencies.calls(), line.latencies.longest());
            lines.processes.iter().map(of_line).collect::<Vec<_>>()
        };
        assert_eq!(longest(&model), [(0, 0), (0, 0)], "none are counted");
        model.add_latencies(id(2), of(1), &took(60, 98, 700));
        model.add_latencies(id(2), of(2), &took(90, 2, 9_000));
        assert_eq!(longest(&model), [(0, 0), (100, 9_000)]);
        model.settle(Bounds { start: 0, end: 0 });
        model.add_sorted(id(2), Place::Overflow, 0, &read);
        model.add_latencies(id(2), of(1), &took(60, 1, 600));
        assert_eq!(longest(&model), [(1, 600)]);
    }

    #[test]
    fn users_have_names() {
        let mut users = Users::default();
        assert_eq!(users.name(0), "root");
        assert_eq!(users.name(3_999_999_999), "3999999999");
    }
}
