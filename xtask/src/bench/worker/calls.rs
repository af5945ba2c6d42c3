//! The loop of each call. They go through the C library, so that a preloaded library sees them too.

use std::ffi::CString;
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context as _, Result};

use super::{beyond, check};
use crate::bench::call::Call;

/// Size of the files that are read. A loop of plain reads must not reach the end.
pub const SIZE: u64 = 1 << 20;

/// The files that the calls use, open, until they are dropped.
pub struct Places {
    memory: File,
    /// A second open file of the same one.
    again: File,
    disk: File,
    name: CString,
    paths: [PathBuf; 2],
}

impl Places {
    /// Makes the files.
    pub fn make(memory: &Path, disk: &Path) -> Result<Self> {
        let name = format!("worker-{}", process::id());
        let paths = [memory.join(&name), disk.join(&name)];
        for path in &paths {
            fs::write(path, vec![1; SIZE as usize])
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self {
            memory: File::open(&paths[0])?,
            again: File::open(&paths[0])?,
            disk: File::open(&paths[1])?,
            name: CString::new(paths[0].as_os_str().as_bytes())?,
            paths,
        })
    }

    /// Does a call many times. `second`: as the second of two threads.
    pub fn repeat(&self, call: Call, count: u64, second: bool) -> Result<()> {
        let own = if second { &self.again } else { &self.memory };
        match call {
            Call::Pread | Call::TwoThreads => pread::<1>(&self.memory, count),
            Call::TwoDescriptors => pread::<1>(own, count),
            Call::DiskRead => pread::<1>(&self.disk, count),
            Call::PageRead => pread::<4096>(&self.memory, count),
            Call::Read => self.read(count),
            Call::Getppid => getppid(count),
            Call::Stat => self.stat(count),
            Call::OpenClose => self.open_close(count),
            Call::Fault => beyond::faults(&self.disk, count),
            Call::UringRead => beyond::reads_by_uring(&self.memory, count),
            Call::Fread => beyond::reads_of_stream(&self.name, count),
            Call::DirectRead => beyond::direct_reads(&self.paths[1], count),
            Call::Wake => beyond::wakes(count),
        }
    }

    /// Goes back to the start of the file that is read.
    pub fn rewind(&self) -> Result<()> {
        // SAFETY: lseek touches no memory of ours.
        check(unsafe { libc::lseek(self.memory.as_raw_fd(), 0, libc::SEEK_SET) })?;
        Ok(())
    }

    fn read(&self, count: u64) -> Result<()> {
        let fd = self.memory.as_raw_fd();
        let mut byte = 0_u8;
        for _ in 0..count {
            // SAFETY: the buffer is one byte long.
            check(unsafe { libc::read(fd, (&raw mut byte).cast(), 1) } as i64)?;
        }
        Ok(())
    }

    fn stat(&self, count: u64) -> Result<()> {
        let mut about = MaybeUninit::<libc::stat>::uninit();
        for _ in 0..count {
            // SAFETY: the path ends with a NUL, and there is room for the answer.
            check(unsafe { libc::stat(self.name.as_ptr(), about.as_mut_ptr()) }.into())?;
        }
        Ok(())
    }

    fn open_close(&self, count: u64) -> Result<()> {
        for _ in 0..count {
            // SAFETY: the path ends with a NUL.
            let fd = check(unsafe { libc::open(self.name.as_ptr(), libc::O_RDONLY) }.into())?;
            // SAFETY: a descriptor that nothing else knows.
            check(unsafe { libc::close(fd as RawFd) }.into())?;
        }
        Ok(())
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for path in &self.paths {
            // The directory may be gone with all that is in it.
            let _ = fs::remove_file(path);
        }
    }
}

fn pread<const BYTES: usize>(file: &File, count: u64) -> Result<()> {
    let fd = file.as_raw_fd();
    let mut buffer = [0_u8; BYTES];
    for turn in 0..count {
        let offset = (turn * BYTES as u64) % (SIZE / 2);
        // SAFETY: the buffer is as long as it says.
        let read = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), BYTES, offset as i64) };
        check(read as i64)?;
    }
    Ok(())
}

fn getppid(count: u64) -> Result<()> {
    for _ in 0..count {
        // SAFETY: getppid has no preconditions and cannot fail.
        unsafe { libc::getppid() };
    }
    Ok(())
}
