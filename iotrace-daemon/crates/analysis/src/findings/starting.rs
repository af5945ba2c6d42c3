//! Findings on how a run starts.

use std::collections::HashSet;

use super::{Confidence, Data, Finding, Subject, Value, seconds, thresholds::*};
use iotrace_model::counters::saturating_sum;
use iotrace_phases::{
    context::Sorted,
    phase::{Direction, Phase},
};

/// Subjects reserved for processes if there are many directories.
const MIN_PROCESSES: usize = 2;

/// Very many negative look-ups.
pub fn metadata_storm(data: &Data<'_>) -> Option<Finding> {
    let startup = &data.analysis.startup;
    let (elsewhere, elsewhere_ns) = beside_data(data);
    let not_found = startup.not_found.saturating_sub(elsewhere);
    let not_found_ns = startup.not_found_ns.saturating_sub(elsewhere_ns);
    let looked = not_found.saturating_add(startup.opens);
    let share = not_found as f64 / looked.max(1) as f64;
    if (not_found as f64) < data.limit(NOT_FOUND)
        || share < data.limit(NOT_FOUND_SHARE)
        || (not_found_ns as f64) < data.limit(NOT_FOUND_SECONDS) * 1e9
        || data.share_of_run(not_found_ns) < data.limit(NOT_FOUND_RUN_SHARE)
    {
        return None;
    }
    let mut evidence = vec![
        ("not_found", Value::Count(not_found)),
        ("not_found_seconds", seconds(not_found_ns)),
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
    let mut subjects: Vec<Subject> = directories
        .take(super::MAX_SUBJECTS - MIN_PROCESSES)
        .collect();
    subjects.extend(processes.take(super::MAX_SUBJECTS - subjects.len()));
    Some(Finding {
        code: "startup-metadata-storm",
        saving: data.saving(wall(data, not_found_ns), Confidence::Medium, &["look-ups of several threads at a time"]),
        title: format!("{} look-ups of files that are not there, {:.0} % of those at startup", not_found, share * 100.0),
        evidence,
        subjects,
        advice: "Shorten the search path (PYTHONPATH, LD_LIBRARY_PATH), or put the environment into one file on a local disk: a \
                 container image, squashfs, or a packed conda environment."
            .into(),
        also: Vec::new(),
    })
}

/// Wall time of look-ups, from their time summed over processes: of processes that ran at the same time, which may have
/// waited at the same time, the one with the most look-ups counts.
fn wall(data: &Data<'_>, ns: u64) -> u64 {
    let by_process = &data.analysis.startup.by_process;
    let (clock, processes) = (&data.run.clock, data.model.processes());
    let mut lives: Vec<(i64, i64)> = by_process
        .iter()
        .map(|(process, _)| {
            let about = &processes[*process as usize].about;
            let start = clock.unix_ns_of_boottime(about.start_boottime);
            (start, about.end.map_or(i64::MAX, |end| clock.unix_ns(end)))
        })
        .collect();
    lives.sort_unstable();
    if lives.windows(2).all(|pair| pair[1].0 >= pair[0].1) {
        return ns;
    }
    let calls = by_process.iter().map(|(_, calls)| *calls);
    let (most, all) = (calls.clone().max().unwrap_or(0), saturating_sum(calls));
    (ns as f64 * most as f64 / all.max(1) as f64) as u64
}

/// Look-ups in directories of training data and checkpoints: how many, and their time. They do not search for libraries.
fn beside_data(data: &Data<'_>) -> (u64, u64) {
    let is_data = |sorted: &Sorted| {
        let phases = Direction::ALL.map(|direction| sorted.phase(direction));
        phases
            .iter()
            .any(|phase| matches!(phase, Phase::Training | Phase::Checkpoint | Phase::Restore))
    };
    let files = data
        .sorted
        .iter()
        .enumerate()
        .filter(|(_, sorted)| is_data(sorted));
    let directories: HashSet<&[u8]> = files
        .map(|(index, _)| {
            let file = data.model.file(index as u32);
            match file.path.iter().rposition(|byte| *byte == b'/') {
                Some(slash) if !file.is_directory() => &file.path[..slash],
                _ => file.path,
            }
        })
        .collect();
    let searched = data.analysis.startup.searched.iter();
    let searched = searched.filter(|searched| directories.contains(searched.path.as_slice()));
    searched.fold((0_u64, 0_u64), |(calls, ns), searched| {
        (
            searched.calls.saturating_add(calls),
            searched.ns.saturating_add(ns),
        )
    })
}
