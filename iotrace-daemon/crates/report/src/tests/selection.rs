//! Reports of a part of the files.

use unicode_width::UnicodeWidthStr as _;

use super::{training::*, *};
use iotrace_model::{counters::*, history::Bounds, run::CallInFlight};
use iotrace_phases::path_glob::FileChoice;

/// The first screen and the JSON report of the files that these globs include.
fn selected(mut model: Model, mut run: Run, include: &[&str]) -> (String, Value) {
    let globs = include.iter().map(|glob| glob.parse().expect("a glob"));
    let choice = FileChoice {
        include: globs.collect(),
        exclude: Vec::new(),
    };
    let classifier = Classifier::builtin();
    let selection = Selection::new(&choice, &mut model, &mut run, classifier);
    let report = Report::of_selection(&model, &run, classifier, selection);
    let (mut screen, mut whole) = (Vec::new(), Vec::new());
    text(&report, &Extent::Summary, Layout::plain(80), &mut screen).unwrap();
    json(&report, &mut whole).unwrap();
    let screen = String::from_utf8(screen).unwrap();
    assert!(screen.lines().count() <= 22, "{screen}");
    for line in screen.lines() {
        assert!(line.width() <= 80, "{line}");
    }
    (screen, serde_json::from_slice(&whole).unwrap())
}

/// One process with two calls at a time: on `a` in the first 10 ms, and on `b` in the first 12 ms.
fn overlapping() -> Model {
    let mut model = Model::with_history();
    for (inode, path, ns, union) in [(1, b"/data/a", 10, 10), (2, b"/data/b", 12, 2)] {
        model.event(name(inode, path, 0o100_644));
        let mut counters = counted(&[
            (READS, 1),
            (BYTES_READ, 1 << 20),
            (READ_NS, ns * 1_000_000),
            (UNION_READ_NS, union * 1_000_000),
        ]);
        for (index, at) in [(FIRST_OPERATION, 0), (LAST_OPERATION, ns * 1_000_000)] {
            counters.v[index] = 780_000_000_000 + at;
        }
        model.add(process(1), place(inode), &counters);
    }
    let start = run().start_unix_ns;
    let end = start + run().duration_ns as i64;
    model.settle(Bounds { start, end });
    model
}

#[test]
fn merged_time_is_no_more_certain_than_it_can_be() {
    let time = |report: &Value| {
        let verdict = &report["verdict"];
        ["file_io_seconds_at_least", "file_io_seconds_at_most"]
            .map(|key| (verdict[key].as_f64().unwrap() * 1e3).round() as u64)
    };
    assert_eq!(time(&as_json(&overlapping(), &run())), [12, 12]);
    let of = |glob: &str| time(&selected(overlapping(), run(), &[glob]).1);
    // The call on b took 12 ms, of which its counters have the 2 ms in which it was alone.
    assert_eq!(of("b"), [2, 12]);
    assert_eq!(of("a"), [10, 10]);
    assert_eq!(of("c"), [0, 0]);
}

#[test]
fn calls_in_flight_are_those_on_chosen_files() {
    let call = |path: Option<&str>| CallInFlight {
        path: path.map(str::to_owned),
        pid: 1,
        tid: 1,
        operation: "read".into(),
        mount_point: None,
        fs_type: None,
        phase: 0,
        began_before: false,
        start_unix_ns: run().start_unix_ns,
        ns: 9_000_000_000,
    };
    let mut run = run();
    run.in_flight = vec![call(Some("/data/a")), call(Some("/data/b")), call(None)];
    let (screen, report) = selected(overlapping(), run, &["a"]);
    assert_eq!(report["in_flight"][0]["path"], "/data/a");
    assert_eq!(report["in_flight"].as_array().map(Vec::len), Some(1));
    assert!(screen.contains("1 call had not returned"), "{screen}");
    assert_eq!(report["verdict"]["code"], "part-of-files");
}

#[test]
fn the_first_screen_says_what_is_chosen() {
    let long: Vec<String> = (0..40).map(|index| format!("/data/{index}/**")).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    for (globs, said) in [
        (&["*.pt", "\x1b*"][..], "--include *.pt --include \\x1b*."),
        (&long[..], "--include /data/0/**"),
    ] {
        let (screen, report) = selected(training(), run(), globs);
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("PART OF THE FILES") && words.contains(said),
            "{screen}"
        );
        assert!(
            !words.contains("To change") && !words.contains("Nothing to change"),
            "{screen}"
        );
        assert!(screen.chars().all(|c| c == '\n' || !c.is_control()));
        assert_eq!(report["selection"]["include"], serde_json::json!(globs));
    }
}

/// The JSON report of a part, with every key that it may have.
pub fn part_of_training() -> Value {
    selected(training(), run(), &["*.pt"]).1
}
