//! An environment, as in /proc/PID/environ: which batch system started the process, as which job and which rank of it, and
//! what Slurm calls the job.
//!
//! No other variable is read, and only these values are kept.

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
    pub names: JobNames,
}

/// What Slurm says of a job besides its number. A text is empty if it is unknown, and has at most
/// [`MAX_NAME_CHARACTERS`], none of which controls a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobNames {
    pub user: String,
    pub account: String,
    pub partition: String,
    pub job: String,
}

/// Longest name that is kept.
pub const MAX_NAME_CHARACTERS: usize = 128;

impl JobNames {
    fn of(environ: &[u8]) -> Self {
        let name = |variable| value(environ, variable).map_or_else(String::new, clean);
        Self {
            user: name("SLURM_JOB_USER"),
            account: name("SLURM_JOB_ACCOUNT"),
            partition: name("SLURM_JOB_PARTITION"),
            job: name("SLURM_JOB_NAME"),
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A name of somebody's choice: cut to a length, without what is not printable.
pub fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME_CHARACTERS)
        .collect()
}

impl Scheduler {
    /// The prefix of a job's number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::Flux => "flux",
        }
    }
}

/// The rank of a process, and the variable that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub number: u32,
    /// One of [`RANKS`].
    pub variable: &'static str,
}

/// What a process is in its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    pub rank: Option<Rank>,
    /// The batch system's name and number of the job: `slurm:4242`.
    pub job: Option<Box<str>>,
}

impl Role {
    /// What the environment says.
    pub fn of(environ: &[u8]) -> Self {
        let name = |job: Job| format!("{}:{}", job.scheduler.name(), job.id);
        Self {
            rank: rank(environ),
            job: job(environ).map(|job| name(job).into()),
        }
    }
}

/// Variables that name the rank among all processes of the job, the first of them that is there wins: where torchrun or
/// mpirun run inside a step of Slurm's, theirs is the finer one.
pub const RANKS: [&str; 6] = [
    "RANK", // torchrun, DeepSpeed, Lightning
    "HOROVOD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK", // MPICH, Intel MPI
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
];

/// The rank that the environment names.
fn rank(environ: &[u8]) -> Option<Rank> {
    let number = |variable: &str| value(environ, variable)?.parse::<u32>().ok();
    RANKS.iter().find_map(|variable| {
        let number_of = number(variable)?;
        let is_rank = match *variable {
            // The name is anybody's; PyTorch's comes with the number of ranks.
            "RANK" => number("WORLD_SIZE").is_some_and(|ranks| number_of < ranks),
            // A batch script has one too, and is no rank.
            "SLURM_PROCID" => number(STEP_VARIABLE).is_some_and(|step| step < SLURM_OWN_STEPS),
            _ => true,
        };
        is_rank.then_some(Rank {
            number: number_of,
            variable,
        })
    })
}

/// Variables that name a job, the first of them that is there wins.
const JOBS: [(&str, Scheduler); 4] = [
    ("SLURM_JOB_ID", Scheduler::Slurm),
    ("PBS_JOBID", Scheduler::Pbs),
    ("LSB_JOBID", Scheduler::Lsf),
    ("FLUX_JOB_ID", Scheduler::Flux),
];
const STEP_VARIABLE: &str = "SLURM_STEP_ID";

/// Maximum length of a job id.
const MAX_JOB_BYTES: usize = 64;

/// The job that the environment names.
pub fn job(environ: &[u8]) -> Option<Job> {
    let (scheduler, id) = JOBS.iter().find_map(|(variable, scheduler)| {
        let id = value(environ, variable)?;
        is_id(id, *scheduler).then(|| (*scheduler, id.to_owned()))
    })?;
    let (step, names) = match scheduler {
        Scheduler::Slurm => {
            let step = value(environ, STEP_VARIABLE).and_then(step_name);
            (step.unwrap_or_default(), JobNames::of(environ))
        }
        _ => Default::default(),
    };
    Some(Job {
        scheduler,
        id,
        step,
        names,
    })
}

/// Anybody can set the variable: only what looks like an id becomes a label.
fn is_id(text: &str, scheduler: Scheduler) -> bool {
    let is_allowed = |byte: u8| match scheduler {
        Scheduler::Slurm => byte.is_ascii_digit(),
        // `1234.server`, `1234[5].server`, Flux's base58 with its letter ƒ left out
        _ => byte.is_ascii_alphanumeric() || b"._-[]".contains(&byte),
    };
    !text.is_empty() && text.len() <= MAX_JOB_BYTES && text.bytes().all(is_allowed)
}

/// Slurm's numbers from here on are of steps that are none of srun's.
const SLURM_OWN_STEPS: u32 = 0xffff_fff0;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_name_ranks_and_jobs() {
        let rank = |environ: &str| {
            let role = Role::of(environ.replace(' ', "\0").as_bytes());
            role.rank.map(|rank| (rank.number, rank.variable))
        };
        assert_eq!(
            rank("RANK=3 WORLD_SIZE=8 SLURM_PROCID=0 SLURM_STEP_ID=1"),
            Some((3, "RANK"))
        );
        assert_eq!(rank("RANK=3"), None, "no one else's rank");
        assert_eq!(rank("RANK=8 WORLD_SIZE=8"), None);
        assert_eq!(
            rank("OMPI_COMM_WORLD_RANK=1"),
            Some((1, "OMPI_COMM_WORLD_RANK"))
        );
        assert_eq!(
            rank("HOROVOD_RANK=2 OMPI_COMM_WORLD_RANK=1"),
            Some((2, "HOROVOD_RANK"))
        );
        assert_eq!(rank("PMI_RANK=7"), Some((7, "PMI_RANK")));
        assert_eq!(
            rank("SLURM_PROCID=5 SLURM_STEP_ID=0"),
            Some((5, "SLURM_PROCID"))
        );
        assert_eq!(rank("SLURM_PROCID=0"), None, "a batch script");
        assert_eq!(rank("SLURM_PROCID=0 SLURM_STEP_ID=4294967291"), None);
        assert_eq!(rank("OMPI_COMM_WORLD_RANK=-1 MY_RANK=2"), None);
        let job = |environ: &str| Role::of(environ.as_bytes()).job;
        assert_eq!(job("SLURM_JOB_ID=4242").as_deref(), Some("slurm:4242"));
        assert_eq!(job("HOME=/root"), None);
    }

    #[test]
    fn slurm_says_what_a_job_is_called() {
        let long = "x".repeat(MAX_NAME_CHARACTERS + 1);
        let names = [
            "SLURM_JOB_USER=ada",
            "SLURM_JOB_ACCOUNT=physics",
            "SLURM_JOB_PARTITION=gpu\n\x1b[2J",
            &format!("SLURM_JOB_NAME={long}"),
        ];
        let environ = |id: &str| format!("{id}\0{}", names.join("\0"));
        let named = job(environ("SLURM_JOB_ID=4242").as_bytes()).unwrap().names;
        let expected = JobNames {
            user: "ada".into(),
            account: "physics".into(),
            partition: "gpu[2J".into(),
            job: long[1..].into(),
        };
        assert_eq!(named, expected);
        let of_pbs = job(environ("PBS_JOBID=1.server").as_bytes()).unwrap();
        assert!(of_pbs.names.is_empty());
    }
}
