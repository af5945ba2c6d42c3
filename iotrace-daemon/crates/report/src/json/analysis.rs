//! What the analysis found, in the JSON report. Moments are seconds since the start of the run.

use serde::ser::SerializeMap;
use serde_json::{Map, Value as Json, json};

use crate::{
    Report, file_counts,
    merged::{Breakdown, share},
};
use iotrace_analysis::{
    balance::{Cohort, Share},
    epochs::Epoch,
    findings::{Finding, LOOKED_AT, Subject, Value},
    merged::of_slices,
    saves::Event,
    series::{Flow, Slice},
    startup::Searched,
};
use iotrace_model::run::{Run, rfc3339};
use iotrace_phases::{copies::Copy, phase::Phase};

/// All of it, as entries of the report.
pub(super) fn analysis_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
) -> Result<(), M::Error> {
    let analysis = &report.analysis;
    map.serialize_entry("breakdown", &breakdown(&report.breakdown()))?;
    let list = |values: Vec<Json>| Json::Array(values);
    map.serialize_entry(
        "checkpoints",
        &list(
            analysis
                .checkpoints
                .iter()
                .map(|event| save(report, event))
                .collect(),
        ),
    )?;
    map.serialize_entry(
        "restores",
        &list(
            analysis
                .restores
                .iter()
                .map(|event| load(report, event))
                .collect(),
        ),
    )?;
    let copies = analysis.copies.all.iter();
    map.serialize_entry(
        "copies",
        &list(copies.map(|one| copy(report, one)).collect()),
    )?;
    let epochs = &analysis.epochs;
    map.serialize_entry(
        "epochs",
        &list(epochs.epochs.iter().map(|e| epoch(report, e)).collect()),
    )?;
    map.serialize_entry(
        "training_data",
        &json!({
            "files": epochs.files,
            "bytes": epochs.bytes,
            "copies": epochs.copies,
            "epochs_untold": epochs.untold,
        }),
    )?;
    map.serialize_entry("balance", &balance(report))?;
    map.serialize_entry("startup", &startup(report))?;
    map.serialize_entry(
        "findings",
        &list(
            analysis
                .findings
                .iter()
                .map(|found| finding(report, found))
                .collect(),
        ),
    )?;
    map.serialize_entry("looked_at", &LOOKED_AT)?;
    map.serialize_entry("not_looked_at", &report.not_looked_at())
}

/// Whether the run is bound by its file I/O.
pub(super) fn verdict(report: &Report<'_>) -> Json {
    let judgement = report.judge();
    let run = report.run.duration_ns;
    json!({
        "code": judgement.verdict.name(),
        "text": judgement.text(report),
        "finding": judgement.finding.map(|finding| finding.code),
        "file_io_seconds_at_least": seconds(judgement.at_least_ns),
        "file_io_seconds_at_most": seconds(judgement.at_most_ns),
        "share_of_run_at_least": share(judgement.at_least_ns, run),
        "share_of_run_at_most": share(judgement.at_most_ns, run),
    })
}

/// How many files were used and how.
pub(super) fn file_counts(report: &Report<'_>) -> Json {
    let counts = report.file_counts();
    let share = |share: &file_counts::Share| json!({"pid": pid(report, share.process), "seconds": seconds(share.ns), "bytes": share.bytes});
    let shared = report.shared.all().iter().map(|shared| {
        let mut object = Map::new();
        put_text(&mut object, "path", report.model.file(shared.file).path);
        object.insert("processes".into(), shared.processes.into());
        object.insert("slowest".into(), share(&shared.slowest));
        object.insert("fastest".into(), share(&shared.fastest));
        Json::Object(object)
    });
    let slowest = (counts.slowest.ns > 0).then(|| pid(report, counts.slowest.process));
    let mean = |ns: u64| seconds(ns) / counts.processes.max(1) as f64;
    json!({
        "all": counts.all,
        "read_only": counts.read_only,
        "write_only": counts.write_only,
        "read_write": counts.read_write,
        "unique": counts.unique,
        "shared": counts.shared,
        "sizes": counts.sizes,
        "shared_files": shared.collect::<Vec<_>>(),
        "slowest_pid": slowest,
        "slowest_seconds": seconds(counts.slowest.ns),
        "bandwidth_by_slowest": counts.bandwidth(),
        "processes": counts.processes,
        "mean_read_seconds": mean(counts.read_ns),
        "mean_write_seconds": mean(counts.write_ns),
        "mean_meta_seconds": mean(counts.meta_ns),
    })
}

