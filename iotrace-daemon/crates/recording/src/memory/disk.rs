//! A heap on disk: what a command holds beyond a limit lies in a file without a name, mapped into its memory.
//!
//! A recording may be larger than memory, and what is known of each process and file is looked at in no order that a
//! stream could have. So beyond the limit every allocation is taken from that file: the system keeps the pages in memory
//! that are in use, writes the others out, and reads them back. Nothing else changes, and all that reads a recording is
//! bounded alike. Without [`begin`] none of this is in use.
//!
//! Blocks of the file are taken before they are mapped, so a disk that is full is no fault in the midst of work: then
//! memory is used, and [`failure`] says so.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::CString,
    fs, io,
    mem::MaybeUninit,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicIsize, AtomicUsize, Ordering::Relaxed},
    },
};

use dlmalloc::{Allocator, Dlmalloc};

/// Addresses that the heap may have.
const ADDRESSES: usize = 1 << 44;
/// The file grows by so much.
const STEP: usize = 16 << 20;
/// Least that a limit may be, bytes: there is always something that is better not on disk.
const LEAST: u64 = 16 << 20;
const PAGE: usize = 4096;
/// Error number of a directory whose files are in memory themselves.
const IN_MEMORY: i32 = libc::ENOTBLK;

#[global_allocator]
static ALLOCATOR: Memory = Memory;

/// Whether there is a limit.
static IS_ON: AtomicBool = AtomicBool::new(false);
static LIMIT: AtomicIsize = AtomicIsize::new(0);
/// Bytes that were allocated in memory since [`begin`], less those that were freed: also of blocks from before.
static HELD: AtomicIsize = AtomicIsize::new(0);
/// Where the addresses of the heap begin.
static BASE: AtomicUsize = AtomicUsize::new(0);
/// The file that the heap is in; -1: there is none.
static FILE: AtomicI32 = AtomicI32::new(-1);
static HEAP: Mutex<Dlmalloc<Disk>> = Mutex::new(Dlmalloc::new_with_allocator(Disk::new()));
/// Why the disk has no room, as an error number; 0: it has.
static ERROR: AtomicI32 = AtomicI32::new(0);
/// Whether room was asked for in vain.
static IS_MISSED: AtomicBool = AtomicBool::new(false);
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Allows so many bytes in memory from now on [default: half of what is available]; what is more goes to disk, in
/// `TMPDIR` or `/var/tmp`.
pub fn begin(limit: Option<u64>) {
    let limit = limit.unwrap_or_else(|| available() / 2).max(LEAST);
    let directory = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    let directory = DIRECTORY.get_or_init(|| directory.into());
    match open(directory) {
        Ok(fd) => FILE.store(fd, Relaxed),
        Err(error) => ERROR.store(error.raw_os_error().unwrap_or(libc::EIO), Relaxed),
    }
    // SAFETY: new addresses, which nothing can be at.
    let base = unsafe {
        libc::mmap(
            ptr::null_mut(),
            ADDRESSES,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        ERROR.store(libc::ENOMEM, Relaxed);
    } else {
        BASE.store(base.addr(), Relaxed);
    }
    LIMIT.store(isize::try_from(limit).unwrap_or(isize::MAX), Relaxed);
    IS_ON.store(true, Relaxed);
}

/// Where there was no room on disk when it was needed, and why: all was kept in memory.
pub fn failure() -> Option<(&'static Path, io::Error)> {
    let is_missed = IS_MISSED.load(Relaxed);
    let error = match ERROR.load(Relaxed) {
        IN_MEMORY => io::Error::other("it is not on a disk"),
        number => io::Error::from_raw_os_error(number),
    };
    is_missed.then_some((DIRECTORY.get()?, error))
}

/// Bytes that this process may take, by the machine and by its control group.
fn available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let machine = kib.map_or(u64::MAX, |kib| kib << 10);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let rooms = groups.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next(), fields.next().unwrap_or_default());
        let (root, version) = match controllers {
            Some("") => ("/sys/fs/cgroup", 2),
            Some("memory") => ("/sys/fs/cgroup/memory", 1),
            _ => return Vec::new(),
        };
        let group = Path::new(root).join(group.trim_start_matches('/'));
        let groups = group
            .ancestors()
            .take_while(|group| group.starts_with(root));
        groups
            .filter_map(|group| room_of_group(group, version))
            .collect()
    });
    rooms.fold(machine, u64::min)
}

