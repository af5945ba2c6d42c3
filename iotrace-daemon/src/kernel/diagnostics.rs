//! What the programs did not count, or not in full, by reason.

use std::collections::BTreeMap;

use aya::maps::{MapData, PerCpuArray};
use iotrace_common::diag;

use super::{KernelError, map_error};

/// Counts by reason.
pub type Losses = BTreeMap<String, u64>;

/// The diagnostics array, and what stood in it when the run began.
pub struct Diagnostics {
    map: PerCpuArray<MapData, u64>,
    before: [u64; diag::COUNT],
}

impl Diagnostics {
    pub fn new(map: PerCpuArray<MapData, u64>) -> Self {
        Self {
            map,
            before: [0; diag::COUNT],
        }
    }

    /// Lets the counts begin at 0 now.
    pub fn zero(&mut self) -> Result<(), KernelError> {
        self.before = self.sums()?;
        Ok(())
    }

    /// The counts since [`Self::zero`], and `recursion_misses`.
    pub fn losses(&self, recursion_misses: u64) -> Result<Losses, KernelError> {
        let mut losses: Losses = diag::NAMES
            .iter()
            .zip(self.sums()?.iter().zip(&self.before))
            .map(|(name, (now, before))| ((*name).to_owned(), now - before))
            .collect();
        losses.insert("recursion_misses".into(), recursion_misses);
        Ok(losses)
    }

    /// The counts since the load, summed over CPUs.
    fn sums(&self) -> Result<[u64; diag::COUNT], KernelError> {
        let mut sums = [0; diag::COUNT];
        for (index, sum) in sums.iter_mut().enumerate() {
            let values = self
                .map
                .get(&(index as u32), 0)
                .map_err(|error| map_error("DIAGNOSTICS", "lookup", &error))?;
            *sum = values.iter().sum();
        }
        Ok(sums)
    }
}

/// What is left of the kernel side when its hooks are off.
pub struct Detached {
    pub(super) diagnostics: Diagnostics,
    pub(super) recursion_misses: u64,
}

impl Detached {
    /// As [`super::Kernel::losses`]; final once the programs that still ran have ended.
    pub fn losses(&self) -> Result<Losses, KernelError> {
        self.diagnostics.losses(self.recursion_misses)
    }
}
