//! Reads lines of source files as a traced process would.

use std::{fs::File, io::Read as _, os::fd::AsFd as _};

use iotrace_model::targets;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2},
    process::Gid,
    thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups},
};

use super::sources::Running;

/// A larger file has no text, bytes.
const MAX_FILE: u64 = 4 << 20;
/// Characters of a line that are kept.
const MAX_TEXT: usize = 200;
/// By what the start of a process in /proc is less exact than the kernel's, nanoseconds.
pub const START_SLACK_NS: u64 = 20_000_000;

/// A file as it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Text {
    /// Its last change, nanoseconds since the Unix epoch.
    pub changed: i64,
    pub bytes: Vec<u8>,
}

/// Why a line is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The process has ended.
    Ended,
    /// The file is missing, not the process's to read, no regular file, too large, or its lines are not understood.
    Refused,
}

/// The rights of a process on files.
#[derive(Debug, PartialEq, Eq)]
struct Rights {
    user: u32,
    group: u32,
    groups: Vec<u32>,
    /// Whether it may read every file.
    reads_all: bool,
}

/// The rights of this thread.
pub struct Reader {
    /// Those that it can still take.
    permitted: CapabilitySet,
    /// Its user and group at first.
    own: (u32, u32),
}

/// What the thread may need: to be another user, to see its root directory, to read as root does.
const NEEDED_CAPABILITIES: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH);
const CHANGES_USER: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

impl Reader {
    /// Gives up all other rights of the calling thread; `None` if that fails.
    pub fn new() -> Option<Self> {
        let permitted = capabilities(None).ok()?.permitted & NEEDED_CAPABILITIES;
        // SAFETY: they have no preconditions.
        let own = unsafe { (libc::geteuid(), libc::getegid()) };
        let reader = Self { permitted, own };
        reader.hold(permitted)?;
        Some(reader)
    }

    /// Makes these capabilities effective, and no others.
    fn hold(&self, effective: CapabilitySet) -> Option<()> {
        let sets = CapabilitySets {
            effective,
            permitted: self.permitted,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets).ok()
    }

    /// A file as the process sees it.
    pub fn read(&mut self, process: Running, file: &str) -> Result<Text, Failure> {
        self.hold(self.permitted).ok_or(Failure::Refused)?;
        let path = format!("/proc/{}/root", process.pid);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, flags, Mode::empty()).map_err(|_| Failure::Ended)?;
        let rights = Rights::of(process.pid).ok_or(Failure::Ended)?;
        // What was read before is of the process, if it is still the one with this pid.
        let about = targets::identify(process.pid).ok_or(Failure::Ended)?;
        if about.start_boottime.abs_diff(process.start) > START_SLACK_NS {
            return Err(Failure::Ended);
        }
        self.become_one(&rights).ok_or(Failure::Refused)?;
        let inside = file.trim_start_matches('/');
        let read = || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            // Without opening it: that of a device does something.
            let found = openat2(root.as_fd(), inside, flags, Mode::empty(), resolve).ok()?;
            let about = fstat(&found).ok()?;
            if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
                return None;
            }
            let found = format!(
                "/proc/thread-self/fd/{}",
                rustix::fd::AsRawFd::as_raw_fd(&found)
            );
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            text(File::from(open(found, flags, Mode::empty()).ok()?))
        };
        read().ok_or(Failure::Refused)
    }

    /// Takes a process's rights on files, and no others.
    fn become_one(&self, rights: &Rights) -> Option<()> {
        if self.permitted.contains(CHANGES_USER) {
            let groups: Vec<Gid> = rights.groups.iter().copied().map(Gid::from_raw).collect();
            set_thread_groups(&groups).ok()?;
            // SAFETY: plain calls, which change this thread alone and fail without an error.
            unsafe {
                libc::setfsgid(rights.group);
                libc::setfsuid(rights.user);
            }
            // SAFETY: an impossible id changes nothing, and tells the present one.
            let now = unsafe { (libc::setfsuid(u32::MAX), libc::setfsgid(u32::MAX)) };
            if now != (rights.user as i32, rights.group as i32) {
                return None;
            }
        } else if self.own != (rights.user, rights.group) {
            return None;
        }
        let mut held = CapabilitySet::empty();
        held.set(CapabilitySet::DAC_READ_SEARCH, rights.reads_all);
        self.hold(held & self.permitted)
    }
}

