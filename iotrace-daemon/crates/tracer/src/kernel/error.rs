//! What can go wrong between iotrace and the kernel, each with what to do about it.

use std::{io, path::PathBuf};

/// Where the kernel says how far it is locked down: all degrees, the one in force in brackets.
pub const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// An error of the kernel side.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error(
        "the kernel's type information {path} cannot be read: {source}\n\
         iotrace needs a kernel built with CONFIG_DEBUG_INFO_BTF=y; `--btf FILE` names a copy of it"
    )]
    NoBtf { path: PathBuf, source: io::Error },
    #[error("{path} is not kernel type information (BTF), or it breaks off")]
    BadBtf { path: PathBuf },
    #[error(
        "this kernel's type information has no field `{field}` in `struct {structure}`\n\
         iotrace does not know this kernel's layout; please report it with the output of `iotrace check`"
    )]
    NoField {
        structure: &'static str,
        field: &'static str,
    },
    #[error(
        "in this kernel `{second}` does not follow `{first}` in `struct {structure}` as iotrace's path walk needs it\n\
         please report it with the output of `iotrace check`"
    )]
    MovedField {
        structure: &'static str,
        first: &'static str,
        second: &'static str,
    },
    #[error(
        "iotrace may not load kernel programs: {lack}run it as root, or with CAP_BPF and CAP_PERFMON\n\
         (the kernel said: {0}; a locked-down kernel, see /sys/kernel/security/lockdown, refuses root, too)",
        lack = super::capabilities::lack()
    )]
    Privilege(String),
    #[error(
        "this kernel is locked down (lockdown=confidentiality in {path}): no BPF program may read kernel memory, whoever \
         loads it\nboot it with lockdown=integrity or none", path = LOCKDOWN
    )]
    Lockdown,
    #[error(
        "iotrace runs in a PID namespace of its own, where processes have other numbers than the kernel counts by\n\
         run it in the host's: `hostPID: true` in Kubernetes, `--pid=host` of Docker and Podman"
    )]
    PidNamespace,
    #[error("the kernel programs cannot be loaded: {reason}{hint}")]
    Load { reason: String, hint: &'static str },
    #[error("the kernel program `{program}` cannot be loaded for hook `{hook}`: {reason}{hint}")]
    Program {
        program: &'static str,
        hook: String,
        reason: String,
        hint: &'static str,
    },
    #[error("hook `{hook}` cannot be attached: {reason}{hint}")]
    Attach {
        hook: String,
        reason: String,
        hint: &'static str,
    },
    #[error("{what} cannot be had: {reason}")]
    LeftOut { what: &'static str, reason: String },
    #[error(
        "the kernel programs speak version {found} of the shared types, this iotrace version {expected}\n\
         rebuild iotrace: its two halves come from different sources"
    )]
    Abi { found: u64, expected: u64 },
    #[error(
        "build iotrace with its feature `programs`: this one has no kernel programs, and only reads recordings"
    )]
    NoPrograms,
    #[error("map `{map}`: {call} failed: {source}")]
    Map {
        map: &'static str,
        call: &'static str,
        source: io::Error,
    },
    #[error("the kernel programs have no {kind} `{name}`: rebuild iotrace")]
    Missing {
        kind: &'static str,
        name: &'static str,
    },
    #[error(
        "the self-test failed, so no number would be reliable: {what}\n\
         it points at: {suspects}\n\
         please report it with the output of `iotrace check`"
    )]
    SelfTest {
        what: String,
        suspects: &'static str,
    },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl KernelError {
    /// Exit code: 77 where a privilege or a kernel feature is missing, 1 for all else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Privilege(_)
            | Self::Lockdown
            | Self::PidNamespace
            | Self::NoBtf { .. }
            | Self::LeftOut { .. } => 77,
            _ => 1,
        }
    }
}

/// What an error number of bpf(2) usually means.
pub fn hint(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::EPERM | libc::EACCES) => {
            "\nmissing privilege: run as root, or with CAP_BPF and CAP_PERFMON;\n\
             a locked-down kernel (/sys/kernel/security/lockdown) refuses root, too"
        }
        Some(libc::ENOMEM) => {
            "\nno memory for the maps: raise the memory cgroup's limit or lower `--map-entries`"
        }
        Some(libc::ENOENT) => "\nthis kernel does not have the hook",
        Some(libc::EINVAL) => {
            "\nthis kernel does not know one of the map types or helpers: see `iotrace check`"
        }
        _ => "",
    }
}

/// The error number at the root of an error chain.
pub fn errno_of(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return io.raw_os_error();
        }
        current = error.source();
    }
    None
}

/// An error with all its causes on one line, but for those that are in its text already.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut current = error.source();
    while let Some(error) = current {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        current = error.source();
    }
    text
}
