//! Block devices: requests of the whole host, by device and operation.

use std::{collections::BTreeMap, fmt};

use iotrace_common::{
    block::{Requests, class},
    histogram::DURATION_BOUNDS,
};
use prometheus_client::{encoding::NoLabelSet, metrics::MetricType, registry::Unit};

use super::out::{Label, Out, label, seconds};
use iotrace_model::block::{Classes, Device};

/// Devices with labels of their own; the rest is `other`.
const MAX_DEVICES: usize = 64;

impl Out<'_> {
    /// Nothing where there are no devices.
    pub fn devices(&mut self, devices: &[(Device, Classes)]) -> fmt::Result {
        if devices.is_empty() {
            return Ok(());
        }
        let by_name = by_name(devices);
        let rows = |count: fn(&Requests) -> u64| {
            let each = by_name.iter().flat_map(|(name, classes)| of(name, classes));
            each.map(move |(labels, requests)| (labels, count(requests)))
        };
        let help = "Requests to block devices that have ended.";
        let requests = rows(|requests| requests.requests);
        self.counters("iotrace_device_requests", None, help, requests)?;
        let help = "Bytes of requests to block devices.";
        let bytes = rows(|requests| requests.bytes);
        self.counters("iotrace_device", Some(&Unit::Bytes), help, bytes)?;
        let help = "Requests to block devices that failed.";
        let failures = rows(|requests| requests.failures);
        self.counters("iotrace_device_failures", None, help, failures)?;
        self.request_durations(&by_name)
    }

    fn request_durations(&mut self, by_name: &BTreeMap<&str, Classes>) -> fmt::Result {
        let (name, kind) = ("iotrace_device_request_duration", MetricType::Histogram);
        let help = "Time of requests to block devices, from their issue to their end.";
        let mut metric = self
            .0
            .encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        for (name, classes) in by_name {
            for (labels, requests) in of(name, classes) {
                let bounds = DURATION_BOUNDS.into_iter().map(seconds).chain([f64::MAX]);
                let buckets: Vec<(f64, u64)> = bounds.zip(requests.durations).collect();
                metric
                    .encode_family(&labels.as_slice())?
                    .encode_histogram::<NoLabelSet>(
                        seconds(requests.ns),
                        requests.requests,
                        &buckets,
                        None,
                    )?;
            }
        }
        Ok(())
    }
}

/// Classes of a device that there were requests of, with their labels.
fn of<'a>(
    name: &'a str,
    classes: &'a Classes,
) -> impl Iterator<Item = (Vec<Label<'a>>, &'a Requests)> {
    let named = class::NAMES.into_iter().zip(classes);
    named
        .filter(|(_, requests)| requests.requests > 0)
        .map(move |(class, requests)| {
            (
                vec![label("device", name), label("operation", class)],
                requests,
            )
        })
}

/// Sums by name: a device that went and came back may have another number.
fn by_name(devices: &[(Device, Classes)]) -> BTreeMap<&str, Classes> {
    let mut sums = BTreeMap::<&str, Classes>::new();
    for (device, classes) in devices {
        let is_known = sums.contains_key(device.name.as_str()) || sums.len() < MAX_DEVICES;
        let name = if is_known { &device.name } else { "other" };
        for (sum, requests) in sums.entry(name).or_default().iter_mut().zip(classes) {
            sum.add(requests);
        }
    }
    sums
}
