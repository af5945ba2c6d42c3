//! Waits of threads: what the programs must be told of the scheduler, and their rings.

use iotrace_common::{
    abi::{Setting, globals},
    waits::Wait,
};

use super::{
    btf::Types,
    trace::{Layout, possible_cpus},
};

/// Room of all rings together, bytes, and fewest and most records of one. The daemon looks 50 times a second, so the
/// fewest are enough for 50,000 waits a second on a CPU.
const RINGS_BYTES: u64 = 32 << 20;
const FEWEST_RECORDS: u64 = 1 << 10;
const MOST_RECORDS: u64 = 1 << 14;

/// Arguments of `sched_switch`, with and without the state of the task that leaves.
const WITH_STATE: usize = 4;
const WITHOUT_STATE: usize = 3;

/// Reads it from the kernel's types; or why waits cannot be known.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
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
    Ok(vec![
        globals::HAS_PREVIOUS_STATE.set(has_state),
        globals::WAITS.set(true),
        globals::WAIT_RECORDS_EACH.set(layout_here().records.into()),
    ])
}

/// The rings of this machine.
pub fn layout_here() -> Layout {
    layout(possible_cpus().into())
}

fn layout(cpus: u64) -> Layout {
    let each = RINGS_BYTES / cpus / size_of::<Wait>() as u64;
    Layout {
        rings: cpus as u32,
        records: 1 << each.clamp(FEWEST_RECORDS, MOST_RECORDS).ilog2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
