//! Findings on checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Confidence, Data, Finding, MAX_SUBJECTS, MAYBE_COMPUTING, OTHER_STORAGE_USERS, Saving,
    Severity, Subject, Value, largest, seconds, thresholds::*,
};
use crate::{durable::Missing, saves::Event};
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    groups::Groups,
    waits::Leaf,
};
use iotrace_phases::phase::Phase;

const IN_BACKGROUND: &str = "Save in the background (asynchronous checkpointing: copy to memory, write while training goes on), or save \
                             less often.";

/// A save as far as it may have held up training.
struct Held<'a> {
    save: &'a Event,
    /// Nanoseconds for which it did at most.
    ns: u64,
    /// Whether that is known: training reads stopped.
    is_known: bool,
}

/// For how long a save held up training, nanoseconds; `None` where that is not known. `usual`: pause of training reads
/// without a save.
fn held_ns(save: &Event, usual: u64) -> Option<u64> {
    match (save.training_stopped, save.training_pause_ns) {
        (Some(false), _) => Some(0),
        (Some(true), Some(pause)) => Some(pause.saturating_sub(usual).min(save.ns())),
        _ => None,
    }
}

/// The saves that may have held up training for half of their time; those in the background are left out.
fn held<'a>(data: &Data<'a>, usual: u64) -> Vec<Held<'a>> {
    let held = |save: &'a Event| {
        let ns = held_ns(save, usual);
        Held {
            save,
            ns: ns.unwrap_or(save.ns()),
            is_known: ns.is_some(),
        }
    };
    let saves = data.analysis.checkpoints.iter().map(held);
    saves
        .filter(|held| held.ns >= held.save.ns().div_ceil(2))
        .collect()
}

/// Whether all of them are known to have held up training.
fn confidence(saves: &[Held<'_>]) -> Confidence {
    match saves.iter().all(|held| held.is_known) {
        true => Confidence::High,
        false => Confidence::Medium,
    }
}

fn files<'a>(data: &Data<'_>, saves: impl IntoIterator<Item = &'a Event>) -> Vec<Subject> {
    let files: BTreeSet<u32> = saves
        .into_iter()
        .flat_map(|save| save.files.iter().copied())
        .collect();
    largest(
        data,
        files,
        |file| data.uses.sizes[*file as usize],
        |file| Subject::File(*file),
    )
}

/// Saves that spend their time in syncs, and may have held up training.
pub fn fsync_bound(data: &Data<'_>, usual: u64) -> Option<Finding> {
    let held = held(data, usual);
    let saves = || held.iter().map(|held| held.save);
    let time = saturating_sum(saves().map(Event::ns));
    // The syncs of one process follow each other; those of several overlap, so the longest counts.
    let in_syncs = |save: &Event| save.sync_ns / save.processes.len().max(1) as u64;
    let syncs = saturating_sum(saves().map(in_syncs));
    let saved = saturating_sum(held.iter().map(|held| in_syncs(held.save).min(held.ns)));
    let share = syncs as f64 / time.max(1) as f64;
    if (time as f64) < data.limit(SAVE_SECONDS) * 1e9 || share < data.limit(FSYNC_SHARE) {
        return None;
    }
    let bytes = saturating_sum(saves().map(|save| save.bytes));
    Some(Finding {
        code: "checkpoint-bound-by-fsync",
        saving: data.saving(saved, confidence(&held), &[MAYBE_COMPUTING]),
        title: format!("{:.0} % of the time of checkpoints is spent in fsync", share.min(1.0) * 100.0),
        evidence: vec![
            ("checkpoints", Value::Count(held.len() as u64)),
            ("fsync_seconds", Value::Seconds(syncs as f64 / 1e9)),
            ("checkpoint_seconds", seconds(time)),
            ("fsync_share", Value::Share(share.min(1.0))),
            ("fsyncs", Value::Count(saturating_sum(saves().map(|save| save.syncs)))),
            ("bytes_written", Value::Bytes(bytes)),
        ],
        subjects: files(data, saves()),
        advice: "Save to a faster local disk and copy on from there, save in the background (asynchronous checkpointing), or \
                 sync once for the whole checkpoint and not once for every file."
            .into(),
        also: Vec::new(),
    })
}

