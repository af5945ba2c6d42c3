//! Findings on how files are accessed: tiny calls, a sync for every record, many small files, an open for every sample.

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, Subject, Value,
    facts::{Facts, FileFacts, Written},
    largest, seconds,
    thresholds::*,
};
use crate::order::Order;
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    paths::parent,
};
use iotrace_phases::phase::{Class, Phase};

/// Phases whose calls are looked at: what libraries and the kernel's own files do is not the job's to change.
const PHASES: [Phase; 6] = [
    Phase::Training,
    Phase::Checkpoint,
    Phase::Restore,
    Phase::Other(None),
    Phase::Other(Some(Class::Cache)),
    Phase::Other(Some(Class::Log)),
];

/// Largest size of a tiny read or write, bytes.
const TINY_BYTES: u64 = 10 << 10;
/// Bytes written for each sync below which syncs are frequent.
const FEW_BYTES_PER_SYNC: u64 = 1 << 20;
/// Calls after an open that larger ones cannot replace: a header and the rest of a small file, or of what is needed of a large one.
const FEW_CALLS_OF_AN_OPEN: u64 = 2;

/// Reads, and writes, of at most 10 KiB that are most of their phase.
pub fn tiny(data: &Data<'_>, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for phase in PHASES {
        findings.extend(tiny_in(data, facts, phase, true));
        findings.extend(tiny_in(data, facts, phase, false));
    }
    findings
}

fn tiny_in(data: &Data<'_>, facts: &Facts, phase: Phase, is_read: bool) -> Option<Finding> {
    let calls_of = |fact: &FileFacts| {
        if is_read {
            (fact.tiny_reads, fact.reads)
        } else {
            (fact.written().tiny, fact.written().writes)
        }
    };
    let (mut tiny, mut all, mut ns) = (0, 0, 0);
    for fact in facts.of(phase) {
        let (few, many) = calls_of(fact);
        if few.div_ceil(FEW_CALLS_OF_AN_OPEN) <= fact.opens {
            continue;
        }
        saturating_add(&mut tiny, few);
        saturating_add(&mut all, many);
        saturating_add(
            &mut ns,
            if is_read {
                fact.read_ns
            } else {
                fact.written().ns
            },
        );
    }
    let share = tiny as f64 / all.max(1) as f64;
    if (tiny as f64) < data.limit(TINY_CALLS) || share < data.limit(TINY_SHARE) {
        return None;
    }
    let (code, verb, advice) = if is_read {
        (
            "tiny-reads",
            "reads",
            "Read larger blocks: a buffered reader of 1 MiB or more, or several records in one call.",
        )
    } else {
        (
            "tiny-writes",
            "writes",
            "Write larger blocks: buffer 1 MiB or more before it is written, and flush a log less often.",
        )
    };
    let mut evidence = vec![
        ("calls", Value::Count(tiny)),
        ("share_of_calls", Value::Share(share)),
        ("phase", Value::Text(phase.to_string())),
        ("seconds", seconds(ns)),
    ];
    let sizes = facts.sizes.get(&phase);
    let common = sizes.and_then(|sizes| {
        sizes
            .iter()
            .filter(|(size, _)| **size <= TINY_BYTES)
            .max_by_key(|(_, calls)| **calls)
    });
    evidence.extend(common.map(|(size, _)| ("commonest_bytes", Value::Bytes(*size))));
    Some(Finding {
        code,
        saving: data.saving(
            data.wall(phase, (ns as f64 * share) as u64),
            Confidence::Medium,
            &[MAYBE_COMPUTING],
        ),
        title: format!(
            "{:.0} % of the {verb} in phase {phase} are of at most 10 KiB",
            share * 100.0
        ),
        evidence,
        subjects: largest(
            data,
            facts.of(phase).filter(|fact| calls_of(fact).0 > 0),
            |fact| calls_of(fact).0,
            |fact| Subject::File(fact.file),
        ),
        advice: advice.into(),
        also: Vec::new(),
    })
}

