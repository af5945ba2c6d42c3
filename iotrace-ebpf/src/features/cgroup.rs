//! The control group that a program starts in, sent at its exec: one that ends at once can be asked for nothing.
//!
//! Called at the exec ([`crate::processes::btf`]). Sends `CGROUP` events. The group is that of version 2; where there is none but
//! the root, that of version 1's memory hierarchy, in which batch systems and container runtimes put their jobs.

use core::ffi::c_void;

use aya_ebpf::{btf_maps::PerCpuArray, helpers::generated, macros::btf_map};
use iotrace_common::{
    abi::Offset,
    event::{self, Header},
    limits::{CGROUP_BYTES, CGROUP_LEVELS},
};

use crate::{
    core::{
        config::{
            Const, GROUP_NODE, NODE_NAME, NODE_PARENT, SET_GROUP, SET_MEMORY, STATE_GROUP,
            TASK_CGROUPS,
        },
        events::send,
        memory::{Address, probe},
    },
    processes::btf::header,
};

/// Most bytes of one name, its NUL included: NAME_MAX and one.
const NAME: usize = 256;

#[repr(C)]
pub struct Scratch {
    header: Header,
    names: [u8; CGROUP_BYTES],
}

#[btf_map]
static CGROUP_SCRATCH: PerCpuArray<Scratch, 1> = PerCpuArray::new();

/// Sends the group of a task.
#[inline(always)]
pub fn told(task: Address, tgid: u32) {
    let Some(scratch) = CGROUP_SCRATCH.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's own scratch.
    let scratch = unsafe { &mut *scratch };
    let length = names(scratch, node(task));
    scratch.header = header(event::CGROUP, task, tgid);
    scratch.header.payload = length as u32;
    send(
        core::ptr::from_ref(scratch).cast(),
        size_of::<Header>() as u64 + length,
    );
}

/// The task's `kernfs_node`.
#[inline(always)]
fn node(task: Address) -> Address {
    let set = pointer(task, &TASK_CGROUPS);
    let node = pointer(pointer(set, &SET_GROUP), &GROUP_NODE);
    if !pointer(node, &NODE_PARENT).is_null() || SET_MEMORY.load() == 0 {
        return node;
    }
    let state = pointer(set, &SET_MEMORY);
    pointer(pointer(state, &STATE_GROUP), &GROUP_NODE)
}

/// Copies the names from a node up to below the root; their length.
#[inline(always)]
fn names(scratch: &mut Scratch, mut node: Address) -> u64 {
    let mut length = 0_u64;
    for _ in 0..CGROUP_LEVELS {
        let parent = pointer(node, &NODE_PARENT);
        if parent.is_null() || length > (CGROUP_BYTES - NAME) as u64 {
            break;
        }
        // SAFETY: behind the length there is room for a name.
        let copied = unsafe {
            generated::bpf_probe_read_kernel_str(
                scratch.names.as_mut_ptr().add(length as usize).cast(),
                NAME as u32,
                pointer(node, &NODE_NAME).cast::<c_void>(),
            )
        };
        if copied <= 0 {
            break;
        }
        length += (copied as u64).min(NAME as u64);
        node = parent;
    }
    length
}

#[inline(always)]
fn pointer(base: Address, offset: &Const<Offset>) -> Address {
    probe::<u64>(base, offset) as Address
}
