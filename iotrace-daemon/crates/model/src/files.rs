//! Files (and directories) by identity, and the names they have: first sight, renames, removals.

use std::{
    collections::{BTreeMap, HashSet},
    hash::BuildHasher,
};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use iotrace_common::key::FileId;

use super::{
    arena::{Arena, Name},
    forget::Moved,
    input::FileName,
};

mod flag {
    /// The leading components of the path are missing.
    pub const TRUNCATED: u16 = 1;
    /// The name is gone: unlinked, or replaced by a rename.
    pub const DELETED: u16 = 2;
    /// Something about the file changed since the last flush.
    pub const CHANGED: u16 = 4;
    /// The open that it was first seen by did not make it.
    pub const EXISTED: u16 = 8;
    /// The bits from here on are the phases of its operations, a `PhaseSet`.
    pub const PHASES: u32 = 6;
    /// What a name does not change.
    pub const KEPT: u16 = CHANGED | u16::MAX << PHASES;
}

// A run of millions of files has as many of these.
const _: () = assert!(size_of::<Entry>() == 40);

/// What is known of one file.
#[derive(Debug)]
struct Entry {
    id: FileId,
    path: Name,
    /// Size at first sight, bytes.
    size: u64,
    /// `st_mode`, which fits 16 bits.
    mode: u16,
    /// See [`flag`].
    flags: u16,
}

/// A set of phases, by their numbers (`Phase::code`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseSet(pub u16);

impl PhaseSet {
    /// The set with one more; 0 is no phase.
    pub fn with(self, phase: u32) -> Self {
        let known = phase > 0 && (phase as usize) < iotrace_common::phases::COUNT;
        Self(self.0 | u16::from(known) << phase.min(15))
    }

    /// The numbers of its phases.
    pub fn codes(self) -> impl Iterator<Item = u16> {
        (1..16).filter(move |code| self.0 >> code & 1 != 0)
    }
}

/// One file, as reports see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    pub id: FileId,
    /// Of several recordings in one model, the one that it comes from first; 0 otherwise.
    pub node: u32,
    /// Current path, any bytes; empty if no name came.
    pub path: &'a [u8],
    /// The path before the first rename, where there was one.
    pub opened_as: Option<&'a [u8]>,
    /// Size at first sight, bytes.
    pub size: u64,
    /// `st_mode`; 0 if no name came.
    pub mode: u32,
    /// Magic number of its filesystem; 0 if no name came.
    pub magic: u64,
    /// Block size of its filesystem, bytes: what Darshan calls the file alignment; 0 if no name came.
    pub block_size: u32,
    /// The leading components of the path are missing.
    pub truncated: bool,
    /// The name is gone: unlinked, or replaced by a rename.
    pub deleted: bool,
    /// The open that it was first seen by did not make it; false if that is not known.
    pub existed: bool,
    /// Phases that the kernel side sorted operations on it into.
    pub phases: PhaseSet,
}

impl File<'_> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// What names it in another model.
    pub fn name(&self) -> FileName {
        FileName {
            file: self.id,
            path: self.path.to_vec(),
            size: self.size,
            mode: self.mode,
            magic: self.magic,
            block_size: self.block_size,
            truncated: self.truncated,
            deleted: self.deleted,
            existed: self.existed,
        }
    }
}

/// What is known of a filesystem.
#[derive(Clone, Copy, Debug, Default)]
struct Filesystem {
    magic: u64,
    block_size: u32,
}

impl Filesystem {
    fn of(name: &FileName) -> Self {
        Self {
            magic: name.magic,
            block_size: name.block_size,
        }
    }
}

/// All files seen.
#[derive(Debug, Default)]
pub struct Files {
    entries: Vec<Entry>,
    names: Arena,
    hasher: DefaultHashBuilder,
    by_id: HashTable<u32>,
    by_path: HashTable<u32>,
    /// Every directory that a path seen so far goes through: which renames concern files beneath them.
    directories: HashSet<Box<[u8]>>,
    /// By index, where there are several nodes.
    nodes: Vec<u32>,
    /// First paths of renamed files.
    opened_as: HashMap<u32, Name>,
    /// Filesystems by device. They are few, and looked up with each file.
    filesystems: BTreeMap<u32, Filesystem>,
    changed: Vec<u32>,
}

