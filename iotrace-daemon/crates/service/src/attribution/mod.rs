//! Which job a process belongs to: Slurm job, pod and container, systemd unit, user; pure string work.
//!
//! [`environ`] and `cgroup` read the texts of /proc, [`unit`] decides between what they say: the cgroup if it names a job
//! or a user, since anybody can write anything into an environment. `docs/reference/metrics.md` has the
//! table of paths that are understood, and `tests/service/attribution.rs` reads them.

pub mod cgroup;

use cgroup::Place;

use iotrace_model::environ::{self, JobNames, Scheduler};

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
    /// Those that a configuration can name.
    pub const NAMED: [Self; 10] = [
        Self::Slurm,
        Self::Pbs,
        Self::Lsf,
        Self::Flux,
        Self::Kubernetes,
        Self::Docker,
        Self::Podman,
        Self::Container,
        Self::Systemd,
        Self::User,
    ];

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
    /// Whether only the environment names the job, which the user may have written.
    pub claimed: bool,
    /// The user who decides how many such units there are: of claimed jobs, of sessions.
    pub owner: Option<u32>,
    /// What the environment of a process of the job calls it. It tells no two units apart.
    pub names: JobNames,
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

    /// The unit that stands for those of one user that found no room.
    pub fn other_of(owner: u32) -> Self {
        Self {
            owner: Some(owner),
            ..Self::new(Kind::Other, format!("other:{owner}"))
        }
    }

    /// Value of the label `claimed`: the user who claims to be of this job.
    pub fn claimed_by(&self) -> Option<String> {
        let owner = || {
            self.owner
                .map_or("unknown".into(), |owner| owner.to_string())
        };
        self.claimed.then(owner)
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

    /// With the names that an environment has for its job, if that is this one.
    pub fn with_names(self, of_environment: Option<&environ::Job>) -> Self {
        let is_same = |job: &&environ::Job| {
            (self.kind, job.scheduler) == (Kind::Slurm, Scheduler::Slurm) && self.job == job.id
        };
        let names = of_environment.filter(is_same).map(|job| job.names.clone());
        Self {
            names: names.unwrap_or_default(),
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
            claimed: false,
            owner: None,
            names: JobNames::default(),
        }
    }
}

/// The unit of a process, by the texts of /proc/PID/environ and /proc/PID/cgroup. `steps`: each step of a Slurm job is
/// a unit of its own.
pub fn unit(environ: &[u8], cgroup: &str, steps: bool) -> Unit {
    let job = environ::job(environ);
    decide(job.as_ref(), &cgroup::place(cgroup), None, steps).with_names(job.as_ref())
}

/// The unit of a process of user `uid`, without names: `claimed` is the job that its environment names.
pub fn decide(
    claimed: Option<&environ::Job>,
    place: &Place,
    uid: Option<u32>,
    steps: bool,
) -> Unit {
    let claimed = claimed.filter(|_| place.is_silent());
    let mut unit = match (&place.slurm, claimed) {
        (Some(slurm), _) => of_job(Scheduler::Slurm, &slurm.job, &slurm.step, steps),
        (None, Some(job)) => Unit {
            claimed: true,
            owner: uid,
            ..of_job(job.scheduler, &job.id, &job.step, steps)
        },
        (None, None) => of_place(place),
    };
    if let Some(pod) = &place.pod {
        unit.pod_uid = pod.clone();
    }
    if let Some(container) = &place.container {
        unit.container_id = format!("{}://{}", container.runtime.name(), container.id);
    }
    unit
}

fn of_job(scheduler: Scheduler, id: &str, step: &str, steps: bool) -> Unit {
    let kind = match scheduler {
        Scheduler::Slurm => Kind::Slurm,
        Scheduler::Pbs => Kind::Pbs,
        Scheduler::Lsf => Kind::Lsf,
        Scheduler::Flux => Kind::Flux,
    };
    let step = if steps { step } else { "" };
    let name = if step.is_empty() {
        format!("{}:{id}", kind.name())
    } else {
        format!("{}:{id}.{step}", kind.name())
    };
    Unit {
        job: id.into(),
        step: step.into(),
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
        return Unit {
            owner: Some(user),
            ..Unit::new(Kind::User, format!("user:{user}"))
        };
    }
    if let Some(service) = &place.service {
        return Unit::new(Kind::Systemd, format!("systemd:{service}"));
    }
    Unit::unknown()
}
