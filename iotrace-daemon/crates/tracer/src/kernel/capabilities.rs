//! What this process may do: its capabilities (capability(7)).

use std::fs;

/// A capability: its number and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    number: u32,
    pub name: &'static str,
}

pub const BPF: Capability = Capability::new(39, "CAP_BPF");
pub const PERFMON: Capability = Capability::new(38, "CAP_PERFMON");
pub const SYS_NICE: Capability = Capability::new(23, "CAP_SYS_NICE");
pub const SYS_PTRACE: Capability = Capability::new(19, "CAP_SYS_PTRACE");
pub const DAC_READ_SEARCH: Capability = Capability::new(2, "CAP_DAC_READ_SEARCH");
/// Has the two that loading needs in it.
const SYS_ADMIN: Capability = Capability::new(21, "CAP_SYS_ADMIN");

impl Capability {
    const fn new(number: u32, name: &'static str) -> Self {
        Self { number, name }
    }

    /// Whether this process holds it; `None` where /proc does not say.
    pub fn is_held(self) -> Option<bool> {
        let has = |capability: Self, set: u64| set >> capability.number & 1 == 1;
        let set = effective()?;
        let by_admin = matches!(self, BPF | PERFMON) && has(SYS_ADMIN, set);
        Some(has(self, set) || by_admin)
    }
}

/// Whether this process has the privileges to trace, as far as /proc says.
pub fn may_trace() -> bool {
    [BPF, PERFMON]
        .iter()
        .all(|one| one.is_held() != Some(false))
}

/// What loading programs needs and this process lacks, as the start of a sentence; empty where it lacks nothing.
pub fn lack() -> String {
    let lacks = |capability: &Capability| capability.is_held() == Some(false);
    let missing: Vec<_> = [BPF, PERFMON].into_iter().filter(lacks).collect();
    if missing.is_empty() {
        return String::new();
    }
    let names: Vec<_> = missing.iter().map(|capability| capability.name).collect();
    format!("it lacks {}; ", names.join(" and "))
}

/// `CapEff` of proc(5).
fn effective() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let text = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(text.trim(), 16).ok()
}
