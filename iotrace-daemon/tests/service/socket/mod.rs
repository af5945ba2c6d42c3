//! Recordings for users without privileges, through the service's socket: real processes of real other users, compared
//! with what they counted themselves, and attacks.

mod attacks;
mod limits;
mod lines;
mod record;
mod rights;
mod service;
mod share;
mod snapshot;
mod stacks;
mod top;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::common::{
    self,
    compare::{self, same},
    run::wait_for,
    text, truth, turn,
};
use serde_json::Value;
use service::{OTHER, Service, USER};

#[test]
fn a_users_program_is_recorded_to_the_call() {
    let service = Service::start(&[]);
    for (mode, more) in [
        ("descriptors", None),
        ("pattern", Some("4711")),
        ("threads-on-one", None),
    ] {
        let home = service.home(USER);
        let mut args = vec![service.workload.as_path(), Path::new(mode), home.path()];
        args.extend(more.map(Path::new));
        let record = service.record(USER).env("SLURM_JOB_ID", "5342");
        let record = record.env("SLURM_STEP_ID", "0").env("SLURM_PROCID", "3");
        let finished = record.command(args);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let (truth, report) = finished.truth_and_report();
        compare::nothing_lost(&report);
        let processes = truth::processes(&truth);
        assert!(!processes.is_empty());
        processes.iter().for_each(|process| same(process, &report));
        let found = compare::process(&report, processes[0].pid);
        assert_eq!(found["uid"], USER, "{mode}");
        assert_eq!(found["job"], "slurm:5342", "{mode}");
        assert_eq!(found["rank"], 3, "{mode}");
    }
}

