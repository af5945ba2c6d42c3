//! Data that a run makes for itself under a name that might be a model's: written once, then read again and again.

use std::collections::{HashMap, HashSet};

use crate::copies::Copies;
use iotrace_model::{Model, counters::*};

/// Endings of files without a structure of their own, which hold encoded text or arrays as well as weights.
const AMBIGUOUS_ENDINGS: [&[u8]; 2] = [b".bin", b".npz"];
/// How often a process reads the whole file, or opens and maps it, from which on it is data: a model is loaded again a few times,
/// to go on with the best one and to try it.
const MIN_QUICK_PASSES: u64 = 16;
/// How often a process reads the whole file from which on it is data if it hardly does anything else meanwhile.
const MIN_SLOW_PASSES: u64 = 3;
/// Of the size of a file the part, as a divisor, that a pass may lack, or that may be written twice.
const TOLERANCE_DIVISOR: u64 = 20;

/// What is known of a file.
#[derive(Default)]
struct Made {
    size: u64,
    written: u64,
    last_write: u64,
    /// By process, those that copied it left out.
    readers: HashMap<u32, Reader>,
    /// Whether it was read or mapped before it was complete.
    is_read_before: bool,
}

/// How one process read a file.
#[derive(Default)]
struct Reader {
    bytes: u64,
    /// Opens with a mapping.
    maps: u64,
    /// Nanoseconds from the first to the last read of each use, summed.
    reading_ns: u64,
    /// `CLOCK_MONOTONIC` nanoseconds; of no use, 0.
    first_read: u64,
    last_read: u64,
}

/// Finds data among the files that this run wrote: a data file is written once, and then one process reads or maps it 16 times,
/// or reads it slowly three times, one batch after the other. A model is loaded in one go, and the run saves it again before it
/// has loaded it that often.
pub(crate) fn data(model: &Model, copies: &Copies, written: &HashSet<u32>) -> Vec<u32> {
    let is_chosen = |file: &u32| {
        let path = model.file(*file).path;
        AMBIGUOUS_ENDINGS
            .iter()
            .any(|ending| path.ends_with(ending))
    };
    let chosen = written.iter().filter(|file| is_chosen(file));
    let mut made: HashMap<u32, Made> = chosen.map(|file| (*file, Made::default())).collect();
    if made.is_empty() {
        return Vec::new();
    }
    for row in model.rows() {
        if let Some(made) = made.get_mut(&row.file) {
            made.add(&row.cell.total());
        }
    }
    for row in model.rows() {
        if copies.are_all_reads(row.process, row.file) {
            continue;
        }
        if let Some(made) = made.get_mut(&row.file) {
            made.add_reads(row.process, &row.cell.total());
        }
    }
    for one in model.spans().into_iter().flat_map(|spans| spans.uses()) {
        if let Some(made) = made.get_mut(&one.file) {
            made.add_use(one.process, &one.counters);
        }
    }
    let data = made.into_iter().filter(|(_, made)| made.is_data());
    data.map(|(file, _)| file).collect()
}

impl Made {
    fn add(&mut self, total: &Counters) {
        let v = &total.v;
        let reach = v[MAX_BYTE_READ].max(v[MAX_BYTE_WRITTEN]);
        self.size = self.size.max(reach.saturating_add(1));
        saturating_add(&mut self.written, v[BYTES_WRITTEN]);
        self.last_write = self.last_write.max(v[LAST_WRITE]);
    }

    fn add_reads(&mut self, process: u32, total: &Counters) {
        let v = &total.v;
        if v[BYTES_READ] > 0 {
            self.is_read_before |= v[FIRST_READ] < self.last_write;
            self.readers.entry(process).or_default().bytes = v[BYTES_READ];
        }
    }

    fn add_use(&mut self, process: u32, counters: &Counters) {
        let v = &counters.v;
        if v[MMAPS] > 0 {
            self.is_read_before |= v[FIRST_OPERATION] < self.last_write;
            self.readers.entry(process).or_default().maps += u64::from(v[OPENS] > 0);
        }
        let Some(reader) = self.readers.get_mut(&process) else {
            return;
        };
        if v[FIRST_READ] > 0 {
            if reader.first_read == 0 || v[FIRST_READ] < reader.first_read {
                reader.first_read = v[FIRST_READ];
            }
            reader.last_read = reader.last_read.max(v[LAST_READ]);
            let reading_ns = v[LAST_READ].saturating_sub(v[FIRST_READ]);
            saturating_add(&mut reader.reading_ns, reading_ns);
        }
    }

    fn is_data(&self) -> bool {
        let tolerance = self.size / TOLERANCE_DIVISOR;
        let is_written_once = self.written <= self.size.saturating_add(tolerance);
        let pass = self.size - tolerance;
        let is_complete = self.last_write > 0 && is_written_once && !self.is_read_before;
        is_complete && self.readers.values().any(|reader| reader.reads_data(pass))
    }
}

impl Reader {
    /// Whether a process read data; `pass`: bytes of the whole file, at least.
    fn reads_data(&self, pass: u64) -> bool {
        let is_slow = self.reading_ns > 0
            && self.reading_ns >= self.last_read.saturating_sub(self.first_read) / 2;
        self.maps >= MIN_QUICK_PASSES
            || self.bytes >= pass.saturating_mul(MIN_QUICK_PASSES)
            || is_slow && self.bytes >= pass.saturating_mul(MIN_SLOW_PASSES)
    }
}
