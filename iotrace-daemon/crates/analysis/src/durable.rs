//! Whether a save survives a power cut: by the order of its writes, syncs and renames.
//!
//! A file is safe once a sync that began after its last write has returned, whoever called it. A file that is renamed must
//! be synced before: else its name may lead to a file without its data. Its new name is safe once a sync after the rename
//! has returned, of the directory or of the file, with which Linux's local filesystems write the name; a file that is not
//! renamed needs no more than its own. `sync_file_range` does not count.
//!
//! What cannot be known is not judged: see [`Judge::is_known`] and [`Judge::file`].

use std::collections::{BTreeMap, BTreeSet};

use super::{
    naming::is_unfinished,
    saves::Event,
    uses::{Touch, Uses},
};
use iotrace_common::{diag, op};
use iotrace_model::{
    File, Model, Row,
    counters::{
        BYTES_WRITTEN, LAST_OPERATION, LAST_SYNC, LAST_WRITE, MAPPED_BYTES_DIRTIED, MMAPS, MSYNCS,
        RENAMES, saturating_add,
    },
    mounts::family,
    paths::{name, parent},
    run::{RAW, Run},
};
use iotrace_phases::copies::Copies;

/// Filesystems in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// Filesystems on disks of the node, whose syncs and renames do what is said above. Others have servers with caches of
/// their own, or write at each close.
const LOCAL: [&str; 9] = [
    "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "jfs", "nilfs2", "overlay",
];
/// A file that is written over belongs to the state that is saved if it has at least this share of the largest one.
const MIN_SHARE: u64 = 16;
/// Two saves have about the same size if they differ by at most one of this many parts of it.
const KEPT_SHARE: u64 = 16;
/// A file is written over if this much more was written to it than it has, in parts of its size.
const MAX_EXCESS_PARTS: u64 = 10;
/// Of losses, those that hide no write, sync or rename: what their names begin with.
const HARMLESS_LOSSES: [&str; 4] = ["block_", "library_", "trace_", "storage_recursion_misses"];
/// What is no loss otherwise, but may hide a sync.
const HIDING: [&str; 2] = [
    diag::NAMES[diag::AIO_UNREPORTED as usize],
    diag::NAMES[diag::PRIVILEGED as usize],
];

/// What a save lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// No sync of a file after its last write.
    FileSync,
    /// No sync of a file between its last write and its rename.
    SyncBeforeRename,
    /// No sync of the directory or the file after a rename.
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    bytes: u64,
    /// End of the last write; `None` if it is not known.
    last_write: Option<i64>,
    /// Whether the end of some write is not known, as at detail `basic`.
    has_unknown_end: bool,
    /// Whether the times of single uses are not known.
    is_inexact: bool,
}

