//! Predictions against reality: a loader is recorded, its time with a change is predicted, and it is really run with that
//! change. And the timeline, of which they are made, as it is exported.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use crate::common::{
    Iotrace, directory,
    export::{exported, gunzipped, report_of},
    python, quiet,
    run::Finished,
    slow::{Slow, Speed},
    turn,
};
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/whatif.py");
/// How far a prediction may be from the real time: a share of that where storage is the limit and where CPUs are, or
/// seconds, which the start of the interpreter differs by.
const STORAGE_ERROR: f64 = 0.05;
const CPU_ERROR: f64 = 0.10;
/// The same for other numbers of workers: how fast storage is depends on how many read at one time.
const WORKERS_ERROR: f64 = 0.10;
const START_SECONDS: f64 = 0.06;
/// Recordings that are predicted from, and real runs: the median of the latter must be in the range of each prediction. By as
/// much as runs of the same differ, other programs on the host disturb them.
const RUNS: usize = 3;
/// Bytes of a file: few, so that the filesystem does little but wait.
const FILE_BYTES: u64 = 64 << 10;
/// What the interpreter may take to start and to end, seconds.
const MAX_START: f64 = 1.0;

/// A loader and its storage; times in milliseconds.
#[derive(Clone, Copy)]
struct Setup {
    /// 0: on no slow filesystem.
    read: f64,
    /// The time of one file's read, where it has its own.
    slow: Option<f64>,
    workers: u32,
    decode: f64,
    main: f64,
    /// CPUs; 0: all.
    cpus: u32,
    /// What the main thread computes after the last sample, and when it has told its workers to end.
    after: f64,
    last: f64,
}

/// Waits for storage nearly all of the time.
const STORAGE_BOUND: Setup = Setup {
    read: 20.0,
    slow: None,
    workers: 1,
    decode: 1.0,
    main: 1.0,
    cpus: 0,
    after: 0.0,
    last: 0.0,
};
/// Computes in the main thread.
const COMPUTE_BOUND: Setup = Setup {
    read: 10.0,
    main: 15.0,
    ..STORAGE_BOUND
};

fn record(setup: Setup) -> Finished {
    let (truth, finished) = record_with(setup, "--waits=timeline");
    // The program's own clock has all but the interpreter's start and end.
    let (own, recorded) = (
        seconds(&truth["seconds"]),
        seconds(&whatif(&finished.recording, &[])["recorded_seconds"]),
    );
    assert!(
        (own..own + MAX_START).contains(&recorded),
        "{recorded} s of {own} s"
    );
    finished
}

/// Records with an option for waits; what the program says itself, and the recording.
fn record_with(setup: Setup, waits: &str) -> (Value, Finished) {
    let (_keep, dir) = directory();
    let speed = |read: f64| Speed {
        read: Duration::from_secs_f64(read / 1000.0 * ((1 << 20) / FILE_BYTES) as f64),
        ..Speed::default()
    };
    let names: Vec<String> = (0..80)
        .map(|index| format!("sample-{index:02}.bin"))
        .collect();
    let read = |index| match setup.slow.filter(|_| index == 40) {
        Some(slow) => slow,
        None => setup.read,
    };
    let files: Vec<(&str, u64, Speed)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| (name.as_str(), FILE_BYTES, speed(read(index))))
        .collect();
    let data = dir.join("train");
    let _slow = if setup.read > 0.0 {
        Some(Slow::mount(&data, &files, speed(setup.read)))
    } else {
        // Pages in memory.
        fs::create_dir(&data).unwrap();
        for name in &names {
            fs::write(data.join(name), vec![0; FILE_BYTES as usize]).unwrap();
        }
        None
    };
    let truth = dir.join("truth.json");
    let numbers = [
        f64::from(setup.workers),
        setup.decode,
        setup.main,
        f64::from(setup.cpus),
        setup.after,
        setup.last,
    ];
    let paths = [python(), PROGRAM.into(), truth.clone(), data];
    let command = paths.into_iter().map(std::path::PathBuf::into_os_string);
    let command = command.chain(numbers.map(|number| number.to_string().into()));
    let finished = Iotrace::record()
        .flush("250ms")
        .args([waits])
        .command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let truth: Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    (truth, finished)
}