/// Files that are synced after every few records: logs and data bases. A sync for many bytes is worth its time, and saves have
/// findings of their own.
pub fn frequent_syncs(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let is_frequent =
        |written: &Written| written.syncs > 0 && written.bytes / written.syncs < FEW_BYTES_PER_SYNC;
    let in_phase = |phase| {
        let written = facts.of(phase).map(|fact| (fact.file, fact.written()));
        written.filter(|(_, written)| is_frequent(written))
    };
    let others = || {
        PHASES
            .into_iter()
            .filter(|phase| matches!(phase, Phase::Other(_)))
    };
    let files = || others().flat_map(in_phase);
    let syncs = saturating_sum(files().map(|(_, written)| written.syncs));
    let ns = saturating_sum(files().map(|(_, written)| written.sync_ns));
    let bytes = saturating_sum(files().map(|(_, written)| written.bytes));
    let in_syncs = |phase| saturating_sum(in_phase(phase).map(|(_, written)| written.sync_ns));
    let wall = saturating_sum(others().map(|phase| data.wall(phase, in_syncs(phase))));
    let share = data.share_of_run(wall);
    if (syncs as f64) < data.limit(SYNCS) || share < data.limit(SYNC_SHARE) {
        return None;
    }
    Some(Finding {
        code: "frequent-syncs",
        saving: data.saving(wall, Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!("{syncs} syncs after small writes take {:.0} % of the run", share * 100.0),
        evidence: vec![
            ("syncs", Value::Count(syncs)),
            ("bytes_per_sync", Value::Bytes(bytes / syncs.max(1))),
            ("seconds", seconds(ns)),
        ],
        subjects: largest(
            data,
            files(),
            |(_, written)| written.sync_ns,
            |(file, _)| Subject::File(*file),
        ),
        advice: "Sync once for many records: one transaction for many rows (SQLite: also journal_mode=WAL and \
                 synchronous=NORMAL), a log without sync. Or keep the file on local flash."
            .into(),
        also: Vec::new(),
    })
}

/// Many small training files in an order that is not theirs.
pub fn small_files(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    let is_shuffled = epochs
        .epochs
        .iter()
        .any(|epoch| epoch.order == Some(Order::Shuffled));
    let (mut files, mut opens, mut reads, mut bytes, mut ns) = (0_u64, 0, 0, 0, 0);
    let mut size = 0;
    for fact in facts.of(Phase::Training).filter(|fact| fact.bytes_read > 0) {
        files += 1;
        saturating_add(&mut opens, fact.opens);
        saturating_add(&mut reads, fact.reads);
        saturating_add(&mut bytes, fact.bytes_read);
        saturating_add(&mut ns, fact.read_ns);
        saturating_add(&mut ns, fact.meta_ns);
        saturating_add(&mut size, data.uses.sizes[fact.file as usize]);
    }
    let mean = size as f64 / files.max(1) as f64;
    if !is_shuffled
        || (files as f64) < data.limit(SMALL_FILES)
        || mean > data.limit(SMALL_FILE_BYTES)
    {
        return None;
    }
    let directories = top_directories(data, facts);
    Some(Finding {
        code: "small-files-at-random",
        saving: data.saving(data.wall(Phase::Training, ns), Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!("{files} small training files are opened in random order"),
        evidence: vec![
            ("files", Value::Count(files)),
            ("mean_file_bytes", Value::Bytes(mean as u64)),
            ("opens", Value::Count(opens)),
            ("reads", Value::Count(reads)),
            ("bytes_read", Value::Bytes(bytes)),
            ("seconds", seconds(ns)),
        ],
        subjects: directories,
        advice: "Pack the samples into shards (WebDataset tar, TFRecord, MDS, HDF5) of 100 MB or more, shuffle the shards and \
                 within a buffer, or stage the tree to a local disk."
            .into(),
        also: Vec::new(),
    })
}

/// The directories with the most training files.
fn top_directories(data: &Data<'_>, facts: &Facts) -> Vec<Subject> {
    let mut counts = std::collections::BTreeMap::new();
    for fact in facts.of(Phase::Training).filter(|fact| fact.bytes_read > 0) {
        let directory = parent(data.model.file(fact.file).path);
        *counts.entry(directory).or_insert(0_u64) += 1;
    }
    largest(
        data,
        counts,
        |(_, files)| *files,
        |(path, _)| Subject::Directory(path.to_vec()),
    )
}

/// Training files that are reopened for each small part.
pub fn open_per_sample(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let concerned = || {
        let samples = facts.of(Phase::Training);
        let samples = samples.map(|fact| (fact.file, fact.samples()));
        samples.filter(|(_, samples)| samples.opens > 0)
    };
    let (mut opens, mut files, mut bytes, mut read_ns, mut meta_ns) = (0_u64, 0_u64, 0, 0, 0);
    for (_, samples) in concerned() {
        files += 1;
        saturating_add(&mut opens, samples.opens);
        saturating_add(&mut bytes, samples.bytes);
        saturating_add(&mut read_ns, samples.read_ns);
        saturating_add(&mut meta_ns, samples.meta_ns);
    }
    if (opens as f64) < data.limit(SAMPLE_OPENS) {
        return None;
    }
    Some(Finding {
        code: "open-per-sample",
        saving: data.saving(data.wall(Phase::Training, meta_ns), Confidence::Medium, &[MAYBE_COMPUTING]),
        title: format!("{files} training files are opened {opens} times, for a small part of them each time"),
        evidence: vec![
            ("opens", Value::Count(opens)),
            ("files", Value::Count(files)),
            ("bytes_per_open", Value::Bytes(bytes / opens.max(1))),
            ("metadata_seconds", seconds(meta_ns)),
            ("read_seconds", seconds(read_ns)),
        ],
        subjects: largest(
            data,
            concerned(),
            |(_, samples)| samples.opens,
            |(file, _)| Subject::File(*file),
        ),
        advice: "Keep the file open for the life of the worker (open it on the first sample, not in every __getitem__).".into(),
        also: Vec::new(),
    })
}
