//! Two generations of a counter map behind one slot: the programs write the one, the daemon empties the other.
//!
//! Writing a map into an array of maps returns only when no program uses the map that was there before (the kernel
//! waits for a grace period), so a generation that was taken out has no writer any more.

use std::{io, os::fd::AsFd as _};

use aya::{
    Pod,
    maps::{ArrayOfMaps, HashMap, IterableMap as _, MapData},
};
use iotrace_common::abi;

use super::batch::{Entries, empty, is_empty};
use crate::kernel::{Kernel, KernelError, map_error};

/// A counter map in two generations.
pub struct Generations<K: Pod, V: Pod> {
    name: &'static str,
    slot: ArrayOfMaps<MapData, HashMap<MapData, K, V>>,
    maps: [HashMap<MapData, K, V>; 2],
    current: usize,
}

impl<K: Pod, V: Pod> Generations<K, V> {
    /// Takes the three maps of a pair out of the loaded object and puts the first generation into the slot.
    pub fn take<const N: usize, const F: usize>(
        kernel: &mut Kernel,
        of: abi::Generations<K, V, N, F>,
    ) -> Result<Self, KernelError> {
        let name = of.slot.name;
        let [first, second] = of.maps;
        let maps = [kernel.take(first)?, kernel.take(second)?];
        let mut slot = kernel.take(of.slot)?;
        slot.set(0, &maps[0], 0)
            .map_err(|error| map_error(name, "update", &error))?;
        Ok(Self {
            name,
            slot,
            maps,
            current: 0,
        })
    }

    /// Puts the other generation into the slot and empties the one that was there; `last`: empties
    /// both where they are, for the end, when no program runs any more. How many entries there were.
    pub fn sweep(
        &mut self,
        last: bool,
        mut take: impl FnMut(Entries<K, V>),
    ) -> Result<usize, KernelError> {
        if last {
            return Ok(self.empty(0, &mut take)? + self.empty(1, &mut take)?);
        }
        let idle = self.current;
        let next = 1 - idle;
        self.slot
            .set(0, &self.maps[next], 0)
            .map_err(|error| map_error(self.name, "update", &error))?;
        self.current = next;
        self.empty(idle, take)
    }

    /// As `sweep`, but leaves an empty generation where it is: for maps that are seldom used.
    pub fn sweep_if_used(
        &mut self,
        last: bool,
        take: impl FnMut(Entries<K, V>),
    ) -> Result<usize, KernelError> {
        let map = self.maps[self.current].map().fd().as_fd();
        if !last && is_empty::<K>(map).map_err(|source| self.error("get next key", source))? {
            return Ok(0);
        }
        self.sweep(last, take)
    }

    /// Waits until every program has ended that runs now: the kernel does so for any change of an array of maps, such
    /// as putting the map into it that is there.
    pub fn wait_for_programs(&mut self) -> Result<(), KernelError> {
        self.slot
            .set(0, &self.maps[self.current], 0)
            .map_err(|error| map_error(self.name, "update", &error))
    }

    fn empty(
        &mut self,
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
