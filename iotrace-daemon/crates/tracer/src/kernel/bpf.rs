//! The commands of `bpf(2)` that aya has not, or not for what is built by hand here.

use std::{
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

/// Calls it for a new descriptor.
pub fn bpf<const WORDS: usize>(
    command: libc::c_int,
    attr: &mut [u32; WORDS],
) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are words, as many as are given, and what their addresses name is alive for the call;
    // what these commands give is a new descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The batch arm of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
pub struct BatchAttr {
    pub in_batch: u64,
    pub out_batch: u64,
    pub keys: u64,
    pub values: u64,
    pub count: u32,
    pub map_fd: u32,
    pub elem_flags: u64,
    pub flags: u64,
}

/// Calls it for its effect.
pub fn call<A>(command: libc::c_int, attr: &mut A) -> io::Result<()> {
    // SAFETY: the attribute is one of bpf(2)'s, alive for the call, and what it points to has the room it says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attr),
            size_of::<A>(),
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
