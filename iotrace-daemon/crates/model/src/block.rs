//! What block devices did, and whose bytes they moved.
//!
//! Of devices it is what the whole host asked of them, not only what is traced.

use std::collections::BTreeMap;

use iotrace_common::{
    block::{Requests, Transfers, class},
    histogram::{DURATION_BOUNDS, DURATIONS},
};

use super::counters::{saturating_add, saturating_sum};

/// Requests to a device by class.
pub type Classes = [Requests; class::COUNT];

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Its number, in the kernel's encoding: major << 20 | minor.
    pub number: u32,
    /// Its name in /dev.
    pub name: String,
}

impl Device {
    /// Its number as `major:minor`.
    pub fn numbers(&self) -> String {
        format!("{}:{}", self.number >> 20, self.number & 0xf_ffff)
    }
}

/// Whose bytes: the process, and the file, by their indices. No process: threads of the kernel, or a process that is not
/// traced. No file: a filesystem's own records, or one that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub process: Option<u32>,
    pub file: Option<u32>,
}

/// What was counted of the block layer.
#[derive(Debug, Default)]
pub struct Block {
    /// Since the last [`Block::settle`].
    interval: BTreeMap<Device, Classes>,
    /// Of the whole run, by node.
    devices: BTreeMap<(u32, Device), Classes>,
    /// Total, and the part of it that came since the last flush.
    transfers: BTreeMap<Owner, (Transfers, Transfers)>,
}

impl Block {
    /// Adds what a device did, of the first node.
    pub fn add_device(&mut self, device: Device, requests: &Classes) {
        absorb(self.interval.entry(device.clone()).or_default(), requests);
        absorb(self.devices.entry((0, device)).or_default(), requests);
    }

    /// Adds what was moved.
    pub(super) fn add_transfers(&mut self, owner: Owner, transfers: &Transfers) {
        let (total, interval) = self.transfers.entry(owner).or_default();
        for sum in [total, interval] {
            add(sum, transfers);
        }
    }

    /// Devices by node and number.
    pub fn devices(&self) -> impl Iterator<Item = (u32, &Device, &Classes)> {
        let devices = self.devices.iter();
        devices.map(|((node, device), classes)| (*node, device, classes))
    }

    /// The same since the last [`Block::settle`].
    pub fn interval_of_devices(&self) -> impl Iterator<Item = (&Device, &Classes)> {
        self.interval.iter()
    }

    /// What was moved, by whose it is.
    pub fn transfers(&self) -> impl Iterator<Item = (Owner, &Transfers)> {
        let transfers = self.transfers.iter();
        transfers.map(|(owner, (total, _))| (*owner, total))
    }

    /// The same since the last [`Block::settle`].
    pub fn interval_of_transfers(&self) -> impl Iterator<Item = (Owner, &Transfers)> {
        let recent = self.transfers.iter();
        let recent = recent.filter(|(_, (_, new))| *new != Transfers::default());
        recent.map(|(owner, (_, new))| (*owner, new))
    }

    /// Whether there is anything since the last [`Block::settle`].
    pub fn has_news(&self) -> bool {
        !self.interval.is_empty() || self.interval_of_transfers().next().is_some()
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        self.interval.clear();
        let transfers = self.transfers.values_mut();
        transfers.for_each(|(_, interval)| *interval = Transfers::default());
    }

    /// Leaves the bytes of files that are kept. What devices did stays: it is that of the whole host.
    pub(super) fn select_files(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.transfers
            .retain(|owner, _| owner.file.is_some_and(&is_kept));
    }

    /// Adds the data of another node, whose processes begin at `processes` and whose files are `files` here.
    pub(super) fn append(&mut self, other: Self, node: u32, processes: u32, files: &[u32]) {
        for ((_, device), classes) in other.devices {
            absorb(self.devices.entry((node, device)).or_default(), &classes);
        }
        for (owner, (total, _)) in other.transfers {
            let here = Owner {
                process: owner.process.map(|process| process + processes),
                file: owner.file.map(|file| files[file as usize]),
            };
            add(&mut self.transfers.entry(here).or_default().0, &total);
        }
    }
}

fn absorb(sums: &mut Classes, more: &Classes) {
    for (sum, requests) in sums.iter_mut().zip(more) {
        sum.add(requests);
    }
}

/// Adds what was moved.
pub fn add(sum: &mut Transfers, more: &Transfers) {
    saturating_add(&mut sum.reads, more.reads);
    saturating_add(&mut sum.writes, more.writes);
    saturating_add(&mut sum.bytes_read, more.bytes_read);
    saturating_add(&mut sum.bytes_written, more.bytes_written);
}

/// A duration that `share` of the requests took no more than, nanoseconds: a bound of a bucket. `None`: without requests,
/// or beyond the last bound.
pub fn quantile(durations: &[u64; DURATIONS], share: f64) -> Option<u64> {
    let all = saturating_sum(durations.iter().copied());
    let wanted = ((all as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let bucket = durations.iter().position(|calls| {
        saturating_add(&mut seen, *calls);
        seen >= wanted
    })?;
    DURATION_BOUNDS.get(bucket).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_bounds_that_enough_lie_below() {
        let mut durations = [0; DURATIONS];
        assert_eq!(quantile(&durations, 0.5), None);
        durations[2] = 99;
        durations[4] = 1;
        assert_eq!(quantile(&durations, 0.5), Some(10_000));
        assert_eq!(quantile(&durations, 0.99), Some(10_000));
        assert_eq!(quantile(&durations, 0.999), Some(100_000));
        durations[DURATIONS - 1] = 1_000;
        assert_eq!(quantile(&durations, 0.5), None, "beyond the last bound");
    }

    #[test]
    fn intervals_add_up() {
        let disk = Device {
            number: 7 << 20 | 1,
            name: "loop1".into(),
        };
        let mut classes = Classes::default();
        classes[0].requests = 3;
        let mut block = Block::default();
        block.add_device(disk.clone(), &classes);
        block.settle();
        assert_eq!(block.interval_of_devices().count(), 0);
        block.add_device(disk.clone(), &classes);
        assert_eq!(block.interval_of_devices().next().unwrap().1[0].requests, 3);
        let (node, device, total) = block.devices().next().unwrap();
        assert_eq!((node, device.numbers().as_str()), (0, "7:1"));
        assert_eq!(total[0].requests, 6);
    }
}
