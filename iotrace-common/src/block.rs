//! The block layer: what is counted of requests to devices, and of whose bytes they move.

use core::mem::size_of;

use crate::{histogram::DURATIONS, key::FileId};

/// What a request asks of a device, sorted as /proc/diskstats sorts it.
pub mod class {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes, and whatever else changes what a device holds: zeroes that it writes by itself, secure erasure.
    pub const WRITE: u16 = 1;
    /// Flushes of the device's own cache.
    pub const FLUSH: u16 = 2;
    /// Discards.
    pub const DISCARD: u16 = 3;
    /// Number of classes.
    pub const COUNT: usize = 4;
    /// Names of the classes, by index, as they appear in reports, recordings and metrics.
    pub const NAMES: [&str; COUNT] = ["read", "write", "flush", "discard"];
}

/// Key of the counters of a device. One CPU writes an entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceKey {
    /// Number of the whole disk, in the kernel's encoding: major << 20 | minor.
    pub device: u32,
    /// One of [`class`].
    pub class: u16,
    pub cpu: u16,
}

/// Requests to one device, of one class, that have ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed; in the counts above, too.
    pub failures: u64,
    /// From their issue to the driver to their end, summed, nanoseconds: over a span of time the mean number in flight.
    pub ns: u64,
    /// Most requests of any class that were in flight at the device when one of these was issued, itself included.
    pub deepest: u64,
    /// Requests by duration ([`crate::histogram::DURATION_BOUNDS`]).
    pub durations: [u64; DURATIONS],
}

impl Requests {
    /// Adds what another CPU, or another time, has counted.
    pub fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.failures = self.failures.saturating_add(other.failures);
        self.ns = self.ns.saturating_add(other.ns);
        self.deepest = self.deepest.max(other.deepest);
        for (sum, calls) in self.durations.iter_mut().zip(other.durations) {
            *sum = sum.saturating_add(calls);
        }
    }
}

/// Key of the counters of what is moved between devices and a file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TransferKey {
    /// The file; none where it is that of a filesystem's own records, or of none that is known.
    pub file: FileId,
    /// The process whose thread asked for it; 0: a thread of the kernel, or of a process that is not traced.
    pub tgid: u32,
    /// [`crate::key::start_key`] of the process.
    pub start: u32,
}

/// What was asked of devices, as the filesystem asked: before it is split or merged into requests.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

const _: () = {
    assert!(size_of::<DeviceKey>() == 8);
    assert!(size_of::<Requests>() == 8 * (5 + DURATIONS));
    assert!(size_of::<TransferKey>() == 24);
    assert!(size_of::<Transfers>() == 32);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::DeviceKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Requests {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::TransferKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Transfers {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_add_and_the_deepest_is_the_largest() {
        let mut one = Requests {
            requests: 2,
            deepest: 5,
            ..Requests::default()
        };
        one.durations[3] = 2;
        let other = Requests { deepest: 4, ..one };
        one.add(&other);
        assert_eq!((one.requests, one.deepest, one.durations[3]), (4, 5, 4));
    }
}
