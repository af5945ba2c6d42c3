//! A running `iotrace record`: started on some processes, stopped, and what it then says of itself.

use std::fs::{self, File};
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a tracer may take until it is ready.
const READY: Duration = Duration::from_secs(60);
/// Between the message that the hooks are on and the end of what iotrace does before it only listens.
const SETTLE: Duration = Duration::from_millis(400);

/// Has iotrace load no rules.
const UNSORTED: &str = "IOTRACE_BENCH_UNSORTED";

/// Keeps waits; recordings without it are measured without them.
pub const WITH_WAITS: &str = "--waits";

/// What iotrace says with `-v` once it traces; no error has these words.
const READY_WORDS: &str = "entries in each of two generations";

/// A running recording.
pub struct Recording {
    child: Child,
    messages: PathBuf,
    report: PathBuf,
    directory: PathBuf,
}

/// What is known of a recording that has ended.
pub struct Outcome {
    /// What it said of itself.
    pub messages: String,
    /// Successful reads and opens that it counted.
    pub reads: u64,
    pub opens: u64,
    /// CPU time, seconds, and most memory at one time, bytes: the report included.
    pub cpu_seconds: f64,
    pub peak_bytes: u64,
    /// Memory when it was stopped, bytes.
    pub end_bytes: u64,
}

impl Recording {
    /// Starts one in an own directory below `scratch`, and waits until it counts.
    pub fn start(scratch: &Path, pids: &[u32], detail: &str, hook: &str) -> Result<Self> {
        Self::start_with(scratch, pids, detail, &["--hook", hook], &[])
    }

    /// Starts one with these arguments more.
    pub fn start_trace(scratch: &Path, pids: &[u32], detail: &str, more: &[&str]) -> Result<Self> {
        Self::start_with(scratch, pids, detail, more, &[])
    }

    /// As `start` at detail basic, but without rules that sort files into phases.
    pub fn start_unsorted(scratch: &Path, pids: &[u32]) -> Result<Self> {
        Self::start_with(scratch, pids, "basic", &[], &[(UNSORTED, "1")])
    }

    fn start_with(
        scratch: &Path,
        pids: &[u32],
        detail: &str,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let directory = scratch.join("recording");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let [messages, report] = ["messages", "report"].map(|name| scratch.join(name));
        let mut command = Command::new(super::built("iotrace")?);
        command.args([
            "-v", "record", "--flush", "5s", "--format", "json", "--detail", detail,
        ]);
        if !more.contains(&WITH_WAITS) {
            command.arg("--waits=off");
        }
        command.args(more);
        command.envs(variables.iter().copied());
        command.arg("--output").arg(&directory);
        for pid in pids {
            command.arg("--pid").arg(pid.to_string());
        }
        command.stdin(Stdio::null()).stdout(File::create(&report)?);
        let child = command.stderr(File::create(&messages)?).spawn();
        let mut child = child.context("cannot run iotrace")?;
        wait_for(&mut child, &messages, READY_WORDS)?;
        thread::sleep(super::unless_brief(SETTLE, SETTLE / 8));
        Ok(Self {
            child,
            messages,
            report,
            directory,
        })
    }

    /// Stops it, and says how many operations its trace has, and their bytes on disk.
    pub fn stop_trace(self) -> Result<(Outcome, Option<(u64, u64)>)> {
        let meta = self.directory.join("meta.json");
        let outcome = self.stop()?;
        let meta: serde_json::Value = serde_json::from_slice(&fs::read(meta)?)?;
        let trace = &meta["trace"];
        let number = |key: &str| trace[key].as_u64();
        Ok((outcome, number("operations").zip(number("bytes"))))
    }

    /// Stops it as Ctrl-C does.
    pub fn stop(self) -> Result<Outcome> {
        let end_bytes = resident(&self.child)?;
        interrupt(&self.child);
        let (cpu_seconds, peak_bytes) = wait(&self.child)?;
        let mut totals = String::new();
        // The totals come first, and the rest may be long.
        File::open(&self.report)?
            .take(4096)
            .read_to_string(&mut totals)?;
        let messages = fs::read_to_string(&self.messages)?;
        let total = |name| {
            let found = total(&totals, name);
            found.with_context(|| {
                format!("no {name} in the report of iotrace, which said {messages}")
            })
        };
        let (reads, opens) = (total("reads")?, total("opens")?);
        Ok(Outcome {
            messages,
            reads,
            opens,
            cpu_seconds,
            peak_bytes,
            end_bytes,
        })
    }
}

impl Outcome {
    /// The number that stands before some words of a message.
    pub fn number_before(&self, words: &str) -> Option<u64> {
        let before = &self.messages[..self.messages.find(words)?];
        before.trim_end().rsplit(' ').next()?.parse().ok()
    }

    /// The message that has these words in it, without its time and level.
    pub fn message(&self, words: &str) -> Option<&str> {
        let line = self.messages.lines().find(|line| line.contains(words))?;
        Some(line.split_once("] ").map_or(line, |(_, text)| text))
    }
}

/// A counter of the report's totals.
fn total(report: &str, name: &str) -> Option<u64> {
    let (_, totals) = report.split_once("\"totals\":{")?;
    let (_, value) = totals.split_once(&format!("\"{name}\":"))?;
    value
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Waits until a tracer has written some words to a file.
pub fn wait_for(child: &mut Child, file: &Path, words: &str) -> Result<()> {
    let end = Instant::now() + READY;
    loop {
        let said = fs::read_to_string(file)?;
        if said.contains(words) {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("a tracer ended ({status}) instead of tracing: {said}");
        }
        if Instant::now() > end {
            interrupt(child);
            bail!("a tracer was not ready after {} s: {said}", READY.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Asks a process to end, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    // SAFETY: kill touches no memory, and the child has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
}

/// Resident memory of a process, bytes.
fn resident(child: &Child) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("no VmRSS in iotrace's status")? * 1024)
}

/// Waits for a process: its CPU time, seconds, and its peak memory, bytes.
pub fn wait(child: &Child) -> Result<(f64, u64)> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let mut status = 0;
    let pid = child.id() as i32;
    // SAFETY: the child is ours and has not been waited for; there is room for both answers.
    if unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) } != pid {
        return Err(std::io::Error::last_os_error()).context("cannot wait for iotrace");
    }
    // SAFETY: the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if status != 0 {
        bail!("iotrace failed (wait status {status:#x})");
    }
    Ok((cpu_seconds, usage.ru_maxrss as u64 * 1024))
}
