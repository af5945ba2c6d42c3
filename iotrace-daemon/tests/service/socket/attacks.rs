//! Who asks for what is not theirs, and who does not behave.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::Command,
    time::{Duration, Instant},
};

use super::service::{self, OTHER, Process, Service, USER};
use crate::common::{self, daemon::sum, turn};

#[test]
fn only_a_users_own_processes_are_recorded() {
    let service = Service::start(&[]);
    let own = Process::of(USER);
    let others = Process::of(OTHER);
    // Real user id the user's, all else root's, as in a program that is setuid root.
    let mut command = Command::new("sleep");
    // SAFETY: a plain call between fork and exec.
    unsafe {
        command
            .arg("300")
            .pre_exec(|| match libc::setresuid(USER, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            })
    };
    let privileged = Process::new(&mut command);
    // All ids the user's, but not to be looked into: its program may be run and not read.
    let unreadable = service.dir().join("unreadable");
    fs::copy(common::tool("sleep"), &unreadable).unwrap();
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o711)).unwrap();
    let hidden = Process::new(Command::new(&unreadable).arg("300").uid(USER).gid(USER));
    let thread = fs::read_dir(format!("/proc/{}/task", service.daemon.child.id()))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().ok())
        .find(|tid| *tid != service.daemon.child.id())
        .unwrap();
    let mut gone = Process::of(USER);
    let _ = (gone.0.kill(), gone.0.wait());
    for (pid, code, words) in [
        (others.pid(), "denied", "belongs to another user"),
        (1, "denied", "belongs to another user"),
        (privileged.pid(), "denied", "other rights"),
        (hidden.pid(), "denied", "other rights"),
        (thread, "bad_request", "thread"),
        (gone.pid(), "gone", "not there"),
        (0, "bad_request", "no process"),
        (u32::MAX, "bad_request", "no process"),
    ] {
        // In good company, too.
        for pids in [vec![pid], vec![own.pid(), pid]] {
            for request in [service::record(&pids), service::share(&pids)] {
                let answer = service.ask(USER, &request);
                assert!(answer.contains(&format!("\"{code}\"")), "{pid}: {answer}");
                assert!(answer.contains(words), "{pid}: {answer}");
                assert_eq!(answer.lines().count(), 1, "nothing else is said: {answer}");
            }
        }
    }
    service.until_running(0);
}

#[test]
fn a_pid_that_another_users_process_got_meanwhile_is_not_recorded() {
    a_pid_is_reused(service::record);
}

#[test]
fn a_pid_that_another_users_process_got_meanwhile_is_not_told() {
    a_pid_is_reused(service::share);
}

fn a_pid_is_reused(request: fn(&[u32]) -> String) {
    let service = Service::start_with(&[], &[("IOTRACE_TEST_PAUSE", "1500")]);
    let dir = service.home(OTHER);
    let secret = dir.path().join("of-the-other");
    fs::write(&secret, "x").unwrap();
    let mut own = Process::of(USER);
    let pid = own.pid();
    let mut stream = service.connect(USER);
    stream.write_all(request(&[pid]).as_bytes()).unwrap();
    // It has been checked, and ends before it is traced.
    std::thread::sleep(Duration::from_millis(500));
    own.0.kill().unwrap();
    own.0.wait().unwrap();
    let other = spawn_as(pid, OTHER, &secret);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    // SAFETY: a child that was not waited for.
    unsafe {
        libc::kill(other, libc::SIGKILL);
        assert_eq!(libc::waitpid(other, std::ptr::null_mut(), 0), other);
    }
    assert!(answer.contains("\"gone\""), "{answer}");
    assert_eq!(answer.lines().count(), 1, "nothing else is said: {answer}");
    assert!(!answer.contains("of-the-other"));
}

/// A process with this pid, of another user, which reads a file over and over.
fn spawn_as(pid: u32, uid: u32, file: &std::path::Path) -> i32 {
    /// The arguments of clone3(2).
    #[repr(C)]
    #[derive(Default)]
    struct Clone {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    let path = std::ffi::CString::new(file.as_os_str().as_encoded_bytes()).unwrap();
    let pids = [pid as libc::pid_t];
    let clone = Clone {
        exit_signal: libc::SIGCHLD as u64,
        set_tid: pids.as_ptr() as u64,
        set_tid_size: 1,
        ..Clone::default()
    };
    // SAFETY: as fork(2); the child makes system calls only, and ends or is killed.
    unsafe {
        let made = libc::syscall(libc::SYS_clone3, &raw const clone, size_of::<Clone>());
        if made != 0 {
            assert_eq!(made, i64::from(pid), "{}", std::io::Error::last_os_error());
            return made as i32;
        }
        libc::syscall(libc::SYS_setresgid, uid, uid, uid);
        libc::syscall(libc::SYS_setresuid, uid, uid, uid);
        loop {
            let fd = libc::open(path.as_ptr(), libc::O_RDONLY);
            let mut byte = 0_u8;
            libc::read(fd, (&raw mut byte).cast(), 1);
            libc::close(fd);
            libc::usleep(1000);
        }
    }
}

#[test]
fn a_thousand_connections_leave_room_for_others() {
    turn::alone();
    let service = Service::start(&[]);
    allow_descriptors();
    // The socket's own thread is ready then.
    service.ask(USER, "\n");
    let (descriptors, resident) = (service.usage().0, service.front_memory());
    let mut streams: Vec<_> = (0..1000).map(|_| service.connect(USER)).collect();
    // Another user is listened to before the silent ones are let go.
    let started = Instant::now();
    assert!(
        service
            .ask(OTHER, "{\"iotrace\":7}\n")
            .contains("\"version\"")
    );
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    let (held, _) = service.usage();
    assert!(
        held <= descriptors + 40,
        "{descriptors} descriptors, then {held}"
    );
    let (mut busy, mut silent) = (0, 0);
    for stream in &mut streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        busy += usize::from(answer.contains("\"busy\"") && answer.contains("too many connections"));
        silent += usize::from(answer.contains("no request came"));
    }
    assert_eq!((busy + silent, silent), (1000, 16));
    drop(streams);
    service.until_as_before(descriptors);
    // Connections are the front's: what the rest of the machine does is counted in the tracer's memory.
    let grown = service.front_memory();
    assert!(
        grown < resident + (16 << 20),
        "{resident} bytes, then {grown}"
    );
    assert!(
        service
            .ask(USER, "{\"iotrace\":7}\n")
            .contains("\"version\"")
    );
}

