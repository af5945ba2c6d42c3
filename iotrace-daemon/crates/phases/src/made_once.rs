//! Data that a run makes for itself under a name that might be a model's: written once, then read again and again.

use std::collections::{HashMap, HashSet};

use crate::{
    context::families,
    copies::Copies,
    data_names::{is_named_as_data, is_named_as_part},
};
use iotrace_model::{Model, counters::*, groups::Groups};

/// Endings of files without a structure of their own, which hold encoded text or arrays as well as weights.
const AMBIGUOUS_ENDINGS: [&[u8]; 2] = [b".bin", b".npz"];
/// How often a process reads the whole file, or opens and maps it, from which on it is data: a model is loaded again a few times,
/// to go on with the best one and to try it.
const MIN_QUICK_PASSES: u64 = 16;
/// How often a process reads the whole file from which on it is data if it hardly does anything else meanwhile.
const MIN_SLOW_PASSES: u64 = 3;
/// How many files that are called as parts are data at least, if they were all written before the first one was read.
const MIN_PARTS: usize = 2;
/// How often a rank reads each part as a whole at least if it is data.
const MIN_PASSES_OF_PARTS: u64 = 2;
/// Of the size of a file the part, as a divisor, that a pass may lack, or that may be written twice.
const TOLERANCE_DIVISOR: u64 = 20;

/// What is known of a file.
struct Made {
    size: u64,
    written: u64,
    last_write: u64,
    /// When it was read first, `CLOCK_MONOTONIC` nanoseconds; of no read, the last moment.
    first_read: u64,
    /// By process, those that copied it left out.
    readers: HashMap<u32, Reader>,
    /// Bytes that each rank read.
    read_by_ranks: HashMap<u32, u64>,
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

/// The files that this run wrote which may be data.
pub(crate) struct Files<'a> {
    model: &'a Model,
    made: HashMap<u32, Made>,
}

impl<'a> Files<'a> {
    /// `written`: files that this run wrote.
    pub fn new(model: &'a Model, copies: &Copies, groups: &Groups, written: &HashSet<u32>) -> Self {
        let is_chosen = |file: &u32| {
            let path = model.file(*file).path;
            has_ambiguous_ending(path) || is_named_as_data(path)
        };
        let chosen = written.iter().filter(|file| is_chosen(file));
        let mut made: HashMap<u32, Made> = chosen.map(|file| (*file, Made::default())).collect();
        if made.is_empty() {
            return Self { model, made };
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
                made.add_reads(row.process, groups.of(row.process), &row.cell.total());
            }
        }
        for one in model.spans().into_iter().flat_map(|spans| spans.uses()) {
            if let Some(made) = made.get_mut(&one.file) {
                made.add_use(one.process, &one.counters);
            }
        }
        Self { model, made }
    }

    /// Those that are data: a data file is written once, and then one process reads or maps it 16 times, or reads it slowly three
    /// times, one batch after the other. A model is loaded in one go, and the run saves it again before it has loaded it that often.
    pub fn data(&self) -> Vec<u32> {
        let made = self.made.iter();
        let data = made.filter(|(file, made)| {
            has_ambiguous_ending(self.model.file(**file).path) && made.is_data()
        });
        data.map(|(file, _)| *file).collect()
    }

    /// Whether a file was written once, before it was used.
    pub fn is_written_once(&self, file: u32) -> bool {
        self.made.get(&file).is_some_and(Made::is_written_once)
    }

    /// Parts of data: several of a kind, all written before the first one is read, and each read again as a whole.
    pub fn parts(&self) -> impl Iterator<Item = u32> {
        let is_part = |(file, made): &(&u32, &Made)| {
            is_named_as_part(self.model.file(**file).path)
                && made.is_written_once()
                && made.is_read_by_ranks(MIN_PASSES_OF_PARTS)
        };
        let parts = self.made.iter().filter(is_part).map(|(file, _)| *file);
        let is_made_before = |members: &Vec<u32>| {
            let made = || members.iter().map(|file| &self.made[file]);
            let written = made().map(|made| made.last_write).max();
            written <= made().map(|made| made.first_read).min()
        };
        let families = families(self.model, parts, MIN_PARTS);
        families.filter(is_made_before).flatten()
    }
}

fn has_ambiguous_ending(path: &[u8]) -> bool {
    let mut endings = AMBIGUOUS_ENDINGS.iter();
    endings.any(|ending| path.ends_with(ending))
}

impl Default for Made {
    fn default() -> Self {
        Self {
            size: 0,
            written: 0,
            last_write: 0,
            first_read: u64::MAX,
            readers: HashMap::new(),
            read_by_ranks: HashMap::new(),
            is_read_before: false,
        }
    }
}

impl Made {
    fn add(&mut self, total: &Counters) {
        let v = &total.v;
        let reach = v[MAX_BYTE_READ].max(v[MAX_BYTE_WRITTEN]);
        self.size = self.size.max(reach.saturating_add(1));
        saturating_add(&mut self.written, v[BYTES_WRITTEN]);
        self.last_write = self.last_write.max(v[LAST_WRITE]);
    }

    fn add_reads(&mut self, process: u32, rank: u32, total: &Counters) {
        let v = &total.v;
        if v[BYTES_READ] > 0 {
            self.first_read = self.first_read.min(v[FIRST_READ]);
            saturating_add(self.read_by_ranks.entry(rank).or_default(), v[BYTES_READ]);
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

    /// Whether it was written once, as a whole, and not read before.
    fn is_written_once(&self) -> bool {
        let is_once = self.written <= self.size.saturating_add(self.tolerance());
        self.last_write > 0 && is_once && !self.is_read_before
    }

    /// Bytes that may be missing in a pass, or written twice.
    fn tolerance(&self) -> u64 {
        self.size / TOLERANCE_DIVISOR
    }

    /// Bytes of the whole file, at least.
    fn pass(&self) -> u64 {
        self.size - self.tolerance()
    }

    /// Whether a rank read it at least this number of times.
    fn is_read_by_ranks(&self, passes: u64) -> bool {
        let least = self.pass().saturating_mul(passes);
        self.read_by_ranks.values().any(|bytes| *bytes >= least)
    }

    fn is_data(&self) -> bool {
        let pass = self.pass();
        self.is_written_once() && self.readers.values().any(|reader| reader.reads_data(pass))
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
