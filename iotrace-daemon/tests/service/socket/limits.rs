//! What the configuration allows.

use std::{
    fs,
    io::ErrorKind,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    process::Command,
    time::{Duration, Instant},
};

use crate::common;
use serde_json::Value;

use super::service::{OTHER, Service, USER};

#[test]
fn no_more_recordings_than_the_configuration_allows() {
    let service = Service::start(&["--max-recordings", "2", "--max-recordings-per-user", "1"]);
    let start = |uid| {
        let mut running = service
            .record(uid)
            .flush("100ms")
            .start_command(["sleep", "30"]);
        running.until_recording();
        running
    };
    let first = start(USER);
    let refused = service.record(USER).command(["true"]);
    refused.refused(
        1,
        &["2 recordings at one time, 1 of one user", "[recordings]"],
    );
    let second = start(OTHER);
    service
        .record(USER + 10)
        .command(["true"])
        .refused(1, &["2 recordings at one time"]);
    for running in [first, second] {
        running.signal(libc::SIGINT);
        let finished = running.wait();
        assert_eq!(finished.code(), 130, "{}", finished.stderr);
    }
    service.until_running(0);
    let finished = service.record(USER).command(["true"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    // The status is that of the last second or so.
    std::thread::sleep(Duration::from_secs(3));
    let recordings = &service.status()["recordings"];
    assert_eq!(
        (&recordings["begun"], &recordings["refused"]),
        (&3.into(), &2.into())
    );
}

#[test]
fn a_recording_ends_when_its_time_is_up_and_its_program_goes_on() {
    let service = Service::start(&["--max-recording-duration", "2s"]);
    let home = service.home(USER);
    let script = "cat /etc/passwd > before; sleep 4; cat /etc/passwd > after; exit 3";
    let started = Instant::now();
    let finished = service
        .record(USER)
        .current_dir(home.path())
        .command(["sh", "-c", script]);
    assert_eq!(finished.code(), 3, "{}", finished.stderr);
    finished.says(&["the recording ends here: a recording may last 2s"]);
    assert!(started.elapsed() > Duration::from_secs(4) && home.path().join("after").exists());
    let report = finished.report();
    let text = report.to_string();
    assert!(
        text.contains("/before") && !text.contains("/after"),
        "{text}"
    );
    let meta = fs::read(finished.recording.join("meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    assert_eq!(meta["complete"], false, "the program went on");
    let duration = meta["duration_seconds"].as_f64().unwrap();
    assert!((1.9..3.5).contains(&duration), "{duration} seconds");
}

#[test]
fn a_recording_ends_when_it_has_sent_enough() {
    let service = Service::start(&["--max-recording-mib", "1"]);
    let home = service.home(USER);
    let mut busy = Command::new("sh")
        .args([
            "-c",
            "while :; do for i in $(seq 1000); do echo x > $$-$i; done; rm -f *; done",
        ])
        .current_dir(home.path())
        .uid(USER)
        .gid(USER)
        .spawn()
        .unwrap();
    let pid = busy.id().to_string();
    let finished = service.record(USER).args(["--pid", &pid]).run();
    let _ = (busy.kill(), busy.wait());
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished.says(&["a recording may have 1 MiB"]);
}

#[test]
fn a_new_configuration_allows_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("iotrace.toml");
    fs::write(&file, "[recordings]\nmax = 0\n").unwrap();
    let service = Service::start(&["--config", file.to_str().unwrap()]);
    service
        .record(USER)
        .command(["true"])
        .refused(1, &["0 recordings at one time"]);
    fs::write(&file, "[recordings]\nmax = 1\nmax_per_user = 1\n").unwrap();
    service.daemon.signal(libc::SIGHUP);
    let started = Instant::now();
    while service.record(USER).command(["true"]).code() != 0 {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "nothing is reloaded"
        );
    }
}

#[test]
fn one_socket_has_one_service() {
    let service = Service::start(&[]);
    let mut command = common::daemon::command();
    command.arg("--socket").arg(&service.socket);
    let second = common::daemon::Daemon::start(&mut command);
    let status: Value = serde_json::from_str(&second.get("/status").body).unwrap();
    let reason = status["recordings"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("another iotrace listens"), "{status}");
    let (ended, _) = second.end(libc::SIGTERM);
    assert!(ended.success());
    assert_eq!(service.record(USER).command(["true"]).code(), 0);
    // One that was killed leaves its socket behind, which is no obstacle.
    let Service {
        mut daemon, socket, ..
    } = service;
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let mut command = common::daemon::command();
    command.arg("--socket").arg(&socket);
    let third = common::daemon::Daemon::start(&mut command);
    let status: Value = serde_json::from_str(&third.get("/status").body).unwrap();
    assert_eq!(status["recordings"]["open"], true, "{status}");
    let (ended, _) = third.end(libc::SIGTERM);
    assert!(
        ended.success() && !socket.exists(),
        "it is taken away at the end"
    );
}

#[test]
fn the_socket_is_for_the_members_of_its_group() {
    let of_group = |group: &str| Service::start(&["--socket-group", group]);
    // Root's group, by its name: nobody else is in it.
    let service = of_group("root");
    let mode = |service: &Service| {
        let metadata = fs::metadata(&service.socket).unwrap();
        (metadata.mode() & 0o777, metadata.gid())
    };
    assert_eq!(mode(&service), (0o660, 0));
    let refused = service.try_connect(USER).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let finished = service.record(USER).command(["true"]);
    finished.refused(1, &["socket's group", "[recordings]"]);
    drop(service);
    // By its number; another user is no member.
    let service = of_group(&USER.to_string());
    assert_eq!(mode(&service), (0o660, USER));
    let finished = service.record(USER).command(["true"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let refused = service.try_connect(OTHER).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
}

#[test]
fn without_a_configuration_there_is_no_socket() {
    let mut command = common::daemon::command();
    command.env_remove("IOTRACE_SOCKET");
    let daemon = common::daemon::Daemon::start(&mut command);
    let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
    assert_eq!(status["recordings"]["open"], false, "{status:#}");
    assert_eq!(status["config"]["recordings"]["socket"], "none");
}
