//! Lines of Python programs: how the frames of a thread are found, and what is kept of a stack of them.

use crate::event::Header;

/// Frames of a stack that are kept, innermost first.
pub const FRAMES: usize = 48;
/// Bytes of a string object that are sent, its head included.
pub const STRING_BYTES: usize = 384;
/// Bytes of a piece of a line table, and pieces of one.
pub const PIECE_BYTES: usize = 4096;
pub const PIECES: usize = 16;
/// A call that takes longer, nanoseconds, counts for the line that made it as well.
pub const SLOW_NS: u64 = 100_000;
/// Bytes of a frame, and words of a code object, that are read.
pub const FRAME_BYTES: usize = 80;
pub const CODE_WORDS: usize = 18;
/// The words of a code object from here on never change, and one of them is its number.
pub const CODE_CONSTANT: usize = 7;
/// In place of [`Layout::inner_frame`]: the thread's state has the frame itself.
pub const NO_CFRAME: u32 = u32::MAX;

/// Where the fields of an interpreter stand in its structs, bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Layout {
    /// `PyInterpreterState`: the first thread's state.
    pub threads: u32,
    /// `PyThreadState`: the next one, the thread's `pthread_t`, and its innermost frame or what has it.
    pub next: u32,
    pub thread_id: u32,
    pub frame: u32,
    /// `_PyCFrame`: the innermost frame; [`NO_CFRAME`] where there is none.
    pub inner_frame: u32,
    /// `_PyInterpreterFrame`: within [`FRAME_BYTES`].
    pub code: u32,
    pub previous: u32,
    pub instruction: u32,
    pub owner: u32,
    /// `PyCodeObject`: within [`CODE_WORDS`] words.
    pub filename: u32,
    pub qualname: u32,
    pub line_table: u32,
    pub first_line: u32,
    /// Where the instructions begin.
    pub instructions: u32,
}

/// The interpreter of a process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Python {
    /// Address of the pointer to the main interpreter.
    pub interpreter: u64,
    /// Address of `PyCode_Type`: what is no object of it is no code.
    pub code_type: u64,
    /// Tells programs apart whose objects have the same addresses.
    pub number: u64,
    pub layout: Layout,
}

/// Whose counts, and of which line.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LineKey {
    pub tgid: u32,
    /// See [`crate::key::start_key`].
    pub start: u32,
    /// See [`crate::key::IoKey`].
    pub phase: u32,
    pub pad: u32,
    /// Number of the stack ([`Stack`]); 0: none is known.
    pub stack: u64,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident)+) => {
        /// What was done through files that a line opened, and in slow calls of the line itself.
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LineCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl LineCounts {
            /// Adds others; what is too much for a number stays at the most that it holds.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.saturating_add(other.$name);)+
            }
        }
    };
}

counts! {
    opens
    reads
    writes
    /// Other calls on an open file.
    others
    bytes_read
    bytes_written
    /// Time in all these calls, nanoseconds.
    ns
    /// Calls that took longer than [`SLOW_NS`] and that the line itself made, and their time.
    slow
    slow_ns
}

/// A frame of a stack: the number of its code ([`Code`]) and how far in its object the instruction stands, bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub code: u64,
    pub instruction: u64,
}

/// A stack at first sight: behind it `count` frames.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    pub header: Header,
    pub number: u64,
    pub count: u32,
    pub pad: u32,
}

/// Words that a native stack has room for of a machine's `struct pt_regs`.
pub const REGISTERS: usize = 34;
/// Bytes of a native stack that are sent, from its top on, a power of two.
pub const STACK_BYTES: usize = 4096;

/// A stack of a native program at first sight. Its bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NativeStack {
    pub header: Header,
    pub number: u64,
    /// How often the process and those that it was forked from called exec: identifies its program, with its pid.
    pub execs: u64,
    /// Where the code of its executable begins.
    pub code: u64,
    /// `struct pt_regs`, as many words as the machine has.
    pub registers: [u64; REGISTERS],
}

/// A code object at first sight. The pieces of its line table follow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Code {
    pub header: Header,
    pub number: u64,
    /// [`Python::number`].
    pub python: u64,
    /// Address of the type of its line table; of its name and file's name, those stand in the objects.
    pub table_type: u64,
    /// Bytes of its line table.
    pub table_length: u64,
    pub first_line: u32,
    pub pad: u32,
    /// The string objects as they stand in memory.
    pub filename: [u8; STRING_BYTES],
    pub qualname: [u8; STRING_BYTES],
}

/// A piece of a line table, whose bytes follow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    pub header: Header,
    pub number: u64,
    /// Where it begins, bytes.
    pub offset: u64,
}

const _: () = {
    assert!(size_of::<LineKey>() == 24);
    assert!(size_of::<Stack>() == 48);
    assert!(size_of::<Code>() == 72 + 2 * STRING_BYTES);
    assert!(size_of::<Piece>() == 48);
    assert!(size_of::<NativeStack>() == 56 + 8 * REGISTERS);
};

#[cfg(feature = "user")]
mod pod {
    use super::{LineCounts, LineKey, Python};

    // SAFETY: `repr(C)`, integers only, and their sizes leave no padding.
    unsafe impl aya::Pod for Python {}
    // SAFETY: as above.
    unsafe impl aya::Pod for LineKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for LineCounts {}
}
