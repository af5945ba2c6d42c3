//! The units that are known, and since when they do nothing.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use crate::attribution::Unit;
use iotrace_model::environ::JobNames;

/// Index of a unit; never used again for another one.
pub type UnitId = u32;
/// [`Unit::unknown`].
pub const UNKNOWN: UnitId = 0;
/// [`Unit::other`].
pub const OTHER: UnitId = 1;

#[derive(Debug)]
struct State {
    unit: Unit,
    /// Processes of it that are remembered.
    processes: usize,
    /// When it last did something.
    active: Instant,
}

/// What tells a unit apart: its name, and who claims to be of it.
type Identity = (String, Option<String>);

fn identity(unit: &Unit) -> Identity {
    (unit.name.clone(), unit.claimed_by())
}

/// All units.
#[derive(Debug)]
pub struct Units {
    all: BTreeMap<UnitId, State>,
    by_unit: HashMap<Identity, UnitId>,
    next: UnitId,
}

impl Default for Units {
    fn default() -> Self {
        let mut units = Self {
            all: BTreeMap::new(),
            by_unit: HashMap::new(),
            next: 0,
        };
        units.insert(Unit::unknown());
        units.insert(Unit::other());
        units
    }
}

impl Units {
    /// All of them, with the number of their processes.
    pub fn all(&self) -> impl Iterator<Item = (UnitId, &Unit, usize)> {
        self.all
            .iter()
            .map(|(id, state)| (*id, &state.unit, state.processes))
    }

    /// Number of units.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The unit of an index that was given out and has not expired.
    pub fn get(&self, id: UnitId) -> Option<&Unit> {
        self.all.get(&id).map(|state| &state.unit)
    }

    pub(super) fn find(&self, unit: &Unit) -> Option<UnitId> {
        self.by_unit.get(&identity(unit)).copied()
    }

    /// Keeps the names of a unit's job, if it has none yet: those that Slurm started the job with come first.
    pub(super) fn learn(&mut self, id: UnitId, names: &JobNames) {
        let state = self.all.get_mut(&id);
        if let Some(state) = state.filter(|state| state.unit.names.is_empty()) {
            state.unit.names.clone_from(names);
        }
    }

    /// How many units a user has.
    pub(super) fn of_owner(&self, owner: u32) -> usize {
        let all = self.all.values();
        all.filter(|state| state.unit.owner == Some(owner)).count()
    }

    /// The unit without a process that has done nothing for longest, and for `idle` at least: of one user, or of all.
    pub(super) fn oldest_idle(&self, owner: Option<u32>, idle: Duration) -> Option<UnitId> {
        let is_idle = |id: UnitId, state: &State| {
            id > OTHER
                && state.processes == 0
                && (owner.is_none() || state.unit.owner == owner)
                && state.active.elapsed() >= idle
        };
        let all = self.all.iter().filter(|(id, state)| is_idle(**id, state));
        all.min_by_key(|(_, state)| state.active).map(|(id, _)| *id)
    }

    pub(super) fn remove(&mut self, id: UnitId) {
        if let Some(state) = self.all.remove(&id) {
            self.by_unit.remove(&identity(&state.unit));
        }
    }

    pub(super) fn insert(&mut self, unit: Unit) -> UnitId {
        let id = self.next;
        self.next += 1;
        self.by_unit.insert(identity(&unit), id);
        let active = Instant::now();
        self.all.insert(
            id,
            State {
                unit,
                processes: 0,
                active,
            },
        );
        id
    }

    pub(super) fn hold(&mut self, id: UnitId) {
        if let Some(state) = self.all.get_mut(&id) {
            state.processes += 1;
        }
    }

    pub(super) fn release(&mut self, id: UnitId) {
        if let Some(state) = self.all.get_mut(&id) {
            state.processes = state.processes.saturating_sub(1);
            state.active = Instant::now();
        }
    }

    /// Says that a unit did something; `false` if it has expired.
    pub(super) fn touch(&mut self, id: UnitId) -> bool {
        let state = self.all.get_mut(&id);
        if let Some(state) = state {
            state.active = Instant::now();
            return true;
        }
        false
    }

    /// The units without a process that have done nothing for `linger`.
    pub(super) fn over(&self, linger: Duration, now: Instant) -> Vec<UnitId> {
        let is_over = |id: UnitId, state: &State| {
            id > OTHER
                && state.processes == 0
                && now.saturating_duration_since(state.active) >= linger
        };
        self.all
            .iter()
            .filter(|(id, state)| is_over(**id, state))
            .map(|(id, _)| *id)
            .collect()
    }
}