impl Written {
    pub fn new(touch: &Touch, is_exact: bool) -> Self {
        let last_write = touch.last_write.filter(|_| touch.bytes > 0);
        Self {
            bytes: touch.bytes,
            last_write,
            has_unknown_end: touch.bytes > 0 && last_write.is_none(),
            is_inexact: !is_exact,
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        saturating_add(&mut self.bytes, other.bytes);
        self.last_write = self.last_write.max(other.last_write);
        self.has_unknown_end |= other.has_unknown_end;
        self.is_inexact |= other.is_inexact;
    }
}

/// Judges all saves of a run, which are in order.
pub fn judge(model: &Model, run: &Run, uses: &Uses, copies: &Copies, events: &mut [Event]) {
    let judge = Judge::new(model, run, uses);
    let mut saved_before: BTreeSet<u32> = BTreeSet::new();
    for index in 0..events.len() {
        let (before, event) = events.split_at_mut(index);
        let event = &mut event[0];
        let is_kept = before.last().is_some_and(|before| is_kept(before, event));
        event.durability = judge.event(event, &saved_before, is_kept, copies);
        saved_before.extend(event.written.keys());
    }
}

/// Whether the previous save stays intact while this one overwrites an older one: saves of the same size that take turns in a few
/// files.
fn is_kept(before: &Event, event: &Event) -> bool {
    let is_as_large = before.bytes.abs_diff(event.bytes) <= event.bytes / KEPT_SHARE;
    let is_written_again = |(file, written): (&u32, &Written)| {
        before.written.contains_key(file) && !is_small(written.bytes, event.bytes)
    };
    is_as_large && !event.written.iter().any(is_written_again)
}

/// Whether a file is too small to belong to the saved state, whose largest file, or all of it, has `most` bytes.
fn is_small(bytes: u64, most: u64) -> bool {
    bytes.saturating_mul(MIN_SHARE) < most
}

struct Judge<'a> {
    model: &'a Model,
    run: &'a Run,
    uses: &'a Uses,
    /// Files that were, or may have been, written or synced through memory.
    mapped: BTreeSet<u32>,
    /// By file: bytes written in the whole run.
    bytes_written: BTreeMap<u32, u64>,
    /// By file: when it was renamed.
    renames: BTreeMap<u32, Vec<i64>>,
    /// By node and path of a directory: its last sync.
    directory_syncs: BTreeMap<(u32, &'a [u8]), i64>,
    /// Process and file: the process wrote nothing to the file after it had synced it.
    synced: BTreeSet<(u32, u32)>,
    /// Whether writes, syncs or renames may be missing.
    is_lossy: bool,
    /// The last operation of processes that wrote or synced files which are not known, nanoseconds since the start of the run.
    unplaced_until: Option<i64>,
}

impl<'a> Judge<'a> {
    fn new(model: &'a Model, run: &'a Run, uses: &'a Uses) -> Self {
        let has_unplaced =
            |process: &iotrace_model::Process| process.path_only.total().v[MSYNCS] > 0;
        let has_unplaced = model.processes().iter().any(has_unplaced);
        let (mut mapped, mut bytes_written) = (BTreeSet::new(), BTreeMap::new());
        let mut synced = BTreeSet::new();
        let counted = [
            BYTES_WRITTEN,
            MAPPED_BYTES_DIRTIED,
            MMAPS,
            MSYNCS,
            LAST_SYNC,
        ];
        let is_concerned = |row: &&Row| counted.iter().any(|index| row.cell.has(*index));
        for row in model.rows().iter().filter(is_concerned) {
            let v = row.cell.total().v;
            let is_synced = v[MSYNCS] > 0 || (has_unplaced && v[MMAPS] > 0);
            // Writes to pages that are dirty already are not seen.
            let may_be_written = v[MMAPS] > 0 && v[BYTES_WRITTEN] > 0;
            if v[MAPPED_BYTES_DIRTIED] > 0 || may_be_written || is_synced {
                mapped.insert(row.file);
            }
            saturating_add(bytes_written.entry(row.file).or_default(), v[BYTES_WRITTEN]);
            if v[LAST_SYNC] > 0 && v[LAST_SYNC] >= v[LAST_WRITE] {
                synced.insert((row.process, row.file));
            }
        }
        let mut renames: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for (file, _, at) in &uses.renames.ends {
            renames.entry(*file).or_default().push(*at);
        }
        let mut directory_syncs = BTreeMap::new();
        for (index, syncs) in &uses.file_syncs {
            let file = model.file(*index);
            if let Some(at) = syncs.iter().map(|sync| sync.at).max()
                && file.is_directory()
            {
                let last = directory_syncs.entry((file.node, file.path)).or_insert(at);
                *last = at.max(*last);
            }
        }
        Self {
            model,
            run,
            uses,
            mapped,
            bytes_written,
            renames,
            directory_syncs,
            synced,
            is_lossy: is_lossy(run),
            unplaced_until: unplaced_until(model, run),
        }
    }

