//! io_uring: what a request is counted as, by its opcode.
//!
//! Opcodes are those of the kernel's `include/uapi/linux/io_uring.h`, which do not change. A request's entry says what a
//! system call's does ([`crate::op::Call`]), with the shape of the call that does the same.

use crate::op::{self, Call, shape};

/// Opcodes that the table covers: all that there can be.
pub const OPCODES: usize = 256;

/// Opcode, name and shape of the requests that are accounted. Vectored ones have the shape of those that are not: where
/// their buffers are is not known when they end.
pub const REQUESTS: [(u8, &str, u8); 22] = [
    (1, "READV", shape::PREAD),
    (2, "WRITEV", shape::PWRITE),
    (3, "FSYNC", shape::FSYNC),
    (4, "READ_FIXED", shape::PREAD),
    (5, "WRITE_FIXED", shape::PWRITE),
    (8, "SYNC_FILE_RANGE", shape::SYNC_FILE_RANGE),
    (17, "FALLOCATE", shape::FALLOCATE),
    (18, "OPENAT", shape::OPENAT),
    (19, "CLOSE", shape::CLOSE),
    (21, "STATX", shape::STATX),
    (22, "READ", shape::PREAD),
    (23, "WRITE", shape::PWRITE),
    (28, "OPENAT2", shape::OPENAT2),
    (35, "RENAMEAT", shape::RENAMEAT),
    (36, "UNLINKAT", shape::UNLINKAT),
    (37, "MKDIRAT", shape::MKDIR),
    (38, "SYMLINKAT", shape::SYMLINK),
    (39, "LINKAT", shape::LINK),
    (49, "READ_MULTISHOT", shape::PREAD),
    (55, "FTRUNCATE", shape::FTRUNCATE),
    (60, "READV_FIXED", shape::PREAD),
    (61, "WRITEV_FIXED", shape::PWRITE),
];

/// Whether a request of this opcode names a list of vectors, and their number in the place of a length.
pub const fn is_vectored(opcode: u8) -> bool {
    matches!(opcode, 1 | 2 | 60 | 61)
}

/// The table for the kernel side.
pub const fn table() -> [Call; OPCODES] {
    let mut table = [Call::UNTRACED; OPCODES];
    let mut index = 0;
    while index < REQUESTS.len() {
        let (opcode, _, shape) = REQUESTS[index];
        table[opcode as usize] = op::call(shape);
        index += 1;
    }
    table
}
