//! Whether a save survives a power cut: by the order of its writes, syncs and renames.
//!
//! A file is safe once a sync that began after its last write has returned. A name that it is renamed to is safe once the
//! directory is synced after that, and the rename must come after the sync of the file: else the name may lead to a file
//! without its data. A new file's first name is written with the file, as the local filesystems of Linux do.
//! sync_file_range does not count. What cannot be known is said to be unknown: files that were mapped, filesystems whose
//! servers have caches of their own, saves whose single uses are not known.

use std::collections::BTreeSet;

use super::{
    saves::{Event, parent},
    uses::{Touch, Uses},
};
use iotrace_model::{
    Model,
    counters::{LAST_SYNC, LAST_WRITE, MAPPED_BYTES_DIRTIED},
    merge::SHARED_FILESYSTEMS,
    run::{RAW, Run},
};
use iotrace_phases::copies::Copies;

/// Filesystems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// A file that is written over belongs to the state that is saved if it has at least this share of the largest one.
const MIN_SHARE: u64 = 16;

/// What a save lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// No sync of a file after its last write.
    FileSync,
    /// No sync of a file between its last write and its rename.
    SyncBeforeRename,
    /// No sync of the directory after a rename.
    DirectorySync,
    /// The file of the save before was written over, so there was no whole one meanwhile.
    NewFile,
    /// The files are in memory.
    Storage,
}

impl Missing {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileSync => "file_sync",
            Self::SyncBeforeRename => "sync_before_rename",
            Self::DirectorySync => "directory_sync",
            Self::NewFile => "new_file",
            Self::Storage => "storage",
        }
    }
}

/// Whether a save survives a power cut.
#[derive(Clone, Debug, Default)]
pub struct Durability {
    /// `None` if it is not known.
    pub is_durable: Option<bool>,
    pub missing: BTreeSet<Missing>,
    /// Bytes written to files without a sync after it.
    pub unsynced_bytes: u64,
    /// Whether all that lacks something was copied to where it is durable, or may be.
    pub is_copied: bool,
}

/// What was written to one file in a save.
#[derive(Clone, Debug, Default)]
pub struct Written {
    bytes: u64,
    /// End of the last write; `None` if it is not known.
    last_write: Option<i64>,
    /// The last sync of each use, nanoseconds since the start of the run, and whether there were others in it.
    syncs: Vec<(i64, bool)>,
    /// Whether there were syncs whose time is not known, or the times of single uses are not.
    is_unknown: bool,
}

impl Written {
    pub fn new(touch: &Touch, is_exact: bool) -> Self {
        let last_sync = touch.last_sync.map(|at| (at, touch.syncs > 1));
        Self {
            bytes: touch.bytes,
            last_write: touch.last_write.filter(|_| touch.bytes > 0),
            is_unknown: !is_exact
                || (touch.syncs > 0 && touch.last_sync.is_none())
                || (touch.last_sync.is_some() && touch.bytes > 0 && touch.last_write.is_none()),
            syncs: last_sync.into_iter().collect(),
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.last_write = self.last_write.max(other.last_write);
        self.syncs.extend(&other.syncs);
        self.is_unknown |= other.is_unknown;
    }
}

/// Judges all saves of a run.
pub fn judge(model: &Model, run: &Run, uses: &Uses, copies: &Copies, events: &mut [Event]) {
    let dirtied: BTreeSet<u32> = model
        .rows()
        .iter()
        .filter(|row| row.cell.total().v[MAPPED_BYTES_DIRTIED] > 0)
        .map(|row| row.file)
        .collect();
    let judge = Judge {
        model,
        run,
        uses,
        dirtied,
    };
    let mut saved_before: BTreeSet<u32> = BTreeSet::new();
    for event in events {
        let durability = judge.event(event, &saved_before, copies);
        event.durability = durability;
        saved_before.extend(event.written.keys());
    }
}

struct Judge<'a> {
    model: &'a Model,
    run: &'a Run,
    uses: &'a Uses,
    /// Files that were written through memory.
    dirtied: BTreeSet<u32>,
}

