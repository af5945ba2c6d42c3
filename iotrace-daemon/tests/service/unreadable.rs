//! A process whose memory nobody can read, because it holds its mmap_lock: the service goes on without it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    self,
    daemon::{self, Daemon, sum},
    slow::{Slow, Speed},
    tool,
};

/// How long the filesystem takes to read one page.
const HELD: Duration = Duration::from_secs(30);
/// How long any answer of the service may take meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// One thread reads its own memory where a file is mapped: the kernel holds the lock for reading until the page is there.
/// Another maps something and waits for the lock, and so bars all further readers. The first goes on with some I/O.
const HOLD: &str = r#"
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
address = libc.mmap(None, 4096, 1, 2, file, 0)
memory = os.open("/proc/self/mem", os.O_RDONLY)
def read():
    time.sleep(0.4)
    os.pread(memory, 1, address)
def wait():
    time.sleep(0.8)
    libc.mmap(None, 4096, 1, 0x22, -1, 0)
# A thread's stack is mapped, so both are there before the lock is held.
for work in wait, read:
    threading.Thread(target=work, daemon=True).start()
time.sleep(1.2)
os.write(1, b"held\n")
while True:
    os.write(out, b"x")
    time.sleep(0.05)
"#;

struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Holder {
    fn start(file: &std::path::Path, out: &std::path::Path) -> Self {
        let mut child = Command::new(tool("python3"))
            .args(["-c", HOLD])
            .args([file, out])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut said).unwrap();
        assert_eq!(said, "held\n");
        Self(child)
    }
}

/// Fails unless the service answers at once.
fn answers(daemon: &Daemon) {
    for page in ["/healthz", "/metrics"] {
        let started = Instant::now();
        assert_eq!(daemon.get(page).status, 200, "{page}");
        let took = started.elapsed();
        assert!(took < ANSWER_TIMEOUT, "{page} took {took:?}");
    }
}

#[test]
fn a_process_that_holds_its_memory_stops_nothing() {
    common::need_root();
    let (_dir, path) = common::directory();
    // The file has one page.
    let read = HELD * 256;
    let speed = Speed {
        read,
        is_cached: true,
        ..Speed::default()
    };
    let slow = Slow::mount(&path.join("slow"), &[("page", 4096, speed)], speed);
    let holder = Holder::start(&path.join("slow/page"), &path.join("out"));
    let held = Instant::now();
    let socket = path.join("socket");
    let mut command = daemon::command();
    command.env("IOTRACE_SOCKET", &socket);
    // It is there before the service, which therefore wants to read its environment.
    let daemon = Daemon::start(&mut command);
    let started = Instant::now();
    let given_up = loop {
        answers(&daemon);
        let samples = daemon.scrape();
        let given_up = sum(&samples, "iotrace_given_up_reads_total", &[]);
        let drains = sum(&samples, "iotrace_drains_total", &[]);
        if given_up > 0.0 && drains > 3.0 {
            break given_up;
        }
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{drains} drains"
        );
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(given_up, 1.0, "it is not asked again");
    // On demand.
    let pid = holder.0.id().to_string();
    let mut snapshot = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["snapshot", "--socket"])
        .arg(&socket)
        .args(["--pid", &pid])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(500));
    answers(&daemon);
    let status = common::run::wait_for(&mut snapshot, ANSWER_TIMEOUT);
    assert!(status.success(), "{status}");
    answers(&daemon);
    assert!(
        held.elapsed() < HELD,
        "the lock is free by now, so this shows nothing"
    );
    let started = Instant::now();
    let (status, said) = daemon.end(libc::SIGTERM);
    assert!(status.success(), "{said}");
    assert!(started.elapsed() < ANSWER_TIMEOUT);
    assert!(said.contains("cannot be read within 1s"), "{said}");
    drop((holder, slow));
    assert!(fs::metadata(path.join("out")).unwrap().len() > 0);
}
