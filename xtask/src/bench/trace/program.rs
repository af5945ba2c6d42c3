//! The program whose operations are traced: reads of files in memory, by one thread or two.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;

use crate::bench::worker::cpus;

const FILES: u64 = 64;
/// Size of each, bytes.
const SIZE: u64 = 1 << 20;
const PAGE: usize = 4096;
/// Where files in memory go.
const MEMORY: &str = "/dev/shm";
/// Calls between two looks at the clock, and at what is due.
const STRIDE: u64 = 64;

/// Which file is read where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Pages one behind the other, file by file.
    Sequential,
    /// Up to a page anywhere in any file.
    Random,
}

impl Pattern {
    pub const ALL: [Self; 2] = [Self::Sequential, Self::Random];

    /// As the tables name it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Sequential => "pages one behind the other, file by file",
            Self::Random => "1 to 4,096 bytes anywhere in any of 64 files",
        }
    }
}

/// What the program does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pattern: Pattern,
    threads: u64,
    /// Calls of each thread; 0: until the time is up.
    calls: u64,
    /// Calls a second of all threads; 0: as many as they can.
    rate: u64,
    seconds: u64,
}

impl Work {
    /// So many calls of one thread.
    pub fn calls(pattern: Pattern, calls: u64) -> Self {
        Self {
            pattern,
            threads: 1,
            calls,
            rate: 0,
            seconds: 0,
        }
    }

    /// So many calls a second of two threads.
    pub fn rate(rate: u64, seconds: u64) -> Self {
        Self {
            pattern: Pattern::Random,
            threads: 2,
            calls: 0,
            rate,
            seconds,
        }
    }
}

/// What the program has done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub calls: u64,
    /// How long it took.
    pub seconds: f64,
    /// CPU time that a call took its thread, nanoseconds.
    pub cpu_ns: f64,
}

/// As the program is asked on its command line.
#[derive(Args)]
pub struct Options {
    random: u64,
    threads: u64,
    calls: u64,
    rate: u64,
    seconds: u64,
    dir: PathBuf,
}

/// The program as the measuring process sees it. It ends when this is dropped.
pub struct Program {
    child: Child,
    go: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it with these variables in its environment, and waits until it is ready to begin.
    pub fn start(work: Work, variables: &[(&str, String)]) -> Result<Self> {
        let dir = Path::new(MEMORY).join(format!("iotrace-bench-{}", std::process::id()));
        crate::bench::empty(&dir)?;
        let mut command = Command::new(std::env::current_exe()?);
        let numbers = [
            u64::from(work.pattern == Pattern::Random),
            work.threads,
            work.calls,
            work.rate,
            work.seconds,
        ];
        command
            .args(["bench", "operations"])
            .args(numbers.map(|number| number.to_string()))
            .arg(&dir);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start the program")?;
        let go = child.stdin.take();
        let says = BufReader::new(child.stdout.take().context("a program without output")?);
        let mut program = Self { child, go, says };
        program.hear()?;
        Ok(program)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it work, and waits until it has.
    pub fn work(&mut self) -> Result<Done> {
        let go = self.go.as_mut().context("a program without input")?;
        go.write_all(b"\n").context("the program has ended")?;
        let line = self.hear()?;
        let mut numbers = line.split_whitespace().map(str::parse::<f64>);
        let mut next = || numbers.next().and_then(Result::ok);
        let number = "the program says too little";
        Ok(Done {
            calls: next().context(number)? as u64,
            seconds: next().context(number)?,
            cpu_ns: next().context(number)?,
        })
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.says.read_line(&mut line)? == 0 {
            bail!("the program has ended early");
        }
        Ok(line)
    }

    /// Lets it end.
    pub fn end(mut self) -> Result<()> {
        self.go = None;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the program failed ({status})");
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.go = None;
        // How it ended does not matter any more.
        let _ = self.child.wait();
    }
}

/// The files of the program, which go with it.
struct Files(PathBuf);

impl Files {
    /// Ctrl-C is for the measuring process: that this one ends, and removes its files, follows.
    fn new(dir: &Path) -> Self {
        // SAFETY: no code of this program's runs then.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        Self(dir.into())
    }

