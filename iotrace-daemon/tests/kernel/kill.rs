//! A recorder that is killed, at twenty points of its life: what it leaves is read, and holds no less than the parts that
//! could be seen and no more than was done.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use crate::common::{Iotrace, compare, directory, number, text, workload};
use serde_json::Value;

const ROUNDS: u64 = 20;
/// Milliseconds, in half of the rounds from the start of iotrace, in the others from when it must have counted something:
/// before it records, between two of its parts, in the middle of one.
const LATEST: u64 = 2000;
/// For what must happen, on a machine that has other work.
const LIMIT: Duration = Duration::from_secs(120);

/// The file in which the program counts what it does.
struct Progress(PathBuf);

/// Reads and writes together.
#[derive(Clone, Copy)]
struct Calls {
    begun: u64,
    done: u64,
}

impl Progress {
    fn now(&self) -> Calls {
        let bytes = fs::read(&self.0).unwrap_or_default();
        let word = |n: usize| {
            let word = bytes.get(n * 8..n * 8 + 8);
            word.map_or(0, |word| u64::from_ne_bytes(word.try_into().unwrap()))
        };
        Calls {
            begun: word(0) + word(2),
            done: word(1) + word(3),
        }
    }
}

fn parts(recording: &Path) -> usize {
    let entries = fs::read_dir(recording).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("part-") && !name.ends_with(".tmp"))
        .count()
}

/// What one killed recorder left.
struct Left {
    parts: usize,
    /// None: killed before the recording began.
    counted: Option<Counted>,
}

/// Calls of the program.
struct Counted {
    /// What the recording must have.
    least: u64,
    /// What it has, by file, and with calls for whose file the kernel's maps had no room.
    by_file: u64,
    all: u64,
    /// What it may have.
    most: u64,
}

/// What was done before a number of parts was seen.
#[derive(Default)]
struct Seen(Vec<(usize, u64)>);

impl Seen {
    fn look(&mut self, recording: &Path, progress: &Progress) {
        let done = progress.now().done;
        self.0.push((parts(recording), done));
    }

    /// Calls that a recording of so many parts must have. A part may be drained already when they were done, but not the
    /// one behind it.
    fn least(&self, parts: usize) -> u64 {
        let counted = self.0.iter().filter(|(before, _)| before + 2 <= parts);
        counted.map(|(_, done)| *done).max().unwrap_or(0)
    }
}

/// Kills iotrace `delay` after its start, or after it must have counted something.
fn round(delay: Duration, is_counting: bool) -> Left {
    let (_keep, dir) = directory();
    let progress = Progress(dir.join("progress"));
    let program = workload();
    let words = [
        program.as_os_str(),
        "endless".as_ref(),
        dir.as_os_str(),
        progress.0.as_os_str(),
        "20".as_ref(),
    ];
    let mut running = Iotrace::record().flush("100ms").start_command(words);
    let mut seen = Seen::default();
    let mut started = Instant::now();
    let mut is_waiting = is_counting;
    while is_waiting || started.elapsed() < delay {
        seen.look(running.recording(), &progress);
        if is_waiting && seen.least(parts(running.recording())) > 0 {
            is_waiting = false;
            started = Instant::now();
        }
        assert!(started.elapsed() < LIMIT, "it counts nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    running.kill_all();
    running.child.wait().unwrap();
    let recording = running.recording();
    let parts = parts(recording);
    let least = seen.least(parts);
    let counted = report(recording).map(|report| {
        let rows = compare::list(&report, "files").iter();
        let rows = rows.filter(|row| text(row, "path").contains("/endless-"));
        let found = rows
            .map(|row| number(row, "reads") + number(row, "writes"))
            .sum();
        let totals = &report["totals"];
        Counted {
            least,
            by_file: found,
            all: number(totals, "reads") + number(totals, "writes"),
            most: progress.now().begun,
        }
    });
    Left { parts, counted }
}

/// The report of what is there; none where nothing was begun, which is an error that says so.
fn report(recording: &Path) -> Option<Value> {
    let mut iotrace = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    iotrace.args(["report", "--format", "json"]).arg(recording);
    let output = iotrace.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if !recording.join("meta.json").exists() {
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(recording.to_str().unwrap()), "{errors}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("not complete"), "{errors:?}");
    let report = serde_json::from_slice(&output.stdout).unwrap();
    compare::conserved(&report);
    Some(report)
}

#[test]
fn twenty_killed_recorders_leave_what_they_had_flushed() {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let step = LATEST / (ROUNDS / 2);
    let offset = u64::from(now.subsec_micros()) % step;
    let mut with_parts = 0;
    for n in 0..ROUNDS {
        // One in each tenth of the time, at another point in each run of this test.
        let delay = Duration::from_millis(n / 2 * step + offset);
        let is_counting = n % 2 == 1;
        let left = round(delay, is_counting);
        if let Some(counted) = left.counted {
            let Counted {
                least,
                by_file,
                all,
                most,
            } = counted;
            assert!(
                least <= all && by_file <= most && by_file <= all,
                "killed after {delay:?}, with {} parts: {least} <= {all}, {by_file} of them <= {most}",
                left.parts
            );
            with_parts += u64::from(is_counting && least > 0);
        }
    }
    assert_eq!(with_parts, ROUNDS / 2, "killed after they had counted");
}
