//! The operation trace on the page: lanes of files and of threads ([`lanes`](super::lanes)), with their names.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::{key::FileId, op};
use serde::Serialize;

use super::{
    columns::Columns,
    lanes::{Drawn, Each, Operation, View, kind},
};
use crate::{
    Report,
    text::{escape, shorten},
};
use iotrace_model::{IoTotals, errno, input::ProcessId};
use iotrace_recording::{Error, trace::Trace};

/// Threads whose names the page has; those of lanes come first.
const MAX_THREADS: usize = 2_000;
/// Most that the names of files take that are not in the page's list of files, bytes.
const MAX_NAME_BYTES: usize = 64 << 10;
/// Longest of these names.
const MAX_NAME_COLUMNS: usize = 500;

/// What the page has of a trace.
#[derive(Serialize)]
pub struct Operations {
    /// Of all operations of the trace that are of the report.
    totals: IoTotals,
    /// Operations that the trace lacks, and the filters that it was recorded with.
    lost: u64,
    left_out: u64,
    filter: Vec<String>,
    /// Names and kinds of the operations, and names of errors, by number.
    classes: [&'static str; op::COUNT],
    kinds: [u8; op::COUNT],
    errors: BTreeMap<i64, String>,
    /// Files and threads, those with lanes first, in the order of the lanes.
    file: Vec<Name>,
    thread: Threads,
    files: Lanes,
    threads: Lanes,
    /// Drawn one by one.
    single: Single,
    /// The longest of all others of the lanes; none where there are none.
    longest_binned_ns: Option<u64>,
    bins_start_ns: i64,
    bin_ns: u64,
}

/// A file.
#[derive(Serialize)]
#[serde(untagged)]
enum Name {
    /// Its place in the page's list of files.
    Listed(u32),
    Path(String),
    /// There was no room for its name.
    Unnamed,
}

#[derive(Default, Serialize)]
struct Threads {
    pid: Vec<u32>,
    tid: Vec<u32>,
    /// Of the process.
    name: Vec<String>,
}

/// The lanes of one view.
#[derive(Serialize)]
struct Lanes {
    #[serde(flatten)]
    sums: Columns,
    /// Files or threads that have no lane, and what was done in them.
    others: u64,
    rest: IoTotals,
    cells: Cells,
}

/// What is not drawn one by one, in order of lane and time.
#[derive(Default, Serialize)]
struct Cells {
    lane: Vec<u8>,
    bin: Vec<u64>,
    kind: Vec<u8>,
    operations: Vec<u64>,
    bytes: Vec<u64>,
    ns: Vec<u64>,
}

#[derive(Default, Serialize)]
struct Single {
    /// Nanoseconds since the start of the one before; the first one's since the start of the run.
    start: Vec<i64>,
    ns: Vec<u64>,
    op: Vec<u32>,
    /// Bytes, or a negative error number.
    result: Vec<i64>,
    /// Places among the files and threads; -1: it is not named.
    file: Vec<i32>,
    thread: Vec<i32>,
}

/// A file as the trace knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FileKey {
    /// Calls by path that opened no file.
    ByPath,
    /// A file of the model.
    Known(u32),
    Unknown(u32, FileId),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Thread {
    node: u32,
    process: ProcessId,
    tid: u32,
}

/// Numbers of things, as they come.
struct Numbers<K> {
    all: Vec<K>,
    of: HashMap<K, u32>,
}

impl<K: Copy + Eq + std::hash::Hash> Numbers<K> {
    fn new() -> Self {
        Self {
            all: Vec::new(),
            of: HashMap::new(),
        }
    }

    fn number(&mut self, key: K) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.of.entry(key).or_insert(next);
        if number == next {
            self.all.push(key);
        }
        number
    }
}

/// The traces of a report.
struct Traces<'a> {
    report: &'a Report<'a>,
    traces: Vec<(u32, Trace)>,
    /// Files by their identity on each node, and by inode where that is enough: a shared file has the device of the node
    /// that was read first.
    known: HashMap<(u32, FileId), u32>,
    by_inode: HashMap<(u32, u64), Option<u32>>,
    files: Numbers<FileKey>,
    threads: Numbers<Thread>,
}

impl<'a> Traces<'a> {
    fn open(report: &'a Report<'a>) -> Result<Self, Error> {
        let mut traces = Self {
            report,
            traces: Vec::new(),
            known: HashMap::new(),
            by_inode: HashMap::new(),
            files: Numbers::new(),
            threads: Numbers::new(),
        };
        for (node, about) in (0..).zip(report.nodes) {
            let trace = Trace::open(&about.directory)?;
            traces.traces.extend(trace.map(|trace| (node, trace)));
        }
        if traces.traces.is_empty() {
            return Ok(traces);
        }
        let processes = report.model.processes();
        for row in report.model.rows() {
            let node = processes[row.process as usize].node;
            let id = report.model.file(row.file).id;
            traces.known.insert((node, id), row.file);
            if report.has_nodes() {
                let same = traces.by_inode.entry((node, id.inode));
                let same = same.or_insert(Some(row.file));
                *same = same.filter(|file| *file == row.file);
            }
        }
        Ok(traces)
    }

