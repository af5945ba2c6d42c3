//! What this host has: for `iotrace check`, and as a table instead of conditions in the flow.
//!
//! Each row is a kernel feature: since when, what iotrace needs it for, whether it can do without, and a probe that
//! asks this kernel and not its version.

use std::{fs, io, path::Path};

use aya::{
    maps::MapType,
    programs::ProgramType,
    sys::{self, BpfHelper},
};

use super::{
    KernelError,
    btf::Types,
    capabilities::{self, Capability},
    error::{LOCKDOWN, chain},
    hooks::{Availability, HOOKS, Hooks, RequiredBy},
    load::{self, KERNEL_BTF},
    offsets,
    preemption::Preemption,
    variant::{self, Variant},
};

/// Whether iotrace can do without a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// iotrace refuses to run without it.
    Required,
    /// Something is missing without it; the text says what.
    Optional(&'static str),
}

/// A kernel feature, probed.
pub struct Feature {
    pub name: &'static str,
    /// The release that brought it.
    pub since: &'static str,
    pub need: Need,
    /// What was found, or why it cannot be used.
    pub found: Result<String, String>,
}

impl Feature {
    /// Whether iotrace can run on this host as far as this feature goes.
    pub fn is_fatal(&self) -> bool {
        self.need == Need::Required && self.found.is_err()
    }
}

/// Capabilities, and what is missing without each.
const CAPABILITIES: &[(Capability, Need)] = &[
    (capabilities::BPF, Need::Required),
    (capabilities::PERFMON, Need::Required),
    (
        capabilities::SYS_PTRACE,
        Need::Optional("other users' processes that ran before stay unnamed"),
    ),
    (
        capabilities::SYS_NICE,
        Need::Optional("under load more operations are counted without their file"),
    ),
    (
        capabilities::DAC_READ_SEARCH,
        Need::Optional("no `--hook tracepoint`: tracefs cannot be read"),
    ),
];

/// The tracepoints on system calls.
const CALLS: [&str; 2] = ["sys_enter", "sys_exit"];
const NO_CALLS: Need = Need::Optional("`--hook tracepoint` alone is left");

const MAPS: &[(MapType, &str, &str)] = &[
    (MapType::Hash, "map: hash", "3.19"),
    (MapType::Array, "map: array", "3.19"),
    (MapType::PerCpuArray, "map: per-CPU array", "4.6"),
    (MapType::LruHash, "map: LRU hash", "4.10"),
    (MapType::ArrayOfMaps, "map: array of maps", "4.12"),
    (MapType::RingBuf, "map: ring buffer", "5.8"),
];

const HELPERS: &[(BpfHelper, &str, &str, Need)] = &[
    (
        BpfHelper::BPF_FUNC_probe_read_kernel,
        "helper: probe_read_kernel",
        "5.5",
        Need::Required,
    ),
    (
        BpfHelper::BPF_FUNC_loop,
        "helper: loop",
        "5.17",
        Need::Optional(
            "paths of up to 64 components only, no directories of failed look-ups, no libaio",
        ),
    ),
    (
        BpfHelper::BPF_FUNC_find_vma,
        "helper: mapping at an address",
        "5.17",
        Need::Optional("msync is counted by name, not with its file"),
    ),
];

/// Probes everything. `btf` as in [`load::Options`].
pub fn features(btf: Option<&Path>) -> Vec<Feature> {
    let types = load::types_if_any(btf);
    let no_btf = types.as_ref().is_ok_and(Types::are_none);
    let mut features = vec![release(), type_information(btf, &types, no_btf)];
    if !no_btf {
        features.push(layout(&types));
    }
    features.extend([lockdown(), namespace(), unprivileged(), cgroups()]);
    features.extend(
        CAPABILITIES
            .iter()
            .map(|(one, need)| capability(*one, *need)),
    );
    if !no_btf {
        features.extend(CALLS.map(|name| tracepoint(name, NO_CALLS, &types)));
        features.extend(hooks(&types));
    }
    features.push(tracefs());
    features.extend(
        MAPS.iter()
            .map(|(kind, name, since)| map(*kind, name, since)),
    );
    // Where the other object is not for this machine, there is nothing to do without them.
    let none = Types::none();
    let need = match Variant::of_this_kernel(types.as_ref().unwrap_or(&none)) {
        Variant::Current => Need::Required,
        Variant::Compat510 | Variant::NoBtf => Need::Optional(variant::LACK),
    };
    features.extend(
        variant::NEEDS
            .iter()
            .map(|(helper, name, since)| self::helper(*helper, name, since, need)),
    );
    features.extend(
        HELPERS
            .iter()
            .map(|(helper, name, since, need)| self::helper(*helper, name, since, *need)),
    );
    if !no_btf {
        features.push(cast(&types));
        features.extend(types.as_ref().ok().map(preemption));
    }
    features
}

