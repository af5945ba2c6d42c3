//! Files that may be copies, found by what they have in common with their source.

use std::collections::{BTreeSet, HashMap};

use super::Amounts;

/// Files to which one process wrote the same number of bytes each.
#[derive(Default)]
pub struct Targets<'a> {
    all: Vec<Target<'a>>,
    /// Indices, by the name in its directory.
    by_name: HashMap<&'a [u8], BTreeSet<usize>>,
    /// Indices of those that were written by copying only, by the number of such calls.
    by_calls: HashMap<u64, BTreeSet<usize>>,
}

pub struct Target<'a> {
    pub file: u32,
    pub name: &'a [u8],
    pub amounts: Amounts,
}

impl Target<'_> {
    /// Calls by which all of it was copied; 0 if there were others.
    fn copying_calls(&self) -> u64 {
        match self.amounts.writes {
            0 => self.amounts.transfer_writes,
            _ => 0,
        }
    }
}

impl<'a> Targets<'a> {
    pub fn push(&mut self, target: Target<'a>) {
        self.all.push(target);
        self.index(self.all.len() - 1);
    }

    /// Takes the first file that has this name, if any, or to which calls copied all that was read of the source.
    pub fn take(&mut self, source: (u32, &Amounts), name: Option<&[u8]>) -> Option<Target<'a>> {
        let of_name = name.and_then(|name| self.by_name.get(name));
        let of_calls = self.by_calls.get(&source.1.transfer_reads);
        let first = |indices: &BTreeSet<usize>| {
            let mut others = indices.iter().copied();
            others.find(|at| self.all[*at].file != source.0)
        };
        let found = [of_name, of_calls].into_iter().flatten();
        let found = found.filter_map(first).min()?;
        let last = self.all.len() - 1;
        self.unindex(found);
        if found != last {
            self.unindex(last);
        }
        let target = self.all.swap_remove(found);
        if found != last {
            self.index(found);
        }
        Some(target)
    }

    fn index(&mut self, at: usize) {
        let target = &self.all[at];
        self.by_name.entry(target.name).or_default().insert(at);
        let calls = target.copying_calls();
        if calls > 0 {
            self.by_calls.entry(calls).or_default().insert(at);
        }
    }

    fn unindex(&mut self, at: usize) {
        let target = &self.all[at];
        if let Some(indices) = self.by_name.get_mut(target.name) {
            indices.remove(&at);
        }
        if let Some(indices) = self.by_calls.get_mut(&target.copying_calls()) {
            indices.remove(&at);
        }
    }
}
