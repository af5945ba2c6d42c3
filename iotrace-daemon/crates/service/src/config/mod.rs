//! What the service is told: built-in defaults < `/etc/iotrace/iotrace.toml` < environment < flags.
//!
//! [`Config::default`] is the one place of every default; `deploy/iotrace.toml` shows each, commented, and a test holds
//! the two equal. `docs/reference/configuration.md` describes the keys.

mod file;
mod flags;
mod values;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize, de::IgnoredAny};

pub use file::{ConfigError, DEFAULT_PATH};
pub use flags::Flags;
pub use values::{Password, Span};

use crate::attribution::Kind;
use iotrace_tracer::kernel::{Detail, HookChoice};

/// Everything that can be set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub trace: Trace,
    pub http: Http,
    pub metrics: Metrics,
    pub memory: Memory,
    pub recordings: Recordings,
    pub jobs: Jobs,
    /// Rules of phases and thresholds of findings, which others read.
    #[serde(skip_serializing)]
    rule: IgnoredAny,
    #[serde(skip_serializing)]
    thresholds: IgnoredAny,
}

/// The kernel side. A change takes effect at the next start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    pub detail: Detail,
    pub hook: HookChoice,
    /// Entries of each of the two generations of kernel counters.
    pub map_entries: u32,
    /// The kernel's type information, where it is not at its usual place.
    pub btf: Option<PathBuf>,
    /// Rules that come before the built-in ones.
    pub rules: Option<PathBuf>,
    /// Whether what comes from storage and the use of mapped files are counted.
    pub page_cache: bool,
    /// Whether requests to block devices are counted.
    pub block: bool,
    /// Whether the kernel measures the time of its BPF programs, ours and all others.
    pub program_stats: bool,
}

/// The HTTP endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    pub listen: SocketAddr,
    /// PEM files; both or none.
    pub tls_certificate: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Who may ask: name and bcrypt hash of the password. Empty: everybody who can connect.
    pub users: BTreeMap<String, Password>,
}

/// What is exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Series of all jobs together; what finds no room goes to the unit `other`.
    pub max_series: usize,
    /// How long the series of a job stay after its last process.
    pub linger: Span,
    /// Whether each step of a Slurm job is a unit of its own.
    pub slurm_steps: bool,
    /// Whether durations and sizes are counted by bucket.
    pub histograms: bool,
    /// Whether units are looked at for findings.
    pub findings: bool,
    /// Units of which it is kept what their main threads wait for: names and kinds.
    pub waits: Vec<String>,
    /// Units of which it is kept how long operations took on each mount: names and kinds.
    pub latencies: Vec<String>,
    /// Directories with series of their own; 0: none. Their names are seen by whoever reads the metrics.
    pub top_directories: usize,
    /// Processes with series of their own; 0: none.
    pub top_processes: usize,
}

/// Bounds of what is remembered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Memory {
    /// Files known one by one; the longest unused are folded into the totals.
    pub max_files: usize,
}

/// Recordings for users without privileges, over a Unix socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recordings {
    /// Where the socket is; [`NO_SOCKET`]: nowhere.
    pub socket: PathBuf,
    /// Name or number of the group whose members may connect to it; [`EVERY_GROUP`]: every user; `None`: the group that the
    /// service runs as.
    pub group: Option<String>,
    /// At one time: of all users, and of one.
    pub max: usize,
    pub max_per_user: usize,
    pub max_duration: Span,
    /// What one may send, MiB.
    pub max_mib: u64,
    /// Entries of each of the two generations of kernel counters of one recording.
    pub max_entries: u32,
}

