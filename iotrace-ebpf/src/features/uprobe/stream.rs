//! Streams of the C library: which file a stream is on, and where in it.
//!
//! Reads `struct _IO_FILE`, whose fields are part of glibc's binary interface (bits/types/struct_FILE.h): programs are
//! compiled against them. Streams on anything but files are left alone. Writes no map.

use core::ffi::c_void;

use aya_ebpf::{btf_maps::PerCpuArray, helpers::generated, macros::btf_map};

use crate::{
    core::{
        config::{FILE_INODE, FILE_POS, INODE_SIZE},
        memory::{Address, probe, probe_user},
    },
    features::uprobe::Call,
    platform::{
        current,
        identity::{Kind, identify, of_descriptor},
    },
};

/// `struct _IO_FILE`: flags, read_ptr, read_end, read_base, write_base, write_ptr, write_end, ...; the descriptor.
type Head = [u64; 7];
const DESCRIPTOR: u64 = 112;
const READ_POINTER: usize = 1;
const READ_END: usize = 2;
const WRITE_BASE: usize = 4;
const WRITE_POINTER: usize = 5;
/// `_IO_IS_APPENDING`.
const APPENDING: u64 = 0x1000;
const STANDARD_OUTPUT: u32 = 1;

/// Bytes of a string that are looked at in one go, and goes.
const STEP: usize = 4096;
const STEPS: u64 = 64;

/// Only the length is wanted, so it does not matter who writes here meanwhile.
#[btf_map]
static STRING: PerCpuArray<[u8; STEP], 1> = PerCpuArray::new();

/// Sets the file of a call and where its stream is; false: it is on no file.
#[inline(always)]
pub fn set_stream(call: &mut Call, stream: u64) -> bool {
    let Some(descriptor) = probe_user::<u32>(stream.wrapping_add(DESCRIPTOR)) else {
        return false;
    };
    if !set_descriptor(call, descriptor) {
        return false;
    }
    call.position = position(call, stream);
    true
}

/// Sets the file of a call on standard output.
#[inline(always)]
pub fn set_output(call: &mut Call) -> bool {
    set_descriptor(call, STANDARD_OUTPUT)
}

/// Sets the file of a call by its descriptor; false: it is no file.
#[inline(always)]
pub fn set_descriptor(call: &mut Call, descriptor: u32) -> bool {
    let open = identify(of_descriptor(current(), descriptor), false);
    if open.kind != Kind::Traced {
        return false;
    }
    call.file = open.id;
    call.open = open.file;
    true
}

/// Where the stream is in its file, as ftell(3) would say.
#[inline(always)]
pub fn position(call: &Call, stream: u64) -> u64 {
    let Some(head) = probe_user::<Head>(stream) else {
        return 0;
    };
    let file = call.open as Address;
    let offset: u64 = probe(file, &FILE_POS);
    if head[WRITE_POINTER] <= head[WRITE_BASE] {
        // What was read ahead is still to come.
        return offset.wrapping_sub(head[READ_END].wrapping_sub(head[READ_POINTER]));
    }
    if head[0] & APPENDING != 0 {
        let inode: u64 = probe(file, &FILE_INODE);
        let end: u64 = probe(inode as Address, &INODE_SIZE);
        return end.wrapping_add(head[WRITE_POINTER].wrapping_sub(head[WRITE_BASE]));
    }
    offset.wrapping_add(head[WRITE_POINTER].wrapping_sub(head[READ_END]))
}

/// Length of a string of the program's, up to 256 KiB.
#[inline(never)]
pub fn length(string: u64) -> u64 {
    let Some(buffer) = STRING.get_ptr_mut(0) else {
        return 0;
    };
    let mut length = 0;
    for step in 0..STEPS {
        let at = string.wrapping_add(step * (STEP as u64 - 1));
        // SAFETY: the buffer has room for STEP bytes.
        let copied = unsafe {
            generated::bpf_probe_read_user_str(
                buffer.cast::<c_void>(),
                STEP as u32,
                at as *const c_void,
            )
        };
        if copied <= 0 {
            break;
        }
        length += copied as u64 - 1;
        if copied < STEP as i64 {
            break;
        }
    }
    length
}
