//! Calls that have not returned: on a filesystem whose server does not answer, and on one that is slow but does.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::common::{
    Iotrace,
    daemon::{self, Daemon, Sample},
    directory, python,
    slow::{Slow, Speed},
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Longer than any test: a server that does not answer.
const NEVER: Duration = Duration::from_secs(600);

/// A program that reads from `path`, and says so first.
fn reader(path: &Path) -> Child {
    let code = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.read(fd, 65536)";
    Command::new(python())
        .args(["-c", code])
        .arg(path)
        .stdout(Stdio::null())
        .spawn()
        .expect("Python")
}

/// Kills a program that may be in a call that does not return.
fn kill(mut child: Child) {
    // SIGKILL interrupts a FUSE request.
    let _ = child.kill();
    let _ = child.wait();
}

fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| finding["code"].as_str().unwrap())
        .collect()
}

/// Waits until a thread of the process is in an uninterruptible or long sleep inside a read.
fn until_in_read(pid: u32) {
    let end = Instant::now() + Duration::from_secs(60);
    let read = libc::SYS_read.to_string();
    loop {
        let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let target = std::fs::read_link(format!("/proc/{pid}/fd/3")).unwrap_or_default();
        if call.split(' ').next() == Some(read.as_str()) && target.ends_with("hung.bin") {
            return;
        }
        assert!(Instant::now() < end, "{call}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_program_that_cannot_be_killed_does_not_keep_the_recording() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: NEVER,
        ..Speed::default()
    };
    let _slow = Slow::mount(&dir.join("slow"), &[("hung.bin", MIB, speed)], speed);
    let path = dir.join("slow/hung.bin");
    let code = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.read(fd, 65536)";
    let finished = Iotrace::record().args(["--duration", "2s"]).command([
        python().to_str().unwrap(),
        "-c",
        code,
        path.to_str().unwrap(),
    ]);
    assert_eq!(finished.code(), 124, "{}", finished.stderr);
    let report = finished.report();
    let calls = report["in_flight"].as_array().unwrap();
    // Whether SIGKILL ends a read that the server has begun depends on the kernel.
    for call in calls {
        assert_eq!(call["path"], path.to_str().unwrap());
    }
    assert_eq!(codes(&report).contains(&"call-hangs"), !calls.is_empty());
}

#[test]
fn a_call_that_began_before_is_told_too() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: NEVER,
        ..Speed::default()
    };
    let _slow = Slow::mount(&dir.join("slow"), &[("hung.bin", MIB, speed)], speed);
    let path = dir.join("slow/hung.bin");
    let hung = reader(&path);
    let pid = hung.id();
    until_in_read(pid);
    let finished = Iotrace::record()
        .args(["--duration", "7s", "--pid", &pid.to_string()])
        .run();
    kill(hung);
    let report = finished.report();
    let [call] = report["in_flight"].as_array().unwrap().as_slice() else {
        panic!("{:#}", report["in_flight"]);
    };
    assert_eq!(
        (&call["pid"], &call["operation"]),
        (&pid.into(), &"read".into())
    );
    assert_eq!(call["path"], path.to_str().unwrap());
    assert_eq!(call["began_before"], true);
    assert!(
        codes(&report).contains(&"call-hangs"),
        "{:?}",
        codes(&report)
    );
}

/// A program that opens a FIFO, after so many seconds, that nobody writes to.
fn opens_fifo(dir: &Path, seconds: u32) -> Child {
    let code = format!("import os, time; time.sleep({seconds}); os.open('pipe', os.O_RDONLY)");
    let mut program = Command::new(python());
    program.args(["-c", &code]).current_dir(dir);
    program.stdout(Stdio::null()).spawn().expect("Python")
}

#[test]
fn a_hung_open_has_the_path_that_it_was_given() {
    let (_keep, dir) = directory();
    let pipe = dir.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // One that is in the open already, and one that comes to it.
    let earlier = opens_fifo(&dir, 0);
    sleep(Duration::from_secs(2));
    let later = opens_fifo(&dir, 2);
    let pids = [earlier.id(), later.id()].map(|pid| pid.to_string());
    let finished = Iotrace::record()
        .args(["--duration", "9s", "--pid", &pids[0], "--pid", &pids[1]])
        .run();
    kill(earlier);
    kill(later);
    let report = finished.report();
    let calls = report["in_flight"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{calls:#?}");
    for call in calls {
        assert_eq!(call["operation"], "open");
        assert_eq!(call["path"], pipe.to_str().unwrap());
        assert!(call["mount_point"].is_string());
    }
    assert_eq!(calls[0]["began_before"], true);
    assert!(codes(&report).contains(&"call-hangs"));
}

#[test]
fn a_hung_read_is_a_finding() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: NEVER,
        ..Speed::default()
    };
    let _slow = Slow::mount(&dir.join("slow"), &[("hung.bin", MIB, speed)], speed);
    let path = dir.join("slow/hung.bin");
    let code = "import os, sys, time; time.sleep(2); fd = os.open(sys.argv[1], os.O_RDONLY); os.read(fd, 65536)";
    let mut program = Command::new(python());
    program.args(["-c", code]).arg(&path);
    let program = program.spawn().expect("Python");
    let pid = program.id();
    let finished = Iotrace::record()
        .args(["--duration", "10s", "--pid", &pid.to_string()])
        .run();
    kill(program);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    let [call] = report["in_flight"].as_array().unwrap().as_slice() else {
        panic!("{:#}", report["in_flight"]);
    };
    assert_eq!((&call["pid"], &call["tid"]), (&pid.into(), &pid.into()));
    assert_eq!(call["operation"], "read");
    assert_eq!(call["path"], path.to_str().unwrap());
    assert_eq!(call["mount_point"], dir.join("slow").to_str().unwrap());
    let seconds = call["seconds"].as_f64().unwrap();
    let duration = report["duration_seconds"].as_f64().unwrap();
    assert!(
        seconds >= 5.0 && seconds <= duration,
        "{seconds} of {duration}"
    );
    assert!(
        codes(&report).contains(&"call-hangs"),
        "{:?}",
        codes(&report)
    );

    let mut again = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    again
        .args(["report", "--format", "json"])
        .arg(&finished.recording);
    let output = again.output().unwrap();
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        again["in_flight"], report["in_flight"],
        "from the recording"
    );
    let mut text = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    text.args(["report", "--full"]).arg(&finished.recording);
    let text = String::from_utf8(text.output().unwrap().stdout).unwrap();
    assert!(text.contains("Calls in flight: 1"), "{text}");
    let phases = report["phases"].as_object().unwrap().values();
    let in_flight: Vec<f64> = phases
        .filter_map(|phase| phase["in_flight_seconds"].as_f64())
        .collect();
    assert_eq!(in_flight, [seconds], "of its phase");
    assert!(text.contains("By phase: "), "{text}");
    assert!(!text.contains("Nothing to change"), "{text}");
}

