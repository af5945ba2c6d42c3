//! Which columns fit on the screen, how wide they are, and what they say.

use ratatui::{
    layout::{Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line as Text, Span},
    widgets::{Cell, Row, Table},
};

use super::{
    lines::{ByPhase, Line},
    state::{Column, Grouping, State, What},
};
use iotrace_model::IoTotals;
use iotrace_phases::phase::Phase;
use iotrace_report::{shorten, units};

/// Columns that every screen has, and their least widths. Numbers have more room if they need it.
const LEAST_WIDTHS: [(Column, u16); 6] = [
    (Column::Pid, 7),
    (Column::Phase, BAR_WIDTH),
    (Column::Read, 8),
    (Column::Written, 8),
    (Column::Operations, 7),
    (Column::Time, 7),
];
/// Room for the longest name of a phase, and for a letter for each tenth.
const BAR_WIDTH: u16 = 10;
/// Room for the shares of four phases with names.
const WORDS_WIDTH: u16 = 33;
const CPU_WIDTH: u16 = 6;
const FETCHED_WIDTH: u16 = 8;
const LEAST_LATENCY_WIDTH: u16 = 7;
const LEAST_USER_WIDTH: u16 = 8;
const MAX_TEXT_WIDTH: u16 = 24;
/// Room for the name that the columns of latencies, of CPU time and of the user leave.
const LEAST_NAME_WIDTH: u16 = 19;
/// Room for the name that the other columns and the names of phases leave.
const COMFORTABLE_NAME_WIDTH: u16 = 40;
/// Deeper processes of a tree are not indented further.
const MAX_INDENTS: usize = 8;

/// The columns and their widths, from the left; the name, which has the rest, is the last.
pub struct Columns(Vec<(Column, u16)>);

impl Columns {
    /// Those that fit into `width`. All numbers of `phases` and `lines` are shown whole.
    pub fn fitting(state: &State, phases: &ByPhase, lines: &[Line], width: u16) -> Self {
        let mut columns = LEAST_WIDTHS.to_vec();
        let of_lines = lines.iter().map(Line::done);
        for done in phases.values().copied().chain(of_lines) {
            for (column, width) in &mut columns {
                let number = number(state, &done, *column).unwrap_or_default();
                *width = (*width).max(width_of(&number));
            }
        }
        let taken: u16 = columns.iter().map(|(_, width)| width + 1).sum();
        let mut room = width.saturating_sub(taken);
        let is_of_processes = state.what == What::Processes;
        let widest = |text: fn(&Line) -> &str| {
            let widths = lines.iter().map(|line| width_of(text(line)));
            widths.max().unwrap_or_default().min(MAX_TEXT_WIDTH)
        };
        let user = widest(|line| &line.about.user).max(LEAST_USER_WIDTH);
        let job = widest(|line| &line.about.job);
        let latencies = lines.iter().map(|line| width_of(&latency(line)));
        let latency = latencies.max().unwrap_or_default().max(LEAST_LATENCY_WIDTH);
        let has_cpu = is_of_processes && !state.shows_totals;
        let is_by_phase = is_of_processes && state.grouping == Grouping::ByPhase;
        let has_latency = state.has_latencies && is_of_processes && !is_by_phase;
        // What was asked for comes first, then what is the most useful.
        for (column, width, is_wanted, name_width) in [
            (Column::Latency, latency, has_latency, LEAST_NAME_WIDTH),
            (Column::Cpu, CPU_WIDTH, has_cpu, LEAST_NAME_WIDTH),
            (Column::User, user, is_of_processes, LEAST_NAME_WIDTH),
            (
                Column::Fetched,
                FETCHED_WIDTH,
                !is_by_phase,
                COMFORTABLE_NAME_WIDTH,
            ),
            (
                Column::Job,
                job,
                is_of_processes && job > 0,
                COMFORTABLE_NAME_WIDTH,
            ),
        ] {
            if is_wanted && room > width + name_width {
                columns.push((column, width));
                room -= width + 1;
            }
        }
        let more = WORDS_WIDTH - BAR_WIDTH;
        let has_shares = is_of_processes && !is_by_phase;
        if has_shares && room >= more + COMFORTABLE_NAME_WIDTH {
            columns[1].1 = WORDS_WIDTH;
            room -= more;
        }
        columns.push((Column::Name, room));
        columns.sort_by_key(|(column, _)| *column as usize);
        Self(columns)
    }

