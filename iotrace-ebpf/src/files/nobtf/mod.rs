//! Files by handles of descriptors: `identity`, `fd_table` (what system calls do to descriptors), `path` (names of renames and
//! unlinks).

pub mod fd_table;
pub mod identity;
pub mod path;