#[test]
fn slow_reads_that_return_are_no_hang() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: Duration::from_millis(300),
        ..Speed::default()
    };
    let _slow = Slow::mount(&dir.join("slow"), &[("data.bin", 8 * MIB, speed)], speed);
    let path = dir.join("slow/data.bin");
    let code = "import sys\nwith open(sys.argv[1], 'rb', 0) as f:\n while f.read(1 << 20): pass";
    let finished = Iotrace::record().command([
        python().to_str().unwrap(),
        "-c",
        code,
        path.to_str().unwrap(),
    ]);
    let report = finished.report();
    assert!(report["in_flight"].as_array().unwrap().is_empty());
    assert!(!codes(&report).contains(&"call-hangs"));
}

#[test]
fn the_service_tells_of_calls_that_hang() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: NEVER,
        ..Speed::default()
    };
    let mount = dir.join("slow");
    let fast = Speed {
        read: Duration::from_millis(5),
        ..Speed::default()
    };
    let files = [("hung.bin", MIB, speed), ("data.bin", MIB, fast)];
    let _slow = Slow::mount(&mount, &files, fast);
    let socket = dir.join("iotrace.sock");
    let daemon = Daemon::start(daemon::command().env("IOTRACE_SOCKET", &socket));
    let begun = Instant::now();
    // Two of one job: one hangs, and one reads on and on, waits for a pipe, and sleeps.
    let code = "import os, sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.read(fd, 65536)";
    let lives = "import os, sys, time\nr, w = os.pipe()\nfd = os.open(sys.argv[1], os.O_RDONLY)\n\
                 if os.fork() == 0: os.read(r, 1)\nwhile True: os.pread(fd, 4096, 0); time.sleep(0.5)";
    let start = |code: &str, file: &str| {
        let mut program = Command::new(python());
        program.args(["-c", code]).arg(mount.join(file));
        program.env("SLURM_JOB_ID", "777").process_group(0);
        program.spawn().expect("Python")
    };
    let (hung, lively) = (start(code, "hung.bin"), start(lives, "data.bin"));
    let of_job = |samples: &[Sample]| -> Vec<Sample> {
        let samples = samples.iter().filter(|sample| {
            sample.name == "iotrace_in_flight_seconds" && sample.label("unit") == "slurm:777"
        });
        samples.cloned().collect()
    };
    let calls = daemon.until("call in flight", |samples| {
        let calls = of_job(samples);
        (!calls.is_empty()).then_some(calls)
    });
    let [call] = calls.as_slice() else {
        panic!("one call hangs: {calls:#?}");
    };
    assert_eq!(call.label("operation"), "read");
    assert_eq!(call.label("mountpoint"), mount.to_str().unwrap());
    let (least, most) = (1.0, begun.elapsed().as_secs_f64());
    assert!((least..most).contains(&call.value), "{call:?} of {most} s");

    let mut snapshot = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    snapshot.args(["snapshot", "--format=json", "--pid", &hung.id().to_string()]);
    let output = snapshot.env("IOTRACE_SOCKET", &socket).output().unwrap();
    let snapshot: Value = serde_json::from_slice(&output.stdout).expect("a snapshot");
    let [call] = snapshot["in_flight"].as_array().unwrap().as_slice() else {
        panic!("{snapshot:#}");
    };
    assert_eq!(call["pid"], hung.id());
    assert_eq!(call["operation"], "read");
    assert_eq!(call["path"], mount.join("hung.bin").to_str().unwrap());

    kill(hung);
    daemon.until("end of the call", |samples| {
        of_job(samples).is_empty().then_some(())
    });
    // SAFETY: the process group of a child that was not waited for.
    unsafe { libc::kill(-(lively.id() as i32), libc::SIGKILL) };
    kill(lively);
}