#[test]
fn processes_that_run_already_are_recorded_with_their_children() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let mut child = Command::new(&service.workload)
        .args([Path::new("attached"), home.path(), Path::new("2")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .uid(USER)
        .gid(USER)
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pids = line
        .strip_prefix("ready ")
        .expect("ready")
        .split_whitespace();
    let args: Vec<&str> = pids.flat_map(|pid| ["--pid", pid]).collect();
    let mut iotrace = service.record(USER).flush("100ms").args(args).start();
    iotrace.until_recording();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut truth = String::new();
    output.read_to_string(&mut truth).unwrap();
    assert!(wait_for(&mut child, Duration::from_secs(60)).success());
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    let truth: Value = serde_json::from_str(&truth).unwrap();
    let processes = truth::processes(&truth);
    assert_eq!(processes.len(), 4);
    processes.iter().for_each(|process| same(process, &report));
}

#[test]
fn a_recording_is_its_users_alone() {
    let service = Service::start(&[]);
    let iotrace = service.record(USER).flush("100ms");
    let finished = iotrace.command([
        "sh",
        "-c",
        "cat /etc/passwd > copy; sleep 0.5; stat -c %a copy",
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    // What is written by the program has its own mask.
    assert!(finished.stdout.starts_with("644\n"), "{}", finished.stdout);
    let mut seen = 0;
    let mut directories = vec![finished.recording.clone()];
    while let Some(directory) = directories.pop() {
        let metadata = fs::metadata(&directory).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o700, USER));
        for entry in fs::read_dir(&directory).unwrap() {
            let (path, metadata) = entry
                .map(|entry| (entry.path(), entry.metadata().unwrap()))
                .unwrap();
            if metadata.is_dir() {
                directories.push(path);
            } else {
                assert_eq!(
                    (metadata.mode() & 0o777, metadata.uid()),
                    (0o600, USER),
                    "{path:?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen} files");
}

#[test]
fn output_goes_no_further_than_its_user_may_write() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let closed = service.home(0);
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let own = home.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    // A link may be changed between a look at it and its use.
    let link = home.path().join("link");
    symlink(&own, &link).unwrap();
    for (to, allowed, words) in [
        (closed.path(), false, "it belongs to another user (uid 0)"),
        (
            &link,
            false,
            "it is a symbolic link; name another directory",
        ),
        (&own, true, ""),
    ] {
        let out = service
            .command(USER)
            .args(["record", "--format", "json", "--socket"])
            .arg(&service.socket)
            .arg("--output")
            .args([to, Path::new("--"), Path::new("true")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.success(), allowed, "{said}");
        if allowed {
            assert_eq!(fs::metadata(own.join("meta.json")).unwrap().uid(), USER);
        } else {
            assert!(said.contains(words), "{said}");
            assert_eq!(fs::read_dir(to).unwrap().count(), 0);
        }
    }
}

#[test]
fn what_runs_with_other_rights_is_left_out() {
    turn::alone();
    let service = Service::start(&[]);
    let (home, secrets) = (service.home(USER), service.home(0));
    let helper = service.dir().join("helper");
    fs::copy(common::tool("cat"), &helper).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(secrets.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let secret = secrets.path().join("of-root");
    fs::write(&secret, "secret\n").unwrap();
    let script = "$HELPER $SECRET; cat /etc/passwd > own";
    let finished = service
        .record(USER)
        .current_dir(home.path())
        .env("HELPER", helper.to_str().unwrap())
        .env("SECRET", secret.to_str().unwrap())
        .command(["sh", "-c", script]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (said, report) = finished.stdout.split_once('\n').unwrap();
    assert_eq!(said, "secret", "the program had the rights");
    assert!(!report.contains("of-root"), "{report}");
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["notes"]["privileged_processes"], 1);
    let paths: Vec<&str> = compare::list(&report, "files")
        .iter()
        .map(|row| text(row, "path"))
        .collect();
    assert!(paths.iter().any(|path| path.ends_with("/own")), "{paths:?}");
}

#[test]
fn command_lines_and_paths_stay_their_users() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let path = home.path().join("of-a-secret-project");
    fs::write(&path, "x").unwrap();
    chown(&path, Some(USER), Some(USER)).unwrap();
    let script = "cat \"$1\" > /dev/null; sleep 30";
    let args = ["sh", "-c", script, "a-secret-word", path.to_str().unwrap()];
    let mut iotrace = service.record(USER).flush("100ms").start_command(args);
    iotrace.until_recording();
    std::thread::sleep(Duration::from_millis(1500));
    for page in ["/metrics", "/status"] {
        let body = service.daemon.get(page).body;
        assert!(body.len() > 100);
        assert!(!body.contains("secret"), "{page}: {body}");
    }
    let pid = iotrace.child.id();
    let answer = service.ask(OTHER, &service::record(&[pid]));
    assert!(
        answer.contains("\"denied\"") && !answer.contains("secret"),
        "{answer}"
    );
    iotrace.signal(libc::SIGINT);
    let finished = iotrace.wait();
    assert!(
        finished.stdout.contains("of-a-secret-project"),
        "{}",
        finished.stdout
    );
}

#[test]
fn where_nobody_may_record_the_way_is_said() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let record = |place: &str| {
        let out = service
            .command(USER)
            .current_dir(home.path())
            .env("IOTRACE_SOCKET", place)
            .args(["record", "--", "true"])
            .output()
            .unwrap();
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let (code, said) = record("/nowhere/iotrace.sock");
    assert_eq!(code, Some(77));
    for words in [
        "run `sudo iotrace record -- true`",
        "not at /nowhere/iotrace.sock",
        "CAP_BPF",
    ] {
        assert!(said.contains(words), "{said}");
    }
    // By itself, a user without privileges asks the service that there is.
    let (code, said) = record(service.socket.to_str().unwrap());
    assert_eq!(code, Some(0), "{said}");
    for (args, words) in [
        (["record", "--pid", "1"], "process 1 belongs to user 0"),
        (["record", "--socket", "/nowhere"], "--pid"),
        (
            ["record", "--socket=/nowhere", "--pid=1"],
            "belongs to user 0",
        ),
        (
            ["record", "--socket=/nowhere", "--all"],
            "--all is not for recordings",
        ),
    ] {
        let out = service.command(USER).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(words), "{said}");
    }
}

#[test]
fn what_was_recorded_until_the_service_was_killed_is_kept() {
    let mut service = Service::start(&[]);
    let home = service.home(USER);
    let script = "cat /etc/passwd > before; sleep 3; cat /etc/passwd > after; exit 3";
    let mut iotrace = service
        .record(USER)
        .flush("100ms")
        .current_dir(home.path())
        .start_command(["sh", "-c", script]);
    iotrace.until_recording();
    std::thread::sleep(Duration::from_millis(1500));
    service.daemon.child.kill().unwrap();
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 3, "the program's own");
    finished.says(&[
        "the recording ends here: the service has gone",
        "is incomplete",
    ]);
    let meta = fs::read(finished.recording.join("meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    assert_eq!(meta["complete"], false);
    let paths: Vec<String> = finished.stdout.lines().map(Into::into).collect();
    let all = paths.concat();
    assert!(all.contains("/before") && !all.contains("/after"), "{all}");
    assert!(home.path().join("after").exists(), "the program went on");
}

#[test]
fn root_may_ask_for_anybodys_processes() {
    let service = Service::start(&[]);
    let mut child = Command::new("sleep")
        .arg("30")
        .uid(OTHER)
        .gid(OTHER)
        .spawn()
        .unwrap();
    let mut stream = service.connect(0);
    stream
        .write_all(service::record(&[child.id()]).as_bytes())
        .unwrap();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    assert!(line.contains("\"begun\""), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
}
