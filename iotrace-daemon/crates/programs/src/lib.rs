//! The kernel programs, compiled by the build script from `iotrace-ebpf`: ELF objects, one for each kind of kernel.

/// Bytes at an address that an ELF parser can read structs from.
#[repr(C, align(8))]
struct Aligned<B: ?Sized>(B);

macro_rules! object {
    ($name:literal) => {{
        static OBJECT: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name)));
        &OBJECT.0
    }};
}

/// For Linux 5.15 and later.
pub static CURRENT: &[u8] = object!("iotrace-ebpf");
/// For Linux 5.10 to 5.14.
pub static COMPAT_510: &[u8] = object!("iotrace-ebpf-compat_510");
/// For kernels without type information (BTF).
pub static NOBTF: &[u8] = object!("iotrace-ebpf-nobtf");