fn output(recording: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let command = command.arg("whatif").arg(recording).args(args);
    command.output().unwrap()
}

fn whatif(recording: &Path, args: &[&str]) -> Value {
    let output = output(recording, &[args, &["--format", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().expect("seconds")
}

/// Predictions, and what they must be like.
struct Compared {
    /// What whatif said, one for each recording.
    predictions: Vec<Value>,
    /// Median of the times predicted, and of the real ones, seconds.
    predicted: f64,
    real: f64,
    /// By how much the host disturbs that, seconds.
    noise: f64,
    /// All of that in words.
    said: String,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// By how much the longest exceeds the shortest, seconds.
fn spread(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(0.0, f64::max) - least
}

/// Predicts by recordings of `before` how long `after` takes, and runs that. The real time must be in each stated range.
#[track_caller]
fn compare(before: Setup, args: &[&str], after: Setup) -> Compared {
    turn::alone();
    let (mut predictions, mut recorded, mut real) = (Vec::new(), Vec::new(), Vec::new());
    let mut said = format!("{args:?}");
    for _ in 0..RUNS {
        let found = whatif(&quiet::measured(|| record(before)).recording, args);
        let changed = quiet::measured(|| record(after));
        let once = seconds(&whatif(&changed.recording, &[])["recorded_seconds"]);
        let prediction = found["predictions"][0].clone();
        said += &format!(
            "\n  predicted {:.3} s ({:.3} to {:.3}, predictable: {}), recorded {:.3} s, model error {:+.1} %, {}; real {once:.3} s\n    {}",
            seconds(&prediction["seconds"]),
            seconds(&prediction["low_seconds"]),
            seconds(&prediction["high_seconds"]),
            prediction["is_predictable"],
            seconds(&found["recorded_seconds"]),
            seconds(&found["model_error"]) * 100.0,
            prediction["limited_by"],
            prediction["parts"],
        );
        predictions.push(prediction);
        recorded.push(seconds(&found["recorded_seconds"]));
        real.push(once);
    }
    let differs = spread(&recorded).max(spread(&real));
    let real = median(real.into_iter());
    let noise = START_SECONDS + differs;
    println!("{said}\n  noise {noise:.3} s");
    for prediction in &predictions {
        let of = |key: &str| seconds(&prediction[key]);
        let (low, predicted, high) = (of("low_seconds"), of("seconds"), of("high_seconds"));
        assert!(low <= predicted && predicted <= high, "{prediction:#}");
        assert!(
            (low - noise..=high + noise).contains(&real),
            "the real time, {real:.3} s, is not in a stated range:\n{said}\n{prediction:#}"
        );
    }
    Compared {
        predicted: median(predictions.iter().map(|one| seconds(&one["seconds"]))),
        predictions,
        real,
        noise,
        said,
    }
}

/// As [`compare`]; the predicted time must be right, and what limits it.
#[track_caller]
fn check(before: Setup, args: &[&str], after: Setup, error: f64, limit: &[&str]) -> Compared {
    let compared = compare(before, args, after);
    let Compared {
        predictions,
        predicted,
        real,
        noise,
        said,
    } = &compared;
    let most = noise + real * error;
    assert!(
        (predicted - real).abs() <= most,
        "predicted {predicted:.3} s, real {real:.3} s:\n{said}"
    );
    for prediction in predictions {
        let limited_by = prediction["limited_by"].as_str().expect("a limit");
        assert!(limit.contains(&limited_by), "{said}\n{prediction:#}");
    }
    compared
}

/// What must be said of the predictions: whether they can be relied on.
#[track_caller]
fn assert_predictable(compared: &Compared, expected: bool) {
    for prediction in &compared.predictions {
        let said = &compared.said;
        assert_eq!(
            prediction["is_predictable"], expected,
            "{said}\n{prediction:#}"
        );
    }
}

#[test]
fn slower_storage() {
    let after = Setup {
        read: 40.0,
        ..STORAGE_BOUND
    };
    let args = ["--storage", "0.5x"];
    let compared = check(STORAGE_BOUND, &args, after, STORAGE_ERROR, &["storage"]);
    assert_predictable(&compared, true);
}

#[test]
fn storage_twice_as_fast() {
    let after = Setup {
        read: 10.0,
        ..STORAGE_BOUND
    };
    let args = ["--storage", "2x"];
    let compared = check(STORAGE_BOUND, &args, after, STORAGE_ERROR, &["storage"]);
    assert_predictable(&compared, true);
}

#[test]
fn storage_four_times_as_fast() {
    let after = Setup {
        read: 5.0,
        ..STORAGE_BOUND
    };
    let args = ["--storage", "4x"];
    check(STORAGE_BOUND, &args, after, STORAGE_ERROR, &["storage"]);
}

#[test]
fn infinitely_fast_storage() {
    let before = Setup {
        main: 5.0,
        ..STORAGE_BOUND
    };
    let after = Setup {
        read: 0.0,
        ..before
    };
    let args = ["--storage", "infinite"];
    let limits = ["main_thread", "run_queue"];
    check(before, &args, after, CPU_ERROR, &limits);
}

#[test]
fn one_slow_file_repaired() {
    let before = Setup {
        slow: Some(900.0),
        ..STORAGE_BOUND
    };
    let args = ["--file", "sample-40.bin=fast"];
    check(before, &args, STORAGE_BOUND, STORAGE_ERROR, &["storage"]);
}

#[test]
fn two_workers_for_one() {
    let after = Setup {
        workers: 2,
        ..STORAGE_BOUND
    };
    let args = ["--workers", "2"];
    check(STORAGE_BOUND, &args, after, WORKERS_ERROR, &["storage"]);
}

#[test]
fn one_worker_for_four() {
    let before = Setup {
        workers: 4,
        ..STORAGE_BOUND
    };
    let args = ["--workers", "1"];
    check(before, &args, STORAGE_BOUND, WORKERS_ERROR, &["storage"]);
}

#[test]
fn workers_and_storage_together() {
    let after = Setup {
        read: 40.0,
        workers: 4,
        ..STORAGE_BOUND
    };
    let before = Setup {
        workers: 2,
        ..STORAGE_BOUND
    };
    let args = ["--storage", "0.5", "--workers", "4"];
    check(before, &args, after, WORKERS_ERROR, &["storage"]);
}

#[test]
fn what_computes_gains_nothing_from_storage() {
    let after = Setup {
        read: 5.0,
        ..COMPUTE_BOUND
    };
    let args = ["--storage", "2x"];
    let limits = ["main_thread", "run_queue"];
    check(COMPUTE_BOUND, &args, after, CPU_ERROR, &limits);
}

#[test]
fn what_computes_can_become_limited_by_storage() {
    let after = Setup {
        read: 40.0,
        ..COMPUTE_BOUND
    };
    let args = ["--storage", "0.25x"];
    check(COMPUTE_BOUND, &args, after, STORAGE_ERROR, &["storage"]);
}

#[test]
fn workers_that_ended_early_can_be_too_late() {
    // They end while the main thread still computes, which then has nothing to wait for.
    let before = Setup {
        last: 300.0,
        ..COMPUTE_BOUND
    };
    let after = Setup {
        read: 40.0,
        ..before
    };
    let compared = compare(before, &["--storage", "0.25x"], after);
    assert_predictable(&compared, false);
}

#[test]
fn work_after_the_last_sample_does_not_hide_slow_storage() {
    let before = Setup {
        after: 2_000.0,
        ..COMPUTE_BOUND
    };
    let after = Setup {
        read: 40.0,
        ..before
    };
    let compared = compare(before, &["--storage", "0.25x"], after);
    assert_predictable(&compared, false);
}

#[test]
fn one_cpu_for_both() {
    let before = Setup {
        read: 2.0,
        decode: 10.0,
        main: 10.0,
        ..STORAGE_BOUND
    };
    let after = Setup { cpus: 1, ..before };
    let limits = ["main_thread", "run_queue", "loader_cpu"];
    check(before, &["--cpus", "1"], after, CPU_ERROR, &limits);
}

#[test]
fn what_cannot_be_told_is_refused() {
    turn::alone();
    let recorded = record(STORAGE_BOUND);
    let refused = |recording: &Path, args: &[&str], word: &str| {
        let output = output(recording, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(word), "{said}");
        assert!(output.stdout.is_empty());
    };
    refused(&recorded.recording, &["--mount", "/nowhere=2x"], "/train");
    refused(
        &recorded.recording,
        &["--file", "*.none=2x"],
        "matches *.none",
    );
    refused(
        &recorded.recording,
        &["--file", "sample-*=fast", "--file", "**=fast"],
        "instead of `fast`",
    );
    let table = whatif(&recorded.recording, &["--storage", "1x,2x,infinite"]);
    let rows = table["predictions"].as_array().unwrap();
    let times: Vec<f64> = rows.iter().map(|row| seconds(&row["seconds"])).collect();
    assert_eq!(times.len(), 3);
    assert!(times[0] > times[1] && times[1] > times[2], "{times:?}");
    assert!((times[0] - seconds(&table["unchanged"]["seconds"])).abs() < 1e-9);

    let plain = Iotrace::record().args(["--waits"]).command(["true"]);
    assert_eq!(plain.code(), 0, "{}", plain.stderr);
    refused(&plain.recording, &[], "--waits=timeline");
    let no_workers = Iotrace::record()
        .args(["--waits=timeline"])
        .command(["sleep", "0.1"]);
    refused(&no_workers.recording, &["--workers", "2"], "not known");
}

/// The finding on waits for storage, or the one that explains it.
#[track_caller]
fn storage_bound(report: &Value) -> &Value {
    let code = Value::from("storage-bound");
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let found = findings.find(|finding| {
        let also = finding["also"].as_array().expect("codes");
        finding["code"] == code || also.contains(&code)
    });
    found.unwrap_or_else(|| panic!("{:#}", report["findings"]))
}

#[test]
fn a_finding_quotes_what_is_predicted() {
    turn::alone();
    let recorded = record(STORAGE_BOUND);
    let predicted = whatif(&recorded.recording, &["--storage", "2x,infinite"]);
    for report in [recorded.report(), report_of(&[&recorded.recording])] {
        let finding = storage_bound(&report);
        assert_eq!(finding["predictions"], predicted["predictions"]);
        assert_eq!(finding["recorded_seconds"], predicted["recorded_seconds"]);
        assert_eq!(finding["not_predicted"], Value::Null);
        let saved = seconds(&finding["recorded_seconds"])
            - seconds(&finding["predictions"][1]["high_seconds"]);
        assert!(seconds(&finding["saves_at_most_seconds"]) >= saved);
    }
    let (_, plain) = record_with(STORAGE_BOUND, "--waits");
    for report in [plain.report(), report_of(&[&plain.recording])] {
        let finding = storage_bound(&report);
        for key in ["predictions", "recorded_seconds", "not_predicted"] {
            assert_eq!(finding.get(key), None, "{finding:#}");
        }
    }
}

/// The spans of an export's lanes of states, by process and thread, in order of time; and its arrows by number.
type States = (Lanes, BTreeMap<u64, Vec<Value>>);
type Lanes = BTreeMap<(u64, u64), Vec<Value>>;

fn states(recording: &Path) -> States {
    let trace = gunzipped(&exported(recording, &["--format", "chrome"]));
    let trace: Value = serde_json::from_slice(&trace).unwrap();
    let (mut lanes, mut arrows) = (Lanes::new(), BTreeMap::new());
    for event in trace["traceEvents"].as_array().unwrap() {
        let number = |key: &str| event[key].as_u64().unwrap();
        if event["cat"] == "state" {
            let lane = (number("pid"), number("tid"));
            lanes.entry(lane).or_default().push(event.clone());
        } else if event["cat"] == "wake" {
            let of_arrow: &mut Vec<Value> = arrows.entry(number("id")).or_default();
            of_arrow.push(event.clone());
        }
    }
    (lanes, arrows)
}

/// Start and end of a span of a trace, microseconds.
fn span(event: &Value) -> (f64, f64) {
    let start = seconds(&event["ts"]);
    (start, start + seconds(&event["dur"]))
}

#[test]
fn an_export_draws_what_threads_waited_for_and_who_woke_them() {
    turn::alone();
    let finished = record(STORAGE_BOUND);
    let (lanes, arrows) = states(&finished.recording);
    let sum = |spans: &[Value], is_wanted: &dyn Fn(&Value) -> bool| -> f64 {
        let wanted = spans.iter().filter(|span| is_wanted(span));
        wanted.map(|span| seconds(&span["dur"]) / 1e6).sum()
    };
    for spans in lanes.values() {
        let times: Vec<(f64, f64)> = spans.iter().map(span).collect();
        for pair in times.windows(2) {
            assert!(pair[0].1 <= pair[1].0 + 1e-3, "{pair:?}");
        }
    }

    // The main thread waited as the report says.
    let report = finished.report();
    let waits = report["waits"].as_array().unwrap();
    // The workers are its children.
    let waiter = waits
        .iter()
        .min_by_key(|waiter| waiter["pid"].as_u64())
        .unwrap();
    let main = waiter["pid"].as_u64().unwrap();
    let spans = &lanes[&(main, lane(main))];
    let waited = sum(spans, &|span| span["name"] != "running");
    let told = seconds(&waiter["waiting_seconds"]);
    assert!(
        (waited - told).abs() < 0.01 * told,
        "{waited} s, not {told} s"
    );

    // The workers waited for the files, as slow as they are.
    let is_read = |span: &Value| {
        let file = span["args"]["file"].as_str();
        span["name"] == "storage" && file.is_some_and(|file| file.contains("/train/sample-"))
    };
    let workers = lanes.iter().filter(|((pid, _), _)| *pid != main);
    let read: f64 = workers.map(|(_, spans)| sum(spans, &is_read)).sum();
    // A thread asks for a read some time before it leaves its CPU to wait for it.
    let least = 0.98 * 80.0 * STORAGE_BOUND.read / 1000.0;
    assert!(
        (least..1.5 * least).contains(&read),
        "{read} s, not {least} s"
    );

    // Each arrow leads from where a thread runs to where another begins to.
    let mut to_main = 0;
    for arrow in arrows.values() {
        let [from, to] = &arrow[..] else {
            panic!("{arrow:?}");
        };
        assert_eq!((&from["ph"], &to["ph"]), (&"s".into(), &"f".into()));
        let spans_of = |event: &Value| {
            let number = |key: &str| event[key].as_u64().unwrap();
            let spans = &lanes[&(number("pid"), number("tid"))];
            spans
                .iter()
                .filter(|span| span["name"] == "running")
                .map(span)
        };
        let (begins, ends) = (seconds(&from["ts"]), seconds(&to["ts"]));
        assert!(
            spans_of(from).any(|(start, end)| (start..=end).contains(&begins)),
            "{from}"
        );
        assert!(spans_of(to).any(|(start, _)| start == ends), "{to}");
        assert!(begins <= ends, "{arrow:?}");
        let is_by_worker = from["pid"] != to["pid"];
        to_main += usize::from(is_by_worker && to["pid"] == main);
    }
    assert!(to_main > 40, "{to_main} of 80 samples");
}

/// The lane of the states of a thread.
fn lane(tid: u64) -> u64 {
    (2 << 22) + tid
}
