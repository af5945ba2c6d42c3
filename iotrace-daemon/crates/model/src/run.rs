//! The run that a model was filled by: where, what, how, and for how long.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::counters::saturating_sum;

/// What was traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// A program that iotrace started: its command line.
    Command(Vec<String>),
    /// Processes that were there, with their descendants.
    Pids(Vec<u32>),
    /// Every process of the system: `true`.
    All(bool),
    /// A unit that the service logs, such as a batch job: the label `unit` of its metrics.
    Unit(String),
}

/// Differences of the kernel's clocks, measured at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Add to `CLOCK_MONOTONIC` for nanoseconds since the Unix epoch.
    pub realtime_minus_monotonic_ns: i64,
    /// Add to nanoseconds since boot (`CLOCK_BOOTTIME`) for nanoseconds since the Unix epoch.
    pub realtime_minus_boottime_ns: i64,
}

impl Clock {
    /// A `CLOCK_MONOTONIC` moment as nanoseconds since the Unix epoch.
    pub fn unix_ns(&self, monotonic: u64) -> i64 {
        (monotonic as i64).wrapping_add(self.realtime_minus_monotonic_ns)
    }

    /// Undoes [`Clock::unix_ns`].
    pub fn monotonic_ns(&self, unix: i64) -> u64 {
        unix.wrapping_sub(self.realtime_minus_monotonic_ns) as u64
    }

    /// A moment since boot as nanoseconds since the Unix epoch.
    pub fn unix_ns_of_boottime(&self, boottime: u64) -> i64 {
        (boottime as i64).wrapping_add(self.realtime_minus_boottime_ns)
    }
}

/// [`Run::hook`] of a recording that was made without the kernel's type information.
pub const RAW: &str = "raw";

/// One run of iotrace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Version of the iotrace that measured.
    pub iotrace_version: String,
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel: String,
    /// Identity of this boot of the kernel (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// How system calls were seen: `btf`, `tracepoint` or [`RAW`].
    pub hook: String,
    /// `basic` or `full`.
    pub detail: String,
    pub target: Target,
    /// Of the command; absent while it runs and where there is none.
    pub exit_code: Option<i32>,
    /// Nanoseconds since the Unix epoch.
    pub start_unix_ns: i64,
    pub duration_ns: u64,
    pub clock: Clock,
    /// How far the wall clock was set during the run, nanoseconds; moments use the clock as it was at the start.
    #[serde(default)]
    pub clock_step_ns: i64,
    /// What is known of merged time over all processes.
    #[serde(default)]
    pub merged_time: MergedTime,
    /// Whether requests to block devices were to be counted.
    #[serde(default)]
    pub block: bool,
    /// Memory of the host, bytes; 0 if unknown.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Room for an ordinary user on the mounts that files lay on, by mount point, bytes at the end.
    #[serde(default)]
    pub room_bytes: BTreeMap<String, u64>,
    /// Calls that had not returned, at the end or at the last flush, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<CallInFlight>,
    /// What was not counted, or not in full, by reason; also what was left out on purpose.
    pub losses: BTreeMap<String, u64>,
    /// The operation trace, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceRun>,
    /// The timeline of threads, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineRun>,
    /// Libraries that uprobes were on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uprobes: Vec<Probed>,
}

/// Seconds between two logs of one unit, in which nothing was recorded.
pub const SECONDS_BETWEEN_LOGS: &str = "seconds_between_logs";

impl Run {
    /// Nanoseconds since the Unix epoch.
    pub fn end_unix_ns(&self) -> i64 {
        self.start_unix_ns.saturating_add_unsigned(self.duration_ns)
    }

    /// Whether the run of another log may go on with this one: it is of the same unit and boot, and does not begin before the end.
    pub fn may_go_on(&self, later: &Self) -> bool {
        /// A log is ended by a thread that may be held up.
        const MAX_OVERLAP_NS: i64 = 10_000_000_000;
        let is_same = (&self.boot_id, &self.host, &self.target)
            == (&later.boot_id, &later.host, &later.target);
        let overlap = self.end_unix_ns().saturating_sub(later.start_unix_ns);
        is_same && matches!(self.target, Target::Unit(_)) && overlap < MAX_OVERLAP_NS
    }

    /// Whole seconds from the end to the start of the run of a later log; 0 where logs are ended each day.
    pub fn seconds_until(&self, later: &Self) -> u64 {
        let between = later.start_unix_ns.saturating_sub(self.end_unix_ns());
        u64::try_from(between).unwrap_or(0) / 1_000_000_000
    }

