//! Flags and environment variables: every key of the file that is one value.

use std::{net::SocketAddr, path::PathBuf};

use super::{Config, ConfigError, DEFAULT_PATH, Span};
use iotrace_tracer::kernel::{Detail, HookChoice};

/// What overrides the file. A flag wins over its environment variable.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// The configuration file; it must be there [default: /etc/iotrace/iotrace.toml, if it is there]
    #[arg(long, value_name = "FILE", env = "IOTRACE_CONFIG")]
    config: Option<PathBuf>,
    /// How much to keep per file.
    #[arg(long, value_enum, env = "IOTRACE_DETAIL")]
    detail: Option<Detail>,
    /// How to see system calls.
    #[arg(long, value_enum, env = "IOTRACE_HOOK")]
    hook: Option<HookChoice>,
    /// Entries of each of the two generations of kernel counters.
    #[arg(long, value_name = "N", env = "IOTRACE_MAP_ENTRIES", value_parser = clap::value_parser!(u32).range(3..=1 << 24))]
    map_entries: Option<u32>,
    /// The running kernel's type information.
    #[arg(long, value_name = "FILE", env = "IOTRACE_BTF")]
    btf: Option<PathBuf>,
    /// Rules that come before the built-in ones.
    #[arg(long, value_name = "FILE", env = "IOTRACE_RULES")]
    rules: Option<PathBuf>,
    /// Count what comes from storage, and the use of mapped files.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_PAGE_CACHE", num_args = 0..=1, default_missing_value = "true")]
    page_cache: Option<bool>,
    /// Count requests to block devices, by device.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_BLOCK", num_args = 0..=1, default_missing_value = "true")]
    block: Option<bool>,
    /// Where to listen for HTTP.
    #[arg(long, value_name = "ADDRESS:PORT", env = "IOTRACE_LISTEN")]
    listen: Option<SocketAddr>,
    /// Certificate chain for HTTPS, PEM.
    #[arg(long, value_name = "FILE", env = "IOTRACE_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,
    /// Key of the certificate, PEM.
    #[arg(long, value_name = "FILE", env = "IOTRACE_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// Series of all jobs together.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_SERIES")]
    max_series: Option<usize>,
    /// How long the series of a job stay after its last process.
    #[arg(long, value_name = "TIME", env = "IOTRACE_LINGER")]
    linger: Option<Span>,
    /// Make each step of a Slurm job a unit of its own.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_SLURM_STEPS", num_args = 0..=1, default_missing_value = "true")]
    slurm_steps: Option<bool>,
    /// Count durations and sizes of operations by bucket.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_HISTOGRAMS", num_args = 0..=1, default_missing_value = "true")]
    histograms: Option<bool>,
    /// Look at units for findings.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_FINDINGS", num_args = 0..=1, default_missing_value = "true")]
    findings: Option<bool>,
    /// Keep what the main threads of these units wait for: kinds (slurm, k8s, ...) or names of units.
    #[arg(
        long,
        value_name = "UNIT,...",
        env = "IOTRACE_WAITS",
        value_delimiter = ','
    )]
    waits: Option<Vec<String>>,
    /// Keep how long operations of these units took on each mount: kinds (slurm, k8s, ...) or names of units.
    #[arg(
        long,
        value_name = "UNIT,...",
        env = "IOTRACE_LATENCIES",
        value_delimiter = ','
    )]
    latencies: Option<Vec<String>>,
    /// Directories with series of their own; whoever reads the metrics sees their names.
    #[arg(long, value_name = "N", env = "IOTRACE_TOP_DIRECTORIES")]
    top_directories: Option<usize>,
    /// Processes with series of their own.
    #[arg(long, value_name = "N", env = "IOTRACE_TOP_PROCESSES")]
    top_processes: Option<usize>,
    /// Have the kernel measure the time of BPF programs, those of others, too.
    #[arg(long, value_name = "BOOL", env = "IOTRACE_PROGRAM_STATS", num_args = 0..=1, default_missing_value = "true")]
    program_stats: Option<bool>,
    /// Files known one by one.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_FILES")]
    max_files: Option<usize>,
    /// Unix socket for users without privileges; "none": none.
    #[arg(long, value_name = "PATH", env = "IOTRACE_SOCKET")]
    socket: Option<PathBuf>,
    /// Group whose members may connect to the socket; "*": every user [default: the group that the service runs as]
    #[arg(long, value_name = "GROUP", env = "IOTRACE_SOCKET_GROUP")]
    socket_group: Option<String>,
    /// Recordings at one time.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_RECORDINGS")]
    max_recordings: Option<usize>,
    /// Recordings of one user at one time.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_RECORDINGS_PER_USER")]
    max_recordings_per_user: Option<usize>,
    /// How long a recording may last.
    #[arg(long, value_name = "TIME", env = "IOTRACE_MAX_RECORDING_DURATION")]
    max_recording_duration: Option<Span>,
    /// What a recording may send, MiB.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_RECORDING_MIB")]
    max_recording_mib: Option<u64>,
    /// Entries of each of the two generations of kernel counters of one recording.
    #[arg(long, value_name = "N", env = "IOTRACE_MAX_RECORDING_ENTRIES", value_parser = clap::value_parser!(u32).range(3..=1 << 24))]
    max_recording_entries: Option<u32>,
    /// Write a log of each job to this directory.
    #[arg(long, value_name = "DIR", env = "IOTRACE_JOBS_DIRECTORY")]
    jobs_directory: Option<PathBuf>,
}

