//! Each measurement of `cargo xtask bench` runs one round that is as short as can be, and prints its table.
//!
//! The build is not the one that measurements are made with, and the figures are of a moment. So only their size is checked:
//! whether they can be figures of what the table says.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    path::Path,
    process::{Command, Output},
};

/// A figure that a measurement prints.
struct Figure {
    /// A line before the row has these words; empty for the first row of that title.
    heading: &'static str,
    /// What the row begins with.
    title: &'static str,
    /// Which number after the title it is.
    number: usize,
    range: RangeInclusive<f64>,
}

const fn figure(
    heading: &'static str,
    title: &'static str,
    number: usize,
    range: RangeInclusive<f64>,
) -> Figure {
    Figure {
        heading,
        title,
        number,
        range,
    }
}

/// What a call may take, nanoseconds.
const CALL_NS: RangeInclusive<f64> = 1.0..=1_000_000_000.0;
/// What a command may take, milliseconds; and a run, seconds.
const COMMAND_MS: RangeInclusive<f64> = 1.0..=60_000.0;
const RUN_S: RangeInclusive<f64> = 0.001..=60.0;
/// Memory of iotrace, MiB.
const MEMORY_MIB: RangeInclusive<f64> = 1.0..=4096.0;

/// Figures of each measurement.
const FIGURES: &[(&str, &[Figure])] = &[
    (
        "syscall",
        &[
            figure("pread of 1 byte (tmpfs)", "untraced", 0, CALL_NS),
            figure("pread of 1 byte (tmpfs)", "timed floor", 0, CALL_NS),
            figure("pread of 1 byte (tmpfs)", "iotrace basic", 0, CALL_NS),
            figure("open and close", "iotrace full", 0, CALL_NS),
        ],
    ),
    (
        "files",
        &[
            figure("1 worker(s)", "first epoch", 0, RUN_S),
            figure("2 worker(s)", "later epochs", 1, RUN_S),
            figure("iotrace itself", "basic, 1 worker(s)", 1, MEMORY_MIB),
            figure("iotrace itself", "full, 2 worker(s)", 0, 0.01..=60.0),
        ],
    ),
    (
        "mmap",
        &[
            figure("", "untraced", 0, CALL_NS),
            figure("", "iotrace basic, --no-page-cache", 0, CALL_NS),
        ],
    ),
    (
        "uring",
        &[
            figure("", "untraced", 0, CALL_NS),
            figure("", "iotrace full", 0, CALL_NS),
        ],
    ),
    (
        "uprobe",
        &[
            figure("", "untraced", 0, CALL_NS),
            figure("", "iotrace basic, --uprobe stdio", 0, CALL_NS),
        ],
    ),
    (
        "block",
        &[
            figure("", "untraced", 0, CALL_NS),
            figure("", "iotrace basic, --block", 0, CALL_NS),
        ],
    ),
    (
        "waits",
        &[
            figure("", "untraced", 0, CALL_NS),
            figure("", "iotrace basic, --waits", 0, CALL_NS),
        ],
    ),
    (
        "lines",
        &[
            figure("", "4 frames, untraced", 0, CALL_NS),
            figure("", "21 frames, iotrace basic, --lines", 0, CALL_NS),
        ],
    ),
    (
        "trace",
        &[
            figure("pages one behind", "untraced", 0, CALL_NS),
            // Its time, what that is more with quartiles, and bytes.
            figure("pages one behind", "iotrace basic, trace", 4, 0.5..=100.0),
            figure("two threads", "500000", 0, 1000.0..=1_000_000.0),
            figure("", "sorting, encoding and writing it", 0, CALL_NS),
        ],
    ),
    (
        "daemon",
        &[
            figure("", "100000", 0, 1000.0..=110_000.0),
            figure("", "100000", 2, MEMORY_MIB),
            figure("", "500000", 3, CALL_NS),
        ],
    ),
    (
        "scrape",
        &[
            figure("", "at the start: a scrape", 0, 0.01..=5000.0),
            figure("", "5 processes of 5 jobs: a scrape", 0, 0.01..=5000.0),
            // 1,000 files of 16 bytes, and 5 of 4,096.
            figure("", "bytes written:", 0, 36_480.0..=36_480.0),
        ],
    ),
    (
        "share",
        &[
            figure("getppid", "0", 0, CALL_NS),
            figure("pread of 1 byte", "1", 1, CALL_NS),
            figure("open and close", "1", 2, CALL_NS),
        ],
    ),
    (
        "start",
        &[
            figure("", "record --standalone -- true", 0, COMMAND_MS),
            figure("", "record -- true, through the service", 0, COMMAND_MS),
        ],
    ),
    (
        "programs",
        &[
            figure("images", "untraced", 0, RUN_S),
            // Its time with quartiles, and how many times that of the untraced run.
            figure("images", "iotrace record", 3, 0.1..=20.0),
            figure("volumes", "iotrace record --standalone", 0, RUN_S),
            figure("checkpoints", "iotrace record", 0, RUN_S),
        ],
    ),
    (
        "report",
        &[
            figure("report, text", "3000", 0, RUN_S),
            figure("report, HTML", "12800", 0, RUN_S),
            // Time with quartiles, CPU time, memory.
            figure("report, HTML", "12800", 4, MEMORY_MIB),
        ],
    ),
];

