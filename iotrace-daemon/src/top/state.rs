//! What is on the screen: which lines of an interval or of all, how they are sorted and grouped. Pure.

use std::{
    cmp::{Ordering, Reverse},
    collections::{HashMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use iotrace_model::{input::ProcessId, latencies::Histogram, run::CallInFlight};
use iotrace_phases::phase::Phase;

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
    Latency,
    Job,
    Name,
}

impl Column {
    /// Those that every screen has: the keys sort by them, a click by any.
    pub const ALWAYS_SHOWN: [Self; 7] = [
        Self::Pid,
        Self::Phase,
        Self::Read,
        Self::Written,
        Self::Operations,
        Self::Time,
        Self::Name,
    ];
}

/// The row that is selected, wherever it is on the screen, and also while it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub process: ProcessId,
    path: Option<Rc<str>>,
    /// The phase, if a process has a row for each; `None` for the first row of the process.
    phase: Option<Phase>,
}

impl Selected {
    fn of(line: &Line, is_by_phase: bool) -> Self {
        Self {
            process: line.process,
            path: line.path.clone(),
            phase: is_by_phase.then(|| line.main_phase()),
        }
    }

    fn is(&self, line: &Line) -> bool {
        let is_of_phase = |phase: Phase| line.main_phase() == phase;
        line.process == self.process && line.path == self.path && self.phase.is_none_or(is_of_phase)
    }
}

