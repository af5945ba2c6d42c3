//! Values of the kernel maps: what is kept per (thread, file) in one generation, an interval of seconds.

use core::mem::{offset_of, size_of};

pub use crate::counters::{Io, IoFull, MERGED_KINDS, SIZE_SLOTS, STRIDE_SLOTS, group, stamp};
use crate::key::IoKey;

/// A cell: the counters of one key, which holds it until it is drained. `V` is what its [`kind`] says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Cell<V> {
    pub key: IoKey,
    pub value: V,
}

/// Cells of one kind given out of one generation: a cache line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill {
    pub cells: u64,
    pad: [u64; 7],
}

/// Kinds of cells, by what they hold.
pub mod kind {
    /// [`super::Io`].
    pub const BASIC: u32 = 0;
    /// [`super::IoFull`].
    pub const FULL: u32 = 1;
    /// [`crate::latency::Latencies`].
    pub const LATENCY: u32 = 2;
    /// Number of kinds.
    pub const COUNT: usize = 3;
}

/// Place in [`crate::abi::maps::FILL`] of a generation of cells of a [`kind`].
#[inline(always)]
pub const fn fill_of(generation: u32, kind: u32) -> u32 {
    generation & 1 | kind << 1
}

/// Failed calls of one key.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Failures {
    pub calls: u64,
    /// Nanoseconds inside those calls.
    pub ns: u64,
}

/// Mappings of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceMappings {
    pub mappings: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// In the key of a device's mappings, above its number (`inode.i_rdev`): it is a block device.
pub const BLOCK_DEVICE: u64 = 1 << 32;

const _: () = {
    assert!(size_of::<Failures>() == 16);
    assert!(size_of::<DeviceMappings>() == 16);
    assert!(size_of::<Fill>() == 64);
    assert!(offset_of!(Cell<Io>, value) == size_of::<IoKey>());
    assert!(offset_of!(Cell<IoFull>, value) == size_of::<IoKey>());
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (the size asserted above is the sum of the fields).
    unsafe impl aya::Pod for super::Io {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::IoFull {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Failures {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::DeviceMappings {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Fill {}
    // SAFETY: two such values without padding between them (asserted above).
    unsafe impl aya::Pod for super::Cell<super::Io> {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Cell<super::IoFull> {}
}
