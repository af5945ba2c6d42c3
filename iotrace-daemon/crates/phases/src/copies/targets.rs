//! Files that may be copies, found by what they have in common with their source.

use std::collections::{BTreeSet, HashMap};

use super::{Amounts, MAX_PAUSE_NS};

/// Files to which one process wrote the same number of bytes each.
#[derive(Default)]
pub struct Targets<'a> {
    all: Vec<Side<'a>>,
    /// By the name in its directory.
    by_name: HashMap<&'a [u8], Order>,
    /// Those that were written by copying only, by the number of such calls.
    by_calls: HashMap<u64, Order>,
}

/// Targets of one time that are looked at: of a source that is in use throughout the run, all may be.
const MAX_LOOKED_AT: usize = 64;

/// First operations of targets, and their indices.
type Order = BTreeSet<(u64, usize)>;

/// A file with what one process moved to it, or from it.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub file: u32,
    pub name: &'a [u8],
    pub amounts: Amounts,
    /// Whether the uses in which all these bytes were moved are known one by one.
    pub is_known: bool,
}

impl Side<'_> {
    /// Calls by which all of it was copied; 0 if there were others.
    fn copying_calls(&self) -> u64 {
        match self.amounts.writes {
            0 => self.amounts.transfer_writes,
            _ => 0,
        }
    }

    fn may_be_of(&self, source: &Side<'_>) -> bool {
        self.file != source.file
            && !(self.is_known && source.is_known)
            && self.amounts.last_operation >= source.amounts.first_operation
    }
}

impl<'a> Targets<'a> {
    pub fn push(&mut self, target: Side<'a>) {
        let place = (target.amounts.first_operation, self.all.len());
        self.by_name.entry(target.name).or_default().insert(place);
        let calls = target.copying_calls();
        if calls > 0 {
            self.by_calls.entry(calls).or_default().insert(place);
        }
        self.all.push(target);
    }

    /// Takes the first file that was written while the source was in use, or right before or after, and that has its name
    /// or to which calls copied all that was read of it; one of its name, if there is any. `is_by_name`: whether the name
    /// alone tells.
    pub fn take(&mut self, source: &Side<'_>, is_by_name: bool) -> Option<Side<'a>> {
        let Amounts {
            first_operation,
            last_operation,
            transfer_reads,
            ..
        } = source.amounts;
        let from = first_operation.saturating_sub(MAX_PAUSE_NS);
        let until = last_operation.saturating_add(MAX_PAUSE_NS);
        let is_told =
            |target: &Side<'_>| transfer_reads > 0 && target.copying_calls() == transfer_reads;
        let first = |order: &Order| {
            let written = order.range((from, 0)..=(until, usize::MAX));
            let found = written.take(MAX_LOOKED_AT).find(|(_, at)| {
                let target = &self.all[*at];
                target.may_be_of(source) && (is_by_name || is_told(target))
            });
            found.copied()
        };
        let of_name = self.by_name.get(source.name).and_then(first);
        let of_calls = || self.by_calls.get(&transfer_reads).and_then(first);
        let place = of_name.or_else(of_calls)?;
        let target = self.all[place.1];
        if let Some(order) = self.by_name.get_mut(target.name) {
            order.remove(&place);
        }
        if let Some(order) = self.by_calls.get_mut(&target.copying_calls()) {
            order.remove(&place);
        }
        Some(target)
    }
}
