//! What a call is measured under.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::DARSHAN_VARIABLE;
use super::iotrace::{Outcome, Recording, interrupt, wait_for};
use super::raw::{self, Body, Pair};
use super::remote::{Places, Worker};
use crate::toolchain::on_path;

/// Counts calls, bytes and latency of reads and writes per process and descriptor. Says that it is
/// ready at the first tick of its clock, when all of its probes are on.
const BPFTRACE: &str = r#"
tracepoint:syscalls:sys_enter_read, tracepoint:syscalls:sys_enter_pread64,
tracepoint:syscalls:sys_enter_write, tracepoint:syscalls:sys_enter_pwrite64
/pid == $1/ { @start[tid] = nsecs; @fd[tid] = args->fd; }
tracepoint:syscalls:sys_exit_read, tracepoint:syscalls:sys_exit_pread64,
tracepoint:syscalls:sys_exit_write, tracepoint:syscalls:sys_exit_pwrite64
/@start[tid]/ {
    @calls[pid, @fd[tid]] = count();
    @bytes[pid, @fd[tid]] = sum(args->ret);
    @latency[pid, @fd[tid]] = hist(nsecs - @start[tid]);
    delete(@start[tid]);
    delete(@fd[tid]);
}
interval:s:1 { printf("ready\n"); }
"#;
/// Only counts calls and bytes of reads and writes per process and descriptor at their ends.
pub const BPFTRACE_COUNTS: &str = r#"
tracepoint:syscalls:sys_exit_read, tracepoint:syscalls:sys_exit_pread64,
tracepoint:syscalls:sys_exit_write, tracepoint:syscalls:sys_exit_pwrite64
/pid == $1/ { @calls[pid, probe] = count(); @bytes[pid, probe] = sum(args->ret); }
interval:s:1 { printf("ready\n"); }
"#;
/// Where the tracepoints of system calls are, if they are anywhere.
const SYSCALL_EVENTS: [&str; 2] = [
    "/sys/kernel/tracing/events/syscalls",
    "/sys/kernel/debug/tracing/events/syscalls",
];
/// Between a tool's word that it is ready and the measurement.
const SETTLE: Duration = Duration::from_millis(300);

/// A tracer, or the lack of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tracer {
    Untraced,
    Bare,
    Floor,
    Basic,
    NoPageCache,
    Latencies,
    Full,
    Tracepoint,
    Elsewhere,
    Bpftrace,
    Strace,
    Darshan,
}

impl Tracer {
    pub const ALL: [Self; 12] = [
        Self::Untraced,
        Self::Bare,
        Self::Floor,
        Self::Basic,
        Self::NoPageCache,
        Self::Latencies,
        Self::Full,
        Self::Tracepoint,
        Self::Elsewhere,
        Self::Bpftrace,
        Self::Strace,
        Self::Darshan,
    ];

