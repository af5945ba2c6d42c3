//! What a run says of the host it ran on.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use crate::model::run::{Clock, Run, Target, rfc3339};

/// The description of a run that starts now.
pub fn run(target: Target, hook: &str, detail: &str) -> io::Result<Run> {
    let clock = clock()?;
    Ok(Run {
        iotrace_version: env!("IOTRACE_VERSION").into(),
        host: line("/proc/sys/kernel/hostname")?,
        kernel: line("/proc/sys/kernel/osrelease")?,
        boot_id: line("/proc/sys/kernel/random/boot_id")?,
        hook: hook.into(),
        detail: detail.into(),
        target,
        exit_code: None,
        start_unix_ns: realtime()?,
        duration_ns: 0,
        clock,
        losses: BTreeMap::new(),
    })
}

/// Nanoseconds since the Unix epoch.
pub fn realtime() -> io::Result<i64> {
    now(libc::CLOCK_REALTIME)
}

/// Where a recording goes that no directory is named for: `iotrace-YYYYMMDD-HHMMSS-PID.d` here, in UTC.
pub fn directory(run: &Run) -> PathBuf {
    let digits: String = rfc3339(run.start_unix_ns)
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let (date, time) = digits.split_at(8);
    PathBuf::from(format!(
        "iotrace-{date}-{}-{}.d",
        &time[..6],
        std::process::id()
    ))
}

/// The mounts that this process sees (proc(5), mountinfo).
pub fn mountinfo() -> io::Result<Vec<u8>> {
    fs::read("/proc/self/mountinfo")
}

fn line(path: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim_end().to_owned())
}

fn clock() -> io::Result<Clock> {
    let realtime = realtime()?;
    Ok(Clock {
        realtime_minus_monotonic_ns: realtime - now(libc::CLOCK_MONOTONIC)?,
        realtime_minus_boottime_ns: realtime - now(libc::CLOCK_BOOTTIME)?,
    })
}

/// A clock, nanoseconds.
fn now(clock: libc::clockid_t) -> io::Result<i64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the target is a timespec that lives here.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}
