//! Merged time over all processes: the map of it, which only grows, as what came since the last look.

use aya::maps::{MapData, PerCpuArray};
use iotrace_common::{
    abi::maps::TOGETHER_NS,
    global_merged::{GROUPS, Time},
};

use crate::kernel::{Kernel, KernelError, map_error};
use iotrace_model::{counters::saturating_add, global_merged::Times};

/// The map, and what stood in it at the last look.
pub struct GlobalMerged {
    map: PerCpuArray<MapData, Time>,
    before: Times,
}

impl GlobalMerged {
    /// Takes the map out of the loaded programs, where they keep it.
    pub fn take(kernel: &mut Kernel) -> Result<Option<Self>, KernelError> {
        if !kernel.merges_all() {
            return Ok(None);
        }
        let map = kernel.take(TOGETHER_NS)?;
        let before = Times::default();
        Ok(Some(Self { map, before }))
    }

    /// What came since the last look.
    pub fn look(&mut self) -> Result<Times, KernelError> {
        let mut news = [Time::default(); GROUPS];
        for (group, (news, before)) in (0..).zip(news.iter_mut().zip(&mut self.before)) {
            let values = self.map.get(&group, 0);
            let values = values.map_err(|error| map_error(TOGETHER_NS.name, "look up", &error))?;
            let mut now = Time::default();
            for value in values.iter() {
                saturating_add(&mut now.ns, value.ns);
                saturating_add(&mut now.uncertain_ns, value.uncertain_ns);
            }
            news.ns = now.ns.saturating_sub(before.ns);
            news.uncertain_ns = now.uncertain_ns.saturating_sub(before.uncertain_ns);
            *before = now;
        }
        Ok(news)
    }
}
