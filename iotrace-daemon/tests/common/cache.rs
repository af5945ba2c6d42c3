//! Which pages of a file are in the page cache.

use std::{fs, os::fd::AsRawFd as _, path::Path, ptr};

/// Writes a file's pages to the disk, and takes them out of the page cache.
pub fn drop_pages(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    // SAFETY: an open file.
    let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(error, 0);
}

/// Keeps the pages of a file in the page cache as long as it lives.
pub struct Held {
    memory: *mut libc::c_void,
    size: usize,
}

impl Held {
    pub fn new(path: &Path) -> Self {
        let file = fs::File::open(path).unwrap();
        let size = file.metadata().unwrap().len() as usize;
        // SAFETY: a new mapping of an open file.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: that mapping.
        assert_eq!(unsafe { libc::mlock(memory, size) }, 0);
        Self { memory, size }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made by `new`.
        unsafe { libc::munmap(self.memory, self.size) };
    }
}
