//! The histograms of durations and sizes, summed over CPUs.

use aya::{
    Ebpf,
    maps::{MapData, PerCpuArray},
};
use iotrace_common::{abi::maps::HISTOGRAMS, histogram::Histograms, phases};

use super::{KernelError, map_error, maps};

/// Histograms by phase, as the kernel side numbers them.
pub type ByPhase = [Histograms; phases::COUNT];

/// The map, and what stood in it when the run began.
pub struct Counted {
    map: PerCpuArray<MapData, Histograms>,
    before: ByPhase,
}

impl Counted {
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let map = maps::take(ebpf, HISTOGRAMS)?;
        let before = ByPhase::default();
        Ok(Self { map, before })
    }

    /// Lets the counts begin at 0 now.
    pub fn zero(&mut self) -> Result<(), KernelError> {
        self.before = self.sums()?;
        Ok(())
    }

    /// The counts since [`Self::zero`].
    pub fn read(&self) -> Result<ByPhase, KernelError> {
        let mut counts = self.sums()?;
        for (now, before) in counts.iter_mut().zip(&self.before) {
            *now = now.since(before);
        }
        Ok(counts)
    }

    fn sums(&self) -> Result<ByPhase, KernelError> {
        let mut sums = ByPhase::default();
        for (phase, sum) in (0..).zip(&mut sums) {
            let values = self.map.get(&phase, 0);
            let values = values.map_err(|error| map_error(HISTOGRAMS.name, "lookup", &error))?;
            values.iter().for_each(|value| sum.add(value));
        }
        Ok(sums)
    }
}