/// Calls that had not returned.
pub(super) fn in_flight(run: &Run) -> Json {
    let calls = run.in_flight.iter();
    let calls = calls.map(|call| {
        let phase = (call.phase != 0).then(|| Phase::from_code(call.phase).name());
        json!({
            "pid": call.pid,
            "tid": call.tid,
            "operation": call.operation,
            "path": call.path,
            "mount_point": call.mount_point,
            "fs_type": call.fs_type,
            "phase": phase,
            "seconds": seconds(call.ns),
            "began_before": call.began_before,
            "since": rfc3339(call.start_unix_ns),
        })
    });
    Json::Array(calls.collect())
}

/// A copy of a file.
fn copy(report: &Report<'_>, copy: &Copy) -> Json {
    let mut object = Map::new();
    for (key, file) in [("source", copy.source), ("target", copy.target)] {
        put_text(&mut object, key, report.model.file(file).path);
    }
    let at = |monotonic| moment(report.moment(monotonic));
    object.insert("start".into(), at(copy.start).into());
    object.insert("end".into(), at(copy.end).into());
    object.insert("bytes".into(), copy.bytes.into());
    object.insert("pid".into(), pid(report, copy.process).into());
    object.insert("inferred".into(), copy.is_inferred.into());
    let lag = report.lag_ns(copy).map(|ns| ns as f64 / 1e9);
    object.insert("lag_seconds".into(), lag.into());
    object.into()
}

/// The components of a run, or of one process.
pub(super) fn breakdown(breakdown: &Breakdown) -> Json {
    let whole = breakdown.whole_ns;
    let component = |at_most: u64, at_least: u64| {
        json!({
            "seconds": seconds(at_most),
            "seconds_at_least": seconds(at_least),
            "share_of_run": share(at_most, whole),
        })
    };
    json!({
        "seconds": seconds(whole),
        "read": component(breakdown.read.at_most, breakdown.read.at_least),
        "checkpoint": component(breakdown.checkpoint.at_most, breakdown.checkpoint.at_least),
        "rest": component(breakdown.rest_at_most(), breakdown.rest_at_least()),
    })
}

