//! One cause, one finding: what several findings say of the same time is said once, by the one that names the cause.

use super::{Data, Finding, Subject, Value, input::MORE_READERS};
use iotrace_model::Model;

/// Findings that say that time went, not why. Those before are the less telling ones.
const SYMPTOM_CODES: [&str; 4] = [
    "storage-bound",
    "input-bound",
    "cold-first-epoch",
    BANDWIDTH_REACHED,
];
const BANDWIDTH_REACHED: &str = "bandwidth-of-mount-reached";

/// Findings that say why reads of training data take time.
const CAUSES_OF_READS: [&str; 10] = [
    "stage-the-data-set",
    "data-set-fits-in-memory",
    "read-amplification",
    "ranks-read-the-same",
    "read-again-by-ranks",
    "small-files-at-random",
    "open-per-sample",
    "slow-mount",
    "slow-file",
    "tiny-reads",
];

/// Findings that say that saves take time.
pub(super) const HELD_UP_BY_SAVES: [&str; 2] = [
    "checkpoint-bound-by-fsync",
    "training-stalled-by-checkpoints",
];

/// A cause explains a symptom whose time is at most this multiple of the cause's time.
const MAX_TIMES_EXPLAINED: u64 = 2;

/// Leaves one finding for each cause. The numbers of those that go are kept by those that stay.
pub(super) fn merge(data: &Data<'_>, mut findings: Vec<Finding>) -> Vec<Finding> {
    // A mount that is slow makes its files slow, and is what to stage from.
    fold(&mut findings, "slow-file", "slow-mount", |file, mount| {
        is_on(data.model, file, mount)
    });
    fold(
        &mut findings,
        "slow-mount",
        "stage-the-data-set",
        |slow, stage| slow.subjects.first() == stage.subjects.first(),
    );
    // A sync for each record makes records of the writes.
    fold(
        &mut findings,
        "tiny-writes",
        "frequent-syncs",
        |tiny, syncs| tiny.subjects.first() == syncs.subjects.first(),
    );
    fold(
        &mut findings,
        "tiny-reads",
        "open-per-sample",
        |tiny, open| tiny.subjects.first() == open.subjects.first(),
    );
    fold(
        &mut findings,
        "read-again-by-ranks",
        "ranks-read-the-same",
        |_, _| true,
    );
    // Look-ups are part of a start's waits.
    fold(
        &mut findings,
        "startup-waits-for-storage",
        "startup-metadata-storm",
        is_explained_by,
    );
    // The call is part of the time of what holds up the run as a whole.
    for code in HELD_UP_BY_SAVES {
        fold(&mut findings, "long-call", code, |call, saves| {
            is_explained_by(call, saves) && is_write(call) && are_of_one_file(call, saves)
        });
    }
    for code in SYMPTOM_CODES.into_iter().chain(["slow-file"]) {
        fold(&mut findings, code, "long-call", |symptom, call| {
            is_explained_by(symptom, call) && !is_write(call)
        });
    }
    // The time of the syncs is part of the time in which training waits.
    fold(
        &mut findings,
        "checkpoint-bound-by-fsync",
        "training-stalled-by-checkpoints",
        |_, _| true,
    );
    for (index, symptom) in SYMPTOM_CODES.into_iter().enumerate() {
        for cause in CAUSES_OF_READS.iter().chain(&SYMPTOM_CODES[index + 1..]) {
            fold(&mut findings, symptom, cause, is_explained_by);
        }
    }
    findings
}

/// Whether the cause takes enough of a symptom's time.
fn is_explained_by(symptom: &Finding, cause: &Finding) -> bool {
    cause.saving.at_most_ns * MAX_TIMES_EXPLAINED >= symptom.saving.at_most_ns
}

/// Whether the call of a finding on one writes.
fn is_write(call: &Finding) -> bool {
    let mut evidence = call.evidence.iter();
    evidence.any(|(name, value)| *name == "operation" && *value != Value::Text("read".into()))
}

fn are_of_one_file(one: &Finding, other: &Finding) -> bool {
    other
        .subjects
        .iter()
        .any(|file| one.subjects.contains(file))
}

/// Merges the finding `code` into `into` if both exist and it `is_explained`.
fn fold(
    findings: &mut Vec<Finding>,
    code: &str,
    into: &str,
    is_explained: impl Fn(&Finding, &Finding) -> bool,
) {
    let of = |findings: &[Finding], code| findings.iter().position(|one| one.code == code);
    let (Some(from), Some(to)) = (of(findings, code), of(findings, into)) else {
        return;
    };
    if !is_explained(&findings[from], &findings[to]) {
        return;
    }
    let folded = findings.remove(from);
    let Some(kept) = findings.iter_mut().find(|one| one.code == into) else {
        return;
    };
    for (name, value) in folded.evidence {
        if !kept.evidence.iter().any(|(known, _)| *known == name) {
            kept.evidence.push((name, value));
        }
    }
    if folded.advice == MORE_READERS && into != BANDWIDTH_REACHED {
        kept.advice = format!("{} Or: {}", kept.advice, folded.advice);
    }
    kept.also.push(folded.code);
    kept.also.extend(folded.also);
}

/// Whether the file that a finding is about lies on the mount that another is about.
fn is_on(model: &Model, file: &Finding, mount: &Finding) -> bool {
    match (file.subjects.first(), mount.subjects.first()) {
        (Some(Subject::File(file)), Some(Subject::Mount(mount))) => {
            model.mount_of(&model.file(*file)).0 == mount.as_slice()
        }
        _ => false,
    }
}
