//! What is on the screen: lines of one interval, how they are sorted, which are shown. Pure.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use iotrace_model::{IoTotals, Model, run::CallInFlight};
use iotrace_phases::{
    Classifier,
    context::Sorted,
    phase::{Direction, Phase},
};
use iotrace_report::escape;

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Processes,
    Files,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Pid,
    Phase,
    Read,
    Written,
    Operations,
    Time,
    Name,
}

impl Column {
    pub const ALL: [Self; 7] = [
        Self::Pid,
        Self::Phase,
        Self::Read,
        Self::Written,
        Self::Operations,
        Self::Time,
        Self::Name,
    ];
}

/// One line: a process in a phase, or a file as one process uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub pid: u32,
    pub phase: Phase,
    pub done: IoTotals,
    /// The command or the path.
    pub name: String,
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
    pub fn of(model: &Model, classifier: &Classifier, period: Duration) -> Self {
        let mut lines = Self {
            period,
            ..Self::default()
        };
        for process in model.processes() {
            let mut by_phase: BTreeMap<Phase, IoTotals> = BTreeMap::new();
            for (code, done) in process.phases.interval() {
                by_phase
                    .entry(shown(Phase::from_code(code)))
                    .or_default()
                    .add(done);
            }
            lines
                .processes
                .extend(by_phase.into_iter().map(|(phase, done)| Line {
                    pid: process.id.pid,
                    phase,
                    done,
                    name: command(&process.about.args, &process.about.comm),
                }));
        }
        for row in model.dirty_rows() {
            let (file, done) = (model.file(row.file), IoTotals::of(&row.cell.interval()));
            let direction = if done.bytes_written > done.bytes_read {
                Direction::Write
            } else {
                Direction::Read
            };
            let (_, fs_type) = model.mount_of(&file);
            let sorted = Sorted {
                verdict: classifier.verdict(file.path, file.is_directory(), fs_type),
                reasons: [None; 2],
            };
            let name = match file.path {
                b"" => "(its name has not come yet)".into(),
                path => escape(path),
            };
            lines.files.push(Line {
                pid: model.processes()[row.process as usize].id.pid,
                phase: shown(sorted.phase(direction)),
                done,
                name,
            });
        }
        lines
    }

    fn get(&self, what: What) -> &[Line] {
        match what {
            What::Processes => &self.processes,
            What::Files => &self.files,
        }
    }
}

/// A phase without its class.
fn shown(phase: Phase) -> Phase {
    match phase {
        Phase::Other(_) => Phase::UNMATCHED,
        phase => phase,
    }
}

fn command(args: &[Vec<u8>], comm: &[u8]) -> String {
    if args.is_empty() {
        return format!("[{}]", escape(comm));
    }
    escape(&args.join(&b' '))
}

/// What the user has set, and what was seen.
pub struct State {
    pub what: What,
    /// The column that is sorted by, and whether the smallest comes first, by what is shown.
    sorts: [(Column, bool); 2],
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// Totals since the start are shown, and no rates.
    pub shows_totals: bool,
    /// Lines above the first on the screen.
    pub above: usize,
    last: Lines,
    totals: Totals,
    /// While it is paused: the totals of then.
    held: Option<Totals>,
    /// Operations that no counter holds.
    pub lost: u64,
    /// Calls that have not returned after a second, the longest first.
    pub in_flight: Vec<CallInFlight>,
    /// Of the processes that were named, those that have ended.
    pub ended: Vec<u32>,
}

/// What was counted since the start.
#[derive(Clone, Default)]
struct Totals {
    elapsed: Duration,
    /// Of files and of processes, by whether it is a file.
    sums: HashMap<(bool, u32, Phase, String), IoTotals>,
    /// By phase, with the lines that are forgotten.
    by_phase: BTreeMap<Phase, IoTotals>,
}

/// Lines kept for the totals, of which the smallest go when there are more.
const SUMS: usize = 50_000;

