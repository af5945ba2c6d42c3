//! What the program is traced by.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::program::{Done, Program, Work};
use crate::bench::iotrace::Recording;
use crate::bench::tracer::{BPFTRACE_COUNTS, bpftrace, end};
use crate::run;
use crate::toolchain::on_path;

/// The library of DFTracer, below its virtual environment.
const DFTRACER: &str = "python/dftracer/lib";
const LIBRARY: &str = "site-packages/dftracer/lib64/libdftracer_preload.so";

/// A tracer, or the lack of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracer {
    Untraced,
    Basic,
    Full,
    TraceBasic,
    TraceFull,
    Bpftrace,
    Dftracer,
}

/// What came of it.
pub struct Traced {
    pub done: Done,
    /// Operations that the trace has, and their room on disk, bytes.
    pub operations: u64,
    bytes: Option<u64>,
    /// CPU time that iotrace took to read them and to write them, microseconds.
    own: Option<[u64; 2]>,
}

impl Traced {
    /// Bytes on disk for each operation, where there are operations.
    pub fn bytes_each(&self) -> Option<f64> {
        Some(self.bytes? as f64 / self.operations.max(1) as f64)
    }

    /// Nanoseconds of CPU time that iotrace took to read an operation, and to write it, where there are some.
    pub fn own_each(&self) -> Option<[f64; 2]> {
        let count = self.operations.max(1) as f64;
        Some(self.own?.map(|us| us as f64 * 1e3 / count))
    }
}

impl Tracer {
    /// The first is what the others are compared with.
    pub const ALL: [Self; 7] = [
        Self::Untraced,
        Self::Basic,
        Self::Full,
        Self::TraceBasic,
        Self::TraceFull,
        Self::Bpftrace,
        Self::Dftracer,
    ];

    /// As the tables name it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::Basic => "iotrace basic, no trace",
            Self::Full => "iotrace full, no trace",
            Self::TraceBasic => "iotrace basic, trace",
            Self::TraceFull => "iotrace full, trace",
            Self::Bpftrace => "bpftrace, aggregate",
            Self::Dftracer => "DFTracer, with arguments",
        }
    }

    /// What there is lacking to measure it.
    pub fn lack(self) -> Option<String> {
        let is_there = match self {
            Self::Bpftrace => on_path("bpftrace").next().is_some(),
            Self::Dftracer => library().is_some(),
            _ => true,
        };
        (!is_there).then(|| "it is not installed".into())
    }

    /// Runs the program under it.
    pub fn run(self, work: Work, scratch: &Path) -> Result<Traced> {
        let logs = scratch.join("dftracer");
        crate::bench::empty(&logs)?;
        let variables = match self {
            Self::Dftracer => dftracer(&logs)?,
            _ => vec![],
        };
        let mut program = Program::start(work, &variables)?;
        let record =
            |detail, more: &[&str]| Recording::start_trace(scratch, &[program.pid()], detail, more);
        let recording = match self {
            Self::Basic => Some(record("basic", &[])?),
            Self::Full => Some(record("full", &[])?),
            Self::TraceBasic => Some(record("basic", &["--trace"])?),
            Self::TraceFull => Some(record("full", &["--trace"])?),
            _ => None,
        };
        let tool = match self {
            Self::Bpftrace => Some(bpftrace(program.pid(), BPFTRACE_COUNTS, scratch)?),
            _ => None,
        };
        let done = program.work()?;
        if let Some(tool) = tool {
            end(tool)?;
        }
        let stopped = recording.map(Recording::stop_trace).transpose()?;
        let own = stopped.as_ref().and_then(|(outcome, _)| {
            let cpu = |what: &str| outcome.number_before(&format!(" us of CPU time to {what}"));
            Some([cpu("read")?, cpu("write")?])
        });
        let trace = stopped.and_then(|(_, trace)| trace);
        program.end()?;
        let (operations, bytes) = match trace {
            Some((operations, bytes)) => (operations, Some(bytes)),
            None if self == Self::Dftracer => (done.calls, Some(size(&logs)?)),
            None => (0, None),
        };
        Ok(Traced {
            done,
            operations,
            bytes,
            own,
        })
    }
}

fn library() -> Option<PathBuf> {
    let versions = fs::read_dir(run::target_dir().ok()?.join(DFTRACER)).ok()?;
    let mut found = versions.flatten().map(|one| one.path().join(LIBRARY));
    found.find(|path| path.is_file())
}

/// Has the program load DFTracer, which then writes a compressed log of each operation with its arguments.
pub fn dftracer(logs: &Path) -> Result<Vec<(&'static str, String)>> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let library = library().context("DFTracer is not installed")?;
    let names = "the name of the target directory is not UTF-8";
    Ok(vec![
        ("LD_PRELOAD", text(&library).context(names)?),
        ("DFTRACER_ENABLE", "1".into()),
        ("DFTRACER_INIT", "PRELOAD".into()),
        ("DFTRACER_DATA_DIR", "all".into()),
        ("DFTRACER_INC_METADATA", "1".into()),
        ("DFTRACER_TRACE_COMPRESSION", "1".into()),
        ("DFTRACER_LOG_FILE", text(&logs.join("log")).context(names)?),
    ])
}

/// Bytes of all files of a directory.
fn size(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}
