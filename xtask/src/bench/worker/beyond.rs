//! The loops of what is no plain system call: page faults, requests of io_uring, calls of the C library's streams, and
//! reads that a device must serve, threads that wait for each other.

use std::cell::RefCell;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr;
use std::thread;

use anyhow::{Context as _, Result, bail};
use io_uring::{IoUring, opcode, types};

use super::calls::SIZE;
use super::check;

/// How far apart the pages are that are touched: what a fault maps around its page.
const STEP: usize = 64 << 10;

/// A file as memory.
struct Mapping(*mut libc::c_void);

/// A stream of the C library's.
struct Stream(*mut libc::FILE);

thread_local! {
    static MAPPING: RefCell<Option<Mapping>> = const { RefCell::new(None) };
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
    static DIRECT: RefCell<Option<Direct>> = const { RefCell::new(None) };
    static PARTNER: RefCell<Option<Partner>> = const { RefCell::new(None) };
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
}

/// A file that is read around the page cache, and memory for it.
struct Direct {
    file: File,
    buffer: Box<Aligned>,
}

/// Bytes of one read, aligned as any device wants them.
#[repr(align(4096))]
struct Aligned([u8; 4096]);

/// The ends of two pipes, of which another thread has the others: it sends back what it gets.
struct Partner {
    there: io::PipeWriter,
    back: io::PipeReader,
}

impl Partner {
    fn new() -> Result<Self> {
        let (mut reader, there) = io::pipe()?;
        let (back, mut writer) = io::pipe()?;
        thread::spawn(move || {
            let mut byte = [0];
            while reader.read_exact(&mut byte).is_ok() && writer.write_all(&byte).is_ok() {}
        });
        Ok(Self { there, back })
    }
}

/// Sends a byte to another thread on this CPU and waits until it comes back, `count` times.
pub fn wakes(count: u64) -> Result<()> {
    PARTNER.with_borrow_mut(|partner| {
        let partner = match partner {
            Some(partner) => partner,
            None => partner.insert(Partner::new()?),
        };
        let mut byte = [1];
        for _ in 0..count {
            partner.there.write_all(&byte)?;
            partner.back.read_exact(&mut byte)?;
        }
        Ok(())
    })
}

/// Reads 4 KiB past the page cache, `count` times.
pub fn direct_reads(path: &Path, count: u64) -> Result<()> {
    DIRECT.with_borrow_mut(|direct| {
        let direct = match direct {
            Some(direct) => direct,
            None => direct.insert(Direct::open(path)?),
        };
        let bytes = direct.buffer.0.len();
        for turn in 0..count {
            let offset = (turn * bytes as u64) % SIZE;
            let place = direct.buffer.0.as_mut_ptr().cast();
            // SAFETY: the buffer is as long as it says.
            let read = unsafe { libc::pread(direct.file.as_raw_fd(), place, bytes, offset as i64) };
            check(read as i64)?;
        }
        Ok(())
    })
}

impl Direct {
    fn open(path: &Path) -> Result<Self> {
        let written = File::open(path)?;
        written.sync_all()?;
        let mut options = File::options();
        let file = options.read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = file.with_context(|| format!("no direct I/O on {}", path.display()))?;
        let buffer = Box::new(Aligned([0; 4096]));
        Ok(Self { file, buffer })
    }
}

/// Faults pages in, `count` times, and lets go of all of them when the end is reached.
pub fn faults(file: &File, count: u64) -> Result<()> {
    MAPPING.with_borrow_mut(|mapping| {
        let mapping = match mapping {
            Some(mapping) => mapping,
            None => mapping.insert(Mapping::new(file)?),
        };
        let steps = SIZE as usize / STEP;
        for turn in 0..count as usize {
            let place = turn % steps;
            if place == 0 {
                // SAFETY: the mapping, whose pages come back out of the file.
                let result =
                    unsafe { libc::madvise(mapping.0, SIZE as usize, libc::MADV_DONTNEED) };
                check(result.into())?;
            }
            // SAFETY: a byte of the mapping.
            unsafe { ptr::read_volatile(mapping.0.cast::<u8>().add(place * STEP)) };
        }
        Ok(())
    })
}

impl Mapping {
    fn new(file: &File) -> Result<Self> {
        // SAFETY: a new mapping of an open file.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SIZE as usize,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("a file cannot be mapped");
        }
        Ok(Self(memory))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made by `new`.
        unsafe { libc::munmap(self.0, SIZE as usize) };
    }
}

/// Reads a byte by io_uring, `count` times, one request after the other.
pub fn reads_by_uring(file: &File, count: u64) -> Result<()> {
    RING.with_borrow_mut(|ring| {
        let ring = match ring {
            Some(ring) => ring,
            None => ring.insert(IoUring::new(8).context("no io_uring")?),
        };
        let mut byte = 0_u8;
        let fd = types::Fd(file.as_raw_fd());
        for turn in 0..count {
            let read = opcode::Read::new(fd, &raw mut byte, 1).offset(turn % (SIZE / 2));
            // SAFETY: the buffer lives until the request has ended, which is waited for.
            unsafe { ring.submission().push(&read.build()) }.context("a full ring")?;
            ring.submit_and_wait(1)?;
            let result = ring.completion().next().map(|end| end.result());
            if result != Some(1) {
                bail!("a read by io_uring gave {result:?}");
            }
        }
        Ok(())
    })
}

/// Reads a byte of a stream, `count` times, from its start on.
pub fn reads_of_stream(name: &CStr, count: u64) -> Result<()> {
    STREAM.with_borrow_mut(|stream| {
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(Stream::new(name)?),
        };
        // SAFETY: an open stream.
        unsafe { libc::rewind(stream.0) };
        let mut byte = 0_u8;
        for _ in 0..count {
            // SAFETY: the buffer is one byte long.
            if unsafe { libc::fread((&raw mut byte).cast(), 1, 1, stream.0) } != 1 {
                bail!("a stream has ended");
            }
        }
        Ok(())
    })
}

impl Stream {
    fn new(name: &CStr) -> Result<Self> {
        // SAFETY: both end with a NUL.
        let stream = unsafe { libc::fopen(name.as_ptr(), c"r".as_ptr()) };
        if stream.is_null() {
            return Err(io::Error::last_os_error()).context("a stream cannot be opened");
        }
        Ok(Self(stream))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: an open stream that nothing else knows.
        unsafe { libc::fclose(self.0) };
    }
}