/// Lets this process have as many descriptors as it may.
fn allow_descriptors() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain calls on a value that lives here.
    let failed = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    assert!(
        failed == 0 && limit.rlim_cur > 1500,
        "{} descriptors",
        limit.rlim_cur
    );
}

#[test]
fn garbage_is_refused() {
    let service = Service::start(&[]);
    let long = "x".repeat(5000);
    let deep = "[".repeat(4000) + "\n";
    for (say, code) in [
        ("\n", "bad_request"),
        ("GET / HTTP/1.1\r\n\r\n", "bad_request"),
        ("\0\u{1}\u{2}\n", "bad_request"),
        (&long, "bad_request"),
        (&deep, "bad_request"),
        ("{\"iotrace\":1}\n", "bad_request"),
        ("{\"iotrace\":1,\"record\":null}\n", "bad_request"),
        ("{\"iotrace\":99,\"record\":null}\n", "version"),
        (
            "{\"iotrace\":1,\"record\":{\"abi\":0,\"detail\":\"full\",\"follow\":true,\"negative_lookups\":true,\"cpu\":true,\"pids\":[]}}\n",
            "version",
        ),
    ] {
        let answer = service.ask(USER, say);
        assert!(answer.contains(&format!("\"{code}\"")), "{say:?}: {answer}");
    }
    // A line that comes too slowly.
    let mut stream = service.connect(USER);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) && stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "still listened to"
    );
    // Garbage in a recording that runs.
    let own = Process::of(USER);
    let mut stream = service.connect(USER);
    stream
        .write_all(service::record(&[own.pid()]).as_bytes())
        .unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.contains("\"begun\""), "{line}");
    stream.write_all(b"\"none\"\n").unwrap();
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("\"bad_request\""), "{rest}");
    service.until_running(0);
}

#[test]
fn a_client_that_is_killed_leaves_nothing_behind() {
    let service = Service::start(&[]);
    // The socket's own thread is ready then.
    service.ask(USER, "\n");
    let (descriptors, _) = service.usage();
    for _ in 0..3 {
        let mut iotrace = service
            .record(USER)
            .flush("100ms")
            .start_command(["sleep", "2"]);
        iotrace.until_recording();
        service.until_running(1);
        let (held, _) = service.usage();
        assert!(
            held < descriptors + 10,
            "no programs and maps: {descriptors}, then {held}"
        );
        iotrace.child.kill().unwrap();
        iotrace.child.wait().unwrap();
        service.until_running(0);
    }
    service.until_as_before(descriptors);
}

#[test]
fn a_client_that_does_not_read_harms_itself_alone() {
    a_client_does_not_read(service::record);
}

#[test]
fn a_subscriber_that_does_not_read_harms_itself_alone() {
    a_client_does_not_read(service::share);
}

fn a_client_does_not_read(request: fn(&[u32]) -> String) {
    turn::alone();
    // The files that the service itself keeps take memory, too: the more, the faster they are made.
    let service = Service::start(&["--max-files", "20000"]);
    let (_, resident) = service.usage();
    let home = service.home(USER);
    let mut busy = Process::new(
        Command::new("sh")
            .args([
                "-c",
                "while :; do for i in $(seq 2000); do echo x > $$-$i; done; rm -f *; done",
            ])
            .current_dir(home.path())
            .env("SLURM_JOB_ID", "815")
            .uid(USER)
            .gid(USER),
    );
    let mut stream = service.connect(USER);
    stream.write_all(request(&[busy.pid()]).as_bytes()).unwrap();
    service.until_running(1);
    let started = Instant::now();
    let opens = || {
        let labels = [("unit", "slurm:815"), ("operation", "open")];
        sum(
            &service.daemon.scrape(),
            "iotrace_operations_total",
            &labels,
        )
    };
    let mut before = 0.0;
    // The service goes on as if nothing were.
    while service.status()["recordings"]["running"] == 1 {
        assert!(
            started.elapsed() < Duration::from_secs(90),
            "it is waited for"
        );
        std::thread::sleep(Duration::from_secs(3));
        let now = opens();
        assert!(now > before, "{now} after {before}");
        before = now;
    }
    assert!(
        started.elapsed() > Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
    // Measured: 29 MiB, and 25 MiB while another program creates files as fast.
    let (_, grown) = service.usage();
    assert!(
        grown < resident + (64 << 20),
        "{resident} bytes, then {grown}"
    );
    let _ = (busy.0.kill(), busy.0.wait());
}