    /// Whether this column fits.
    pub fn has(&self, column: Column) -> bool {
        self.0.iter().any(|(shown, _)| *shown == column)
    }

    /// The columns from the left, with the first cell after each and after the gap that follows it.
    pub fn ends(&self, area: Rect) -> Vec<(Column, u16)> {
        let widths = self.0.iter().map(|(_, width)| *width);
        let cells = Layout::horizontal(widths).spacing(1).split(area);
        let columns = self.0.iter().map(|(column, _)| *column);
        columns
            .zip(cells.iter().map(|cell| cell.right() + 1))
            .collect()
    }

    /// A table of such rows.
    pub fn table(&self, rows: impl Iterator<Item = Row<'static>>) -> Table<'static> {
        Table::new(rows, self.0.iter().map(|(_, width)| *width))
    }

    /// The names of the columns that phases have.
    pub fn titles_of_phases(&self, state: &State) -> Row<'static> {
        let none = IoTotals::default();
        let row = self.row(|column, _| match column {
            Column::Phase => Cell::from(title(state, column)),
            Column::Name => Cell::from("(all processes)"),
            _ => right(match number(state, &none, column) {
                Some(_) => title(state, column),
                None => String::new(),
            }),
        });
        row.style(Style::new().add_modifier(Modifier::UNDERLINED))
    }

    /// What was done in a phase.
    pub fn of_phase(&self, state: &State, phase: Phase, done: &IoTotals) -> Row<'static> {
        self.row(|column, _| match column {
            Column::Phase => Cell::from(Span::styled(phase.name(), style(phase))),
            _ => right(number(state, done, column).unwrap_or_default()),
        })
    }

    /// What is known of a line.
    pub fn of_line(&self, state: &State, line: &Line) -> Row<'static> {
        let done = line.done();
        self.row(|column, width| match column {
            Column::Pid => right(line.process.pid.to_string()),
            Column::User => Cell::from(line.about.user.clone()),
            Column::Cpu => right(match state.cpu_of(line.process) {
                Some(share) => format!("{:.0} %", share * 100.0),
                None => "-".into(),
            }),
            Column::Phase => Cell::from(phases(line, width.into())),
            Column::Job => Cell::from(line.about.job.clone()),
            Column::Name => Cell::from(name(line, width.into())),
            Column::Read | Column::Written | Column::Operations | Column::Time => {
                right(number(state, &done, column).unwrap_or_default())
            }
            Column::Fetched => right(bytes(state, line.fetched.unwrap_or_default())),
            Column::Latency => right(latency(line)),
        })
    }

    /// The names of the columns, with a mark at the one that is sorted by.
    pub fn titles(&self, state: &State) -> Row<'static> {
        let (sorted, ascending) = state.sort();
        let row = self.row(|column, _| {
            let title = title(state, column);
            let mark = match (column == sorted, ascending) {
                (false, _) => "",
                (true, true) => "▲",
                (true, false) => "▼",
            };
            let text = format!("{title}{mark}");
            match column {
                Column::User | Column::Phase | Column::Job | Column::Name => Cell::from(text),
                _ => right(text),
            }
        });
        row.style(Style::new().add_modifier(Modifier::REVERSED))
    }

    fn row(&self, cell: impl Fn(Column, u16) -> Cell<'static>) -> Row<'static> {
        let cells = self.0.iter().map(|(column, width)| cell(*column, *width));
        Row::new(cells)
    }
}

/// The name of a column.
fn title(state: &State, column: Column) -> String {
    let rate = if state.shows_totals { "" } else { "/s" };
    match column {
        Column::Pid => "PID".into(),
        Column::User => "USER".into(),
        Column::Cpu => "CPU%".into(),
        Column::Phase => "PHASE".into(),
        Column::Read => format!("READ{rate}"),
        Column::Written => format!("WRITE{rate}"),
        Column::Fetched => format!("FETCH{rate}"),
        Column::Operations => format!("OPS{rate}"),
        Column::Time => if state.shows_totals { "TIME" } else { "TIME%" }.into(),
        Column::Latency => "P99".into(),
        Column::Job => "JOB".into(),
        Column::Name => match state.what {
            What::Processes => "COMMAND".into(),
            What::Files => "FILE".into(),
        },
    }
}