/// Saves that one of several ranks writes alone, and that may have held up training.
pub fn one_writer(data: &Data<'_>, usual: u64) -> Option<Finding> {
    let ranks = data.analysis.balance.ranks.as_ref()?.shares.len();
    let held = held(data, usual);
    let saves = || held.iter().map(|held| held.save);
    let time = saturating_sum(saves().map(Event::ns));
    let held_ns = saturating_sum(held.iter().map(|held| held.ns));
    let bytes = saturating_sum(saves().map(|save| save.bytes));
    let groups = Groups::new(data.model);
    let mut by_rank: BTreeMap<u32, u64> = BTreeMap::new();
    for (process, bytes) in saves().flat_map(|save| &save.by_process) {
        saturating_add(by_rank.entry(groups.of(*process)).or_default(), *bytes);
    }
    let (writer, most) = by_rank.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let share = most as f64 / bytes.max(1) as f64;
    let busy_ns =
        saturating_sum(saves().flat_map(|save| [save.data_ns, save.sync_ns, save.meta_ns]));
    let busy = busy_ns as f64 / time.max(1) as f64;
    if (time as f64) < data.limit(SAVE_SECONDS) * 1e9
        || share < data.limit(WRITER_SHARE)
        || busy < data.limit(WRITER_BUSY)
    {
        return None;
    }
    Some(Finding {
        code: "checkpoint-by-one-writer",
        saving: data.saving(held_ns - held_ns / ranks.max(1) as u64, confidence(&held), &[MAYBE_COMPUTING, OTHER_STORAGE_USERS]),
        title: format!("One of {ranks} ranks writes {:.0} % of the bytes of all checkpoints", share * 100.0),
        evidence: vec![
            ("ranks", Value::Count(ranks as u64)),
            ("share_of_bytes", Value::Share(share)),
            ("bytes_written", Value::Bytes(bytes)),
            ("checkpoint_seconds", seconds(time)),
            ("seconds_in_calls", seconds(busy_ns)),
        ],
        subjects: vec![Subject::Process(writer)],
        advice: "Save sharded: let every rank write its part (torch.distributed.checkpoint, DeepSpeed ZeRO, Orbax).".into(),
        also: Vec::new(),
    })
}

/// Saves for which training waits: training reads stop. What comes after the last read of the run holds up nothing, and a
/// pause that is not longer than those without a save is none.
pub fn stalled(data: &Data<'_>, usual: u64) -> Option<Finding> {
    let saves = &data.analysis.checkpoints;
    let stalled = saves.iter().filter_map(|save| {
        let ns = held_ns(save, usual)?;
        (ns > 0).then_some((save, ns))
    });
    let (stopped, each): (Vec<&Event>, Vec<u64>) = stalled.unzip();
    let mut ns = saturating_sum(each);
    let mut not_known = &["whether training went on with data that it had read before"][..];
    if data.exposed().is_some() {
        not_known = &[];
        // Saves in the background hold nothing up, whatever the training does meanwhile.
        let calls = stopped
            .iter()
            .flat_map(|save| [save.data_ns, save.sync_ns, save.meta_ns]);
        let calls = saturating_sum(calls);
        let held_up = data.analysis.waits.at_most(|waiter| {
            let mut savers = stopped.iter().flat_map(|save| &save.processes);
            waiter.saving(calls, savers.any(|saver| *saver != waiter.process))
        });
        ns = ns.min(held_up);
    }
    let share = data.share_of_run(ns);
    if stopped.is_empty() || share < data.limit(STALL_SHARE) {
        return None;
    }
    Some(Finding {
        code: "training-stalled-by-checkpoints",
        saving: data.saving(ns, Confidence::Medium, not_known),
        title: format!(
            "Training reads stand still during checkpoints, {:.0} % of the run",
            share * 100.0
        ),
        evidence: vec![
            ("checkpoints", Value::Count(saves.len() as u64)),
            ("stopped", Value::Count(stopped.len() as u64)),
            ("seconds", seconds(ns)),
            ("share_of_run", Value::Share(share)),
            ("usual_pause_seconds", seconds(usual)),
        ],
        subjects: files(data, stopped),
        advice: IN_BACKGROUND.into(),
        also: Vec::new(),
    })
}