fn release() -> Feature {
    let found = fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|text| text.trim_end().to_owned())
        .map_err(|error| error.to_string());
    Feature {
        name: "kernel release",
        since: "5.10",
        need: Need::Required,
        found,
    }
}

fn type_information(
    btf: Option<&Path>,
    types: &Result<Types, KernelError>,
    no_btf: bool,
) -> Feature {
    let path = btf.unwrap_or(Path::new(KERNEL_BTF));
    let found = match types {
        Ok(_) if no_btf => Err("the kernel shows none".into()),
        Ok(_) => Ok(path.display().to_string()),
        Err(error) => Err(error.to_string()),
    };
    Feature {
        name: "type information (BTF)",
        since: "5.4",
        need: if no_btf {
            Need::Optional(variant::NO_BTF)
        } else {
            Need::Required
        },
        found,
    }
}

fn layout(types: &Result<Types, KernelError>) -> Feature {
    let found = match types {
        Ok(types) => offsets::resolve(types)
            .map(|settings| format!("{} kernel fields found", settings.len()))
            .map_err(|error| error.to_string()),
        Err(_) => Err("not known without BTF".into()),
    };
    Feature {
        name: "kernel layout",
        since: "5.10",
        need: Need::Required,
        found,
    }
}

/// Whether the kernel is locked down so far that no program may read its memory.
pub fn is_confidential() -> bool {
    fs::read_to_string(LOCKDOWN).is_ok_and(|text| text.contains("[confidentiality]"))
}

/// kernel_lockdown(7): in `confidentiality` programs may not read kernel memory, whoever loads them.
fn lockdown() -> Feature {
    let found = match fs::read_to_string(LOCKDOWN) {
        Ok(_) if is_confidential() => {
            Err("lockdown=confidentiality forbids BPF programs to read kernel memory: boot with lockdown=integrity \
                 or none"
                .into())
        }
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("none".into()),
        Err(error) => Ok(format!("unknown: {error}")),
    };
    Feature {
        name: "lockdown",
        since: "5.4",
        need: Need::Required,
        found,
    }
}

fn capability(capability: Capability, need: Need) -> Feature {
    let found = match capability.is_held() {
        Some(true) => Ok("held".into()),
        Some(false) => Err("not held: run as root, or grant it".into()),
        None => Err("/proc/self/status does not say".into()),
    };
    Feature {
        name: capability.name,
        since: "5.8",
        need,
        found,
    }
}

/// Number of the PID namespace that the kernel starts with (`PID_NS_INIT_INO` of linux/nsfs.h).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The host's PID namespace, or another. The kernel counts by the numbers that processes have in the first one.
pub fn pid_namespace() -> Result<String, String> {
    let Ok(own) = fs::read_link("/proc/self/ns/pid") else {
        return Ok("unknown".into()); // no /proc, or a kernel without namespaces
    };
    if own == Path::new(FIRST_PID_NAMESPACE) {
        Ok("the host's".into())
    } else {
        Err("a container's own: run it in the host's (hostPID, --pid=host)".into())
    }
}

fn namespace() -> Feature {
    Feature {
        name: "PID namespace",
        since: "3.8",
        need: Need::Required,
        found: pid_namespace(),
    }
}

/// Whether processes without privileges may load programs; those of iotrace need one in any case.
fn unprivileged() -> Feature {
    const FILE: &str = "/proc/sys/kernel/unprivileged_bpf_disabled";
    let found = match fs::read_to_string(FILE) {
        Ok(text) => format!(
            "{}; iotrace needs CAP_BPF whatever it says",
            text.trim_end()
        ),
        Err(error) => format!("unknown: {error}"),
    };
    Feature {
        name: "unprivileged_bpf_disabled",
        since: "4.4",
        need: Need::Optional("nothing"),
        found: Ok(found),
    }
}

