//! The operation trace on the HTML report: what is drawn against the trace, and what a reader does with it.

use std::{fs, path::Path, process::Command};

use super::{
    browser::Page,
    html::{color, no_faults, page_of, rows, run, training},
};
use crate::common::{directory, golden, number, trace};
use iotrace_common::{
    key::{FileId, IoKey},
    op,
    trace::{Missing, Operation},
};
use iotrace_model::{
    Model,
    counters::{self, Counters},
    input::{Event, FileName, Place, ProcessId},
    run::Run,
};
use iotrace_recording::{Recorder, trace::TraceWriter};
use iotrace_report::units;
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;

/// What the page has of the trace.
fn data(page: &mut Page) -> Value {
    page.eval("JSON.parse(document.getElementById('data').textContent).operations")
}

/// Sum of a column.
fn sum(columns: &Value, key: &str) -> u64 {
    let column = columns[key].as_array().expect("a column");
    column.iter().filter_map(Value::as_u64).sum()
}

/// Each view has all that the trace has: in lanes and in the rest, and in the lanes one by one and in steps.
#[track_caller]
fn check_sums(operations: &Value, [calls, read, written, ns]: [u64; 4]) {
    for (view, key) in [("files", "file"), ("threads", "thread")] {
        let lanes = &operations[view];
        for (column, expected) in [
            ("operations", calls),
            ("bytes_read", read),
            ("bytes_written", written),
            ("ns", ns),
        ] {
            let shown = sum(lanes, column) + number(&lanes["rest"], column);
            assert_eq!(shown, expected, "{column} of {view}");
        }
        let count = lanes["ns"].as_array().expect("lanes").len() as u64;
        let single = &operations["single"];
        let keys = single[key].as_array().expect("a column").iter();
        let times = single["ns"].as_array().expect("a column").iter();
        let in_lanes = keys
            .zip(times)
            .filter(|(place, _)| place.as_u64() < Some(count) && place.as_u64().is_some());
        let times: Vec<u64> = in_lanes.filter_map(|(_, ns)| ns.as_u64()).collect();
        assert_eq!(
            times.len() as u64 + sum(&lanes["cells"], "operations"),
            sum(lanes, "operations"),
            "{view}"
        );
        assert_eq!(
            times.iter().sum::<u64>() + sum(&lanes["cells"], "ns"),
            sum(lanes, "ns"),
            "{view}"
        );
    }
}

/// Operations, bytes read and written, and nanoseconds of a trace.
fn whole(recording: &Path) -> [u64; 4] {
    let mut whole = [0; 4];
    for row in trace::rows(&trace::open(recording)) {
        let moved = u64::try_from(row.result).unwrap_or(0);
        let bytes = |is| if is { moved } else { 0 };
        let op = row.op as usize;
        let more = [
            1,
            bytes(op::is_read(op)),
            bytes(op::is_write(op)),
            row.duration as u64,
        ];
        for (sum, more) in whole.iter_mut().zip(more) {
            *sum += more;
        }
    }
    whole
}