/// Saves that main threads write themselves, of a job without reads of training data. The last one may be its end.
pub fn by_main_threads(data: &Data<'_>) -> Option<Finding> {
    data.exposed()?;
    if !data.uses.visits.is_empty() {
        return None;
    }
    let [saves @ .., last] = &data.analysis.checkpoints[..] else {
        return None;
    };
    // Of the time that a main thread was in calls, what calls of its process on other files do not explain.
    let in_saves = data.analysis.waits.at_most(|waiter| {
        let process = &data.model.processes()[waiter.process as usize];
        let others = Phase::ALL
            .into_iter()
            .filter(|phase| *phase != Phase::Checkpoint);
        let others = others.map(|phase| process.phases.total(phase.code()).ns);
        let others = saturating_sum(others).saturating_add(process.path_only.total().nanoseconds());
        waiter.spent.of(Leaf::OfThatInCalls).saturating_sub(others)
    });
    let ns = in_saves.saturating_sub(last.ns());
    let share = data.share_of_run(ns);
    if saves.is_empty() || share < data.limit(STALL_SHARE) {
        return None;
    }
    Some(Finding {
        code: "training-stalled-by-checkpoints",
        saving: Saving::of(
            data.run,
            ns,
            Confidence::Medium,
            &["whether a GPU computed meanwhile"],
        ),
        title: format!(
            "The main thread writes checkpoints itself, {:.0} % of the run",
            share * 100.0
        ),
        evidence: vec![
            ("checkpoints", Value::Count(saves.len() as u64 + 1)),
            ("seconds", seconds(ns)),
            ("share_of_run", Value::Share(share)),
        ],
        subjects: files(data, saves),
        advice: IN_BACKGROUND.into(),
        also: Vec::new(),
    })
}

/// What a save may lack, the name of the count of such saves, and what to do.
const LACKS: [(Missing, &str, &str); 4] = [
    (
        Missing::FileSync,
        "files_not_synced",
        "After the last write to a file, call fsync on it: with torch.save, open the file, save into it, flush it and call \
         os.fsync on its descriptor; torch.distributed.checkpoint.FileSystemWriter does it with sync_files=True.",
    ),
    (
        Missing::SyncBeforeRename,
        "renamed_before_sync",
        "Call fsync on a new file before it is renamed.",
    ),
    (
        Missing::DirectorySync,
        "directory_not_synced",
        "After the rename, call fsync on the directory.",
    ),
    (
        Missing::NewFile,
        "written_in_place",
        "Write a new file, and rename it to its name when it is synced, instead of writing over the checkpoint before.",
    ),
];

