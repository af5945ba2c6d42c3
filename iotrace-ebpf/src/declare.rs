//! Declares maps: those of the table that the daemon knows ([`iotrace_common::abi::maps`]) have their types and sizes from
//! there.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC},
    btf_maps::{Array, ArrayOfMaps, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use iotrace_common::abi;

/// A row's kind as a map.
pub trait Declared {
    type Map;
    const NEW: Self::Map;
}

macro_rules! declared {
    ($(<$($type:ident),*; $($size:ident),*> $kind:ty => $map:ty;)*) => {$(
        impl<$($type,)* $(const $size: usize),*> Declared for $kind {
            type Map = $map;
            const NEW: Self::Map = <$map>::new();
        }
    )*};
}

declared! {
    <V; N, F> abi::Array<V, N, F> => Array<V, N, F>;
    <V; N> abi::PerCpuArray<V, N> => PerCpuArray<V, N>;
    <K, V; N, F> abi::Hash<K, V, N, F> => HashMap<K, V, N, F>;
    <K, V; N> abi::LruHash<K, V, N> => LruHashMap<K, V, N>;
    // The inner type has one entry: the kernel compares key and value sizes only, and the loader makes and drops a map of
    // that type.
    <K, V; F> abi::Halves<K, V, F> => ArrayOfMaps<HashMap<K, V, 1, F>, 2>;
    <; N> abi::RingBuffer<N> => RingBuf<u8, N>;
}

const _: () = {
    assert!(abi::MMAPABLE == BPF_F_MMAPABLE as usize);
    assert!(abi::NO_PREALLOC == BPF_F_NO_PREALLOC as usize);
};

/// Declares maps of the table by their names.
macro_rules! maps {
    ($($visible:vis $name:ident;)*) => {$(
        #[aya_ebpf::macros::btf_map]
        $visible static $name: <iotrace_common::abi::maps::$name as $crate::declare::Declared>::Map =
            <iotrace_common::abi::maps::$name as $crate::declare::Declared>::NEW;
    )*};
}

/// Declares a map of the table whose type is this crate's own.
macro_rules! opaque_map {
    ($(#[$doc:meta])* $visible:vis static $name:ident: $type:ty = $new:expr;) => {
        const _: iotrace_common::abi::Map<iotrace_common::abi::Opaque> =
            iotrace_common::abi::maps::$name;
        $(#[$doc])*
        #[aya_ebpf::macros::btf_map]
        $visible static $name: $type = $new;
    };
}

/// What a function that [`checked_once`] declares can return: a number, or nothing.
pub trait Returned {
    fn number(self) -> u64;
}

impl Returned for () {
    #[inline(always)]
    fn number(self) -> u64 {
        0
    }
}

impl Returned for u64 {
    #[inline(always)]
    fn number(self) -> u64 {
        self
    }
}

/// Declares functions of the running thread that the verifier checks once, and not on each way to them: global ones, which
/// return a number. They take the thread's state by pointer, which kernels before 5.12 refuse: in the object for those
/// kernels they are static.
macro_rules! checked_once {
    ($(
        $(#[$doc:meta])*
        pub fn $name:ident($thread:ident: &mut Thread $(, $argument:ident: $type:ty)*) $(-> $returned:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        #[cfg_attr(not(feature = "compat_510"), unsafe(no_mangle))]
        #[inline(never)]
        pub extern "C" fn $name(thread: *mut Thread $(, $argument: $type)*) -> u64 {
            #[inline(always)]
            fn body($thread: &mut Thread $(, $argument: $type)*) $(-> $returned)? $body
            // SAFETY: the caller's own reference.
            match unsafe { thread.as_mut() } {
                Some(thread) => $crate::declare::Returned::number(body(thread $(, $argument)*)),
                None => 0,
            }
        }
    )*};
}
