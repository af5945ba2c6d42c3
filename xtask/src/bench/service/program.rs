//! The programs that the service counts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

/// Files of one directory.
const DIRECTORY: u64 = 1000;
/// Files that reads go around.
const READ: u64 = 256;
const PAGE: usize = 4096;

#[derive(Args)]
pub struct Options {
    /// What to do: `sleepers COUNT`, `files FIRST END` or `reads RATE MILLISECONDS`.
    what: String,
    dir: PathBuf,
    numbers: Vec<u64>,
}

/// Does it.
pub fn run(options: &Options) -> Result<()> {
    let dir = &options.dir;
    match (options.what.as_str(), options.numbers.as_slice()) {
        ("sleepers", [count]) => sleepers(dir, *count),
        ("files", [first, end]) => files(dir, *first, *end),
        ("reads", [rate, milliseconds]) => reads(dir, *rate, Duration::from_millis(*milliseconds)),
        _ => bail!("no such program"),
    }
}

/// Processes that write and read a file each, and then sleep until this one's input ends.
fn sleepers(dir: &Path, count: u64) -> Result<()> {
    fs::create_dir_all(dir)?;
    let mut children = Vec::new();
    for number in 0..count {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let path = dir.join(format!("sleeper-{number}"));
            let done = fs::write(&path, [1; PAGE]).and_then(|()| fs::read(&path));
            let status = i32::from(done.is_err());
            // SAFETY: plain calls; a signal ends the sleep.
            unsafe {
                if status == 0 {
                    libc::pause();
                }
                libc::_exit(status)
            }
        }
        if child < 0 {
            return Err(std::io::Error::last_os_error()).context("cannot fork");
        }
        children.push(child);
    }
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for child in children {
        // SAFETY: a child that was not waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    Ok(())
}

/// Makes files, with a write each.
fn files(dir: &Path, first: u64, end: u64) -> Result<()> {
    for number in first..end {
        let directory = dir.join(format!("train/{:04}", number / DIRECTORY));
        if number % DIRECTORY == 0 || number == first {
            fs::create_dir_all(&directory)?;
        }
        fs::write(directory.join(format!("{number:07}.jpg")), [1; 16])?;
    }
    println!("ready");
    Ok(())
}

/// Reads pages, so many a second, and says how many and what CPU time one took, nanoseconds.
fn reads(dir: &Path, rate: u64, length: Duration) -> Result<()> {
    let files: Result<Vec<_>> = (0..READ)
        .map(|number| {
            let path = dir.join(format!("page-{number}"));
            fs::write(&path, [1; PAGE])?;
            Ok(fs::File::open(path)?)
        })
        .collect();
    let files = files?;
    println!("ready");
    std::io::stdout().flush()?;
    let (started, cpu) = (Instant::now(), cpu_time());
    let (mut done, mut page) = (0_u64, [0; PAGE]);
    let mut busy = 0.0;
    while started.elapsed() < length {
        let due = (started.elapsed().as_secs_f64() * rate as f64) as u64;
        let before = cpu_time();
        // A file is read a few times before the next one is, as by a program that reads in pages.
        let calls = due.saturating_sub(done);
        for call in 0..calls {
            files[((done + call) / 16 % READ) as usize].read_exact_at(&mut page, 0)?;
        }
        busy += cpu_time() - before;
        done += calls;
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{done} {} {}", busy / done.max(1) as f64, cpu_time() - cpu);
    Ok(())
}

/// CPU time of this process, nanoseconds.
fn cpu_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
