//! Copies: bytes of one file that the same process wrote to another.
//!
//! sendfile, copy_file_range and splice name both files, so such a copy is known. One by read(2) and write(2) is inferred:
//! a process read as many bytes from one file as it wrote to another at that time. A copy of a checkpoint to another tier
//! is no save, reading its source is no load, and data that are staged are not trained on. Neither is it a load where a
//! process reads back what it wrote itself: to verify it, to upload it, or because the format needs it.

use std::collections::{HashMap, HashSet};

use iotrace_model::{Model, counters::*, spans::Use};

/// Bytes of a copy from which on it is inferred; fewer are alike by chance.
const MIN_INFERRED_BYTES: u64 = 4096;
/// Longest time between the last read of a source and the first write of its copy, nanoseconds.
const MAX_PAUSE_NS: u64 = 20_000_000;

/// One copy of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// By index, as source and target.
    pub process: u32,
    pub source: u32,
    pub target: u32,
    pub bytes: u64,
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub start: u64,
    pub end: u64,
    /// Whether it is inferred from reads and writes, without a call that copies.
    pub is_inferred: bool,
}

/// All copies of a run.
#[derive(Debug, Default)]
pub struct Copies {
    pub all: Vec<Copy>,
    /// Spans that are one end of a copy, by index.
    spans: HashSet<u32>,
    /// Processes and files whose reads, or writes, are all of copies.
    read: HashSet<(u32, u32)>,
    written: HashSet<(u32, u32)>,
    /// Uses that read what their own process had written before, by their first span.
    read_back: HashSet<u32>,
    /// Processes and files that were read so, and otherwise only to be copied.
    only_read_back: HashSet<(u32, u32)>,
}

impl Copies {
    /// Finds the copies of a run.
    pub fn of(model: &Model) -> Self {
        let mut copies = Self::default();
        let uses = model.spans().map(|spans| spans.uses()).unwrap_or_default();
        copies.find_spans(&uses);
        copies.find_rows(model);
        copies.find_read_backs(&uses);
        copies
            .all
            .sort_by_key(|copy| (copy.start, copy.source, copy.target));
        copies
    }

    /// Whether a span is one end of a copy.
    pub fn has_span(&self, span: u32) -> bool {
        self.spans.contains(&span)
    }

    /// Whether all that a process read of a file went to copies of it.
    pub fn are_all_reads(&self, process: u32, file: u32) -> bool {
        self.read.contains(&(process, file))
    }

    /// Whether the use of a file that begins with this span read what the process itself had written before.
    pub fn is_read_back(&self, span: u32) -> bool {
        self.read_back.contains(&span)
    }

    /// Whether a process read of a file only what the process itself had written before, and what it copied.
    pub fn is_only_read_back(&self, process: u32, file: u32) -> bool {
        self.only_read_back.contains(&(process, file))
    }

    /// Whether all that a process wrote to a file was copied.
    pub fn are_all_writes(&self, process: u32, file: u32) -> bool {
        self.written.contains(&(process, file))
    }

    /// Pairs uses of files that are known one by one.
    fn find_spans(&mut self, uses: &[Use]) {
        let mut sources: HashMap<(u32, u64), Vec<&Use>> = HashMap::new();
        for source in uses.iter().filter(|one| one.counters.v[BYTES_READ] > 0) {
            let key = (source.process, source.counters.v[BYTES_READ]);
            sources.entry(key).or_default().push(source);
        }
        let mut used: HashSet<u32> = HashSet::new();
        for target in uses {
            let written = target.counters.v[BYTES_WRITTEN];
            // A target that is too small to be inferred, and that no call copied to, has no source: it is not searched for.
            let may_be_copy =
                written >= MIN_INFERRED_BYTES || target.counters.v[TRANSFER_WRITES] > 0;
            if written == 0 || !may_be_copy {
                continue;
            }
            let Some(candidates) = sources.get(&(target.process, written)) else {
                continue;
            };
            let source = candidates.iter().find(|source| {
                source.file != target.file
                    && !used.contains(&source.pieces[0])
                    && are_together(&source.counters, &target.counters)
            });
            let Some(source) = source else { continue };
            used.insert(source.pieces[0]);
            self.spans
                .extend(source.pieces.iter().chain(&target.pieces));
            self.all.push(copy(
                target.process,
                (source.file, &source.counters),
                (target.file, &target.counters),
            ));
        }
        self.read = whole(uses, &self.spans, BYTES_READ);
        self.written = whole(uses, &self.spans, BYTES_WRITTEN);
    }

