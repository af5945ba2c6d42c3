//! Calls that have not returned: the states of threads, read out of the kernel programs' own table.
//!
//! Nothing is added to a call's path for this: every traced call leaves there when it began and on which file.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::{
    Ebpf,
    maps::{Map as LoadedMap, MapData},
};
use iotrace_common::{
    abi::{Map, Opaque, maps},
    in_flight::{Head, RUNNING},
    limits::{COMPAT_THREADS, THREAD_SLOTS},
};

use super::{
    KernelError,
    bpf::{BatchAttr, call},
};

/// The table of most threads where the kernel has task storage, and that of all where it has not.
const TABLES: [Map<Opaque>; 2] = [maps::THREAD_TABLE, maps::THREADS];
const LOOKUP_BATCH: libc::c_int = 24;
/// Entries of one call.
const BATCH: usize = 1024;
/// Room for the position that the kernel keeps between two calls, bytes.
const TOKEN_BYTES: usize = 64;
/// Largest key of the tables, bytes.
const KEY_BYTES: usize = 8;

/// The states of the threads whose traced call has not returned. Where two threads share a place in the table, the second
/// is not found.
pub fn read(ebpf: &Ebpf) -> Result<Vec<Head>, KernelError> {
    for Map { name, .. } in TABLES {
        let data = match ebpf.map(name) {
            Some(LoadedMap::Array(data) | LoadedMap::HashMap(data)) => data,
            _ => continue,
        };
        return running(data).map_err(|source| KernelError::Map {
            map: name,
            call: "read",
            source,
        });
    }
    Ok(Vec::new())
}

fn running(map: &MapData) -> io::Result<Vec<Head>> {
    let info = map.info().map_err(io::Error::other)?;
    let size = info.value_size() as usize;
    if size < size_of::<Head>() || !size.is_multiple_of(8) || info.key_size() as usize > KEY_BYTES {
        return Err(io::Error::other("its entries have another shape"));
    }
    let fd = map.fd().as_fd();
    let mut keys = vec![0_u64; BATCH];
    let mut values = vec![0_u64; BATCH * size / 8];
    let mut token = [0_u64; TOKEN_BYTES / 8];
    let mut found = Vec::new();
    // Bounded, whatever is added meanwhile.
    for turn in 0..(THREAD_SLOTS.max(COMPAT_THREADS) as usize / BATCH + 1) {
        let mut attr = BatchAttr {
            in_batch: if turn == 0 { 0 } else { token.as_ptr() as u64 },
            out_batch: token.as_mut_ptr() as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: BATCH as u32,
            map_fd: fd.as_raw_fd() as u32,
            ..BatchAttr::default()
        };
        let error = call(LOOKUP_BATCH, &mut attr).err();
        let last = match &error {
            None => false,
            Some(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Some(_) => return error.map_or(Ok(found), Err),
        };
        for entry in values
            .chunks_exact(size / 8)
            .take((attr.count as usize).min(BATCH))
        {
            // SAFETY: an entry is longer than its head, aligned, and made of integers.
            let head = unsafe { entry.as_ptr().cast::<Head>().read() };
            if head.state == RUNNING && head.verdict & 1 != 0 && head.entered != 0 {
                found.push(head);
            }
        }
        if last {
            break;
        }
    }
    Ok(found)
}