/// The number of a column; `None` if it has none, or not of `done`.
fn number(state: &State, done: &IoTotals, column: Column) -> Option<String> {
    let period = period_ns(state);
    Some(match column {
        Column::Read => bytes(state, done.bytes_read),
        Column::Written => bytes(state, done.bytes_written),
        Column::Operations => units::count(match state.shows_totals {
            true => done.operations,
            false => {
                (u128::from(done.operations) * 1_000_000_000).div_ceil(u128::from(period)) as u64
            }
        }),
        Column::Time => match state.shows_totals {
            true => units::duration(done.merged_ns),
            false => units::share(done.merged_ns, period),
        },
        Column::Pid
        | Column::User
        | Column::Cpu
        | Column::Phase
        | Column::Fetched
        | Column::Latency
        | Column::Job
        | Column::Name => {
            return None;
        }
    })
}

/// The time that 99 % of the calls of a line took at most.
fn latency(line: &Line) -> String {
    let time = line.slowest_percent();
    time.map_or_else(|| "-".into(), units::duration)
}

/// Bytes, or bytes per second.
fn bytes(state: &State, bytes: u64) -> String {
    match (bytes, state.shows_totals) {
        (0, _) => "-".into(),
        (bytes, true) => units::bytes(bytes),
        (bytes, false) => {
            let period = u128::from(period_ns(state));
            units::bytes((u128::from(bytes) * 1_000_000_000 / period) as u64)
        }
    }
}

fn period_ns(state: &State) -> u64 {
    state.period().as_nanos().max(1) as u64
}

/// The phase of a line, or the shares of its phases: by name if that fits into more than a bar, or a bar of letters.
fn phases(line: &Line, width: usize) -> Text<'static> {
    if line.by_phase.len() < 2 {
        let phase = line.main_phase();
        return Text::styled(phase.name(), style(phase));
    }
    let shares = line.shares(100).into_iter().filter(|(_, share)| *share > 0);
    let words: Vec<Span> = shares
        .map(|(phase, share)| Span::styled(format!("{} {share} ", short(phase)), style(phase)))
        .collect();
    let words = Text::from(words);
    if width > BAR_WIDTH.into() && words.width() <= width + 1 {
        return words;
    }
    let letters = line.shares(BAR_WIDTH.into()).into_iter();
    let letters = letters.map(|(phase, share)| {
        let letters = letter(phase).to_string().repeat(share as usize);
        Span::styled(letters, style(phase))
    });
    Text::from(letters.collect::<Vec<_>>())
}

/// What a phase is called in a bar.
pub fn letter(phase: Phase) -> char {
    let first = phase.name().chars().next();
    first.unwrap_or_default().to_ascii_uppercase()
}

/// What a phase is called next to others.
fn short(phase: Phase) -> &'static str {
    match phase {
        Phase::Startup => "start",
        Phase::Training => "train",
        Phase::Checkpoint => "ckpt",
        Phase::Restore | Phase::Other(_) => phase.name(),
    }
}

fn style(phase: Phase) -> Style {
    Style::new().fg(match phase {
        Phase::Startup => Color::Blue,
        Phase::Training => Color::Green,
        Phase::Checkpoint => Color::Magenta,
        Phase::Restore => Color::Cyan,
        Phase::Other(_) => Color::Reset,
    })
}

/// A command shows its beginning, under that of its parent in a tree; a path shows its end.
fn name(line: &Line, width: usize) -> String {
    if let Some(path) = &line.path {
        return shorten(path.as_bytes(), width);
    }
    let indent = match line.depth.min(MAX_INDENTS) {
        0 => String::new(),
        depth => "  ".repeat(depth - 1) + "└ ",
    };
    let room = width.saturating_sub(width_of(&indent).into());
    let command = &line.about.command;
    match &line.about.short {
        Some(short) if usize::from(width_of(command)) > room => indent + &short.whole(),
        _ => indent + command,
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).right_aligned())
}

fn width_of(text: &str) -> u16 {
    u16::try_from(text.chars().count()).unwrap_or(u16::MAX)
}
