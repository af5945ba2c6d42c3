//! Emptying a map in batches: `BPF_MAP_LOOKUP_AND_DELETE_BATCH`, which aya does not have.
//!
//! Measured 3.5 to 4 times as fast as aya's iterator. Only for a map that no program writes meanwhile: an entry that
//! comes during the sweep may stay behind.

use std::{
    io, mem,
    os::fd::{AsRawFd as _, BorrowedFd},
};

use aya::Pod;

use crate::kernel::bpf::{BatchAttr, call as bpf};

const LOOKUP_AND_DELETE_BATCH: libc::c_int = 25;
const GET_NEXT_KEY: libc::c_int = 4;
/// Entries a call. A hash map's bucket must fit into one, or the kernel answers ENOSPC.
const BATCH: usize = 4096;

/// The element arm of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct ElementAttr {
    map_fd: u32,
    pad: u32,
    key: u64,
    next_key: u64,
    flags: u64,
}

/// Entries of a map: keys, and the value of each.
pub type Entries<K, V> = (Vec<K>, Vec<V>);

/// Takes every entry out of the map and hands them on in batches; how many there were.
pub fn empty<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    mut take: impl FnMut(Entries<K, V>),
) -> io::Result<usize> {
    let mut token = [0_u8; 64];
    let mut first = true;
    let mut total = 0;
    loop {
        let mut keys = Vec::with_capacity(BATCH);
        let mut values = Vec::with_capacity(BATCH);
        let mut attr = BatchAttr {
            in_batch: if first { 0 } else { token.as_ptr() as u64 },
            out_batch: token.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: BATCH as u32,
            map_fd: map.as_raw_fd() as u32,
            ..BatchAttr::default()
        };
        let result = bpf(LOOKUP_AND_DELETE_BATCH, &mut attr);
        let last = match &result {
            Ok(()) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Err(_) => return result.map(|()| total),
        };
        let count = (attr.count as usize).min(BATCH);
        // SAFETY: the kernel has written `count` keys and values, at most the capacity; both are plain data.
        unsafe {
            keys.set_len(count);
            values.set_len(count);
        }
        total += count;
        if count > 0 {
            take((keys, values));
        }
        first = false;
        if last {
            return Ok(total);
        }
    }
}

/// Whether a map has no entry.
pub fn is_empty<K: Pod>(map: BorrowedFd<'_>) -> io::Result<bool> {
    let mut key = mem::MaybeUninit::<K>::uninit();
    let mut attr = ElementAttr {
        map_fd: map.as_raw_fd() as u32,
        next_key: key.as_mut_ptr() as u64,
        ..ElementAttr::default()
    };
    match bpf(GET_NEXT_KEY, &mut attr) {
        Ok(()) => Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(true),
        Err(error) => Err(error),
    }
}
