//! Task storage: a value per thread, which the kernel keeps with the thread.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE},
    helpers::generated,
};

use crate::core::memory::Address;

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

    /// Forgets the task's value, where it has one.
    #[inline(always)]
    pub fn forget(&self, task: Address) {
        // SAFETY: as in `get`.
        unsafe {
            generated::bpf_task_storage_delete(
                ptr::from_ref(self).cast_mut().cast::<c_void>(),
                task.cast_mut().cast(),
            );
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
