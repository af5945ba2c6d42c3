//! Every table comes back as it was written, also from recordings of earlier versions.

mod sample;

use std::{
    fs::{self, File},
    path::Path,
};

use iotrace_common::op;
use iotrace_model::{Cell, Model, input::Place, waits::Leaf};
use iotrace_recording::trace::Trace;
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

/// A recording of a form is read as it was written.
#[track_caller]
fn same(directory: &Path, form: &Form, (model, run): &(Model, iotrace_model::run::Run)) {
    let recorded = iotrace_recording::read(directory).unwrap();
    assert!(recorded.complete);
    assert_eq!(recorded.run, *run);
    let (found, expected) = (facts(&recorded.model), facts(model));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
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
    let leaves = leaves.filter(|leaf| *leaf != Leaf::ComputeThreads);
    let form = Form {
        counters,
        ops: op::SYNCFS,
        has_lines: false,
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