#[test]
fn each_operation_is_drawn_and_said() {
    let kept = golden::kept("operations");
    let file = kept.recording.with_file_name("page.html");
    page_of(&kept.recording, &file);
    let mut page = Page::open(&file);
    let operations = data(&mut page);
    let whole = whole(&kept.recording);
    check_sums(&operations, whole);
    assert!(operations["longest_binned_ns"].is_null());
    let note = page.text("#operations .note");
    assert!(
        note.contains(&format!("{} operations took", units::count(whole[0])))
            && note.contains("Each operation is drawn from its start to its end."),
        "{note}"
    );
    // 50 reads of 90 bytes by two threads, 50 writes and 7 reads of a child: in the lane of the file.
    page.eval("document.querySelector('#operations details').open = true");
    let of_file = |page: &mut Page| {
        let lanes = rows(page, "operations");
        lanes.into_iter().find(|row| row[0].ends_with("shared.bin"))
    };
    let lane = of_file(&mut page).expect("a lane of the file");
    assert_eq!(lane[3], units::bytes(50 * 90 + 7 * 500));
    assert_eq!(lane[4], units::bytes((100..150).sum()));
    assert_eq!(lane[1], lane[2], "all are drawn one by one");
    // The keyboard reads operations; a failed one says why.
    page.eval("document.querySelector('#operations .uplot').focus()");
    page.key("ArrowRight");
    let first = page.text("#operations .readout");
    page.key("ArrowRight");
    let second = page.text("#operations .readout");
    assert!(
        first.contains(" in ") && first.contains(" s · ") && first != second,
        "{first} | {second}"
    );
    let failed = "operations.errors[-9]";
    let failed = page.eval(&format!(
        "JSON.parse(document.getElementById('data').textContent).{failed}"
    ));
    assert_eq!(failed, "EBADF", "a read of a file that is open for writing");
    // By thread: the file is none of the lanes, three threads that read it are.
    page.click("#operations [data-value=threads]");
    assert!(of_file(&mut page).is_none());
    let threads = rows(&mut page, "operations");
    let named = threads.iter().filter(|row| row[0].contains(", thread "));
    assert!(named.count() >= 2, "{threads:?}");
    // What is zoomed here is zoomed in the timeline, and back.
    let span = "(() => uPlot.sync('time').plots.map(p => p.scales.x.max - p.scales.x.min))()";
    let spans = |page: &mut Page| {
        let spans = page.eval(span);
        serde_json::from_value::<Vec<f64>>(spans).expect("spans")
    };
    let before = spans(&mut page);
    page.click("#operations [aria-label='Zoom in']");
    let zoomed = spans(&mut page);
    assert!(zoomed.len() > 1, "{zoomed:?}");
    for span in &zoomed {
        assert!(
            (span - before.last().unwrap() / 2.0).abs() < 1e-6,
            "{before:?} {zoomed:?}"
        );
    }
    page.eval("document.querySelector('#operations .uplot').focus()");
    page.key("Escape");
    let after = spans(&mut page);
    assert!((after.last().unwrap() - before.last().unwrap()).abs() < 1e-6);
    for scheme in ["light", "dark"] {
        page.medium("screen", scheme);
        let ink = color(&mut page, "--read");
        let picture = page.picture("#operations [data-chart=operations]");
        assert!(
            picture.count(&ink) > 500,
            "{scheme}: {:?}",
            &picture.colors[..8]
        );
    }
    // A kind that is taken out is not drawn.
    page.click("#operations .legend button:first-child");
    let ink = color(&mut page, "--read");
    let picture = page.picture("#operations [data-chart=operations]");
    assert_eq!(picture.count(&ink), 0);
    no_faults(&mut page);
}

#[test]
fn a_recording_without_a_trace_has_no_such_section() {
    let training = training();
    let mut page = Page::open(&training.page);
    assert_eq!(
        page.eval("document.getElementById('operations')"),
        Value::Null
    );
    assert_eq!(data(&mut page), Value::Null);
}

#[test]
fn a_part_of_the_files_has_their_operations() {
    let kept = golden::kept("operations");
    let file = kept.recording.with_file_name("page.html");
    let done = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("report")
        .arg(&kept.recording)
        .args(["--include", "**/shared.bin", "--format", "html", "--output"])
        .arg(&file)
        .status();
    assert!(done.expect("iotrace starts").success());
    let mut page = Page::open(&file);
    let operations = data(&mut page);
    assert_eq!(operations["files"]["ns"].as_array().map(Vec::len), Some(1));
    let of_file = sum(&operations["files"], "operations");
    assert!((100..whole(&kept.recording)[0]).contains(&of_file));
    no_faults(&mut page);
}

#[test]
fn a_damaged_trace_is_said() {
    let kept = golden::kept("operations");
    let part = kept.recording.join("trace-000001/operations.parquet");
    let mut bytes = fs::read(&part).expect("a part");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).expect("a part");
    let file = kept.recording.with_file_name("page.html");
    page_of(&kept.recording, &file);
    let mut page = Page::open(&file);
    let said = page.text("#operations .warning");
    assert!(
        said.contains("cannot be read") && said.contains("trace-000001"),
        "{said}"
    );
    no_faults(&mut page);
}

