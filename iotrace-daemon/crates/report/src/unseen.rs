//! I/O that iotrace knows it did not trace: it shows in no counter, so it is counted and named here.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::{diag, op};
use serde::Serialize;

use super::{Report, text::escape};
use iotrace_model::counters::*;

/// Files that are listed by name.
const MAX_NAMES: usize = 20;

/// Filesystems that have a cache of their own, of which the kernel's page cache tells nothing.
const OWN_CACHE: [&str; 1] = ["zfs"];

/// All of it, as `not_seen` in the JSON report (docs/reference/report-json.md).
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unseen {
    pub mapped_devices: Vec<Device>,
    pub direct_files: Direct,
    pub own_cache: Vec<OwnCache>,
    pub aio_requests: u64,
    pub fetched_by_kernel_bytes: u64,
    pub skipped: Skipped,
}

/// A device that programs mapped.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    pub device: String,
    pub mappings: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// Files opened with O_DIRECT that no call reads or writes, and no mapping.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Direct {
    pub files: u64,
    pub opens: u64,
    /// The first of them, by name.
    pub paths: Vec<String>,
}

/// Files on filesystems that have a cache of their own: whether a read came from storage is not known.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct OwnCache {
    pub mount_point: String,
    pub fs_type: String,
    pub files: u64,
    pub bytes_read: u64,
}

/// Operations on what is no file.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub sockets: u64,
    pub pipes: u64,
    pub character_devices: u64,
    pub block_devices: u64,
    /// Event descriptors, timers and the like.
    pub others: u64,
}

impl Skipped {
    /// What each is called, and how many there are.
    pub fn kinds(&self) -> [(&'static str, u64); 5] {
        [
            ("sockets", self.sockets),
            ("pipes", self.pipes),
            (
                "terminals and other character devices",
                self.character_devices,
            ),
            ("block devices", self.block_devices),
            ("other descriptors", self.others),
        ]
    }
}

impl Report<'_> {
    /// What is known not to be seen.
    pub fn unseen(&self) -> Unseen {
        let count = |index: u32| {
            let known = self.run.losses.get(diag::NAMES[index as usize]);
            known.copied().unwrap_or(0)
        };
        let [sockets, pipes, character_devices, block_devices] = diag::SKIPPED_KINDS.map(count);
        let kinds = sockets + pipes + character_devices + block_devices;
        Unseen {
            mapped_devices: self.mapped_devices(),
            direct_files: self.direct_files(),
            own_cache: self.own_cache(),
            aio_requests: count(diag::AIO_UNSEEN),
            fetched_by_kernel_bytes: count(diag::FETCHED_BY_KERNEL),
            skipped: Skipped {
                sockets,
                pipes,
                character_devices,
                block_devices,
                others: count(diag::SKIPPED).saturating_sub(kinds),
            },
        }
    }

    fn mapped_devices(&self) -> Vec<Device> {
        let mut devices: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (name, count) in &self.run.losses {
            if let Some(device) = name.strip_prefix(diag::DEVICE_MAPPINGS) {
                devices.entry(device).or_default().0 = *count;
            } else if let Some(device) = name.strip_prefix(diag::DEVICE_MAPPED_BYTES) {
                devices.entry(device).or_default().1 = *count;
            }
        }
        let devices = devices.into_iter();
        devices
            .map(|(device, (mappings, bytes))| Device {
                device: device.into(),
                mappings,
                bytes,
            })
            .collect()
    }

    fn direct_files(&self) -> Direct {
        // Opens by file, until it is used.
        let mut opens: HashMap<u32, u64> = HashMap::new();
        for row in self.model.rows_with(DIRECT_OPENS) {
            let opened = row.cell.total().v[DIRECT_OPENS];
            saturating_add(opens.entry(row.file).or_default(), opened);
        }
        if opens.is_empty() {
            return Direct::default();
        }
        let moves = (0..op::COUNT).filter(|class| op::moves_bytes(*class));
        let used: Vec<usize> = moves.chain([MMAPS]).collect();
        for row in self.model.rows() {
            if used.iter().any(|index| row.cell.has(*index)) {
                opens.remove(&row.file);
            }
        }
        let path = |file: &u32| escape(self.model.file(*file).path);
        let mut paths: Vec<String> = opens.keys().map(path).collect();
        paths.sort_unstable();
        paths.truncate(MAX_NAMES);
        Direct {
            files: opens.len() as u64,
            opens: saturating_sum(opens.values().copied()),
            paths,
        }
    }

    fn own_cache(&self) -> Vec<OwnCache> {
        let mounts = self.mounts.iter();
        mounts
            .filter(|((_, fs_type), sum)| OWN_CACHE.contains(&fs_type.as_str()) && sum.files > 0)
            .map(|((mount_point, fs_type), sum)| OwnCache {
                mount_point: escape(mount_point),
                fs_type: fs_type.clone(),
                files: sum.files,
                bytes_read: sum.io.bytes_read,
            })
            .collect()
    }
}
