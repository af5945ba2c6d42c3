//! Puts files where handles stand in counters, and counts what was found out of them and what was not.

use std::collections::BTreeMap;

use iotrace_common::{
    diag,
    key::IoKey,
    nobtf::DEVICE,
    value::{Failures, Io},
};

use super::{
    Found, Resolver,
    identity::{nameless, reason},
};
use crate::drain::{Batch, batch::Entries};
use crate::kernel::Losses;

/// What was found out, and what was not.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Operations on what is no file, by diagnostic.
    pub(super) skipped: BTreeMap<u32, u64>,
    /// Files that were known by their path alone when their descriptor was closed.
    pub(super) by_path: u64,
    /// Those without even that.
    pub(super) nameless: u64,
}

impl Counts {
    /// Adds them to what was not counted, or not in full.
    pub fn add_to(&self, losses: &mut Losses) {
        for (reason, calls) in &self.skipped {
            for name in [diag::SKIPPED, *reason].map(|reason| diag::NAMES[reason as usize]) {
                *losses.entry(name.into()).or_default() += calls;
            }
            if *reason == diag::SKIPPED {
                *losses
                    .entry(diag::NAMES[diag::SKIPPED as usize].into())
                    .or_default() -= calls;
            }
        }
        losses.insert(diag::FILES_BY_PATH.into(), self.by_path);
        losses.insert(diag::FILES_NAMELESS.into(), self.nameless);
    }
}

impl Resolver {
    /// Puts files where handles stand, and takes out what is none.
    pub fn resolve(&mut self, batch: Batch) -> Batch {
        match batch {
            Batch::Basic(entries) => Batch::Basic(self.entries(entries, |key| key, calls_of)),
            Batch::Failures(entries) => {
                // Those of what is no file are among its operations.
                Batch::Failures(self.entries(entries, |key| &mut key.io, |_: &Failures| 0))
            }
            other => other,
        }
    }

    fn entries<K, V>(
        &mut self,
        (keys, values): Entries<K, V>,
        io: impl Fn(&mut K) -> &mut IoKey,
        calls: impl Fn(&V) -> u64,
    ) -> Entries<K, V> {
        let mut kept = (
            Vec::with_capacity(keys.len()),
            Vec::with_capacity(values.len()),
        );
        for (mut key, value) in keys.into_iter().zip(values) {
            let file = &mut io(&mut key).file;
            if file.device == DEVICE {
                match self.handles.get(&file.inode) {
                    Some(Found::File(id)) => *file = *id,
                    Some(Found::Nameless(id)) => {
                        self.nameless.insert(file.inode);
                        *file = *id;
                    }
                    Some(Found::Other(mode)) => {
                        *self.counts.skipped.entry(reason(*mode)).or_default() += calls(&value);
                        continue;
                    }
                    // Its event was lost.
                    None => {
                        self.nameless.insert(file.inode);
                        let id = file.inode;
                        *file = nameless(id, 0);
                        self.handles.insert(id, Found::Nameless(*file));
                    }
                }
            }
            kept.0.push(key);
            kept.1.push(value);
        }
        self.counts.nameless = self.nameless.len() as u64;
        kept
    }
}

/// Operations of an entry.
fn calls_of(io: &Io) -> u64 {
    let calls: u64 = io.calls.iter().map(|calls| u64::from(*calls)).sum();
    calls + u64::from(io.failures)
}
