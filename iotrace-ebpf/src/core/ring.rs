//! Rings of records that the daemon maps into its memory ([`iotrace_common::trace`]): who writes and how.
//!
//! Each ring has one writer at a time, which its caller sees to.

use core::ptr;

use aya_ebpf::btf_maps::Array;
use iotrace_common::{abi::MMAPABLE, trace::Ring};

use crate::core::memory::publish_next;

/// Rings one behind the other. The loader gives the map its size.
pub type Records<T> = Array<T, 1, MMAPABLE>;
/// Where each ring's writer and reader stand.
pub type Rings = Array<Ring, 1, MMAPABLE>;

/// What became of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Kept,
    /// The ring was full.
    Lost,
    /// The daemon takes no more.
    LeftOut,
}

/// Writes a record into ring `number`; each has `size` records, a power of two.
#[inline(always)]
pub fn put<T: Copy>(
    rings: &Rings,
    records: &Records<T>,
    number: u32,
    size: u64,
    record: impl FnOnce() -> T,
) -> Put {
    let Some(ring) = rings.get_ptr_mut(number) else {
        return Put::Lost;
    };
    // SAFETY: a map value; the head is this program's to write, the rest the daemon's.
    let (head, tail, is_closed) = unsafe {
        (
            ptr::read_volatile(&raw const (*ring).head),
            ptr::read_volatile(&raw const (*ring).tail),
            ptr::read_volatile(&raw const (*ring).is_closed),
        )
    };
    if is_closed != 0 {
        return Put::LeftOut;
    }
    if head.wrapping_sub(tail) >= size {
        return Put::Lost;
    }
    let index = number * size as u32 + (head & (size - 1)) as u32;
    let Some(slot) = records.get_ptr_mut(index) else {
        return Put::Lost;
    };
    // SAFETY: a map value that the daemon does not look at before the head is past it.
    unsafe {
        *slot = record();
        publish_next(&raw mut (*ring).head, head);
    }
    Put::Kept
}
