//! Whether page-cache hits are known from what was fetched from storage: reads that bypass the cache fetch nothing into it.

use iotrace_model::{
    Model,
    counters::{BYTES_FETCHED, BYTES_READ, FAULTS},
};

/// Filesystems whose reads go through the page cache but for O_DIRECT, and those without storage. Not among them are
/// those that may go around it unseen: FUSE with direct I/O, ZFS and Spectrum Scale with caches of their own.
const THROUGH_PAGE_CACHE: [&str; 27] = [
    "bcachefs",
    "btrfs",
    "cgroup",
    "cgroup2",
    "cifs",
    "devtmpfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "iso9660",
    "nfs",
    "nfs4",
    "ntfs3",
    "overlay",
    "proc",
    "ramfs",
    "securityfs",
    "smb3",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "vfat",
    "xfs",
];

/// Whether it does for all that was read.
pub fn is_known(model: &Model) -> bool {
    let rows = model.rows_with(BYTES_READ);
    is_known_of(model, rows.map(|row| row.file))
}

/// Whether it does for these files.
pub fn is_known_of(model: &Model, mut files: impl Iterator<Item = u32>) -> bool {
    is_told(model) && files.all(|file| goes_through(model, file))
}

/// Whether reads of a file go through the page cache, but for those with O_DIRECT.
pub fn goes_through(model: &Model, file: u32) -> bool {
    THROUGH_PAGE_CACHE.contains(&model.mount_of(&model.file(file)).1)
}

/// Whether fetches from storage were counted: if so, at least the program itself was fetched or mapped.
pub fn is_told(model: &Model) -> bool {
    let mut rows = model.rows().iter();
    rows.any(|row| row.cell.has(BYTES_FETCHED) || row.cell.has(FAULTS))
}
