//! How long operations took, of the units that the configuration names and of those that are logged.

use std::collections::BTreeMap;

use iotrace_model::{
    Model,
    latencies::{Histogram, Operations},
};
use iotrace_phases::phase::Phase;

use super::{Intake, labels::mount};
use crate::totals::{MountId, NO_MOUNT, Totals, UnitId};

impl Intake {
    /// Takes how long the operations of the interval took. There are none where nobody is told of it.
    pub(super) fn take_latencies(&mut self, model: &mut Model, totals: &mut Totals) {
        let mut sums: BTreeMap<(UnitId, Operations), Histogram> = BTreeMap::new();
        let latencies: Vec<_> = model.take_latencies().collect();
        for (process, of, done) in latencies {
            let unit = self.processes.unit_of(process, totals);
            if totals
                .units()
                .get(unit)
                .is_some_and(|unit| self.latencies.has(unit))
            {
                sums.entry((unit, of)).or_default().absorb(&done);
            }
            if let Some(jobs) = &mut self.jobs {
                jobs.latencies(unit, process, of, done);
            }
        }
        for ((unit, of), done) in sums {
            let mount = mount_of(of.device, model, totals);
            let key = (mount, Phase::from_code(of.phase), of.class.into());
            totals.set_beside(unit, |beside| {
                let durations = beside.latencies.entry(key);
                durations.or_default().add(&done);
            });
        }
    }
}

/// The label of the first mount of a device.
fn mount_of(device: u32, model: &Model, totals: &mut Totals) -> MountId {
    if device == 0 {
        return NO_MOUNT;
    }
    let (mount_point, fs_type) = model.mount_at(device, &[]);
    let labels = mount(mount_point, fs_type);
    totals.mount_id(&labels)
}
