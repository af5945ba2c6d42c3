//! What programs asked their libraries for, as uprobes saw it, and the ranges that they marked themselves.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::library::{Calls, FUNCTIONS, Function, POP, PUSH};

use super::{IoTotals, counters::saturating_add};

/// Calls of one process by one function, on one file and object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub process: u32,
    /// Place in [`FUNCTIONS`].
    pub function: u16,
    /// The file by its index, where its identity is known.
    pub file: Option<u32>,
    /// See [`Libraries::names`].
    object: u64,
}

impl Key {
    /// The function's symbol, and what it is.
    pub fn function(&self) -> (&'static str, Function) {
        FUNCTIONS[usize::from(self.function)]
    }
}

/// A range that a program marked, or a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub process: u32,
    pub tid: u32,
    pub name: Vec<u8>,
    /// Ranges of the thread that it lies in.
    pub depth: u32,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub start: u64,
    /// The same as `start` for a moment; none where it was not ended.
    pub end: Option<u64>,
    /// Whether it is a moment.
    pub is_mark: bool,
    /// What all traced processes did meanwhile.
    pub done: IoTotals,
}

/// An object that a library opened.
#[derive(Debug)]
enum Object {
    /// By a name that starts from another object, or from none.
    Named { parent: u64, name: Vec<u8> },
    /// By the name of its file, and its name in the file.
    Whole(Vec<u8>, Vec<u8>),
}

/// Bit of the numbers of objects that come from recordings.
const RESTORED_BIT: u64 = 1 << 63;
/// Maximum depth of nested objects.
const MAX_OBJECT_DEPTH: usize = 64;

/// Calls of libraries, and ranges.
#[derive(Debug, Default)]
pub struct Libraries {
    /// Total, and the part of it that came since the last flush.
    calls: BTreeMap<Key, (Calls, Calls)>,
    /// By process and number.
    objects: HashMap<(u32, u64), Object>,
    /// Numbers of objects that come from recordings.
    restored: HashMap<(u32, Vec<u8>, Vec<u8>), u64>,
    ranges: Vec<Range>,
    /// Places of the ranges that each thread (of a process) is in, the outermost first, with what had been done until their
    /// start.
    open: HashMap<(u32, u32), Vec<(usize, IoTotals)>>,
    /// Places of ranges that ended since the last flush.
    ended: Vec<usize>,
    /// Ends of ranges that had not begun: they began before the trace.
    pub unmatched: u64,
}

impl Libraries {
    /// Adds calls of a process.
    pub(super) fn add(
        &mut self,
        process: u32,
        function: u16,
        file: Option<u32>,
        object: u64,
        calls: &Calls,
    ) {
        if usize::from(function) >= FUNCTIONS.len() {
            return;
        }
        let key = Key {
            process,
            function,
            file,
            object,
        };
        let (total, interval) = self.calls.entry(key).or_default();
        add(total, calls);
        add(interval, calls);
    }

    /// Names an object.
    pub(super) fn name(&mut self, process: u32, object: u64, parent: u64, name: Vec<u8>) {
        self.objects
            .insert((process, object), Object::Named { parent, name });
    }

    /// The number of an object of a recording.
    pub(super) fn restore_object(
        &mut self,
        process: u32,
        (file, object): (Vec<u8>, Vec<u8>),
    ) -> u64 {
        if file.is_empty() && object.is_empty() {
            return 0;
        }
        let next = RESTORED_BIT | (self.restored.len() as u64 + 1);
        let key = (process, file.clone(), object.clone());
        let number = *self.restored.entry(key).or_insert(next);
        self.objects
            .insert((process, number), Object::Whole(file, object));
        number
    }

    /// Takes a range of a recording.
    pub(super) fn restore_range(&mut self, range: Range) {
        self.ended.push(self.ranges.len());
        self.ranges.push(range);
    }

    /// Takes a mark of a thread.
    pub(super) fn mark(
        &mut self,
        thread: (u32, u32),
        function: u16,
        time: u64,
        name: Vec<u8>,
        progress: IoTotals,
    ) {
        let open = self.open.entry(thread).or_default();
        if function == POP {
            let Some((place, before)) = open.pop() else {
                self.unmatched += 1;
                return;
            };
            let range = &mut self.ranges[place];
            range.end = Some(time);
            range.done = progress.since(&before);
            self.ended.push(place);
            return;
        }
        let place = self.ranges.len();
        let is_mark = function != PUSH;
        self.ranges.push(Range {
            process: thread.0,
            tid: thread.1,
            name,
            depth: open.len() as u32,
            start: time,
            end: is_mark.then_some(time),
            is_mark,
            done: IoTotals::default(),
        });
        if is_mark {
            self.ended.push(place);
        } else {
            open.push((place, progress));
        }
    }

    /// The name of the file of a call as the library was given it, and that of the object in it; empty where there is
    /// none.
    pub fn names(&self, key: &Key) -> (Vec<u8>, Vec<u8>) {
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut next = key.object;
        while parts.len() < MAX_OBJECT_DEPTH {
            match self.objects.get(&(key.process, next)) {
                Some(Object::Whole(file, object)) => return (file.clone(), object.clone()),
                Some(Object::Named { parent: 0, name }) => {
                    return (name.clone(), joined(parts.iter().rev()));
                }
                Some(Object::Named { parent, name }) => {
                    parts.push(name);
                    next = *parent;
                }
                None => break,
            }
        }
        (Vec::new(), joined(parts.iter().rev()))
    }

