//! The screen: what was done by phase and in the last intervals, the lines, and what the keys do. Fits 80 columns and 24
//! lines.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line as Text,
    widgets::{Block, Clear, Padding, Paragraph},
};

use super::{
    columns::{Columns, letter},
    keys::BINDINGS,
    lines::Line,
    state::{Column, Grouping, Place, State, What},
};
use iotrace_phases::phase::Phase;
use iotrace_report::{escape, shorten, units};

/// Blocks of growing height.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws it.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let phases = state.by_phase();
    let lines = state.lines();
    let columns = Columns::fitting(state, &phases, &lines, frame.area().width);
    let [title, notice, calls, by_phase, rates, table, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(u16::from(state.notice.is_some())),
        Constraint::Length(u16::from(!state.in_flight.is_empty())),
        Constraint::Length(match phases.len() {
            0 => 0,
            phases => phases as u16 + 1,
        }),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(state)), title);
    let text = Text::styled(state.notice.clone().unwrap_or_default(), Color::Cyan);
    frame.render_widget(Paragraph::new(text), notice);
    let width = usize::from(calls.width);
    frame.render_widget(Paragraph::new(in_flight(state, width)), calls);
    // Its columns are over those of the lines.
    let summary = phases
        .iter()
        .map(|(phase, done)| columns.of_phase(state, *phase, done));
    let summary = columns.table(summary);
    frame.render_widget(summary.header(columns.titles_of_phases(state)), by_phase);
    frame.render_widget(Paragraph::new(history(state, width)), rates);
    draw_lines(frame, state, &lines, &columns, table);
    frame.render_widget(Paragraph::new(footer(state)), keys);
    if state.shows_help {
        draw_help(frame);
    }
}

fn heading(state: &State) -> Text<'static> {
    let what = match (state.what, state.grouping) {
        (What::Processes, Grouping::List) => "processes",
        (What::Processes, Grouping::ByPhase) => "processes by phase",
        (What::Processes, Grouping::Tree) => "processes as a tree",
        (What::Files, _) => "files",
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

/// Bytes per second now, at most, and in the last intervals as a bar for each, the newest on the right.
fn history(state: &State, width: usize) -> Text<'static> {
    let label = |now: u64, max: u64| {
        let [now, max] = [now, max].map(units::bytes);
        format!("BYTES/s {now:>8}, at most {max:>8} ")
    };
    let room = width.saturating_sub(label(0, 0).len());
    let rates = state.rates();
    let shown = rates.iter().skip(rates.len().saturating_sub(room));
    let max = shown.clone().copied().max().unwrap_or(0);
    let block = |rate: &u64| {
        let level = (u128::from(*rate) * 8).div_ceil(u128::from(max.max(1)));
        BLOCKS[level as usize]
    };
    let now = rates.back().copied().unwrap_or(0);
    let blocks: String = shown.map(block).collect();
    Text::from(format!("{}{blocks:>room$}", label(now, max)))
}

fn draw_lines(
    frame: &mut Frame<'_>,
    state: &mut State,
    lines: &[Line],
    columns: &Columns,
    area: Rect,
) {
    let room = usize::from(area.height.saturating_sub(1));
    state.above = state.above.min(lines.len().saturating_sub(room));
    let shown = &lines[state.above..lines.len().min(state.above + room)];
    let selected = state.selected_line(lines);
    let rows = (state.above..).zip(shown).map(|(index, line)| {
        let row = columns.of_line(state, line);
        match selected == Some(index) {
            true => row.style(Modifier::REVERSED),
            false => row,
        }
    });
    let table = columns.table(rows).header(columns.titles(state));
    frame.render_widget(table, area);
    state.place = Place {
        titles: area.y,
        rows: area.height.saturating_sub(1),
        columns: columns.ends(area),
    };
    state.cpu_wanted = match columns.has(Column::Cpu) {
        true => shown.iter().map(|line| line.process).collect(),
        false => Vec::new(),
    };
}

fn footer(state: &State) -> Text<'static> {
    if state.typing {
        return Text::from(format!(
            "/{}█  Enter: keep  Esc: none",
            escape(state.filter.as_bytes())
        ));
    }
    let hints = BINDINGS
        .iter()
        .filter_map(|binding| Some(format!("{} {}", binding.first_name(), binding.hint?)));
    Text::from(hints.collect::<Vec<_>>().join("  "))
}