    /// Pairs files where the uses of one are not known one by one: data of one name and size, read once and written once.
    fn find_rows(&mut self, model: &Model) {
        // By process and bytes: rows, by index.
        let mut written: HashMap<(u32, u64), Vec<usize>> = HashMap::new();
        for (index, row) in model.rows().iter().enumerate() {
            let bytes = row.cell.total().v[BYTES_WRITTEN];
            if bytes > 0 && !self.written.contains(&(row.process, row.file)) {
                written.entry((row.process, bytes)).or_default().push(index);
            }
        }
        if written.is_empty() {
            return;
        }
        for row in model.rows() {
            let source = row.cell.total();
            let size = source.v[BYTES_READ];
            if size == 0 || source.v[BYTES_WRITTEN] > 0 {
                continue;
            }
            let Some(targets) = written.get_mut(&(row.process, size)) else {
                continue;
            };
            let found = targets.iter().position(|target| {
                let target = &model.rows()[*target];
                let names = [row.file, target.file].map(|file| name(model.file(file).path));
                let is_whole = names[0] == names[1] && size >= model.file(row.file).size;
                row.file != target.file && (is_whole || is_told(&source, &target.cell.total()))
            });
            if let Some(at) = found {
                let target = &model.rows()[targets.swap_remove(at)];
                self.read.insert((row.process, row.file));
                self.written.insert((row.process, target.file));
                self.all.push(copy(
                    row.process,
                    (row.file, &source),
                    (target.file, &target.cell.total()),
                ));
            }
        }
    }
}

impl Copies {
    fn find_read_backs(&mut self, uses: &[Use]) {
        let mut first_write: HashMap<(u32, u32), u64> = HashMap::new();
        for one in uses.iter().filter(|one| one.counters.v[BYTES_WRITTEN] > 0) {
            let first = first_write.entry((one.process, one.file));
            let first = first.or_insert(u64::MAX);
            *first = one.counters.v[FIRST_OPERATION].min(*first);
        }
        let mut rows: HashMap<(u32, u32), bool> = HashMap::new();
        for one in uses.iter().filter(|one| one.counters.v[BYTES_READ] > 0) {
            let written = first_write.get(&(one.process, one.file));
            let is_back = written.is_some_and(|first| *first <= one.counters.v[FIRST_OPERATION]);
            if is_back {
                self.read_back.insert(one.pieces[0]);
            }
            let all = rows.entry((one.process, one.file)).or_insert(true);
            *all &= is_back || self.has_span(one.pieces[0]);
        }
        let rows = rows.into_iter().filter(|(_, all)| *all);
        self.only_read_back = rows.map(|(row, _)| row).collect();
    }
}

fn copy(process: u32, source: (u32, &Counters), target: (u32, &Counters)) -> Copy {
    let (from, to) = (&source.1.v, &target.1.v);
    Copy {
        process,
        source: source.0,
        target: target.0,
        bytes: to[BYTES_WRITTEN],
        start: from[FIRST_OPERATION].min(to[FIRST_OPERATION]),
        end: from[LAST_OPERATION].max(to[LAST_OPERATION]),
        is_inferred: !is_told(source.1, target.1),
    }
}

/// Whether calls that name both files moved all of it.
fn is_told(source: &Counters, target: &Counters) -> bool {
    source.v[TRANSFER_READS] > 0
        && source.v[TRANSFER_READS] == target.v[TRANSFER_WRITES]
        && target.v[WRITES] == 0
}

/// Whether the target was written while the source was read, or right after.
fn are_together(source: &Counters, target: &Counters) -> bool {
    let (from, to) = (&source.v, &target.v);
    if !is_told(source, target) && to[BYTES_WRITTEN] < MIN_INFERRED_BYTES {
        return false;
    }
    to[FIRST_OPERATION] <= from[LAST_OPERATION] + MAX_PAUSE_NS
        && from[FIRST_OPERATION] <= to[LAST_OPERATION]
        && from[FIRST_OPERATION] <= to[FIRST_OPERATION] + MAX_PAUSE_NS
}

/// Processes and files of which every use that moved bytes is one end of a copy.
fn whole(uses: &[Use], copied: &HashSet<u32>, counter: usize) -> HashSet<(u32, u32)> {
    let mut whole: HashMap<(u32, u32), bool> = HashMap::new();
    for one in uses.iter().filter(|one| one.counters.v[counter] > 0) {
        let is_copied = copied.contains(&one.pieces[0]);
        let all = whole.entry((one.process, one.file)).or_insert(true);
        *all &= is_copied;
    }
    let whole = whole.into_iter().filter(|(_, all)| *all);
    whole.map(|(key, _)| key).collect()
}

fn name(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    &path[slash.map_or(0, |at| at + 1)..]
}
