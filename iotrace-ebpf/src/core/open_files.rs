//! The last access of each open file as a process uses it, which says whether the next one is sequential, and whether it
//! belongs to the same span ([`crate::features::spans`]).
//!
//! Writes `OPEN_FILES`: sets of places, found by the address of the open file. An open file that finds its set full takes
//! the place that was used least lately. Where it was still in use, its next access begins anew, is left out of the
//! sequential counts, and is counted so. A table and not the kernel's LRU hash, whose lookup is a call.

use core::ptr;

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use iotrace_common::{
    limits::{OPEN_FILE_SETS, OPEN_FILE_WAYS, SPAN_GAP_NS},
    op,
};

use crate::{core::thread::Thread, features::spans, platform::compare_exchange};

/// Last access of an open file as one process uses it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OpenFile {
    /// What [`identity`] says of it; 0: nobody's place, [`CHANGING`]: between two.
    file: u64,
    /// Process id and start key.
    owner: u64,
    /// Last byte read, as Darshan's rule has it: 0 at open.
    pub last_read: u64,
    pub last_write: u64,
    /// End of the last access, nanoseconds, and in the lowest bits its direction.
    used: u64,
    /// Number of the span that it is in; 0: none.
    pub span: u32,
    /// Not 0: its open was not seen, so that it is not known where its last access ended.
    pub unknown: u32,
}

/// Open files as the processes use them, found by their address ([`crate::core::open_files`]).
#[btf_map]
static OPEN_FILES: Array<[OpenFile; OPEN_FILE_WAYS], { OPEN_FILE_SETS as usize }> = Array::new();

const CHANGING: u64 = 1;
const DIRECTION: u64 = 3;
/// The allocator places open files in steps of some cache lines.
const FILE_BITS: u32 = 6;

/// The state of the thread's open file; null if it is not known.
#[inline(always)]
pub fn find(thread: &Thread) -> *mut OpenFile {
    let Some(set) = OPEN_FILES.get_ptr_mut(set(thread)) else {
        return ptr::null_mut();
    };
    let owner = owner(thread);
    for way in 0..OPEN_FILE_WAYS {
        // SAFETY: a map value; the way is below their number.
        unsafe {
            let state = set.cast::<OpenFile>().add(way);
            if ptr::read_volatile(&raw const (*state).file) == identity(thread)
                && ptr::read_volatile(&raw const (*state).owner) == owner
            {
                return state;
            }
        }
    }
    ptr::null_mut()
}

checked_once! {
    /// Makes the state of the thread's open file what it is before the first access. Whatever was known of the address is
    /// forgotten. Makes none where another thread takes the same place at this moment.
    pub fn iotrace_begin(thread: &mut Thread) {
        let mut state = find(thread);
        let is_known = !state.is_null();
        if !is_known {
            state = oldest(thread);
        }
        if state.is_null() {
            return;
        }
        // SAFETY: a map value, and from the exchange on this thread's alone to write.
        unsafe {
            let file = &raw mut (*state).file;
            let known = ptr::read_volatile(file);
            if known == CHANGING || compare_exchange(file, known, CHANGING) != known {
                return;
            }
            (*state).owner = owner(thread);
            (*state).last_read = 0;
            (*state).last_write = 0;
            (*state).used = thread.ended & !DIRECTION;
            (*state).unknown = u32::from(thread.op() != op::OPEN);
            // The address may have been that of another file, whose span is not this one's. Where spans are kept, the call
            // was given its number before.
            if !is_known || !spans::are_kept(thread) {
                (*state).span = 0;
            }
            ptr::write_volatile(file, identity(thread));
        }
    }
}

/// The place of the thread's set that was used least lately.
#[inline(always)]
fn oldest(thread: &Thread) -> *mut OpenFile {
    let Some(set) = OPEN_FILES.get_ptr_mut(set(thread)) else {
        return ptr::null_mut();
    };
    let mut oldest = set.cast::<OpenFile>();
    let mut least = u64::MAX;
    for way in 0..OPEN_FILE_WAYS {
        // SAFETY: a map value; the way is below their number.
        unsafe {
            let state = set.cast::<OpenFile>().add(way);
            let used = ptr::read_volatile(&raw const (*state).used);
            if used < least {
                (oldest, least) = (state, used);
            }
        }
    }
    oldest
}

/// Direction of the last access; 0: there was none.
#[inline(always)]
pub fn direction(state: &OpenFile) -> u64 {
    state.used & DIRECTION
}

/// The thread's call was an access in `direction`, below 4 and not 0.
#[inline(always)]
pub fn use_now(state: &mut OpenFile, thread: &Thread, direction: u64) {
    state.used = thread.ended & !DIRECTION | direction;
    state.unknown = 0;
}

/// Whether the open file was not used for so long before the thread's call that the call begins another span.
#[inline(always)]
pub fn was_idle(state: &OpenFile, thread: &Thread) -> bool {
    thread.entered.saturating_sub(state.used & !DIRECTION) > SPAN_GAP_NS
}

/// The thread's call used the open file.
#[inline(always)]
pub fn touch(state: &mut OpenFile, thread: &Thread) {
    state.used = thread.ended & !DIRECTION | state.used & DIRECTION;
}

/// What tells the thread's open file from others: its address, or its handle where addresses are not known.
#[inline(always)]
fn identity(thread: &Thread) -> u64 {
    if cfg!(feature = "nobtf") {
        thread.key.io.file.inode << FILE_BITS
    } else {
        thread.file
    }
}

#[inline(always)]
fn owner(thread: &Thread) -> u64 {
    u64::from(thread.key.io.tgid) << 32 | u64::from(thread.key.io.start)
}

/// The set of the thread's open file: forked processes share open files, so the process counts as well.
#[inline(always)]
fn set(thread: &Thread) -> u32 {
    let mixed =
        ((identity(thread) >> FILE_BITS) as u32 ^ thread.key.io.tgid).wrapping_mul(0x9e37_79b1);
    mixed >> (u32::BITS - OPEN_FILE_SETS.ilog2())
}
