//! What the programs did not count, or not in full, by reason.

use std::{collections::BTreeMap, fs};

use aya::{
    Ebpf,
    maps::{HashMap, MapData, PerCpuArray},
};
use iotrace_common::{
    abi::maps::{DEVICES, DIAGNOSTICS},
    diag,
    value::{BLOCK_DEVICE, DeviceMappings},
};
use iotrace_model::counters::{saturating_add, saturating_sum};

use super::{KernelError, copies::Missed, map_error, maps};

/// Counts by reason.
pub type Losses = BTreeMap<String, u64>;

/// The diagnostics array, and what stood in it when the run began.
pub struct Diagnostics {
    map: PerCpuArray<MapData, u64>,
    devices: HashMap<MapData, u64, DeviceMappings>,
    before: [u64; diag::COUNT],
}

impl Diagnostics {
    /// Takes the maps out of the loaded programs.
    pub fn take(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        Ok(Self {
            map: maps::take(ebpf, DIAGNOSTICS)?,
            devices: maps::take(ebpf, DEVICES)?,
            before: [0; diag::COUNT],
        })
    }

    /// Lets the counts begin at 0 now.
    pub fn zero(&mut self) -> Result<(), KernelError> {
        self.before = self.sums()?;
        Ok(())
    }

    /// The counts since [`Self::zero`], and what the programs missed; mappings of devices since the load.
    pub fn losses(&self, missed: Missed) -> Result<Losses, KernelError> {
        let mut losses: Losses = diag::NAMES
            .iter()
            .zip(self.sums()?.iter().zip(&self.before))
            .map(|(name, (now, before))| ((*name).to_owned(), now.saturating_sub(*before)))
            .collect();
        let misses = diag::MISSES.iter().map(|(name, _)| (*name).to_owned());
        losses.extend(misses.zip(missed));
        let kinds = diag::SKIPPED_KINDS.iter();
        let kinds = saturating_sum(kinds.map(|kind| losses[diag::NAMES[*kind as usize]]));
        let skipped = losses.entry(diag::NAMES[diag::SKIPPED as usize].into());
        saturating_add(skipped.or_default(), kinds);
        for device in self.devices.iter() {
            let (key, known) = device.map_err(|error| map_error(DEVICES.name, "lookup", &error))?;
            let name = device_name(key);
            losses.insert(format!("{}{name}", diag::DEVICE_MAPPINGS), known.mappings);
            losses.insert(format!("{}{name}", diag::DEVICE_MAPPED_BYTES), known.bytes);
        }
        Ok(losses)
    }

    /// The counts since the load, summed over CPUs.
    fn sums(&self) -> Result<[u64; diag::COUNT], KernelError> {
        let mut sums = [0; diag::COUNT];
        for (index, sum) in sums.iter_mut().enumerate() {
            let values = self
                .map
                .get(&(index as u32), 0)
                .map_err(|error| map_error(DIAGNOSTICS.name, "lookup", &error))?;
            *sum = saturating_sum(values.iter().copied());
        }
        Ok(sums)
    }
}

/// The name of a device in `/dev`, or its number where it has none.
fn device_name(key: u64) -> String {
    let kind = if key & BLOCK_DEVICE != 0 {
        "block"
    } else {
        "char"
    };
    let number = format!("{}:{}", (key as u32) >> 20, key & 0xf_ffff);
    let about = fs::read_to_string(format!("/sys/dev/{kind}/{number}/uevent")).unwrap_or_default();
    let name = about.lines().find_map(|line| line.strip_prefix("DEVNAME="));
    match name {
        Some(name) => format!("/dev/{name}"),
        None => format!("{kind} {number}"),
    }
}

/// What is left of the kernel side when its hooks are off.
pub struct Detached {
    pub(super) diagnostics: Diagnostics,
    pub(super) missed: Missed,
}

impl Detached {
    /// As [`super::Kernel::losses`]; final once the programs that still ran have ended.
    pub fn losses(&self) -> Result<Losses, KernelError> {
        self.diagnostics.losses(self.missed)
    }
}
