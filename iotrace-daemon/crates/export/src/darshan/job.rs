//! The job of a Darshan log: who ran what, when, on which mounts.

use std::collections::BTreeMap;

use super::printable;
use crate::Export;
use iotrace_model::run::Target;

/// Most bytes of metadata, without the NUL behind them.
const MAX_METADATA_BYTES: usize = 1023;
/// Most bytes of the job without its program and mounts, and with them.
const FIXED_JOB_BYTES: usize = 56 + 1024;
const MAX_JOB_BYTES: usize = 4096;
/// Most bytes of the command line, so that there is room for mounts.
const MAX_COMMAND_BYTES: usize = 1500;

/// Mount points with the types of their filesystems.
pub type Mounts = BTreeMap<String, String>;

/// Metadata, a line for each.
pub type Metadata = Vec<(&'static str, String)>;

/// The job, uncompressed. `metadata` comes in the order of its weight: what does not fit is left out.
pub fn job(export: &Export<'_>, ranks: usize, mounts: &Mounts, metadata: Metadata) -> Vec<u8> {
    let run = export.run;
    let start = run.start_unix_ns;
    // A run time of 0 would be divided by.
    let end = start.saturating_add_unsigned(run.duration_ns.max(1));
    let first = export.processes().next();
    let uid = first.and_then(|process| process.about.uid).unwrap_or(0);
    let pid = first.map_or(0, |process| process.id.pid.into());
    let jobs = export
        .processes()
        .filter_map(|process| process.about.role.job.as_deref());
    let mut job = Vec::with_capacity(MAX_JOB_BYTES);
    for value in [
        uid.into(),
        start.div_euclid(1_000_000_000),
        start.rem_euclid(1_000_000_000),
        end.div_euclid(1_000_000_000),
        end.rem_euclid(1_000_000_000),
        ranks as i64,
        jobs.filter_map(job_number).next().unwrap_or(pid),
    ] {
        job.extend(value.to_le_bytes());
    }
    let mut text = String::new();
    for (key, value) in metadata {
        let line = format!("{key}={}\n", value.replace('\n', " "));
        if text.len() + line.len() <= MAX_METADATA_BYTES {
            text.push_str(&line);
        }
    }
    job.extend(text.as_bytes());
    job.resize(FIXED_JOB_BYTES, 0);
    job.extend(command(export).as_bytes());
    for (mount_point, fs_type) in mounts {
        let line = format!("\n{fs_type}\t{mount_point}");
        if job.len() + line.len() < MAX_JOB_BYTES {
            job.extend(line.as_bytes());
        }
    }
    job.push(0);
    job
}

/// The number in the name of a batch system's job: 4242 of `slurm:4242`, 1234 of `pbs:1234[5].server`.
fn job_number(job: &str) -> Option<i64> {
    let (_, id) = job.split_once(':')?;
    let end = id.find(|digit: char| !digit.is_ascii_digit());
    // Flux's ids are words that may begin with digits.
    let is_number = end.is_none_or(|end| id[end..].starts_with(['.', '[']));
    id[..end.unwrap_or(id.len())]
        .parse()
        .ok()
        .filter(|_| is_number)
}

/// The command line: never blank, on one line.
fn command(export: &Export<'_>) -> String {
    let first = export.processes().next();
    let words: Vec<Vec<u8>> = match (&export.run.target, first) {
        (Target::Command(words), _) => words.iter().map(|word| word.clone().into_bytes()).collect(),
        (_, Some(process)) if !process.about.args.is_empty() => process.about.args.clone(),
        (_, Some(process)) => vec![process.about.comm.clone()],
        _ => Vec::new(),
    };
    let words: Vec<String> = words
        .iter()
        .map(|word| printable(&export.names.word(word)))
        .collect();
    let mut command = words.join(" ").trim().to_owned();
    let mut length = MAX_COMMAND_BYTES.min(command.len());
    while !command.is_char_boundary(length) {
        length -= 1;
    }
    command.truncate(length);
    if command.is_empty() {
        command.push_str("unknown");
    }
    command
}

/// Takes a mount that a log can hold: two words without blanks.
pub fn add_mount(mounts: &mut Mounts, mount_point: &str, fs_type: &str) {
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    if is_word(mount_point) && is_word(fs_type) {
        mounts.insert(mount_point.into(), fs_type.into());
    }
}

#[cfg(test)]
mod tests {
    use super::job_number;

    #[test]
    fn jobs_have_numbers() {
        assert_eq!(job_number("slurm:4242"), Some(4242));
        assert_eq!(job_number("pbs:1234[5].server"), Some(1234));
        assert_eq!(job_number("flux:2qWZ1"), None);
        assert_eq!(job_number("lsf:"), None);
    }
}
