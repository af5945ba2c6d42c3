//! Who asks, by what the kernel says of the other end of the socket, and which processes they may ask about.

use std::{
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::net::{SocketAddr, UnixStream},
    },
};

use iotrace_common::rights::{INITIAL_NAMESPACE, Rights};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::protocol::{Code, Refusal};
use iotrace_model::targets;

/// socket(7); the C library of the oldest machines does not name it.
const SO_PEERPIDFD: i32 = 77;

/// The other end of a connection, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pid: u32,
    pub rights: Rights,
}

impl Peer {
    /// Who is at the other end. Whoever is of another pid namespace is refused: pids mean other processes there, and
    /// user ids may be other people's.
    pub fn of(stream: &UnixStream) -> Result<Self, Refusal> {
        let cred = credentials(stream)?;
        let process = Process::connected_to(stream, cred.pid as u32)?;
        let rights = targets::rights(process.pid);
        let peer = Self {
            pid: process.pid,
            rights: as_connected(&cred, rights),
        };
        let depth = |pid: &str| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            field(&status, "NSpid:").map_or(0, |pids| pids.split_whitespace().count())
        };
        if depth(&peer.pid.to_string()) != depth("self") || !process.is_there() {
            return Err(Refusal::new(
                Code::Denied,
                "the service answers only processes of its own pid namespace, not such in containers",
            ));
        }
        Ok(peer)
    }

    /// Whether this user may ask about every process.
    pub fn is_root(self) -> bool {
        self.rights.uid == 0
    }

    /// Whether this user may ask about a process, by the rule of ptrace(2) ([`Rights::are_open_to`]).
    pub fn check(self, process: &Process) -> Result<(), Refusal> {
        let pid = process.pid;
        let gone = || {
            Refusal::new(
                Code::Gone,
                format!("process {pid} is not there, or has ended"),
            )
        };
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| gone())?;
        let tgid = field(&status, "Tgid:").and_then(|text| text.trim().parse().ok());
        let rights = targets::rights(pid).ok_or_else(gone)?;
        // All of this was of the process that is meant, if that has not ended meanwhile.
        if !process.is_there() {
            return Err(gone());
        }
        if tgid != Some(pid) {
            return Err(Refusal::new(
                Code::BadRequest,
                format!("{pid} is a thread: give its process, {}", tgid.unwrap_or(0)),
            ));
        }
        let rights = with_known_namespace(rights);
        if self.is_root() || rights.are_open_to(&self.rights) {
            return Ok(());
        }
        let why = if rights.uid == self.rights.uid {
            "runs with other rights than its user's"
        } else {
            "belongs to another user"
        };
        Err(Refusal::new(
            Code::Denied,
            format!("process {pid} {why}: only root may trace it"),
        ))
    }
}

/// The rights of a client whose process has these by now. It may have begun another program since it connected: what it may
/// do beyond its user counts only where it is sure that the program is its user's.
fn as_connected(cred: &libc::ucred, now: Option<Rights>) -> Rights {
    let own = Rights {
        gid: cred.gid,
        ..Rights::of_user(cred.uid)
    };
    let Some(now) = now else { return own };
    let same = Rights {
        capabilities: now.capabilities,
        namespace: now.namespace,
        ..own
    };
    match now.namespace != 0 && now.are_open_to(&same) {
        true => same,
        false => Rights {
            namespace: known_namespace(&now),
            ..own
        },
    }
}

/// The user namespace; one that may not be seen is taken for the initial one, where capabilities mean most.
fn known_namespace(rights: &Rights) -> u32 {
    match rights.namespace {
        0 => INITIAL_NAMESPACE,
        known => known,
    }
}

/// The same rights, with the user namespace that is taken for one that may not be seen.
pub fn with_known_namespace(rights: Rights) -> Rights {
    Rights {
        namespace: known_namespace(&rights),
        ..rights
    }
}

/// The user at the other end.
pub fn user(stream: impl AsFd) -> Result<u32, Refusal> {
    Ok(credentials(stream)?.uid)
}

/// Whether this is a connection that was accepted at the socket with this address. The peer of any other socket may be a
/// process that never sent a request.
pub fn was_accepted(stream: &UnixStream, at: &SocketAddr) -> bool {
    let is_connection = sockopt::socket_domain(stream) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(stream) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(stream) == Ok(false);
    let address = stream.local_addr().ok();
    is_connection && address.is_some_and(|own| own.as_pathname() == at.as_pathname())
}

/// A process that is held by its descriptor, so that its pid is not taken for another's that got it later.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    fd: OwnedFd,
}

impl Process {
    /// The process that connected, which had this pid. From Linux 6.5 on the kernel provides its descriptor; before that, it
    /// is the process that has the pid now.
    fn connected_to(stream: &UnixStream, pid: u32) -> Result<Self, Refusal> {
        let mut fd: RawFd = -1;
        match socket_option(stream, SO_PEERPIDFD, &mut fd) {
            Ok(()) => {
                // SAFETY: the kernel has created it for this process.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                Ok(Self { pid, fd })
            }
            // Process 0 is one that has no number here.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::open(pid),
            Err(_) => Err(Refusal::new(
                Code::Gone,
                format!("process {pid}, which connected, has ended"),
            )),
        }
    }

