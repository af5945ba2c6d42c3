//! Files of the page: one row each, summed over processes, in order of their paths; and the directories they are in.
//!
//! Directories have the sums of the files right in them, of those that are not listed too. The page adds them up the tree.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use serde::Serialize;

use super::columns::{Amount, Columns};
use crate::{Report, text::escape};
use iotrace_analysis::phases::Phases;
use iotrace_model::{
    File, IoTotals,
    counters::{Counters, OPENS, READS, WRITES},
    paths::parent,
};
use iotrace_phases::{phase::Phase, used::Used};

/// Files in the list. The page holds them all in memory and draws those in view.
const MAX_FILES: usize = 100_000;
/// Directories in the tree; if there are more, the deepest are added to their parents.
const MAX_DIRECTORIES: usize = 20_000;

/// Files, directories and what files point to.
pub struct Listed {
    pub files: Files,
    pub directories: Directories,
    pub folded: Folded,
    pub uses: Vec<Use>,
    /// Place in the list of each of its files, by index.
    pub places: HashMap<u32, u32>,
}

/// By column, in order of the paths.
#[derive(Default, Serialize)]
pub struct Files {
    /// Index of the directory; -1 for a file that no name came of.
    directory: Vec<i32>,
    /// The rest of the path.
    name: Vec<String>,
    /// Index of its [`Use`].
    #[serde(rename = "use")]
    used: Vec<u32>,
    /// Index of the rule that matches; -1 for none.
    rule: Vec<i32>,
    opens: Vec<u64>,
    reads: Vec<u64>,
    writes: Vec<u64>,
    size: Vec<u64>,
    processes: Vec<u32>,
    #[serde(flatten)]
    sums: Columns,
}

#[derive(Default, Serialize)]
pub struct Directories {
    path: Vec<String>,
    /// Regular files right in it.
    files: Vec<u64>,
    #[serde(flatten)]
    sums: Columns,
}

/// What the files were used for: one phase, or several.
#[derive(Serialize)]
pub struct Use {
    label: String,
    phases: Vec<&'static str>,
}

/// Files that are not in the list.
#[derive(Default, Serialize)]
pub struct Folded {
    files: u64,
    /// The most time that one of them took.
    longest_ns: u64,
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
    ns: u64,
}

/// One file, summed over processes.
struct Row {
    file: u32,
    processes: u32,
    phases: Phases,
    rule: Option<usize>,
    opens: u64,
    reads: u64,
    writes: u64,
    sum: Amount,
}

impl Listed {
    /// Lists the files of `report`.
    pub fn new(report: &Report<'_>) -> Self {
        let path = |file: u32| report.model.file(file).path;
        let (mut rows, directories) = rows(report);
        let mut tree = Tree::new(report, &rows, &directories);
        let folded = fold(&mut rows);
        rows.sort_unstable_by_key(|row| (path(row.file), row.file));
        let mut files = Files::default();
        let mut uses: BTreeMap<Phases, u32> = BTreeMap::new();
        let places = rows.iter().map(|row| row.file).zip(0..).collect();
        for row in rows {
            let next = uses.len() as u32;
            let used = *uses.entry(row.phases).or_insert(next);
            files.push(&report.model.file(row.file), &row, used, &mut tree);
        }
        let mut named: Vec<_> = uses.into_iter().collect();
        named.sort_unstable_by_key(|(_, index)| *index);
        Self {
            files,
            directories: tree.directories,
            folded,
            places,
            uses: named
                .into_iter()
                .map(|(phases, _)| Use::new(phases))
                .collect(),
        }
    }
}

impl Files {
    fn push(&mut self, file: &File<'_>, row: &Row, used: u32, tree: &mut Tree<'_>) {
        let (directory, name) = tree.split(file.path);
        self.directory.push(directory);
        self.name.push(if file.path.is_empty() {
            format!(
                "(no name came; device {}:{}, inode {})",
                file.id.major(),
                file.id.minor(),
                file.id.inode
            )
        } else {
            escape(name)
        });
        self.used.push(used);
        self.rule.push(row.rule.map_or(-1, |rule| rule as i32));
        self.opens.push(row.opens);
        self.reads.push(row.reads);
        self.writes.push(row.writes);
        self.size.push(file.size);
        self.processes.push(row.processes);
        self.sums.push(&row.sum);
    }
}

impl Use {
    fn new(phases: Phases) -> Self {
        let labels: Vec<_> = phases.iter().map(|phase| phase.to_string()).collect();
        let mut names: Vec<_> = phases.iter().map(Phase::name).collect();
        names.dedup();
        Self {
            label: labels.join(", "),
            phases: names,
        }
    }
}

/// Regular files, and directories.
fn rows(report: &Report<'_>) -> (Vec<Row>, Vec<Row>) {
    let rows = report.model.rows();
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    order.sort_unstable_by_key(|index| rows[*index as usize].file);
    order
        .chunk_by(|a, b| rows[*a as usize].file == rows[*b as usize].file)
        .map(|group| row(report, group))
        .partition(|row| !report.model.file(row.file).is_directory())
}

