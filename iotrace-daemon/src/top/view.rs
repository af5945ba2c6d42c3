//! The screen: what was done by phase, the lines, and what the keys do. Fits 80 columns and 24 lines.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line as Text, Span},
    widgets::{Cell, Paragraph, Row, Table},
};

use super::state::{Column, Line, State, What};
use iotrace_model::IoTotals;
use iotrace_phases::phase::Phase;
use iotrace_report::{escape, shorten, units};

/// Least widths of the columns but the last, which has the rest.
const LEAST_WIDTHS: [u16; FIRST_NUMBER_COLUMN + NUMBER_COLUMNS] = [7, 10, 9, 9, 7, 7];
/// Columns before those of numbers, and these.
const FIRST_NUMBER_COLUMN: usize = 2;
const NUMBER_COLUMNS: usize = 4;

/// Widths that fit every number on the screen.
type Widths = [u16; FIRST_NUMBER_COLUMN + NUMBER_COLUMNS];

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let phases = state.phases();
    let lines_of_all = state.lines();
    let done = phases.iter().map(|(_, done)| done);
    let widths = widths(
        state,
        done.chain(lines_of_all.iter().map(|line| &line.done)),
    );
    let [title, calls, by_phase, lines, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(!state.in_flight.is_empty())),
        Constraint::Length(phases.len() as u16 + 1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(state)), title);
    let width = usize::from(calls.width);
    frame.render_widget(Paragraph::new(in_flight(state, width)), calls);
    frame.render_widget(summary(state, &phases, widths), by_phase);
    draw_lines(frame, state, &lines_of_all, widths, lines);
    frame.render_widget(Paragraph::new(footer(state)), keys);
}

fn heading(state: &State) -> Text<'static> {
    let what = match state.what {
        What::Processes => "processes",
        What::Files => "files",
    };
    let period = units::duration(state.period().as_nanos() as u64);
    let mut text = format!("iotrace top: {what}, ");
    text += &match state.shows_totals {
        true => format!("totals of {period}"),
        false => format!("the last {period}"),
    };
    if state.is_paused() {
        text += ", paused";
    }
    if !state.filter.is_empty() && !state.typing {
        text += &format!(", with \"{}\"", escape(state.filter.as_bytes()));
    }
    if let Some(pid) = state.ended.first() {
        text += &match state.ended.len() {
            1 => format!(", process {pid} has ended"),
            count => format!(", {count} processes have ended"),
        };
    }
    if state.lost > 0 {
        text += &format!(", {} operations not counted", units::count(state.lost));
    }
    Text::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

/// The oldest call that has not returned, and how many there are.
fn in_flight(state: &State, width: usize) -> Text<'static> {
    let Some(oldest) = state.in_flight.first() else {
        return Text::default();
    };
    let calls = match state.in_flight.len() {
        1 => "1 call has not returned".to_owned(),
        more => format!("{more} calls have not returned"),
    };
    let text = format!(
        "{calls}: {} by {} for {} on ",
        oldest.operation,
        oldest.pid,
        units::duration(oldest.ns)
    );
    let room = width.saturating_sub(text.len());
    let path = oldest
        .path
        .as_deref()
        .unwrap_or("a file that is not known yet");
    let text = text + &shorten(path.as_bytes(), room);
    Text::styled(text, Style::new().fg(Color::Yellow))
}

/// Widths that fit what was `done`.
fn widths<'a>(state: &State, done: impl Iterator<Item = &'a IoTotals>) -> Widths {
    let mut widths = LEAST_WIDTHS;
    for done in done {
        let numbers = numbers(state, done);
        for (width, number) in widths[FIRST_NUMBER_COLUMN..].iter_mut().zip(numbers) {
            *width = (*width).max(number.chars().count() as u16);
        }
    }
    widths
}

fn summary(state: &State, phases: &[(Phase, IoTotals)], widths: Widths) -> Table<'static> {
    let rows = phases.iter().map(|(phase, done)| {
        let mut cells = vec![Cell::from(""), name_of(*phase)];
        cells.extend(numbers(state, done).map(right));
        Row::new(cells)
    });
    // Its columns stand over those of the lines.
    let empty = Row::new([""]);
    Table::new(rows.chain([empty]), widths)
}

fn draw_lines(
    frame: &mut Frame<'_>,
    state: &mut State,
    lines: &[Line],
    widths: Widths,
    area: Rect,
) {
    let room = usize::from(area.height.saturating_sub(1));
    state.above = state.above.min(lines.len().saturating_sub(room));
    let name = area
        .width
        .saturating_sub(widths.iter().map(|width| width + 1).sum());
    let rows = lines.iter().skip(state.above).take(room).map(|line| {
        let mut cells = vec![right(line.pid.to_string()), name_of(line.phase)];
        cells.extend(numbers(state, &line.done).map(right));
        cells.push(Cell::from(name_shown(line, state.what, name.into())));
        Row::new(cells)
    });
    let widths = widths.into_iter().chain([name]);
    let table = Table::new(rows, widths).header(header(state));
    frame.render_widget(table, area);
}

/// A command shows its beginning, a path its end.
fn name_shown(line: &Line, what: What, width: usize) -> String {
    match what {
        What::Processes => escape(line.name.as_bytes()),
        What::Files => shorten(line.name.as_bytes(), width),
    }
}

