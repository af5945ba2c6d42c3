//! Bounds on how many there are of something: of one user, and of all together.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// What is taken, by user.
#[derive(Debug, Default)]
pub struct Places(Mutex<HashMap<u32, usize>>);

/// A place that is taken; free again when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    uid: u32,
}

impl Places {
    /// Takes a place for a user, where neither they have `each` nor all users together have `all`.
    pub fn take(self: &Arc<Self>, uid: u32, each: usize, all: usize) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&uid).copied().unwrap_or(0);
        if own >= each || taken.values().sum::<usize>() >= all {
            return None;
        }
        taken.insert(uid, own + 1);
        Some(Place {
            places: Arc::clone(self),
            uid,
        })
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.uid) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.remove(&self.uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_does_not_take_the_place_of_all() {
        let places = Arc::new(Places::default());
        let first = places.take(1, 2, 3).unwrap();
        let _second = places.take(1, 2, 3).unwrap();
        assert!(places.take(1, 2, 3).is_none());
        let _others = places.take(2, 2, 3).unwrap();
        assert!(places.take(3, 2, 3).is_none(), "all are taken");
        assert_eq!(places.taken(), 3);
        drop(first);
        assert!(places.take(3, 2, 3).is_some());
        assert_eq!(places.taken(), 2);
    }
}
