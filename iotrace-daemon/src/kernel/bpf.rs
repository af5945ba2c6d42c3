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
