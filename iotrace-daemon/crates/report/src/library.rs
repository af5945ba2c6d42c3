//! What programs asked their libraries for, and the ranges that they marked, summed up for the report.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::library::{Calls, FUNCTIONS, NAMES, class};

use super::Report;
use iotrace_model::{
    IoTotals,
    counters::{READS, WRITES, saturating_add},
    library::{Range, add},
};

/// A file that a library worked on, or an object in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The path of the file; by the name that the library was given where the file is not known.
    pub path: Vec<u8>,
    /// The object in it; empty for the file itself.
    pub object: Vec<u8>,
}

/// Calls of one process by one function on one subject.
pub struct LibraryRow {
    pub process: u32,
    /// Place in [`FUNCTIONS`].
    pub function: u16,
    pub subject: Subject,
    pub calls: Calls,
}

/// What a library did to a subject, over all processes.
#[derive(Default)]
pub struct OfSubject {
    pub reads: Calls,
    pub writes: Calls,
    /// Calls of other kinds.
    pub others: Calls,
    /// Reads and writes of the file by system calls; none where it is not known which file it is.
    pub system_calls: Option<u64>,
}

/// Ranges of one name.
#[derive(Clone, Debug, Default)]
pub struct NamedRanges {
    pub name: Vec<u8>,
    /// Ranges that ended, and those that did not.
    pub count: u64,
    pub unended: u64,
    pub ns: u64,
    pub shortest_ns: u64,
    pub longest_ns: u64,
    /// What all traced processes did in the ranges that ended.
    pub io: IoTotals,
}

impl Report<'_> {
    /// Calls of libraries by process, function and subject, in this order.
    pub(super) fn library_rows(&self) -> Vec<LibraryRow> {
        let mut sums: BTreeMap<(u32, u16, Subject), Calls> = BTreeMap::new();
        for (key, calls) in self.model.libraries().all() {
            let (given, object) = self.model.libraries().names(key);
            let path = key.file.map(|file| self.model.file(file).path.to_vec());
            let path = path.filter(|path| !path.is_empty()).unwrap_or(given);
            let key = (key.process, key.function, Subject { path, object });
            add(sums.entry(key).or_default(), calls);
        }
        let rows = sums.into_iter();
        rows.map(|((process, function, subject), calls)| LibraryRow {
            process,
            function,
            subject,
            calls,
        })
        .collect()
    }

    /// The same over all processes, of one library (its name).
    pub(super) fn library_subjects(&self, library: &str) -> Vec<(Subject, OfSubject)> {
        let mut sums: BTreeMap<Subject, OfSubject> = BTreeMap::new();
        for row in self.library_rows() {
            let (_, function) = FUNCTIONS[usize::from(row.function)];
            if NAMES[usize::from(function.library)] != library {
                continue;
            }
            let sum = sums.entry(row.subject).or_default();
            let sum = match function.class {
                class::READ => &mut sum.reads,
                class::WRITE => &mut sum.writes,
                _ => &mut sum.others,
            };
            add(sum, &row.calls);
        }
        let mut calls: HashMap<&[u8], u64> = HashMap::new();
        for row in self.model.rows() {
            let v = row.cell.total().v;
            let of_file = calls.entry(self.model.file(row.file).path).or_default();
            saturating_add(of_file, v[READS]);
            saturating_add(of_file, v[WRITES]);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        for (subject, sum) in &mut sums {
            if subject.object.is_empty() {
                sum.system_calls = calls.get(&*subject.path).copied();
            }
        }
        sums
    }

    /// Ranges by name, those with the most time first.
    pub(super) fn range_names(&self) -> Vec<NamedRanges> {
        let mut sums: BTreeMap<&[u8], NamedRanges> = BTreeMap::new();
        let ranges = self.model.libraries().ranges().iter();
        for range in ranges.filter(|range| !range.is_mark) {
            let sum = sums.entry(&range.name).or_insert_with(|| NamedRanges {
                name: range.name.clone(),
                shortest_ns: u64::MAX,
                ..NamedRanges::default()
            });
            let Some(ns) = length(range) else {
                sum.unended += 1;
                continue;
            };
            sum.count += 1;
            saturating_add(&mut sum.ns, ns);
            sum.shortest_ns = sum.shortest_ns.min(ns);
            sum.longest_ns = sum.longest_ns.max(ns);
            sum.io.add(&range.done);
        }
        let mut names: Vec<NamedRanges> = sums.into_values().collect();
        for name in names.iter_mut().filter(|name| name.count == 0) {
            name.shortest_ns = 0;
        }
        names.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        names
    }
}

/// How long a range lasted; none where it did not end.
pub fn length(range: &Range) -> Option<u64> {
    Some(range.end?.saturating_sub(range.start))
}