impl State {
    pub fn new(files: bool, filter: String) -> Self {
        Self {
            what: if files { What::Files } else { What::Processes },
            sorts: [(Column::Time, false); 2],
            filter,
            typing: false,
            shows_totals: false,
            above: 0,
            last: Lines::default(),
            totals: Totals::default(),
            held: None,
            lost: 0,
            in_flight: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Takes the lines of an interval.
    pub fn take(&mut self, lines: Lines, lost: u64) {
        self.totals.add(&lines);
        self.lost = lost;
        if !self.is_paused() {
            self.last = lines;
        }
    }

    /// Holds what is shown, or goes on; all is counted meanwhile.
    pub fn pause(&mut self) {
        self.held = match self.held {
            Some(_) => None,
            None => Some(self.totals.clone()),
        };
    }

    pub fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// The totals to show.
    fn shown_totals(&self) -> &Totals {
        self.held.as_ref().unwrap_or(&self.totals)
    }

    /// The lines to show, in order.
    pub fn lines(&self) -> Vec<Line> {
        let filter = self.filter.to_lowercase();
        let is_shown = |line: &Line| {
            filter.is_empty()
                || line.name.to_lowercase().contains(&filter)
                || line.phase.name().contains(&filter)
                || line.pid.to_string() == filter
        };
        let mut lines: Vec<Line> = if self.shows_totals {
            let is_file = self.what == What::Files;
            let sums = self
                .shown_totals()
                .sums
                .iter()
                .filter(|(key, _)| key.0 == is_file);
            sums.map(|((_, pid, phase, name), done)| Line {
                pid: *pid,
                phase: *phase,
                done: *done,
                name: name.clone(),
            })
            .filter(is_shown)
            .collect()
        } else {
            let lines = self.last.get(self.what).iter();
            lines.filter(|line| is_shown(line)).cloned().collect()
        };
        let (column, ascending) = self.sort();
        lines.sort_by(|a, b| {
            let order = compare(column, a, b);
            let order = if ascending { order } else { order.reverse() };
            order.then_with(|| {
                (Reverse(a.done.merged_ns), a.pid, &a.name).cmp(&(
                    Reverse(b.done.merged_ns),
                    b.pid,
                    &b.name,
                ))
            })
        });
        lines
    }

    /// What was done by phase, all lines together.
    pub fn phases(&self) -> Vec<(Phase, IoTotals)> {
        if self.shows_totals {
            return self.shown_totals().by_phase.clone().into_iter().collect();
        }
        let mut phases: BTreeMap<Phase, IoTotals> = BTreeMap::new();
        for line in &self.last.processes {
            phases.entry(line.phase).or_default().add(&line.done);
        }
        phases.into_iter().collect()
    }

    /// The period that the numbers are of.
    pub fn period(&self) -> Duration {
        if self.shows_totals {
            self.shown_totals().elapsed
        } else {
            self.last.period
        }
    }

    /// The column that is sorted by, and whether the smallest comes first.
    pub fn sort(&self) -> (Column, bool) {
        self.sorts[self.what as usize]
    }

    /// Sorts by the column so many further.
    pub fn sort_by(&mut self, further: isize) {
        let (column, ascending) = &mut self.sorts[self.what as usize];
        let all = Column::ALL;
        let index = all.iter().position(|one| one == column).unwrap_or(0) as isize;
        *column = all[(index + further).rem_euclid(all.len() as isize) as usize];
        // Names from A on, numbers from the largest on.
        *ascending = matches!(column, Column::Pid | Column::Phase | Column::Name);
    }

    pub fn reverse(&mut self) {
        let (_, ascending) = &mut self.sorts[self.what as usize];
        *ascending = !*ascending;
    }

    /// Shows files instead of processes, or these again.
    pub fn turn(&mut self) {
        self.what = match self.what {
            What::Processes => What::Files,
            What::Files => What::Processes,
        };
        self.above = 0;
    }

    pub fn scroll(&mut self, lines: isize) {
        self.above = self.above.saturating_add_signed(lines);
    }
}

impl Totals {
    fn add(&mut self, lines: &Lines) {
        for line in &lines.processes {
            self.by_phase.entry(line.phase).or_default().add(&line.done);
        }
        for (is_file, all) in [(false, &lines.processes), (true, &lines.files)] {
            for line in all {
                let key = (is_file, line.pid, line.phase, line.name.clone());
                self.sums.entry(key).or_default().add(&line.done);
            }
        }
        if self.sums.len() > SUMS {
            let mut times: Vec<u64> = self.sums.values().map(|done| done.ns).collect();
            let (_, least, _) = times.select_nth_unstable(SUMS / 2);
            let least = *least;
            self.sums.retain(|_, done| done.ns > least);
        }
        self.elapsed += lines.period;
    }
}

fn compare(column: Column, a: &Line, b: &Line) -> Ordering {
    match column {
        Column::Pid => a.pid.cmp(&b.pid),
        Column::Phase => a.phase.cmp(&b.phase),
        Column::Read => a.done.bytes_read.cmp(&b.done.bytes_read),
        Column::Written => a.done.bytes_written.cmp(&b.done.bytes_written),
        Column::Operations => a.done.operations.cmp(&b.done.operations),
        Column::Time => a.done.merged_ns.cmp(&b.done.merged_ns),
        Column::Name => a.name.cmp(&b.name),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn line(pid: u32, phase: Phase, read: u64, ns: u64, name: &str) -> Line {
        let done = IoTotals {
            operations: 1,
            bytes_read: read,
            ns,
            merged_ns: ns,
            ..IoTotals::default()
        };
        Line {
            pid,
            phase,
            done,
            name: name.into(),
        }
    }

    /// One process that did so many operations in one second.
    pub fn one_process(operations: u64) -> Lines {
        let mut line = line(10, Phase::Training, u64::MAX, 900_000_000, "train.py");
        line.done.operations = operations;
        Lines {
            period: Duration::from_secs(1),
            processes: vec![line],
            files: Vec::new(),
        }
    }

    /// Three processes and a file, in one second.
    pub fn state() -> State {
        let mut state = State::new(false, String::new());
        state.take(lines(), 0);
        state
    }

    fn lines() -> Lines {
        Lines {
            period: Duration::from_secs(1),
            processes: vec![
                line(
                    10,
                    Phase::Training,
                    3 << 20,
                    200_000_000,
                    "python3 train.py",
                ),
                line(10, Phase::Checkpoint, 0, 400_000_000, "python3 train.py"),
                line(9, Phase::UNMATCHED, 5 << 20, 1_000_000, "cat /etc/passwd"),
            ],
            files: vec![line(
                10,
                Phase::Training,
                3 << 20,
                200_000_000,
                "/data/train-0001.tar",
            )],
        }
    }

    fn pids(state: &State) -> Vec<(u32, &'static str)> {
        let lines = state.lines();
        lines
            .iter()
            .map(|line| (line.pid, line.phase.name()))
            .collect()
    }

    #[test]
    fn sorts_and_filters() {
        let mut state = state();
        assert_eq!(
            pids(&state),
            [(10, "checkpoint"), (10, "training"), (9, "other")]
        );
        state.reverse();
        assert_eq!(pids(&state)[0], (9, "other"));
        while state.sort().0 != Column::Read {
            state.sort_by(1);
        }
        assert_eq!(
            pids(&state),
            [(9, "other"), (10, "training"), (10, "checkpoint")]
        );
        state.filter = "TRAIN.py".into();
        assert_eq!(pids(&state).len(), 2);
        state.filter = "checkpoint".into();
        assert_eq!(pids(&state), [(10, "checkpoint")]);
        state.filter = "9".into();
        assert_eq!(pids(&state), [(9, "other")]);
        state.filter.clear();
        state.turn();
        assert_eq!(pids(&state), [(10, "training")]);
    }

    #[test]
    fn what_is_shown_stands_still_while_it_is_paused() {
        let mut state = state();
        state.pause();
        state.take(
            Lines {
                processes: vec![],
                ..lines()
            },
            0,
        );
        assert_eq!(state.lines().len(), 3, "rates");
        state.what = What::Files;
        state.shows_totals = true;
        assert_eq!(state.lines()[0].done.bytes_read, 3 << 20, "totals");
        assert_eq!(state.period(), Duration::from_secs(1));
        state.pause();
        assert_eq!(state.lines()[0].done.bytes_read, 6 << 20, "all was counted");
        assert_eq!(state.period(), Duration::from_secs(2));
    }
}