    /// `is_kept`: the save before is whole, if this one is not.
    fn event(
        &self,
        event: &Event,
        saved_before: &BTreeSet<u32>,
        is_kept: bool,
        copies: &Copies,
    ) -> Durability {
        let mut durability = Durability::default();
        let written = || {
            event
                .written
                .iter()
                .filter(|(_, written)| written.bytes > 0)
        };
        let largest = written().map(|(_, written)| written.bytes).max();
        let is_known = self.is_known(event);
        let mut has_unknown = !is_known;
        let mut lacking = BTreeSet::new();
        for (file, written) in written() {
            let lacks = self.file(event, *file, written);
            let is_judged = lacks.is_some();
            has_unknown |= !is_judged;
            let mut missing: BTreeSet<Missing> = lacks.into_iter().flatten().collect();
            let is_over = match saved_before.contains(file) {
                true => !is_kept && self.is_written_over(*file),
                false => self.is_replaced(*file, written.bytes),
            };
            let is_small = is_small(written.bytes, largest.unwrap_or(0));
            if is_judged && is_over && !is_small && !missing.contains(&Missing::Storage) {
                missing.insert(Missing::NewFile);
            }
            if !is_known {
                // Where the files are is known all the same.
                missing.retain(|missing| *missing == Missing::Storage);
            }
            if missing.contains(&Missing::FileSync) {
                saturating_add(&mut durability.unsynced_bytes, written.bytes);
            }
            if !missing.is_empty() {
                lacking.insert(*file);
            }
            durability.missing.extend(missing);
        }
        durability.is_durable = match durability.missing.is_empty() {
            false => Some(false),
            true if has_unknown || largest.is_none() => None,
            true => Some(true),
        };
        let is_copied = |file: &u32| {
            let mut copies = copies.all.iter().filter(|copy| copy.source == *file);
            copies.any(|copy| self.is_kept(copy.process, copy.target))
        };
        durability.is_copied = !lacking.is_empty() && lacking.iter().all(is_copied);
        durability
    }

    /// Whether all was seen that may have made the save durable: not if something was lost, and not if one of its
    /// processes was killed, or the recording ended, before another part of the save could have been expected.
    fn is_known(&self, event: &Event) -> bool {
        let is_cut = |process: &u32| {
            let about = &self.model.processes()[*process as usize].about;
            let is_over = about.status.is_some_and(|status| status & 0x7f == 0);
            let end = about.end.filter(|_| about.status.is_some());
            let end = end.map_or(self.run.duration_ns as i64, |end| {
                self.run.clock.unix_ns(end) - self.run.start_unix_ns
            });
            !is_over && end - event.end < event.longest_pause()
        };
        self.model.knows_syncs()
            && !self.is_lossy
            && !self.may_be_renamed(event)
            && self.unplaced_until.is_none_or(|until| until < event.start)
            && !event.processes.iter().any(is_cut)
    }

    /// Whether a save still has the name of an unfinished file, and its process renamed what is not known: below a symbolic link,
    /// the names of a rename are not those of the files.
    fn may_be_renamed(&self, event: &Event) -> bool {
        let renames = |process: &u32| {
            let process = &self.model.processes()[*process as usize];
            process.path_only.total().v[RENAMES] > 0
        };
        let is_unfinished = |file: &u32| is_unfinished(name(self.model.file(*file).path));
        event.processes.iter().any(renames) && event.files.iter().any(is_unfinished)
    }

    /// What a file lacks; `None` if it is not known.
    fn file(&self, event: &Event, index: u32, written: &Written) -> Option<Vec<Missing>> {
        let file = self.model.file(index);
        let fs_type = family(self.model.mount_of(&file).1);
        if IN_MEMORY.contains(&fs_type) {
            return Some(vec![Missing::Storage]);
        }
        if !LOCAL.contains(&fs_type) || written.is_inexact || self.mapped.contains(&index) {
            return None;
        }
        let own = self
            .uses
            .file_syncs
            .get(&index)
            .map_or(&[][..], Vec::as_slice);
        let wide: Vec<i64> = self.wide_syncs(&file).collect();
        let since = |moment: i64| {
            let own = own.iter().map(|sync| sync.at);
            let all = own.chain(wide.iter().copied());
            all.filter(move |at| *at >= moment).collect::<Vec<_>>()
        };
        let last_write = written.last_write.unwrap_or(event.start);
        let syncs = since(last_write);
        // Which writes a sync followed is not known without their times, nor without types of the kernel whether each
        // write was synced by itself.
        let is_unclear = match syncs.is_empty() {
            true => self.run.hook == RAW,
            false => written.has_unknown_end,
        };
        if is_unclear {
            return None;
        }
        let mut missing = Vec::new();
        if syncs.is_empty() {
            missing.push(Missing::FileSync);
        }
        let renames = self.renames.get(&index).into_iter().flatten().copied();
        let renames = || renames.clone().filter(|at| *at >= last_write);
        let (Some(first), Some(last)) = (renames().min(), renames().max()) else {
            return Some(missing);
        };
        if !syncs.is_empty() && !syncs.iter().any(|at| *at <= first) {
            // Of several syncs in one use, or by one process in one interval, the last is known.
            let has_others = own.iter().any(|sync| sync.has_others && sync.at > first);
            if has_others || wide.iter().any(|at| *at > first) {
                return None;
            }
            missing.push(Missing::SyncBeforeRename);
        }
        if since(last).is_empty() && !self.is_directory_synced(&file, last)? {
            missing.push(Missing::DirectorySync);
        }
        Some(missing)
    }

