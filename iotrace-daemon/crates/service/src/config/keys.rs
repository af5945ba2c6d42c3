//! The keys of the configuration, each declared once.
//!
//! Of a declaration are made the field, its default, its flag and variable, its check, and what is written of it in
//! `deploy/iotrace.toml`, `docs/reference/configuration.md` and the schema of the Helm chart (`reference`). The first line of
//! its comment is the help of the flag.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    ops::{Bound, RangeBounds},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::{CommandLines, JobFormat, NO_SOCKET, Password, Span};
use iotrace_tracer::kernel::{Detail, HookChoice};

/// When a changed key takes effect, if not at the next start.
#[derive(Debug)]
enum Applied {
    AtReload,
}

/// `IOTRACE_` and the name of a flag in capitals.
macro_rules! variable {
    ($flag:ident) => {{
        const VARIABLE_NAME: &str = concat!("IOTRACE_", stringify!($flag));
        const VARIABLE_BYTES: [u8; VARIABLE_NAME.len()] = {
            let mut bytes = [0; VARIABLE_NAME.len()];
            bytes.copy_from_slice(VARIABLE_NAME.as_bytes());
            bytes.make_ascii_uppercase();
            bytes
        };
        const {
            match str::from_utf8(&VARIABLE_BYTES) {
                Ok(name) => name,
                Err(_) => panic!("a flag's name is ASCII"),
            }
        }
    }};
}

