//! The kernel programs, compiled by the build script from `iotrace-ebpf`: ELF objects, one for each kind of kernel. They are
//! embedded compressed, to a fifth: no run needs more than one of them, and that one only while it is loaded.

use std::io::{self, Read as _};

use flate2::read::GzDecoder;

macro_rules! object {
    ($name:literal) => {
        decompressed(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")))
    };
}

/// For Linux 5.15 and later.
pub fn current() -> io::Result<Vec<u8>> {
    object!("iotrace-ebpf")
}

/// For Linux 5.10 to 5.14.
pub fn compat_510() -> io::Result<Vec<u8>> {
    object!("iotrace-ebpf-compat_510")
}

/// For kernels without type information (BTF).
pub fn nobtf() -> io::Result<Vec<u8>> {
    object!("iotrace-ebpf-nobtf")
}

/// At an address that an ELF parser can read structs from: allocators align what is that large to 16 bytes. Fails where
/// memory is short.
fn decompressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut object = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut object)?;
    Ok(object)
}
