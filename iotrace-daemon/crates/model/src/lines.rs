//! What was done by line of a Python program, and by function of a native one.

use std::{collections::BTreeMap, sync::Arc};

pub use iotrace_common::lines::LineCounts as Counts;

use super::input::ProcessId;

/// A line of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The source file, as the interpreter or the debugging information names it; without any, the executable.
    pub file: Arc<str>,
    /// 0: not known.
    pub line: u32,
    /// The function's qualified name.
    pub function: Arc<str>,
}

impl Place {
    /// Whether it is of an installed package or of the interpreter's own library.
    pub fn is_of_library(&self) -> bool {
        const WITHIN: [&str; 3] = ["/site-packages/", "/dist-packages/", "/lib/python3"];
        self.file.starts_with("<frozen") || WITHIN.iter().any(|part| self.file.contains(part))
    }
}

/// Counts of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lined {
    pub process: ProcessId,
    /// The program's own line; none where no line is known.
    pub own: Option<Arc<Place>>,
    /// The innermost line, if it is another.
    pub via: Option<Arc<Place>>,
    pub phase: u16,
    pub counts: Counts,
}

/// Whose counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Index of the process.
    pub process: u32,
    pub own: Option<Arc<Place>>,
    pub via: Option<Arc<Place>>,
    /// `Phase::code`; 0: none.
    pub phase: u16,
}

/// Counts by line.
#[derive(Debug, Default)]
pub struct Lines {
    /// Total and the part since the last flush.
    all: BTreeMap<Key, (Counts, Counts)>,
}

impl Lines {
    /// Adds counts.
    pub fn add(&mut self, key: Key, counts: &Counts) {
        let (total, interval) = self.all.entry(key).or_default();
        total.add(counts);
        interval.add(counts);
    }

    /// Of the whole run.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Counts)> {
        self.all.iter().map(|(key, (total, _))| (key, total))
    }

    /// Since the last [`Lines::settle`].
    pub fn interval(&self) -> impl Iterator<Item = (&Key, &Counts)> {
        let none = Counts::default();
        let recent = self.all.iter().filter(move |(_, (_, new))| *new != none);
        recent.map(|(key, (_, new))| (key, new))
    }

    /// Whether no line is known.
    pub fn is_empty(&self) -> bool {
        self.all.keys().all(|key| key.own.is_none())
    }

    /// Ends the interval.
    pub fn settle(&mut self) {
        for (_, interval) in self.all.values_mut() {
            *interval = Counts::default();
        }
    }

    /// Adds those of another node, whose processes begin at `processes` here.
    pub(super) fn append(&mut self, other: Self, processes: u32) {
        for (key, (total, _)) in other.all {
            let process = key.process + processes;
            let sum = self.all.entry(Key { process, ..key }).or_default();
            sum.0.add(&total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str) -> Place {
        Place {
            file: file.into(),
            line: 3,
            function: "f".into(),
        }
    }

    #[test]
    fn libraries_are_told_from_programs() {
        for file in [
            "/usr/lib/python3.11/pathlib.py",
            "/home/me/venv/lib/python3.12/site-packages/PIL/Image.py",
            "/usr/lib/python3/dist-packages/torch/serialization.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(place(file).is_of_library(), "{file}");
        }
        for file in [
            "/home/me/train.py",
            "train.py",
            "<string>",
            "<stdin>",
            "/data/python3/a.py",
        ] {
            assert!(!place(file).is_of_library(), "{file}");
        }
    }

    #[test]
    fn intervals_add_up_and_nodes_move() {
        let key = Key {
            process: 1,
            own: Some(Arc::new(place("a.py"))),
            via: None,
            phase: 2,
        };
        let counts = Counts {
            opens: 1,
            bytes_read: 7,
            ..Counts::default()
        };
        let mut lines = Lines::default();
        lines.add(key.clone(), &counts);
        lines.settle();
        assert_eq!(lines.interval().count(), 0);
        lines.add(key, &counts);
        let mut job = Lines::default();
        job.append(lines, 10);
        let (key, total) = job.all().next().unwrap();
        assert_eq!((key.process, total.opens, total.bytes_read), (11, 2, 14));
        assert_eq!(job.interval().count(), 0);
    }
}
