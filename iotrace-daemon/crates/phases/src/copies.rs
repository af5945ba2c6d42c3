//! Copies: bytes of one file that the same process, or one that it sent them to, wrote to another.
//!
//! sendfile, copy_file_range and splice name both files, so such a copy is known. One by read(2) and write(2) is inferred:
//! a process read as many bytes from one file as it wrote to another at that time. A copy of a checkpoint to another tier
//! is no save, reading its source is no load, and data that are staged are not trained on. Neither is it a load where a
//! process reads back or maps what it wrote itself, to verify it or because the format needs it, nor where a fork made since or
//! another program does: a checksum, an archive, an upload.

mod piped;
mod sources;
mod targets;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::phase::Direction;
use iotrace_model::{Model, Moved, counters::*, paths::name, run::Clock, spans};
use sources::Sources;
use targets::{Side, Targets};

/// Bytes of a copy from which on it is inferred; fewer are alike by chance.
const MIN_INFERRED_BYTES: u64 = 4096;
/// Time between the last read of a source and the first write of its copy, nanoseconds: at first a source in use is looked for.
const PAUSES_NS: [u64; 3] = [0, 1_000_000, MAX_PAUSE_NS];
/// Longest such time.
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

/// What is compared of one use of a file.
struct Use {
    process: u32,
    file: u32,
    /// Its spans, by index, in order.
    pieces: Vec<u32>,
    amounts: Amounts,
}

impl From<spans::Use> for Use {
    fn from(one: spans::Use) -> Self {
        Self {
            process: one.process,
            file: one.file,
            pieces: one.pieces,
            amounts: Amounts::from(&one.counters),
        }
    }
}

/// What is compared of counters, which are large.
#[derive(Clone, Copy)]
struct Amounts {
    bytes_read: u64,
    bytes_written: u64,
    transfer_reads: u64,
    transfer_writes: u64,
    writes: u64,
    mmaps: u64,
    first_operation: u64,
    last_operation: u64,
}

impl From<&Counters> for Amounts {
    fn from(counters: &Counters) -> Self {
        let v = &counters.v;
        Self {
            bytes_read: v[BYTES_READ],
            bytes_written: v[BYTES_WRITTEN],
            transfer_reads: v[TRANSFER_READS],
            transfer_writes: v[TRANSFER_WRITES],
            writes: v[WRITES],
            mmaps: v[MMAPS],
            first_operation: v[FIRST_OPERATION],
            last_operation: v[LAST_OPERATION],
        }
    }
}

/// All copies of a run.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    pub all: Vec<Copy>,
    /// Spans that are one end of a copy, by index.
    spans: HashSet<u32>,
    /// Processes and files whose reads, or writes, are all of copies.
    read: HashSet<(u32, u32)>,
    written: HashSet<(u32, u32)>,
    /// Uses that read or mapped what their own process, its parent before the fork, or another program had written before, by their first span.
    read_back: HashSet<u32>,
    /// Processes and files that were read so, and otherwise only to be copied.
    only_read_back: HashSet<(u32, u32)>,
}

impl Copies {
    /// Finds the copies of a run.
    pub fn of(model: &Model, clock: Clock) -> Self {
        let mut copies = Self::default();
        let uses = model.spans().into_iter().flat_map(|spans| spans.uses());
        let uses: Vec<Use> = uses.map(Use::from).collect();
        copies.find_spans(model, &uses);
        copies.find_piped(model, &uses);
        copies.read = whole(&uses, &copies.spans, |amounts| amounts.bytes_read);
        copies.written = whole(&uses, &copies.spans, |amounts| amounts.bytes_written);
        copies.find_rows(model, &uses);
        copies.find_read_backs(model, clock, &uses);
        copies
            .all
            .sort_by_key(|copy| (copy.start, copy.source, copy.target));
        copies
    }

