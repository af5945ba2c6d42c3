//! Two generations of a counter map behind one slot: the programs write the one, the daemon empties the other.
//!
//! Writing a map into an array of maps returns only when no program uses the map that was there before (the kernel
//! waits for a grace period), so a generation that was taken out has no writer any more. Slots that are written at the same
//! time wait for one grace period together ([`at_once`]).

use std::{
    io,
    os::fd::AsFd as _,
    sync::{Mutex, PoisonError},
    thread,
};

use aya::{
    Pod,
    maps::{ArrayOfMaps, HashMap, IterableMap as _, MapData},
};
use iotrace_common::abi;

use super::batch::{Entries, empty, is_empty};
use crate::kernel::{Kernel, KernelError, map_error};

/// A slot with a map in two generations, whatever it counts.
pub trait Slot: Send {
    /// Whether the current generation has anything.
    fn is_used(&self) -> Result<bool, KernelError>;
    /// Puts the current generation into the slot.
    fn put(&mut self) -> Result<(), KernelError>;
    /// Puts the other generation into the slot, and makes it the current one.
    fn swap(&mut self) -> Result<(), KernelError>;
}

/// Puts the first generations into their slots.
pub fn begin(slots: Vec<&mut dyn Slot>) -> Result<(), KernelError> {
    at_once(slots, |slot| slot.put())
}

/// Swaps the generations that are used. Afterwards every program has ended that ran before, also if there are none.
pub fn swap_used(slots: Vec<&mut dyn Slot>) -> Result<(), KernelError> {
    let (mut used, mut unused) = (Vec::new(), Vec::new());
    for slot in slots {
        match slot.is_used()? {
            true => used.push(slot),
            false => unused.push(slot),
        }
    }
    match unused.first_mut() {
        Some(slot) if used.is_empty() => slot.put(),
        _ => at_once(used, |slot| slot.swap()),
    }
}

/// Waits until every program has ended that runs now: the kernel does so for any change of an array of maps.
pub fn wait_for_programs(slot: &mut dyn Slot) -> Result<(), KernelError> {
    slot.put()
}

/// Does something to all of them at the same time. The first error is returned, when all is done.
fn at_once(
    slots: Vec<&mut dyn Slot>,
    change: impl Fn(&mut dyn Slot) -> Result<(), KernelError> + Sync,
) -> Result<(), KernelError> {
    let helpers = slots.len().saturating_sub(1);
    let queue = Mutex::new(slots.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut result = Ok(());
        while let Some(slot) = next() {
            result = result.and(change(slot));
        }
        result
    };
    thread::scope(|scope| {
        // What has no thread is done by those there are.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (0..helpers).filter_map(spawn).collect();
        let mut result = work();
        for helper in helpers {
            let failed = || {
                Err(KernelError::Io {
                    what: "a swap of counters".into(),
                    source: io::Error::other("its thread panicked"),
                })
            };
            result = result.and(helper.join().unwrap_or_else(|_| failed()));
        }
        result
    })
}

/// A counter map in two generations.
pub struct Generations<K: Pod, V: Pod> {
    name: &'static str,
    slot: ArrayOfMaps<MapData, HashMap<MapData, K, V>>,
    maps: [HashMap<MapData, K, V>; 2],
    current: usize,
    /// Whether the other one may have something.
    is_swapped: bool,
}

impl<K: Pod, V: Pod> Generations<K, V> {
    /// Takes the three maps of a pair out of the loaded object; nothing is counted before [`begin`].
    pub fn take<const N: usize, const F: usize>(
        kernel: &mut Kernel,
        of: abi::Generations<K, V, N, F>,
    ) -> Result<Self, KernelError> {
        let [first, second] = of.maps;
        Ok(Self {
            name: of.slot.name,
            maps: [kernel.take(first)?, kernel.take(second)?],
            slot: kernel.take(of.slot)?,
            current: 0,
            is_swapped: false,
        })
    }

    /// Empties the generation that was swapped out, if one was; `last`: both where they are, for the end, when no program
    /// runs any more. How many entries there were.
    pub fn sweep(
        &mut self,
        last: bool,
        mut take: impl FnMut(Entries<K, V>),
    ) -> Result<usize, KernelError> {
        let is_swapped = std::mem::take(&mut self.is_swapped);
        if last {
            return Ok(self.empty(0, &mut take)? + self.empty(1, &mut take)?);
        }
        match is_swapped {
            true => self.empty(1 - self.current, take),
            false => Ok(0),
        }
    }

    fn empty(
        &self,
        generation: usize,
        take: impl FnMut(Entries<K, V>),
    ) -> Result<usize, KernelError> {
        let map = self.maps[generation].map().fd().as_fd();
        empty(map, take).map_err(|source| self.error("batch lookup and delete", source))
    }

    fn error(&self, call: &'static str, source: io::Error) -> KernelError {
        KernelError::Map {
            map: self.name,
            call,
            source,
        }
    }
}

impl<K: Pod + Send, V: Pod + Send> Slot for Generations<K, V> {
    fn is_used(&self) -> Result<bool, KernelError> {
        let map = self.maps[self.current].map().fd().as_fd();
        let is_empty = is_empty::<K>(map).map_err(|source| self.error("get next key", source))?;
        Ok(!is_empty)
    }

    fn put(&mut self) -> Result<(), KernelError> {
        self.slot
            .set(0, &self.maps[self.current], 0)
            .map_err(|error| map_error(self.name, "update", &error))
    }

    fn swap(&mut self) -> Result<(), KernelError> {
        self.current = 1 - self.current;
        self.is_swapped = true;
        self.put()
    }
}
