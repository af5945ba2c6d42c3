//! The text of /proc/PID/cgroup, versions 1 and 2: the job, pod, container, service or user that a path names.

use iotrace_model::environ::clean;

use super::Kind;

/// All that the paths of one process say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub slurm: Option<Slurm>,
    /// UID of the pod, with dashes.
    pub pod: Option<String>,
    pub container: Option<Container>,
    /// Job of PBS.
    pub pbs: Option<String>,
    /// Name of an LXC container or a virtual machine.
    pub machine: Option<String>,
    /// Whose login session or user service it is.
    pub user: Option<u32>,
    /// systemd's unit.
    pub service: Option<String>,
}

impl Place {
    /// Whether the paths name neither a job nor a user, so that the environment may.
    pub fn is_silent(&self) -> bool {
        self.slurm.is_none() && self.pbs.is_none() && self.pod.is_none() && self.user.is_none()
    }

    /// Whether the environment may say more: the job, or what Slurm calls it.
    pub fn needs_environment(&self) -> bool {
        self.is_silent() || self.slurm.is_some()
    }
}

/// A job of Slurm's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slurm {
    /// Number of the job; from Slurm 26.05 on its SLUID, unless the path has the number.
    pub job: String,
    pub step: String,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub runtime: Runtime,
    /// 64 hexadecimal digits.
    pub id: String,
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Containerd,
    Crio,
    Docker,
    Podman,
}

impl Runtime {
    /// As Kubernetes writes it before the id.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "cri-o",
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Docker => Kind::Docker,
            Self::Podman => Kind::Podman,
            Self::Containerd | Self::Crio => Kind::Container,
        }
    }
}

/// What the paths say, the version 2 path and those of every version 1 controller together: a hybrid system names the
/// job only in some of them.
pub fn place(text: &str) -> Place {
    let mut place = Place::default();
    for line in text.lines() {
        // hierarchy-ID:controllers:path
        if let Some(path) = line.splitn(3, ':').nth(2) {
            read(path, &mut place);
        }
    }
    place
}

fn read(path: &str, place: &mut Place) {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let delegated = parts.iter().position(|part| user(part).is_some());
    if let Some(index) = delegated {
        if place.user.is_none() {
            place.user = user(parts[index]);
        }
        // A user can make directories of any name there.
        parts.truncate(index);
    }
    let first = |value: &mut Option<_>, found| {
        if value.is_none() {
            *value = found;
        }
    };
    if place.slurm.is_none() {
        place.slurm = slurm(&parts);
    }
    if place.pod.is_none() {
        place.pod = parts.iter().find_map(|part| pod(part));
    }
    if place.container.is_none() {
        place.container = container(&parts);
    }
    first(&mut place.pbs, pbs(&parts));
    first(&mut place.machine, machine(&parts));
    first(&mut place.service, service(&parts));
}

/// `[NODE_]slurmstepd.scope/job_1/step_0/...` (2), `slurm[_NODE]/uid_1000/job_1/step_0/...` (1); from Slurm 26.05 on
/// the SLUID stands in place of `job_1` in version 2.
fn slurm(parts: &[&str]) -> Option<Slurm> {
    let is_root = |part: &&str| {
        part.ends_with("slurmstepd.scope") || *part == "slurm" || part.starts_with("slurm_")
    };
    let root = parts.iter().position(is_root)?;
    let mut rest = parts[root + 1..].iter().peekable();
    rest.next_if(|part| part.starts_with("uid_"));
    let job = rest.next()?;
    let job = match job.strip_prefix("job_") {
        Some(number) if is_digits(number) => number,
        None if is_sluid(job) => job,
        _ => return None,
    };
    let step = rest.next().and_then(|part| part.strip_prefix("step_"));
    let step = step.unwrap_or_default();
    Some(Slurm {
        job: job.into(),
        step: clean(step),
    })
}

pub(super) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `s` and 13 digits of Crockford's base 32.
pub(super) fn is_sluid(text: &str) -> bool {
    let is_digit =
        |byte: u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(&byte));
    let digits = text.strip_prefix('s');
    digits.is_some_and(|digits| digits.len() == 13 && digits.bytes().all(is_digit))
}

