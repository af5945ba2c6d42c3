//! Which file the memory at an address is a mapping of: what msync is of. Reads `OVERLAID` and `NAMED`, writes no map.

use core::ffi::c_void;

use aya_ebpf::helpers::generated;
use iotrace_common::{diag, phases};

use crate::{
    core::{
        config::{
            FILE_INODE, FINDS_MAPPINGS, INODE_SB, SB_FLAGS, TYPE_FILE, TYPE_INODE,
            TYPE_SUPER_BLOCK, VMA_FILE,
        },
        diagnose,
        maps::NAMED,
        memory::{Address, field, load},
        thread::Thread,
    },
    features::pages::OVERLAID,
};

const EBUSY: i64 = 16;
/// Of a filesystem: the kernel has it mounted for itself.
const SB_KERNMOUNT: u64 = 1 << 22;

/// Whether the file at `file` is one that the kernel made of shared memory, which nobody can open.
#[inline(always)]
fn is_memory(file: u64) -> bool {
    let inode: u64 = field(file, &TYPE_FILE, &FILE_INODE);
    let superblock: u64 = field(inode, &TYPE_INODE, &INODE_SB);
    let flags: u64 = field(superblock, &TYPE_SUPER_BLOCK, &SB_FLAGS);
    flags & SB_KERNMOUNT != 0
}

/// The `struct file` that the memory of `task` at `address` is a mapping of; 0: none, or it cannot be told.
#[inline(always)]
pub fn file_at(task: Address, address: u64) -> u64 {
    if !FINDS_MAPPINGS.is_set() {
        diagnose::count(diag::MAPPING_UNKNOWN);
        return 0;
    }
    let mut file = 0_u64;
    let callback: unsafe extern "C" fn(Address, Address, *mut c_void) -> i64 = mapping_callback;
    // SAFETY: the callback has the signature that the helper calls, and its context lives on this stack.
    let result = unsafe {
        generated::bpf_find_vma(
            task.cast_mut().cast(),
            address,
            callback as *mut c_void,
            (&raw mut file).cast(),
            0,
        )
    };
    // Another thread of the process is changing its mappings, and no program can wait for it.
    if result == -EBUSY {
        diagnose::count(diag::MAPPING_UNKNOWN);
    }
    // SAFETY: the callback may have written it, which the compiler cannot know.
    let file = unsafe { core::ptr::read_volatile(&raw const file) };
    if file != 0 && is_memory(file) {
        return 0;
    }
    file
}

/// A mapping of a file on an overlay filesystem is one of the file behind it: makes the thread's file the one that is open.
#[inline(always)]
pub fn through_overlay(thread: &mut Thread) {
    // SAFETY: the value is not kept.
    let Some(open) = (unsafe { OVERLAID.get(thread.key.io.file) }) else {
        return;
    };
    thread.key.io.file = *open;
    // It has its name, and the one that would be found here is that of the file behind it.
    thread.file = 0;
    // SAFETY: as above.
    if let Some(named) = unsafe { NAMED.get(open) } {
        thread.key.io.phase = phases::phase(named.sorted, thread.direction);
    }
}

/// (struct task_struct *task, struct vm_area_struct *vma, void *context)
unsafe extern "C" fn mapping_callback(_task: Address, vma: Address, file: *mut c_void) -> i64 {
    // SAFETY: the field is a pointer; the context is a word of the caller's stack.
    unsafe { *file.cast::<u64>() = load(vma, &VMA_FILE) };
    0
}