macro_rules! keys {
    ($(
        $(#[doc = $of_section:literal])+
        $section:ident: $struct:ident {$(
            #[doc = $help:literal]
            $(#[doc = $more:literal])*
            $key:ident: $type:ty $([$applied:ident])? = $default:expr
                $(, in $range:expr)?
                $(, flag $flag:ident: $of_flag:ty [$($arg:tt)*])?
                $(, example $example:literal)?;
        )*}
    )*) => {
        /// Everything that can be set.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Config {
            $($(#[doc = $of_section])+ pub $section: $struct,)*
            /// Rules of phases and thresholds of findings, which others read.
            #[serde(skip_serializing)]
            rule: IgnoredAny,
            #[serde(skip_serializing)]
            thresholds: IgnoredAny,
        }

        $(
            $(#[doc = $of_section])+
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(default, deny_unknown_fields)]
            pub struct $struct {
                $(#[doc = $help] $(#[doc = $more])* pub $key: $type,)*
            }

            impl Default for $struct {
                fn default() -> Self {
                    Self { $($key: $default,)* }
                }
            }
        )*

        /// What overrides the file. A flag wins over its environment variable.
        #[derive(Clone, Debug, Default, clap::Args)]
        pub struct Flags {
            /// The configuration file; it must be there [default: /etc/iotrace/iotrace.toml, if it is there]
            #[arg(long, value_name = "FILE", env = "IOTRACE_CONFIG")]
            pub(super) config: Option<PathBuf>,
            $($($(
                #[doc = $help]
                #[arg(long, env = variable!($flag), $($arg)*)]
                $flag: Option<$of_flag>,
            )?)*)*
        }

        impl Flags {
            pub(super) fn apply(&self, config: &mut Config) {
                $($($(if let Some(value) = self.$flag.clone() {
                    config.$section.$key = value.into();
                })?)*)*
            }
        }

        impl Config {
            /// Whether each number is within its bounds; else its key, and what to do.
            pub(super) fn check_bounds(&self) -> Result<(), (&'static str, String)> {
                $($($(check_bounds(stringify!($key), &self.$section.$key, &$range)?;)?)*)*
                Ok(())
            }

            /// Takes the keys that take effect only at the next start from another configuration.
            pub(super) fn keep_fixed(&mut self, other: &Self) {
                $($(
                    let applied: &[Applied] = &[$(Applied::$applied)?];
                    if applied.is_empty() {
                        self.$section.$key = other.$section.$key.clone();
                    }
                )*)*
            }

            /// Keys that differ and take effect only at the next start.
            pub(super) fn not_applied(&self, new: &Self) -> Vec<&'static str> {
                let mut changed = Vec::new();
                $($(
                    let applied: &[Applied] = &[$(Applied::$applied)?];
                    if applied.is_empty() && self.$section.$key != new.$section.$key {
                        changed.push(concat!(stringify!($section), ".", stringify!($key)));
                    }
                )*)*
                changed
            }
        }

        /// What the pages say of the keys.
        #[cfg(test)]
        pub(super) fn sections() -> Vec<super::reference::Section> {
            use super::reference::{Key, Section};
            vec![$(Section {
                name: stringify!($section),
                doc: concat!($($of_section),+),
                keys: vec![$(Key {
                    name: stringify!($key),
                    doc: concat!($help $(, $more)*),
                    is_applied: !(&[$(Applied::$applied)?] as &[Applied]).is_empty(),
                    bounds: [$(bounds(&$range))?].into_iter().next().unwrap_or_default(),
                    flag: [$(stringify!($flag))?].into_iter().next(),
                    example: [$($example)?].into_iter().next(),
                }),*],
            }),*]
        }
    };
}

/// The least and the greatest value.
fn bounds<T: fmt::Display>(range: &impl RangeBounds<T>) -> [Option<String>; 2] {
    [range.start_bound(), range.end_bound()].map(|bound| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => Some(bound.to_string()),
        Bound::Unbounded => None,
    })
}

fn check_bounds<T: fmt::Display + PartialOrd>(
    key: &'static str,
    value: &T,
    range: &impl RangeBounds<T>,
) -> Result<(), (&'static str, String)> {
    if range.contains(value) {
        return Ok(());
    }
    let [least, greatest] = bounds(range);
    let is_less = match range.start_bound() {
        Bound::Included(least) => value < least,
        _ => false,
    };
    let message = match (is_less, least, greatest) {
        (true, Some(least), _) => format!("{key} is at least {least}"),
        (_, _, greatest) => format!("{key} is at most {}", greatest.unwrap_or_default()),
    };
    Err((key, message))
}

const fn seconds(seconds: u64) -> Span {
    Span(Duration::from_secs(seconds))
}

keys! {
    /// How the kernel is traced
    trace: Trace {
        /// How much to keep per file: "basic" (calls, bytes, time, failures) or "full" (Darshan's counters, too).
        /// "full" costs more.
        detail: Detail = Detail::Basic, flag detail: Detail [];

        /// How to see system calls: "auto", "btf" or "tracepoint".
        /// See [hooks](hooks.md).
        hook: HookChoice = HookChoice::Auto, flag hook: HookChoice [];

        /// Entries of each of the two generations of kernel counters.
        /// One is needed for each thread and file that are used together between two drains. At detail "full" there are half
        /// as many.
        map_entries: u32 = iotrace_common::limits::IO_ENTRIES_BASIC, in 3..=1 << 24,
            flag map_entries: u32 [value_name = "N"];

        /// The kernel's type information, if it is not in /sys/kernel/btf/vmlinux.
        /// See [kernels without type information](kernel-support.md#without-the-kernels-type-information).
        btf: Option<PathBuf> = None, flag btf: PathBuf [value_name = "FILE"],
            example "\"/usr/lib/btf/vmlinux\"";

        /// File with rules that come before the built-in ones.
        /// The rules are the `[[rule]]`s of [`iotrace phases`](../guide/phases.md). Without this key, those of this file
        /// are used.
        rules: Option<PathBuf> = None, flag rules: PathBuf [value_name = "FILE"],
            example "\"/etc/iotrace/phases.toml\"";

        /// Count storage reads (`iotrace_fetched_bytes_total`) and page faults on mapped files.
        /// This holds for users' recordings, too. One or two kernel programs run at each page fault on a file, and at each
        /// page that is read from storage.
        page_cache: bool = true,
            flag page_cache: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];

        /// Count requests to block devices (`iotrace_device_*`).
        /// Of each device: bytes, durations and how many are in flight. Two kernel programs run at each request.
        block: bool = false,
            flag block: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];

        /// Have the kernel measure the run time of BPF programs, those of others, too.
        /// This costs about 25 ns at each run of each program of the machine, and needs `CAP_SYS_ADMIN`.
        program_stats: bool = false,
            flag program_stats: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];
    }

    /// The HTTP endpoint
    http: Http {
        /// Address and port of `/metrics`, `/status` and `/healthz`.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 9748)),
            flag listen: SocketAddr [value_name = "ADDRESS:PORT"];

        /// PEM file of the certificate chain, for HTTPS; needs the key.
        /// HTTPS itself is turned on or off at the next start.
        tls_certificate: Option<PathBuf> [AtReload] = None,
            flag tls_certificate: PathBuf [value_name = "FILE"],
            example "\"/etc/iotrace/tls.crt\"";

        /// PEM file of the certificate's key.
        tls_key: Option<PathBuf> [AtReload] = None,
            flag tls_key: PathBuf [value_name = "FILE"],
            example "\"/etc/iotrace/tls.key\"";

        /// Who may connect, by HTTP basic authentication.
        /// The table has the bcrypt hash of each user's password: `htpasswd -nBC 10 NAME` prints it after the name. If it is
        /// empty, everybody may connect.
        users: BTreeMap<String, Password> [AtReload] = BTreeMap::new(),
            example "prometheus = \"$2y$10$...\"";
    }

    /// What is exported
    metrics: Metrics {
        /// Maximum number of series of all jobs together.
        /// Later counts go to the unit "other". See [limits](metrics.md#limits).
        max_series: usize [AtReload] = 20_000, in 100..,
            flag max_series: usize [value_name = "N"];

        /// How long the series of a job stay after its last process.
        linger: Span [AtReload] = seconds(600), flag linger: Span [value_name = "TIME"];

        /// Make each step of a Slurm job a separate unit.
        slurm_steps: bool = false,
            flag slurm_steps: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];

        /// Count durations and sizes of operations by bucket.
        /// The buckets are of all jobs together.
        histograms: bool = true,
            flag histograms: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];

        /// Evaluate each unit once a minute for findings.
        /// These are the [findings](findings.md) of reports.
        findings: bool = true,
            flag findings: bool [value_name = "BOOL", num_args = 0..=1, default_missing_value = "true"];

        /// Keep what the main threads of these units wait for: kinds (slurm, k8s, ...) or names of units.
        /// It is in metrics and job logs: [waits](../guide/waits.md#in-the-service). Kinds are "slurm", "pbs", "lsf", "flux",
        /// "k8s", "docker", "podman", "container", "systemd" and "user"; a name is "systemd:train.service". With any unit,
        /// each context switch of the machine costs about 0.2 us more.
        waits: Vec<String> = Vec::new(), flag waits: Vec<String> [value_name = "UNIT,...", value_delimiter = ','];

        /// Keep how long operations of these units took on each mount: kinds or names of units, as of `waits`.
        /// They are metrics: [latencies](../guide/latencies.md#in-the-service). With any unit, each operation of the machine
        /// costs about 40 ns more. Each pair of mount and operation of a unit has 24 series.
        latencies: Vec<String> = Vec::new(), flag latencies: Vec<String> [value_name = "UNIT,...", value_delimiter = ','];

        /// Number of directories with series of their own: those with the most I/O.
        /// Whoever can read the metrics sees their names, whoever owns them.
        top_directories: usize [AtReload] = 0, in 0..=1000,
            flag top_directories: usize [value_name = "N"];

        /// Number of processes with series of their own: those with the most I/O.
        top_processes: usize [AtReload] = 0, in 0..=1000,
            flag top_processes: usize [value_name = "N"];
    }

    /// Bounds of what is remembered
    memory: Memory {
        /// Maximum number of individually tracked files.
        /// Each takes about 350 bytes. The longest unused are forgotten; what was counted stays counted.
        max_files: usize [AtReload] = 200_000, in 1000..,
            flag max_files: usize [value_name = "N"];
    }

    /// [Recordings for users without privileges](../guide/service.md), over a Unix socket
    recordings: Recordings {
        /// Unix socket through which users have their own processes recorded; "none": no socket.
        /// Clients look for it at /run/iotrace/iotrace.sock.
        socket: PathBuf = NO_SOCKET.into(), flag socket: PathBuf [value_name = "PATH"];

        /// Group whose members may connect to the socket, by name or number; "*": every user. Default: the service's.
        /// The socket's mode is 0660. The package's service runs as the group iotrace. For another one, the unit
        /// needs it in `SupplementaryGroups`.
        group: Option<String> = None, flag socket_group: String [value_name = "GROUP"],
            example "\"iotrace\"";

        /// Recordings at one time, of all users.
        /// These are of `iotrace record`: `top` and `snapshot` do not count, nor does root.
        max: usize [AtReload] = 4, flag max_recordings: usize [value_name = "N"];

        /// Recordings of one user at one time.
        max_per_user: usize [AtReload] = 2, flag max_recordings_per_user: usize [value_name = "N"];

        /// Maximum duration of a recording.
        max_duration: Span [AtReload] = seconds(3600), in seconds(1).., flag max_recording_duration: Span [value_name = "TIME"];

        /// Maximum size that a recording sends, MiB.
        max_mib: u64 [AtReload] = 4096, in 1.., flag max_recording_mib: u64 [value_name = "N"];

        /// Entries of each of the two generations of kernel counters of recordings.
        /// Recordings at detail "full" share this many entries. A recording with separate kernel programs has as many again.
        max_entries: u32 [AtReload] = 16_384, in 3..=1 << 24,
            flag max_recording_entries: u32 [value_name = "N"];
    }

    /// [Job logs](../guide/service.md#job-logs): a recording of every job, container, service and session
    jobs: Jobs {
        /// Write a log of each job to this directory, an absolute path.
        /// No logs are written without it.
        directory: Option<PathBuf> = None, flag jobs_directory: PathBuf [value_name = "DIR"],
            example "\"/var/log/iotrace\"";

        /// Age at which a log is removed.
        keep: Span = seconds(30 * 86_400), in seconds(1)..;

        /// Maximum size of all logs, MiB.
        /// The oldest are removed first.
        max_size_mib: u64 = 10_240, in 1..;

        /// Minimum duration of a job that is logged.
        least: Span = seconds(10);

        /// Flush interval.
        /// At most this much is lost if the service is killed.
        flush: Span = seconds(5), in seconds(1)..;

        /// How much the logs keep per file: "full" (Darshan's counters, too) or "basic" (calls, bytes, time, failures).
        /// All that the service traces has it then. What "basic" does not measure, a report cannot tell: of files that a job
        /// makes or keeps open, most of all.
        detail: Detail = Detail::Full;

        /// Command lines in the logs: "full" (all arguments), "executable" (the path of the program) or "none".
        command_lines: CommandLines = CommandLines::Executable;

        /// Whether the logs have [latencies](../guide/latencies.md#in-the-service), as `iotrace record --latencies`.
        /// Each operation of the machine costs about 40 ns more then.
        latencies: bool = false;

        /// Maximum number of logs that are written at one time.
        /// Later jobs are counted and not logged.
        max_open: usize = 256, in 1..;

        /// What is made of a log at its end: "recording", and in files next to it "darshan", "html" and "json".
        /// "darshan" needs detail "full"; "json" is the summary of the report. Without "recording" only `job.json` stays
        /// of the log.
        formats: Vec<JobFormat> = vec![JobFormat::Recording];
    }
}