    /// Leaves the copies that a chosen file is the source or the target of, after spans were moved.
    pub fn select(&mut self, is_chosen: impl Fn(u32) -> bool, spans: &Moved) {
        self.all
            .retain(|copy| is_chosen(copy.source) || is_chosen(copy.target));
        for known in [&mut self.spans, &mut self.read_back] {
            *known = known.iter().filter_map(|span| spans.get(*span)).collect();
        }
    }

    /// Whether a span is one end of a copy.
    pub fn has_span(&self, span: u32) -> bool {
        self.spans.contains(&span)
    }

    /// Whether all that a process read of a file went to copies of it.
    pub fn are_all_reads(&self, process: u32, file: u32) -> bool {
        self.read.contains(&(process, file))
    }

    /// Whether the use of a file that begins with this span read or mapped what the process itself, or another program, had written.
    pub fn is_read_back(&self, span: u32) -> bool {
        self.read_back.contains(&span)
    }

    /// Whether all that a process read or mapped of a file was read back so, or copied.
    pub fn is_only_read_back(&self, process: u32, file: u32) -> bool {
        self.only_read_back.contains(&(process, file))
    }

    /// Whether all that a process wrote to a file was copied.
    pub fn are_all_writes(&self, process: u32, file: u32) -> bool {
        self.written.contains(&(process, file))
    }

    /// Pairs uses of files that are known one by one.
    fn find_spans(&mut self, model: &Model, uses: &[Use]) {
        let mut sources: HashMap<SourceKey, Sources> = HashMap::new();
        for (rank, source) in (0..).zip(uses) {
            let amounts = &source.amounts;
            let key = SourceKey::new(source.process, amounts.bytes_read, amounts.transfer_reads);
            if let Some(key) = key {
                let times = (amounts.first_operation, amounts.last_operation);
                let sources = sources.entry(key).or_default();
                sources.push(rank, source.file, times);
            }
        }
        sources.values_mut().for_each(Sources::build);
        let verified = verified(uses);
        for target in uses {
            let amounts = &target.amounts;
            let key = SourceKey::new(
                target.process,
                amounts.bytes_written,
                amounts.transfer_writes,
            );
            let Some(key) = key else { continue };
            if !key.is_inferable() && amounts.writes > 0 {
                continue;
            }
            let Some(sources) = sources.get_mut(&key) else {
                continue;
            };
            // The source is read until right before the target is written, or later, and from right after that on, or earlier.
            let taken = PAUSES_NS.into_iter().find_map(|pause| {
                let from = amounts.first_operation.saturating_sub(pause);
                let until = amounts.first_operation.saturating_add(pause);
                sources.take(target.file, from, until.min(amounts.last_operation))
            });
            let Some(rank) = taken else { continue };
            let source = &uses[rank as usize];
            // An average of checkpoints is as large as each: of several that were read before it, it is no copy. Neither is
            // a shard of the one before it, where a process reads back each that it has written.
            let first = amounts.first_operation;
            let is_behind = key.is_inferable() && source.amounts.last_operation < first;
            let is_verified = |file: u32| verified.contains(&(target.process, file));
            let are_verified = is_verified(source.file) && is_verified(target.file);
            let another = || sources.find(target.file, first.saturating_sub(MAX_PAUSE_NS), first);
            let is_other = |rank: u32| uses[rank as usize].file != source.file;
            let name_of = |file: u32| name(model.file(file).path);
            if is_behind
                && (are_verified || another().is_some_and(is_other))
                && name_of(source.file) != name_of(target.file)
            {
                continue;
            }
            self.spans
                .extend(source.pieces.iter().chain(&target.pieces));
            self.all.push(copy(
                target.process,
                (source.file, &source.amounts),
                (target.file, amounts),
            ));
        }
    }

    /// Pairs uses by two processes.
    fn find_piped(&mut self, model: &Model, uses: &[Use]) {
        let pairs = piped::pairs(model, uses, |one| self.has_span(one.pieces[0]));
        for (source, target) in pairs {
            self.spans
                .extend(source.pieces.iter().chain(&target.pieces));
            self.all.push(copy(
                target.process,
                (source.file, &source.amounts),
                (target.file, &target.amounts),
            ));
        }
    }