/// Bytes that a control group may still take: what is cached makes room.
fn room_of_group(group: &Path, version: u32) -> Option<u64> {
    let [most, held] = match version {
        1 => ["memory.limit_in_bytes", "total_rss "],
        _ => ["memory.max", "anon "],
    };
    let most = fs::read_to_string(group.join(most)).ok()?;
    let stat = fs::read_to_string(group.join("memory.stat")).ok()?;
    let held = stat.lines().find_map(|line| line.strip_prefix(held))?;
    let most: u64 = most.trim().parse().ok()?;
    Some(most.saturating_sub(held.parse().ok()?))
}

/// Makes a file without a name on a disk.
fn open(directory: &Path) -> io::Result<i32> {
    let mut template = directory.join("iotrace-XXXXXX").into_os_string().into_vec();
    template.push(0);
    // SAFETY: the template ends with a NUL, and is the callee's to change.
    let fd = unsafe { libc::mkostemp(template.as_mut_ptr().cast(), libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    template.pop();
    let name = CString::new(template)?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a string, a descriptor of this function's own, and room for the answer.
    let is_known = unsafe {
        libc::unlink(name.as_ptr());
        libc::fstatfs(fd, about.as_mut_ptr()) == 0
    };
    // SAFETY: filled in, or all zeros.
    let about = unsafe { about.assume_init() };
    if is_known && about.f_type as u64 == libc::TMPFS_MAGIC as u64 {
        // SAFETY: as above, and not used again.
        unsafe { libc::close(fd) };
        return Err(io::Error::from_raw_os_error(IN_MEMORY));
    }
    Ok(fd)
}

/// What the heap takes its room from.
struct Disk {
    /// Bytes of the file that are mapped.
    taken: AtomicUsize,
}

impl Disk {
    const fn new() -> Self {
        Self {
            taken: AtomicUsize::new(0),
        }
    }

    /// Maps the next bytes of the file.
    fn take(&self, size: usize) -> io::Result<*mut u8> {
        let fd = FILE.load(Relaxed);
        let (base, taken) = (BASE.load(Relaxed), self.taken.load(Relaxed));
        if fd < 0 || base == 0 || size > ADDRESSES - taken {
            return Err(io::Error::from_raw_os_error(ERROR.load(Relaxed)));
        }
        // SAFETY: fallocate touches no memory.
        while unsafe { libc::fallocate(fd, 0, taken as i64, size as i64) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // SAFETY: addresses that were kept for this, and not given out yet.
        let place = unsafe {
            libc::mmap(
                ptr::without_provenance_mut(base + taken),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                fd,
                taken as i64,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // What is on disk already can make room at once.
        // SAFETY: touches no memory. It only asks: what is not written out now is so when there is need.
        unsafe { libc::sync_file_range(fd, 0, taken as i64, libc::SYNC_FILE_RANGE_WRITE) };
        self.taken.store(taken + size, Relaxed);
        Ok(place.cast())
    }
}

// SAFETY: what it gives out is mapped, is nobody else's, and stays.
unsafe impl Allocator for Disk {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let size = size.next_multiple_of(STEP);
        match self.take(size) {
            Ok(place) => (place, size, 0),
            Err(error) => {
                ERROR.store(error.raw_os_error().unwrap_or(libc::EIO), Relaxed);
                (ptr::null_mut(), 0, 0)
            }
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

/// The allocator of this program: the system's, and beyond the limit the heap on disk.
struct Memory;

impl Memory {
    /// Takes so many bytes of the limit; false: there are not so many left of it.
    fn has_room(size: isize) -> bool {
        let held = HELD.fetch_add(size, Relaxed);
        let has_room = held.saturating_add(size) <= LIMIT.load(Relaxed);
        if !has_room {
            HELD.fetch_sub(size, Relaxed);
        }
        has_room
    }

    fn heap() -> MutexGuard<'static, Dlmalloc<Disk>> {
        HEAP.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block on disk; null: there is no room, and memory must do.
    fn on_disk(layout: Layout) -> *mut u8 {
        if ERROR.load(Relaxed) == 0 {
            // SAFETY: the size is not 0, which the caller warrants, as it does to any allocator.
            let block = unsafe { Self::heap().malloc(layout.size(), layout.align()) };
            if !block.is_null() {
                return block;
            }
        }
        IS_MISSED.store(true, Relaxed);
        HELD.fetch_add(layout.size() as isize, Relaxed);
        ptr::null_mut()
    }

    fn is_on_disk(block: *mut u8) -> bool {
        let base = BASE.load(Relaxed);
        base != 0 && block.addr().wrapping_sub(base) < ADDRESSES
    }
}

// SAFETY: each block goes back to the allocator that it is of, which is told by its address; both keep to the layouts.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_ON.load(Relaxed) && !Self::has_room(layout.size() as isize) {
            let block = Self::on_disk(layout);
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: the caller's own warrant.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if IS_ON.load(Relaxed) && !Self::has_room(layout.size() as isize) {
            let block = Self::on_disk(layout);
            if !block.is_null() {
                // SAFETY: a new block of that size.
                unsafe { block.write_bytes(0, layout.size()) };
                return block;
            }
        }
        // SAFETY: the caller's own warrant.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if Self::is_on_disk(block) {
            // SAFETY: a block of that heap, and its layout.
            return unsafe { Self::heap().free(block, layout.size(), layout.align()) };
        }
        if IS_ON.load(Relaxed) {
            HELD.fetch_sub(layout.size() as isize, Relaxed);
        }
        // SAFETY: the caller's own warrant, of a block of the system's.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (layout.size(), layout.align());
        // SAFETY: the caller warrants that the size is one of a layout.
        let new = unsafe { Layout::from_size_align_unchecked(size, align) };
        if Self::is_on_disk(block) {
            // SAFETY: a block of that heap, and its layout.
            let grown = unsafe { Self::heap().realloc(block, old, align, size) };
            if !grown.is_null() {
                return grown;
            }
            // SAFETY: the caller's own warrant.
            let place = unsafe { self.alloc(new) };
            if !place.is_null() {
                // SAFETY: two blocks, of these sizes, and the old one is not used again.
                unsafe {
                    place.copy_from_nonoverlapping(block, old.min(size));
                    self.dealloc(block, layout);
                }
            }
            return place;
        }
        if IS_ON.load(Relaxed) {
            if size <= old {
                HELD.fetch_sub((old - size) as isize, Relaxed);
            } else if !Self::has_room((size - old) as isize) {
                let place = Self::on_disk(new);
                HELD.fetch_sub(old as isize, Relaxed);
                if !place.is_null() {
                    // SAFETY: two blocks, of these sizes, and the old one is not used again.
                    unsafe {
                        place.copy_from_nonoverlapping(block, old);
                        System.dealloc(block, layout);
                    }
                    return place;
                }
            }
        }
        // SAFETY: the caller's own warrant, of a block of the system's.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_file_has_no_name() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = open(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        // SAFETY: this test's own.
        unsafe { libc::close(file) };
        assert!(open(&directory.path().join("nothing")).is_err());
        let in_memory = open(Path::new("/dev/shm")).unwrap_err();
        assert_eq!(in_memory.raw_os_error(), Some(IN_MEMORY));
    }
}