/// By which of its control groups the service tells whose a process is: all of them, of either version.
fn cgroups() -> Feature {
    let found = fs::read_to_string("/proc/self/cgroup").map(|text| {
        let unified = text.lines().any(|line| line.starts_with("0::"));
        let others = text.lines().any(|line| !line.starts_with("0::"));
        match (unified, others) {
            (true, true) => "versions 1 and 2 (hybrid)",
            (true, false) => "version 2",
            (false, true) => "version 1",
            (false, false) => "none",
        }
        .to_owned()
    });
    Feature {
        name: "control groups",
        since: "2.6",
        need: Need::Optional("units are known by the environment alone"),
        found: found.map_err(|error| error.to_string()),
    }
}

/// Hooks that iotrace, or its service, can do without.
fn hooks(types: &Result<Types, KernelError>) -> impl Iterator<Item = Feature> {
    let hooks = types.as_ref().ok().map(Hooks::all);
    HOOKS.iter().map(move |hook| Feature {
        name: hook.title,
        since: hook.since,
        need: match hook.required_by {
            RequiredBy::Record => Need::Required,
            _ => Need::Optional(hook.lost),
        },
        found: match hooks.as_ref().map(|hooks| hooks.of(hook.id)) {
            Some(Availability::Missing(reason)) => Err(reason.clone()),
            Some(_) => Ok(hook.kind.text().into()),
            None => Err("not known without BTF".into()),
        },
    })
}

fn tracepoint(name: &'static str, need: Need, types: &Result<Types, KernelError>) -> Feature {
    let found = match types {
        Ok(types) if types.has_tracepoint(name) => Ok("BTF raw tracepoint".into()),
        Ok(_) => Err("this kernel has no such tracepoint".into()),
        Err(_) => Err("not known without BTF".into()),
    };
    Feature {
        name,
        since: "5.5",
        need,
        found,
    }
}

fn map(kind: MapType, name: &'static str, since: &'static str) -> Feature {
    Feature {
        name,
        since,
        need: Need::Required,
        found: probed(sys::is_map_supported(kind)),
    }
}

fn helper(helper: BpfHelper, name: &'static str, since: &'static str, need: Need) -> Feature {
    // What a tracepoint program may call, a BTF raw tracepoint program may call too.
    Feature {
        name,
        since,
        need,
        found: probed(sys::is_helper_supported(ProgramType::TracePoint, helper)),
    }
}

/// See [`super::cast`].
fn cast(types: &Result<Types, KernelError>) -> Feature {
    const NAME: &str = "bpf_rdonly_cast";
    let found = match types {
        Ok(types) if types.function(NAME).is_some() => Ok("yes".into()),
        Ok(_) => Err("this kernel has none".into()),
        Err(_) => Err("not known without BTF".into()),
    };
    Feature {
        name: "function: bpf_rdonly_cast",
        since: "6.2",
        need: Need::Optional("the same numbers, at a higher cost: calls instead of loads"),
        found,
    }
}

/// See [`Preemption`].
fn preemption(types: &Types) -> Feature {
    Feature {
        name: "preemption of programs",
        since: "7.2",
        need: Need::Optional("nothing"),
        found: Ok(Preemption::of(types).text()),
    }
}

fn probed<E: std::error::Error + 'static>(answer: Result<bool, E>) -> Result<String, String> {
    match answer {
        Ok(true) => Ok("yes".into()),
        Ok(false) => Err("this kernel has none".into()),
        Err(error) => Err(chain(&error)),
    }
}

fn tracefs() -> Feature {
    let need = Need::Optional("no `--hook tracepoint`");
    let found = match super::attach::tracefs_events() {
        Some(path) => Ok(path.display().to_string()),
        None => Err(super::attach::NO_TRACEFS.into()),
    };
    Feature {
        name: "syscall tracepoints (tracefs)",
        since: "4.7",
        need,
        found,
    }
}
