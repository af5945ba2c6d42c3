//! Processes that run already: who they are, who descends from them, and whether they may be traced.
//!
//! Reads /proc; nothing else leaves.

use std::{
    collections::HashMap,
    fs, io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use iotrace_common::{
    key::start_key,
    rights::{INITIAL_NAMESPACE, NAMESPACES, Rights, flags},
};

use crate::{About, environ::Role, input::ProcessId};

/// ioctl_ns(2).
const NS_GET_PARENT: libc::Ioctl = 0xb702;
const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;

/// Why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("no process {0}: it has ended, or the pid is of another pid namespace")]
    Gone(u32),
    #[error("process {pid} belongs to user {owner}: run as root to trace it")]
    Foreign { pid: u32, owner: u32 },
    #[error("{0} is a thread: give its process, {1}")]
    Thread(u32, u32),
    #[error("/proc/{pid} cannot be read: {source}")]
    Unreadable { pid: u32, source: io::Error },
}

/// Checks that process `pid` is there and may be traced.
pub fn check(pid: u32) -> Result<(), TargetError> {
    let status = fs::read_to_string(proc(pid, "status")).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => TargetError::Gone(pid),
        _ => TargetError::Unreadable { pid, source },
    })?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
    };
    if let Some(tgid) = field("Tgid:").and_then(|text| text.parse().ok())
        && tgid != pid
    {
        return Err(TargetError::Thread(pid, tgid));
    }
    // A process whose first thread has ended is shown as a zombie, too, while others run.
    if field("State:") == Some("Z") && threads(pid) <= 1 {
        return Err(TargetError::Gone(pid));
    }
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    match field("Uid:").and_then(|text| text.parse().ok()) {
        Some(owner) if own != 0 && owner != own => Err(TargetError::Foreign { pid, owner }),
        _ => Ok(()),
    }
}

fn threads(pid: u32) -> usize {
    fs::read_dir(proc(pid, "task")).map_or(0, Iterator::count)
}

/// All descendants of `roots`, the roots included.
pub fn descendants(roots: &[u32]) -> Vec<u32> {
    tree(roots, std::process::id())
}

/// The processes that `recorder` is to record: `roots`, and if it is to `follow` them all their descendants, without itself and
/// what it started.
pub fn wanted(roots: &[u32], follow: bool, recorder: u32) -> Vec<u32> {
    match follow {
        true => tree(roots, recorder),
        false => roots.to_vec(),
    }
}