    /// Pairs files where the uses of one are not known one by one: written once at the time at which as many bytes of the other
    /// were read, which has the same name or was copied by as many calls.
    fn find_rows(&mut self, model: &Model, uses: &[Use]) {
        // Bytes that were read and written in the uses that are known.
        let mut known: HashMap<(u32, u32), [u64; 2]> = HashMap::new();
        for one in uses {
            let [read, written] = known.entry((one.process, one.file)).or_default();
            saturating_add(read, one.amounts.bytes_read);
            saturating_add(written, one.amounts.bytes_written);
        }
        let side = |process: u32, file: u32, amounts: Amounts, direction: Direction| {
            let moved = [amounts.bytes_read, amounts.bytes_written][direction.index()];
            let known = known.get(&(process, file));
            Side {
                file,
                name: name(model.file(file).path),
                amounts,
                is_known: known.is_some_and(|known| known[direction.index()] == moved),
            }
        };
        // By process and bytes: the files that were written.
        let mut written: HashMap<(u32, u64), Targets> = HashMap::new();
        for row in model.rows_with(BYTES_WRITTEN) {
            let amounts = Amounts::from(&row.cell.total());
            let bytes = amounts.bytes_written;
            if !self.written.contains(&(row.process, row.file)) {
                let targets = written.entry((row.process, bytes)).or_default();
                targets.push(side(row.process, row.file, amounts, Direction::Write));
            }
        }
        if written.is_empty() {
            return;
        }
        for row in model.rows_with(BYTES_READ) {
            let amounts = Amounts::from(&row.cell.total());
            let size = amounts.bytes_read;
            let Some(targets) = written.get_mut(&(row.process, size)) else {
                continue;
            };
            let source = side(row.process, row.file, amounts, Direction::Read);
            // What the process made itself and reads back may be as large by chance.
            let is_by_name = amounts.bytes_written == 0 && size >= model.file(row.file).size;
            if let Some(target) = targets.take(&source, is_by_name) {
                self.read.insert((row.process, row.file));
                self.written.insert((row.process, target.file));
                self.all.push(copy(
                    row.process,
                    (row.file, &amounts),
                    (target.file, &target.amounts),
                ));
            }
        }
    }

