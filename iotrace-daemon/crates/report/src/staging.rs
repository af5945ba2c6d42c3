//! Which files to put on a fast tier: those whose reads from storage took the most time for their size.
//!
//! Only reads that storage served count: of a file that was in the page cache a copy saves nothing. What it saves is at most
//! the time of those reads, and less by the time that the fast tier takes itself, which is not known before it was tried.

use super::Report;
use iotrace_analysis::page_cache;
use iotrace_model::{
    Row,
    counters::{BYTES_READ, BYTES_WRITTEN, READ_NS, saturating_add},
};

/// Bytes per second at which the page cache serves reads, if no file of the run tells.
const CACHE_RATE: f64 = 2e9;
/// Fewest bytes that tell it.
const MIN_CACHED_BYTES: u64 = 64 << 20;

/// One file for the fast tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// By index.
    pub file: u32,
    /// Room that it takes.
    pub bytes: u64,
    /// Time of its reads from storage, nanoseconds, summed over threads.
    pub storage_ns: u64,
}

/// The files that were chosen, and what is known of the others.
#[derive(Debug, Default)]
pub struct Staging {
    /// By path.
    pub files: Vec<Staged>,
    pub bytes: u64,
    /// Of the files that were chosen, and of all that could be.
    pub storage_ns: u64,
    pub all_storage_ns: u64,
    pub all_files: u64,
    /// Wall time of the run that is saved if the fast tier takes no time at all.
    pub saves_ns: u64,
    /// Chosen files on filesystems with caches of their own: what their storage served is not known, and all reads count.
    pub own_cache_files: u64,
    /// Files with names that no list of lines can have.
    pub unlistable: u64,
    /// Files that lie on the tier already.
    pub there_files: u64,
}

impl Report<'_> {
    /// Chooses files for a tier with so much room. `is_there` says which files lie on it already, by device. `None` where the
    /// kernel did not tell what came from storage.
    pub fn stage(&self, room_bytes: u64, is_there: impl Fn(u32) -> bool) -> Option<Staging> {
        if !page_cache::is_told(self.model) {
            return None;
        }
        let mut staging = Staging::default();
        let cache_rate = self.cache_rate();
        let mut candidates = Vec::new();
        let mut order: Vec<u32> = (0..self.model.rows().len() as u32).collect();
        let row = |index: &u32| &self.model.rows()[*index as usize];
        order.sort_unstable_by_key(|index| row(index).file);
        for rows in order.chunk_by(|a, b| row(a).file == row(b).file) {
            let index = row(&rows[0]).file;
            let file = self.model.file(index);
            if file.is_directory() || file.deleted {
                continue;
            }
            let Some((size, storage_ns)) = self.storage_time(rows.iter().map(row), cache_rate)
            else {
                continue;
            };
            if is_there(file.id.device) {
                staging.there_files += 1;
                continue;
            }
            if file.path.contains(&b'\n') || !file.path.starts_with(b"/") || file.truncated {
                staging.unlistable += 1;
                continue;
            }
            saturating_add(&mut staging.all_storage_ns, storage_ns);
            staging.all_files += 1;
            candidates.push(Staged {
                file: index,
                bytes: size.max(file.size),
                storage_ns,
            });
        }
        // By time for each byte: a/b > c/d where a*d > c*b.
        let weight =
            |one: &Staged, of: &Staged| u128::from(one.storage_ns) * u128::from(of.bytes.max(1));
        candidates.sort_by(|a, b| {
            let (own, other) = (weight(a, b), weight(b, a));
            other.cmp(&own).then(a.file.cmp(&b.file))
        });
        for one in candidates {
            if one.bytes <= room_bytes - staging.bytes {
                saturating_add(&mut staging.bytes, one.bytes);
                saturating_add(&mut staging.storage_ns, one.storage_ns);
                staging.files.push(one);
            }
        }
        let model = self.model;
        let path = |one: &Staged| model.file(one.file).path;
        staging.files.sort_by(|a, b| path(a).cmp(path(b)));
        let caches = staging
            .files
            .iter()
            .filter(|one| !page_cache::goes_through(model, one.file));
        staging.own_cache_files = caches.count() as u64;
        staging.saves_ns = self.wall(staging.storage_ns);
        Some(staging)
    }

    /// Wall time of time in reads that was summed over threads, nanoseconds: threads that wait at once count once.
    fn wall(&self, ns: u64) -> u64 {
        let merged = self.file_time(|_| true);
        let share = merged.at_most as f64 / merged.in_calls.max(1) as f64;
        ((ns as f64 * share.min(1.0)) as u64).min(self.run.duration_ns)
    }

    /// Bytes of a file to the end of its last access, and the time that storage took to read it, nanoseconds; `None` if it was
    /// written in this run, or never read from storage.
    fn storage_time<'r>(
        &self,
        rows: impl Iterator<Item = &'r Row>,
        cache_rate: f64,
    ) -> Option<(u64, u64)> {
        let (mut size, mut read, mut fetched, mut ns, mut file) = (0, 0, 0, 0, None);
        for row in rows {
            let counters = row.cell.total();
            if counters.v[BYTES_WRITTEN] > 0 {
                return None;
            }
            size = size.max(iotrace_analysis::uses::extent(&counters));
            saturating_add(&mut read, counters.v[BYTES_READ]);
            saturating_add(&mut fetched, counters.fetched_by_reads());
            saturating_add(&mut ns, counters.v[READ_NS]);
            file = Some(row.file);
        }
        let is_told = page_cache::goes_through(self.model, file?);
        let cached = match (is_told, fetched) {
            // It goes around the page cache.
            (false, 0) => 0,
            (true, 0) => return None,
            _ => read.saturating_sub(fetched),
        };
        let of_cache = (cached as f64 / cache_rate * 1e9) as u64;
        let storage_ns = ns.saturating_sub(of_cache);
        (read > 0 && storage_ns > 0).then_some((size, storage_ns))
    }

    /// Bytes per second of reads that the page cache served in this run.
    fn cache_rate(&self) -> f64 {
        let (mut bytes, mut ns) = (0_u64, 0_u64);
        for row in self.model.rows_with(BYTES_READ) {
            let counters = row.cell.total();
            let is_told = counters.fetched_by_reads() == 0;
            if is_told && page_cache::goes_through(self.model, row.file) {
                saturating_add(&mut bytes, counters.v[BYTES_READ]);
                saturating_add(&mut ns, counters.v[READ_NS]);
            }
        }
        match bytes >= MIN_CACHED_BYTES && ns > 0 {
            true => bytes as f64 * 1e9 / ns as f64,
            false => CACHE_RATE,
        }
    }
}