    /// Goes on with the run of a later log of the same unit: what comes last holds, and losses add up. `between`: seconds
    /// before it in which operations may have been lost.
    pub fn go_on(&mut self, later: &Self, between: u64) {
        let duration = later.end_unix_ns().saturating_sub(self.start_unix_ns);
        self.add_losses(later);
        let seconds = self.losses.entry(SECONDS_BETWEEN_LOGS.into());
        *seconds.or_default() += between;
        *self = Self {
            start_unix_ns: self.start_unix_ns,
            duration_ns: u64::try_from(duration).unwrap_or(0),
            clock: self.clock,
            losses: std::mem::take(&mut self.losses),
            ..later.clone()
        };
    }

    /// Adds what another run lost.
    pub fn add_losses(&mut self, other: &Self) {
        for (reason, count) in &other.losses {
            *self.losses.entry(reason.clone()).or_default() += count;
        }
    }
}

/// A call that had not returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallInFlight {
    pub pid: u32,
    pub tid: u32,
    /// Its class, as `iotrace_common::op` names it.
    pub operation: String,
    /// `None` where it is not known: an open that has not returned.
    pub path: Option<String>,
    pub mount_point: Option<String>,
    pub fs_type: Option<String>,
    /// `Phase::code` of its file; 0 if it is not known.
    pub phase: u16,
    /// Whether it had begun before the trace did: it has lasted for longer than `ns`.
    #[serde(default)]
    pub began_before: bool,
    pub start_unix_ns: i64,
    /// How long it had lasted, nanoseconds.
    pub ns: u64,
}

/// What is known of merged time over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MergedTime {
    /// Between which bounds it lies.
    #[default]
    Bounds,
    /// How long it is: the kernel side keeps it.
    Exact,
}

/// A file of a library that uprobes were on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// `stdio`, `cufile`, `hdf5` or `marker`.
    pub library: String,
    pub file: String,
    /// Functions that were found in it.
    pub functions: u32,
    /// Symbols that it lacks.
    pub missing: Vec<String>,
    /// How long a process had it mapped before the probes were on, nanoseconds: calls in that time are not counted. 0 where
    /// the probes came first.
    pub late_ns: u64,
}

/// The operation trace of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRun {
    /// Filters, as they were given; what they left out is counted nowhere.
    pub filter: Vec<String>,
    /// What its parts may take, bytes.
    pub most_bytes: Option<u64>,
    pub parts: u32,
    /// Operations in the parts.
    pub operations: u64,
    /// What the parts take, bytes.
    pub bytes: u64,
    /// Processes with operations that are not in the parts.
    pub missing: Vec<TraceMissing>,
}

/// The timeline of threads of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRun {
    /// CPUs that the recorder could use.
    pub cpus: u32,
    /// Segments that were kept.
    pub segments: u64,
    /// Segments for which there was no room.
    pub dropped: u64,
}

/// Operations of a process that are missing in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceMissing {
    pub pid: u32,
    pub start_key: u32,
    /// For want of room in the kernel's buffer, or because they could not be written.
    pub lost: u64,
    /// Since the trace had reached its size.
    pub left_out: u64,
}

impl TraceRun {
    /// Operations that were lost.
    pub fn lost(&self) -> u64 {
        saturating_sum(self.missing.iter().map(|missing| missing.lost))
    }

    /// Operations that were left out since the trace had reached its size.
    pub fn left_out(&self) -> u64 {
        saturating_sum(self.missing.iter().map(|missing| missing.left_out))
    }

    /// Share of the lost among all that were to be traced, 0 to 1.
    pub fn lost_share(&self) -> f64 {
        let all = saturating_sum([self.operations, self.lost(), self.left_out()]);
        self.lost() as f64 / all.max(1) as f64
    }
}

/// A moment as RFC 3339, UTC, to the microsecond: `2025-11-20T23:53:00.000000Z`.
pub fn rfc3339(unix_ns: i64) -> String {
    // Every i64 of nanoseconds is a moment that jiff knows.
    let moment = Timestamp::from_microsecond(unix_ns.div_euclid(1_000)).unwrap_or_default();
    format!("{moment:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_763_682_780, "2025-11-20T23:53:00.000000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000000Z"),
        ] {
            assert_eq!(rfc3339(seconds * 1_000_000_000), expected);
        }
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn clocks_are_inverse() {
        let clock = Clock {
            realtime_minus_monotonic_ns: 1_700_000_000_000_000_000,
            ..Clock::default()
        };
        assert_eq!(clock.monotonic_ns(clock.unix_ns(123)), 123);
    }
}
