//! Every table comes back as it was written, also from recordings of earlier versions.

mod sample;

use std::{
    fs::{self, File},
    path::Path,
};

use iotrace_common::op;
use iotrace_model::{Cell, Model, input::Place, waits::Leaf};
use iotrace_recording::{Recorder, trace::Trace};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use sample::Form;

/// All that a model knows, as sorted lines.
fn facts(model: &Model) -> Vec<String> {
    let mut facts = Vec::new();
    let process = |index: u32| model.processes()[index as usize].id;
    let file = |index: u32| model.file(index).id;
    for (index, one) in (0..).zip(model.processes()) {
        facts.push(format!("process {:?} {:?}", one.id, one.about));
        facts.push(format!(
            "path only {:?} {}",
            one.id,
            counters(&one.path_only)
        ));
        facts.push(format!("overflow {:?} {}", one.id, counters(&one.overflow)));
        let phases: Vec<_> = (0..10).map(|phase| one.phases.total(phase)).collect();
        facts.push(format!("phases {:?} {phases:?}", one.id));
        facts.push(format!(
            "cpu {:?} {:?}",
            one.id,
            model.computing().of_process(index)
        ));
    }
    for index in 0..model.file_count() as u32 {
        facts.push(format!("file {:?}", model.file(index)));
    }
    for row in model.rows() {
        let of = (process(row.process), file(row.file));
        facts.push(format!("row {of:?} {}", counters(&row.cell)));
    }
    for (key, count) in model.failures().all() {
        let place = match key.place {
            Place::File(index) => Place::File(file(index)),
            Place::PathOnly => Place::PathOnly,
            Place::Overflow => Place::Overflow,
        };
        let of = (process(key.process), place, key.op, key.errno);
        facts.push(format!("failure {of:?} {count:?}"));
    }
    for span in model.spans().unwrap().all() {
        let of = (process(span.process), file(span.file), span.number);
        facts.push(format!("span {of:?} {}", counters(&span.cell)));
    }
    for (key, ns) in model.waits().all() {
        let of = (process(key.process), key.leaf, key.by.map(process));
        facts.push(format!(
            "wait {of:?} {:?} {} {ns}",
            key.file.map(file),
            key.phase
        ));
    }
    for (key, counts) in model.lines().all() {
        let of = (process(key.process), &key.own, &key.via, key.phase);
        facts.push(format!("line {of:?} {counts:?}"));
    }
    for line in 0..3 {
        let text = model.sources().around("/home/é/train1.py", line);
        facts.extend(text.iter().map(|text| format!("source {line} {text:?}")));
    }
    for group in 0..iotrace_common::global_merged::GROUPS {
        let times: Vec<_> = model.global_merged().of_nodes(group).collect();
        facts.push(format!("merged {group} {times:?}"));
    }
    for (of, path, count) in model.negative_lookups().all() {
        facts.push(format!("look-up {:?} {path:?} {count:?}", process(of)));
    }
    for (_, device, classes) in model.block().devices() {
        facts.push(format!("device {device:?} {classes:?}"));
    }
    for (owner, moved) in model.block().transfers() {
        let of = (owner.process.map(process), owner.file.map(file));
        facts.push(format!("transfers {of:?} {moved:?}"));
    }
    for (key, calls) in model.libraries().all() {
        let of = (process(key.process), key.function().0, key.file.map(file));
        facts.push(format!(
            "library {of:?} {:?} {calls:?}",
            model.libraries().names(key)
        ));
    }
    for range in model.libraries().ranges() {
        facts.push(format!("range {:?} {range:?}", process(range.process)));
    }
    facts.sort();
    facts
}

fn counters(cell: &Cell) -> String {
    let total = cell.total();
    let names = sample::counters();
    let values = names.iter().zip(total.v).filter(|(_, value)| *value > 0);
    let values: Vec<_> = values.collect();
    let (sizes, strides) = (total.sizes.entries(), total.strides.entries());
    format!("{values:?} {sizes:?} {strides:?}")
}

