//! Files that were mapped: what is read through a mapping makes no call.

use std::collections::BTreeMap;

use super::uses::Uses;
use iotrace_model::{
    Model,
    counters::{BYTES_READ, MMAPS, saturating_add},
};

/// Mapped files that were not read as a whole too, of some kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    pub files: u64,
    /// Their size: how much of it was used is not known.
    pub bytes: u64,
}

impl Mapped {
    /// Sums up files of these sizes.
    pub fn of(sizes: impl Iterator<Item = u64>) -> Self {
        let mut sum = Self::default();
        for size in sizes {
            sum.files += 1;
            saturating_add(&mut sum.bytes, size);
        }
        sum
    }
}

/// The sizes of the files that a process mapped and did not read as a whole too, by index.
pub fn mapped_files(model: &Model, uses: &Uses) -> BTreeMap<u32, u64> {
    let rows = model.rows_with(MMAPS).filter_map(|row| {
        let size = uses.sizes[row.file as usize];
        (row.cell.total().v[BYTES_READ] < size).then_some((row.file, size))
    });
    rows.collect()
}