    /// Whether the directory of a file was synced after a moment; `None` if the directory is not known.
    fn is_directory_synced(&self, file: &File<'_>, moment: i64) -> Option<bool> {
        let directory = parent(file.path);
        if !file.path.starts_with(b"/") || file.truncated {
            return None;
        }
        // A directory that was renamed as a whole has its name in the one above it.
        let directories = [directory, parent(directory)];
        let mut syncs = directories
            .iter()
            .filter_map(|path| self.directory_syncs.get(&(file.node, *path)));
        Some(syncs.any(|at| *at >= moment))
    }

    /// Syncs of all files on a filesystem.
    fn wide_syncs(&self, file: &File<'_>) -> impl Iterator<Item = i64> {
        let (node, device) = (file.node, file.id.device);
        let syncs = self.uses.wide_syncs.iter();
        let syncs = syncs.filter(move |sync| sync.device.is_none_or(|of| of == device));
        let syncs =
            syncs.filter(move |sync| self.model.processes()[sync.process as usize].node == node);
        syncs.map(|sync| sync.at)
    }

    /// Whether a file was written again where it had been written before, and not continued.
    fn is_written_over(&self, file: u32) -> bool {
        let size = self.uses.sizes[file as usize];
        let written = self.bytes_written.get(&file).copied().unwrap_or(0);
        size > 0 && written > size.saturating_add(size / MAX_EXCESS_PARTS)
    }

    /// Whether the first save wrote a file in place that was there before the recording. One that is renamed had another
    /// name for that.
    fn is_replaced(&self, file: u32, bytes: u64) -> bool {
        let size = self.uses.sizes[file as usize];
        let is_whole =
            bytes.saturating_mul(MAX_EXCESS_PARTS) >= size.saturating_mul(MAX_EXCESS_PARTS - 1);
        is_whole && self.model.file(file).existed && !self.renames.contains_key(&file)
    }

    /// Whether what a process wrote to the target of a copy is on storage, or on a server, which may keep it.
    fn is_kept(&self, process: u32, target: u32) -> bool {
        self.synced.contains(&(process, target)) || self.model.is_shared(target)
    }
}

/// Whether writes, syncs or renames of a run may be missing in its counters.
fn is_lossy(run: &Run) -> bool {
    let hides = |name: &str| {
        let is_harmless = HARMLESS_LOSSES
            .iter()
            .any(|prefix| name.starts_with(prefix));
        (diag::is_loss(name) && !is_harmless) || HIDING.contains(&name)
    };
    let mut losses = run.losses.iter();
    losses.any(|(name, count)| *count > 0 && hides(name))
}

/// [`Judge::unplaced_until`].
fn unplaced_until(model: &Model, run: &Run) -> Option<i64> {
    let overflows = model
        .processes()
        .iter()
        .map(|process| process.overflow.total());
    let unplaced =
        overflows.filter(|total| total.calls(|op| op::is_sync(op) || op::is_write(op)) > 0);
    let last = unplaced.map(|total| match total.v[LAST_OPERATION] {
        0 => i64::MAX,
        last => run.clock.unix_ns(last) - run.start_unix_ns,
    });
    last.max()
}