#[track_caller]
fn same_facts(found: &Model, expected: &Model) {
    let (found, expected) = (facts(found), facts(expected));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

/// A recording of a form is read as it was written.
#[track_caller]
fn same(directory: &Path, form: &Form, (model, run): &(Model, iotrace_model::run::Run)) {
    let recorded = iotrace_recording::read(directory).unwrap();
    assert!(recorded.is_complete());
    assert_eq!(recorded.run, *run);
    same_facts(&recorded.model, model);
    let found = facts(&recorded.model);
    let kinds = [
        "process",
        "path only",
        "overflow",
        "phases",
        "cpu",
        "file",
        "row",
        "failure",
        "span",
        "wait",
        "line",
        "source",
        "merged",
        "look-up",
        "device",
        "transfers",
        "library",
        "range",
    ];
    for kind in kinds {
        let count = found.iter().filter(|fact| fact.starts_with(kind)).count();
        let is_few = kind == "device" || !form.has_lines && matches!(kind, "line" | "source");
        assert!(count > 1 || is_few, "{count} of {kind}");
    }
    let trace = Trace::open(directory).unwrap().expect("a trace");
    let rows: Vec<_> = trace.rows().map(Result::unwrap).collect();
    assert_eq!(rows.len() as u64, OPERATIONS);
    for (row, index) in rows.iter().zip(0..) {
        let traced = sample::operation(index, form.ops);
        let known = |value: u64| (value != u64::MAX).then_some(value as i64);
        assert_eq!(row.start, run.clock.unix_ns(traced.start));
        assert_eq!(row.duration as u64, traced.end - traced.start);
        let thread = (row.pid, row.start_key, row.tid);
        assert_eq!(thread, (traced.key.tgid, traced.key.start, traced.key.tid));
        assert_eq!((row.op, row.phase), (traced.op, traced.key.phase));
        assert_eq!(trace.file(row).unwrap_or_default(), traced.key.file);
        let numbers = (row.offset, row.length, row.result);
        assert_eq!(
            numbers,
            (known(traced.offset), known(traced.length), traced.result)
        );
    }
}

const OPERATIONS: u64 = 200;

#[test]
fn every_table_comes_back() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    let form = Form::newest();
    let recorded = sample::record(&directory, &form, OPERATIONS);
    same(&directory, &form, &recorded);
}

/// `format-1.0` was written by the first version of the format, from the sample as it is here.
#[test]
fn a_recording_of_the_first_format_is_read() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format-1.0");
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    let file = File::open(old.join("part-000001/files.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let columns = reader.metadata().file_metadata().schema().get_fields();
    let names = columns.iter().map(|column| column.name().to_owned());
    let counters: Vec<String> = names
        .skip_while(|name| name != "phases")
        .skip(1)
        .take_while(|name| name != "access_sizes")
        .collect();
    assert!(counters.len() > 90, "{}", counters.len());
    let leaves = Leaf::ALL.into_iter();
    let leaves = leaves.filter(|leaf| !matches!(leaf, Leaf::ComputeThreads | Leaf::OfThatInCalls));
    let form = Form {
        counters,
        ops: op::SYNCFS,
        has_lines: false,
        has_existed: false,
        leaves: leaves.collect(),
    };
    let mut recorded = sample::record(&directory, &form, OPERATIONS);
    // The size of a trace goes by how it is encoded.
    let trace = recorded.1.trace.as_mut().unwrap();
    trace.bytes = iotrace_recording::read(&old)
        .unwrap()
        .run
        .trace
        .unwrap()
        .bytes;
    same(&old, &form, &recorded);
}

/// A recording in `directory`, with this minor version.
fn with_minor(directory: &Path, minor: u32) {
    sample::record(directory, &Form::newest(), 1);
    let path = directory.join("meta.json");
    let mut meta: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    meta["format_minor_version"] = minor.into();
    meta["a_key_that_came_later"] = true.into();
    meta["checksum"].take();
    let meta = meta.to_string().replace("\"checksum\":null,", "");
    fs::write(path, meta).unwrap();
}

#[test]
fn what_a_newer_minor_version_added_is_ignored_or_named() {
    let newer = iotrace_recording::FORMAT_MINOR_VERSION + 1;
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    with_minor(&directory, newer);
    let part = directory.join("part-000001");
    fs::copy(part.join("cpu.parquet"), part.join("later.parquet")).unwrap();
    let expected = sample::record(&scratch.path().join("same"), &Form::newest(), 1);
    let recorded = iotrace_recording::read(&directory).unwrap();
    assert_eq!(facts(&recorded.model), facts(&expected.0));

    // A kind of wait that came later.
    let waits = part.join("waits.parquet");
    let mut bytes = fs::read(&waits).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 9)
        .filter(|at| bytes[*at..].starts_with(b"run_queue"))
        .collect();
    for place in places {
        bytes[place + 8] = b'X';
    }
    fs::write(&waits, bytes).unwrap();
    fs::remove_file(part.join("checksums")).unwrap();
    let error = iotrace_recording::read(&directory)
        .err()
        .expect("an error")
        .to_string();
    assert!(
        error.contains("a kind of wait that this iotrace does not know"),
        "{error}"
    );
    assert!(error.contains("update iotrace"), "{error}");
    assert!(
        error.contains(&format!("recording of 1.{newer}")),
        "{error}"
    );

    // The same in a recording of this version is damage.
    let path = directory.join("meta.json");
    let meta = fs::read_to_string(&path).unwrap();
    let (now, own) = (
        format!("version\":{newer}"),
        format!("version\":{}", newer - 1),
    );
    fs::write(&path, meta.replace(&now, &own)).unwrap();
    let error = iotrace_recording::read(&directory)
        .err()
        .expect("an error")
        .to_string();
    assert!(error.contains("waits.parquet is damaged"), "{error}");
}

