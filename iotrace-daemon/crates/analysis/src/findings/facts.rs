//! Sums over rows that several findings use: by file and by mount.

use std::collections::BTreeMap;

use iotrace_common::op;

use super::{Data, long_call, thresholds::SAMPLE_OPENS_PER_FILE};
use iotrace_model::counters::*;
use iotrace_phases::{
    phase::{Direction, Phase},
    used::Used,
};

/// What was done with one file in one phase, by all processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileFacts {
    pub file: u32,
    pub phase: Option<Phase>,
    /// Reads that returned something, transfers included, and writes.
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub meta_ns: u64,
    /// Syncs of the file, and nanoseconds in them, which are in `write_ns` too.
    pub syncs: u64,
    pub sync_ns: u64,
    pub opens: u64,
    /// Reads of 1 byte to 10 KiB, and writes of at most 10 KiB (detail full).
    pub tiny_reads: u64,
    pub tiny_writes: u64,
    /// Opens after which one process read a small part of the file only.
    pub sample_opens: u64,
    /// Bytes that reads fetched from storage, where most of what was read came from there, and nanoseconds in these reads.
    pub stored_bytes: u64,
    pub stored_ns: u64,
    /// Bytes read after these opens, and nanoseconds in reads and metadata.
    pub sample_bytes: u64,
    pub sample_read_ns: u64,
    pub sample_meta_ns: u64,
}

/// What was read and written on one mount.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountFacts {
    pub bytes: u64,
    /// Nanoseconds in reads, writes and syncs.
    pub data_ns: u64,
    /// Of reads that went to storage: the bytes, and nanoseconds in reads of the files they are of.
    pub stored_bytes: u64,
    pub stored_ns: u64,
    /// Nanoseconds in all calls.
    pub ns: u64,
    /// Of training files.
    pub training_bytes: u64,
    pub training_ns: u64,
    pub training_files: u64,
    /// Sizes of these files.
    pub training_size: u64,
}

/// The sums.
pub struct Facts {
    /// By file and phase.
    pub files: Vec<FileFacts>,
    /// By mount point and filesystem type.
    pub mounts: BTreeMap<(Vec<u8>, String), MountFacts>,
    /// Commonest access sizes by phase: size and calls.
    pub sizes: BTreeMap<Phase, BTreeMap<u64, u64>>,
    /// The longest of all calls, those on directories included.
    pub longest_call: Option<long_call::Call>,
}

impl Facts {
    pub fn new(data: &Data<'_>) -> Self {
        let model = data.model;
        let per_file = data.limit(SAMPLE_OPENS_PER_FILE);
        let mut rows: Vec<_> = model.rows().iter().collect();
        rows.sort_by_key(|row| row.file);
        let mut facts = Self {
            files: Vec::new(),
            mounts: BTreeMap::new(),
            sizes: BTreeMap::new(),
            longest_call: None,
        };
        for of_file in rows.chunk_by(|a, b| a.file == b.file) {
            let index = of_file[0].file;
            let file = model.file(index);
            let is_directory = file.is_directory();
            let sorted = &data.sorted[index as usize];
            let mut by_phase: BTreeMap<Phase, FileFacts> = BTreeMap::new();
            for row in of_file {
                let counters = row.cell.total();
                long_call::take_longest(&mut facts.longest_call, row, &counters, sorted);
                if is_directory {
                    continue;
                }
                let used = Used::new(&counters, sorted);
                for (phase, direction) in used.phases(sorted) {
                    let fact = by_phase.entry(phase).or_default();
                    (fact.file, fact.phase) = (index, Some(phase));
                    fact.add(
                        &counters,
                        direction,
                        used,
                        data.uses.sizes[index as usize],
                        per_file,
                    );
                    if direction == used.main {
                        facts.add_sizes(phase, &counters);
                    }
                }
            }
            if is_directory {
                continue;
            }
            facts.add_mount(data, index, &by_phase);
            facts.files.extend(by_phase.into_values());
        }
        facts
    }

    /// The files of one phase.
    pub fn of(&self, phase: Phase) -> impl Iterator<Item = &FileFacts> {
        self.files
            .iter()
            .filter(move |fact| fact.phase == Some(phase))
    }

    fn add_sizes(&mut self, phase: Phase, counters: &Counters) {
        let sizes = self.sizes.entry(phase).or_default();
        for (size, calls) in counters.sizes.entries() {
            saturating_add(sizes.entry(*size).or_default(), *calls);
        }
    }

