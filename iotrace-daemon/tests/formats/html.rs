//! The HTML report in a browser: what it shows, what its buttons do, and what a hostile name cannot do to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::browser::Page;
use crate::common::{
    directory,
    golden::{self, Kept},
    made, number, text,
};
use iotrace_common::key::FileId;
use iotrace_model::{
    FailureCount, Model,
    counters::{self, Counters},
    history::Bounds,
    input::{Event, FileName, Place, ProcessId},
    run::{Clock, Run, Target},
};
use iotrace_recording::Recorder;
use iotrace_report::{Report, html, units};
use serde_json::Value;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// How long a page with every file of a large run may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Writes the page of a recording.
pub fn page_of(recording: &Path, file: &Path) {
    let written = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("report")
        .arg(recording)
        .args(["--format", "html", "--output"])
        .arg(file)
        .output()
        .expect("iotrace starts");
    assert!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
}

/// A training run, its JSON report, and its page.
pub struct Training {
    _kept: Kept,
    pub report: Value,
    pub page: PathBuf,
}

pub fn training() -> Training {
    let kept = golden::kept("training");
    let page = kept.recording.with_file_name("report.html");
    page_of(&kept.recording, &page);
    Training {
        report: kept.report(),
        _kept: kept,
        page,
    }
}

/// Every row of a table of the page, by the text of its cells.
pub fn rows(page: &mut Page, section: &str) -> Vec<Vec<String>> {
    let rows = page.eval(&format!(
        "[...document.querySelectorAll('#{section} tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    ));
    serde_json::from_value(rows).expect("rows")
}

/// The row that begins with `first`.
#[track_caller]
fn row<'a>(rows: &'a [Vec<String>], first: &str) -> &'a [String] {
    let found = rows.iter().find(|row| row[0] == first);
    found.unwrap_or_else(|| panic!("no row {first} in {rows:?}"))
}