impl Rights {
    /// As /proc/PID/status has them (proc(5)).
    fn of(pid: u32) -> Option<Self> {
        let mut rights = Self::read(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)?;
        let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/user")).ok();
        // Root of another user namespace is none here.
        let is_own = namespace(&pid.to_string())? == namespace("thread-self")?;
        rights.reads_all &= is_own;
        Some(rights)
    }

    fn read(status: &str) -> Option<Self> {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        // Real, effective, saved, and of the filesystem.
        let id = |name| field(name)?.split_whitespace().nth(3)?.parse().ok();
        let groups = field("Groups:")?.split_whitespace().map(str::parse);
        let capabilities = u64::from_str_radix(field("CapEff:")?.trim(), 16).ok()?;
        let capabilities = CapabilitySet::from_bits_retain(capabilities);
        Some(Self {
            user: id("Uid:")?,
            group: id("Gid:")?,
            groups: groups.collect::<Result<_, _>>().ok()?,
            reads_all: capabilities
                .intersects(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH),
        })
    }
}

fn text(mut file: File) -> Option<Text> {
    let mut bytes = Vec::new();
    let limit = MAX_FILE + 1;
    file.by_ref().take(limit).read_to_end(&mut bytes).ok()?;
    let about = fstat(&file).ok()?;
    if bytes.len() as u64 > MAX_FILE {
        return None;
    }
    let time = |seconds: i64, ns: i64| seconds.checked_mul(1_000_000_000)?.checked_add(ns);
    let modified = time(about.st_mtime as i64, about.st_mtime_nsec as i64)?;
    // It cannot be set to another time, and a file that is renamed to this name has it, too.
    let changed = time(about.st_ctime as i64, about.st_ctime_nsec as i64)?;
    Some(Text {
        changed: modified.max(changed),
        bytes,
    })
}

