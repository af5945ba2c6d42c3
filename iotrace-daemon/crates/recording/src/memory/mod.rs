//! Keeps iotrace's memory to what it holds: batches and parts of recordings come and go by tens of megabytes, which
//! glibc's allocator would keep for the next ones, seconds away.
//!
//! Only glibc is told; other allocators are left as they are. What reads recordings that may be larger than memory has
//! a limit ([`disk`]).

pub mod disk;

/// Blocks from this size on are mapped one by one, and go back to the system when they are freed. glibc starts with
/// half of it, and raises it to 32 MiB with the first large block that is freed, unless it is set.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: i32 = 256 << 10;

/// To be called once, at the start.
pub fn configure() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator's. A refusal leaves the number as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
    }
}

/// Gives what small blocks have left back to the system: after work that made many of them.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator's own function; it moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