/// All descendants of `roots`, the roots included, without `recorder` and what it started.
fn tree(roots: &[u32], recorder: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all() {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = roots.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        for child in children.remove(pid).unwrap_or_default() {
            if !found.contains(&child) && child != recorder {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

/// What /proc says of the process that has this pid now, without its memory, whose reading the process can delay for as
/// long as it wants; `None` if there is no such process.
pub fn identify(pid: u32) -> Option<About> {
    let stat = stat(pid)?;
    let rights = rights(pid);
    Some(About {
        start_boottime: stat.start_ticks * tick(),
        parent: stat.parent,
        uid: rights.map(|rights| rights.uid),
        rights,
        comm: stat.comm,
        ..About::default()
    })
}

/// The same with its program, arguments and environment.
pub fn describe(pid: u32) -> Option<About> {
    Some(About {
        exe: fs::read_link(proc(pid, "exe"))
            .map(|path| path.into_os_string().into_encoded_bytes())
            .unwrap_or_default(),
        args: arguments(pid),
        role: Role::of(&fs::read(proc(pid, "environ")).unwrap_or_default()),
        ..identify(pid)?
    })
}

/// What ptrace(2) would compare of a process; `None` if it is gone. A namespace that may not be seen, which takes
/// CAP_SYS_PTRACE, is 0.
pub fn rights(pid: u32) -> Option<Rights> {
    let status = fs::read_to_string(proc(pid, "status")).ok()?;
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    // Real, effective and saved; the fourth is of the filesystem alone, and not looked at by ptrace either.
    let ids = |name| {
        let mut ids = field(name)?.split_whitespace().map(str::parse);
        let mut next = || ids.next()?.ok();
        Some([next()?, next()?, next()?])
    };
    let ([uid, euid, suid], [gid, egid, sgid]): ([u32; 3], [u32; 3]) = (ids("Uid:")?, ids("Gid:")?);
    let is_one = uid == euid && uid == suid && gid == egid && gid == sgid;
    // Belongs to root where the process runs with other rights than its user's (proc(5)).
    let is_dumpable = fs::metadata(proc(pid, "fd")).ok()?.uid() == euid;
    let (namespace, maker) = namespace(pid).unwrap_or((0, u32::MAX));
    Some(Rights {
        capabilities: u64::from_str_radix(field("CapPrm:")?.trim(), 16).ok()?,
        uid,
        gid,
        namespace,
        maker,
        flags: (u32::from(is_one) * flags::ONE_USER) | (u32::from(is_dumpable) * flags::DUMPABLE),
        pad: 0,
    })
}

/// The number of a process's user namespace, and who made the outermost one around it below the initial one.
fn namespace(pid: u32) -> io::Result<(u32, u32)> {
    let number = |space: &fs::File| Ok::<_, io::Error>(space.metadata()?.ino() as u32);
    let mut space = fs::File::open(proc(pid, "ns/user"))?;
    let own = number(&space)?;
    if own == INITIAL_NAMESPACE {
        return Ok((own, u32::MAX));
    }
    for _ in 0..NAMESPACES {
        // SAFETY: a plain call; the descriptor that it returns is new and owned here.
        let parent = unsafe {
            let fd = libc::ioctl(space.as_raw_fd(), NS_GET_PARENT);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            fs::File::from(OwnedFd::from_raw_fd(fd))
        };
        if number(&parent)? == INITIAL_NAMESPACE {
            let mut maker: libc::uid_t = u32::MAX;
            // SAFETY: the target lives here.
            let failed =
                unsafe { libc::ioctl(space.as_raw_fd(), NS_GET_OWNER_UID, &raw mut maker) };
            return match failed {
                0 => Ok((own, maker)),
                _ => Err(io::Error::last_os_error()),
            };
        }
        space = parent;
    }
    Ok((own, u32::MAX))
}

/// Whether what /proc said is of this process, and not of another that had or got its pid.
pub fn is_of(about: &About, process: ProcessId) -> bool {
    is_start(process, about.start_boottime)
}

/// Whether /proc describes the process whose start is the time when it was first seen.
pub fn is_of_first_sight(about: &About, process: ProcessId) -> bool {
    const HALF: u32 = 1 << 31;
    process.start.wrapping_sub(start_key(about.start_boottime)) < HALF
}

/// Whether a process started then: /proc counts in ticks, the kernel's key in 2^20 ns, the same within one of each.
fn is_start(process: ProcessId, start_boottime: u64) -> bool {
    process.start.wrapping_sub(start_key(start_boottime)) <= start_key(tick()) + 1
}

/// Whether this process runs, and not another that got its pid.
pub fn is_running(process: ProcessId) -> bool {
    stat(process.pid).is_some_and(|stat| is_start(process, stat.start_ticks * tick()))
}

/// The text of a process's control groups; `None` if it has ended.
///
/// The hierarchies of version 1 show a thread that exits as one of the root, in which nobody put it. Where others of its
/// process still run, they say where it is.
pub fn cgroups(process: ProcessId) -> Option<String> {
    let of = |thread: &Path| {
        Some((
            fs::read_to_string(thread.join("cgroup")).ok()?,
            stat_of(thread)?,
        ))
    };
    // What is looked at last held until then: it was this process, and not another that got its pid, and it did not exit.
    let (text, stat) = of(&PathBuf::from(format!("/proc/{}", process.pid)))?;
    if !is_start(process, stat.start_ticks * tick()) {
        return None;
    }
    if !stat.is_exiting() {
        return Some(text);
    }
    let threads = fs::read_dir(proc(process.pid, "task")).ok()?.flatten();
    let mut others = threads.filter_map(|entry| of(&entry.path()));
    let (text, _) = others.find(|(_, stat)| !stat.is_exiting())?;
    is_running(process).then_some(text)
}

/// CPU time of all threads of a process, those that have ended included; `None` if it is gone. Without its memory, as
/// [`identify`].
pub fn cpu_time(process: ProcessId) -> Option<Duration> {
    let stat = stat(process.pid)?;
    is_start(process, stat.start_ticks * tick())
        .then(|| Duration::from_nanos(stat.cpu_ticks.saturating_mul(tick())))
}

/// Every process of the system.
pub fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

struct Stat {
    comm: Vec<u8>,
    parent: u32,
    /// `PF_*` of the kernel's `linux/sched.h`.
    flags: u64,
    /// In user mode and in the kernel.
    cpu_ticks: u64,
    start_ticks: u64,
}

impl Stat {
    const fn is_exiting(&self) -> bool {
        const PF_EXITING: u64 = 0x4;
        self.flags & PF_EXITING != 0
    }
}

fn stat(pid: u32) -> Option<Stat> {
    stat_of(&PathBuf::from(format!("/proc/{pid}")))
}

/// proc(5): /proc/PID/stat. The name is in parentheses and may contain any byte, parentheses included.
fn stat_of(directory: &Path) -> Option<Stat> {
    let bytes = fs::read(directory.join("stat")).ok()?;
    let (open, close) = (
        bytes.iter().position(|b| *b == b'(')?,
        bytes.iter().rposition(|b| *b == b')')?,
    );
    let rest = std::str::from_utf8(bytes.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Stat {
        comm: bytes.get(open + 1..close)?.to_vec(),
        parent: fields.get(1)?.parse().ok()?,
        flags: number(6)?,
        cpu_ticks: number(11)?.saturating_add(number(12)?),
        start_ticks: number(19)?,
    })
}

fn arguments(pid: u32) -> Vec<Vec<u8>> {
    let bytes = fs::read(proc(pid, "cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        vec![]
    } else {
        bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }
}

fn proc(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

/// Length of a clock tick, nanoseconds.
fn tick() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(ticks).unwrap_or(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described_and_not_mistaken() {
        let pid = std::process::id();
        let about = describe(pid).unwrap();
        assert!(about.exe.starts_with(b"/"));
        assert!(!about.args.is_empty());
        let start = start_key(about.start_boottime);
        assert!(is_of(&about, ProcessId { pid, start }));
        // A process of this pid that started at another time.
        assert!(!is_of(
            &about,
            ProcessId {
                pid,
                start: start.wrapping_sub(1000)
            }
        ));
        check(pid).unwrap();
    }

    #[test]
    fn cpu_time_is_that_of_the_process() {
        let pid = std::process::id();
        let start = start_key(identify(pid).unwrap().start_boottime);
        let process = ProcessId { pid, start };
        let before = cpu_time(process).unwrap();
        let busy = std::time::Instant::now();
        let mut spent = Duration::ZERO;
        while spent < 5 * Duration::from_nanos(tick()) {
            assert!(busy.elapsed() < Duration::from_secs(60), "{spent:?}");
            spent = cpu_time(process).unwrap() - before;
        }
        let start = start.wrapping_sub(1000);
        assert_eq!(cpu_time(ProcessId { pid, start }), None, "another process");
    }

    #[test]
    fn a_process_that_is_gone_is_named() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(matches!(check(pid), Err(TargetError::Gone(gone)) if gone == pid));
    }
}
