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
#[derive(Debug, Default)]
pub struct FileFacts {
    pub file: u32,
    pub phase: Option<Phase>,
    pub opens: u64,
    pub meta_ns: u64,
    /// Reads that returned something, transfers included.
    pub reads: u64,
    pub bytes_read: u64,
    pub read_ns: u64,
    /// Reads of 1 byte to 10 KiB (detail full).
    pub tiny_reads: u64,
    written: Option<Box<Written>>,
    samples: Option<Box<Samples>>,
}

// A data set has millions of files, of which most are only read, and whole.
const _: () = assert!(size_of::<FileFacts>() <= 72);

/// Writes and syncs of one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub writes: u64,
    pub bytes: u64,
    pub ns: u64,
    /// Writes of at most 10 KiB (detail full).
    pub tiny: u64,
    pub syncs: u64,
    /// Nanoseconds in syncs, which are in `ns` too.
    pub sync_ns: u64,
}

/// Opens after which one process read a small part of the file only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Samples {
    pub opens: u64,
    /// Bytes read after them, and nanoseconds in reads and metadata.
    pub bytes: u64,
    pub read_ns: u64,
    pub meta_ns: u64,
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
            let mut stored = Stored::default();
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
                    let size = data.uses.sizes[index as usize];
                    fact.add(&counters, direction, used, size, per_file);
                    if used.has_reads(direction) {
                        stored.add(&counters);
                    }
                    if direction == used.main {
                        facts.add_sizes(phase, &counters);
                    }
                }
            }
            if is_directory {
                continue;
            }
            facts.add_mount(data, index, &by_phase, &stored);
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

    fn add_mount(
        &mut self,
        data: &Data<'_>,
        index: u32,
        by_phase: &BTreeMap<Phase, FileFacts>,
        stored: &Stored,
    ) {
        let file = data.model.file(index);
        let (mount_point, fs_type) = data.model.mount_of(&file);
        if mount_point.is_empty() {
            return;
        }
        let mount = self
            .mounts
            .entry((mount_point.to_vec(), fs_type.to_owned()))
            .or_default();
        saturating_add(&mut mount.stored_bytes, stored.bytes);
        saturating_add(&mut mount.stored_ns, stored.ns);
        for (phase, fact) in by_phase {
            let written = fact.written();
            let data_ns = fact.read_ns.saturating_add(written.ns);
            saturating_add(
                &mut mount.bytes,
                fact.bytes_read.saturating_add(written.bytes),
            );
            saturating_add(&mut mount.data_ns, data_ns);
            saturating_add(&mut mount.ns, data_ns.saturating_add(fact.meta_ns));
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
    /// Writes and syncs.
    pub fn written(&self) -> Written {
        self.written.as_deref().copied().unwrap_or_default()
    }

    /// Opens for a small part.
    pub fn samples(&self) -> Samples {
        self.samples.as_deref().copied().unwrap_or_default()
    }

    fn add(
        &mut self,
        counters: &Counters,
        direction: Direction,
        used: Used,
        size: u64,
        per_file: f64,
    ) {
        let is_main = direction == used.main;
        let v = &counters.v;
        let tiny = |first: usize| saturating_sum(v[first..=first + 2].iter().copied());
        if used.has_reads(direction) {
            saturating_add(
                &mut self.reads,
                counters.calls(op::is_read) - v[ZERO_READS].min(v[READS]),
            );
            saturating_add(&mut self.bytes_read, v[BYTES_READ]);
            saturating_add(&mut self.read_ns, v[READ_NS]);
            saturating_add(
                &mut self.tiny_reads,
                tiny(READ_SIZE_0_100).saturating_sub(v[ZERO_READS]),
            );
        }
        if !is_main {
            return;
        }
        saturating_add(&mut self.meta_ns, v[META_NS]);
        saturating_add(&mut self.opens, v[OPENS]);
        let (writes, syncs) = (
            counters.calls(op::is_write),
            counters.calls(op::is_file_sync),
        );
        if [writes, v[BYTES_WRITTEN], v[WRITE_NS], syncs, v[SYNC_NS]] != [0; 5] {
            let written = self.written.get_or_insert_default();
            saturating_add(&mut written.writes, writes);
            saturating_add(&mut written.bytes, v[BYTES_WRITTEN]);
            saturating_add(&mut written.ns, v[WRITE_NS].saturating_add(v[SYNC_NS]));
            saturating_add(&mut written.tiny, tiny(WRITE_SIZE_0_100));
            saturating_add(&mut written.syncs, syncs);
            saturating_add(&mut written.sync_ns, v[SYNC_NS]);
        }
        let is_part = size > 0 && v[BYTES_READ] > 0 && v[BYTES_READ] / v[OPENS].max(1) < size / 4;
        if direction == Direction::Read && is_part && v[OPENS] as f64 >= per_file {
            let samples = self.samples.get_or_insert_default();
            saturating_add(&mut samples.opens, v[OPENS]);
            saturating_add(&mut samples.bytes, v[BYTES_READ]);
            saturating_add(&mut samples.read_ns, v[READ_NS]);
            saturating_add(&mut samples.meta_ns, v[META_NS]);
        }
    }
}

/// What reads of one file fetched from storage, where most of what was read came from there.
#[derive(Default)]
struct Stored {
    bytes: u64,
    /// Nanoseconds in these reads.
    ns: u64,
}

impl Stored {
    /// Adds the reads of one process.
    fn add(&mut self, counters: &Counters) {
        let (fetched, read) = (counters.fetched_by_reads(), counters.v[BYTES_READ]);
        if fetched > read / 2 {
            saturating_add(&mut self.bytes, fetched.min(read));
            saturating_add(&mut self.ns, counters.v[READ_NS]);
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
