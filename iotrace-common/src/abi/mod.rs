//! The interface between the kernel programs and the daemon: one table of globals ([`globals`]), one of maps ([`maps`]).
//!
//! The kernel crate makes a static of each row; the daemon has a typed constant for it. A name that is in no row, or a
//! value of another type than its row says, does not compile on either side.

pub mod globals;
pub mod maps;

use core::marker::PhantomData;

/// Section of an object that holds [`crate::ABI_VERSION`].
pub const VERSION_SECTION: &str = "iotrace_abi";

/// What a global holds.
pub trait Kind {
    /// What the daemon sets it to.
    type Value;

    /// The value as the programs load it.
    fn word(value: Self::Value) -> u64;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $value:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl Kind for $name {
            type Value = $value;

            fn word(value: $value) -> u64 {
                u64::from(value)
            }
        }
    )*};
}

kinds! {
    /// Whether something is on.
    Flag: bool;
    /// A number.
    Number: u64;
    /// Where a field stands in a struct of the kernel, bytes.
    Offset: u64;
    /// The BTF id of a struct of the kernel.
    TypeId: u32;
}

/// A global of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global<K> {
    pub name: &'static str,
    kind: PhantomData<K>,
}

impl<K> Global<K> {
    const fn new(name: &'static str) -> Self {
        let kind = PhantomData;
        Self { name, kind }
    }
}

impl<K: Kind> Global<K> {
    /// The global with a value.
    pub fn set(self, value: K::Value) -> Setting {
        Setting {
            name: self.name,
            value: K::word(value),
        }
    }
}

/// A global and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub name: &'static str,
    pub value: u64,
}

/// A global that holds an offset, and the field of the kernel that stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub global: Global<Offset>,
    pub structure: &'static str,
    /// Names of the field, by release of the kernel.
    pub paths: &'static [&'static str],
}

/// A global that holds a BTF id, and the struct of the kernel that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    pub global: Global<TypeId>,
    pub structure: &'static str,
}

/// A global that is a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table<T> {
    pub name: &'static str,
    value: PhantomData<T>,
}

impl<T> Table<T> {
    const fn new(name: &'static str) -> Self {
        let value = PhantomData;
        Self { name, value }
    }
}

/// A map of kind `M`.
#[derive(Clone, Copy, Debug)]
pub struct Map<M> {
    pub name: &'static str,
    kind: PhantomData<M>,
}

impl<M> Map<M> {
    const fn new(name: &'static str) -> Self {
        let kind = PhantomData;
        Self { name, kind }
    }
}

/// An array of values of type `V`.
#[derive(Clone, Copy, Debug)]
pub struct Array<V, const ENTRIES: usize, const FLAGS: usize = 0>(PhantomData<V>);

/// An array that each CPU has for itself.
#[derive(Clone, Copy, Debug)]
pub struct PerCpuArray<V, const ENTRIES: usize>(PhantomData<V>);

/// A hash from `K` to `V`. Preallocated unless its flags say otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Hash<K, V, const ENTRIES: usize, const FLAGS: usize = 0>(PhantomData<(K, V)>);

/// A hash that forgets what was used least lately when it is full.
#[derive(Clone, Copy, Debug)]
pub struct LruHash<K, V, const ENTRIES: usize>(PhantomData<(K, V)>);

/// Both generations of a map, through which the programs reach the current one.
#[derive(Clone, Copy, Debug)]
pub struct Halves<K, V, const FLAGS: usize>(PhantomData<(K, V)>);

/// A ring buffer of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingBuffer<const BYTES: usize>;

/// A map whose type is the programs' own: the daemon knows only its name.
#[derive(Clone, Copy, Debug)]
pub struct Opaque;

/// Counters in two generations: the programs write one, the daemon empties the other.
#[derive(Clone, Copy, Debug)]
pub struct Generations<K, V, const ENTRIES: usize, const FLAGS: usize> {
    pub halves: Map<Halves<K, V, FLAGS>>,
    pub maps: [Map<Hash<K, V, ENTRIES, FLAGS>>; 2],
}

/// Flag of an array that the daemon maps into its memory (`BPF_F_MMAPABLE`).
pub const MMAPABLE: usize = 1 << 10;
/// Flag of a hash that is mostly empty (`BPF_F_NO_PREALLOC`).
pub const NO_PREALLOC: usize = 1;
