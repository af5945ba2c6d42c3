//! What a run says of the host it ran on.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::CString,
    fs, io,
    mem::MaybeUninit,
    path::PathBuf,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Model,
    run::{Clock, Run, Target, rfc3339},
};

/// The description of a run that starts now. `version` is iotrace's.
pub fn run(version: &str, target: Target, hook: &str, detail: &str) -> io::Result<Run> {
    let clock = clock()?;
    Ok(Run {
        iotrace_version: version.into(),
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
        clock_step_ns: 0,
        merged_time: crate::run::MergedTime::default(),
        block: false,
        memory_bytes: memory(),
        room_bytes: BTreeMap::new(),
        in_flight: Vec::new(),
        losses: BTreeMap::new(),
        trace: None,
        timeline: None,
        uprobes: Vec::new(),
    })
}

/// CPU time of the calling thread until now.
pub fn thread_cpu() -> Duration {
    // It cannot fail for a clock that every kernel has.
    Duration::from_nanos(now(libc::CLOCK_THREAD_CPUTIME_ID).map_or(0, |now| now as u64))
}

/// How far the wall clock was set since `clock` was measured, nanoseconds.
pub fn clock_step(clock: &Clock) -> io::Result<i64> {
    let now = realtime()? - now(libc::CLOCK_MONOTONIC)?;
    Ok(now - clock.realtime_minus_monotonic_ns)
}

/// Room for an ordinary user on the mounts that the files of a model lie on, by mount point, bytes. Mounts that do not
/// answer are left out.
pub fn room(model: &Model) -> BTreeMap<String, u64> {
    let mounts = model.mounts().iter();
    let used: HashSet<u32> = (0..model.file_count() as u32)
        .map(|index| model.file(index).id.device)
        .collect();
    let used = mounts.filter(|mount| used.contains(&mount.device));
    let points: Vec<Vec<u8>> = used.map(|mount| mount.mount_point.clone()).collect();
    // A filesystem that does not answer must not keep the caller: the thread is left to it.
    let (found, results) = mpsc::channel();
    thread::spawn(move || {
        for point in points {
            if found.send(room_on(point)).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + ROOM_TIMEOUT;
    let next = || results.recv_timeout(end.saturating_duration_since(Instant::now()));
    std::iter::from_fn(|| next().ok()).flatten().collect()
}

/// Longest time that mounts are asked for their room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(2);

fn room_on(mount_point: Vec<u8>) -> Option<(String, u64)> {
    let path = CString::new(mount_point.clone()).ok()?;
    let mut stat = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends in a NUL, and the result has its place.
    let failed = unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) };
    // SAFETY: all zero is a statvfs, whether the call filled it or not.
    let stat = unsafe { stat.assume_init() };
    let name = String::from_utf8(mount_point).ok()?;
    (failed == 0).then(|| (name, stat.f_bavail * stat.f_frsize))
}

/// Memory of the host, bytes; 0 if unknown.
fn memory() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let [pages, size] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0) * u64::try_from(size).unwrap_or(0)
}

/// Nanoseconds since the Unix epoch.
pub fn realtime() -> io::Result<i64> {
    now(libc::CLOCK_REALTIME)
}

/// Where a recording goes that no directory is named for: `iotrace-YYYYMMDD-HHMMSS-PID.d` here, in UTC. `start_unix_ns` are
/// nanoseconds since 1970.
pub fn directory(start_unix_ns: i64, pid: u32) -> PathBuf {
    let digits: String = rfc3339(start_unix_ns)
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let (date, time) = digits.split_at(8);
    PathBuf::from(format!("iotrace-{date}-{}-{pid}.d", &time[..6]))
}

/// The mounts that this process sees (proc(5), mountinfo).
pub fn mountinfo() -> io::Result<Vec<u8>> {
    fs::read("/proc/self/mountinfo")
}

/// The mounts of the machine, whatever this process sees of them: those of process 1, where /proc shows it.
pub fn machine_mountinfo() -> io::Result<Vec<u8>> {
    fs::read("/proc/1/mountinfo").or_else(|_| mountinfo())
}

fn line(path: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim_end().to_owned())
}

pub fn clock() -> io::Result<Clock> {
    let realtime = realtime()?;
    Ok(Clock {
        realtime_minus_monotonic_ns: realtime - now(libc::CLOCK_MONOTONIC)?,
        realtime_minus_boottime_ns: realtime - now(libc::CLOCK_BOOTTIME)?,
    })
}

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn monotonic() -> u64 {
    // It cannot fail for a clock that every kernel has.
    now(libc::CLOCK_MONOTONIC).map_or(0, |now| now as u64)
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
