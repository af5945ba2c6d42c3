//! A service with a socket, and users who have nothing to do with each other.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixStream,
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Iotrace, daemon::Daemon};

/// Users without a name or a privilege.
pub const USER: u32 = 61_001;
pub const OTHER: u32 = 61_002;

/// A process, killed when it is dropped.
pub struct Process(pub Child);

impl Process {
    pub fn new(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// One of a user's, which does nothing for longer than a test lasts.
    pub fn of(uid: u32) -> Self {
        Self::new(Command::new("sleep").arg("300").uid(uid).gid(uid))
    }

    /// A shell of a user's.
    pub fn shell(uid: u32, home: &Path, script: &str) -> Self {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(home);
        Self::new(command.uid(uid).gid(uid))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Service {
    pub daemon: Daemon,
    pub socket: PathBuf,
    /// Where every user may run it.
    pub iotrace: PathBuf,
    pub workload: PathBuf,
    dir: TempDir,
}

impl Service {
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    pub fn start_with(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let socket = dir.path().join("socket");
        let place = |name: &str, from: &Path| {
            let to = dir.path().join(name);
            fs::hard_link(from, &to)
                .or_else(|_| fs::copy(from, &to).map(drop))
                .unwrap();
            to
        };
        let iotrace = place("iotrace", Path::new(env!("CARGO_BIN_EXE_iotrace")));
        let workload = place("workload", &common::workload());
        let mut command = common::daemon::command();
        command.arg("--socket").arg(&socket);
        command.env("IOTRACE_SOCKET_GROUP", "*").args(args);
        command.envs(environment.iter().copied());
        Self {
            daemon: Daemon::start(&mut command),
            socket,
            iotrace,
            workload,
            dir,
        }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A directory of a user's own.
    pub fn home(&self, uid: u32) -> TempDir {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap();
        chown(dir.path(), Some(uid), Some(uid)).unwrap();
        dir
    }

    /// `iotrace record` of a user, or of root, through the service.
    pub fn record(&self, uid: u32) -> Iotrace {
        match uid {
            0 => Iotrace::bare().env("IOTRACE_SOCKET", self.socket.to_str().unwrap()),
            uid => Iotrace::of_user(&self.iotrace, uid, &self.socket),
        }
    }

    /// `iotrace` of a user.
    pub fn command(&self, uid: u32) -> Command {
        let mut command = Command::new(&self.iotrace);
        command
            .uid(uid)
            .gid(uid)
            .stdin(Stdio::null())
            .current_dir("/tmp");
        command
    }

    /// A connection of a user's, which this process holds.
    pub fn connect(&self, uid: u32) -> UnixStream {
        self.try_connect(uid).unwrap()
    }

    /// The same, where it may be refused.
    pub fn try_connect(&self, uid: u32) -> io::Result<UnixStream> {
        let socket = self.socket.clone();
        let connect = move || {
            // SAFETY: the raw call changes the ids of this thread alone, which is about to end.
            let failed = unsafe {
                libc::syscall(libc::SYS_setresgid, uid, uid, uid)
                    + libc::syscall(libc::SYS_setresuid, uid, uid, uid)
            };
            assert_eq!(failed, 0);
            UnixStream::connect(socket)
        };
        let stream = std::thread::spawn(connect).join().unwrap()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Ok(stream)
    }

    /// Everything that is answered to a user who says this.
    pub fn ask(&self, uid: u32, say: &str) -> String {
        loop {
            let mut stream = self.connect(uid);
            // Who is refused at the door need not be listened to.
            let _ = stream.write_all(say.as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            let answer = String::from_utf8_lossy(&answer).into_owned();
            // Starts are bounded in number by time, also those that are refused.
            if !answer.contains("try again in") {
                return answer;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// `/status`.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.daemon.get("/status").body).unwrap()
    }

    /// Waits until so many recordings run.
    #[track_caller]
    pub fn until_running(&self, count: u64) {
        let started = Instant::now();
        loop {
            let recordings = &self.status()["recordings"];
            if recordings["running"] == count {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{recordings}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until as many descriptors are open as were before, but for those that come and go with what it reads.
    #[track_caller]
    pub fn until_as_before(&self, before: u64) {
        let started = Instant::now();
        loop {
            let (now, _) = self.usage();
            if now <= before + 2 {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "{before} descriptors, then {now}: {:?}",
                self.descriptors()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// What the service's two processes have open.
    pub fn descriptors(&self) -> Vec<PathBuf> {
        let pids = [self.daemon.child.id(), self.daemon.front()];
        let open = pids
            .into_iter()
            .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).expect("a service that runs"));
        open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .collect()
    }

    /// Resident bytes of the front process.
    pub fn front_memory(&self) -> u64 {
        let resident = &self.status()["usage"]["front"]["resident_bytes"];
        resident.as_u64().unwrap()
    }

    /// Open descriptors and resident bytes of the service's two processes.
    pub fn usage(&self) -> (u64, u64) {
        let usage = &self.status()["usage"];
        let resident = |of: &Value| of["resident_bytes"].as_u64().unwrap();
        let resident = resident(usage) + resident(&usage["front"]);
        (self.descriptors().len() as u64, resident)
    }
}

/// A request for a recording of these processes, of which more is kept than of all.
pub fn record(pids: &[u32]) -> String {
    request(pids, "basic", true, false)
}

/// The same of what is kept of all.
pub fn share(pids: &[u32]) -> String {
    request(pids, "basic", false, false)
}

/// The same at detail full.
pub fn share_full(pids: &[u32]) -> String {
    request(pids, "full", true, false)
}

/// The same of what is kept of all, and how long operations took.
pub fn share_latencies(pids: &[u32]) -> String {
    request(pids, "basic", false, true)
}

fn request(pids: &[u32], detail: &str, negative_lookups: bool, latencies: bool) -> String {
    let record = serde_json::json!({
        "abi": iotrace_common::ABI_VERSION,
        "detail": detail,
        "follow": true,
        "negative_lookups": negative_lookups,
        "cpu": negative_lookups,
        "latencies": latencies,
        "pids": pids,
    });
    format!("{}\n", serde_json::json!({"iotrace": 1, "record": record}))
}