    /// As the tables name it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::Bare => "bare hooks",
            Self::Floor => "timed floor",
            Self::Basic => "iotrace basic",
            Self::NoPageCache => "iotrace basic, --no-page-cache",
            Self::Latencies => "iotrace basic, --latencies",
            Self::Full => "iotrace full",
            Self::Tracepoint => "iotrace basic, tracepoints",
            Self::Elsewhere => "iotrace basic, elsewhere",
            Self::Bpftrace => "bpftrace",
            Self::Strace => "strace -c",
            Self::Darshan => "Darshan",
        }
    }

    /// What there is lacking to measure it.
    pub fn lack(self) -> Option<String> {
        let program = match self {
            Self::Bpftrace => "bpftrace",
            Self::Strace => "strace",
            Self::Darshan if env::var_os(DARSHAN_VARIABLE).is_none() => {
                return Some(format!("{DARSHAN_VARIABLE} names no library"));
            }
            Self::Tracepoint if !SYSCALL_EVENTS.iter().any(|path| Path::new(path).exists()) => {
                return Some("no tracefs with tracepoints of system calls is mounted".into());
            }
            _ => return None,
        };
        if on_path(program).next().is_none() {
            Some("not installed".into())
        } else {
            None
        }
    }

    /// Whether iotrace is to count what the worker does.
    pub fn counts(self) -> Option<bool> {
        match self {
            Self::Basic | Self::NoPageCache | Self::Latencies | Self::Full | Self::Tracepoint => {
                Some(true)
            }
            Self::Elsewhere => Some(false),
            _ => None,
        }
    }

    /// Whether its hooks slow calls down for seconds after its end.
    pub fn lingers(self) -> bool {
        self == Self::Tracepoint
    }

    /// Starts a worker that this tracer can trace.
    pub fn worker(self, places: &Places, scratch: &Path) -> Result<Worker> {
        if self != Self::Darshan {
            return Worker::start(places, &[]);
        }
        Worker::start(places, &darshan(scratch)?)
    }

    /// Attaches to a worker, and waits until it is on.
    pub fn attach(self, worker: &Worker, places: &Places, scratch: &Path) -> Result<Attached> {
        let pid = worker.pid();
        let record = |pid, detail, hook| Recording::start(scratch, &[pid], detail, hook);
        let with =
            |option| Recording::start_trace(scratch, &[pid], "basic", &["--hook", "btf", option]);
        let recorded = |recording| Attached::Iotrace(recording, None);
        Ok(match self {
            Self::Untraced | Self::Darshan => Attached::Nothing,
            Self::Bare => Attached::Pair(raw::attach(Body::Empty)?),
            Self::Floor => Attached::Pair(raw::attach(Body::Clock)?),
            Self::Basic => recorded(record(pid, "basic", "btf")?),
            Self::NoPageCache => recorded(with("--no-page-cache")?),
            Self::Latencies => recorded(with("--latencies")?),
            Self::Full => recorded(record(pid, "full", "btf")?),
            Self::Tracepoint => recorded(record(pid, "basic", "tracepoint")?),
            Self::Elsewhere => {
                let other = Worker::start(places, &[])?;
                Attached::Iotrace(record(other.pid(), "basic", "btf")?, Some(other))
            }
            Self::Bpftrace => Attached::Tool(bpftrace(pid, BPFTRACE, scratch)?),
            Self::Strace => {
                let mut command = Command::new("strace");
                command.args(["-f", "-c", "-p"]).arg(pid.to_string());
                Attached::Tool(tool(command, &scratch.join("strace"), "attached")?)
            }
        })
    }
}

/// Has a program load Darshan, which then writes its log to a directory.
pub fn darshan(logs: &Path) -> Result<[(String, String); 4]> {
    let library = env::var(DARSHAN_VARIABLE).context("Darshan's library")?;
    let logs = logs
        .to_str()
        .context("the name of the directory for logs")?;
    let variables = [
        ("LD_PRELOAD", library.as_str()),
        ("DARSHAN_ENABLE_NONMPI", "1"),
        ("DARSHAN_EXCLUDE_DIRS", "none"),
        ("DARSHAN_LOGPATH", logs),
    ];
    Ok(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// Starts a script of bpftrace's on a process, and waits until it is on.
pub fn bpftrace(pid: u32, script: &str, scratch: &Path) -> Result<Child> {
    let mut command = Command::new("bpftrace");
    command.args(["-e", script]).arg(pid.to_string());
    tool(command, &scratch.join("bpftrace"), "ready")
}

/// Ends a tool as Ctrl-C does.
pub fn end(mut child: Child) -> Result<()> {
    interrupt(&child);
    // strace ends by the signal, which is no failure.
    child.wait()?;
    Ok(())
}

/// Starts a tool whose output goes to a file, and waits until it has said these words.
fn tool(mut command: Command, output: &PathBuf, ready: &str) -> Result<Child> {
    let file = File::create(output)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    wait_for(&mut child, output, ready)?;
    thread::sleep(super::unless_brief(SETTLE, SETTLE / 8));
    Ok(child)
}

/// A tracer that is on.
pub enum Attached {
    Nothing,
    Pair(Pair),
    Iotrace(Recording, Option<Worker>),
    Tool(Child),
}

impl Attached {
    /// Takes it off; what iotrace counted, if it was that.
    pub fn detach(self) -> Result<Option<Outcome>> {
        match self {
            Self::Nothing => {}
            Self::Pair(pair) => drop(pair),
            Self::Iotrace(recording, _other) => return recording.stop().map(Some),
            Self::Tool(child) => end(child)?,
        }
        Ok(None)
    }
}