impl Files {
    /// Number of files.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The file at `index`.
    pub fn get(&self, index: u32) -> File<'_> {
        let entry = &self.entries[index as usize];
        let filesystem = self
            .filesystems
            .get(&entry.id.device)
            .copied()
            .unwrap_or_default();
        File {
            id: entry.id,
            node: self.nodes.get(index as usize).copied().unwrap_or(0),
            path: self.names.get(entry.path),
            opened_as: self.opened_as.get(&index).map(|name| self.names.get(*name)),
            size: entry.size,
            mode: entry.mode.into(),
            magic: filesystem.magic,
            block_size: filesystem.block_size,
            truncated: entry.flags & flag::TRUNCATED != 0,
            deleted: entry.flags & flag::DELETED != 0,
            existed: entry.flags & flag::EXISTED != 0,
            phases: PhaseSet(entry.flags >> flag::PHASES),
        }
    }

    /// Adds a file of another model, as one of `node`; it is not found by its identity. Returns its index.
    pub fn push_from(&mut self, other: &Self, index: u32, node: u32) -> u32 {
        let known = &other.entries[index as usize];
        let at = self.entries.len() as u32;
        self.nodes.resize(at as usize, 0);
        self.nodes.push(node);
        self.entries.push(Entry {
            path: self.names.keep(other.names.get(known.path)),
            ..*known
        });
        if let Some(path) = other.opened_as.get(&index) {
            let path = self.names.keep(other.names.get(*path));
            self.opened_as.insert(at, path);
        }
        if let Some(filesystem) = other.filesystems.get(&known.id.device) {
            self.filesystems
                .entry(known.id.device)
                .or_insert(*filesystem);
        }
        at
    }

    /// Index of the file `id`, if it is known.
    pub fn of(&self, id: FileId) -> Option<u32> {
        let hash = self.hasher.hash_one(id);
        let is_it = |index: &u32| self.entries[*index as usize].id == id;
        self.by_id.find(hash, is_it).copied()
    }

    /// Index of the file `id`, which is made known.
    pub fn intern(&mut self, id: FileId) -> u32 {
        if let Some(index) = self.of(id) {
            return index;
        }
        let hash = self.hasher.hash_one(id);
        let index = self.entries.len() as u32;
        self.entries.push(Entry {
            id,
            path: Name::default(),
            size: 0,
            mode: 0,
            flags: 0,
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.by_id.insert_unique(hash, index, |index| {
            hasher.hash_one(entries[*index as usize].id)
        });
        index
    }

    /// Takes a name at first sight. A name that comes again changes nothing, unless the one before it is gone.
    pub fn name(&mut self, name: &FileName) {
        let index = self.intern(name.file);
        self.filesystems
            .insert(name.file.device, Filesystem::of(name));
        let entry = &mut self.entries[index as usize];
        let known = !entry.path.is_empty();
        if known && (entry.flags & flag::DELETED == 0 || name.deleted) {
            return;
        }
        entry.mode = name.mode as u16;
        entry.size = name.size;
        entry.flags = (entry.flags & flag::KEPT) | state(name);
        self.set_path(index, &name.path);
    }

    /// Takes the path of a file of which nothing else is known, unless it has one.
    pub fn name_if_unknown(&mut self, id: FileId, path: &[u8]) {
        let index = self.intern(id);
        if self.entries[index as usize].path.is_empty() {
            self.set_path(index, path);
        }
    }

    /// Takes what a recording says of a file. Such a file is not found by its path: a recording has no renames.
    pub fn restore(&mut self, name: &FileName, opened_as: Option<&[u8]>, phases: PhaseSet) {
        let index = self.intern(name.file);
        self.entries[index as usize].flags |= phases.0 << flag::PHASES;
        if name.magic != 0 {
            self.filesystems
                .insert(name.file.device, Filesystem::of(name));
        }
        if name.path.is_empty() {
            return;
        }
        // A later log of a job finds files that an earlier one saw being made.
        let known = self.get(index);
        let is_made = !known.path.is_empty() && !known.existed;
        if known.path != name.path {
            self.entries[index as usize].path = self.names.keep(&name.path);
        }
        if opened_as.is_some_and(|path| self.get(index).opened_as != Some(path)) {
            let path = self.names.keep(opened_as.unwrap_or_default());
            self.opened_as.insert(index, path);
        }
        let entry = &mut self.entries[index as usize];
        entry.size = name.size;
        entry.mode = name.mode as u16;
        entry.flags = (entry.flags & flag::KEPT) | state(name);
        if is_made {
            entry.flags &= !flag::EXISTED;
        }
    }

    /// Takes down that an operation on a file was of a phase.
    pub fn sorted(&mut self, index: u32, phase: u32) {
        self.entries[index as usize].flags |= PhaseSet::default().with(phase).0 << flag::PHASES;
    }

    /// A rename of a file or a directory. Returns the file that was known by the old name.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Option<u32> {
        let renamed = self.find(from);
        let replaced = self.find(to);
        if renamed.is_some() && renamed == replaced {
            return renamed; // two names of one file: rename(2) does nothing
        }
        if let Some(replaced) = replaced {
            self.delete(replaced);
        }
        if let Some(renamed) = renamed {
            self.move_path(renamed, to);
        }
        if self.directories.contains(from) {
            self.rename_beneath(from, to);
        }
        renamed
    }

    /// Two names that changed places. Returns the file that was known by the first.
    pub fn exchange(&mut self, first: &[u8], second: &[u8]) -> Option<u32> {
        // No path has a NUL.
        const ASIDE: &[u8] = b"/\0";
        let renamed = self.rename(first, ASIDE);
        self.rename(second, first);
        self.rename(ASIDE, second);
        renamed
    }

    /// A removed name. Returns the file that was known by it.
    pub fn unlink(&mut self, path: &[u8]) -> Option<u32> {
        let index = self.find(path)?;
        self.delete(index);
        Some(index)
    }

    /// Takes out the files that are forgotten; the names of the others move together.
    pub fn forget(&mut self, moved: &Moved) {
        let old = std::mem::take(self);
        self.filesystems = old.filesystems;
        let kept = || {
            old.entries
                .iter()
                .zip(0..)
                .filter(|(_, index)| moved.get(*index).is_some())
        };
        for (entry, index) in kept() {
            let new = self.intern(entry.id);
            let first = old.opened_as.get(&index);
            let first = first.map(|first| self.names.keep(old.names.get(*first)));
            self.opened_as.extend(first.map(|first| (new, first)));
            let kept = &mut self.entries[new as usize];
            (kept.size, kept.mode, kept.flags) = (entry.size, entry.mode, entry.flags);
        }
        // Those that answer to their path come last.
        let answers = |entry: &Entry, index: u32| {
            let hash = old.hasher.hash_one(old.names.get(entry.path));
            old.by_path.find(hash, |other| *other == index).is_some()
        };
        for last in [false, true] {
            for (entry, index) in kept().filter(|(entry, index)| answers(entry, *index) == last) {
                let path = old.names.get(entry.path);
                if let Some(new) = moved.get(index).filter(|_| !path.is_empty()) {
                    self.set_path(new, path);
                }
            }
        }
        self.settle();
    }

    /// Files that changed since the last [`Files::settle`].
    pub fn changed(&self) -> &[u32] {
        &self.changed
    }

    /// Forgets which files changed.
    pub fn settle(&mut self) {
        for index in self.changed.drain(..) {
            self.entries[index as usize].flags &= !flag::CHANGED;
        }
    }

    fn rename_beneath(&mut self, from: &[u8], to: &[u8]) {
        let beneath: Vec<u32> = (0..self.entries.len() as u32)
            .filter(|index| {
                rest_beneath(self.get(*index).path, from).is_some_and(|rest| !rest.is_empty())
            })
            .collect();
        for index in beneath {
            let rest = rest_beneath(self.get(index).path, from).unwrap_or_default();
            let path = [to, rest].concat();
            self.move_path(index, &path);
        }
    }

    fn move_path(&mut self, index: u32, to: &[u8]) {
        let old = self.entries[index as usize].path;
        self.opened_as.entry(index).or_insert(old);
        self.set_path(index, to);
    }

    fn set_path(&mut self, index: u32, path: &[u8]) {
        self.forget_path(index);
        self.entries[index as usize].path = self.names.keep(path);
        self.mark_changed(index);
        self.learn_directories(path);
        if self.entries[index as usize].flags & flag::DELETED != 0 {
            return;
        }
        // A file that had this path before has lost it: the newest one answers to it.
        let hash = self.hasher.hash_one(path);
        let (entries, names, hasher) = (&self.entries, &self.names, &self.hasher);
        let path_of = |index: &u32| names.get(entries[*index as usize].path);
        match self.by_path.find_mut(hash, |other| path_of(other) == path) {
            Some(slot) => *slot = index,
            None => {
                self.by_path
                    .insert_unique(hash, index, |index| hasher.hash_one(path_of(index)));
            }
        }
    }

    fn delete(&mut self, index: u32) {
        self.forget_path(index);
        self.entries[index as usize].flags |= flag::DELETED;
        self.mark_changed(index);
    }

    fn forget_path(&mut self, index: u32) {
        let path = self.names.get(self.entries[index as usize].path);
        let hash = self.hasher.hash_one(path);
        if let Ok(entry) = self.by_path.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
    }

    /// The file that has this path now.
    pub fn find(&self, path: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(path);
        let found = self.by_path.find(hash, |index| {
            self.names.get(self.entries[*index as usize].path) == path
        });
        found.copied()
    }

    /// Whether a file has this path now, or a path that was seen goes through it.
    pub fn has_name(&self, path: &[u8]) -> bool {
        self.find(path).is_some() || self.directories.contains(path)
    }

    fn mark_changed(&mut self, index: u32) {
        let flags = &mut self.entries[index as usize].flags;
        if *flags & flag::CHANGED == 0 {
            *flags |= flag::CHANGED;
            self.changed.push(index);
        }
    }

    fn learn_directories(&mut self, path: &[u8]) {
        let mut rest = path;
        while let Some(slash) = rest.iter().rposition(|byte| *byte == b'/') {
            rest = &rest[..slash];
            if rest.is_empty() || self.directories.contains(rest) {
                break;
            }
            self.directories.insert(rest.into());
        }
    }
}

/// Flags of a name as it came.
fn state(name: &FileName) -> u16 {
    let mut flags = 0;
    if name.truncated {
        flags |= flag::TRUNCATED;
    }
    if name.deleted {
        flags |= flag::DELETED;
    }
    if name.existed {
        flags |= flag::EXISTED;
    }
    flags
}

/// The rest of `path` after `directory`, from the slash on; empty for the directory itself.
fn rest_beneath<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory)
        .filter(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests;
