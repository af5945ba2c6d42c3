//! What is on the screen: which lines of an interval or of all, how they are sorted and grouped. Pure.

use std::{
    cmp::{Ordering, Reverse},
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use iotrace_model::{input::ProcessId, run::CallInFlight};

use super::{
    cpu,
    lines::{self, ByPhase, Line, Lines},
    tree,
};

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Processes,
    Files,
}

/// How lines of processes are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// A line for each process.
    List,
    /// A line for each process and phase.
    ByPhase,
    /// A line for each process, under that of its parent.
    Tree,
}

/// A column of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Pid,
    User,
    Cpu,
    Phase,
    Read,
    Written,
    Fetched,
    Operations,
    Time,
    Job,
    Name,
}

impl Column {
    /// Those to sort by, which every screen has.
    pub const SORTABLE: [Self; 7] = [
        Self::Pid,
        Self::Phase,
        Self::Read,
        Self::Written,
        Self::Operations,
        Self::Time,
        Self::Name,
    ];
}

/// What the user has set, and what was seen.
pub struct State {
    pub what: What,
    pub grouping: Grouping,
    /// The column that is sorted by, and whether the smallest comes first, by what is shown.
    sorts: [(Column, bool); 2],
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// Totals since the start are shown, and no rates.
    pub shows_totals: bool,
    pub shows_help: bool,
    /// The user has quit.
    pub is_over: bool,
    /// Lines above the first on the screen.
    pub above: usize,
    /// Processes whose CPU time has a place on the screen.
    pub cpu_wanted: Vec<ProcessId>,
    last: Lines,
    /// CPU time in the interval of `last`.
    cpu: cpu::Shares,
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
    /// Of processes, and of files by process.
    sums: HashMap<(ProcessId, Option<Rc<str>>), Line>,
    /// With the lines that are forgotten.
    by_phase: ByPhase,
    /// Bytes per second in each interval, all phases together, the newest last.
    rates: VecDeque<u64>,
}

/// Lines kept for the totals, of which the smallest go when there are more.
const SUMS: usize = 50_000;
/// Intervals whose rate is kept: more than the columns of any screen.
const RATES: usize = 512;

