//! The mounts that have labels of their own, and since when nothing happens on them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

/// Index of a mount; never used again for another one.
pub type MountId = u32;
/// No mount: counts that belong to no file, or to all of them.
pub const NO_MOUNT: MountId = 0;
/// Mounts that found no room.
pub(super) const OTHER_MOUNT: MountId = 1;
/// Mounts with labels of their own.
pub(super) const MAX_MOUNTS: usize = 64;

/// A mount as labels have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mount {
    pub mountpoint: String,
    pub fstype: String,
}

#[derive(Debug)]
struct State {
    mount: Mount,
    /// When something was last counted on it.
    active: Instant,
}

/// All of them.
#[derive(Debug)]
pub struct Mounts {
    all: BTreeMap<MountId, State>,
    by_mount: HashMap<Mount, MountId>,
    next: MountId,
    /// The mount that stands for those without room.
    other: Mount,
}

impl Default for Mounts {
    fn default() -> Self {
        let named = |name: &str| Mount {
            mountpoint: name.into(),
            fstype: name.into(),
        };
        let mut mounts = Self {
            all: BTreeMap::new(),
            by_mount: HashMap::new(),
            next: NO_MOUNT,
            other: named("other"),
        };
        mounts.id(&named("unknown"));
        mounts.id(&named("other"));
        mounts
    }
}

impl Mounts {
    pub fn count(&self) -> usize {
        self.all.len()
    }

    pub fn contains(&self, id: MountId) -> bool {
        self.all.contains_key(&id)
    }

    /// A mount by its index; `other` if it has been given back.
    pub fn get(&self, id: MountId) -> &Mount {
        self.all.get(&id).map_or(&self.other, |state| &state.mount)
    }

    /// Index of a mount, which is added; `other` if there are too many.
    pub fn id(&mut self, mount: &Mount) -> MountId {
        if let Some(id) = self.by_mount.get(mount) {
            return *id;
        }
        if self.all.len() >= MAX_MOUNTS {
            return OTHER_MOUNT;
        }
        let id = self.next;
        self.next += 1;
        let (mount, active) = (mount.clone(), Instant::now());
        self.by_mount.insert(mount.clone(), id);
        self.all.insert(id, State { mount, active });
        id
    }

    pub fn touch(&mut self, id: MountId) {
        if let Some(state) = self.all.get_mut(&id) {
            state.active = Instant::now();
        }
    }

    /// Mounts on which nothing was counted for `linger` and that are not mounted.
    pub fn idle(
        &self,
        linger: Duration,
        now: Instant,
        is_mounted: impl Fn(&str) -> bool,
    ) -> HashSet<MountId> {
        let is_idle = |id: MountId, state: &State| {
            id > OTHER_MOUNT
                && now.saturating_duration_since(state.active) >= linger
                && !is_mounted(&state.mount.mountpoint)
        };
        self.all
            .iter()
            .filter(|(id, state)| is_idle(**id, state))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Gives back the mounts that are not in use.
    pub fn retain(&mut self, is_used: impl Fn(MountId) -> bool) {
        self.all.retain(|id, _| *id <= OTHER_MOUNT || is_used(*id));
        let all = &self.all;
        self.by_mount.retain(|_, id| all.contains_key(id));
    }
}
