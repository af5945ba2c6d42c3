//! Waits of threads: what the programs must be told of the scheduler, their rings, and when they are attached.
//!
//! Each context switch of the machine runs them. So the programs that a service has for recordings are loaded and come on
//! with the first recording that keeps waits, and off with the last.

use aya::{
    Btf,
    programs::{BtfTracePoint, tp_btf::BtfTracePointLink},
};
use iotrace_common::{
    abi::{Setting, globals},
    scope::Recordings,
    waits::Wait,
};

use super::{
    Kernel, KernelError,
    btf::Types,
    hooks::{self, Availability},
    load::{KeepWaits, Options},
    program::{attach_error, attach_one, load_raw, program},
    trace::{Layout, possible_cpus},
};

/// Room of all rings together, bytes, of a recording by itself and of a service, and fewest and most records of one. The
/// daemon looks 50 times a second, so the fewest are enough for 50,000 waits a second on a CPU.
const RINGS_BYTES: u64 = 32 << 20;
const SERVICE_RINGS_BYTES: u64 = 8 << 20;
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
    ])
}

/// Waits as the loaded programs keep them.
#[derive(Debug, Default)]
pub struct State {
    /// None: they are never kept.
    layout: Option<Layout>,
    wanted: KeepWaits,
    /// Why they cannot be.
    missing: Option<String>,
    /// The programs that are attached for such recordings.
    links: Vec<BtfTracePointLink>,
}

impl State {
    pub fn new(options: &Options, hook: &Availability) -> Self {
        let room = match options.waits {
            KeepWaits::OnDemand => SERVICE_RINGS_BYTES,
            _ => RINGS_BYTES,
        };
        Self {
            layout: hook
                .is_ready()
                .then(|| layout(room, possible_cpus().into())),
            wanted: options.waits,
            missing: match hook {
                Availability::Missing(reason) => Some(reason.clone()),
                _ => None,
            },
            links: Vec::new(),
        }
    }

    /// The rings; none where waits are never kept.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Whether waits are kept for recordings of a service alone.
    pub fn is_on_demand(&self) -> bool {
        self.wanted == KeepWaits::OnDemand
    }

    /// Of which threads they are kept.
    pub fn wanted(&self) -> KeepWaits {
        self.wanted
    }
}

impl Kernel {
    /// Waits as the programs keep them.
    pub fn waits(&self) -> &State {
        &self.waits
    }

    /// Why recordings cannot have waits, where they cannot.
    pub fn lacks_waits(&self) -> Option<&str> {
        self.waits.missing.as_deref()
    }

    /// Loads the programs, so that they come on at once when a recording wants them.
    pub(super) fn load_waits(&mut self, btf: &Btf) {
        if let Availability::Ready(found) = self.hooks.of(hooks::Id::Waits)
            && let Err(error) = load_raw(&mut self.ebpf, &found.programs, btf)
        {
            self.waits.missing = Some(error.to_string());
        }
    }

    /// Keeps the waits of all processes in scope from now on, and not only of recordings.
    pub fn keep_all_waits(&mut self) -> Result<(), KernelError> {
        self.scope.waits = Recordings::MAX;
        let attached = self.attach_waits_if_kept();
        if attached.is_err() {
            self.scope.waits = 0;
        }
        attached.and_then(|()| self.publish_scope())
    }

    /// Attaches the programs where a recording keeps waits and they are not attached.
    pub(super) fn attach_waits_if_kept(&mut self) -> Result<(), KernelError> {
        let is_on_demand = self.waits.is_on_demand();
        let State { links, missing, .. } = &mut self.waits;
        if self.scope.waits == 0 || !is_on_demand || !links.is_empty() {
            return Ok(());
        }
        if let Some(reason) = missing {
            let reason = reason.clone();
            return Err(KernelError::LeftOut {
                what: "--waits",
                reason,
            });
        }
        if let Availability::Ready(found) = self.hooks.of(hooks::Id::Waits) {
            for (name, hook) in &found.programs {
                let link = attach_one(&mut self.ebpf, name, hook)?;
                let program: &mut BtfTracePoint = program(&mut self.ebpf, name)?;
                let link = program.take_link(link);
                links.push(link.map_err(|error| attach_error(hook, &error))?);
            }
        }
        self.scope.waits_round += 1;
        Ok(())
    }

    /// Takes the programs off where no recording keeps waits any more.
    pub(super) fn detach_waits_unless_kept(&mut self) {
        if self.scope.waits == 0 {
            self.waits.links.clear();
        }
    }
}

fn layout(room: u64, cpus: u64) -> Layout {
    let each = room / cpus / size_of::<Wait>() as u64;
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
        assert_eq!(layout(RINGS_BYTES, 2).records, 1 << 14);
        assert_eq!(layout(RINGS_BYTES, 128).records, 1 << 11);
        assert_eq!(layout(SERVICE_RINGS_BYTES, 128).records, 1 << 10);
        assert_eq!(
            layout(RINGS_BYTES, 1024),
            Layout {
                rings: 1024,
                records: 1 << 10
            }
        );
    }
}
