//! Maps that only the object for recent kernels has.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE},
    btf_maps::{HashMap, LruHashMap, PerCpuArray},
    helpers::generated,
    macros::btf_map,
};
use iotrace_common::{key::FileId, limits};

use super::{aio, block, uring::Request};
use crate::{kernel::Address, thread::Thread};

/// io_uring's requests in flight, by their address. Not preallocated: mostly empty.
#[btf_map]
pub static REQUESTS: HashMap<
    u64,
    Request,
    { limits::REQUEST_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// In place of a thread's state, that of the programs that see io_uring's requests, which end on any thread.
#[btf_map]
pub static URING_STATE: PerCpuArray<Thread, 2> = PerCpuArray::new();

/// libaio's requests in flight, by process and the address of their `struct iocb`. Not preallocated: mostly empty.
#[btf_map]
pub static AIO_REQUESTS: HashMap<
    aio::Key,
    aio::Request,
    { limits::AIO_REQUEST_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Its contexts, by process and the address of their ring: up to where the ring was looked at. Not preallocated.
#[btf_map]
pub static AIO_CONTEXTS: HashMap<
    aio::Key,
    u64,
    { limits::AIO_CONTEXT_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Processes that have such contexts, by process id and start key. Not preallocated.
#[btf_map]
pub static AIO_USERS: HashMap<
    u64,
    u64,
    { limits::AIO_CONTEXT_ENTRIES as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// Files behind those of an overlay filesystem, which has a page cache of none: by the real file, the one that is open
/// (an LRU: a forgotten one is learned again at its next read or mmap).
#[btf_map]
pub static OVERLAID: LruHashMap<FileId, FileId, { limits::OVERLAID_ENTRIES as usize }> =
    LruHashMap::new();

opaque_map! {
    /// Requests to block devices in flight, by their address.
    pub static BLOCK_REQUESTS: HashMap<
        u64,
        block::Request,
        { limits::BLOCK_REQUEST_ENTRIES as usize },
    > = HashMap::new();
}

maps! {
    pub BLOCK_DEPTH;
    pub BLOCK_DEVICES;
    BLOCK_DEVICES_A;
    BLOCK_DEVICES_B;
    pub BLOCK_FILES;
    BLOCK_FILES_A;
    BLOCK_FILES_B;
}

/// Task storage: a value per thread, found without a key, freed with the thread. aya has no type for it.
#[repr(C)]
pub struct TaskStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
}

// SAFETY: only the address is used, as the map's handle; the loader reads the definition from BTF.
unsafe impl<T> Sync for TaskStorage<T> {}

impl<T> TaskStorage<T> {
    pub const fn new() -> Self {
        Self {
            r#type: ptr::null(),
            key: ptr::null(),
            value: ptr::null(),
            max_entries: ptr::null(),
            map_flags: ptr::null(),
        }
    }

    /// The task's value; made first, all zero, with `create`. Null where there is none.
    #[inline(always)]
    pub fn get(&self, task: Address, create: bool) -> *mut T {
        // SAFETY: the map is a task storage of `T`, the task a pointer that the verifier checks.
        unsafe {
            generated::bpf_task_storage_get(
                ptr::from_ref(self).cast_mut().cast::<c_void>(),
                task.cast_mut().cast(),
                ptr::null_mut(),
                u64::from(create),
            )
            .cast()
        }
    }
}