    fn file(&self, node: u32, id: Option<FileId>) -> FileKey {
        let Some(id) = id else {
            return FileKey::ByPath;
        };
        let same = || self.by_inode.get(&(node, id.inode)).copied().flatten();
        let known = self.known.get(&(node, id)).copied().or_else(same);
        known.map_or(FileKey::Unknown(node, id), FileKey::Known)
    }
}

impl Each for Traces<'_> {
    type Error = Error;

    fn each(&mut self, visit: &mut dyn FnMut(Operation)) -> Result<(), Error> {
        let traces = std::mem::take(&mut self.traces);
        for (node, trace) in &traces {
            for row in trace.rows() {
                let row = row?;
                let file = self.file(*node, trace.file(&row));
                // A part of the files has no calls that name none of them.
                if self.report.is_selection() && !matches!(file, FileKey::Known(_)) {
                    continue;
                }
                let thread = Thread {
                    node: *node,
                    process: ProcessId {
                        pid: row.pid,
                        start: row.start_key,
                    },
                    tid: row.tid,
                };
                let moves = op::moves_bytes(row.op as usize);
                visit(Operation {
                    start: row.start.saturating_sub(self.report.run.start_unix_ns),
                    ns: u64::try_from(row.duration).unwrap_or(0),
                    op: row.op,
                    result: match moves {
                        true => row.result,
                        false => row.result.min(0),
                    },
                    keys: [self.files.number(file), self.threads.number(thread)],
                });
            }
        }
        self.traces = traces;
        Ok(())
    }
}

impl Operations {
    /// Reads the traces of a report; none where no recording has one, or none of its operations is of the report.
    /// `listed` are the places of the model's files in the page's list.
    pub fn read(report: &Report<'_>, listed: &HashMap<u32, u32>) -> Result<Option<Self>, Error> {
        let mut traces = Traces::open(report)?;
        let drawn = Drawn::new(&mut traces)?;
        if drawn.whole.operations == 0 {
            return Ok(None);
        }
        let mut operations = Self::new(&drawn);
        operations.name_files(&drawn, &traces, listed);
        operations.name_threads(&drawn, &traces);
        for (_, trace) in &traces.traces {
            operations.lost += trace.about.lost();
            operations.left_out += trace.about.left_out();
            operations.filter.extend_from_slice(&trace.about.filter);
        }
        operations.filter.sort_unstable();
        operations.filter.dedup();
        Ok(Some(operations))
    }

    /// All but the names.
    fn new(drawn: &Drawn) -> Self {
        let [files, threads] = [0, 1].map(|view| Lanes::new(drawn, view));
        let mut single = Single::default();
        let mut errors = BTreeMap::new();
        let mut before = 0;
        for one in &drawn.single {
            single.start.push(one.start - before);
            before = one.start;
            single.ns.push(one.ns);
            single.op.push(one.op);
            single.result.push(one.result);
            if one.result < 0 {
                let number = u32::try_from(one.result.unsigned_abs()).unwrap_or(0);
                errors.insert(one.result, errno::name(number).into_owned());
            }
        }
        Self {
            totals: drawn.whole,
            lost: 0,
            left_out: 0,
            filter: Vec::new(),
            classes: op::NAMES,
            kinds: std::array::from_fn(kind),
            errors,
            file: Vec::new(),
            thread: Threads::default(),
            files,
            threads,
            single,
            longest_binned_ns: drawn.longest_binned_ns,
            bins_start_ns: drawn.bins.start,
            bin_ns: drawn.bins.width,
        }
    }

    fn name_files(&mut self, drawn: &Drawn, traces: &Traces<'_>, listed: &HashMap<u32, u32>) {
        let (order, places) = places(drawn, 0, usize::MAX);
        let mut room = MAX_NAME_BYTES;
        self.file = order
            .into_iter()
            .map(|key| {
                let key = traces.files.all[key as usize];
                let place = match key {
                    FileKey::Known(file) => listed.get(&file),
                    _ => None,
                };
                if let Some(place) = place {
                    return Name::Listed(*place);
                }
                let name = name(traces.report, key);
                match room.checked_sub(name.len()) {
                    Some(left) => {
                        room = left;
                        Name::Path(name)
                    }
                    None => Name::Unnamed,
                }
            })
            .collect();
        self.single.file = places;
    }

