//! The text of /proc/PID/environ: which batch system started the process, and as which job.

/// A batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    Slurm,
    Pbs,
    Lsf,
    Flux,
}

/// A job of a batch system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub scheduler: Scheduler,
    pub id: String,
    /// Of Slurm.
    pub step: String,
}

/// Variables that name a job, the first of them that is there wins.
const JOBS: [(&str, Scheduler); 4] = [
    ("SLURM_JOB_ID", Scheduler::Slurm),
    ("PBS_JOBID", Scheduler::Pbs),
    ("LSB_JOBID", Scheduler::Lsf),
    ("FLUX_JOB_ID", Scheduler::Flux),
];
const STEP: &str = "SLURM_STEP_ID";

/// Longest job id of any of them.
const LONGEST: usize = 64;

/// The job that the environment names.
pub fn job(environ: &[u8]) -> Option<Job> {
    let (scheduler, id) = JOBS.iter().find_map(|(variable, scheduler)| {
        let id = value(environ, variable)?;
        is_id(id, *scheduler).then(|| (*scheduler, id.to_owned()))
    })?;
    let step = match scheduler {
        Scheduler::Slurm => value(environ, STEP).and_then(step_name).unwrap_or_default(),
        _ => String::new(),
    };
    Some(Job {
        scheduler,
        id,
        step,
    })
}

/// Anybody can set the variable: only what looks like an id becomes a label.
fn is_id(text: &str, scheduler: Scheduler) -> bool {
    let is_allowed = |byte: u8| match scheduler {
        Scheduler::Slurm => byte.is_ascii_digit(),
        // `1234.server`, `1234[5].server`, Flux's base58 with its letter ƒ left out
        _ => byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte),
    };
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_allowed)
}

/// Slurm's numbers of the steps that are none of srun's (slurm.h).
fn step_name(text: &str) -> Option<String> {
    let number: u32 = text.parse().ok()?;
    Some(match number {
        0xffff_fffb => "batch".into(),
        0xffff_fffc => "extern".into(),
        0xffff_fffa => "interactive".into(),
        _ => number.to_string(),
    })
}

fn value<'a>(environ: &'a [u8], variable: &str) -> Option<&'a str> {
    environ.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry
            .strip_prefix(variable.as_bytes())?
            .strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    })
}