    /// Finds uses that read or mapped what had been written before by the same process, by its parent before it was forked, or by another
    /// program alone: a checksum, an archive and an upload load nothing.
    fn find_read_backs(&mut self, model: &Model, clock: Clock, uses: &[Use]) {
        let process = |index: u32| &model.processes()[index as usize];
        let program = |index: u32| process(index).about.exe.as_slice();
        // The first write, by file and process, and by file and the writer's program.
        let mut first_write: HashMap<u32, BTreeMap<u32, u64>> = HashMap::new();
        let mut writers: HashMap<u32, BTreeMap<&[u8], u64>> = HashMap::new();
        for one in uses.iter().filter(|one| one.amounts.bytes_written > 0) {
            let by_process = first_write.entry(one.file).or_default();
            let by_program = writers.entry(one.file).or_default();
            for first in [
                by_process.entry(one.process).or_insert(u64::MAX),
                by_program.entry(program(one.process)).or_insert(u64::MAX),
            ] {
                *first = one.amounts.first_operation.min(*first);
            }
        }
        // A fork has in memory what its parent had saved.
        let is_forked_since = |reader: u32, (writer, first): (&u32, &u64)| {
            let (reader, writer) = (process(reader), process(*writer));
            let about = &reader.about;
            let is_child = about.parent == writer.id.pid && reader.node == writer.node;
            let began = clock.unix_ns_of_boottime(about.start_boottime);
            is_child && about.execs == 0 && clock.unix_ns(*first) < began
        };
        let is_back = |one: &Use| {
            let is_before = |first: &u64| *first <= one.amounts.first_operation;
            let own = program(one.process);
            let is_of_others = |programs: &BTreeMap<&[u8], u64>| {
                let are_others = [own, &[]]
                    .iter()
                    .all(|program| !programs.contains_key(program));
                are_others && !own.is_empty() && programs.values().any(is_before)
            };
            let is_of_own = |processes: &BTreeMap<u32, u64>| {
                processes.get(&one.process).is_some_and(is_before)
                    || processes.iter().any(|by| is_forked_since(one.process, by))
            };
            first_write.get(&one.file).is_some_and(is_of_own)
                || writers.get(&one.file).is_some_and(is_of_others)
        };
        let mut rows: HashMap<(u32, u32), bool> = HashMap::new();
        let is_read = |one: &&Use| one.amounts.bytes_read > 0 || one.amounts.mmaps > 0;
        for one in uses.iter().filter(is_read) {
            let is_back = is_back(one);
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

fn copy(process: u32, (source, from): (u32, &Amounts), (target, to): (u32, &Amounts)) -> Copy {
    Copy {
        process,
        source,
        target,
        bytes: to.bytes_written,
        start: from.first_operation.min(to.first_operation),
        end: from.last_operation.max(to.last_operation),
        is_inferred: !is_told(from, to),
    }
}

/// Whether calls that name both files moved all of it.
fn is_told(source: &Amounts, target: &Amounts) -> bool {
    source.transfer_reads > 0
        && source.transfer_reads == target.transfer_writes
        && target.writes == 0
}

/// Processes and files that the process wrote, and then read whole by another open.
fn verified(uses: &[Use]) -> HashSet<(u32, u32)> {
    // Most files of a job are only read.
    let is_written = uses.iter().filter(|one| one.amounts.bytes_written > 0);
    let files: HashSet<u32> = is_written.map(|one| one.file).collect();
    let mut in_order: Vec<&Use> = uses
        .iter()
        .filter(|one| files.contains(&one.file))
        .collect();
    in_order.sort_by_key(|one| one.amounts.first_operation);
    // Bytes that were written last, and when.
    let mut written: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    let mut verified = HashSet::new();
    for one in in_order {
        let (key, amounts) = ((one.process, one.file), &one.amounts);
        if amounts.bytes_written > 0 {
            written.insert(key, (amounts.bytes_written, amounts.last_operation));
        } else if let Some((bytes, end)) = written.get(&key)
            && amounts.bytes_read == *bytes
            && amounts.first_operation >= *end
        {
            verified.insert(key);
        }
    }
    verified
}

/// What a source has in common with its copy.
#[derive(PartialEq, Eq, Hash)]
struct SourceKey {
    process: u32,
    bytes: u64,
    /// Calls that copied, where no copy is inferred.
    calls: Option<u64>,
}

impl SourceKey {
    /// `None` of what is no end of a copy.
    fn new(process: u32, bytes: u64, calls: u64) -> Option<Self> {
        let is_inferable = bytes >= MIN_INFERRED_BYTES;
        (is_inferable || bytes > 0 && calls > 0).then_some(Self {
            process,
            bytes,
            calls: (!is_inferable).then_some(calls),
        })
    }

    fn is_inferable(&self) -> bool {
        self.calls.is_none()
    }
}

/// Processes and files of which every use that moved bytes is one end of a copy.
fn whole(
    uses: &[Use],
    copied: &HashSet<u32>,
    bytes: impl Fn(&Amounts) -> u64,
) -> HashSet<(u32, u32)> {
    let mut whole: HashMap<(u32, u32), bool> = HashMap::new();
    for one in uses.iter().filter(|one| bytes(&one.amounts) > 0) {
        let is_copied = copied.contains(&one.pieces[0]);
        let all = whole.entry((one.process, one.file)).or_insert(true);
        *all &= is_copied;
    }
    let whole = whole.into_iter().filter(|(_, all)| *all);
    whole.map(|(key, _)| key).collect()
}