    fn name_threads(&mut self, drawn: &Drawn, traces: &Traces<'_>) {
        let (order, places) = places(drawn, 1, MAX_THREADS);
        let model = traces.report.model;
        let processes = model.processes().iter();
        let names: HashMap<(u32, ProcessId), &[u8]> = processes
            .map(|process| ((process.node, process.id), process.about.comm.as_slice()))
            .collect();
        for key in order {
            let Thread { node, process, tid } = traces.threads.all[key as usize];
            let name = names.get(&(node, process)).copied().unwrap_or_default();
            let host = traces.report.host_of(node);
            let host = host.map(|host| format!(" on {}", shorten(host.as_bytes(), 64)));
            self.thread.pid.push(process.pid);
            self.thread.tid.push(tid);
            self.thread
                .name
                .push(escape(name) + &host.unwrap_or_default());
        }
        self.single.thread = places;
    }
}

/// The files or threads that are to be named, those with lanes first, and the place of each single operation's among
/// them.
fn places(drawn: &Drawn, view: usize, most: usize) -> (Vec<u32>, Vec<i32>) {
    let mut numbers = Numbers::new();
    for (key, _) in &drawn.views[view].lanes {
        numbers.number(*key);
    }
    let singles = drawn.single.iter().map(|one| one.keys[view]);
    let places = singles.map(|key| {
        if numbers.all.len() >= most && !numbers.of.contains_key(&key) {
            return -1;
        }
        i32::try_from(numbers.number(key)).unwrap_or(-1)
    });
    let places = places.collect();
    (numbers.all, places)
}

/// The name of a file that is not in the page's list.
fn name(report: &Report<'_>, key: FileKey) -> String {
    let (host, id) = match key {
        FileKey::ByPath => return "(calls by path that opened no file)".into(),
        FileKey::Known(index) => {
            let file = report.model.file(index);
            if !file.path.is_empty() {
                return shorten(file.path, MAX_NAME_COLUMNS);
            }
            (None, file.id)
        }
        FileKey::Unknown(node, id) => (report.host_of(node), id),
    };
    let host = host.map(|host| format!(" on {}", shorten(host.as_bytes(), 64)));
    let (major, minor, inode) = (id.major(), id.minor(), id.inode);
    format!(
        "(no name came; device {major}:{minor}, inode {inode}{})",
        host.unwrap_or_default()
    )
}

impl Lanes {
    fn new(drawn: &Drawn, view: usize) -> Self {
        let View {
            lanes,
            others,
            rest,
            ..
        } = &drawn.views[view];
        let mut sums = Columns::default();
        for (_, sum) in lanes {
            sums.push(&(*sum).into());
        }
        let mut cells = Cells::default();
        let own = drawn.bins.cells.iter();
        for ((_, lane, bin, kind), cell) in own.filter(|(place, _)| usize::from(place.0) == view) {
            cells.lane.push(*lane);
            cells.bin.push(*bin);
            cells.kind.push(*kind);
            cells.operations.push(cell.operations);
            cells.bytes.push(cell.bytes);
            cells.ns.push(cell.ns);
        }
        Self {
            sums,
            others: *others,
            rest: *rest,
            cells,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::lanes::tests::{Made, made};

    /// Every file and thread of a single operation has a place, those of lanes the first ones.
    #[test]
    fn a_million_operations_take_less_than_a_megabyte() {
        let Ok(drawn) = Drawn::new(&mut Made(1_000_000, made));
        let mut operations = Operations::new(&drawn);
        for (view, most) in [(0, usize::MAX), (1, 100)] {
            let (order, places) = places(&drawn, view, most);
            let lanes = drawn.views[view].lanes.iter().map(|(key, _)| key);
            assert!(lanes.eq(&order[..drawn.views[view].lanes.len()]));
            assert!(order.len() <= most);
            let mut unnamed = 0;
            for (place, one) in places.iter().zip(&drawn.single) {
                match usize::try_from(*place) {
                    Ok(place) => assert_eq!(order[place], one.keys[view]),
                    Err(_) => unnamed += 1,
                }
            }
            assert_eq!(
                unnamed > 0,
                most == 100,
                "{unnamed} of {} keys",
                order.len()
            );
            operations.single.file = places.clone();
            operations.single.thread = places;
        }
        let text = serde_json::to_string(&operations).expect("JSON");
        // Names have their own bounds.
        let names = MAX_NAME_BYTES + MAX_THREADS * 40;
        assert!(text.len() + names < 1_000_000, "{} bytes", text.len());
        let starts = &operations.single.start;
        let last = drawn.single.last().map(|one| one.start);
        assert_eq!(Some(starts.iter().sum()), last);
        assert_eq!(operations.errors[&-28], "ENOSPC");
    }
}