/// Where the table of lines was drawn last, in cells of the screen.
#[derive(Default)]
pub struct Place {
    /// The row of the titles; the lines are below.
    pub titles: u16,
    /// Number of lines that fit below the titles.
    pub rows: u16,
    /// The columns from the left, with the first cell after each.
    pub columns: Vec<(Column, u16)>,
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
    /// How long calls took is counted.
    pub has_latencies: bool,
    /// The user has quit.
    pub is_over: bool,
    /// The user wants the recording of the selected process to begin, or the one that runs to end.
    pub is_recording_wanted: bool,
    /// What is to be said of recordings.
    pub notice: Option<String>,
    /// Lines above the first on the screen.
    pub above: usize,
    pub selected: Option<Selected>,
    pub place: Place,
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
            has_latencies: false,
            is_over: false,
            is_recording_wanted: false,
            notice: None,
            above: 0,
            selected: None,
            place: Place::default(),
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
        if self.is_by_phase() {
            lines = lines.into_iter().flat_map(Line::split).collect();
        }
        let filter = self.filter.to_lowercase();
        lines.retain(|line| is_match(line, &filter));
        let (column, ascending) = self.sort();
        lines.sort_by(|a, b| {
            let order = self.compare(column, a, b);
            let order = if ascending { order } else { order.reverse() };
            let rest = |line: &Line| (Reverse(line.done().merged_ns), line.process);
            order
                .then_with(|| rest(a).cmp(&rest(b)))
                .then_with(|| a.name().cmp(b.name()))
        });
        if (self.what, self.grouping) == (What::Processes, Grouping::Tree) {
            lines = tree::order(lines);
        }
        lines
    }

    /// Whether a process has a row for each of its phases.
    fn is_by_phase(&self) -> bool {
        (self.what, self.grouping) == (What::Processes, Grouping::ByPhase)
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

    /// Sorts by the next column that every screen has, or by the previous one.
    pub fn sort_by_neighbour(&mut self, is_next: bool) {
        let mut all = Column::ALWAYS_SHOWN;
        if !is_next {
            all.reverse();
        }
        let (current, _) = self.sort();
        let is_further = |column: &Column| match is_next {
            true => *column as usize > current as usize,
            false => (*column as usize) < current as usize,
        };
        let further = all.iter().copied().find(is_further);
        self.sort_by(further.unwrap_or(all[0]));
    }

    /// Sorts by a column: names from A on, numbers from the largest on.
    fn sort_by(&mut self, column: Column) {
        use Column::{Job, Name, Phase, Pid, User};
        let ascending = matches!(column, Pid | User | Phase | Job | Name);
        self.sorts[self.what as usize] = (column, ascending);
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
        self.selected = None;
    }

    /// Shows processes grouped like this, or as a list if they are.
    pub fn group(&mut self, grouping: Grouping) {
        self.grouping = match (self.what, self.grouping == grouping) {
            (What::Processes, true) => Grouping::List,
            _ => grouping,
        };
        self.what = What::Processes;
        self.above = 0;
        if let Some(selected) = &mut self.selected {
            (selected.path, selected.phase) = (None, None);
        }
    }

    pub fn scroll(&mut self, lines: isize) {
        self.above = self.above.saturating_add_signed(lines);
    }

    /// Which of `lines` is selected.
    pub fn selected_line(&self, lines: &[Line]) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        lines.iter().position(|line| selected.is(line))
    }

    /// Moves the selection by `lines`, and scrolls to it.
    pub fn select_further(&mut self, lines: isize) {
        let all = self.lines();
        let index = match self.selected_line(&all) {
            Some(index) => index.saturating_add_signed(lines),
            // The nearest on the screen is one line further.
            None => self.above.saturating_add_signed(lines - lines.signum()),
        };
        let index = index.min(all.len().saturating_sub(1));
        self.select(&all, index);
        let last_above = (index + 1).saturating_sub(self.place.rows.into());
        self.above = self.above.clamp(last_above, index.max(last_above));
    }

    fn select(&mut self, lines: &[Line], index: usize) {
        if let Some(line) = lines.get(index) {
            self.selected = Some(Selected::of(line, self.is_by_phase()));
        }
    }

    /// Selects the line at this cell of the screen; sorts by the column whose title is there, or reverses its order.
    pub fn click(&mut self, x: u16, y: u16) {
        let Place {
            titles,
            rows,
            columns,
        } = &self.place;
        let Some(row) = y.checked_sub(*titles).filter(|row| row <= rows) else {
            return;
        };
        if row > 0 {
            self.select(&self.lines(), self.above + usize::from(row) - 1);
        } else if let Some((column, _)) = columns.iter().find(|(_, end)| x < *end) {
            match *column == self.sort().0 {
                true => self.reverse(),
                false => self.sort_by(*column),
            }
        }
    }

    fn compare(&self, column: Column, a: &Line, b: &Line) -> Ordering {
        let (of_a, of_b) = (a.done(), b.done());
        let cpu = |line: &Line| self.cpu_of(line.process).unwrap_or_default();
        match column {
            Column::Pid => a.process.pid.cmp(&b.process.pid),
            Column::User => a.about.user.cmp(&b.about.user),
            Column::Cpu => cpu(a).total_cmp(&cpu(b)),
            Column::Phase => a.main_phase().cmp(&b.main_phase()),
            Column::Read => of_a.bytes_read.cmp(&of_b.bytes_read),
            Column::Written => of_a.bytes_written.cmp(&of_b.bytes_written),
            Column::Fetched => a.fetched.cmp(&b.fetched),
            Column::Operations => of_a.operations.cmp(&of_b.operations),
            Column::Time => of_a.merged_ns.cmp(&of_b.merged_ns),
            Column::Latency => a.slowest_percent().cmp(&b.slowest_percent()),
            Column::Job => a.about.job.cmp(&b.about.job),
            Column::Name => a.name().cmp(b.name()),
        }
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
                latencies: Histogram::default(),
                ..line.clone()
            });
            // A program that was executed since has another command.
            sum.about = Rc::clone(&line.about);
            lines::add(&mut sum.by_phase, &line.by_phase);
            let fetched = sum.fetched.zip(line.fetched);
            sum.fetched = fetched.map(|(sum, more)| sum.saturating_add(more));
            sum.latencies.absorb(&line.latencies);
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

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use iotrace_model::IoTotals;

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
            latencies: Histogram::default(),
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
            state.sort_by_neighbour(true);
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

    /// The row after the titles is the first line's.
    fn placed(state: &mut State, rows: u16) {
        state.place = Place {
            titles: 4,
            rows,
            columns: vec![(Column::Pid, 8), (Column::User, 17), (Column::Name, 80)],
        };
    }

    fn selected(state: &State) -> Option<u32> {
        Some(state.selected.as_ref()?.process.pid)
    }

    #[test]
    fn a_selection_follows_its_process() {
        let mut state = state();
        placed(&mut state, 1);
        assert_eq!(selected(&state), None);
        state.select_further(1);
        assert_eq!((selected(&state), state.above), (Some(10), 0));
        state.select_further(1);
        assert_eq!((selected(&state), state.above), (Some(9), 1), "scrolled");
        state.reverse();
        let index = |state: &State| state.selected_line(&state.lines());
        assert_eq!(index(&state), Some(0));
        take(&mut state, one_process(1));
        assert_eq!((index(&state), selected(&state)), (None, Some(9)), "no row");
        state.select_further(isize::MIN);
        assert_eq!((selected(&state), state.above), (Some(10), 0));
        take(&mut state, second(Vec::new()));
        state.select_further(10);
        assert_eq!(selected(&state), Some(10), "there is none to select");
    }

    #[test]
    fn each_phase_of_a_process_can_be_selected() {
        let mut state = state();
        placed(&mut state, 9);
        state.select_further(1);
        state.group(Grouping::ByPhase);
        let index = |state: &State| state.selected_line(&state.lines());
        assert_eq!(index(&state), Some(0), "the first of the process");
        for expected in [(1, 10), (2, 9), (2, 9)] {
            state.select_further(1);
            let found = (index(&state).unwrap(), selected(&state).unwrap());
            assert_eq!(found, expected);
        }
        state.turn();
        assert_eq!(selected(&state), None);
        state.select_further(1);
        assert_eq!(selected(&state), Some(10), "whose file it is");
    }

    #[test]
    fn a_click_selects_or_sorts() {
        let mut state = state();
        placed(&mut state, 9);
        state.click(0, 6);
        assert_eq!(selected(&state), Some(9));
        for (x, y) in [(0, 3), (0, 7), (0, 14), (80, 4)] {
            state.click(x, y);
            let expected = (Some(9), (Column::Time, false));
            assert_eq!((selected(&state), state.sort()), expected, "{x} {y}");
        }
        state.click(8, 4);
        assert_eq!(state.sort(), (Column::User, true));
        assert_eq!(pids(&state), [9, 10]);
        state.click(16, 4);
        assert_eq!(state.sort(), (Column::User, false));
        assert_eq!(pids(&state), [10, 9]);
        state.sort_by_neighbour(true);
        assert_eq!(state.sort(), (Column::Phase, true));
        state.click(7, 4);
        assert_eq!(state.sort(), (Column::Pid, true));
        state.sort_by_neighbour(false);
        assert_eq!(state.sort(), (Column::Name, true));
        state.above = 1;
        state.click(0, 5);
        assert_eq!(selected(&state), Some(10), "the second of two");
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
