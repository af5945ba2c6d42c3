//! Devices that programs map: what they do with that memory is seen by nobody. Writes `DEVICES`.

use iotrace_common::{
    diag::{
        self,
        file_type::{BLOCK_DEVICE, CHARACTER_DEVICE},
    },
    value::DeviceMappings,
};

use crate::{
    core::{
        config::{FILE_INODE, INODE_DEVICE, TYPE_FILE, TYPE_INODE},
        diagnose,
        maps::{BPF_NOEXIST, DEVICES},
        memory::field,
        thread::Thread,
    },
    platform::add,
};

/// Counts the mmap that the thread begins, of its file, if that is a device.
#[inline(always)]
pub fn mapped(thread: &Thread) {
    if thread.block != CHARACTER_DEVICE && thread.block != BLOCK_DEVICE {
        return;
    }
    let inode: u64 = field(thread.file, &TYPE_FILE, &FILE_INODE);
    let device: u32 = field(inode, &TYPE_INODE, &INODE_DEVICE);
    let mut key = u64::from(device);
    if thread.block == BLOCK_DEVICE {
        key |= iotrace_common::value::BLOCK_DEVICE;
    }
    let [_, bytes, ..] = thread.args;
    if DEVICES.get_ptr_mut(key).is_none() {
        // Another thread may be the first.
        let _ = DEVICES.insert(key, DeviceMappings::default(), BPF_NOEXIST);
    }
    let Some(known) = DEVICES.get_ptr_mut(key) else {
        return diagnose::count(diag::DEVICES_UNLISTED);
    };
    // SAFETY: aligned words of a map value.
    unsafe {
        add(&raw mut (*known).mappings, 1);
        add(&raw mut (*known).bytes, bytes);
    }
}
