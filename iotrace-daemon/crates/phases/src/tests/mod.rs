//! Tests of the rules, their table, and what they say of paths as frameworks make them.

mod context;
mod copies;
mod frameworks;
mod table;

use iotrace_common::key::FileId;
use iotrace_model::input::{Event, FileName};

/// The event that names a regular file of `size` bytes on ext4.
fn named(file: FileId, path: &str, size: u64) -> Event {
    Event::File(FileName {
        file,
        path: path.as_bytes().to_vec(),
        size,
        mode: 0o100_644,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    })
}
