//! The front process: that it has no privileges, and that the service counts on without it.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixDatagram,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    self,
    daemon::{self, Daemon, Mounted, Unprivileged, sum},
};

/// How long a front may take to come back; the machine may be busy.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a silent front is waited for, with some room.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// A field of the status of a process or thread, by its path in /proc.
fn field(of: &str, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{of}/status")).expect("a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a field")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a process that the test's daemon has not waited for.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Stops a process, and waits until all its threads have stopped.
fn stop(pid: u32) {
    signal(pid, libc::SIGSTOP);
    let started = Instant::now();
    let is_stopped =
        |thread: &str| field(&format!("{pid}/task/{thread}"), "State").starts_with('T');
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    while !threads().all(|thread| {
        is_stopped(
            thread
                .expect("a thread")
                .file_name()
                .to_str()
                .expect("a number"),
        )
    }) {
        assert!(started.elapsed() < RESTART_TIMEOUT, "it does not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes lines of two bytes without a pause, as a job, until it is told to end.
struct Writer(Child);

impl Writer {
    fn start(mounted: &Mounted, job: &str) -> Self {
        let script = "while read -t 0; [ $? -ne 0 ] || ! read -r; do echo x; done >\"$1\"";
        let mut command = Command::new(common::tool("bash"));
        command
            .args(["-c", script, "bash"])
            .arg(mounted.path.join(job));
        command.env("SLURM_JOB_ID", job).stdin(Stdio::piped());
        Self(command.spawn().expect("bash"))
    }

    /// Ends it, and returns the bytes that it has written.
    fn end(mut self, mounted: &Mounted, job: &str) -> f64 {
        let mut stdin = self.0.stdin.take().expect("its input");
        stdin.write_all(b"end\n").expect("a line");
        assert!(self.0.wait().expect("bash").success());
        fs::metadata(mounted.path.join(job))
            .expect("its file")
            .len() as f64
    }
}

/// Waits until the metrics have exactly these bytes of a job, and nothing was lost.
fn counted(daemon: &Daemon, job: &str, bytes: f64) {
    let unit = format!("slurm:{job}");
    let labels = [("unit", unit.as_str()), ("operation", "write")];
    let samples = daemon.until("all bytes of the job", |samples| {
        let written = sum(samples, "iotrace_bytes_total", &labels);
        assert!(written <= bytes, "{written} of {bytes}");
        (written == bytes).then(|| samples.to_vec())
    });
    let lost = [("kind", "lost")];
    assert_eq!(sum(&samples, "iotrace_unaccounted_total", &lost), 0.0);
}

/// Waits until a front has ended: from then on connections wait for the next one.
fn until_gone(front: u32) {
    let started = Instant::now();
    // One whose parent has ended may be a zombie for a while.
    let lives = || {
        let status = fs::read_to_string(format!("/proc/{front}/status"));
        status.is_ok_and(|status| !status.contains("\nState:\tZ"))
    };
    while lives() {
        assert!(started.elapsed() < RESTART_TIMEOUT, "it lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The pid of the front after another one.
fn restarted(daemon: &Daemon, before: u32) -> u32 {
    let started = Instant::now();
    loop {
        let pid = daemon.front();
        if pid != before {
            return pid;
        }
        assert!(started.elapsed() < RESTART_TIMEOUT, "no other front");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_front_has_no_privileges() {
    let mut command = daemon::command();
    let (_dir, path) = common::directory();
    command.arg("--socket").arg(path.join("socket"));
    let daemon = Daemon::start(&mut command);
    let front = daemon.front();
    let tasks = fs::read_dir(format!("/proc/{front}/task")).expect("its threads");
    let mut threads = 0;
    for task in tasks {
        let name = task.expect("a thread").file_name();
        let thread = format!("{front}/task/{}", name.to_str().expect("a number"));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(field(&thread, set), "0000000000000000", "{set}");
        }
        assert_eq!(field(&thread, "NoNewPrivs"), "1");
        assert_eq!(field(&thread, "Seccomp"), "2");
        for ids in ["Uid", "Gid"] {
            assert_eq!(field(&thread, ids), "65534 65534 65534 65534");
        }
        assert_eq!(field(&thread, "Groups"), "");
        threads += 1;
    }
    assert_eq!(threads, 2, "one serves and one checks passwords");
    assert_eq!(field(&front.to_string(), "Name"), "iotrace-front");
    // Not dumpable: all in its directory is root's.
    let limits = fs::read_to_string(format!("/proc/{front}/limits")).expect("its limits");
    let core = limits.lines().find(|line| line.starts_with("Max core"));
    assert!(core.is_some_and(|line| line.contains(" 0 ")), "{limits}");
    let open = fs::read_dir(format!("/proc/{front}/fd")).expect("its descriptors");
    for entry in open {
        let Ok(to) = fs::read_link(entry.expect("a descriptor").path()) else {
            continue;
        };
        let to = to.to_string_lossy().into_owned();
        let is_expected = ["socket:", "anon_inode:", "pipe:", "/dev/null"]
            .iter()
            .any(|kind| to.starts_with(kind));
        assert!(is_expected, "{to}");
        assert!(!to.contains("bpf") && !to.contains("perf"), "{to}");
    }
    // The tracer keeps what it needs.
    let tracer = daemon.child.id().to_string();
    assert_ne!(field(&tracer, "CapEff"), "0000000000000000");
}

#[test]
fn a_front_ends_with_a_service_of_another_user() {
    let program = Unprivileged::new();
    let files = ["iotrace.service", "job-logs.conf"];
    let capabilities = files.map(daemon::capabilities).concat();
    let mut command = program.command(&capabilities.iter().collect::<Vec<_>>());
    command.args(["--listen", "127.0.0.1:0", "--map-entries", "4096"]);
    let mut daemon = Daemon::start(&mut command);
    let front = daemon.front();
    assert_eq!(field(&front.to_string(), "Uid"), "65534 65534 65534 65534");
    stop(front);
    daemon.child.kill().expect("the service");
    daemon.child.wait().expect("its end");
    until_gone(front);
}

#[test]
fn a_killed_front_comes_back_and_no_count_is_lost() {
    let (_dir, path) = common::directory();
    let config = path.join("iotrace.toml");
    let hash = bcrypt::hash("s3cret", 4).unwrap();
    fs::write(&config, format!("[http.users]\nada = \"{hash}\"\n")).unwrap();
    let mounted = Mounted::new();
    let mut command = daemon::command();
    command.arg("--config").arg(&config);
    let mut daemon = Daemon::start(&mut command);
    // The settings of the start and those of a reload are those of each front after it.
    assert_eq!(daemon.get("/metrics").status, 401);
    fs::write(&config, "").unwrap();
    daemon.signal(libc::SIGHUP);
    assert!(daemon.says().contains("reloaded"));
    let writer = Writer::start(&mounted, "5242");
    let mut front = daemon.front();
    for number in 1..=3 {
        signal(front, libc::SIGKILL);
        until_gone(front);
        assert_eq!(daemon.get("/healthz").body, "ok\n");
        front = restarted(&daemon, front);
        let restarts = sum(&daemon.scrape(), "iotrace_front_restarts_total", &[]);
        assert_eq!(restarts, f64::from(number));
        let said = daemon.says();
        assert!(
            said.contains("started again") && said.contains("signal: 9"),
            "{said}"
        );
    }
    let bytes = writer.end(&mounted, "5242");
    counted(&daemon, "5242", bytes);
    let samples = daemon.scrape();
    assert!(sum(&samples, "iotrace_front_resident_memory_bytes", &[]) > 1e6);
    let (status, _) = daemon.end(libc::SIGTERM);
    assert_eq!(status.code(), Some(0));
    assert!(
        fs::metadata(format!("/proc/{front}")).is_err(),
        "it has ended, too"
    );
}

#[test]
fn a_stopped_front_does_not_disturb_the_counting() {
    let (_dir, path) = common::directory();
    let socket = UnixDatagram::bind(path.join("notify")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let mounted = Mounted::new();
    let mut command = daemon::command();
    command
        .env("NOTIFY_SOCKET", path.join("notify"))
        .env("WATCHDOG_USEC", "400000");
    let mut daemon = Daemon::start(&mut command);
    let front = daemon.front();
    let writer = Writer::start(&mounted, "5277");
    stop(front);
    // The tracer hears of a reload, too, and looks at its data all the time.
    daemon.signal(libc::SIGHUP);
    let stopped = Instant::now();
    let mut signs = 0;
    let mut longest = Duration::ZERO;
    let mut last = Instant::now();
    while fs::metadata(format!("/proc/{front}")).is_ok() {
        assert!(
            stopped.elapsed() < SILENCE_TIMEOUT,
            "it is still waited for"
        );
        let mut buffer = [0; 4096];
        if let Ok(length) = socket.recv(&mut buffer) {
            if buffer[..length].starts_with(b"WATCHDOG=1") {
                signs += 1;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(
        signs > 10 && longest < Duration::from_secs(10),
        "{signs}, {longest:?}"
    );
    let bytes = writer.end(&mounted, "5277");
    restarted(&daemon, front);
    counted(&daemon, "5277", bytes);
    let mut said = daemon.says();
    said.push_str(&daemon.says());
    assert!(
        said.contains("does not answer") && said.contains("reloaded"),
        "{said}"
    );
}

#[test]
fn a_tracer_that_does_not_answer_is_not_waited_for() {
    let daemon = Daemon::start(&mut daemon::command());
    assert_eq!(daemon.get("/healthz").status, 200);
    stop(daemon.child.id());
    let started = Instant::now();
    let health = daemon.get("/healthz");
    assert_eq!((health.status, health.body.as_str()), (503, "stalled\n"));
    for path in ["/metrics", "/status"] {
        assert_eq!(daemon.get(path).status, 503, "{path}");
    }
    assert!(
        started.elapsed() < Duration::from_secs(25),
        "{:?}",
        started.elapsed()
    );
    daemon.signal(libc::SIGCONT);
    daemon.until("an answer", |_| Some(()));
    assert_eq!(daemon.get("/healthz").body, "ok\n");
}

#[test]
fn the_front_ends_with_a_tracer_that_is_killed() {
    let mut daemon = Daemon::start(&mut daemon::command());
    let front = daemon.front();
    stop(front);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    until_gone(front);
}

#[test]
fn nobody_starts_a_front_by_hand() {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("front")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("run `iotrace daemon`"), "{said}");
    let mut help = String::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("--help")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut help).unwrap();
    child.wait().unwrap();
    assert!(!help.contains("front"), "{help}");
}
