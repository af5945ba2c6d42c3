//! Forgetting: what a run that goes on for months need not know any more leaves, and all indices move.
//!
//! Only what is settled may be forgotten; who asks has taken the counts before.

use super::{Model, Process, input::Place};

/// Where each index has gone.
#[derive(Clone, Debug, Default)]
pub struct Moved(Vec<Option<u32>>);

impl Moved {
    /// Renumbers those that are kept.
    pub(super) fn new(kept: impl Iterator<Item = bool>) -> Self {
        let mut next = 0;
        let number = |kept: bool| {
            kept.then(|| {
                next += 1;
                next - 1
            })
        };
        Self(kept.map(number).collect())
    }

    /// Those that are kept keep their index.
    pub(super) fn in_place(kept: impl Iterator<Item = bool>) -> Self {
        let kept = (0..).zip(kept);
        Self(kept.map(|(index, kept)| kept.then_some(index)).collect())
    }

    /// The new index of what had this one; `None` where it is forgotten.
    pub fn get(&self, index: u32) -> Option<u32> {
        self.0.get(index as usize).copied().flatten()
    }

    /// How many are forgotten.
    pub fn forgotten(&self) -> usize {
        self.0.iter().filter(|new| new.is_none()).count()
    }

    /// Takes out of a vector what is forgotten.
    pub(super) fn retain<T>(&self, all: &mut Vec<T>) {
        let mut kept = self.0.iter().map(Option::is_some);
        all.retain(|_| kept.next().unwrap_or(true));
    }
}

/// What [`Model::forget`] has moved.
#[derive(Debug, Default)]
pub struct Forgotten {
    pub processes: Moved,
    pub files: Moved,
}

impl Model {
    /// Forgets the processes and files that are not to be kept, with all that was counted of them. The interval must be
    /// settled, so that nothing that nobody has seen is lost. A history, if kept, starts over.
    pub fn forget(
        &mut self,
        keep_process: impl Fn(&Process) -> bool,
        keep_file: impl Fn(u32) -> bool,
    ) -> Forgotten {
        if let Some(history) = &mut self.history {
            history.take();
        }
        let processes = Moved::new(self.processes.all().iter().map(keep_process));
        let files = Moved::new((0..self.files.count() as u32).map(keep_file));
        self.rows.forget(&processes, &files);
        self.failures.forget(&processes, &files);
        self.moves.forget(&processes, &files);
        self.latencies.forget(&processes);
        if let Some(spans) = &mut self.spans {
            spans.forget(&processes, &files);
        }
        self.processes.forget(&processes);
        self.files.forget(&files);
        Forgotten { processes, files }
    }
}

/// A place with its file's new index.
pub(super) fn moved(place: Place<u32>, files: &Moved) -> Option<Place<u32>> {
    match place {
        Place::File(file) => files.get(file).map(Place::File),
        place => Some(place),
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::{key::FileId, op};

    use super::*;
    use crate::{
        counters::{Counters, OPENS, READS},
        history::Bounds,
        input::{Event, FileName, Place, ProcessId},
    };

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    fn file(inode: u64) -> FileId {
        FileId {
            device: 1,
            generation: 0,
            inode,
        }
    }

    fn name(inode: u64) -> Event {
        Event::File(FileName {
            file: file(inode),
            path: format!("/data/{}/{inode}", inode % 3).into_bytes(),
            size: inode,
            mode: libc::S_IFREG,
            magic: 0xef53,
            block_size: 4096,
            truncated: false,
            deleted: false,
            existed: false,
        })
    }

    fn read(model: &mut Model, pid: u32, inode: u64) {
        let mut counters = Counters::ZERO;
        counters.v[READS] = inode + 1;
        counters.v[OPENS] = 1;
        model.add(process(pid), Place::File(file(inode)), &counters);
        model.add_failures(
            process(pid),
            Place::File(file(inode)),
            op::READ as u32,
            5,
            2,
            0,
        );
    }

    /// Ten files, each read by two of four processes; processes 1 and 2 have ended.
    fn filled() -> Model {
        let mut model = Model::default();
        for inode in 0..10 {
            model.event(name(inode));
            read(&mut model, 1 + inode as u32 % 4, inode);
            read(&mut model, 1 + (inode as u32 + 1) % 4, inode);
        }
        for pid in [1, 2] {
            model.event(Event::Exit {
                process: process(pid),
                time: 1,
                status: 0,
            });
        }
        model.settle(Bounds { start: 0, end: 0 });
        model
    }

    #[test]
    fn what_is_kept_is_as_it_was() {
        let mut model = filled();
        let moved = model.forget(|process| process.about.end.is_none(), |file| file >= 5);
        assert_eq!(
            (moved.processes.forgotten(), moved.files.forgotten()),
            (2, 5)
        );
        assert_eq!(model.file_count(), 5);
        for inode in 5..10_u32 {
            let index = moved.files.get(inode).unwrap();
            let kept = model.file(index);
            assert_eq!(kept.id, file(inode.into()));
            assert_eq!(kept.path, format!("/data/{}/{inode}", inode % 3).as_bytes());
            assert_eq!(kept.magic, 0xef53);
        }
        assert_eq!(moved.files.get(0), None);
        for row in model.rows() {
            let (pid, inode) = (
                model.processes()[row.process as usize].id.pid,
                model.file(row.file).id.inode,
            );
            assert!(pid > 2 && inode >= 5);
            assert_eq!(row.cell.total().v[READS], inode + 1);
        }
        assert_eq!(model.rows().len(), model.failures().all().count());
    }

    #[test]
    fn goes_on_where_it_was() {
        let mut model = filled();
        model.forget(|process| process.about.end.is_none(), |file| file >= 5);
        // A row, a file and a process that are known, and such that were forgotten.
        for (pid, inode) in [(3, 6), (3, 0), (1, 9)] {
            model.event(name(inode));
            read(&mut model, pid, inode);
        }
        let reads = |pid, inode| {
            let row = model.rows().iter().find(|row| {
                model.processes()[row.process as usize].id == process(pid)
                    && model.file(row.file).id == file(inode)
            });
            row.map(|row| row.cell.total().v[READS])
        };
        assert_eq!(reads(3, 6), Some(14));
        assert_eq!(reads(3, 0), Some(1));
        assert_eq!(reads(1, 9), Some(10));
        // Names lead to the right files.
        let renamed = |model: &mut Model, from: &str, to: &str| {
            model.event(Event::Rename {
                process: process(3),
                time: 1,
                from: from.into(),
                to: to.into(),
                exchange: false,
            });
        };
        renamed(&mut model, "/data/0", "/old");
        let paths: Vec<_> = (0..model.file_count() as u32)
            .map(|index| String::from_utf8_lossy(model.file(index).path).into_owned())
            .collect();
        assert!(
            paths.contains(&"/old/6".into()) && paths.contains(&"/old/0".into()),
            "{paths:?}"
        );
        assert!(paths.contains(&"/data/2/8".into()), "{paths:?}");
    }
}
