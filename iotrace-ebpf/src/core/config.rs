//! What the daemon sets before it loads the programs ([`iotrace_common::abi::globals`]), as the programs read it.

use core::{marker::PhantomData, ptr};

use iotrace_common::{
    ABI_VERSION,
    abi::{Flag, Number, Offset, TypeId},
    kernel_globals,
    limits::SYSCALLS,
    op::Call,
    trace::{FILTER_NAMES, FILTER_PIDS, NamePattern},
    uring::OPCODES,
};

/// A global of kind `K`.
///
/// No `UnsafeCell`: that would move it out of `.rodata`, and only frozen data folds to constants.
#[repr(transparent)]
pub struct Const<K> {
    value: u64,
    kind: PhantomData<K>,
}

impl<K> Const<K> {
    const fn new(value: u64) -> Self {
        let kind = PhantomData;
        Self { value, kind }
    }

    #[inline(always)]
    pub fn load(&self) -> u64 {
        // SAFETY: reads an aligned static; volatile because the daemon sets the value before load, unseen by the compiler.
        unsafe { ptr::read_volatile(&raw const self.value) }
    }

    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.load() != 0
    }
}

macro_rules! statics {
    (
        settings { $($(#[$doc:meta])* $name:ident: $kind:ident $(= $value:literal)?;)* }
        types { $($(#[$types_doc:meta])* $types:ident {
            $($type:ident: $type_structure:literal;)*
        })* }
        fields { $($(#[$fields_doc:meta])* $fields:ident {
            $($(#[$field_doc:meta])* $field:ident: $structure:literal, $($path:literal)|+;)*
        })* }
        tables { $($(#[$table_doc:meta])* $table:ident: $table_type:ty = $table_value:expr;)* }
    ) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: Const<$kind> = Const::new(0 $(+ $value)?);)*
        $($(#[unsafe(no_mangle)] pub static $type: Const<TypeId> = Const::new(0);)*)*
        $($($(#[$field_doc])* #[unsafe(no_mangle)] pub static $field: Const<Offset> = Const::new(0);)*)*
        $($(#[$table_doc])* #[unsafe(no_mangle)] pub static $table: $table_type = $table_value;)*
    };
}

kernel_globals!(statics);

/// [`ABI_VERSION`] of this object. In a section of its own ([`iotrace_common::abi::VERSION_SECTION`]), where the daemon
/// finds it before it loads anything.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iotrace_abi")]
pub static ABI: u64 = ABI_VERSION;

/// What system call `nr` does to descriptors.
#[cfg(feature = "nobtf")]
#[inline(always)]
pub fn action(nr: u64) -> u8 {
    if nr >= SYSCALLS as u64 {
        return 0;
    }
    // SAFETY: as in `call`.
    unsafe { ptr::read_volatile(ACTIONS.as_ptr().add(nr as usize)) }
}

/// The entry of io_uring opcode `opcode`.
#[inline(always)]
pub fn request(opcode: u8) -> Call {
    // SAFETY: the table has an entry for each; volatile as in `call`.
    entry(unsafe {
        ptr::read_volatile(
            URING_REQUESTS
                .as_ptr()
                .add(usize::from(opcode))
                .cast::<u32>(),
        )
    })
}

/// The gate table's entry for system call `nr`.
#[inline(always)]
pub fn call(nr: u64) -> Call {
    if nr >= SYSCALLS as u64 {
        return Call::UNTRACED;
    }
    // SAFETY: nr is below the table's length and an entry is four aligned bytes; volatile because the daemon sets
    // the table before load, and one load of 32 bits instead of four.
    entry(unsafe { ptr::read_volatile(CALLS.as_ptr().add(nr as usize).cast::<u32>()) })
}

#[inline(always)]
fn entry(word: u32) -> Call {
    let bytes = word.to_ne_bytes();
    Call {
        shape: bytes[0],
        op: bytes[1],
        source: bytes[2],
        direction: bytes[3],
    }
}

/// Whether the 32-bit system call `nr` would be traced if it were a native one.
#[inline(always)]
pub fn compat_traced(nr: u64) -> bool {
    if nr >= SYSCALLS as u64 {
        return false;
    }
    // SAFETY: as in `call`.
    unsafe { ptr::read_volatile(COMPAT_TRACED.as_ptr().add(nr as usize)) != 0 }
}