/// A run of 40 threads that read as many files, `count` times in a hundred seconds, and sync them now and then; some
/// operations are missing.
fn recorded(directory: &Path, count: u64) {
    const FILES: u64 = 40;
    let mut run = Run {
        duration_ns: 100 * SECOND,
        ..run()
    };
    let start = run.start_unix_ns as u64;
    let mut model = Model::with_history();
    model.update_mounts(b"1 1 259:3 / / rw - xfs /dev/sda rw");
    let mut recorder = Recorder::create(directory, &run).expect("a recording");
    let mut writer = TraceWriter::new(recorder.directory(), run.clock, None);
    let file = |index: u64| FileId {
        device: 259 << 20 | 3,
        generation: 1,
        inode: index + 1,
    };
    let process = ProcessId { pid: 100, start: 7 };
    for index in 0..FILES {
        model.event(Event::File(FileName {
            file: file(index),
            path: format!("/data/<train>/shard-{index:05}.tar").into_bytes(),
            size: 1 << 30,
            mode: 0o100_644,
            magic: 0,
            block_size: 4096,
            truncated: false,
            deleted: false,
            existed: false,
        }));
        // No time in calls: the heat map has no row for it.
        let mut counters = Counters::ZERO;
        counters.v[counters::READS] = count / FILES;
        model.add(process, Place::File(file(index)), &counters);
    }
    let operation = |number: u64| {
        let index = number % 97 % FILES;
        let is_sync = number % 1_000 == 999;
        let begun = start + number * (99 * SECOND / count);
        let ns = 1_000 + number % 977 * 500 + u64::from(is_sync) * SECOND / 4;
        let key = IoKey {
            file: file(index),
            tgid: process.pid,
            tid: 100 + index as u32,
            start: process.start,
            ..IoKey::default()
        };
        Operation {
            key,
            start: begun,
            end: begun + ns,
            offset: number << 16,
            length: 1 << 16,
            result: if is_sync { 0 } else { 1 << 16 },
            op: if is_sync { op::FSYNC } else { op::READ } as u32,
            epoch: 0,
        }
    };
    let operations = (0..count).map(operation).collect();
    let missing = Missing {
        lost: 12,
        left_out: 3_400,
    };
    writer
        .write(operations, vec![(process, missing)])
        .expect("a part");
    run.trace = Some(writer.summary());
    recorder.flush(&mut model, &run).expect("a part");
    recorder.finish(&mut model, &run).expect("a recording");
}

#[test]
fn many_operations_are_summed_and_the_page_says_which() {
    const OPERATIONS: u64 = 200_000;
    let (_keep, dir) = directory();
    let (recording, file) = (dir.join("recording"), dir.join("page.html"));
    recorded(&recording, OPERATIONS);
    page_of(&recording, &file);
    let mut page = Page::blank();
    let opened = page.visit(&file);
    assert!(opened.as_secs() < 3, "{opened:?}");
    let operations = data(&mut page);
    check_sums(&operations, whole(&recording));
    let size = operations.to_string().len();
    assert!(size < 1_000_000, "{size} bytes");
    let note = page.text("#operations .note");
    let files = operations["files"]["others"].as_u64().expect("a count");
    for part in [
        "200,000 operations took".to_owned(),
        format!("{files} other files with"),
        "The 8,000 longest are drawn from their start to their end".to_owned(),
        "are summed in steps of".to_owned(),
        "The trace has lost 12 operations, and left out 3,400, for it had reached its size."
            .to_owned(),
    ] {
        assert!(note.contains(&part), "{part} is not in {note}");
    }
    // Steps have their own colours, lighter than those of operations; both are there.
    let picture = page.picture("#operations [data-chart=operations]");
    assert!(
        picture.count(&color(&mut page, "--phase-startup")) > 50,
        "syncs last"
    );
    assert!(picture.count(&color(&mut page, "--read")) > 50);
    // A step that is read aloud says what is in it.
    page.eval("document.querySelector('#operations .uplot').focus()");
    page.eval("document.querySelectorAll('#operations .legend button').forEach(b => b.click())");
    page.key("ArrowRight");
    let said = page.text("#operations .readout");
    assert!(
        said.contains("shorter operations · read: ") && said.contains(" begun, "),
        "{said}"
    );
    assert!(
        said.ends_with(".tar") && said.contains("/data/<train>/"),
        "{said}"
    );
    no_faults(&mut page);
}
