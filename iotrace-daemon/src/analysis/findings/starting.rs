//! Findings on how a run starts.

use super::{Data, Finding, Severity, Subject, Value, seconds, thresholds::*};
use crate::{
    classify::phase::{Direction, Phase},
    model::mounts,
};

/// Filesystems whose metadata is asked for over a network.
const NETWORK: [&str; 9] = [
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "fuse", "9p", "afs",
];

/// Subjects that are left to processes where there are many directories.
const PROCESSES: usize = 2;

/// Very many look-ups of files that are not there.
pub fn metadata_storm(data: &Data<'_>) -> Option<Finding> {
    let startup = &data.analysis.startup;
    let looked = startup.not_found + startup.opens;
    let share = startup.not_found as f64 / looked.max(1) as f64;
    if (startup.not_found as f64) < data.limit(NOT_FOUND) || share < data.limit(NOT_FOUND_SHARE) {
        return None;
    }
    let ns = startup.not_found_ns + startup.meta_ns;
    let mut evidence = vec![
        ("not_found", Value::Count(startup.not_found)),
        ("not_found_seconds", seconds(startup.not_found_ns)),
        ("startup_opens", Value::Count(startup.opens)),
        ("startup_stats", Value::Count(startup.stats)),
        ("startup_files", Value::Count(startup.files)),
        ("metadata_seconds", seconds(startup.meta_ns)),
    ];
    if let Some(first) = startup.first_training_read_ns {
        evidence.push(("seconds_to_first_training_read", seconds(first)));
    }
    if !startup.searched.is_empty() {
        let count = startup.searched.len() as u64;
        evidence.push(("searched_directories", Value::Count(count)));
    }
    // The directories say what to change, the processes who does it.
    let directories = startup.searched.iter();
    let directories = directories.map(|searched| Subject::Directory(searched.path.clone()));
    let processes = startup.by_process.iter();
    let processes = processes.map(|(process, _)| Subject::Process(*process));
    let mut subjects: Vec<Subject> = directories.take(super::SUBJECTS - PROCESSES).collect();
    subjects.extend(processes.take(super::SUBJECTS - subjects.len()));
    let is_remote = is_on_network(data);
    let severity = Severity::of_share(data.share_of_run(ns));
    Some(Finding {
        code: "startup-metadata-storm",
        severity: if is_remote { severity.max(Severity::High) } else { severity },
        title: format!("{} look-ups of files that are not there, {:.0} % of those at startup", startup.not_found, share * 100.0),
        evidence,
        subjects,
        advice: "Shorten the search path (PYTHONPATH, LD_LIBRARY_PATH), or put the environment into one file on a local disk: a \
                 container image, squashfs, or a packed conda environment."
            .into(),
    })
}

/// Whether files of startup lie on a filesystem that is reached over a network.
fn is_on_network(data: &Data<'_>) -> bool {
    data.sorted.iter().enumerate().any(|(index, sorted)| {
        let (_, fs_type) = data.model.mount_of(&data.model.file(index as u32));
        sorted.phase(Direction::Read) == Phase::Startup
            && NETWORK.contains(&mounts::family(fs_type))
    })
}
