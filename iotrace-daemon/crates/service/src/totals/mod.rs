//! What is exported: sums by unit, phase and mount, of which there is a bounded number.
//!
//! Every count goes into exactly one cell, so that the sum over all series is what was counted, whatever the bound
//! does: what finds no room is counted to the unit `other`. A cell only grows; it goes as a whole, when its unit has
//! had no process and no I/O for the time that the configuration says.

mod beside;
mod cell;
mod latencies;
mod mounts;
mod saves;
mod top;
mod units;

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

pub use beside::{Beside, Finding};
pub use cell::{Cell, ERRNO_OTHER, Value};
pub use latencies::LatencyBuckets;
pub use mounts::{Mount, MountId, NO_MOUNT};
pub use saves::{AllSaves, BOUNDS, Saved, Saves};
pub use top::Top;
pub use units::{OTHER, UNKNOWN, UnitId, Units};

use mounts::{Mounts, OTHER_MOUNT};

use super::attribution::{Kind, Unit};
use iotrace_phases::phase::Phase;

/// Series that every unit has: its text and its processes.
const UNIT_SERIES: usize = 2;

/// Units of one user, at most: sessions, and jobs that only an environment names.
const USER_UNITS: usize = 64;
/// The series of these are at most this part of all, and at least so many.
const USER_SHARE: usize = 8;
const MIN_USER_SERIES: usize = 64;
/// The administrator has no share.
const ROOT: u32 = 0;
/// How long a unit must have done nothing to leave before others: long enough that it was scraped.
const MIN_IDLE: Duration = Duration::from_secs(60);

/// What a cell counts: a unit's I/O in one phase on one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub unit: UnitId,
    pub phase: Phase,
    pub mount: MountId,
}

/// The sums.
#[derive(Debug)]
pub struct Totals {
    cells: BTreeMap<Key, Cell>,
    saves: AllSaves,
    beside: BTreeMap<UnitId, Beside>,
    /// Directories of files by unit and phase, and processes by unit and pid: those that do the most.
    pub directories: Top<(UnitId, Phase, String)>,
    pub processes: Top<(UnitId, u32)>,
    units: Units,
    mounts: Mounts,
    /// Values that are not 0, outside of the unit `other`.
    series: usize,
    /// The series of cells among them, by the user whose units they are.
    shares: BTreeMap<u32, usize>,
    limit: usize,
    /// Counts that went to `other`.
    folds: u64,
}

impl Totals {
    /// No sums, of at most `limit` series.
    pub fn new(limit: usize) -> Self {
        Self {
            cells: BTreeMap::new(),
            saves: AllSaves::default(),
            beside: BTreeMap::new(),
            directories: Top::new(0),
            processes: Top::new(0),
            units: Units::default(),
            mounts: Mounts::default(),
            series: 0,
            shares: BTreeMap::new(),
            limit,
            folds: 0,
        }
    }