impl State {
    pub fn new(files: bool, filter: String) -> Self {
        Self {
            what: if files { What::Files } else { What::Processes },
            grouping: Grouping::List,
            sorts: [(Column::Time, false); 2],
            filter,
            typing: false,
            shows_totals: false,
            shows_help: false,
            is_over: false,
            above: 0,
            cpu_wanted: Vec::new(),
            last: Lines::default(),
            cpu: cpu::Shares::new(),
            totals: Totals::default(),
            held: None,
            lost: 0,
            in_flight: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Takes the lines of an interval, and the CPU time of processes in it.
    pub fn take(&mut self, lines: Lines, cpu: cpu::Shares, lost: u64) {
        self.totals.add(&lines);
        self.lost = lost;
        if !self.is_paused() {
            self.last = lines;
            self.cpu = cpu;
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
        let mut lines: Vec<Line> = if self.shows_totals {
            let sums = self.shown_totals().sums.values();
            let is_file = self.what == What::Files;
            sums.filter(|line| line.path.is_some() == is_file)
                .cloned()
                .collect()
        } else {
            self.last.get(self.what).to_vec()
        };
        let grouping = match self.what {
            What::Processes => self.grouping,
            What::Files => Grouping::List,
        };
        if grouping == Grouping::ByPhase {
            lines = lines.into_iter().flat_map(Line::split).collect();
        }
        let filter = self.filter.to_lowercase();
        lines.retain(|line| is_match(line, &filter));
        let (column, ascending) = self.sort();
        lines.sort_by(|a, b| {
            let order = compare(column, a, b);
            let order = if ascending { order } else { order.reverse() };
            let rest = |line: &Line| (Reverse(line.done().merged_ns), line.process);
            order
                .then_with(|| rest(a).cmp(&rest(b)))
                .then_with(|| a.name().cmp(b.name()))
        });
        if grouping == Grouping::Tree {
            lines = tree::order(lines);
        }
        lines
    }

    /// What was done by phase, all processes together.
    pub fn by_phase(&self) -> ByPhase {
        if self.shows_totals {
            self.shown_totals().by_phase.clone()
        } else {
            self.last.by_phase()
        }
    }

    /// Bytes per second in each interval, the newest last.
    pub fn rates(&self) -> &VecDeque<u64> {
        &self.shown_totals().rates
    }

    /// CPU time of a process in the last interval, as a share of it; `None` if unknown.
    pub fn cpu_of(&self, process: ProcessId) -> Option<f64> {
        self.cpu.get(&process).copied()
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
        let all = Column::SORTABLE;
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

    /// Shows processes grouped like this, or as a list if they are.
    pub fn group(&mut self, grouping: Grouping) {
        self.grouping = match (self.what, self.grouping == grouping) {
            (What::Processes, true) => Grouping::List,
            _ => grouping,
        };
        self.what = What::Processes;
        self.above = 0;
    }

    pub fn scroll(&mut self, lines: isize) {
        self.above = self.above.saturating_add_signed(lines);
    }
}

impl Totals {
    fn add(&mut self, lines: &Lines) {
        let by_phase = lines.by_phase();
        lines::add(&mut self.by_phase, &by_phase);
        for line in lines.processes.iter().chain(&lines.files) {
            let sum = self.sums.entry((line.process, line.path.clone()));
            let sum = sum.or_insert_with(|| Line {
                by_phase: ByPhase::new(),
                fetched: Some(0),
                ..line.clone()
            });
            // A program that was executed since has another command.
            sum.about = Rc::clone(&line.about);
            lines::add(&mut sum.by_phase, &line.by_phase);
            let fetched = sum.fetched.zip(line.fetched);
            sum.fetched = fetched.map(|(sum, more)| sum.saturating_add(more));
        }
        if self.sums.len() > SUMS {
            let times = self.sums.values().map(|line| line.done().ns);
            let mut times: Vec<u64> = times.collect();
            let (_, least, _) = times.select_nth_unstable(SUMS / 2);
            let least = *least;
            self.sums.retain(|_, line| line.done().ns > least);
        }
        self.elapsed += lines.period;
        let ns = lines.period.as_nanos().max(1);
        let rate = u128::from(lines::sum(&by_phase).bytes()) * 1_000_000_000 / ns;
        self.rates
            .push_back(u64::try_from(rate).unwrap_or(u64::MAX));
        if self.rates.len() > RATES {
            self.rates.pop_front();
        }
    }
}

/// Whether a line has the text of the filter, which is in lower case.
fn is_match(line: &Line, filter: &str) -> bool {
    let about = &line.about;
    let texts = match &line.path {
        None => [&*about.command, &about.user, &about.job],
        Some(path) => [&**path, "", ""],
    };
    filter.is_empty()
        || texts
            .iter()
            .any(|text| text.to_lowercase().contains(filter))
        || line
            .by_phase
            .keys()
            .any(|phase| phase.name().contains(filter))
        || line.process.pid.to_string() == filter
}

fn compare(column: Column, a: &Line, b: &Line) -> Ordering {
    let (of_a, of_b) = (a.done(), b.done());
    match column {
        Column::Phase => a.main_phase().cmp(&b.main_phase()),
        Column::Read => of_a.bytes_read.cmp(&of_b.bytes_read),
        Column::Written => of_a.bytes_written.cmp(&of_b.bytes_written),
        Column::Operations => of_a.operations.cmp(&of_b.operations),
        Column::Time => of_a.merged_ns.cmp(&of_b.merged_ns),
        Column::Name => a.name().cmp(b.name()),
        // The others are not sorted by.
        Column::Pid | Column::User | Column::Cpu | Column::Fetched | Column::Job => {
            a.process.pid.cmp(&b.process.pid)
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use iotrace_model::IoTotals;
    use iotrace_phases::phase::Phase;

    use super::{super::lines::About, *};

    pub fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    /// A line of a process that read so many bytes in so many nanoseconds, by phase, half of them from storage.
    pub fn line(pid: u32, by_phase: &[(Phase, u64, u64)], about: About) -> Line {
        let done = |(phase, read, ns): &(Phase, u64, u64)| {
            let done = IoTotals {
                operations: 1,
                bytes_read: *read,
                ns: *ns,
                merged_ns: *ns,
                ..IoTotals::default()
            };
            (*phase, done)
        };
        Line {
            process: id(pid),
            about: Rc::new(about),
            path: None,
            by_phase: by_phase.iter().map(done).collect(),
            fetched: Some(by_phase.iter().map(|(_, read, _)| read / 2).sum()),
            depth: 0,
        }
    }

    pub fn named(command: &str) -> About {
        About {
            command: command.into(),
            ..About::default()
        }
    }

    /// Lines of processes, in one second.
    pub fn second(processes: Vec<Line>) -> Lines {
        Lines {
            period: Duration::from_secs(1),
            processes,
            files: Vec::new(),
        }
    }

    pub fn take(state: &mut State, lines: Lines) {
        state.take(lines, cpu::Shares::new(), 0);
    }

    /// One process that did so many operations in one second.
    pub fn one_process(operations: u64) -> Lines {
        let done = [(Phase::Training, u64::MAX, 900_000_000)];
        let mut line = line(10, &done, named("train.py"));
        for done in line.by_phase.values_mut() {
            done.operations = operations;
        }
        second(vec![line])
    }

    /// Two processes and a file, in one second.
    pub fn state() -> State {
        let mut state = State::new(false, String::new());
        take(&mut state, lines());
        state
    }

    fn lines() -> Lines {
        let python = About {
            user: "ada".into(),
            job: "slurm:4242 rank 3".into(),
            ..named("python3 train.py")
        };
        let of_python = [
            (Phase::Training, 3 << 20, 200_000_000),
            (Phase::Checkpoint, 0, 400_000_000),
        ];
        let of_cat = [(Phase::UNMATCHED, 5 << 20, 1_000_000)];
        let file = Line {
            path: Some("/data/train-0001.tar".into()),
            ..line(10, &of_python[..1], named("python3 train.py"))
        };
        Lines {
            files: vec![file],
            ..second(vec![
                line(10, &of_python, python),
                line(9, &of_cat, named("cat /etc/passwd")),
            ])
        }
    }

    fn pids(state: &State) -> Vec<u32> {
        let lines = state.lines();
        lines.iter().map(|line| line.process.pid).collect()
    }

    fn pids_and_phases(state: &State) -> Vec<(u32, &'static str)> {
        let lines = state.lines();
        lines
            .iter()
            .map(|line| (line.process.pid, line.main_phase().name()))
            .collect()
    }

    #[test]
    fn sorts_and_filters() {
        let mut state = state();
        assert_eq!(pids(&state), [10, 9]);
        state.reverse();
        assert_eq!(pids(&state), [9, 10]);
        while state.sort().0 != Column::Read {
            state.sort_by(1);
        }
        assert_eq!(pids(&state), [9, 10]);
        for (filter, expected) in [
            ("TRAIN.py", vec![10]),
            ("checkpoint", vec![10]),
            ("slurm:42", vec![10]),
            ("Ada", vec![10]),
            ("9", vec![9]),
            ("a", vec![9, 10]),
        ] {
            state.filter = filter.into();
            assert_eq!(pids(&state), expected, "{filter}");
        }
        state.filter.clear();
        state.turn();
        assert_eq!(pids_and_phases(&state), [(10, "training")]);
    }

    #[test]
    fn lines_by_phase_are_sorted_and_filtered() {
        let mut state = state();
        state.group(Grouping::ByPhase);
        let expected = [(10, "checkpoint"), (10, "training"), (9, "other")];
        assert_eq!(pids_and_phases(&state), expected);
        state.filter = "checkpoint".into();
        assert_eq!(pids_and_phases(&state), [(10, "checkpoint")]);
        state.group(Grouping::ByPhase);
        assert_eq!(pids(&state), [10], "a list again");
        state.turn();
        state.group(Grouping::ByPhase);
        assert_eq!(
            (state.what, state.grouping),
            (What::Processes, Grouping::ByPhase)
        );
    }

    #[test]
    fn lines_add_up_to_the_header() {
        let mut state = state();
        take(&mut state, lines());
        for shows_totals in [false, true] {
            state.shows_totals = shows_totals;
            for grouping in [Grouping::List, Grouping::ByPhase, Grouping::Tree] {
                state.grouping = grouping;
                let mut sums = BTreeMap::new();
                for line in state.lines() {
                    lines::add(&mut sums, &line.by_phase);
                }
                assert_eq!(sums, state.by_phase(), "{grouping:?}");
                let intervals = 1 + u64::from(shows_totals);
                assert_eq!(lines::sum(&sums).bytes_read, intervals * (8 << 20));
                let fetched = state.lines().iter().map(|line| line.fetched).sum();
                let is_by_phase = grouping == Grouping::ByPhase;
                let expected = (!is_by_phase).then_some(intervals * (4 << 20));
                assert_eq!(expected, fetched, "{grouping:?}");
            }
        }
    }

    #[test]
    fn what_is_shown_stands_still_while_it_is_paused() {
        let mut state = state();
        state.pause();
        take(
            &mut state,
            Lines {
                processes: vec![],
                ..lines()
            },
        );
        assert_eq!(state.lines().len(), 2, "rates");
        assert_eq!(*state.rates(), [8 << 20]);
        state.what = What::Files;
        state.shows_totals = true;
        let read = |state: &State| state.lines()[0].done().bytes_read;
        assert_eq!(read(&state), 3 << 20, "totals");
        assert_eq!(state.period(), Duration::from_secs(1));
        state.pause();
        assert_eq!(read(&state), 6 << 20, "all was counted");
        assert_eq!(state.period(), Duration::from_secs(2));
        assert_eq!(*state.rates(), [8 << 20, 0]);
    }

    #[test]
    fn totals_have_one_line_of_a_process_that_executes_programs() {
        let mut state = State::new(false, String::new());
        let done = [(Phase::Startup, 1, 1)];
        for command in ["sh job.sh", "python3 train.py"] {
            take(&mut state, second(vec![line(10, &done, named(command))]));
        }
        state.shows_totals = true;
        let lines = state.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].name(), "python3 train.py");
        assert_eq!(lines[0].done().bytes_read, 2);
    }
}