impl Flags {
    /// The configuration: the file, overridden, and checked as a whole.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let file = self.config.as_deref();
        let (mut config, text) = Config::read(file)?;
        self.apply(&mut config);
        config.checked(&text, file.unwrap_or(DEFAULT_PATH.as_ref()))
    }

    /// The file that is named, or the default one where it is there.
    pub fn file(&self) -> Option<PathBuf> {
        let default = PathBuf::from(DEFAULT_PATH);
        self.config
            .clone()
            .or_else(|| default.exists().then_some(default))
    }

    fn apply(&self, config: &mut Config) {
        let flags = self.clone();
        let Config {
            trace,
            http,
            metrics,
            memory,
            recordings,
            jobs,
            ..
        } = config;
        set(&mut trace.detail, flags.detail);
        set(&mut trace.hook, flags.hook);
        set(&mut trace.map_entries, flags.map_entries);
        set(&mut trace.btf, flags.btf.map(Some));
        set(&mut trace.rules, flags.rules.map(Some));
        set(&mut trace.page_cache, flags.page_cache);
        set(&mut trace.block, flags.block);
        set(&mut http.listen, flags.listen);
        set(&mut http.tls_certificate, flags.tls_certificate.map(Some));
        set(&mut http.tls_key, flags.tls_key.map(Some));
        set(&mut metrics.max_series, flags.max_series);
        set(&mut metrics.linger, flags.linger);
        set(&mut metrics.slurm_steps, flags.slurm_steps);
        set(&mut metrics.histograms, flags.histograms);
        set(&mut metrics.findings, flags.findings);
        set(&mut metrics.waits, flags.waits);
        set(&mut metrics.latencies, flags.latencies);
        set(&mut metrics.top_directories, flags.top_directories);
        set(&mut metrics.top_processes, flags.top_processes);
        set(&mut trace.program_stats, flags.program_stats);
        set(&mut memory.max_files, flags.max_files);
        set(&mut recordings.socket, flags.socket);
        set(&mut recordings.group, flags.socket_group.map(Some));
        set(&mut recordings.max, flags.max_recordings);
        set(&mut recordings.max_per_user, flags.max_recordings_per_user);
        set(&mut recordings.max_duration, flags.max_recording_duration);
        set(&mut recordings.max_mib, flags.max_recording_mib);
        set(&mut recordings.max_entries, flags.max_recording_entries);
        set(&mut jobs.directory, flags.jobs_directory.map(Some));
    }
}

fn set<T>(value: &mut T, flag: Option<T>) {
    if let Some(flag) = flag {
        *value = flag;
    }
}
