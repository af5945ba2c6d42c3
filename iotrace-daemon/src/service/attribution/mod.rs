//! Which job a process belongs to: Slurm job, pod and container, systemd unit, user; pure string work.
//!
//! [`environ`] and `cgroup` read the texts of /proc, [`unit`] decides between what they say. `docs/metrics.md` has the
//! table of paths that are understood, and `tests/attribution.rs` reads them.

pub mod cgroup;

use cgroup::Place;

use crate::model::environ::{self, Scheduler};

/// What schedules a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Slurm,
    Pbs,
    Lsf,
    Flux,
    Kubernetes,
    Docker,
    Podman,
    Container,
    Systemd,
    User,
    /// No text says.
    Unknown,
    /// Units that found no room.
    Other,
}

impl Kind {
    /// As it stands in the label `kind`, and before the unit's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::Flux => "flux",
            Self::Kubernetes => "k8s",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Container => "container",
            Self::Systemd => "systemd",
            Self::User => "user",
            Self::Unknown => "unknown",
            Self::Other => "other",
        }
    }
}

/// A job, a pod's container, a service or a user: what I/O is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unit {
    /// Value of the label `unit`: `slurm:4242`, `k8s:UID/CONTAINER`, `systemd:nginx.service`.
    pub name: String,
    pub kind: Kind,
    /// Of the batch system: number of the job.
    pub job: String,
    /// Of Slurm: step of the job; empty where units are whole jobs.
    pub step: String,
    /// Of Kubernetes: the pod's UID.
    pub pod_uid: String,
    /// As Kubernetes writes it: `containerd://` and 64 hexadecimal digits.
    pub container_id: String,
}

impl Unit {
    /// The unit of processes that no text attributes.
    pub fn unknown() -> Self {
        Self::plain(Kind::Unknown)
    }

    /// The unit that stands for all that found no room.
    pub fn other() -> Self {
        Self::plain(Kind::Other)
    }

    /// The SLUID of a Slurm job whose number no text of the process has.
    pub fn sluid(&self) -> Option<&str> {
        (self.kind == Kind::Slurm && cgroup::is_sluid(&self.job)).then_some(&self.job)
    }

    /// The same job by its number, which somebody knows; by its SLUID still where that is none.
    pub fn numbered(self, number: &str) -> Self {
        if !cgroup::is_digits(number) {
            return self;
        }
        Self {
            name: self.name.replacen(&self.job, number, 1),
            job: number.to_owned(),
            ..self
        }
    }

    fn plain(kind: Kind) -> Self {
        Self::new(kind, kind.name().into())
    }

    fn new(kind: Kind, name: String) -> Self {
        Self {
            name,
            kind,
            job: String::new(),
            step: String::new(),
            pod_uid: String::new(),
            container_id: String::new(),
        }
    }
}

/// Longest name that is taken from a text which users can write.
const LONGEST: usize = 128;

/// The unit of a process, by the texts of /proc/PID/environ and /proc/PID/cgroup. `steps`: each step of a Slurm job is
/// a unit of its own.
pub fn unit(environ: &[u8], cgroup: &str, steps: bool) -> Unit {
    let place = cgroup::place(cgroup);
    let batch = environ::job(environ).or_else(|| {
        let slurm = place.slurm.as_ref()?;
        Some(environ::Job {
            scheduler: Scheduler::Slurm,
            id: slurm.job.clone(),
            step: slurm.step.clone(),
        })
    });
    let mut unit = match batch {
        Some(job) => of_job(job, &place, steps),
        None => of_place(&place),
    };
    unit.pod_uid = place.pod.unwrap_or_default();
    unit.container_id = place
        .container
        .map(|container| format!("{}://{}", container.runtime.name(), container.id))
        .unwrap_or_default();
    unit
}

fn of_job(job: environ::Job, place: &Place, steps: bool) -> Unit {
    let kind = match job.scheduler {
        Scheduler::Slurm => Kind::Slurm,
        Scheduler::Pbs => Kind::Pbs,
        Scheduler::Lsf => Kind::Lsf,
        Scheduler::Flux => Kind::Flux,
    };
    // The path knows better: a step's environment is inherited by what it starts in another step.
    let of_path = place.slurm.as_ref().map(|slurm| slurm.step.clone());
    let step = of_path.filter(|step| !step.is_empty()).unwrap_or(job.step);
    let step = if steps { step } else { String::new() };
    let name = if step.is_empty() {
        format!("{}:{}", kind.name(), job.id)
    } else {
        format!("{}:{}.{step}", kind.name(), job.id)
    };
    Unit {
        job: job.id,
        step,
        ..Unit::new(kind, name)
    }
}

fn of_place(place: &Place) -> Unit {
    /// Digits of a container's id that tell it apart, as `docker ps` shows them.
    const SHORT: usize = 12;
    let short = place
        .container
        .as_ref()
        .map(|container| &container.id[..SHORT]);
    if let Some(pod) = &place.pod {
        let name = match short {
            Some(container) => format!("k8s:{pod}/{container}"),
            None => format!("k8s:{pod}"),
        };
        return Unit::new(Kind::Kubernetes, name);
    }
    if let (Some(container), Some(short)) = (&place.container, short) {
        let kind = container.runtime.kind();
        return Unit::new(kind, format!("{}:{short}", kind.name()));
    }
    if let Some(job) = &place.pbs {
        return Unit {
            job: job.clone(),
            ..Unit::new(Kind::Pbs, format!("pbs:{job}"))
        };
    }
    if let Some(name) = &place.machine {
        return Unit::new(Kind::Container, format!("container:{name}"));
    }
    if let Some(user) = place.user {
        return Unit::new(Kind::User, format!("user:{user}"));
    }
    if let Some(service) = &place.service {
        return Unit::new(Kind::Systemd, format!("systemd:{service}"));
    }
    Unit::unknown()
}

/// A name as it may stand in a label: cut to a length, without what is not printable.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(LONGEST)
        .collect()
}
