//! The maps of the loaded programs, by the table that both sides have ([`iotrace_common::abi::maps`]).

use aya::{
    Ebpf, Pod,
    maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
};
use iotrace_common::abi;

use super::{KernelError, map_error};

/// A kind of map that can be opened.
pub trait Kind {
    /// The open map.
    type Open: TryFrom<Map, Error = MapError>;
}

impl<V: Pod, const N: usize, const F: usize> Kind for abi::Array<V, N, F> {
    type Open = Array<MapData, V>;
}

impl<V: Pod, const N: usize> Kind for abi::PerCpuArray<V, N> {
    type Open = PerCpuArray<MapData, V>;
}

impl<K: Pod, V: Pod, const N: usize, const F: usize> Kind for abi::Hash<K, V, N, F> {
    type Open = HashMap<MapData, K, V>;
}

impl<K: Pod, V: Pod, const N: usize> Kind for abi::LruHash<K, V, N> {
    type Open = HashMap<MapData, K, V>;
}

impl<K: Pod, V: Pod, const F: usize> Kind for abi::Halves<K, V, F> {
    type Open = ArrayOfMaps<MapData, HashMap<MapData, K, V>>;
}

impl<const N: usize> Kind for abi::RingBuffer<N> {
    type Open = RingBuf<MapData>;
}

/// Takes a map out of the loaded programs, for its one reader.
pub fn take<M: Kind>(ebpf: &mut Ebpf, map: abi::Map<M>) -> Result<M::Open, KernelError> {
    let name = map.name;
    let found = ebpf
        .take_map(name)
        .ok_or(KernelError::Missing { kind: "map", name })?;
    M::Open::try_from(found).map_err(|error| map_error(name, "open", &error))
}
