//! Rings of records that the programs write, mapped into this process: read without a system call.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use aya::{
    Pod,
    maps::{Array, HashMap, IterableMap as _, MapData},
};
use iotrace_common::{
    abi::{
        self, MMAPABLE,
        maps::{self, TRACE_MISSING},
    },
    trace::{MissingByGeneration, Operation, Owner, Ring},
    waits::Wait,
};

use crate::kernel::{Kernel, KernelError, map_error, trace::Layout};
use iotrace_model::input::ProcessId;

/// Time between two looks at rings.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Records from which on a service hands them on without waiting for the next drain: 1.3 MB.
pub(super) const MANY_RECORDS: usize = 1 << 14;

/// Rings of records, of which this is the one reader.
pub struct Rings<T: Pod> {
    layout: Layout,
    records: Mapping<T>,
    places: Mapping<Ring>,
    /// What they hold, for messages.
    of: &'static str,
}

impl<T: Pod> Rings<T> {
    /// Takes the maps of the records and of the rings out of the loaded programs.
    fn of(
        kernel: &mut Kernel,
        layout: Layout,
        records: abi::Map<abi::Array<T, 1, MMAPABLE>>,
        rings: abi::Map<abi::Array<Ring, 1, MMAPABLE>>,
        of: &'static str,
    ) -> Result<Self, KernelError> {
        let count = (layout.rings * layout.records) as usize;
        Ok(Self {
            layout,
            records: Mapping::of(kernel, records, count)?,
            places: Mapping::of(kernel, rings, layout.rings as usize)?,
            of,
        })
    }

    /// Appends at most `room` records, those of each ring in the order in which they were written; how full the fullest ring was,
    /// in percent.
    pub fn read(&mut self, mut room: usize, into: &mut Vec<T>) -> u64 {
        let mut fullest = 0;
        for ring in 0..self.layout.rings {
            let (head, tail) = (self.head(ring), self.tail(ring));
            let from = tail.load(Ordering::Relaxed);
            // Pairs with the programs' own order: the records before the head are whole.
            let end = head.load(Ordering::Acquire);
            let mut count = end.wrapping_sub(from);
            if count > u64::from(self.layout.records) {
                // More than a ring holds: its head was overwritten, so its records are lost.
                let of = self.of;
                log::warn!("ring {ring} of {of} is damaged: what it held is lost");
                tail.store(end, Ordering::Release);
                count = 0;
            }
            fullest = fullest.max(count * 100 / u64::from(self.layout.records));
            let count = (count as usize).min(room);
            self.copy(ring, from, count, into);
            // From here on the programs write over them.
            if count > 0 {
                tail.store(from + count as u64, Ordering::Release);
            }
            room -= count;
        }
        fullest
    }

    /// Passes by what is there.
    pub fn skip(&self) {
        for ring in 0..self.layout.rings {
            let head = self.head(ring).load(Ordering::Acquire);
            self.tail(ring).store(head, Ordering::Release);
        }
    }

    /// Lets the programs record no more, and count what they leave out.
    pub fn close(&self) {
        for ring in 0..self.layout.rings {
            // SAFETY: a word of the mapping, aligned, which lives as long as this.
            let is_closed = unsafe { AtomicU64::from_ptr(&raw mut (*self.place(ring)).is_closed) };
            is_closed.store(1, Ordering::Relaxed);
        }
    }

    /// Copies records of a ring, which the programs do not write while they are unread.
    fn copy(&self, ring: u32, from: u64, count: usize, into: &mut Vec<T>) {
        let records = self.layout.records as usize;
        let first = from as usize & (records - 1);
        let straight = count.min(records - first);
        into.reserve(count);
        for (at, count) in [(first, straight), (0, count - straight)] {
            // SAFETY: inside the ring's part of the mapping; the vector has room, and any bits are a record.
            unsafe {
                let source = self.records.start.as_ptr();
                let source = source.add(ring as usize * records + at);
                let end = into.as_mut_ptr().add(into.len());
                ptr::copy_nonoverlapping(source, end, count);
                into.set_len(into.len() + count);
            }
        }
    }

    fn head(&self, ring: u32) -> &AtomicU64 {
        // SAFETY: a word of the mapping, aligned, which lives as long as this.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.place(ring)).head) }
    }

    fn tail(&self, ring: u32) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.place(ring)).tail) }
    }

    fn place(&self, ring: u32) -> *mut Ring {
        // SAFETY: there are as many places as rings.
        unsafe { self.places.start.as_ptr().add(ring as usize) }
    }
}

/// The rings of the operation trace, and what found them full.
pub struct Operations {
    pub rings: Rings<Operation>,
    missing: HashMap<MapData, Owner, MissingByGeneration>,
}

impl Operations {
    /// Takes them out of the loaded programs; none where nothing is traced.
    pub fn take(kernel: &mut Kernel) -> Result<Option<Self>, KernelError> {
        let Some(layout) = kernel.trace() else {
            return Ok(None);
        };
        let missing = kernel.take(TRACE_MISSING)?;
        let rings = Rings::of(
            kernel,
            layout,
            maps::TRACE_OPERATIONS,
            maps::TRACE_RINGS,
            "the operation trace",
        )?;
        Ok(Some(Self { rings, missing }))
    }

    /// Passes by what is there, and forgets what is missing.
    pub fn skip(&mut self) -> Result<(), KernelError> {
        self.rings.skip();
        let owners: Vec<Owner> = self.missing.keys().filter_map(Result::ok).collect();
        for owner in owners {
            self.missing
                .remove(&owner)
                .map_err(|error| map_error(TRACE_MISSING.name, "delete", &error))?;
        }
        Ok(())
    }

    /// What is missing so far, by process.
    pub fn missing(&self) -> Result<Vec<(ProcessId, MissingByGeneration)>, KernelError> {
        let mut all = Vec::new();
        for entry in self.missing.iter() {
            let (owner, missing) =
                entry.map_err(|error| map_error(TRACE_MISSING.name, "lookup", &error))?;
            all.push((ProcessId::from(&owner), missing));
        }
        Ok(all)
    }
}

/// The rings of waits; none where they are not kept.
pub fn waits(kernel: &mut Kernel) -> Result<Option<Rings<Wait>>, KernelError> {
    let Some(layout) = kernel.waits().layout() else {
        return Ok(None);
    };
    let (records, rings) = (maps::WAIT_RECORDS, maps::WAIT_RINGS);
    Rings::of(kernel, layout, records, rings, "the waits of threads").map(Some)
}

/// The elements of an array map in this process's memory, shared with the programs.
struct Mapping<T: Pod> {
    start: NonNull<T>,
    bytes: usize,
    /// Held: the map goes when nobody uses it.
    _map: Array<MapData, T>,
}

impl<T: Pod> Mapping<T> {
    fn of(
        kernel: &mut Kernel,
        map: abi::Map<abi::Array<T, 1, MMAPABLE>>,
        count: usize,
    ) -> Result<Self, KernelError> {
        let error = |source| KernelError::Map {
            map: map.name,
            call: "mmap",
            source,
        };
        let map = kernel.take(map)?;
        let bytes = count * size_of::<T>();
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.map().fd().as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(error(io::Error::last_os_error()));
        }
        let start = NonNull::new(start.cast())
            .ok_or_else(|| error(io::Error::other("it is at address 0")))?;
        Ok(Self {
            start,
            bytes,
            _map: map,
        })
    }
}

impl<T: Pod> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the memory is this process's, whichever thread uses it; `Rings` is used by one at a time.
unsafe impl<T: Pod> Send for Mapping<T> {}
