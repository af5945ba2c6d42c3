//! Negative look-ups: directories that were searched for files that do not exist, by process.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::key::FileId;

use super::failures::FailureCount;

/// A directory as the kernel side knows it: where the path starts, and a hash of the path as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Searched {
    pub base: FileId,
    pub hash: u64,
}

/// Negative look-ups, by process and directory.
#[derive(Debug, Default)]
pub struct NegativeLookups {
    /// Places in `paths`.
    known: HashMap<Searched, u32>,
    by_path: HashMap<Vec<u8>, u32>,
    /// Empty: not named.
    paths: Vec<Vec<u8>>,
    /// Total, and the part of it that came since the last flush.
    counts: BTreeMap<(u32, u32), (FailureCount, FailureCount)>,
}

impl NegativeLookups {
    /// Says which directory it is. It may have been named before, and counts may have come before its name.
    pub fn name(&mut self, searched: Searched, path: Vec<u8>) {
        let own = self.place(searched);
        self.paths[own as usize] = path;
    }

    /// Counts what a process looked for in a directory.
    pub fn add(&mut self, process: u32, searched: Searched, count: FailureCount) {
        let directory = self.place(searched);
        self.count(process, directory, count);
    }

    /// Counts what a process looked for in the directory of a path; the empty one is not known.
    pub fn add_at(&mut self, process: u32, path: &[u8], count: FailureCount) {
        let paths = &mut self.paths;
        let directory = *self.by_path.entry(path.to_vec()).or_insert_with(|| {
            paths.push(path.to_vec());
            paths.len() as u32 - 1
        });
        self.count(process, directory, count);
    }

    fn place(&mut self, searched: Searched) -> u32 {
        let paths = &mut self.paths;
        *self.known.entry(searched).or_insert_with(|| {
            paths.push(Vec::new());
            paths.len() as u32 - 1
        })
    }

    fn count(&mut self, process: u32, directory: u32, count: FailureCount) {
        let (total, interval) = self.counts.entry((process, directory)).or_default();
        for sum in [total, interval] {
            *sum += count;
        }
    }

    /// All look-ups: the process, the directory's path, which is empty where it is not known, and how many.
    pub fn all(&self) -> impl Iterator<Item = (u32, &[u8], FailureCount)> {
        let path = |directory: u32| self.paths[directory as usize].as_slice();
        let counts = self.counts.iter();
        counts.map(move |((process, directory), (total, _))| (*process, path(*directory), *total))
    }

    /// The same since the last [`NegativeLookups::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (u32, &[u8], FailureCount)> {
        let path = |directory: u32| self.paths[directory as usize].as_slice();
        let recent = self.counts.iter().filter(|(_, (_, new))| new.calls > 0);
        recent.map(move |((process, directory), (_, new))| (*process, path(*directory), *new))
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        let counts = self.counts.values_mut();
        counts.for_each(|(_, interval)| *interval = FailureCount::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FailureCount = FailureCount { calls: 1, ns: 5 };

    #[test]
    fn names_may_come_behind_counts() {
        let mut lookups = NegativeLookups::default();
        let searched = Searched {
            base: FileId::NONE,
            hash: 7,
        };
        lookups.add(0, searched, ONE);
        assert_eq!(
            lookups.all().collect::<Vec<_>>(),
            [(0, b"".as_slice(), ONE)]
        );
        lookups.settle();
        lookups.name(searched, b"/lib".to_vec());
        lookups.add(0, searched, ONE);
        assert_eq!(
            lookups.interval().collect::<Vec<_>>(),
            [(0, b"/lib".as_slice(), ONE)]
        );
        let all: Vec<_> = lookups.all().collect();
        assert_eq!(
            all,
            [(0, b"/lib".as_slice(), FailureCount { calls: 2, ns: 10 })]
        );
    }
}
