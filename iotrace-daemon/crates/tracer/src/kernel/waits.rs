//! Waits of threads: what the programs must be told of the scheduler, and the hooks.
//!
//! Attaches the BTF raw tracepoints `sched_switch`, `sched_waking`, `hrtimer_expire_entry` and `hrtimer_expire_exit`: only
//! where waits are wanted, since every switch of the machine passes by them.

use aya::{Btf, Ebpf};
use iotrace_common::{
    abi::{
        Setting,
        globals::{self, TASK_FLAGS_FIELDS, WAIT_FIELDS},
    },
    waits::Wait,
};

use super::{
    attach::attach_raw,
    btf::Types,
    offsets,
    trace::{Layout, possible_cpus},
};

/// Room of all rings together, bytes, and fewest and most records of one. The daemon looks 50 times a second, so the
/// fewest are enough for 50,000 waits a second on a CPU.
const RINGS_BYTES: u64 = 32 << 20;
const FEWEST_RECORDS: u64 = 1 << 10;
const MOST_RECORDS: u64 = 1 << 14;

const HOOKS: [(&str, &str); 4] = [
    ("timer_begins", "hrtimer_expire_entry"),
    ("timer_ended", "hrtimer_expire_exit"),
    ("task_waking", "sched_waking"),
    ("task_switched", "sched_switch"),
];
/// Arguments of `sched_switch`, with and without the state of the task that leaves.
const WITH_STATE: usize = 4;
const WITHOUT_STATE: usize = 3;

/// What this kernel's scheduler is like.
#[derive(Clone, Debug)]
pub struct Waits {
    pub settings: Vec<Setting>,
    pub layout: Layout,
}

/// Reads it from the kernel's types; or why waits cannot be told.
pub fn find(types: &Types) -> Result<Waits, String> {
    for (_, hook) in HOOKS {
        types
            .tracepoint_arguments(hook)
            .ok_or_else(|| format!("this kernel has no tracepoint {hook}"))?;
    }
    let has_state = match types.tracepoint_arguments("sched_switch") {
        Some(WITH_STATE) => true,
        Some(WITHOUT_STATE) => false,
        found => {
            return Err(format!(
                "this kernel's tracepoint sched_switch has {} arguments, not {WITHOUT_STATE} or {WITH_STATE}",
                found.unwrap_or(0)
            ));
        }
    };
    let mut settings = offsets::all_optional(types, WAIT_FIELDS)?;
    settings.extend(offsets::all_optional(types, TASK_FLAGS_FIELDS)?);
    let layout = layout(possible_cpus().into());
    settings.extend([
        globals::HAS_PREVIOUS_STATE.set(has_state),
        globals::WAITS.set(true),
        globals::WAIT_RECORDS_EACH.set(layout.records.into()),
    ]);
    Ok(Waits { settings, layout })
}

fn layout(cpus: u64) -> Layout {
    let each = RINGS_BYTES / cpus / size_of::<Wait>() as u64;
    Layout {
        rings: cpus as u32,
        records: 1 << each.clamp(FEWEST_RECORDS, MOST_RECORDS).ilog2(),
    }
}

impl Waits {
    /// Attaches the hooks.
    pub fn attach(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), String> {
        attach_raw(ebpf, &HOOKS, btf).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let waits = find(&types).unwrap();
        assert!(waits.settings.contains(&globals::WAITS.set(true)));
    }

    #[test]
    fn rings_have_room_on_small_and_large_machines() {
        assert_eq!(layout(2).records, 1 << 14);
        assert_eq!(layout(128).records, 1 << 11);
        assert_eq!(
            layout(1024),
            Layout {
                rings: 1024,
                records: 1 << 10
            }
        );
    }
}