    fn make(&self) -> Result<Vec<File>> {
        let file = |number| {
            let path = self.0.join(format!("data-{number}"));
            fs::write(&path, vec![1; SIZE as usize])?;
            Ok(File::open(path)?)
        };
        (0..FILES).map(file).collect()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Whoever removed them before has done what is to be done.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Is that program.
pub fn run(options: &Options) -> Result<()> {
    let made = Files::new(&options.dir);
    let files = made.make()?;
    println!("ready");
    std::io::stdin().read_exact(&mut [0])?;
    let start = Barrier::new(options.threads as usize);
    let (started, cpus) = (Instant::now(), cpus::own());
    let done: Vec<Result<(u64, u64)>> = thread::scope(|scope| {
        let reader = |number: u64| {
            let (files, start) = (&files, &start);
            scope.spawn(move || {
                if options.threads > 1 {
                    cpus::pin(cpus[number as usize % cpus.len()])?;
                }
                start.wait();
                read(options, files, number)
            })
        };
        let readers: Vec<_> = (0..options.threads).map(reader).collect();
        let join = |reader: thread::ScopedJoinHandle<'_, Result<(u64, u64)>>| {
            reader.join().map_err(|_| anyhow!("a thread died"))?
        };
        readers.into_iter().map(join).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    let (mut calls, mut ns) = (0, 0);
    for done in done {
        let (more_calls, more_ns) = done?;
        calls += more_calls;
        ns += more_ns;
    }
    let cpu_ns = ns as f64 / calls.max(1) as f64;
    // Where nobody hears it any more, the files are to go all the same.
    writeln!(std::io::stdout(), "{calls} {seconds} {cpu_ns}")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// What one thread does: calls, and their CPU time, nanoseconds.
fn read(options: &Options, files: &[File], thread: u64) -> Result<(u64, u64)> {
    let rate = options.rate / options.threads;
    let (started, length) = (Instant::now(), Duration::from_secs(options.seconds));
    let (mut done, mut cpu) = (0, 0);
    let mut random = 0x9e37_79b9_7f4a_7c15 + thread;
    loop {
        let due = match (options.calls, rate) {
            (0, _) if started.elapsed() >= length => return Ok((done, cpu)),
            (0, 0) => done + STRIDE,
            (0, rate) => (started.elapsed().as_secs_f64() * rate as f64) as u64,
            (calls, _) if done >= calls => return Ok((done, cpu)),
            (calls, _) => calls,
        };
        if due < done + STRIDE.min(due) {
            thread::sleep(Duration::from_micros(500));
            continue;
        }
        let before = cpu_time();
        while done < due {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            call(options, files, done, random)?;
            done += 1;
        }
        cpu += cpu_time() - before;
    }
}

/// Goes through the C library, so that a preloaded library sees it too.
fn call(options: &Options, files: &[File], number: u64, random: u64) -> Result<()> {
    const PAGES: u64 = SIZE / PAGE as u64;
    let mut page = [0_u8; PAGE];
    let (file, offset, length) = if options.random == 1 {
        let length = random >> 40 & 0xfff;
        (random, (random >> 8) % (SIZE - PAGE as u64), length + 1)
    } else {
        (number / PAGES, number % PAGES * PAGE as u64, PAGE as u64)
    };
    let fd = files[(file % FILES) as usize].as_raw_fd();
    // SAFETY: the buffer is at least that long.
    let read = unsafe { libc::pread(fd, page.as_mut_ptr().cast(), length as usize, offset as i64) };
    if read != length as isize {
        bail!("a read returned {read} instead of {length}");
    }
    Ok(())
}

/// CPU time of this thread, nanoseconds.
fn cpu_time() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