/// Job logs: a recording for every unit. A change takes effect at the next start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jobs {
    /// Where the logs are written; `None`: no logs.
    pub directory: Option<PathBuf>,
    /// Age at which a log is removed.
    pub keep: Span,
    /// Maximum size of all logs, MiB; the oldest are removed first.
    pub max_size_mib: u64,
    /// Minimum duration of a unit that is logged.
    pub least: Span,
    /// Flush interval: at most this much is lost if the service is killed.
    pub flush: Span,
    /// How much of the command lines is written.
    pub command_lines: CommandLines,
    /// Whether the logs have how long operations took.
    pub latencies: bool,
    /// Logs written at one time.
    pub max_open: usize,
    /// What there is of a job in the end.
    pub formats: Vec<JobFormat>,
}

/// A form of a job log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobFormat {
    /// The log itself.
    Recording,
    /// For the tools of Darshan.
    Darshan,
    /// The report as a page.
    Html,
    /// The report as JSON, without its lists of processes and files.
    Json,
}

impl JobFormat {
    /// Those in files of their own, next to the log.
    pub const FILES: [Self; 3] = [Self::Darshan, Self::Html, Self::Json];

    /// The one of [`Self::FILES`] that has this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::FILES.into_iter().find(|format| format.name() == name)
    }

    /// As the configuration has it; also how the name of the file ends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Darshan => "darshan",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// How much of a process's command line is written to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandLines {
    /// All arguments.
    Full,
    /// The path of the program and no argument.
    Executable,
    /// Neither; the kernel's short name of the process alone.
    None,
}

/// The socket that there is not.
pub const NO_SOCKET: &str = "none";
/// The group that every user is in.
pub const EVERY_GROUP: &str = "*";
/// Where clients look for the socket, unless they are told another place.
pub const DEFAULT_SOCKET: &str = "/run/iotrace/iotrace.sock";

impl Default for Trace {
    fn default() -> Self {
        Self {
            detail: Detail::Basic,
            hook: HookChoice::Auto,
            map_entries: iotrace_common::limits::IO_ENTRIES_BASIC,
            btf: None,
            rules: None,
            page_cache: true,
            block: false,
            program_stats: false,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9748)),
            tls_certificate: None,
            tls_key: None,
            users: BTreeMap::new(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            max_series: 20_000,
            linger: Span(Duration::from_secs(600)),
            slurm_steps: false,
            histograms: true,
            findings: true,
            waits: Vec::new(),
            latencies: Vec::new(),
            top_directories: 0,
            top_processes: 0,
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self { max_files: 200_000 }
    }
}

impl Default for Recordings {
    fn default() -> Self {
        Self {
            socket: NO_SOCKET.into(),
            group: None,
            max: 4,
            max_per_user: 2,
            max_duration: Span(Duration::from_secs(3600)),
            max_mib: 4096,
            max_entries: 16_384,
        }
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            directory: None,
            keep: Span(Duration::from_secs(30 * 86_400)),
            max_size_mib: 10_240,
            least: Span(Duration::from_secs(10)),
            flush: Span(Duration::from_secs(5)),
            command_lines: CommandLines::Executable,
            latencies: false,
            max_open: 256,
            formats: vec![JobFormat::Recording],
        }
    }
}

/// Fewest series that leave room for one job beside `other`.
const MIN_SERIES: usize = 100;
/// Most directories, or processes, with series of their own.
const MOST_TOP: usize = 1000;
/// Fewest files that are worth remembering.
const MIN_FILES: usize = 1000;

/// Shortest flush interval of job logs.
const MIN_FLUSH: Duration = Duration::from_secs(1);