/// What went on in each interval.
pub(super) fn series(report: &Report<'_>) -> Json {
    report
        .analysis
        .series
        .slices
        .iter()
        .map(|of| slice(report, of))
        .collect()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn moment(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Text of any bytes under `key`, and in hexadecimal too where it is not UTF-8.
pub(super) fn put_text(object: &mut Map<String, Json>, key: &str, text: &[u8]) {
    object.insert(
        key.into(),
        String::from_utf8_lossy(text).into_owned().into(),
    );
    if std::str::from_utf8(text).is_err() {
        let digits: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        object.insert(format!("{key}_hex"), digits.into());
    }
}

fn object(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(object) => object,
        _ => Map::new(),
    }
}

fn pid(report: &Report<'_>, process: u32) -> u32 {
    report.model.processes()[process as usize].id.pid
}

/// What each node did.
pub(super) fn nodes(report: &Report<'_>) -> Json {
    let nodes = report
        .nodes
        .iter()
        .zip(report.node_sums())
        .map(|(node, sum)| {
            let run = &node.run;
            json!({
                "host": run.host,
                "start": moment(run.start_unix_ns - report.run.start_unix_ns),
                "duration_seconds": seconds(run.duration_ns),
                "complete": node.complete,
                "clock_step_seconds": moment(run.clock_step_ns),
                "exit_code": run.exit_code,
                "processes": sum.processes,
                "operations": sum.flow.operations,
                "bytes_read": sum.flow.bytes_read,
                "bytes_written": sum.flow.bytes_written,
                "seconds": seconds(sum.flow.ns()),
                "training_bytes_read": sum.training_read,
                "checkpoint_bytes_written": sum.checkpoint_written,
            })
        });
    Json::Array(nodes.collect())
}

fn event(report: &Report<'_>, event: &Event) -> Map<String, Json> {
    let mut processes: Vec<u32> = event
        .processes
        .iter()
        .map(|process| pid(report, *process))
        .collect();
    processes.sort_unstable();
    let mut object = object(json!({
        "start": moment(event.start),
        "end": moment(event.end),
        "seconds": seconds(event.ns()),
        "files": event.files.len(),
        "bandwidth_bytes_per_second": event.bandwidth(),
        "data_seconds": seconds(event.data_ns),
        "meta_seconds": seconds(event.meta_ns),
        "processes": processes,
        "exact": event.is_exact,
    }));
    put_text(&mut object, "name", &event.name);
    put_text(&mut object, "directory", &event.directory);
    object
}

fn save(report: &Report<'_>, save: &Event) -> Json {
    let mut object = event(report, save);
    object.insert("bytes_written".into(), save.bytes.into());
    object.insert("fsyncs".into(), save.syncs.into());
    object.insert("fsync_seconds".into(), seconds(save.sync_ns).into());
    object.insert(
        "interval_seconds".into(),
        json!(save.interval_ns.map(seconds)),
    );
    object.insert("training_stopped".into(), json!(save.training_stopped));
    object.insert(
        "training_pause_seconds".into(),
        json!(save.training_pause_ns.map(seconds)),
    );
    Json::Object(object)
}

fn load(report: &Report<'_>, load: &Event) -> Json {
    let mut object = event(report, load);
    object.insert("bytes_read".into(), load.bytes.into());
    object.insert("mmaps".into(), load.mmaps.into());
    Json::Object(object)
}

fn epoch(report: &Report<'_>, epoch: &Epoch) -> Json {
    let knows_cache = report.analysis.epochs.knows_cache;
    let mut shares: Vec<(u32, u64)> = epoch
        .by_process
        .iter()
        .map(|(process, bytes)| (pid(report, *process), *bytes))
        .collect();
    shares.sort_unstable();
    let processes: Vec<Json> = shares
        .iter()
        .map(|(pid, bytes)| json!({"pid": pid, "bytes_read": bytes}))
        .collect();
    json!({
        "number": epoch.number,
        "start": moment(epoch.start),
        "end": moment(epoch.end),
        "files": epoch.files,
        "bytes_read": epoch.bytes,
        "bytes_fetched": knows_cache.then_some(epoch.fetched),
        "bytes_cached": knows_cache.then(|| epoch.cached()),
        "read_seconds": seconds(epoch.read_ns),
        "bandwidth_bytes_per_second": epoch.speed(),
        "share_of_data": epoch.coverage,
        "complete": epoch.is_complete(),
        "order": epoch.order.map(|order| order.name()),
        "exact": epoch.is_exact,
        "processes": processes,
    })
}

fn balance(report: &Report<'_>) -> Json {
    let share = |share: &Share| {
        json!({
            "pid": pid(report, share.process),
            "bytes_read": share.bytes,
            "read_seconds": seconds(share.read_ns),
            "start": moment(share.start),
            "end": moment(share.end),
        })
    };
    let cohort = |cohort: &Cohort| {
        json!({
            "start": moment(cohort.start),
            "end": moment(cohort.end),
            "imbalance": cohort.imbalance(),
            "idle": cohort.idle.iter().map(|process| pid(report, *process)).collect::<Vec<_>>(),
            "processes": cohort.shares.iter().map(share).collect::<Vec<_>>(),
        })
    };
    let balance = &report.analysis.balance;
    json!({
        "workers": balance.workers.iter().map(cohort).collect::<Vec<_>>(),
        "ranks": balance.ranks.as_ref().map(cohort),
    })
}

/// Directories that were searched in vain which stand in the report: those with the most calls.
const SEARCHED: usize = 100;

fn searched(searched: &Searched) -> Json {
    let mut object = Map::new();
    put_text(&mut object, "directory", &searched.path);
    object.insert("not_found".into(), searched.calls.into());
    object.insert("seconds".into(), seconds(searched.ns).into());
    object.insert("processes".into(), searched.processes.into());
    Json::Object(object)
}

fn startup(report: &Report<'_>) -> Json {
    let startup = &report.analysis.startup;
    let processes: Vec<Json> = startup
        .by_process
        .iter()
        .map(|(process, calls)| json!({"pid": pid(report, *process), "not_found": calls}))
        .collect();
    json!({
        "first_training_read": startup.first_training_read_ns.map(seconds),
        "not_found": startup.not_found,
        "not_found_seconds": seconds(startup.not_found_ns),
        "not_found_unlisted": startup.unlisted(),
        "searched_directories": startup.searched.len(),
        "searched": startup.searched.iter().take(SEARCHED).map(searched).collect::<Vec<_>>(),
        "files": startup.files,
        "opens": startup.opens,
        "stats": startup.stats,
        "bytes_read": startup.bytes_read,
        "meta_seconds": seconds(startup.meta_ns),
        "read_seconds": seconds(startup.read_ns),
        "processes": processes,
    })
}

fn finding(report: &Report<'_>, finding: &Finding) -> Json {
    let evidence = finding.evidence.iter().map(|(name, value)| {
        let value = match value {
            Value::Count(value) | Value::Bytes(value) => json!(value),
            Value::Seconds(value) | Value::Share(value) | Value::Rate(value) => json!(value),
            Value::Text(text) => json!(text),
        };
        ((*name).to_owned(), value)
    });
    let saving = &finding.saving;
    json!({
        "code": finding.code,
        "severity": saving.severity.name(),
        "saves_at_most_seconds": seconds(saving.at_most_ns),
        "saves_at_most_share": share(saving.at_most_ns, report.run.duration_ns),
        "confidence": saving.confidence.name(),
        "not_looked_at": saving.not_looked_at,
        "title": finding.title,
        "evidence": evidence.collect::<Map<_, _>>(),
        "subjects": finding.subjects.iter().map(|of| subject(report, of)).collect::<Vec<_>>(),
        "advice": finding.advice,
        "also": finding.also,
    })
}

fn subject(report: &Report<'_>, subject: &Subject) -> Json {
    let mut object = Map::new();
    let (kind, name) = match subject {
        Subject::File(file) => ("file", report.model.file(*file).path),
        Subject::Process(process) => {
            object.insert("pid".into(), pid(report, *process).into());
            (
                "process",
                report.model.processes()[*process as usize]
                    .about
                    .comm
                    .as_slice(),
            )
        }
        Subject::Directory(path) => ("directory", path.as_slice()),
        Subject::Mount(path) => ("mount", path.as_slice()),
    };
    object.insert("kind".into(), kind.into());
    put_text(&mut object, "name", name);
    Json::Object(object)
}

fn slice(report: &Report<'_>, slice: &Slice) -> Json {
    let mut phases: Map<String, Json> = Map::new();
    for name in super::phases::NAMES {
        let mut sum = Flow::default();
        for (phase, flow) in Phase::ALL.iter().zip(&slice.phases) {
            if phase.name() == name {
                sum.add(flow);
            }
        }
        if sum.operations > 0 {
            let slices = std::slice::from_ref(slice);
            let is_named = |phase: Phase| phase.name() == name;
            let known = of_slices(slices, 0, is_named);
            let (least, most) = report.measured_in(slice, known, is_named);
            let flow = json!({
                "operations": sum.operations,
                "failures": sum.failures,
                "bytes_read": sum.bytes_read,
                "bytes_written": sum.bytes_written,
                "bytes_fetched": sum.bytes_fetched,
                "mapped_bytes": sum.mapped_bytes,
                "seconds": seconds(sum.ns()),
                "merged_seconds": seconds(most),
                "merged_seconds_at_least": seconds(least),
            });
            phases.insert(name.into(), flow);
        }
    }
    let processes = slice.processes.iter().map(|(process, flow)| {
        json!({
            "pid": pid(report, *process),
            "operations": flow.operations,
            "failures": flow.failures,
            "bytes_read": flow.bytes_read,
            "bytes_written": flow.bytes_written,
            "seconds": seconds(flow.ns()),
        })
    });
    json!({
        "start": moment(slice.start_ns),
        "end": moment(slice.end_ns),
        "phases": phases,
        "processes": processes.collect::<Vec<_>>(),
    })
}
