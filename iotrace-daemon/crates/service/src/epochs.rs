//! Epochs while they happen: how often a unit has passed over its training data.
//!
//! The rules are those of reports (`analysis::epochs`): a file has been passed over when about as many bytes of it were
//! read as it has, and an epoch is complete when nearly all bytes of the files have been. While it runs nobody knows how
//! many files there are, so an epoch counts once the next one has begun and no new files come, or nothing is read any
//! more. A unit's files are told by a share of them, picked by their identity, so that any number takes a bounded memory:
//! every epoch has the same files.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use iotrace_common::key::FileId;

/// Files of a unit that are followed, at most.
const MAX_FILES: usize = 4096;
/// A pass may lack so much, of one file's bytes and of all.
const NEARLY: f64 = 0.05;
/// Reading is over, for now, when nothing was read for so long.
const QUIET_TIME: Duration = Duration::from_secs(60);
/// Passes over a file in one interval, at most.
const MOST_PASSES: f64 = 10_000.0;

/// What an interval did to one file of the training data.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub file: FileId,
    /// Bytes of the file, and of these reads.
    pub size: u64,
    pub bytes: u64,
    pub opens: u64,
    pub closes: u64,
}

/// The passes of one unit.
#[derive(Debug)]
pub struct Passes {
    /// Bytes of each followed file, and how often it was passed over.
    files: HashMap<FileId, (u64, f64)>,
    /// One of 2^share files is followed.
    share: u32,
    complete: u32,
    /// Whether a file came since the last look.
    grew: bool,
    read_at: Instant,
    /// Whether most of the data is mapped: what reads say tells nothing.
    is_untold: bool,
}

impl Passes {
    pub fn new(now: Instant) -> Self {
        Self {
            files: HashMap::new(),
            share: 0,
            complete: 0,
            grew: false,
            read_at: now,
            is_untold: false,
        }
    }

    /// Files that are followed.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Takes reads.
    pub fn read(&mut self, read: &Read, now: Instant) {
        self.read_at = now;
        if !is_followed(read.file, self.share) {
            return;
        }
        let new = !self.files.contains_key(&read.file);
        self.grew |= new;
        let (size, done) = self.files.entry(read.file).or_insert((0, 0.0));
        *size = read.size;
        *done += share_of(read);
        while self.files.len() > MAX_FILES {
            self.share += 1;
            let share = self.share;
            self.files.retain(|file, _| is_followed(*file, share));
        }
    }

    /// Takes what an analysis of the whole unit says: that passes cannot be known.
    pub fn set_untold(&mut self, is_untold: bool) {
        self.is_untold = is_untold;
    }

    /// Passes that are complete; `None` where that cannot be known. Comes at some distance from each other.
    pub fn look(&mut self, now: Instant) -> Option<u32> {
        let all: f64 = self.weighed(|_| true);
        let is_quiet = now.saturating_duration_since(self.read_at) >= QUIET_TIME;
        let is_stable = !std::mem::take(&mut self.grew);
        let is_complete = |passes: u32| {
            let passes = f64::from(passes);
            let is_read = self.weighed(|done| done + NEARLY >= passes) >= all * (1.0 - NEARLY);
            let goes_on = self.weighed(|done| done > passes + NEARLY) >= all * NEARLY;
            is_read && (is_quiet || is_stable && goes_on)
        };
        let mut complete = self.complete;
        // Without a file everything would be read.
        while all > 0.0 && is_complete(complete + 1) {
            complete += 1;
        }
        self.complete = complete;
        (!self.is_untold).then_some(complete)
    }

    /// Bytes of the files whose passes are as asked.
    fn weighed(&self, is_asked: impl Fn(f64) -> bool) -> f64 {
        let asked = self.files.values().filter(|(_, done)| is_asked(*done));
        asked.map(|(size, _)| (*size).max(1) as f64).sum()
    }
}

/// How often a file was passed over. What was opened, read about whole and closed was, each time.
fn share_of(read: &Read) -> f64 {
    let by_bytes = if read.size == 0 {
        read.opens as f64
    } else {
        read.bytes as f64 / read.size as f64
    };
    let each = by_bytes / read.opens.max(1) as f64;
    let is_whole = read.opens > 0 && read.opens == read.closes && (0.75..1.5).contains(&each);
    if is_whole {
        read.opens as f64
    } else {
        by_bytes.min(MOST_PASSES)
    }
}

/// Whether a file is among the followed ones: a hash of its identity decides.
fn is_followed(file: FileId, share: u32) -> bool {
    let mixed = (file.inode ^ u64::from(file.generation) << 32 ^ u64::from(file.device) << 17)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.leading_zeros() >= share
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_INTERVAL: Duration = Duration::from_secs(10);

    fn read(inode: u64, bytes: u64, opens: u64) -> Read {
        Read {
            file: FileId {
                device: 1,
                generation: 7,
                inode,
            },
            size: 1000,
            bytes,
            opens,
            closes: opens,
        }
    }

    #[test]
    fn an_epoch_counts_when_the_next_one_has_begun() {
        for files in [1_u64, 100, 50_000] {
            let mut now = Instant::now();
            let mut passes = Passes::new(now);
            for epoch in 0..4 {
                for part in 0..4 {
                    for inode in files * part / 4..files * (part + 1) / 4 {
                        // A header is read first: more bytes than the file has.
                        passes.read(&read(inode, 1100, 1), now);
                    }
                    now += LOOK_INTERVAL;
                    // The first look at an epoch that has gone on for a while.
                    let complete = passes.look(now).unwrap();
                    let expected = if part == 0 {
                        epoch - 1..=epoch
                    } else {
                        epoch..=epoch
                    };
                    let expected = *expected.start().max(&0)..=*expected.end();
                    assert!(
                        expected.contains(&i64::from(complete)) || files == 1,
                        "{files} files, epoch {epoch}, part {part}: {complete}"
                    );
                }
            }
            assert!(passes.files.len() <= MAX_FILES);
            assert_eq!(passes.look(now + QUIET_TIME), Some(4), "{files} files");
            assert_eq!(passes.look(now + 2 * QUIET_TIME), Some(4));
        }
    }

    #[test]
    fn a_file_that_is_read_in_parts_is_passed_over_by_its_bytes() {
        let mut now = Instant::now();
        let mut passes = Passes::new(now);
        for step in 1..=45 {
            passes.read(&read(1, 100, 0), now);
            now += LOOK_INTERVAL;
            let complete = passes.look(now);
            assert_eq!(complete, Some((step - 1) / 10), "step {step}");
        }
    }

    #[test]
    fn half_of_the_files_twice_is_no_epoch() {
        let now = Instant::now();
        let mut passes = Passes::new(now);
        (0..100).for_each(|inode| passes.read(&read(inode, 500, 1), now));
        (0..50).for_each(|inode| passes.read(&read(inode, 1000, 1), now));
        assert_eq!(passes.look(now + QUIET_TIME), Some(0));
    }
}