#[test]
fn a_table_that_came_later_may_be_missing_in_an_older_recording() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    with_minor(&directory, 0);
    for part in ["part-000001", "part-000002"] {
        fs::remove_file(directory.join(part).join("checksums")).unwrap();
        fs::remove_file(directory.join(part).join("missing.parquet")).unwrap();
    }
    let recorded = iotrace_recording::read(&directory).unwrap();
    assert_eq!(recorded.model.negative_lookups().all().count(), 0);
    assert!(recorded.model.failures().all().count() > 0);
}

const SECOND_NS: u64 = 1_000_000_000;

/// Names of the parts in `directory`, in order.
fn parts(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<String> = names.filter(|name| name.starts_with("part-")).collect();
    parts.sort();
    parts
}

#[test]
fn the_part_of_an_interval_that_goes_on_is_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    let (mut model, mut run) = (Model::with_history(), sample::run());
    let mut recorder = Recorder::create(&directory, &run).unwrap();
    let mut at = |seconds: u64, model: &mut Model| {
        run.duration_ns = seconds * SECOND_NS;
        let has_ended = recorder.flush_open(model, &run).unwrap();
        let read = iotrace_recording::read(&directory).unwrap();
        same_facts(&read.model, model);
        has_ended
    };
    let form = Form::newest();
    // An hour after the start an interval lasts 5 seconds, after two hours 10.
    sample::interval(&mut model, 1, &form);
    assert!(at(7_200, &mut model));
    sample::interval(&mut model, 2, &form);
    assert!(!at(7_203, &mut model));
    assert_eq!(parts(&directory), ["part-000001", "part-000002"]);
    let (old, kept) = (directory.join("part-000002"), scratch.path().join("kept"));
    copy(&old, &kept);
    sample::interval(&mut model, 1, &form);
    assert!(!at(7_206, &mut model));
    assert_eq!(parts(&directory), ["part-000001", "part-000003"]);

    // The recorder was killed before it removed the old part, or before it listed the new one.
    let read = || iotrace_recording::read(&directory).unwrap().model;
    copy(&kept, &old);
    same_facts(&read(), &model);
    let meta = fs::read_to_string(directory.join("meta.json")).unwrap();
    assert!(meta.contains("part-000003"), "{meta}");
    let listed = meta.replace("part-000003", "part-000002");
    let unsealed = listed.lines().filter(|line| !line.contains("\"checksum\""));
    fs::write(directory.join("meta.json"), unsealed.collect::<String>()).unwrap();
    same_facts(&read(), &model);
    fs::remove_dir_all(&old).unwrap();
    same_facts(&read(), &model);

    sample::interval(&mut model, 2, &form);
    assert!(at(7_211, &mut model), "it has lasted 11 seconds");
    assert_eq!(parts(&directory), ["part-000001", "part-000004"]);
    sample::interval(&mut model, 1, &form);
    assert!(!at(7_214, &mut model));
    recorder.flush(&mut model, &run).unwrap();
    recorder.finish(&mut model, &run).unwrap();
    assert_eq!(
        parts(&directory),
        ["part-000001", "part-000004", "part-000006"]
    );
    same_facts(&read(), &model);

    // What it replaces is an older part of it.
    for name in ["part-000007", "../../elsewhere", "part-000006"] {
        let part = directory.join("part-000006");
        fs::remove_file(part.join("checksums")).unwrap_or_default();
        fs::write(part.join("replaces"), name).unwrap();
        let error = iotrace_recording::read(&directory).err().expect("an error");
        assert!(error.to_string().contains("replaces is damaged"), "{error}");
    }
}

#[test]
fn a_recording_is_read_while_its_newest_part_is_replaced() {
    const FLUSH_COUNT: u64 = 60;
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("recording");
    let (mut model, mut run) = (Model::with_history(), sample::run());
    let mut recorder = Recorder::create(&directory, &run).unwrap();
    run.duration_ns = 100_000 * SECOND_NS;
    let lines_of = |model: &Model| {
        let lines = model.lines().all();
        lines.map(|(_, counts)| counts.opens).sum::<u64>()
    };
    sample::interval(&mut model, 1, &Form::newest());
    assert!(recorder.flush_open(&mut model, &run).unwrap());
    let mut seen = lines_of(&model);
    let writer = std::thread::spawn(move || {
        for flush in 0..FLUSH_COUNT {
            sample::interval(&mut model, flush % 2 + 1, &Form::newest());
            run.duration_ns += SECOND_NS;
            recorder.flush_open(&mut model, &run).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        model
    });
    while !writer.is_finished() {
        let read = lines_of(&iotrace_recording::read(&directory).unwrap().model);
        assert!(read >= seen, "{read} after {seen}");
        seen = read;
    }
    let model = writer.join().unwrap();
    assert_eq!(parts(&directory).len(), 2);
    same_facts(&iotrace_recording::read(&directory).unwrap().model, &model);
}

/// Copies the files of a part.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}