/// Saves that a power failure, or a crash of the kernel, may destroy. It is a risk and costs no time.
pub fn not_durable(data: &Data<'_>) -> Option<Finding> {
    let saves = &data.analysis.checkpoints;
    let is_at_risk = |save: &&Event| {
        let durability = &save.durability;
        let is_staged = durability.missing.contains(&Missing::Storage);
        durability.is_durable == Some(false) && !is_staged && !durability.is_copied
    };
    let at_risk: Vec<Event> = saves.iter().filter(is_at_risk).cloned().collect();
    if at_risk.is_empty() {
        return None;
    }
    let lacking = |missing: Missing| {
        let lacks = |save: &&Event| save.durability.missing.contains(&missing);
        at_risk.iter().filter(lacks).count() as u64
    };
    let lacks = LACKS.map(|(missing, name, advice)| (lacking(missing), name, advice));
    let lacks = || lacks.iter().filter(|(saves, ..)| *saves > 0);
    let words: Vec<String> = lacks().map(|(_, name, _)| name.replace('_', " ")).collect();
    let mut advice: Vec<&str> = lacks().map(|(.., advice)| *advice).collect();
    if lacking(Missing::NewFile) == 0 {
        advice.push("The end of the job alone loses nothing.");
    }
    let unsynced = at_risk.iter().map(|save| save.durability.unsynced_bytes);
    let mut evidence = vec![
        ("checkpoints", Value::Count(saves.len() as u64)),
        ("not_durable", Value::Count(at_risk.len() as u64)),
        ("unsynced_bytes", Value::Bytes(saturating_sum(unsynced))),
    ];
    evidence.extend(lacks().map(|(saves, name, _)| (*name, Value::Count(*saves))));
    // These may destroy the save before as well.
    let is_graver = lacking(Missing::NewFile) + lacking(Missing::SyncBeforeRename) > 0;
    let not_known = &[
        "mounts and files that sync each write, and syncs by processes that were not traced",
        "whether the job saves elsewhere too",
    ];
    Some(Finding {
        code: "checkpoint-not-durable",
        saving: Saving {
            severity: if is_graver {
                Severity::Medium
            } else {
                Severity::Low
            },
            ..data.saving(0, Confidence::Medium, not_known)
        },
        title: format!(
            "{} of {} checkpoints may be lost if the node crashes or loses power: {}",
            at_risk.len(),
            saves.len(),
            words.join(", ")
        ),
        evidence,
        subjects: files(data, &at_risk),
        advice: advice.join(" "),
        also: Vec::new(),
    })
}

/// Saves that a signal cut off. It is a risk and costs no time.
pub fn cut_off(data: &Data<'_>) -> Option<Finding> {
    let files = &data.analysis.cut_off;
    if files.is_empty() {
        return None;
    }
    let subjects = files.iter().take(MAX_SUBJECTS);
    Some(Finding {
        code: "checkpoint-cut-off",
        saving: Saving {
            severity: Severity::Medium,
            ..data.saving(0, Confidence::High, &[])
        },
        title: format!(
            "{} not finished: a signal ended the process that wrote",
            match files.len() {
                1 => "1 file of a checkpoint is".to_owned(),
                many => format!("{many} files of checkpoints are"),
            }
        ),
        evidence: vec![("files", Value::Count(files.len() as u64))],
        subjects: subjects.map(|file| Subject::File(*file)).collect(),
        advice: "Do not resume from these files. Write a checkpoint under another name and rename it when it is whole. A job that is ended for \
                 its memory or its time has to save before."
            .into(),
        also: Vec::new(),
    })
}

/// The median of the pauses between reads of training data that no save is in, nanoseconds; 0 without any, or without a save
/// to compare it with.
pub fn usual_pause(data: &Data<'_>) -> u64 {
    let mut saves = data.analysis.checkpoints.as_slice();
    if saves.is_empty() {
        return 0;
    }
    let mut reads: Vec<(i64, i64)> = data
        .uses
        .visits
        .iter()
        .map(|visit| (visit.start, visit.end))
        .collect();
    reads.sort_unstable();
    // Pauses and saves are in order.
    let mut has_save = |from: i64, to: i64| {
        while let [first, rest @ ..] = saves
            && first.end <= from
        {
            saves = rest;
        }
        let mut near = saves.iter().take_while(|save| save.start < to);
        near.any(|save| from < save.end)
    };
    let mut pauses = Vec::new();
    let mut reached = i64::MAX;
    for (start, end) in reads {
        if start > reached && !has_save(reached, start) {
            pauses.push((start - reached) as u64);
        }
        reached = if reached == i64::MAX {
            end
        } else {
            reached.max(end)
        };
    }
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).copied().unwrap_or(0)
}