#[track_caller]
pub fn no_faults(page: &mut Page) {
    let faults = page.faults();
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Seconds inside calls of all kinds.
fn inside(counters: &Value) -> f64 {
    let seconds = |key: &str| counters[key].as_f64().unwrap_or(0.0);
    ["read", "write", "meta", "sync", "failed"]
        .map(|kind| seconds(&format!("{kind}_seconds")))
        .iter()
        .sum()
}

pub fn duration(seconds: f64) -> String {
    units::duration((seconds * 1e9).round() as u64)
}

#[test]
fn it_shows_the_numbers_of_the_json_report() {
    let training = training();
    let (report, mut page) = (&training.report, Page::open(&training.page));
    let totals = &report["totals"];
    let cards: BTreeMap<String, String> = serde_json::from_value(page.eval(
        "Object.fromEntries([...document.querySelectorAll('#summary .card')].map(c => [c.dataset.key, c.querySelector('dd').textContent]))",
    ))
    .expect("cards");
    assert_eq!(
        cards["bytes_read"],
        units::bytes(number(totals, "bytes_read"))
    );
    assert_eq!(
        cards["bytes_written"],
        units::bytes(number(totals, "bytes_written"))
    );
    assert_eq!(cards["files"], units::count(number(totals, "files")));
    assert_eq!(
        cards["processes"],
        units::count(number(totals, "processes"))
    );
    assert_eq!(cards["failures"], units::count(number(totals, "failures")));
    assert_eq!(cards["time"], duration(inside(totals)));
    let verdict = page.text("#summary .verdict");
    assert_eq!(verdict, text(&report["verdict"], "text"));
    let cpu = report["processes"].as_array().expect("processes").iter();
    let cpu = cpu.map(|process| process["cpu_seconds"].as_f64().expect("a time"));
    assert_eq!(cards["cpu"], duration(cpu.sum()));
    let legend = page.text("#summary .legend");
    assert!(legend.contains("CPU, in no call on a file"), "{legend}");
    let share = "document.querySelector('[data-chart=run]').getBoundingClientRect().width";
    let parts = "[...document.querySelectorAll('[data-chart=run] .part')].reduce((all, part) => all + part.getBoundingClientRect().width, 0)";
    let filled = page
        .eval(&format!("{parts} / {share}"))
        .as_f64()
        .expect("a share");
    assert!(
        (0.98..1.03).contains(&filled),
        "the bar of the run is {filled} full"
    );
    assert_eq!(page.eval("document.querySelectorAll('h1').length"), 1);
    let about = page.text("#summary .about");
    assert!(
        about.contains(text(report, "host")) && about.contains("exit code 0"),
        "{about}"
    );
    for section in [
        "phases",
        "sizes",
        "mounts",
        "directories",
        "files",
        "processes",
    ] {
        assert!(!rows(&mut page, section).is_empty(), "{section} is empty");
    }
    check_phases(report, &mut page);
    check_storage(report, &mut page);
    check_sizes(report, &mut page);
    check_files(report, &mut page);
    check_series(report, &mut page);
    check_events(report, &mut page);
    let breakdown = page.text("#phases .breakdown");
    let read = duration(
        report["breakdown"]["read"]["seconds"]
            .as_f64()
            .expect("a time"),
    );
    assert!(breakdown.contains(&read), "{breakdown}: {read}");
    let trust = page.text("#trust");
    assert!(trust.contains("Nothing was lost"), "{trust}");
    no_faults(&mut page);
}

fn check_phases(report: &Value, page: &mut Page) {
    let shown = rows(page, "phases");
    for name in ["startup", "training", "checkpoint"] {
        let (row, phase) = (row(&shown, name), &report["phases"][name]);
        assert_eq!(row[1], units::count(number(phase, "files")));
        assert_eq!(row[2], units::bytes(number(phase, "bytes_read")));
        assert_eq!(row[3], units::bytes(number(phase, "bytes_written")));
        assert_eq!(row[4], duration(inside(phase)));
        let merged = duration(phase["merged_seconds"].as_f64().expect("a time"));
        assert!(row[6].ends_with(&merged), "{row:?}: merged {merged}");
    }
}

/// What came from storage and page faults: over everything, by phase, and by file and process.
fn check_storage(report: &Value, page: &mut Page) {
    let shown = rows(page, "storage");
    let cells = |counters: &Value| {
        let seconds = counters["major_fault_seconds"].as_f64().unwrap_or(0.0);
        let [fetched, mapped_fetched, mapped, dirtied] = [
            "bytes_fetched",
            "mapped_bytes_fetched",
            "mapped_bytes",
            "mapped_bytes_dirtied",
        ]
        .map(|name| units::bytes(number(counters, name)));
        let [faults, major, waited] = ["faults", "major_faults", "timed_major_faults"]
            .map(|name| units::count(number(counters, name)));
        [
            fetched,
            mapped_fetched,
            faults,
            major,
            waited,
            if seconds == 0.0 {
                "0 s".into()
            } else {
                duration(seconds)
            },
            mapped,
            dirtied,
        ]
    };
    assert!(number(&report["totals"], "faults") > 0, "Python is mapped");
    assert_eq!(row(&shown, "all")[1..], cells(&report["totals"]));
    for (name, phase) in report["phases"].as_object().expect("phases") {
        if number(phase, "faults") > 0 {
            assert_eq!(row(&shown, name)[1..], cells(phase), "{name}");
        }
    }
    let head = |page: &mut Page, section: &str| {
        let head = page.eval(&format!(
            "[...document.querySelectorAll('#{section} thead th')].map(h => h.textContent)"
        ));
        serde_json::from_value::<Vec<String>>(head).expect("titles")
    };
    let place = |titles: &[String], title: &str| {
        let found = titles.iter().position(|one| one.starts_with(title));
        found.unwrap_or_else(|| panic!("no column {title} in {titles:?}"))
    };
    let titles = head(page, "processes");
    let processes = rows(page, "processes");
    for process in report["processes"].as_array().expect("processes") {
        let row = row(&processes, &number(process, "pid").to_string());
        let totals = &process["totals"];
        let (faults, mapped) = (place(&titles, "Page faults"), place(&titles, "Mapped"));
        assert_eq!(row[faults], units::count(number(totals, "faults")));
        assert_eq!(row[mapped], units::bytes(number(totals, "mapped_bytes")));
    }
    let titles = head(page, "files");
    place(&titles, "Page faults");
    // What is not seen: that there were pipes, if nothing else.
    let pipes = number(&report["not_seen"]["skipped"], "pipes");
    let said = page.text("#unseen");
    assert!(
        pipes > 0 && said.contains(&format!("{} on pipes", units::count(pipes))),
        "{pipes}: {said}"
    );
}

fn check_sizes(report: &Value, page: &mut Page) {
    let buckets = [
        ("0 to 100 B", "0_100"),
        ("1 to 10 KiB", "1k_10k"),
        ("10 to 100 KiB", "10k_100k"),
        ("100 KiB to 1 MiB", "100k_1m"),
    ];
    let check = |page: &mut Page, counters: &Value| {
        let shown = rows(page, "sizes");
        for (title, key) in buckets {
            let row = row(&shown, title);
            assert_eq!(
                row[1],
                units::count(number(&counters["read_sizes"], key)),
                "{title}"
            );
            assert_eq!(
                row[4],
                units::count(number(&counters["write_sizes"], key)),
                "{title}"
            );
        }
    };
    check(page, &report["totals"]);
    page.click("#sizes [data-value=training]");
    check(page, &report["phases"]["training"]);
}

/// Identity of a file in the JSON report.
fn identity(row: &Value) -> (&str, u64, u64) {
    (
        text(row, "device"),
        number(row, "inode"),
        number(row, "generation"),
    )
}

fn check_files(report: &Value, page: &mut Page) {
    let all = report["files"].as_array().expect("files");
    let regular = all.iter().filter(|row| row["type"] == "regular");
    let mut read: BTreeMap<_, u64> = BTreeMap::new();
    for row in regular {
        *read.entry((identity(row), text(row, "path"))).or_default() += number(row, "bytes_read");
    }
    let status = page.text("#files [role=status]");
    let sum = units::bytes(read.values().sum());
    assert!(
        status.starts_with(&format!(
            "{} files, read {sum}",
            units::count(read.len() as u64)
        )),
        "{status}"
    );
    // Each file by its search: the whole path finds it, with its bytes.
    let ((_, path), bytes) = read
        .iter()
        .max_by_key(|(_, bytes)| **bytes)
        .expect("a file");
    page.click("#search");
    page.write(path);
    let shown = rows(page, "files");
    assert_eq!(row(&shown, path)[2], units::bytes(*bytes));
    assert!(row(&shown, path)[1].contains("training"));
    // The tree's root has what all files have, and what was done to directories.
    let shown = rows(page, "directories");
    let rest: u64 = all.iter().map(|row| number(row, "bytes_read")).sum();
    assert_eq!(shown[0][3], units::bytes(rest), "{shown:?}");
    let shown = rows(page, "mounts");
    let mounts: BTreeSet<_> = all.iter().map(|row| text(row, "mount_point")).collect();
    let seen: BTreeSet<_> = shown.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(seen, mounts);
    let processes = rows(page, "processes");
    for process in report["processes"].as_array().expect("processes") {
        let row = row(&processes, &number(process, "pid").to_string());
        assert_eq!(
            row[8],
            units::bytes(number(&process["totals"], "bytes_read"))
        );
        assert_eq!(row[6], units::count(number(&process["totals"], "files")));
    }
}

/// The series are of the whole run: nothing is between two steps.
fn check_series(report: &Value, page: &mut Page) {
    let data = page.eval("JSON.parse(document.getElementById('data').textContent)");
    let series = &data["series"];
    let sum = |columns: &Value, key: &str| -> u64 {
        let column = columns[key].as_array().expect("a column");
        column
            .iter()
            .map(|value| value.as_u64().expect("a count"))
            .sum()
    };
    for (phase, counters) in report["phases"].as_object().expect("phases") {
        for key in ["bytes_read", "bytes_written"] {
            let shown = match &series["by_phase"][phase] {
                Value::Null => 0,
                columns => sum(columns, key),
            };
            assert_eq!(shown, number(counters, key), "{key} of {phase}");
        }
    }
    let steps = series["start"].as_array().expect("steps").len();
    assert!(steps > 3, "{steps} steps in a run of seconds");
    assert_eq!(
        sum(&data["heat"], "bytes_read"),
        number(&report["totals"], "bytes_read")
    );
    let ns = sum(&data["heat"], "ns") as f64 / 1e9;
    assert!((ns - inside(&report["totals"])).abs() < 1e-6, "{ns}");
}

/// Findings, checkpoints and epochs of the JSON report each have their place.
fn check_events(report: &Value, page: &mut Page) {
    for key in ["checkpoints", "epochs"] {
        let events = report[key].as_array().expect(key);
        assert_eq!(events.len(), 3, "{key} of three epochs");
        let shown = rows(page, key);
        assert_eq!(shown.len(), events.len(), "{shown:?}");
        let bytes = number(
            &events[1],
            if key == "epochs" {
                "bytes_read"
            } else {
                "bytes_written"
            },
        );
        assert!(shown[1].contains(&units::bytes(bytes)), "{shown:?}");
    }
    let codes: Vec<_> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .map(|one| text(one, "code"))
        .collect();
    let shown = page.eval("[...document.querySelectorAll('.finding')].map(f => f.dataset.code)");
    let shown: Vec<String> = serde_json::from_value(shown).expect("codes");
    assert_eq!(
        shown.iter().collect::<BTreeSet<_>>().len(),
        codes.iter().collect::<BTreeSet<_>>().len()
    );
    assert!(
        codes.iter().all(|code| shown.iter().any(|one| one == code)),
        "{codes:?} {shown:?}"
    );
}

#[test]
fn sorting_searching_and_opening_work_by_mouse_and_keyboard() {
    let training = training();
    let mut page = Page::open(&training.page);
    let column = |page: &mut Page, index: usize| -> Vec<String> {
        let rows = rows(page, "files");
        rows.into_iter()
            .filter(|row| row.len() > 1)
            .map(|mut row| row.swap_remove(index))
            .collect()
    };
    // Paths, by their bytes, as the JSON report has them; then the other way round.
    page.click("#files [data-sort=path]");
    let up = column(&mut page, 0);
    assert!(up.len() > 10 && up.is_sorted(), "{up:?}");
    page.click("#files [data-sort=path]");
    let down = column(&mut page, 0);
    assert!(down.iter().rev().is_sorted(), "{down:?}");
    assert_eq!(page.eval("document.querySelector('#files th[aria-sort]').dataset.column + document.querySelector('#files th[aria-sort]').ariaSort"), "pathdescending");
    // By bytes written, the checkpoints are first; the keyboard does what the mouse does.
    page.eval("document.querySelector('#files [data-sort=bytes_written]').focus()");
    page.key("Enter");
    let first = column(&mut page, 0);
    assert!(first[0].contains("model-epoch-"), "{first:?}");
    // Words of the search are all wanted, in any order and case.
    page.click("#search");
    page.write("EPOCH model-");
    let found = column(&mut page, 0);
    assert!(
        !found.is_empty() && found.iter().all(|path| path.contains("model-epoch")),
        "{found:?}"
    );
    let status = page.text("#files [role=status]");
    assert!(status.contains(&format!("{} of ", found.len())), "{status}");
    page.write(" nothing-is-called-this");
    assert!(column(&mut page, 0).is_empty());
    page.eval("document.querySelector('#search').select()");
    page.write("shard");
    let phases: BTreeSet<_> = column(&mut page, 1).into_iter().collect();
    assert!(
        phases.iter().all(|phase| phase.contains("training")),
        "{phases:?}"
    );
    // A directory opens by the keyboard, and its name shows its files.
    let before = rows(&mut page, "directories").len();
    page.eval("document.querySelector('#directories tr[aria-level=\"2\"] button.opener').focus()");
    page.key("Enter");
    assert!(rows(&mut page, "directories").len() > before);
    page.key("Enter");
    assert_eq!(rows(&mut page, "directories").len(), before);
    page.click("#directories tr[aria-level='2'] button.link");
    let wanted = page.eval("document.querySelector('#search').value");
    let wanted = wanted.as_str().expect("a path");
    let shown = column(&mut page, 0);
    assert!(
        !shown.is_empty() && shown.iter().all(|path| path.starts_with(wanted)),
        "{wanted}: {shown:?}"
    );
    // The heat map tells its cells to those who cannot see them.
    page.eval("document.querySelector('#heat canvas').focus()");
    page.key("ArrowRight");
    page.key("ArrowRight");
    let told = page.text("#heat [role=status]");
    assert!(
        told.contains("time in i/o") && told.contains(" to "),
        "{told}"
    );
    page.hover("#timeline .chart .u-over");
    let told = page.text("#timeline [role=status]");
    assert!(told.contains(" to "), "{told}");
    no_faults(&mut page);
}

/// The colour of a custom property in the theme of now, as pictures have it.
pub fn color(page: &mut Page, name: &str) -> String {
    let color = page.eval(&format!("dom.color('{name}')"));
    let color = color.as_str().expect("a colour");
    color
        .trim_start_matches("rgb(")
        .trim_end_matches(')')
        .replace(' ', "")
}

#[test]
fn every_chart_is_drawn_in_light_and_in_dark() {
    let training = training();
    let mut page = Page::open(&training.page);
    for scheme in ["light", "dark"] {
        page.medium("screen", scheme);
        let ground = color(&mut page, "--ground");
        for (chart, inks) in [
            (
                "#timeline [data-chart=bytes_read]",
                ["--phase-training", "--ground"],
            ),
            (
                "#timeline [data-chart=bytes_written]",
                ["--phase-checkpoint", "--ground"],
            ),
            (
                "#phases [data-chart=phases]",
                ["--phase-training", "--phase-checkpoint"],
            ),
            ("#sizes [data-chart=sizes]", ["--read", "--write"]),
            (
                "#directories [data-chart=directories]",
                ["--read", "--ground"],
            ),
        ] {
            let picture = page.picture(chart);
            for ink in inks {
                let ink_color = color(&mut page, ink);
                let share = picture.count(&ink_color) as f64 / picture.pixels as f64;
                assert!(
                    share > 0.003,
                    "{scheme} {chart}: {ink} {ink_color} is {share}: {:?}",
                    &picture.colors[..8]
                );
            }
        }
        let heat = page.picture("#heat canvas");
        let darkest = color(&mut page, "--heat");
        assert!(
            heat.count(&darkest) > 20,
            "{scheme}: {:?}",
            &heat.colors[..8]
        );
        assert!(
            heat.colors.len() > 30,
            "{scheme}: only {} colours",
            heat.colors.len()
        );
        let body = page.picture("body");
        assert_eq!(body.colors[0].0, ground, "{scheme}");
    }
    // The button says otherwise than the system.
    page.medium("screen", "light");
    let light = color(&mut page, "--ground");
    page.click("#theme");
    page.click("#theme");
    assert_eq!(page.text("#theme"), "Theme: dark");
    let dark = color(&mut page, "--ground");
    assert_ne!(light, dark);
    assert_eq!(page.picture("#phases").colors[0].0, dark);
    // Operations and time have charts of their own; a phase can be taken out.
    page.click("#timeline [data-value=operations]");
    let ink = color(&mut page, "--phase-training");
    assert!(
        page.picture("#timeline [data-chart=operations]")
            .count(&ink)
            > 100
    );
    page.click("#timeline .legend button:nth-child(2)");
    assert_eq!(
        page.picture("#timeline [data-chart=operations]")
            .count(&ink),
        0
    );
    no_faults(&mut page);
}

#[test]
fn a_hostile_name_is_text_and_nothing_else() {
    let finished = golden::kept("hostile-names");
    let paths = golden::hostile_paths(&finished.place);
    let file = finished.recording.with_file_name("page.html");
    page_of(&finished.recording, &file);
    let source = fs::read(&file).expect("the page");
    let count = |needle: &[u8]| {
        source
            .windows(needle.len())
            .filter(|window| *window == needle)
            .count()
    };
    assert_eq!(count(b"<script"), count(b"</script>"));
    assert_eq!(count(b"alert(1)<"), 0, "a name stands in the page as it is");
    let mut page = Page::open(&file);
    page.click("#search");
    page.write(finished.place.to_str().expect("UTF-8"));
    let shown: BTreeSet<_> = rows(&mut page, "files")
        .into_iter()
        .map(|mut row| row.swap_remove(0))
        .collect();
    let escaped: Vec<String> = paths
        .iter()
        .map(|path| iotrace_report::escape(path.as_os_str().as_bytes()))
        .collect();
    for path in &escaped {
        assert!(shown.contains(path), "{path:?} is not in {shown:?}");
    }
    let command = page.text("#summary .command");
    assert!(
        command.contains(r"line\nbreak\ttab\x1b[31m") && command.contains(r"\u{202e}gpj"),
        "{command}"
    );
    let unseen = page.eval(r"document.body.innerText.match(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u2028]/g)");
    assert!(unseen.is_null(), "{unseen}");
    assert_eq!(
        page.eval("document.querySelectorAll('img, svg, iframe, object, main script').length"),
        0
    );
    no_faults(&mut page);
}

/// A run of the future, whose model is made here.
pub fn run() -> Run {
    Run {
        target: Target::Command(vec!["python3".into(), "train.py".into()]),
        start_unix_ns: 1_763_682_780_123_456_789,
        clock: Clock::default(),
        ..made::run("gpu-7", 0, 0)
    }
}

/// A run of `files` files in `directories` directories, by eight processes in fifty intervals.
fn large(directory: &Path, files: u64) {
    let mut run = run();
    let mut model = Model::with_history();
    model.update_mounts(b"1 1 259:3 / / rw - lustre mgs@tcp:/fs rw");
    let mut recorder = Recorder::create(directory, &run).expect("a recording");
    const INTERVALS: u64 = 50;
    for interval in 0..INTERVALS {
        for index in (interval..files).step_by(INTERVALS as usize) {
            let file = FileId {
                device: 259 << 20 | 3,
                generation: 1,
                inode: index + 1,
            };
            let name = format!(
                "/data/imagenet/train/n{:08}/n{:08}_{index}.JPEG",
                index % 1_000,
                index % 1_000
            );
            model.event(Event::File(FileName {
                file,
                path: name.into_bytes(),
                size: 110_000 + index,
                mode: 0o100_644,
                magic: 0x0bd0_0bd0,
                block_size: 4096,
                truncated: false,
                deleted: false,
                existed: false,
            }));
            let mut counters = Counters::ZERO;
            for (counter, value) in [
                (counters::OPENS, 1),
                (counters::READS, 2),
                (counters::CLOSES, 1),
                (counters::ZERO_READS, 1),
                (counters::BYTES_READ, 110_000 + index),
                (counters::READ_NS, 1_000_000 + index),
                (counters::META_NS, 50_000),
            ] {
                counters.v[counter] = value;
            }
            let process = ProcessId {
                pid: 100 + (index % 8) as u32,
                start: 7,
            };
            model.add(process, Place::File(file), &counters);
        }
        run.duration_ns += 5 * SECOND;
        recorder.flush(&mut model, &run).expect("a part");
    }
    recorder.finish(&mut model, &run).expect("a recording");
}

#[test]
fn a_hundred_thousand_files_open_within_three_seconds() {
    const FILES: u64 = 120_000;
    let (_keep, dir) = directory();
    let (recording, file) = (dir.join("recording"), dir.join("page.html"));
    large(&recording, FILES);
    page_of(&recording, &file);
    let mut page = Page::blank();
    let opened = page.visit(&file);
    let status = page.text("#files [role=status]");
    assert!(status.starts_with("100,000 files"), "{status}");
    let folded = page.text("#files .folded");
    assert!(folded.starts_with("20,000 more files"), "{folded}");
    // What is not listed is in the sums.
    let shown = rows(&mut page, "directories");
    assert_eq!(shown[0][1], units::count(FILES));
    assert_eq!(
        shown[0][3],
        units::bytes((0..FILES).map(|index| 110_000 + index).sum())
    );
    let parts = ["sort", "search", "scroll"];
    let times = page.eval(
        "(async () => { const frame = () => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
           const timed = async act => { const from = performance.now(); await act(); await frame(); return performance.now() - from; };
           const box = document.querySelector('#files .files'), search = document.querySelector('#search');
           const find = async text => { search.value = text; search.dispatchEvent(new Event('input')); await new Promise(r => setTimeout(r, 70)); };
           return [await timed(() => document.querySelector('#files [data-sort=size]').click()),
                   await timed(() => find('n00000777 jpeg')),
                   await timed(async () => { await find(''); box.scrollTop = 1e6; })]; })()",
    );
    let times: Vec<f64> = serde_json::from_value(times).expect("times");
    println!(
        "{FILES} files: page of {} bytes, open after {opened:?}, {}",
        fs::metadata(&file).expect("the page").len(),
        parts
            .iter()
            .zip(&times)
            .map(|(part, ms)| format!("{part} {ms:.0} ms"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    assert!(opened < PATIENCE, "{opened:?}");
    assert!(times.iter().all(|ms| *ms < 1_000.0), "{times:?}");
    // After the scroll, rows of the middle are there, and only as many elements as fit.
    let indices = page.eval("[...document.querySelectorAll('#files tbody tr[aria-rowindex]')].map(r => +r.ariaRowIndex)");
    let indices: Vec<u64> = serde_json::from_value(indices).expect("rows");
    assert!(indices.len() < 100 && indices[0] > 30_000, "{indices:?}");
    assert!(page.picture("#files .files").colors.len() > 20);
    no_faults(&mut page);
}

#[test]
fn long_lists_are_folded_and_their_sums_are_whole() {
    const FILES: u64 = 25_000;
    const PROCESSES: u64 = 1_200;
    const INTERVALS: u64 = 2_500;
    const SEARCHED: u64 = 130;
    let (_keep, dir) = directory();
    let mut model = Model::with_history();
    let mut run = run();
    let second = SECOND as i64;
    for interval in 0..INTERVALS {
        let start = run.end_unix_ns();
        for index in (interval..FILES).step_by(INTERVALS as usize) {
            // As many directories as files, and more processes than are listed.
            let file = FileId {
                device: 259 << 20 | 3,
                generation: 1,
                inode: index + 1,
            };
            model.event(Event::File(FileName {
                file,
                path: format!("/data/shards/{}/{index}/part.tar", index % 100).into_bytes(),
                size: 1_000,
                mode: 0o100_644,
                magic: 0x0bd0_0bd0,
                block_size: 4096,
                truncated: false,
                deleted: false,
                existed: false,
            }));
            let mut counters = Counters::ZERO;
            counters.v[counters::READS] = 1;
            counters.v[counters::BYTES_READ] = 1_000;
            counters.v[counters::READ_NS] = 1_000 + index;
            let process = ProcessId {
                pid: 100 + (index % PROCESSES) as u32,
                start: 7,
            };
            model.add(process, Place::File(file), &counters);
        }
        model.settle(Bounds {
            start,
            end: start + second,
        });
        run.duration_ns += SECOND;
    }
    let process = ProcessId { pid: 100, start: 7 };
    for index in 0..SEARCHED {
        let path = format!("/opt/<b>{index:03}");
        let count = FailureCount {
            calls: SEARCHED - index,
            ns: 1_000,
        };
        model.add_negative_lookups_at(process, path.as_bytes(), count);
    }
    let file = dir.join("page.html");
    let mut out = fs::File::create(&file).expect("a page");
    html(&Report::new(&model, &run), true, &mut out).expect("the page");
    let mut page = Page::open(&file);
    let folded = page.text("#processes .note");
    assert!(folded.starts_with("200 more processes"), "{folded}");
    assert_eq!(rows(&mut page, "processes").len(), 1_000);
    let bins =
        page.eval("JSON.parse(document.getElementById('data').textContent).series.start.length");
    let bins = bins.as_u64().expect("a number");
    assert!((1_000..=2_001).contains(&bins), "{bins} bins");
    // Directories that are not listed count to those above them.
    let shown = rows(&mut page, "directories");
    assert_eq!(shown[0][1], units::count(FILES));
    assert_eq!(shown[0][3], units::bytes(FILES * 1_000));
    let summary = page.text("#startup details summary");
    assert_eq!(summary, "130 directories were searched without success");
    let searched = rows(&mut page, "startup");
    assert_eq!(searched.len(), 100);
    assert_eq!(searched[0][..2], ["/opt/<b>000", "130"]);
    let rest = page.text("#startup details .note");
    assert!(rest.starts_with("And 30 more"), "{rest}");
    no_faults(&mut page);
}

#[test]
fn paper_has_no_buttons_and_says_what_is_left_out() {
    let (_keep, dir) = directory();
    let (recording, file) = (dir.join("recording"), dir.join("page.html"));
    large(&recording, 1_000);
    page_of(&recording, &file);
    let mut page = Page::open(&file);
    page.medium("print", "dark");
    page.eval("dispatchEvent(new Event('beforeprint'))");
    let printed = rows(&mut page, "files");
    assert_eq!(
        printed.len(),
        202,
        "200 files, and a line before and behind"
    );
    assert_eq!(printed[201], ["and 800 more, not printed"]);
    let hidden = "[...document.querySelectorAll('header, .controls')].every(e => getComputedStyle(e).display === 'none')";
    assert_eq!(page.eval(hidden), true);
    assert_eq!(
        page.eval("getComputedStyle(document.body).colorScheme"),
        "light"
    );
    let whole = "(() => { const e = document.querySelector('#files .files'); return e.scrollHeight <= e.clientHeight + 1; })()";
    assert_eq!(page.eval(whole), true, "nothing is cut off");
    let width = "(() => { const [cell, table] = ['#files tbody th', '#files table'].map(s => document.querySelector(s).getBoundingClientRect().width); return cell / table; })()";
    assert!(
        page.eval(width).as_f64().expect("a share") > 0.4,
        "no room for the paths"
    );
    page.eval("dispatchEvent(new Event('afterprint'))");
    page.medium("screen", "light");
    assert!(rows(&mut page, "files").len() < 100);
    let pdf = page.call("Page.printToPDF", serde_json::json!({}));
    assert!(
        pdf["data"].as_str().expect("a PDF").starts_with("JVBERi"),
        "not a PDF"
    );
    no_faults(&mut page);
}

#[test]
fn all_processes_are_no_one_job_and_cpu_time_may_not_be_known() {
    let (_keep, dir) = directory();
    let file = dir.join("page.html");
    let run = Run {
        target: Target::All(true),
        duration_ns: SECOND,
        ..run()
    };
    let mut out = fs::File::create(&file).expect("a page");
    let mut model = Model::with_history();
    let mut counters = Counters::ZERO;
    counters.v[counters::READS] = 1;
    counters.v[counters::BYTES_READ] = 4096;
    counters.v[counters::READ_NS] = 1_000;
    for pid in [100, 101] {
        let process = ProcessId { pid, start: 7 };
        model.add(process, Place::PathOnly, &counters);
    }
    html(&Report::new(&model, &run), true, &mut out).expect("the page");
    let mut page = Page::open(&file);
    let verdict = page.text("#summary .verdict");
    assert!(verdict.ends_with('.'), "{verdict}");
    let programs = rows(&mut page, "programs");
    assert_eq!(programs.len(), 2, "{programs:?}");
    for program in programs {
        assert_eq!(program[7], "4.00 KiB", "{program:?}");
    }
    let cards = page.eval("document.querySelectorAll('#summary [data-key=cpu]').length");
    assert_eq!(cards, 0);
    no_faults(&mut page);
}

#[test]
fn waits_are_those_of_the_json_report() {
    let finished = golden::kept("waits");
    let report = finished.report();
    let waiter = &report["waits"][0];
    let file = finished.recording.with_file_name("page.html");
    page_of(&finished.recording, &file);
    let mut page = Page::open(&file);
    let text = page.text("#waits");
    let slept = duration(waiter["leaves"]["sleep"].as_f64().unwrap());
    assert!(text.contains(&format!("sleep {slept}")), "{slept}: {text}");
    let ran = duration(waiter["running_seconds"].as_f64().unwrap());
    assert!(text.contains(&format!("running {ran}")), "{ran}: {text}");
    let intervals = waiter["intervals"].as_array().expect("intervals");
    let columns = page.eval("document.querySelectorAll('#waits .lane > div').length");
    assert!(intervals.len() > 2, "{intervals:?}");
    assert_eq!(columns.as_u64(), Some(intervals.len() as u64));
    let room = page.eval(
        "(() => { const lane = document.querySelector('#waits .lane'); return lane.getBoundingClientRect().right - lane.lastChild.getBoundingClientRect().right; })()",
    );
    let room = room.as_f64().expect("a width");
    assert!(room.abs() < 1.0, "{room} px are empty");
    let sum: f64 = intervals
        .iter()
        .map(|interval| interval["leaves"]["sleep"].as_f64().unwrap())
        .sum();
    let whole = waiter["leaves"]["sleep"].as_f64().unwrap();
    assert!((sum - whole).abs() < 1e-6, "{sum} of {whole}");
    let tall =
        page.eval("document.querySelector('#waits .lane span').getBoundingClientRect().height > 1");
    assert_eq!(tall, true);
    no_faults(&mut page);
}

#[test]
fn an_empty_recording_is_a_page_too() {
    let (_keep, dir) = directory();
    let (recording, file) = (dir.join("recording"), dir.join("page.html"));
    large(&recording, 0);
    page_of(&recording, &file);
    let mut page = Page::open(&file);
    assert!(page.text("#files [role=status]").starts_with("0 files"));
    assert!(page.text("#timeline").contains("nothing to show"));
    no_faults(&mut page);
}
