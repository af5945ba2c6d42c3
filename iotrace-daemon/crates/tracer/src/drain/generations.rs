//! Two generations of a counter map: the programs write the one that the epoch says, the daemon empties the other
//! ([`super::cells::Halves`]).
//!
//! Writing a map into an array of maps returns only when every program has ended that ran before (the kernel waits for a
//! grace period): after the epoch has changed, the old generation has no writer any more.

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

/// A pair of maps, whatever they count.
pub trait Pair: Send {
    /// Puts both into the array where the programs look for them.
    fn put(&mut self) -> Result<(), KernelError>;
}

/// Puts all pairs in their places, at the same time: each waits for grace periods. The first error is returned.
pub fn put_all(pairs: Vec<&mut dyn Pair>) -> Result<(), KernelError> {
    let helpers = pairs.len().saturating_sub(1);
    let queue = Mutex::new(pairs.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut result = Ok(());
        while let Some(pair) = next() {
            result = result.and(pair.put());
        }
        result
    };
    thread::scope(|scope| {
        // What has no thread is done by those there are.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (0..helpers).filter_map(spawn).collect();
        let mut result = work();
        for helper in helpers {
            let failed = || KernelError::Io {
                what: "the maps of counters".into(),
                source: io::Error::other("a thread panicked"),
            };
            result = result.and(helper.join().unwrap_or_else(|_| Err(failed())));
        }
        result
    })
}

/// A counter map in two generations.
pub struct Generations<K: Pod, V: Pod> {
    name: &'static str,
    halves: ArrayOfMaps<MapData, HashMap<MapData, K, V>>,
    maps: [HashMap<MapData, K, V>; 2],
}

impl<K: Pod, V: Pod> Generations<K, V> {
    /// Takes the three maps of a pair out of the loaded object; nothing is counted before [`put_all`].
    pub fn take<const N: usize, const F: usize>(
        kernel: &mut Kernel,
        of: abi::Generations<K, V, N, F>,
    ) -> Result<Self, KernelError> {
        let [first, second] = of.maps;
        Ok(Self {
            name: of.halves.name,
            maps: [kernel.take(first)?, kernel.take(second)?],
            halves: kernel.take(of.halves)?,
        })
    }

    /// Empties the map of the generation that no program writes, `idle`; `last`: both, for the end, when no program runs any
    /// more. How many entries there were.
    pub fn sweep(
        &mut self,
        idle: usize,
        last: bool,
        mut take: impl FnMut(Entries<K, V>),
    ) -> Result<usize, KernelError> {
        let mut total = self.empty(idle, &mut take)?;
        if last {
            total += self.empty(1 - idle, &mut take)?;
        }
        Ok(total)
    }

    /// Waits until every program has ended that runs now.
    pub fn wait_for_programs(&mut self) -> Result<(), KernelError> {
        self.set(0)
    }

    fn set(&mut self, half: usize) -> Result<(), KernelError> {
        self.halves
            .set(half as u32, &self.maps[half], 0)
            .map_err(|error| map_error(self.name, "update", &error))
    }

    fn empty(&self, half: usize, take: impl FnMut(Entries<K, V>)) -> Result<usize, KernelError> {
        let map = self.maps[half].map().fd().as_fd();
        if is_empty::<K>(map).map_err(|source| self.error("get next key", source))? {
            return Ok(0);
        }
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

impl<K: Pod + Send, V: Pod + Send> Pair for Generations<K, V> {
    fn put(&mut self) -> Result<(), KernelError> {
        self.set(0)?;
        self.set(1)
    }
}