fn row(report: &Report<'_>, group: &[u32]) -> Row {
    let rows = report.model.rows();
    let file = rows[group[0] as usize].file;
    let sorted = &report.sorted[file as usize];
    let mut whole = Counters::ZERO;
    let mut phases = Phases::default();
    for index in group {
        let counters = rows[*index as usize].cell.total();
        for (phase, _) in Used::new(&counters, sorted).phases(sorted) {
            phases.insert(phase);
        }
        whole.absorb(&counters);
    }
    let used = Used::new(&whole, sorted);
    Row {
        file,
        processes: group.len() as u32,
        phases,
        rule: sorted.verdict.rule(used.main),
        opens: whole.v[OPENS],
        reads: whole.v[READS],
        writes: whole.v[WRITES],
        sum: Amount::from(&whole),
    }
}

/// Takes those with the least time in I/O out of a list that is too long.
fn fold(rows: &mut Vec<Row>) -> Folded {
    let mut folded = Folded::default();
    if rows.len() <= MAX_FILES {
        return folded;
    }
    rows.sort_unstable_by_key(|row| (Reverse(row.sum.io.ns), row.file));
    let mut sum = IoTotals::default();
    for row in rows.drain(MAX_FILES..) {
        folded.files += 1;
        folded.longest_ns = folded.longest_ns.max(row.sum.io.ns);
        sum.add(&row.sum.io);
    }
    Folded {
        operations: sum.operations,
        bytes_read: sum.bytes_read,
        bytes_written: sum.bytes_written,
        ns: sum.ns,
        ..folded
    }
}

/// Directories by path, and how deep they are kept.
struct Tree<'a> {
    places: BTreeMap<&'a [u8], i32>,
    depth: usize,
    directories: Directories,
}

impl<'a> Tree<'a> {
    fn new(report: &'a Report<'a>, files: &[Row], directories: &[Row]) -> Self {
        let mut tree = Self {
            places: BTreeMap::new(),
            depth: usize::MAX,
            directories: Directories::default(),
        };
        let path = |row: &Row| report.model.file(row.file).path;
        // Files with their sums, to their directory; directories with theirs, to themselves.
        let named = files
            .iter()
            .map(|row| (parent(path(row)), row, 1))
            .chain(directories.iter().map(|row| (path(row), row, 0)))
            .filter(|(_, row, _)| !path(row).is_empty());
        let mut sums: BTreeMap<&[u8], (u64, Amount)> = BTreeMap::new();
        for (directory, row, count) in named {
            let (files, sum) = sums.entry(directory).or_default();
            *files += count;
            sum.add(&row.sum);
        }
        while sums.len() > MAX_DIRECTORIES {
            tree.depth = sums.keys().map(|path| depth(path)).max().unwrap_or(0) - 1;
            sums = shallow(sums, tree.depth);
        }
        for (path, (files, sum)) in sums {
            tree.places.insert(path, tree.directories.path.len() as i32);
            tree.directories.path.push(escape(path));
            tree.directories.files.push(files);
            tree.directories.sums.push(&sum);
        }
        tree
    }

    /// The directory of a file, and the rest of its path.
    fn split<'p>(&self, path: &'p [u8]) -> (i32, &'p [u8]) {
        let directory = up_to(parent(path), self.depth);
        let place = self.places.get(directory).copied();
        match place {
            Some(place) if !path.is_empty() => {
                let rest = &path[directory.len()..];
                (place, rest.strip_prefix(b"/").unwrap_or(rest))
            }
            _ => (-1, path),
        }
    }
}

/// Counts what is deeper than `depth` to what is above it.
fn shallow(sums: BTreeMap<&[u8], (u64, Amount)>, depth: usize) -> BTreeMap<&[u8], (u64, Amount)> {
    let mut folded: BTreeMap<&[u8], (u64, Amount)> = BTreeMap::new();
    for (path, (files, sum)) in sums {
        let above = folded.entry(up_to(path, depth)).or_default();
        above.0 += files;
        above.1.add(&sum);
    }
    folded
}

fn depth(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

/// The first `depth` components of a path.
fn up_to(path: &[u8], depth: usize) -> &[u8] {
    let mut slashes = path
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'/')
        .map(|(index, _)| index);
    match slashes.nth(depth) {
        Some(end) => &path[..end],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_at_their_components() {
        assert_eq!(up_to(b"/a/b/c", 2), b"/a/b");
        assert_eq!(up_to(b"/a/b/c", 3), b"/a/b/c");
        assert_eq!(up_to(b"/a/b/c", 0), b"");
        assert_eq!(up_to(b"", usize::MAX), b"");
        assert_eq!(depth(b"/a/b"), 2);
    }

    #[test]
    fn folding_keeps_every_sum() {
        let one = |operations| IoTotals {
            operations,
            ..IoTotals::default()
        };
        let paths: [&[u8]; 4] = [b"/a", b"/a/b", b"/a/b/c", b"/d/e"];
        let sums = paths
            .into_iter()
            .zip([1, 10, 100, 1_000])
            .map(|(path, operations)| (path, (1, one(operations).into())))
            .collect();
        let folded = shallow(sums, 1);
        let expected: [(&[u8], _); 2] = [
            (b"/a", (3, one(111).into())),
            (b"/d", (1, one(1_000).into())),
        ];
        assert!(folded.into_iter().eq(expected));
    }
}
