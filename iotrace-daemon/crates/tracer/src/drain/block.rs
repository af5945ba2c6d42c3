//! What was counted of the block layer: two maps in two generations, and the names of the devices.

use std::{collections::BTreeMap, fs};

use iotrace_common::{
    abi::maps,
    block::{DeviceKey, Requests, TransferKey, Transfers},
};

use super::{
    Batch,
    batch::Entries,
    generations::{Generations, Pair},
};
use crate::kernel::{Kernel, KernelError};
use iotrace_model::block::{Classes, Device};

/// The maps.
pub struct Block {
    devices: Generations<DeviceKey, Requests>,
    files: Generations<TransferKey, Transfers>,
    names: BTreeMap<u32, String>,
}

impl Block {
    /// Takes the maps out of the loaded programs, where they fill them.
    pub fn take(kernel: &mut Kernel) -> Result<Option<Self>, KernelError> {
        if !kernel.counts_block() {
            return Ok(None);
        }
        Ok(Some(Self {
            devices: Generations::take(kernel, maps::BLOCK_DEVICES)?,
            files: Generations::take(kernel, maps::BLOCK_FILES)?,
            names: BTreeMap::new(),
        }))
    }

    pub fn pairs(&mut self) -> [&mut dyn Pair; 2] {
        [&mut self.devices, &mut self.files]
    }

    /// Empties them; how many entries there were.
    pub fn sweep(
        &mut self,
        idle: usize,
        last: bool,
        sink: &mut impl FnMut(Batch),
    ) -> Result<usize, KernelError> {
        let mut sums = BTreeMap::new();
        let devices = self
            .devices
            .sweep(idle, last, |entries| add(&mut sums, &entries))?;
        let named = sums.into_iter().map(|(number, classes)| {
            let name = self.names.entry(number).or_insert_with(|| name_of(number));
            let device = Device {
                number,
                name: name.clone(),
            };
            (device, classes)
        });
        let named: Vec<(Device, Classes)> = named.collect();
        if !named.is_empty() {
            sink(Batch::Devices(named));
        }
        let files = self
            .files
            .sweep(idle, last, |entries| sink(Batch::Transfers(entries)))?;
        Ok(devices + files)
    }
}

fn add(sums: &mut BTreeMap<u32, Classes>, (keys, values): &Entries<DeviceKey, Requests>) {
    for (key, requests) in keys.iter().zip(values) {
        let classes = sums.entry(key.device).or_default();
        if let Some(sum) = classes.get_mut(usize::from(key.class)) {
            sum.add(requests);
        }
    }
}

/// Name of a device as it stands in /dev; its number where it has gone.
fn name_of(number: u32) -> String {
    let number = format!("{}:{}", number >> 20, number & 0xf_ffff);
    let events = fs::read_to_string(format!("/sys/dev/block/{number}/uevent"));
    let name = events.as_deref().unwrap_or_default().lines();
    let mut name = name.filter_map(|line| line.strip_prefix("DEVNAME="));
    name.next().map_or(number, str::to_owned)
}