/// The line and those next to it; none where the file has no such line, or ends lines by carriage returns alone.
pub fn lines_around(bytes: &[u8], line: u32) -> Option<Vec<(u32, String)>> {
    let text = String::from_utf8_lossy(bytes);
    let first = line.checked_sub(1)?.max(1);
    let numbered = (1..).zip(text.lines());
    let chosen = numbered.skip_while(|(number, _)| *number < first);
    let chosen = chosen.take_while(|(number, _)| *number <= line.saturating_add(1));
    let lines: Vec<(u32, &str)> = chosen.collect();
    let has_return = text.replace("\r\n", "\n").contains('\r');
    if has_return || !lines.iter().any(|(number, _)| *number == line) {
        return None;
    }
    let cut = |text: &str| text.trim_end().chars().take(MAX_TEXT).collect();
    let lines = lines.into_iter().map(|(number, text)| (number, cut(text)));
    Some(lines.collect())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, chown, symlink},
        process::{Child, Command, Stdio},
        thread,
    };

    use super::*;

    #[test]
    fn lines_are_those_of_the_file() {
        let of = |text: &str, line| lines_around(text.as_bytes(), line);
        let named = |lines: &[(u32, &str)]| {
            let lines = lines
                .iter()
                .map(|(number, text)| (*number, (*text).to_owned()));
            Some(lines.collect::<Vec<_>>())
        };
        assert_eq!(of("a\nb\nc\nd", 1), named(&[(1, "a"), (2, "b")]));
        assert_eq!(
            of("a\n\n  c\nd", 3),
            named(&[(2, ""), (3, "  c"), (4, "d")])
        );
        assert_eq!(of("a\r\nb\r\n", 2), named(&[(1, "a"), (2, "b")]));
        // A form feed is none that ends a line for Python.
        assert_eq!(of("\x0ca\nb", 2), named(&[(1, "\x0ca"), (2, "b")]));
        assert_eq!(of("a\nb\n", 3), None, "behind the end");
        assert_eq!(of("a\nb\n", 0), None);
        assert_eq!(of("a\rb\nc", 2), None, "numbered differently by Python");
        let long = of(&"é".repeat(1000), 1).unwrap();
        assert_eq!(long, [(1, "é".repeat(MAX_TEXT))]);
    }

    #[test]
    fn rights_are_those_on_files() {
        let status =
            "Uid:\t1\t2\t3\t1000\nGid:\t1\t2\t3\t100\nGroups:\t4 24 \nCapEff:\t0000000000000002\n";
        let rights = Rights::read(status).unwrap();
        assert_eq!((rights.user, rights.group), (1000, 100));
        assert_eq!((rights.groups, rights.reads_all), (vec![4, 24], true));
        let plain = status.replace("0000000000000002", "00000000fffffff9");
        assert!(!Rights::read(&plain).unwrap().reads_all);
        assert_eq!(Rights::read("Uid:\t1\n"), None);
    }

    /// A process of this user that sleeps until its input ends.
    fn sleeper(user: u32) -> (Child, Running) {
        let mut command = Command::new("setpriv");
        let id = user.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "cat"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let child = child.expect("setpriv, and root");
        let pid = child.id();
        let start = targets::identify(pid).unwrap().start_boottime;
        // Until it is that user, and has left its privileges.
        while Rights::of(pid)
            .is_none_or(|rights| rights.user != user || rights.reads_all != (user == 0))
        {
            thread::yield_now();
        }
        (child, Running { pid, start })
    }

    /// On a separate thread, which gives up its rights.
    fn read(process: Running, file: &str) -> Result<Vec<u8>, Failure> {
        let file = file.to_owned();
        let read = move || {
            Reader::new()
                .unwrap()
                .read(process, &file)
                .map(|text| text.bytes)
        };
        thread::spawn(read).join().unwrap()
    }

    #[test]
    fn a_file_is_read_with_the_rights_of_the_process() {
        const USER: u32 = 54321;
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let make = |name: &str, mode: u32, owner: u32| {
            let path = directory.path().join(name);
            fs::write(&path, format!("{name}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
            path.into_os_string().into_string().unwrap()
        };
        let (open, own) = (make("open.py", 0o644, 0), make("own.py", 0o600, USER));
        let (roots, hidden) = (make("roots.py", 0o600, 0), make("hidden.py", 0o000, USER));
        let link = directory.path().join("link.py");
        symlink(&roots, &link).unwrap();
        let link = link.to_str().unwrap();
        let (mut user, process) = sleeper(USER);
        let (mut root, of_root) = sleeper(0);
        for file in [&open, &own] {
            let name = file.rsplit('/').next().unwrap();
            assert_eq!(read(process, file), Ok(format!("{name}\n").into_bytes()));
        }
        let device = "/dev/zero";
        let directory_name = directory.path().to_str().unwrap();
        for file in [
            &roots,
            &hidden,
            link,
            "/etc/shadow",
            device,
            directory_name,
            "/none",
        ] {
            assert_eq!(read(process, file), Err(Failure::Refused), "{file}");
        }
        for file in [&open, &own, &roots, &hidden, link] {
            assert!(read(of_root, file).is_ok(), "{file}");
        }
        // What root may see of this process, and a process that only seems to be the same.
        let environment = format!("/proc/{}/environ", std::process::id());
        assert_eq!(read(process, &environment), Err(Failure::Refused));
        let other = Running {
            start: process.start + 1_000_000_000,
            ..process
        };
        assert_eq!(read(other, &open), Err(Failure::Ended));
        for child in [&mut user, &mut root] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert_eq!(read(process, &open), Err(Failure::Ended));
    }
}