    /// Changes the bound. Series that are there stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Series of the units, `other` left out.
    pub fn series(&self) -> usize {
        self.series
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How often a count went to `other`, because the bound was reached.
    pub fn folds(&self) -> u64 {
        self.folds
    }

    pub fn cells(&self) -> &BTreeMap<Key, Cell> {
        &self.cells
    }

    pub fn saves(&self) -> &AllSaves {
        &self.saves
    }

    /// What is known of units beside their sums.
    pub fn beside(&self) -> &BTreeMap<UnitId, Beside> {
        &self.beside
    }

    /// Sets what is known of a unit beside its sums; what finds no room stays as it was.
    pub fn set_beside(&mut self, unit: UnitId, change: impl FnOnce(&mut Beside)) {
        let before = self.beside.get(&unit).cloned().unwrap_or_default();
        let mut after = before.clone();
        change(&mut after);
        let (old, new) = (before.series(), after.series());
        if unit == OTHER || self.units.get(unit).is_none() {
            return;
        }
        if new > old && self.series + new - old > self.limit {
            self.folds += 1;
            return;
        }
        self.series = self.series + new - old;
        self.beside.insert(unit, after);
    }

    /// Takes a checkpoint that is complete.
    pub fn save(&mut self, unit: UnitId, save: Saved) {
        let is_there = self.units.get(unit).is_some();
        let room = self.limit.saturating_sub(self.series);
        self.series += self
            .saves
            .add(if is_there { unit } else { OTHER }, save, room);
    }

    pub fn units(&self) -> &Units {
        &self.units
    }

    pub fn mount(&self, mount: MountId) -> &Mount {
        self.mounts.get(mount)
    }

    /// Whether an index is still that of a mount: it is not after the mount's series are gone.
    pub fn has_mount(&self, mount: MountId) -> bool {
        self.mounts.contains(mount)
    }

    /// Index of a unit, which is made known; `other` where there is no room.
    pub fn unit(&mut self, unit: &Unit) -> UnitId {
        if let Some(id) = self.units.find(unit) {
            self.units.learn(id, &unit.names);
            return id;
        }
        if let Some(owner) = unit.owner.filter(|owner| *owner != ROOT) {
            let is_full = |totals: &Self| totals.units.of_owner(owner) >= USER_UNITS;
            if is_full(self) {
                self.remove_oldest_idle(Some(owner));
            }
            if is_full(self) {
                self.folds += 1;
                return self.other_of(owner);
            }
        }
        self.insert(unit)
    }

    /// Index of a new unit; `other` if there is no room, of units that did nothing for a while either.
    fn insert(&mut self, unit: &Unit) -> UnitId {
        if self.series + UNIT_SERIES > self.limit {
            self.remove_oldest_idle(None);
        }
        if self.series + UNIT_SERIES > self.limit {
            self.folds += 1;
            return OTHER;
        }
        self.series += UNIT_SERIES;
        self.units.insert(unit.clone())
    }

    /// The unit of what finds no room in a user's share.
    fn other_of(&mut self, owner: u32) -> UnitId {
        let unit = Unit::other_of(owner);
        let known = self.units.find(&unit);
        known.unwrap_or_else(|| self.insert(&unit))
    }

    fn remove_oldest_idle(&mut self, owner: Option<u32>) {
        if let Some(unit) = self.units.oldest_idle(owner, MIN_IDLE) {
            self.remove(unit);
        }
    }

    /// The user whose share a count of this unit takes, if that is full. The unit of what found no room takes none: its
    /// cells are few.
    fn full_share(&self, unit: UnitId) -> Option<u32> {
        let unit = self.units.get(unit)?;
        let owner = unit
            .owner
            .filter(|owner| *owner != ROOT && unit.kind != Kind::Other)?;
        let taken = self.shares.get(&owner).copied().unwrap_or(0);
        let share = (self.limit / USER_SHARE).max(MIN_USER_SERIES);
        (taken >= share).then_some(owner)
    }

    /// Counts a series that is new to a unit.
    fn take_share(&mut self, unit: UnitId) {
        self.series += 1;
        if let Some(owner) = self.units.get(unit).and_then(|unit| unit.owner) {
            *self.shares.entry(owner).or_default() += 1;
        }
    }

    /// Gives back the series of a cell.
    fn give_share_back(&mut self, unit: UnitId, series: usize) {
        self.series -= series;
        let owner = self.units.get(unit).and_then(|unit| unit.owner);
        if let Some(owner) = owner
            && let Some(taken) = self.shares.get_mut(&owner)
        {
            *taken = taken.saturating_sub(series);
            if *taken == 0 {
                self.shares.remove(&owner);
            }
        }
    }

    /// Says that one more process is of this unit.
    pub fn hold(&mut self, unit: UnitId) {
        self.units.hold(unit);
    }

    /// Says that a unit has counts to come.
    pub fn keep(&mut self, unit: UnitId) {
        self.units.touch(unit);
    }

    /// Says that a process of this unit is forgotten.
    pub fn release(&mut self, unit: UnitId) {
        self.units.release(unit);
    }

    /// Index of a mount, which is made known; `other` where there are too many.
    pub fn mount_id(&mut self, mount: &Mount) -> MountId {
        self.mounts.id(mount)
    }

    /// Counts.
    pub fn add(&mut self, key: Key, value: Value, count: u64) {
        if count == 0 {
            return;
        }
        // The unit of a count that waited may have expired: nothing would ever remove its cell.
        let unit = if self.units.touch(key.unit) {
            key.unit
        } else {
            OTHER
        };
        let key = Key { unit, ..key };
        self.mounts.touch(key.mount);
        let (key, value) = self.place(key, value);
        self.cells.entry(key).or_default().add(value, count);
    }

    /// Where a count goes.
    fn place(&mut self, key: Key, value: Value) -> (Key, Value) {
        let folded = self
            .units
            .get(key.unit)
            .is_some_and(|unit| unit.kind == Kind::Other);
        let (mut key, mut value) = if folded {
            other(key, value)
        } else {
            (key, value)
        };
        if key.unit == OTHER || !self.is_new(key, value) {
            return (key, value);
        }
        if let Some(owner) = self.full_share(key.unit) {
            self.folds += 1;
            let unit = self.other_of(owner);
            self.units.touch(unit);
            (key, value) = other(Key { unit, ..key }, value);
            if unit == OTHER || !self.is_new(key, value) {
                return (key, value);
            }
        }
        if self.series >= self.limit {
            self.remove_oldest_idle(None);
        }
        if self.series >= self.limit {
            self.folds += 1;
            return other(Key { unit: OTHER, ..key }, value);
        }
        self.take_share(key.unit);
        (key, value)
    }

    fn is_new(&self, key: Key, value: Value) -> bool {
        self.cells.get(&key).is_none_or(|cell| cell.get(value) == 0)
    }

    /// Takes away units without a process that have done nothing for `linger`.
    pub fn expire(&mut self, linger: Duration, now: Instant) {
        for unit in self.units.over(linger, now) {
            self.remove(unit);
        }
        let units = &self.units;
        self.directories
            .retain(|(unit, ..)| units.get(*unit).is_some());
        self.processes
            .retain(|(unit, _)| units.get(*unit).is_some());
    }

    /// Removes a unit with all its series.
    fn remove(&mut self, unit: UnitId) {
        let all = Key::first_of(unit)..Key::first_of(unit + 1);
        let keys: Vec<Key> = self.cells.range(all).map(|(key, _)| *key).collect();
        for key in keys {
            let cell = self.cells.remove(&key).unwrap_or_default();
            self.give_share_back(unit, cell.series());
        }
        let beside = self.beside.remove(&unit).unwrap_or_default();
        self.series -= UNIT_SERIES + beside.series() + self.saves.remove(unit);
        self.units.remove(unit);
    }

    /// Removes the series of mounts that are unmounted and had no I/O for `linger`, and gives back the labels of mounts
    /// without series.
    pub fn expire_mounts(
        &mut self,
        linger: Duration,
        now: Instant,
        is_mounted: impl Fn(&str) -> bool,
    ) {
        let gone = self.mounts.idle(linger, now, is_mounted);
        let keys = self.cells.keys().filter(|key| gone.contains(&key.mount));
        for key in keys.copied().collect::<Vec<_>>() {
            let cell = self.cells.remove(&key).unwrap_or_default();
            self.give_share_back(key.unit, cell.series());
        }
        for beside in self.beside.values_mut() {
            let before = beside.series();
            beside
                .latencies
                .retain(|(mount, ..), _| !gone.contains(mount));
            self.series -= before - beside.series();
        }
        let of_cells = self.cells.keys().map(|key| key.mount);
        let timed = self.beside.values().flat_map(|of| of.latencies.keys());
        let used: HashSet<MountId> = of_cells.chain(timed.map(|(mount, ..)| *mount)).collect();
        self.mounts.retain(|mount| used.contains(&mount));
    }

    /// Entries of the tables that grow with units and mounts.
    pub fn tables(&self) -> [(&'static str, usize); 7] {
        [
            ("units", self.units.count()),
            ("cells", self.cells.len()),
            ("checkpoints", self.saves.entries()),
            ("unit_gauges", self.beside.len()),
            ("mounts", self.mounts.count()),
            ("top_directories", self.directories.entries()),
            ("top_processes", self.processes.entries()),
        ]
    }
}

impl Key {
    /// The smallest key of a unit.
    fn first_of(unit: UnitId) -> Self {
        Self {
            unit,
            phase: Phase::Startup,
            mount: NO_MOUNT,
        }
    }
}

/// How a count is kept that finds no room: few enough cells that they need no bound of their own.
fn other(key: Key, value: Value) -> (Key, Value) {
    let value = match value {
        Value::Error { op, .. } => Value::Error {
            op,
            errno: ERRNO_OTHER,
        },
        value => value,
    };
    let mount = if key.mount == NO_MOUNT {
        NO_MOUNT
    } else {
        OTHER_MOUNT
    };
    (Key { mount, ..key }, value)
}

#[cfg(test)]
mod tests;