fn xtask(args: &[&str]) -> Output {
    // One that hangs is killed, and what it started ends with its input.
    Command::new("timeout")
        .args(["--kill-after=10", "180"])
        .arg(env!("CARGO_BIN_EXE_xtask"))
        .arg("bench")
        .args(args)
        .output()
        .expect("timeout(1)")
}

/// The measurements that the help lists.
fn listed() -> BTreeSet<String> {
    let help = String::from_utf8(xtask(&["--help"]).stdout).expect("text");
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let lines = commands.lines().take_while(|line| !line.is_empty());
    // What goes on in a second line is further to the right.
    let names = lines.filter_map(|line| {
        let line = line
            .strip_prefix("  ")
            .filter(|line| !line.starts_with(' '))?;
        line.split_whitespace().next()
    });
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The numbers of a text, without those that are one end of a range.
fn numbers(text: &str) -> Vec<f64> {
    let words = text.split([' ', '(', ')', ',', ';']);
    words.filter_map(|word| word.parse().ok()).collect()
}

impl Figure {
    /// The row in what was printed.
    fn row<'a>(&self, printed: &'a str) -> Option<&'a str> {
        let mut lines = printed.lines();
        if !self.heading.is_empty() {
            lines.find(|line| line.contains(self.heading))?;
        }
        lines.find_map(|line| line.trim_start().strip_prefix(self.title))
    }
}

#[test]
fn every_measurement_prints_its_figures() {
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    assert_eq!(
        user, 0,
        "these measurements trace the real kernel: run them as root"
    );
    for name in ["iotrace", "made"] {
        let program = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name(name);
        assert!(
            program.exists(),
            "run `cargo build`, which makes {}: `cargo test --test bench` does not",
            program.display()
        );
    }
    let known: BTreeSet<String> = FIGURES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(known, listed(), "each measurement has a row of FIGURES");
    let mut failed = Vec::new();
    for (name, figures) in FIGURES {
        let out = xtask(&[name, "--ready", "--brief"]);
        let printed = String::from_utf8_lossy(&out.stdout);
        let said = String::from_utf8_lossy(&out.stderr);
        let mut fail = |what: String| failed.push(format!("{name}: {what}\n{printed}{said}"));
        if !out.status.success() {
            fail(out.status.to_string());
            continue;
        }
        for figure in *figures {
            let row = figure.row(&printed).map(numbers).unwrap_or_default();
            let found = row.get(figure.number);
            if found.is_none_or(|found| !figure.range.contains(found)) {
                let Figure {
                    title,
                    number,
                    range,
                    ..
                } = figure;
                fail(format!(
                    "{title}: {found:?} is number {number}, expected in {range:?}"
                ));
            }
        }
        for word in ["NaN", "inf"] {
            if printed.split_whitespace().any(|cell| cell == word) {
                fail(format!("a figure is {word}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
