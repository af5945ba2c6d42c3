//! The picture of a run has bars where the run did I/O, and none where it did none, also without a flush. A failure shows both
//! as text:
//!
//! ```text
//! bursts: training
//!   done   ............####...........####...........####...........
//!   drawn  ............####...........####...........####...........
//! ```

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    common::{Iotrace, compare::list, directory},
    disk::{Disk, Frozen},
};
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/timeline.py");
/// Seconds of a column of the picture.
const COLUMN_SECONDS: f64 = 0.05;
/// How far from I/O a bar may reach: a step of the recording, and a drain that comes late.
const MAX_REACH_SECONDS: f64 = 0.35;

/// How long a disk does not write.
const FROZEN_TIME: Duration = Duration::from_secs(2);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Bars: from when to when, seconds since the start of the run.
type Bars = Vec<(f64, f64)>;

/// The data of an HTML report.
fn page_data(page: &Path) -> Value {
    let page = fs::read_to_string(page).expect("a page");
    let (_, data) = page.split_once("id=\"data\"").expect("data in the page");
    let (_, data) = data.split_once('>').expect("a tag");
    let (data, _) = data.split_once("</script>").expect("an end");
    serde_json::from_str(data).expect("JSON")
}

/// Where the timeline has bytes of a phase.
fn drawn(data: &Value, phase: &str) -> Bars {
    let series = &data["series"];
    let values = |key: &str| {
        list(series, key)
            .iter()
            .map(|value| value.as_f64().expect("seconds"))
    };
    let moved = |key: &str| {
        list(&series["by_phase"][phase], key)
            .iter()
            .map(|value| value.as_u64() > Some(0))
    };
    let bins = values("start").zip(values("end"));
    let is_drawn = moved("bytes_read")
        .zip(moved("bytes_written"))
        .map(|(read, written)| read || written);
    bins.zip(is_drawn)
        .filter(|(_, is_drawn)| *is_drawn)
        .map(|(bin, _)| bin)
        .collect()
}

/// Whether any of the bars is within `reach` of a column.
fn has(bars: &Bars, column: usize, reach: f64) -> bool {
    let (from, to) = (
        column as f64 * COLUMN_SECONDS - reach,
        (column + 1) as f64 * COLUMN_SECONDS + reach,
    );
    bars.iter().any(|(start, end)| *start < to && *end > from)
}

fn line(bars: &Bars, columns: usize) -> String {
    (0..columns)
        .map(|column| if has(bars, column, 0.0) { '#' } else { '.' })
        .collect()
}

/// A run, recorded: what the program did and what the page shows.
struct Recorded {
    run: &'static str,
    done: Value,
    shown: Value,
    /// Seconds since the Unix epoch.
    start: f64,
    seconds: f64,
}

impl Recorded {
    /// Records a run; `iotrace` as it is to record.
    fn new(run: &'static str, dir: &Path, iotrace: Iotrace) -> Self {
        let program = |run: &str| {
            [
                "python3".into(),
                PROGRAM.into(),
                run.into(),
                dir.as_os_str().to_owned(),
            ]
        };
        let [python, arguments @ ..] = program("make");
        let made = Command::new(python).args(arguments).output();
        let made = made.expect("python3");
        assert!(made.status.success(), "{made:?}");
        let finished = iotrace.command(program(run));
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let (done, report) = finished.truth_and_report();
        let page = dir.join("report.html");
        let status = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .args(["report", "--output"])
            .arg(&page)
            .arg(&finished.recording)
            .output()
            .expect("iotrace");
        assert!(status.status.success(), "{status:?}");
        Self {
            run,
            done,
            shown: page_data(&page),
            start: unix_seconds(&finished.recording),
            seconds: report["duration_seconds"].as_f64().expect("seconds"),
        }
    }

    /// Compares the picture.
    fn check(&self) {
        let columns = (self.seconds / COLUMN_SECONDS) as usize;
        for phase in ["training", "checkpoint"] {
            let spans = list(&self.done, phase).iter();
            let done: Bars = spans
                .map(|span| {
                    let at = |place: usize| span[place].as_f64().expect("seconds") - self.start;
                    (at(0), at(1))
                })
                .collect();
            if done.is_empty() {
                continue;
            }
            let drawn = drawn(&self.shown, phase);
            let mut picture = format!("{}: {phase}\n", self.run);
            let _ = writeln!(picture, "  done   {}", line(&done, columns));
            let _ = writeln!(picture, "  drawn  {}", line(&drawn, columns));
            for column in 0..columns {
                let is_done = has(&done, column, -COLUMN_SECONDS / 2.0);
                let is_drawn = has(&drawn, column, 0.0);
                assert!(
                    is_drawn || !is_done,
                    "no bar in column {column}:\n{picture}"
                );
                assert!(
                    !is_drawn || has(&done, column, MAX_REACH_SECONDS),
                    "a bar in column {column}:\n{picture}"
                );
            }
        }
    }
}

/// Records a run and compares its picture.
fn check(run: &'static str) {
    let (_keep, dir) = directory();
    Recorded::new(run, &dir, Iotrace::record()).check();
}

/// The start of a run, seconds since the Unix epoch.
fn unix_seconds(recording: &Path) -> f64 {
    let meta = fs::read_to_string(recording.join("meta.json")).expect("meta.json");
    let meta: Value = serde_json::from_str(&meta).expect("JSON");
    meta["start_unix_ns"].as_f64().expect("a start") / 1e9
}

#[test]
fn bursts_of_reads() {
    check("bursts");
}

#[test]
fn saves_to_a_file_that_stays_open() {
    check("saves");
}

#[test]
fn reads_that_stop() {
    check("reads_stop");
}

#[test]
fn reads_and_saves_in_turn() {
    check("in_turn");
}

#[test]
fn many_files_in_bursts() {
    check("many_files");
}

/// The disk of the recording writes nothing from the first part on until after the first burst.
#[test]
fn bursts_while_the_disk_of_the_recording_does_not_write() {
    let (_keep, dir) = directory();
    let disk = Disk::new(&dir);
    disk.mount();
    let recording = disk.place.join("recording");
    let part = recording.join("part-000001");
    let iotrace = Iotrace::record().flush("100ms").recording(&recording);
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + MAX_WAIT;
            while !part.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _frozen = Frozen::new(&disk.place);
            std::thread::sleep(FROZEN_TIME);
        });
        Recorded::new("bursts", &dir, iotrace)
    });
    recorded.check();
}

/// A program that begins with thousands of files has no long step after them.
#[test]
fn bursts_behind_a_start_with_many_files() {
    check("many_first");
}