impl Config {
    /// What is wrong with it as a whole: the key, and what to do.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let (http, metrics) = (&self.http, &self.metrics);
        if http.tls_certificate.is_some() != http.tls_key.is_some() {
            let key = if http.tls_key.is_none() {
                "tls_certificate"
            } else {
                "tls_key"
            };
            return Err((
                key,
                "tls_certificate and tls_key go together: set both".into(),
            ));
        }
        if metrics.max_series < MIN_SERIES {
            return Err(("max_series", format!("max_series is at least {MIN_SERIES}")));
        }
        for (key, number) in [
            ("top_directories", metrics.top_directories),
            ("top_processes", metrics.top_processes),
        ] {
            if number > MOST_TOP {
                return Err((key, format!("{key} is at most {MOST_TOP}")));
            }
        }
        let is_known = |name: &String| {
            let kind = name.split(':').next().unwrap_or_default();
            Kind::NAMED.iter().any(|known| known.name() == kind)
        };
        for (key, units) in [("waits", &metrics.waits), ("latencies", &metrics.latencies)] {
            if let Some(unknown) = units.iter().find(|name| !is_known(name)) {
                let kinds = Kind::NAMED.map(Kind::name).join(", ");
                let message = format!(
                    "{key} has kinds of units ({kinds}) or names of units, not {unknown:?}"
                );
                return Err((key, message));
            }
        }
        if self.trace.map_entries < 3 {
            return Err(("map_entries", "map_entries is at least 3".into()));
        }
        if self.memory.max_files < MIN_FILES {
            return Err(("max_files", format!("max_files is at least {MIN_FILES}")));
        }
        if self.recordings.max_entries < 3 {
            return Err(("max_entries", "max_entries is at least 3".into()));
        }
        let directory = self.jobs.directory.as_ref();
        if directory.is_some_and(|directory| !directory.is_absolute()) {
            return Err(("directory", "directory is an absolute path".into()));
        }
        if self.jobs.flush.0 < MIN_FLUSH {
            return Err(("flush", "flush is at least 1s".into()));
        }
        let formats = &self.jobs.formats;
        if formats.is_empty() {
            let message = "formats names at least one of recording, darshan, html, json";
            return Err(("formats", message.into()));
        }
        if formats.contains(&JobFormat::Darshan) && self.trace.detail != Detail::Full {
            let message = "the format darshan needs detail = \"full\" under [trace]";
            return Err(("formats", message.into()));
        }
        Ok(())
    }

    /// Whether it is kept how long operations took, of all processes: somebody is told of it.
    pub fn keeps_latencies(&self) -> bool {
        let jobs = &self.jobs;
        jobs.directory.is_some() && jobs.latencies || !self.metrics.latencies.is_empty()
    }

    /// Keys that differ and take effect only at the next start.
    pub fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        let (a, b) = (self, new);
        let mut changed = Vec::new();
        let mut compare = |key, same: bool| {
            if !same {
                changed.push(key);
            }
        };
        compare("trace.detail", a.trace.detail == b.trace.detail);
        compare("trace.hook", a.trace.hook == b.trace.hook);
        compare(
            "trace.map_entries",
            a.trace.map_entries == b.trace.map_entries,
        );
        compare("trace.btf", a.trace.btf == b.trace.btf);
        compare("trace.rules", a.trace.rules == b.trace.rules);
        compare("trace.page_cache", a.trace.page_cache == b.trace.page_cache);
        compare("trace.block", a.trace.block == b.trace.block);
        compare(
            "trace.program_stats",
            a.trace.program_stats == b.trace.program_stats,
        );
        compare("http.listen", a.http.listen == b.http.listen);
        let tls = |http: &Http| http.tls_certificate.is_some();
        compare("http.tls_certificate", tls(&a.http) == tls(&b.http));
        compare(
            "metrics.slurm_steps",
            a.metrics.slurm_steps == b.metrics.slurm_steps,
        );
        compare(
            "metrics.histograms",
            a.metrics.histograms == b.metrics.histograms,
        );
        compare(
            "recordings.socket",
            a.recordings.socket == b.recordings.socket,
        );
        compare("recordings.group", a.recordings.group == b.recordings.group);
        compare("jobs", a.jobs == b.jobs);
        compare("metrics.findings", a.metrics.findings == b.metrics.findings);
        compare("metrics.waits", a.metrics.waits == b.metrics.waits);
        compare(
            "metrics.latencies",
            a.metrics.latencies == b.metrics.latencies,
        );
        changed
    }
}

#[cfg(test)]
mod tests;
