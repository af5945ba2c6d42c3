//! Runs `iotrace daemon` and asks its endpoint.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{run::wait_for, tool, turn};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running daemon; killed when it is dropped.
pub struct Daemon {
    pub child: Child,
    pub address: SocketAddr,
    stderr: BufReader<ChildStderr>,
}

/// One sample of an exposition.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A filesystem of its own, so that its mount point tells the test's files from all others of the machine.
pub struct Mounted {
    pub path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Mounted {
    pub fn new() -> Self {
        super::need_root();
        let (dir, path) = super::directory();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs"])
            .arg(&path)
            .status();
        assert!(
            status.expect("mount").success(),
            "a tmpfs cannot be mounted"
        );
        Self { path, _dir: dir }
    }

    pub fn name(&self) -> &str {
        self.path.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// `iotrace daemon` with a port of the kernel's choice, and maps that have room for what the rest of the machine does.
pub fn command() -> Command {
    super::need_root();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command
        .args([
            "daemon",
            "--listen",
            "127.0.0.1:0",
            "--map-entries",
            "32768",
        ])
        .env("IOTRACE_SOCKET", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// The capabilities that a unit or a drop-in of `deploy/systemd` gives, without `CAP_`, in lower case.
pub fn capabilities(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd");
    let text = fs::read_to_string(path.join(file)).expect("a file of deploy/systemd");
    let mut lines = text.lines();
    let names = lines.find_map(|line| line.strip_prefix("AmbientCapabilities="));
    let names = names.expect("the capabilities").split(' ');
    names
        .map(|name| name.trim_start_matches("CAP_").to_lowercase())
        .collect()
}

/// The program at a place that another user can reach.
pub struct Unprivileged {
    dir: tempfile::TempDir,
}

impl Unprivileged {
    /// Number of the user, which is not that of a front that may change its own.
    pub const SERVICE_UID: u32 = 4_712;

    pub fn new() -> Self {
        let mut builder = tempfile::Builder::new();
        let dir = builder.permissions(fs::Permissions::from_mode(0o755));
        let dir = dir.tempdir().expect("a directory");
        fs::copy(env!("CARGO_BIN_EXE_iotrace"), dir.path().join("iotrace")).expect("a copy");
        Self { dir }
    }

    /// `iotrace daemon` as the user, with these capabilities and no others.
    pub fn command(&self, capabilities: &[&String]) -> Command {
        let kept: String = capabilities
            .iter()
            .map(|name| format!(",+{name}"))
            .collect();
        let sets = ["inh-caps", "ambient-caps", "bounding-set"];
        let mut command = Command::new(tool("setpriv"));
        command
            .args([
                format!("--reuid={}", Self::SERVICE_UID),
                format!("--regid={}", Self::SERVICE_UID),
            ])
            .args(["--clear-groups", "--no-new-privs"])
            .args(sets.map(|set| format!("--{set}=-all{kept}")))
            .arg(self.dir.path().join("iotrace"))
            .arg("daemon")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

impl Daemon {
    pub fn start(command: &mut Command) -> Self {
        turn::share();
        let mut child = command.spawn().expect("iotrace starts");
        let stderr = child.stderr.take().expect("its standard error");
        let mut daemon = Self {
            child,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            stderr: BufReader::new(stderr),
        };
        let mut said = String::new();
        loop {
            let line = daemon.says();
            assert!(!line.is_empty(), "the daemon does not start:\n{said}");
            if let Some(address) = line.trim().strip_prefix("iotrace: listening on ") {
                daemon.address = address.parse().expect("an address");
                return daemon;
            }
            said.push_str(&line);
        }
    }

    /// The next line of its standard error.
    pub fn says(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("standard error");
        line
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ))
    }

    /// Sends a request as it is.
    pub fn ask(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("an answer");
        Answer::parse(&text)
    }

    /// All samples.
    pub fn scrape(&self) -> Vec<Sample> {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{}", answer.body);
        samples(&answer.body)
    }

    /// The pid of the front process.
    pub fn front(&self) -> u32 {
        let status: Value = serde_json::from_str(&self.get("/status").body).expect("JSON");
        let pid = status["usage"]["front"]["pid"].as_u64().expect("a pid");
        u32::try_from(pid).expect("a pid")
    }

    /// Scrapes until `is_enough`, which it says by what it returns.
    pub fn until<T>(&self, what: &str, mut is_enough: impl FnMut(&[Sample]) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let samples = self.scrape();
            if let Some(found) = is_enough(&samples) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "no {what}: {samples:#?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Ends it by a signal, and returns how it ended and what it said.
    pub fn end(mut self, signal: i32) -> (ExitStatus, String) {
        self.signal(signal);
        let status = wait_for(&mut self.child, PATIENCE);
        let mut said = String::new();
        let _ = self.stderr.read_to_string(&mut said);
        (status, said)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Where a test fails because the daemon has ended, what it said last is the reason.
        if std::thread::panicking()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let mut said = String::new();
            let _ = self.stderr.read_to_string(&mut said);
            eprintln!("the daemon has ended ({status}): {said}");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    pub fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (head, body) = text.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.expect("a status"),
            head: head.to_lowercase(),
            body: body.into(),
        }
    }
}

/// Reads an exposition whose labels have no escapes.
pub fn samples(text: &str) -> Vec<Sample> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}').expect("labels");
            let labels = labels
                .split("\",")
                .filter(|label| !label.is_empty())
                .map(|label| {
                    let (name, value) = label.split_once("=\"").expect("a label");
                    (name.to_owned(), value.trim_end_matches('"').to_owned())
                });
            Sample {
                name: name.into(),
                labels: labels.collect(),
                value: value.parse().expect("a number"),
            }
        })
        .collect()
}

/// Sum of the samples of one name that have all these labels.
pub fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    samples
        .iter()
        .filter(|sample| sample.name == name)
        .filter(|sample| {
            labels
                .iter()
                .all(|(name, value)| sample.label(name) == *value)
        })
        .map(|sample| sample.value)
        .sum()
}

/// Fails unless promtool has nothing to say against an exposition, not even against a name.
#[track_caller]
pub fn promtool_finds_no_fault(text: &str) {
    let mut promtool = Command::new(tool("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let out = promtool.wait_with_output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    assert!(
        out.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}