/// Draws the keys and the meaning of columns over the screen.
fn draw_help(frame: &mut Frame<'_>) {
    let entry = |name: &str, text: &str| Text::from(format!("{name:<23} {text}"));
    let keys = BINDINGS.iter();
    let keys = keys.map(|binding| entry(binding.names, binding.description));
    let phases = Phase::ALL.iter().filter(|phase| phase.class().is_none());
    let letters = phases.map(|phase| format!("{} {}", letter(*phase), phase.name()));
    let letters = letters.collect::<Vec<_>>().join(" ");
    let columns = [
        ("CPU%", "CPU time; 100 % is one CPU"),
        (
            "PHASE",
            "shares of the time in calls, a letter for a tenth:",
        ),
        ("", letters.as_str()),
        ("TIME%", "time in calls; overlap in a phase counted once"),
        ("P99", "with --latencies: 99 % of calls took at most this"),
    ];
    let columns = columns.map(|(name, text)| entry(name, text));
    let text: Vec<Text> = keys.chain([Text::default()]).chain(columns).collect();
    let width = text.iter().map(Text::width).max().unwrap_or_default();
    let [width, height] = [width + 4, text.len() + 2].map(|size| size as u16);
    let area = frame
        .area()
        .centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::bordered()
        .title(" keys ")
        .padding(Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(block), area);
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use iotrace_model::run::CallInFlight;
    use iotrace_report::ShortCommand;

    use super::{
        super::{
            cpu,
            lines::About,
            state::tests::{id, line, named, one_process, second, state, take},
        },
        *,
    };

    fn screen(state: &mut State) -> Vec<String> {
        screen_of(state, 80, 24)
    }

    fn screen_of(state: &mut State, columns: u16, rows: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..columns)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..rows).map(line).collect()
    }

    #[track_caller]
    fn find<'a>(screen: &'a [String], text: &str) -> &'a str {
        let line = screen.iter().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no {text}: {screen:#?}"))
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
        assert_eq!(training, 1, "in the summary: {screen:#?}");
        let titles: Vec<&str> = find(&screen, "(all processes)")
            .split_whitespace()
            .collect();
        assert_eq!(
            titles[..5],
            ["PHASE", "READ/s", "WRITE/s", "OPS/s", "TIME%"]
        );
        let line = find(&screen, "python3 train.py");
        assert!(
            line.contains("60 %") && line.contains("TTTCCCCCCC"),
            "{line}"
        );
        let line = find(&screen, "cat /etc/passwd");
        assert!(line.contains(" other "), "{line}");
        assert!(screen[23].contains("q quit"), "{screen:#?}");
        assert_eq!(state.cpu_wanted, [id(10), id(9)]);
    }

    #[test]
    fn a_wide_screen_has_more_columns() {
        let mut state = state();
        let screen = screen_of(&mut state, 160, 50);
        let line = find(&screen, "python3 train.py");
        for text in [
            "ada",
            "train 33 ckpt 67",
            "slurm:4242 rank 3",
            "60 %",
            "3.00 MiB        - 1.50 MiB",
        ] {
            assert!(line.contains(text), "no {text}: {line}");
        }
        let titles = [
            "PID", "USER", "CPU%", "PHASE", "READ/s", "WRITE/s", "FETCH/s", "OPS/s", "TIME%▼",
        ];
        let titles = titles.into_iter().chain(["JOB", "COMMAND"]);
        let found: Vec<&str> = find(&screen, "COMMAND").split_whitespace().collect();
        assert_eq!(found, titles.collect::<Vec<_>>());
        assert!(screen[49].contains("q quit"), "{screen:#?}");
    }

    #[test]
    fn latencies_have_a_column_if_they_are_counted() {
        let done = [(Phase::Training, 1, 900_000_000)];
        let timed = |pid, times: &[(u8, u64, u64)]| {
            let mut line = line(pid, &done, named(&format!("process {pid}")));
            for (bucket, calls, longest) in times {
                line.latencies.add(*bucket, *calls, *longest);
            }
            line
        };
        let fast = || timed(10, &[(60, 990, 4_000), (90, 10, 9_000_000)]);
        let slow = || timed(11, &[(60, 98, 4_000), (200, 2, 9_000_000)]);
        for columns in [80, 120, 200] {
            let mut state = State::new(false, String::new());
            take(&mut state, second(vec![fast(), slow(), timed(12, &[])]));
            let before = screen_of(&mut state, columns, 24);
            assert!(!find(&before, "COMMAND").contains("P99"), "{before:#?}");
            state.has_latencies = true;
            for shows_totals in [false, true] {
                state.shows_totals = shows_totals;
                let screen = screen_of(&mut state, columns, 24);
                let titles: Vec<&str> = find(&screen, "COMMAND").split_whitespace().collect();
                let at = titles.iter().position(|title| *title == "P99");
                let after = titles.iter().position(|title| title.starts_with("TIME"));
                assert_eq!(at, after.map(|place| place + 1), "{screen:#?}");
                assert!(
                    find(&screen, "process 11").contains(" 9.00 ms "),
                    "{screen:#?}"
                );
                assert!(find(&screen, "process 10").contains(" µs "), "{screen:#?}");
                assert!(
                    find(&screen, "process 12").contains("- process 12"),
                    "{screen:#?}"
                );
            }
            state.shows_totals = false;
            let screen = screen_of(&mut state, columns, 24);
            let y = screen.iter().position(|line| line.contains("P99")).unwrap();
            let (left, _) = screen[y].split_once("P99").unwrap();
            state.click(left.chars().count() as u16, y as u16);
            let pids: Vec<u32> = state.lines().iter().map(|line| line.process.pid).collect();
            assert_eq!(pids, [11, 10, 12], "sorted at {columns}");
            state.group(Grouping::ByPhase);
            let screen = screen_of(&mut state, columns, 24);
            assert!(!find(&screen, "COMMAND").contains("P99"), "{screen:#?}");
        }
    }

    #[test]
    fn lines_by_phase_have_the_name_of_theirs() {
        let mut state = state();
        state.group(Grouping::ByPhase);
        for (columns, rows) in [(80, 24), (160, 50)] {
            let screen = screen_of(&mut state, columns, rows);
            assert!(screen[0].contains("processes by phase"), "{screen:#?}");
            let of_python = screen.iter().filter(|line| line.contains("train.py"));
            let shares: Vec<bool> = of_python
                .map(|line| {
                    line.contains("checkpoint") && line.contains("40 %")
                        || line.contains("training") && line.contains("20 %")
                })
                .collect();
            assert_eq!(shares, [true; 2], "{screen:#?}");
        }
    }

    #[test]
    fn cpu_time_is_of_the_last_interval() {
        let mut state = State::new(false, String::new());
        let done = [(Phase::Training, 1, 1)];
        let lines = [10, 11].map(|pid| line(pid, &done, named(&format!("process {pid}"))));
        let cpu = cpu::Shares::from([(id(10), 3.504)]);
        state.take(second(lines.to_vec()), cpu, 0);
        let screen = screen(&mut state);
        assert!(
            find(&screen, "process 10").contains(" 350 % "),
            "{screen:#?}"
        );
        assert!(
            find(&screen, "process 11").contains("11      - "),
            "{screen:#?}"
        );
        state.shows_totals = true;
        let screen = self::screen(&mut state);
        assert!(!find(&screen, "COMMAND").contains("CPU%"), "{screen:#?}");
    }

    #[test]
    fn a_command_that_does_not_fit_has_file_names() {
        const WORDS: [&str; 4] = [
            "/opt/conda/bin/python3",
            "/home/ada/train.py",
            "--epochs",
            "3",
        ];
        let about = || About {
            command: WORDS.join(" "),
            short: Some(ShortCommand::new(&WORDS)),
            ..About::default()
        };
        let mut state = State::new(false, String::new());
        let done = [(Phase::Training, 1, 1)];
        take(&mut state, second(vec![line(10, &done, about())]));
        for (columns, shown) in [
            (80, " python train.py"),
            (160, "/python3 /home/ada/train.py"),
        ] {
            let screen = screen_of(&mut state, columns, 24);
            find(&screen, shown);
        }
    }

    #[test]
    fn a_tree_has_children_under_their_parents() {
        let child = |pid, ancestors: &[u32], ns| {
            let about = About {
                ancestors: ancestors.iter().copied().map(id).collect(),
                ..named(&format!("process {pid}"))
            };
            line(pid, &[(Phase::Training, 1, ns)], about)
        };
        let lines = vec![
            child(10, &[1], 1),
            child(11, &[10, 1], 3),
            child(12, &[99, 11, 10, 1], 2), // its parent has ended
            child(13, &[90], 4),            // an orphan
        ];
        let mut state = State::new(false, String::new());
        take(&mut state, second(lines));
        state.group(Grouping::Tree);
        for (columns, rows) in [(80, 24), (160, 50)] {
            let screen = screen_of(&mut state, columns, rows);
            assert!(screen[0].contains("processes as a tree"), "{screen:#?}");
            let names = screen.iter().filter(|line| line.contains("process 1"));
            let name = |line: &String| {
                let at = line.find('└').or(line.find("process")).unwrap();
                line[at..].trim_end().to_owned()
            };
            let names: Vec<String> = names.map(name).collect();
            let expected = ["process 13", "process 10", "└ process 11", "└ process 12"];
            assert_eq!(names, expected, "{screen:#?}");
            let column = |pid: &str| {
                let line = find(&screen, &format!("└ process {pid}"));
                line.chars().position(|c| c == '└').unwrap()
            };
            assert_eq!(column("12"), column("11") + 2, "{screen:#?}");
        }
    }

    #[test]
    fn the_last_intervals_are_a_line_of_blocks() {
        let mut state = State::new(false, String::new());
        for mib in [0, 10, 20, 40, 80, 41] {
            let done = [(Phase::Training, mib << 20, 1)];
            take(&mut state, second(vec![line(10, &done, named("train.py"))]));
        }
        for (columns, rows) in [(80, 24), (160, 50)] {
            let screen = screen_of(&mut state, columns, rows);
            let line = find(&screen, "BYTES/s");
            assert!(line.contains("41.0 MiB, at most 80.0 MiB"), "{line}");
            assert!(line.ends_with("  ▁▂▄█▅"), "{line}");
        }
        state.pause();
        let before = screen(&mut state);
        take(&mut state, one_process(1));
        assert_eq!(screen(&mut state), before, "paused");
    }

    #[test]
    fn a_long_history_shows_its_end() {
        let mut state = State::new(false, String::new());
        for bytes in 0..2_000 {
            let done = [(Phase::Training, bytes, 1)];
            take(&mut state, second(vec![line(10, &done, named("train.py"))]));
        }
        let screen = screen(&mut state);
        let line = find(&screen, "BYTES/s");
        assert!(line.ends_with("██") && !line.contains('▁'), "{line}");
        assert!(line.contains("1.95 KiB, at most 1.95 KiB"), "{line}");
    }

    #[test]
    fn the_help_names_every_key() {
        let mut state = state();
        let before = screen(&mut state);
        state.shows_help = true;
        for (columns, rows) in [(80, 24), (160, 50)] {
            let screen = screen_of(&mut state, columns, rows);
            for binding in &BINDINGS {
                let line = find(&screen, binding.description);
                assert!(line.contains(binding.names), "{line}");
            }
            let expected = "S startup T training C checkpoint R restore O other";
            find(&screen, expected);
        }
        state.shows_help = false;
        assert_eq!(screen(&mut state), before);
    }

    #[test]
    fn a_click_on_a_title_sorts_by_its_column() {
        for (columns, rows) in [(60, 24), (80, 24), (160, 50)] {
            let mut state = state();
            let before = screen_of(&mut state, columns, rows);
            let titles = before
                .iter()
                .position(|line| line.contains("COMMAND"))
                .unwrap();
            for (title, expected) in [
                ("PID", Column::Pid),
                ("WRITE/s", Column::Written),
                ("OPS/s", Column::Operations),
                ("TIME%", Column::Time),
                ("COMMAND", Column::Name),
            ] {
                let (left, _) = before[titles].split_once(title).unwrap();
                state.click(left.chars().count() as u16, titles as u16);
                assert_eq!(state.sort().0, expected, "{title} at {columns}");
            }
        }
    }

    #[test]
    fn the_selected_line_is_reversed_and_recordings_have_a_line() {
        let mut state = state();
        let before = screen(&mut state);
        let row = before
            .iter()
            .position(|line| line.contains("cat /etc"))
            .unwrap();
        state.click(0, row as u16);
        state.notice = Some("recorded 9 into a.d".into());
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        let buffer = terminal.backend().buffer();
        let is_reversed = |y: usize| buffer[(0, y as u16)].modifier.contains(Modifier::REVERSED);
        let reversed: Vec<usize> = (0..24).filter(|y| is_reversed(*y)).collect();
        let titles = before
            .iter()
            .position(|line| line.contains("COMMAND"))
            .unwrap();
        assert_eq!(reversed, [titles + 1, row + 1], "one line lower");
        let screen = screen(&mut state);
        assert_eq!(screen[1].trim_end(), "recorded 9 into a.d");
    }

    #[test]
    fn files_show_the_ends_of_their_paths() {
        let mut state = state();
        state.turn();
        let screen = screen(&mut state);
        let line = find(&screen, ".tar");
        assert!(
            line.contains("3.00 MiB") && line.trim_end().ends_with("0001.tar"),
            "{line}"
        );
        assert!(screen[0].contains("files"));
        assert!(state.cpu_wanted.is_empty(), "it is not shown");
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
                    take(&mut state, one_process(operations));
                    let screen = screen_of(&mut state, columns, 24);
                    let shown = format!(" {} ", units::count(operations));
                    let lines = screen.iter().filter(|line| line.contains(&shown)).count();
                    assert_eq!(lines, 2, "{shown} in {columns} columns: {screen:#?}");
                    assert!(screen.iter().any(|line| line.contains("train.py")));
                }
            }
        }
    }
}
