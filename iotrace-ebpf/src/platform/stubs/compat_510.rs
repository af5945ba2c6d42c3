//! Where the common code calls what this object leaves out: nothing happens.

/// libaio: its calls are none of files.
pub mod aio {
    use iotrace_common::{diag, op::shape};

    use crate::core::{
        diagnose,
        thread::{Thread, state},
    };

    /// More in one call are an error.
    const MOST: u64 = 1 << 16;

    /// The state of a thread in one of its calls, whose requests are counted as what is not seen.
    #[inline(always)]
    pub fn in_call(thread: &Thread) -> u32 {
        let [_, count, ..] = thread.args;
        if thread.shape == shape::IO_SUBMIT && count <= MOST {
            diagnose::add(diag::AIO_UNSEEN, count);
        }
        state::IGNORED
    }

    #[inline(always)]
    pub fn begun(_copy: u32) {}

    #[inline(always)]
    pub fn ended(_result: i64) {}

    #[inline(always)]
    pub fn exited(_tgid: u32, _start: u32) {}
}

/// Lines of Python programs.
pub mod lines {
    use crate::core::thread::Thread;

    #[inline(always)]
    pub fn opened(_thread: &mut Thread) {}

    #[inline(always)]
    pub fn used(_thread: &Thread, _bytes: u64) {}

    #[inline(always)]
    pub fn began(_thread: &Thread) -> u64 {
        0
    }

    #[inline(always)]
    pub fn ended(_thread: &mut Thread, _began: u64) {}

    #[inline(always)]
    pub fn forked(_parent: u32, _child: u32, _kept: u32) {}

    #[inline(always)]
    pub fn forget(_process: u32) {}

    #[inline(always)]
    pub fn mapped(_thread: &Thread) {}
}

/// The files of mappings.
pub mod mappings {
    use iotrace_common::diag;

    use crate::core::{diagnose, memory::Address, thread::Thread};

    #[inline(always)]
    pub fn through_overlay(_thread: &mut Thread) {}

    #[inline(always)]
    pub fn file_at(_task: Address, _address: u64) -> u64 {
        diagnose::count(diag::MAPPING_UNKNOWN);
        0
    }
}

/// The page cache, and mapped files.
pub mod pages {
    use iotrace_common::value::Io;

    use crate::core::thread::Thread;

    /// Nothing is known of a thread's last page fault.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct Faulted;

    #[inline(always)]
    pub fn returned(_io: *mut Io, _thread: &Thread, _bytes: u64) {}

    #[inline(always)]
    pub fn opened(_io: *mut Io, _thread: &Thread) {}

    #[inline(always)]
    pub fn iotrace_mapped(_thread: &mut Thread) {}

    #[inline(always)]
    pub fn executed(_file: u64) {}
}

/// Functions of libraries.
pub mod uprobe {
    /// Which file one opens.
    pub mod open {
        use iotrace_common::key::FileId;

        use crate::core::thread::Thread;

        #[inline(always)]
        pub fn uses(_thread: &mut Thread, _id: FileId, _file: u64) {}
    }

    /// Marks, and libraries that are mapped.
    pub mod mark {
        use crate::core::thread::Thread;

        #[inline(always)]
        pub fn progress(_thread: &Thread) {}

        #[inline(always)]
        pub fn progress_bytes(_op: usize, _bytes: u64) {}

        #[inline(always)]
        pub fn mapped(_thread: &Thread) {}
    }
}

/// What threads wait for.
pub mod waits {
    use crate::core::{memory::Address, thread::Thread};

    #[inline(always)]
    pub fn follow(_task: Address, _verdict: u32) {}

    #[inline(always)]
    pub fn born(_parent: Address, _child: Address, _kept: u32) {}

    #[inline(always)]
    pub fn used(_thread: &mut Thread, _bytes: u64) {}
}