    /// The process that has this pid now.
    pub fn open(pid: u32) -> Result<Self, Refusal> {
        // SAFETY: a plain call; the descriptor that it returns is new and owned here.
        let fd = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
            if fd < 0 {
                let error = io::Error::last_os_error();
                let code = match error.raw_os_error() {
                    // A thread that does not lead its process: the one or the other, by the kernel's version.
                    Some(libc::ENOENT | libc::EINVAL) => Code::BadRequest,
                    Some(libc::ESRCH) => Code::Gone,
                    _ => Code::Failed,
                };
                let message = match code {
                    Code::BadRequest => format!("{pid} is no process, but may be a thread of one"),
                    Code::Gone => format!("process {pid} is not there, or has ended"),
                    _ => format!("process {pid} cannot be held: {error}"),
                };
                return Err(Refusal::new(code, message));
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        Ok(Self { pid, fd })
    }

    /// Whether it still runs; its pid is its own as long as it does.
    pub fn is_there(&self) -> bool {
        let mut watched = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, alive for the call, which does not wait. The descriptor becomes readable at its end.
        unsafe { libc::poll(&raw mut watched, 1, 0) == 0 }
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

fn credentials(stream: impl AsFd) -> Result<libc::ucred, Refusal> {
    let mut cred = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    match socket_option(stream, libc::SO_PEERCRED, &mut cred) {
        Ok(()) => Ok(cred),
        Err(error) => Err(Refusal::new(
            Code::Denied,
            format!("the kernel does not say who you are: {error}"),
        )),
    }
}

/// Reads an option of a socket into a value of plain integers.
fn socket_option<T: Copy>(stream: impl AsFd, option: i32, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most the length of the value, which and whose length live here.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut *value).cast(),
            &raw mut length,
        )
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{net::UnixListener, process::CommandExt as _};

    use super::*;

    /// An ordinary user, with a group of the same number.
    const fn user(uid: u32) -> Peer {
        Peer {
            pid: 1,
            rights: Rights::of_user(uid),
        }
    }

    #[test]
    fn a_process_with_more_rights_than_its_user_is_denied() {
        const USER: u32 = 61_235;
        let check = |peer: Peer, options: &[&str]| {
            let mut child = std::process::Command::new("setpriv")
                .args(["--reuid", "61235", "--clear-groups"])
                .args(options)
                .args(["sleep", "60"])
                .process_group(0)
                .spawn()
                .unwrap();
            let process = Process::open(child.id()).unwrap();
            let comm = format!("/proc/{}/comm", child.id());
            while fs::read_to_string(&comm).unwrap() != "sleep\n" {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let checked = peer.check(&process).map_err(|refusal| refusal.code);
            child.kill().unwrap();
            child.wait().unwrap();
            checked
        };
        let own_group = ["--regid", "61235"];
        assert_eq!(check(user(USER), &own_group), Ok(()));
        let other_group = ["--rgid", "61235", "--egid", "61236"];
        assert_eq!(check(user(USER), &other_group), Err(Code::Denied));
        let capability = [
            "--regid",
            "61235",
            "--inh-caps",
            "+dac_read_search",
            "--ambient-caps",
            "+dac_read_search",
        ];
        assert_eq!(check(user(USER), &capability), Err(Code::Denied));
        let capable = Peer {
            rights: Rights {
                capabilities: 1 << 2,
                ..Rights::of_user(USER)
            },
            ..user(USER)
        };
        assert_eq!(check(capable, &capability), Ok(()));
    }

    #[test]
    fn knows_who_is_at_the_other_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.pid, std::process::id());
        peer.check(&Process::open(peer.pid).unwrap()).unwrap();
    }

    #[test]
    fn only_an_accepted_connection_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let at = listener.local_addr().unwrap();
        let client = UnixStream::connect(dir.path().join("socket")).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(was_accepted(&accepted, &at));
        let (pair, _other) = UnixStream::pair().unwrap();
        let another = UnixListener::bind(dir.path().join("another")).unwrap();
        let _client = UnixStream::connect(dir.path().join("another")).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let file = fs::File::open("/proc/self/stat").unwrap();
        let others: [OwnedFd; 6] = [
            client.into(),
            pair.into(),
            listener.into(),
            another.accept().unwrap().0.into(),
            tcp.into(),
            file.into(),
        ];
        for (index, other) in others.into_iter().enumerate() {
            assert!(!was_accepted(&UnixStream::from(other), &at), "{index}");
        }
    }

    #[test]
    fn another_users_process_is_denied() {
        let peer = user(61_234);
        let own = Process::open(std::process::id()).unwrap();
        assert_eq!(peer.check(&own).unwrap_err().code, Code::Denied);
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(process.is_there());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process.is_there());
        let peer = user(0);
        assert_eq!(peer.check(&process).unwrap_err().code, Code::Gone);
        assert_eq!(Process::open(child.id()).unwrap_err().code, Code::Gone);
    }
}
