//! The cells of the counters per thread and file: one array in two halves, of which the programs write the one that the
//! epoch says and the daemon empties the other.
//!
//! The array is mapped a window at a time, as far as cells were given out: reading it so costs no system call an entry, and
//! what the daemon has mapped does not grow with it.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
    ptr,
};

use aya::{
    Pod,
    maps::{Array, IterableMap as _, MapData},
};
use iotrace_common::{
    abi::{
        self,
        maps::{EPOCH, FILL},
    },
    key::IoKey,
    value::{Cell, Fill, fill_of},
};

use super::batch::Entries;
use crate::kernel::{Kernel, KernelError, map_error};

/// Bytes mapped at a time, about.
const WINDOW: usize = 1 << 20;

/// Which half of the cells is written, and how many cells of it were given out.
pub struct Halves {
    epoch: Array<MapData, u64>,
    fill: Array<MapData, Fill>,
    /// The current generation.
    current: u64,
}

impl Halves {
    /// Takes the maps out of the loaded object and begins with the first generation.
    pub fn take(kernel: &mut Kernel) -> Result<Self, KernelError> {
        let mut halves = Self {
            epoch: kernel.take(EPOCH)?,
            fill: kernel.take(FILL)?,
            current: 0,
        };
        halves.flip()?;
        Ok(halves)
    }

    /// Sends the programs to the other half, of which [`Cells::sweep`] has left every cell empty. Those that run already
    /// may still be in this one.
    pub fn flip(&mut self) -> Result<(), KernelError> {
        self.current += 1;
        self.epoch
            .set(0, self.current, 0)
            .map_err(|error| map_error(EPOCH.name, "update", &error))
    }

    /// The current generation.
    pub fn current(&self) -> u64 {
        self.current
    }

    /// The half that the programs do not write.
    pub fn idle(&self) -> usize {
        (self.current as usize & 1) ^ 1
    }

    /// Cells given out. The count may have run past the end, by those that found the last cell gone.
    fn used(&self, fill: u32) -> Result<u64, KernelError> {
        let fill = self.fill.get(&fill, 0);
        let Fill { cells, .. } = fill.map_err(|error| map_error(FILL.name, "look up", &error))?;
        Ok(cells)
    }

    fn clear(&mut self, fill: u32) -> Result<(), KernelError> {
        self.fill
            .set(fill, Fill::default(), 0)
            .map_err(|error| map_error(FILL.name, "update", &error))
    }
}

/// Both halves of the cells whose counters are `V`.
pub struct Cells<V>
where
    Cell<V>: Pod,
{
    name: &'static str,
    cells: Array<MapData, Cell<V>>,
    /// Cells of one half.
    each: u32,
    /// One of [`iotrace_common::value::kind`].
    kind: u32,
}

impl<V: Copy> Cells<V>
where
    Cell<V>: Pod,
{
    /// Takes the map out of the loaded object.
    pub fn take<const N: usize, const F: usize>(
        kernel: &mut Kernel,
        map: abi::Map<abi::Array<Cell<V>, N, F>>,
        each: u32,
        kind: u32,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            name: map.name,
            cells: kernel.take(map)?,
            each,
            kind,
        })
    }

    /// Empties the half that no program is in any more; `last`: both, for the end. How many entries there were.
    pub fn sweep(
        &self,
        halves: &mut Halves,
        last: bool,
        mut take: impl FnMut(Entries<IoKey, V>),
    ) -> Result<usize, KernelError> {
        let idle = halves.idle() as u32;
        let mut total = self.empty(halves, idle, &mut take)?;
        if last {
            total += self.empty(halves, idle ^ 1, &mut take)?;
        }
        Ok(total)
    }

    fn empty(
        &self,
        halves: &mut Halves,
        half: u32,
        take: &mut impl FnMut(Entries<IoKey, V>),
    ) -> Result<usize, KernelError> {
        let fill = fill_of(half, self.kind);
        let used = halves.used(fill)?.min(u64::from(self.each)) as usize;
        if used == 0 {
            return Ok(0);
        }
        let begin = half as usize * self.each as usize;
        let step = (WINDOW / size_of::<Cell<V>>()).max(1);
        for first in (begin..begin + used).step_by(step) {
            let count = step.min(begin + used - first);
            let window = Window::open(&self.cells, first, count)
                .map_err(|source| self.error("map", source))?;
            take(window.empty(count));
        }
        halves.clear(fill)?;
        Ok(used)
    }

    fn error(&self, call: &'static str, source: io::Error) -> KernelError {
        KernelError::Map {
            map: self.name,
            call,
            source,
        }
    }
}

/// Some cells, mapped.
struct Window<V> {
    pages: *mut libc::c_void,
    bytes: usize,
    cells: *mut Cell<V>,
}

impl<V: Copy> Window<V>
where
    Cell<V>: Pod,
{
    fn open(map: &Array<MapData, Cell<V>>, first: usize, count: usize) -> io::Result<Self> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (begin, end) = (
            first * size_of::<Cell<V>>(),
            (first + count) * size_of::<Cell<V>>(),
        );
        let offset = begin / page * page;
        let bytes = end.next_multiple_of(page) - offset;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let pages = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.map().fd().as_fd().as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the cells begin within the first page mapped.
        let cells = unsafe { pages.byte_add(begin - offset).cast() };
        Ok(Self {
            pages,
            bytes,
            cells,
        })
    }

    /// Takes the first `count` cells, all that are mapped, and leaves zeros.
    fn empty(&self, count: usize) -> Entries<IoKey, V> {
        let (mut keys, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for index in 0..count {
            // SAFETY: a mapped cell, which no program writes any more, nor any other thread of this process.
            let cell = unsafe { self.cells.add(index).read() };
            keys.push(cell.key);
            values.push(cell.value);
        }
        // SAFETY: as above; zeros are what programs expect of a cell.
        unsafe { ptr::write_bytes(self.cells, 0, count) };
        (keys, values)
    }
}

impl<V> Drop for Window<V> {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nothing points into it any more.
        unsafe { libc::munmap(self.pages, self.bytes) };
    }
}
