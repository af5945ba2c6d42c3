//! An epoch: opening, reading and closing many small files, as a data loader does.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};

use super::{Answer, check};

/// Bytes of a file.
const BYTES: usize = 1024;
/// Files of a directory.
const DIRECTORY: u64 = 1000;

/// The files; those that this process made are removed with it.
pub struct Files {
    top: PathBuf,
    made: bool,
}

impl Files {
    pub fn new(memory: &Path) -> Self {
        Self {
            top: memory.join("files"),
            made: false,
        }
    }

    /// Makes the files with these numbers: 0 up to `end`.
    pub fn make(&mut self, end: u64) -> Result<Answer> {
        self.made = true;
        for number in 0..end {
            let path = self.path(number);
            if number % DIRECTORY == 0 {
                let directory = path.parent().context("a file without a directory")?;
                fs::create_dir_all(directory)?;
            }
            fs::write(&path, [1; BYTES])
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok([end as f64, 0.0, 0.0, 0.0])
    }

    /// Reads every `step`th file from `first` on, up to `end`: wall time and CPU time, nanoseconds.
    pub fn epoch(&self, first: u64, step: u64, end: u64) -> Result<Answer> {
        let numbers = (first..end).step_by(step as usize);
        let names: Result<Vec<_>, _> = numbers
            .map(|number| CString::new(self.path(number).into_os_string().as_bytes()))
            .collect();
        let names = names?;
        let (start, cpu) = (Instant::now(), cpu_time());
        for name in &names {
            read_whole(name)?;
        }
        Ok([
            start.elapsed().as_nanos() as f64,
            cpu_time() - cpu,
            0.0,
            0.0,
        ])
    }

    fn path(&self, number: u64) -> PathBuf {
        self.top
            .join(format!("{:03}/sample-{number:07}.bin", number / DIRECTORY))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.made {
            // Whoever looks at what is left sees it.
            let _ = fs::remove_dir_all(&self.top);
        }
    }
}

/// Opens a file, reads to its end and closes it.
fn read_whole(name: &CString) -> Result<()> {
    let mut buffer = [0_u8; 4096];
    // SAFETY: the path ends with a NUL.
    let fd = check(unsafe { libc::open(name.as_ptr(), libc::O_RDONLY) }.into())? as RawFd;
    // SAFETY: the buffer is as long as it says.
    while check(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) } as i64)? != 0 {}
    // SAFETY: a descriptor that nothing else knows.
    check(unsafe { libc::close(fd) }.into())?;
    Ok(())
}

/// CPU time of this process, nanoseconds.
fn cpu_time() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: there is room for the answer; zeroed is a valid value where there is none.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