fn header(state: &State) -> Row<'static> {
    let (sorted, ascending) = state.sort();
    let cells = Column::ALL.iter().map(|column| {
        let rate = if state.shows_totals { "" } else { "/s" };
        let name = match column {
            Column::Pid => "PID".into(),
            Column::Phase => "PHASE".into(),
            Column::Read => format!("READ{rate}"),
            Column::Written => format!("WRITE{rate}"),
            Column::Operations => format!("OPS{rate}"),
            Column::Time => if state.shows_totals { "TIME" } else { "TIME%" }.into(),
            Column::Name => match state.what {
                What::Processes => "COMMAND".into(),
                What::Files => "FILE".into(),
            },
        };
        let mark = match (*column == sorted, ascending) {
            (false, _) => "",
            (true, true) => "▲",
            (true, false) => "▼",
        };
        let text = format!("{name}{mark}");
        match column {
            Column::Phase | Column::Name => Cell::from(text),
            _ => right(text),
        }
    });
    Row::new(cells).style(Style::new().add_modifier(Modifier::REVERSED))
}

/// Read, written, operations, time.
fn numbers(state: &State, done: &IoTotals) -> [String; NUMBER_COLUMNS] {
    let period = state.period().as_nanos().max(1) as u64;
    let bytes = |bytes: u64| match (bytes, state.shows_totals) {
        (0, _) => "-".into(),
        (bytes, true) => units::bytes(bytes),
        (bytes, false) => {
            units::bytes((u128::from(bytes) * 1_000_000_000 / u128::from(period)) as u64)
        }
    };
    let operations = match state.shows_totals {
        true => done.operations,
        false => (u128::from(done.operations) * 1_000_000_000).div_ceil(u128::from(period)) as u64,
    };
    let time = match state.shows_totals {
        true => units::duration(done.merged_ns),
        false => units::share(done.merged_ns, period),
    };
    [
        bytes(done.bytes_read),
        bytes(done.bytes_written),
        units::count(operations),
        time,
    ]
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(text).right_aligned())
}

fn name_of(phase: Phase) -> Cell<'static> {
    let color = match phase {
        Phase::Startup => Color::Blue,
        Phase::Training => Color::Green,
        Phase::Checkpoint => Color::Magenta,
        Phase::Restore => Color::Cyan,
        Phase::Other(_) => Color::Reset,
    };
    Cell::from(Span::styled(phase.name(), Style::new().fg(color)))
}

fn footer(state: &State) -> Text<'static> {
    if state.typing {
        return Text::from(format!(
            "/{}█  Enter: keep  Esc: none",
            escape(state.filter.as_bytes())
        ));
    }
    let turn = match state.what {
        What::Processes => "files",
        What::Files => "processes",
    };
    let totals = if state.shows_totals {
        "rates"
    } else {
        "totals"
    };
    Text::from(format!(
        "Tab {turn}  s sort  r reverse  / filter  t {totals}  Space pause  q quit"
    ))
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use iotrace_model::run::CallInFlight;

    use super::{
        super::state::tests::{one_process, state},
        *,
    };

    fn screen(state: &mut State) -> Vec<String> {
        screen_of(state, 80)
    }

    fn screen_of(state: &mut State, columns: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, 24)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..columns)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..24).map(line).collect()
    }

    #[test]
    fn fits_80_by_24() {
        let mut state = state();
        let screen = screen(&mut state);
        assert!(
            screen[0].starts_with("iotrace top: processes, the last 1"),
            "{screen:#?}"
        );
        let training = screen
            .iter()
            .filter(|line| line.contains("training"))
            .count();
        assert_eq!(training, 2, "in the summary and as a line: {screen:#?}");
        let line = screen.iter().find(|line| line.contains("python3")).unwrap();
        assert!(
            line.contains("40 %") && line.contains("checkpoint"),
            "{line}"
        );
        assert!(screen[23].contains("q quit"), "{screen:#?}");
    }

    #[test]
    fn files_show_the_ends_of_their_paths() {
        let mut state = state();
        state.turn();
        let screen = screen(&mut state);
        let line = screen.iter().find(|line| line.contains(".tar")).unwrap();
        assert!(
            line.contains("3.00 MiB") && line.trim_end().ends_with("0001.tar"),
            "{line}"
        );
        assert!(screen[0].contains("files"));
    }
    #[test]
    fn the_oldest_call_in_flight_has_a_line() {
        let mut state = state();
        let call = CallInFlight {
            pid: 4242,
            tid: 4243,
            operation: "read".into(),
            path: Some("/mnt/hung/train-0001.tar".into()),
            mount_point: Some("/mnt/hung".into()),
            fs_type: Some("nfs4".into()),
            phase: 2,
            began_before: false,
            start_unix_ns: 0,
            ns: 35_000_000_000,
        };
        state.in_flight = vec![call.clone(), call];
        let screen = screen(&mut state);
        let expected =
            "2 calls have not returned: read by 4242 for 35.0 s on /mnt/hung/train-0001.tar";
        assert_eq!(screen[1].trim_end(), expected);
        assert!(screen[23].contains("q quit"), "{screen:#?}");
    }

    #[test]
    fn every_digit_is_shown() {
        for columns in [80, 120, 200] {
            for power in 0..12 {
                let operations = 10_u64.pow(power) + 10_u64.pow(power) / 7;
                for shows_totals in [false, true] {
                    let mut state = State::new(false, String::new());
                    state.shows_totals = shows_totals;
                    state.take(one_process(operations), 0);
                    let screen = screen_of(&mut state, columns);
                    let shown = format!(" {} ", units::count(operations));
                    let lines = screen.iter().filter(|line| line.contains(&shown)).count();
                    assert_eq!(lines, 2, "{shown} in {columns} columns: {screen:#?}");
                    assert!(screen.iter().any(|line| line.contains("train.py")));
                }
            }
        }
    }
}