    fn add_mount(&mut self, data: &Data<'_>, index: u32, by_phase: &BTreeMap<Phase, FileFacts>) {
        let file = data.model.file(index);
        let (mount_point, fs_type) = data.model.mount_of(&file);
        if mount_point.is_empty() {
            return;
        }
        let mount = self
            .mounts
            .entry((mount_point.to_vec(), fs_type.to_owned()))
            .or_default();
        for (phase, fact) in by_phase {
            saturating_add(&mut mount.stored_bytes, fact.stored_bytes);
            saturating_add(&mut mount.stored_ns, fact.stored_ns);
            saturating_add(
                &mut mount.bytes,
                fact.bytes_read.saturating_add(fact.bytes_written),
            );
            saturating_add(
                &mut mount.data_ns,
                fact.read_ns.saturating_add(fact.write_ns),
            );
            saturating_add(
                &mut mount.ns,
                fact.read_ns
                    .saturating_add(fact.write_ns)
                    .saturating_add(fact.meta_ns),
            );
            if *phase == Phase::Training && fact.bytes_read > 0 {
                saturating_add(&mut mount.training_bytes, fact.bytes_read);
                saturating_add(&mut mount.training_ns, fact.read_ns);
                mount.training_files += 1;
                saturating_add(&mut mount.training_size, data.uses.sizes[index as usize]);
            }
        }
    }
}

impl FileFacts {
    fn add(
        &mut self,
        counters: &Counters,
        direction: Direction,
        used: Used,
        size: u64,
        per_file: f64,
    ) {
        let (is_main, apart) = (direction == used.main, used.reads_apart);
        let v = &counters.v;
        let tiny = |first: usize| saturating_sum(v[first..=first + 2].iter().copied());
        let reads = direction == Direction::Read || !apart;
        if reads {
            saturating_add(
                &mut self.reads,
                counters.calls(op::is_read) - v[ZERO_READS].min(v[READS]),
            );
            saturating_add(&mut self.bytes_read, v[BYTES_READ]);
            saturating_add(&mut self.read_ns, v[READ_NS]);
            let fetched = counters.fetched_by_reads();
            if fetched > v[BYTES_READ] / 2 {
                saturating_add(&mut self.stored_bytes, fetched.min(v[BYTES_READ]));
                saturating_add(&mut self.stored_ns, v[READ_NS]);
            }
            saturating_add(
                &mut self.tiny_reads,
                tiny(READ_SIZE_0_100).saturating_sub(v[ZERO_READS]),
            );
        }
        if is_main {
            saturating_add(&mut self.writes, counters.calls(op::is_write));
            saturating_add(&mut self.bytes_written, v[BYTES_WRITTEN]);
            saturating_add(&mut self.write_ns, v[WRITE_NS].saturating_add(v[SYNC_NS]));
            saturating_add(&mut self.meta_ns, v[META_NS]);
            saturating_add(&mut self.syncs, counters.calls(op::is_file_sync));
            saturating_add(&mut self.sync_ns, v[SYNC_NS]);
            saturating_add(&mut self.opens, v[OPENS]);
            saturating_add(&mut self.tiny_writes, tiny(WRITE_SIZE_0_100));
        }
        let is_part = size > 0 && v[BYTES_READ] > 0 && v[BYTES_READ] / v[OPENS].max(1) < size / 4;
        if direction == Direction::Read && is_main && is_part && v[OPENS] as f64 >= per_file {
            saturating_add(&mut self.sample_opens, v[OPENS]);
            saturating_add(&mut self.sample_bytes, v[BYTES_READ]);
            saturating_add(&mut self.sample_read_ns, v[READ_NS]);
            saturating_add(&mut self.sample_meta_ns, v[META_NS]);
        }
    }
}

impl MountFacts {
    /// Bytes per second inside reads, writes and syncs.
    pub fn rate(&self) -> f64 {
        if self.data_ns == 0 {
            0.0
        } else {
            self.bytes as f64 * 1e9 / self.data_ns as f64
        }
    }

    /// Bytes per second of storage, by the reads that went there; 0 where that is not known.
    pub fn stored_rate(&self) -> f64 {
        if self.stored_ns == 0 {
            0.0
        } else {
            self.stored_bytes as f64 * 1e9 / self.stored_ns as f64
        }
    }

    /// The same of training files.
    pub fn training_rate(&self) -> f64 {
        if self.training_ns == 0 {
            0.0
        } else {
            self.training_bytes as f64 * 1e9 / self.training_ns as f64
        }
    }
}
