//! `devices.parquet`: requests to block devices that ended in the interval, by device and operation.

use iotrace_common::{block::Requests, histogram::DURATIONS};
use iotrace_model::{
    block::{Classes, Device},
    history::Bounds,
};

use super::{Part, Restored};
use crate::columns::{self, Buckets, Damage, Derived, DeviceClass, row};

row! {
    pub struct Row<'a> in "devices" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the whole disk, as `major:minor`
        device: columns::Device,
        /// the same as in `/dev`: `nvme0n1`
        device_name: &'a str,
        /// `read`, `write` (including zeroes that the device writes by itself), `flush`, `discard`
        operation: DeviceClass,
        /// requests as in `/proc/diskstats`, failed ones included
        requests: u64,
        /// their bytes
        bytes: u64,
        /// requests, or parts of one, that ended with an error
        failures: u64,
        /// time from the issue to the driver to the end, summed; divided by elapsed time, the mean number in flight
        requests_ns: u64,
        /// most requests of all operations in flight at the device when one of these was issued
        most_in_flight: u64,
        /// requests by time; bucket 0 is up to 1 us, then 3, 10, 30, ... us, up to 10 s in bucket 14; bucket 15 is above
        durations: Buckets<DURATIONS>,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let devices = part.model.block().interval_of_devices();
    let by_class = devices.flat_map(|(device, classes)| {
        let classes = classes.iter().enumerate();
        let used = classes.filter(|(_, requests)| **requests != Requests::default());
        used.map(move |(class, requests)| (device, class, requests))
    });
    by_class.map(move |(device, class, requests)| Row {
        interval: part.interval,
        host: Derived(&part.run.host),
        device: columns::Device(device.number),
        device_name: &device.name,
        operation: DeviceClass(class),
        requests: requests.requests,
        bytes: requests.bytes,
        failures: requests.failures,
        requests_ns: requests.ns,
        most_in_flight: requests.deepest,
        durations: Buckets(requests.durations),
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let device = Device {
        number: row.device.0,
        name: row.device_name.to_owned(),
    };
    let mut classes = Classes::default();
    classes[row.operation.0] = Requests {
        requests: row.requests,
        bytes: row.bytes,
        failures: row.failures,
        ns: row.requests_ns,
        deepest: row.most_in_flight,
        durations: row.durations.0,
    };
    into.model.block_mut().add_device(device, &classes);
    into.cover(row.interval);
    Ok(())
}