/// The UID behind `pod`: with dashes, with underscores (systemd driver), or 32 digits (pods of a file on the node).
fn pod(part: &str) -> Option<String> {
    let rest = match part.strip_prefix("pod") {
        Some(rest) => rest,
        None if part.contains("kubepods") => part.rsplit_once("-pod")?.1,
        None => return None,
    };
    let uid = rest.split(['.', ':']).next()?.replace('_', "-");
    let is_uid = |text: &str| {
        let hex = text.bytes().all(|byte| byte == b'-' || is_hex(byte));
        hex && (text.len() == 32 || (text.len() == 36 && text.matches('-').count() == 4))
    };
    is_uid(&uid).then_some(uid)
}

const fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// What stands before a container's id, and whose it is.
const PREFIXES: [(&str, Runtime); 6] = [
    ("cri-containerd-", Runtime::Containerd),
    ("nerdctl-", Runtime::Containerd),
    ("crio-", Runtime::Crio),
    ("docker-", Runtime::Docker),
    ("libpod-payload-", Runtime::Podman),
    ("libpod-", Runtime::Podman),
];

fn container(parts: &[&str]) -> Option<Container> {
    let found = |(index, part): (usize, &&str)| {
        // containerd under a service: `kubepods-...slice:cri-containerd:ID`
        if let Some((_, id)) = part.rsplit_once(":cri-containerd:") {
            return container_of(id, Runtime::Containerd);
        }
        let part = part.strip_suffix(".scope").unwrap_or(part);
        let prefixed = PREFIXES
            .iter()
            .find_map(|(prefix, runtime)| container_of(part.strip_prefix(prefix)?, *runtime));
        prefixed.or_else(|| {
            // The cgroupfs driver: the id alone, in `docker` or in a pod's directory.
            let parent = *parts.get(index.checked_sub(1)?)?;
            if parent == "docker" {
                container_of(part, Runtime::Docker)
            } else if pod(parent).is_some() {
                container_of(part, Runtime::Containerd)
            } else {
                None
            }
        })
    };
    parts.iter().enumerate().find_map(found)
}

fn container_of(id: &str, runtime: Runtime) -> Option<Container> {
    (id.len() == 64 && id.bytes().all(is_hex)).then(|| Container {
        runtime,
        id: id.into(),
    })
}

/// `pbs_jobs.service/jobs/1234.server` (2), `pbs_jobs.service/jobid/1234.server` (1).
fn pbs(parts: &[&str]) -> Option<String> {
    let [_, kind, job] = window(parts, |part| part == "pbs_jobs.service")?;
    matches!(kind, "jobs" | "jobid").then(|| clean(job))
}

fn window<'a>(parts: &[&'a str], is_first: impl Fn(&str) -> bool) -> Option<[&'a str; 3]> {
    let index = parts.iter().position(|part| is_first(part))?;
    parts.get(index..index + 3)?.try_into().ok()
}

/// `lxc.payload.NAME` (2), `lxc/NAME` (1), `machine.slice/machine-qemu\x2d1\x2dNAME.scope`.
fn machine(parts: &[&str]) -> Option<String> {
    for (index, part) in parts.iter().enumerate() {
        if let Some(name) = part.strip_prefix("lxc.payload.") {
            return Some(clean(name));
        }
        if *part == "lxc" && index == 0 {
            return parts.get(1).map(|name| clean(name));
        }
        let machine = part
            .strip_prefix("machine-")
            .and_then(|part| part.strip_suffix(".scope"));
        if let Some(name) = machine {
            return Some(clean(&name.replace("\\x2d", "-")));
        }
    }
    None
}

/// `user-1000.slice`, `user@1000.service`.
fn user(part: &str) -> Option<u32> {
    let slice = || part.strip_prefix("user-")?.strip_suffix(".slice");
    let manager = || part.strip_prefix("user@")?.strip_suffix(".service");
    slice().or_else(manager)?.parse().ok()
}

/// The innermost service, else the innermost scope. An instance keeps its name.
fn service(parts: &[&str]) -> Option<String> {
    let last = |ending: &str| parts.iter().rev().find(|part| part.ends_with(ending));
    last(".service")
        .or_else(|| last(".scope"))
        .map(|name| clean(name))
}