impl Judge<'_> {
    fn event(&self, event: &Event, saved_before: &BTreeSet<u32>, copies: &Copies) -> Durability {
        let mut durability = Durability::default();
        let written = || event.written.iter().filter(|(_, written)| written.bytes > 0);
        let largest = written().map(|(_, written)| written.bytes).max();
        let mut is_unknown = false;
        let mut lacking = BTreeSet::new();
        for (file, written) in written() {
            let mut missing = BTreeSet::new();
            match self.file(event, *file, written) {
                Some(lacks) => missing.extend(lacks),
                None => is_unknown = true,
            }
            if missing.contains(&Missing::FileSync) {
                durability.unsynced_bytes += written.bytes;
            }
            let is_small = written.bytes * MIN_SHARE < largest.unwrap_or(0);
            let is_in_memory = missing.contains(&Missing::Storage);
            if saved_before.contains(file) && !is_small && !is_in_memory {
                missing.insert(Missing::NewFile);
            }
            if !missing.is_empty() {
                lacking.insert(*file);
            }
            durability.missing.extend(missing);
        }
        durability.is_durable = match durability.missing.is_empty() {
            false => Some(false),
            true if is_unknown || largest.is_none() => None,
            true => Some(true),
        };
        let is_copied = |file: &u32| {
            let mut copies = copies.all.iter().filter(|copy| copy.source == *file);
            copies.any(|copy| self.is_kept(copy.process, copy.target))
        };
        durability.is_copied = !lacking.is_empty() && lacking.iter().all(is_copied);
        durability
    }

    /// What a file lacks; `None` if it is not known.
    fn file(&self, event: &Event, index: u32, written: &Written) -> Option<Vec<Missing>> {
        let file = self.model.file(index);
        let fs_type = self.fs_type(index);
        if IN_MEMORY.contains(&fs_type) {
            return Some(vec![Missing::Storage]);
        }
        if is_shared(fs_type) || written.is_unknown || self.dirtied.contains(&index) {
            return None;
        }
        let device = file.id.device;
        let wide = self.uses.wide_syncs.iter();
        let wide = wide.filter(|sync| sync.device.is_none_or(|of| of == device));
        let wide: Vec<i64> = wide.map(|sync| sync.at).collect();
        let last_write = written.last_write.unwrap_or(event.start);
        let all = written.syncs.iter().map(|(at, _)| *at).chain(wide.iter().copied());
        let syncs: Vec<i64> = all.filter(|at| *at >= last_write).collect();
        // Without types of the kernel it is not known whether each write was synced.
        if syncs.is_empty() && self.run.hook == RAW {
            return None;
        }
        let mut missing = Vec::new();
        if syncs.is_empty() {
            missing.push(Missing::FileSync);
        }
        let renamed = self.uses.renamed.iter();
        let renamed = renamed.filter(|(of, _, at)| *of == index && *at >= last_write);
        let Some(renamed) = renamed.map(|(_, _, at)| *at).min() else {
            return Some(missing);
        };
        if !syncs.is_empty() && !syncs.iter().any(|at| *at <= renamed) {
            // Of several syncs in one use the last is known.
            let is_ambiguous = |(at, has_others): &(i64, bool)| *has_others && *at > renamed;
            if written.syncs.iter().any(is_ambiguous) || wide.iter().any(|at| *at > renamed) {
                return None;
            }
            missing.push(Missing::SyncBeforeRename);
        }
        let directory = parent(file.path);
        let mut of_directory = self.uses.directory_syncs.iter().filter(|sync| {
            let path = self.model.file(sync.file).path;
            // A directory that was renamed as a whole has its name in the one above it.
            (path == directory || path == parent(directory))
                && sync.last.unwrap_or(sync.end) >= renamed
        });
        let is_synced = of_directory.next().is_some() || wide.iter().any(|at| *at >= renamed);
        if !is_synced {
            missing.push(Missing::DirectorySync);
        }
        Some(missing)
    }

    fn fs_type(&self, file: u32) -> &str {
        self.model.mount_of(&self.model.file(file)).1
    }

    /// Whether what a process wrote to the target of a copy is on storage, or on a server, which may keep it.
    fn is_kept(&self, process: u32, target: u32) -> bool {
        let rows = self.model.rows().iter();
        let mut rows = rows.filter(|row| row.process == process && row.file == target);
        let is_synced = rows.any(|row| {
            let v = row.cell.total().v;
            v[LAST_SYNC] > 0 && v[LAST_SYNC] >= v[LAST_WRITE]
        });
        is_synced || is_shared(self.fs_type(target))
    }
}

fn is_shared(fs_type: &str) -> bool {
    SHARED_FILESYSTEMS.contains(&fs_type) || fs_type.starts_with("fuse")
}
