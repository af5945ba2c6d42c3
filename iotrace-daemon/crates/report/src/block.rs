//! Block devices, and the bytes that they moved for processes and files, summed up.

use std::collections::BTreeMap;

use iotrace_common::block::{Requests, Transfers, class};

use super::Report;
use iotrace_model::block::{Classes, Device, add, quantile};

/// What was moved for one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfFile {
    /// By whomever.
    pub all: Transfers,
    /// The part that no traced process asked for: threads of the kernel, and processes that sync.
    pub by_kernel: Transfers,
}

/// What was moved, by whose it is.
#[derive(Debug, Default)]
pub struct Moves {
    /// By index of the process.
    pub processes: BTreeMap<u32, Transfers>,
    /// By index of the file.
    pub files: BTreeMap<u32, OfFile>,
    pub all: Transfers,
    /// The part that no traced process asked for.
    pub by_kernel: Transfers,
    /// The part that belongs to no file.
    pub of_no_file: Transfers,
}

/// A device of a node.
pub struct OfDevice<'a> {
    pub node: u32,
    pub device: &'a Device,
    pub classes: &'a Classes,
}

impl OfDevice<'_> {
    /// Requests of all classes.
    pub fn all(&self) -> Requests {
        self.classes
            .iter()
            .fold(Requests::default(), |mut sum, requests| {
                sum.add(requests);
                sum
            })
    }

    /// Classes that there were requests of, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Requests)> {
        let named = class::NAMES.into_iter().zip(self.classes);
        named.filter(|(_, requests)| requests.requests > 0)
    }
}

impl Report<'_> {
    /// Devices that anything was asked of, by node and number.
    pub(super) fn devices(&self) -> Vec<OfDevice<'_>> {
        let devices = self.model.block().devices();
        let devices = devices.map(|(node, device, classes)| OfDevice {
            node,
            device,
            classes,
        });
        devices
            .filter(|device| device.named().next().is_some())
            .collect()
    }

    /// Bytes moved between devices and files.
    pub(super) fn moves(&self) -> Moves {
        let mut moves = Moves::default();
        for (owner, transfers) in self.model.block().transfers() {
            add(&mut moves.all, transfers);
            match owner.process {
                Some(process) => add(moves.processes.entry(process).or_default(), transfers),
                None => add(&mut moves.by_kernel, transfers),
            }
            match owner.file {
                Some(file) => {
                    let of_file = moves.files.entry(file).or_default();
                    add(&mut of_file.all, transfers);
                    if owner.process.is_none() {
                        add(&mut of_file.by_kernel, transfers);
                    }
                }
                None => add(&mut moves.of_no_file, transfers),
            }
        }
        moves
    }
}

/// Requests that were in flight on average over `span_ns`; 0 without a span.
pub fn mean_in_flight(requests: &Requests, span_ns: u64) -> f64 {
    if span_ns == 0 {
        0.0
    } else {
        requests.ns as f64 / span_ns as f64
    }
}

/// What half of the requests, and 99 of 100, took at most, nanoseconds.
pub fn quantiles(requests: &Requests) -> [Option<u64>; 2] {
    [0.5, 0.99].map(|share| quantile(&requests.durations, share))
}