    /// All calls.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Calls)> {
        self.calls.iter().map(|(key, (total, _))| (key, total))
    }

    /// The calls since the last [`Libraries::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (&Key, &Calls)> {
        let recent = self.calls.iter();
        recent
            .filter(|(_, (_, new))| new.calls.saturating_add(new.failures) > 0)
            .map(|(key, (_, new))| (key, new))
    }

    /// All ranges and marks, in the order of their starts as they came.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Ranges that ended since the last [`Libraries::settle`]; with `all`, also those that have not ended.
    pub fn ended(&self, all: bool) -> impl Iterator<Item = &Range> {
        let open = self
            .ranges
            .iter()
            .filter(move |range| all && range.end.is_none());
        let ended = self.ended.iter().map(|place| &self.ranges[*place]);
        ended.chain(open)
    }

    /// Whether there is anything to write.
    pub fn has_news(&self) -> bool {
        !self.ended.is_empty() || self.interval().next().is_some()
    }

    /// Ends the interval.
    pub(super) fn settle(&mut self) {
        let calls = self.calls.values_mut();
        calls.for_each(|(_, interval)| *interval = Calls::default());
        self.ended.clear();
    }

    /// Leaves the calls on files that are kept; ranges are of no file.
    pub(super) fn select_files(&mut self, is_kept: impl Fn(u32) -> bool) {
        self.calls.retain(|key, _| key.file.is_some_and(&is_kept));
        self.ranges.clear();
        self.open.clear();
        self.ended.clear();
        self.unmatched = 0;
    }

    /// Adds those of another node.
    pub(super) fn append(&mut self, other: Self, processes: u32, file: impl Fn(u32) -> u32) {
        for (key, total) in other.all() {
            let names = other.names(key);
            let process = key.process + processes;
            let object = self.restore_object(process, names);
            self.add(process, key.function, key.file.map(&file), object, total);
        }
        for range in other.ranges {
            let process = range.process + processes;
            self.restore_range(Range { process, ..range });
        }
        saturating_add(&mut self.unmatched, other.unmatched);
    }
}

/// Nested names as a path; an absolute name starts a new path.
fn joined<'a>(names: impl Iterator<Item = &'a &'a [u8]>) -> Vec<u8> {
    let mut path = Vec::new();
    for name in names {
        if name.starts_with(b"/") {
            path.clear();
        } else {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    path
}

/// Adds what other threads, intervals or files did.
pub fn add(sum: &mut Calls, other: &Calls) {
    saturating_add(&mut sum.calls, other.calls);
    saturating_add(&mut sum.failures, other.failures);
    sum.bytes = sum.bytes.saturating_add(other.bytes);
    saturating_add(&mut sum.ns, other.ns);
    if other.slowest_ns > sum.slowest_ns {
        sum.slowest_ns = other.slowest_ns;
        sum.slowest_bytes = other.slowest_bytes;
    }
    if sum.first == 0 || other.first != 0 && other.first < sum.first {
        sum.first = other.first;
    }
    sum.last = sum.last.max(other.last);
    sum.max_byte = sum.max_byte.max(other.max_byte);
    for (sum, other) in sum.sizes.iter_mut().zip(&other.sizes) {
        saturating_add(sum, *other);
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::library::{HDF5, MARKER, index_of};

    use super::*;

    fn progress(bytes_read: u64) -> IoTotals {
        IoTotals {
            bytes_read,
            ..IoTotals::default()
        }
    }

    #[test]
    fn ranges_nest_by_thread() {
        let mut libraries = Libraries::default();
        let mark = index_of(MARKER, "iotrace_mark").unwrap();
        let thread = (0, 7);
        libraries.mark(thread, POP, 5, vec![], progress(0));
        libraries.mark(thread, PUSH, 10, b"epoch".into(), progress(1));
        libraries.mark(thread, PUSH, 20, b"step".into(), progress(10));
        libraries.mark((0, 8), mark, 25, b"hello".into(), progress(12));
        libraries.mark(thread, POP, 30, vec![], progress(15));
        let ended: Vec<_> = libraries.ended(false).collect();
        assert_eq!(ended.len(), 2, "a mark and a step");
        assert_eq!((ended[1].depth, ended[1].end), (1, Some(30)));
        assert_eq!(ended[1].done.bytes_read, 5);
        assert_eq!(libraries.ended(true).count(), 3, "and the epoch");
        assert_eq!(libraries.unmatched, 1);
    }

    #[test]
    fn names_of_objects_are_paths() {
        let mut libraries = Libraries::default();
        let read = index_of(HDF5, "H5Dread").unwrap();
        // Calls may come before the names.
        libraries.add(0, read, None, 3, &Calls::default());
        libraries.name(0, 3, 2, b"x".into());
        libraries.name(0, 1, 0, b"train.h5".into());
        libraries.name(0, 2, 1, b"group".into());
        let (key, _) = libraries.all().next().unwrap();
        assert_eq!(
            libraries.names(key),
            (b"train.h5".into(), b"/group/x".into())
        );
        let mut other = Libraries::default();
        other.append(libraries, 4, |file| file);
        let (key, _) = other.all().next().unwrap();
        assert_eq!(key.process, 4);
        assert_eq!(other.names(key), (b"train.h5".into(), b"/group/x".into()));
    }
}
