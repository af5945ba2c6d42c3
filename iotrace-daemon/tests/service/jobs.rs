//! Job logs: what the service writes of each job without anybody asking.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use iotrace_model::IoTotals;
use serde_json::Value;

use crate::common::{
    self,
    daemon::{self, Daemon, Mounted, Unprivileged},
    run::wait_for,
    slow::{Slow, Speed},
    tool, turn,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A service that writes logs to a directory.
pub fn service(logs: &Path, keys: &str) -> (Daemon, tempfile::NamedTempFile) {
    service_with(logs, keys, |_| {})
}

pub fn service_with(
    logs: &Path,
    keys: &str,
    change: impl FnOnce(&mut Command),
) -> (Daemon, tempfile::NamedTempFile) {
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[jobs]\ndirectory = {logs:?}\nflush = \"1s\"\n{keys}\n");
    fs::write(&config, text).unwrap();
    let mut command = daemon::command();
    command.arg("--config").arg(config.path());
    change(&mut command);
    (Daemon::start(&mut command), config)
}

/// The state of the logs in `/status`, which has it after the first interval.
fn state(daemon: &Daemon) -> Value {
    let mut state = Value::Null;
    wait_until("the state of the logs", || {
        let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
        state = status["jobs"].clone();
        !state.is_null()
    });
    state
}

/// Runs `iotrace jobs`.
fn jobs(logs: &Path, args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("jobs")
        .args(args)
        .arg("--dir")
        .arg(logs)
        .output()
        .unwrap()
}

/// Waits until a condition holds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Lets every user write to a directory.
pub fn open_to_all(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(path, mode).unwrap();
}

/// A job that writes `blocks` of 1000 bytes to a file, then sleeps.
pub fn job(number: &str, file: &Path, blocks: u32, seconds: &str, user: Option<u32>) -> Child {
    let work = format!(
        "{} if=/dev/zero of=\"$1\" bs=1000 count={blocks} status=none; exec sleep {seconds}",
        tool("dd").display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &work, "sh"])
        .arg(file)
        .env("SLURM_JOB_ID", number);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.spawn().unwrap()
}

/// What `iotrace jobs` says of a job.
fn listed(logs: &Path, unit: &str) -> Vec<Value> {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["jobs", "list", "--format", "json", "--dir"])
        .arg(logs)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let all: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();
    let of_unit = all.into_iter().filter(|log| log["unit"] == unit);
    of_unit.collect()
}

/// The report of a job, and what was said to standard error.
fn report_of(logs: &Path, job: &str) -> (Value, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["report", &format!("job:{job}"), "--format", "json", "--dir"])
        .arg(logs)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let report = serde_json::from_slice(&out.stdout).unwrap();
    (report, String::from_utf8(out.stderr).unwrap())
}

/// Waits for the log of a job that is as it is wanted.
fn until(logs: &Path, unit: &str, is_enough: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let found = listed(logs, unit);
        if let Some(log) = found.iter().find(|log| is_enough(log)) {
            return log.clone();
        }
        assert!(started.elapsed() < PATIENCE, "{unit}: {found:#?}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

pub fn complete(logs: &Path, unit: &str) -> Value {
    until(logs, unit, |log| log["complete"] == true)
}

/// The model of a log: bytes written, and to which files.
fn written(log: &Value) -> (u64, Vec<String>) {
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    let recorded = iotrace_recording::read(&directory).unwrap();
    let files = 0..recorded.model.file_count() as u32;
    let files = files.map(|index| recorded.model.file(index));
    let paths = files.map(|file| String::from_utf8_lossy(file.path).into_owned());
    (recorded.model.io_totals().bytes_written, paths.collect())
}

/// Bytes that a log says were written to one file.
fn written_to(log: &Value, path: &Path) -> u64 {
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    let model = iotrace_recording::read(&directory).unwrap().model;
    let is_of_file = |index| model.file(index).path == path.as_os_str().as_encoded_bytes();
    let rows = model.rows().iter().filter(|row| is_of_file(row.file));
    rows.map(|row| IoTotals::of(&row.cell.total()).bytes_written)
        .sum()
}

/// Waits until a log has ended, has its owner, and was examined.
pub fn examined(logs: &Path, unit: &str) -> Value {
    until(logs, unit, |log| {
        log["verdict"].as_str().is_some_and(|text| !text.is_empty())
    })
}

/// Asserts that `user` has a log, or that root has.
fn assert_owner(log: &Value, user: u32, is_users: bool, what: &str) {
    let directory = Path::new(log["directory"].as_str().unwrap());
    let about = fs::metadata(directory).unwrap();
    let owner = if is_users { user } else { 0 };
    assert_eq!(
        (about.uid(), about.mode() & 0o777),
        (owner, 0o700),
        "{what}"
    );
    assert_eq!(
        log["user"].as_u64(),
        is_users.then_some(user.into()),
        "{what}"
    );
    for file in ["job.json", "meta.json", "part-000001/files.parquet"] {
        let read = Command::new("cat")
            .arg(directory.join(file))
            .uid(user)
            .gid(user)
            .output();
        assert_eq!(read.unwrap().status.success(), is_users, "{what}: {file}");
    }
}

#[test]
fn jobs_at_one_time_have_exact_logs_of_their_own() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    fs::set_permissions(
        &mounted.path,
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let (daemon, _config) = service(&logs, "least = \"3s\"");
    let (first, second) = (mounted.path.join("first"), mounted.path.join("second"));
    let mut jobs = [
        job("8101", &first, 3000, "4", Some(12_345)),
        job("8102", &second, 7000, "4", None),
        // Too short for a log, in whichever two intervals its counts are.
        job("8103", &mounted.path.join("third"), 10, "0.1", None),
    ];
    // Nobody but the service can read a log that is being written.
    let open = until(&logs, "slurm:8101", |_| true);
    let about = fs::metadata(open["directory"].as_str().unwrap()).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o777), (0, 0o700));
    for job in &mut jobs {
        assert!(job.wait().unwrap().success());
    }
    for (unit, own, other, bytes, user) in [
        ("slurm:8101", &first, &second, 3_000_000, 12_345),
        ("slurm:8102", &second, &first, 7_000_000, 0),
    ] {
        let log = complete(&logs, unit);
        assert_eq!(log["unit_ended"], true);
        let (total, paths) = written(&log);
        assert_eq!((total, &log["bytes_written"]), (bytes, &bytes.into()));
        let has = |path: &PathBuf| paths.contains(&path.to_str().unwrap().to_owned());
        assert!(has(own) && !has(other), "{paths:?}");
        let directory = Path::new(log["directory"].as_str().unwrap());
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::metadata(directory).unwrap().uid() != user && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
        }
        for (path, mode) in [
            (directory.to_owned(), 0o700),
            (directory.join("meta.json"), 0o600),
            (directory.join("job.json"), 0o600),
            (directory.join("part-000001"), 0o700),
            (directory.join("part-000001/files.parquet"), 0o600),
        ] {
            let about = fs::metadata(&path).unwrap();
            let found = (about.uid(), about.mode() & 0o777);
            assert_eq!(found, (user, mode), "{}", path.display());
        }
        for parent in directory.ancestors().skip(1).take(4) {
            let about = fs::metadata(parent).unwrap();
            assert_eq!((about.uid(), about.mode() & 0o777), (0, 0o755));
        }
        let report = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .args(["report", &format!("job:{unit}"), "--dir"])
            .arg(&logs)
            .output()
            .unwrap();
        assert!(report.status.success(), "{report:?}");
        let text = String::from_utf8(report.stdout).unwrap();
        assert!(text.starts_with(unit), "{text}");
        assert!(!text.contains("of the machine"), "{text}");
    }
    assert_eq!(listed(&logs, "slurm:8103").len(), 0);
    daemon.end(libc::SIGTERM);
    let recorded = iotrace_recording::read(Path::new(
        complete(&logs, "slurm:8101")["directory"].as_str().unwrap(),
    ));
    let recorded = recorded.unwrap();
    assert!(recorded.is_complete());
    let args = recorded
        .model
        .processes()
        .iter()
        .map(|of| of.about.args.len());
    assert_eq!(args.max(), Some(0), "only the path of the program");
}

#[test]
fn a_service_that_is_not_root_gives_logs_to_their_users() {
    const USER: u32 = 4711;
    let program = Unprivileged::new();
    let unit = daemon::capabilities("iotrace.service");
    let drop_in = daemon::capabilities("job-logs.conf");
    let mounted = Mounted::new();
    open_to_all(&mounted.path);
    for is_complete in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let logs = dir.path().join("logs");
        fs::create_dir(&logs).unwrap();
        chown(&logs, Some(Unprivileged::SERVICE_UID), None).unwrap();
        let config = dir.path().join("iotrace.toml");
        let keys =
            "flush = \"1s\"\nleast = \"0s\"\nkeep = \"30s\"\nformats = [\"recording\", \"json\"]";
        fs::write(&config, format!("[jobs]\ndirectory = {logs:?}\n{keys}\n")).unwrap();
        let capabilities = unit.iter().chain(drop_in.iter().filter(|_| is_complete));
        let mut command = program.command(&capabilities.collect::<Vec<_>>());
        command.args(["--listen", "127.0.0.1:0", "--config"]);
        let daemon = Daemon::start(command.arg(&config));
        let file = mounted.path.join(format!("{is_complete}"));
        job("8801", &file, 300, "2", Some(USER)).wait().unwrap();
        let log = examined(&logs, "slurm:8801");
        assert_eq!(written_to(&log, &file), 300_000, "{log:#?}");
        let directory = PathBuf::from(log["directory"].as_str().unwrap());
        let owner = if is_complete {
            USER
        } else {
            Unprivileged::SERVICE_UID
        };
        for path in [directory.clone(), directory.with_extension("json")] {
            let about = fs::metadata(&path).unwrap();
            assert_eq!(about.uid(), owner, "{}", path.display());
            assert_eq!(about.mode() & 0o077, 0, "{}", path.display());
        }
        let read = Command::new("cat")
            .arg(directory.join("meta.json"))
            .uid(USER)
            .gid(USER)
            .output();
        assert_eq!(read.unwrap().status.success(), is_complete);
        assert_eq!(state(&daemon)["not_examined"], 0);
        if is_complete {
            wait_until("the log is removed", || !directory.exists());
        } else {
            wait_until("the warning", || {
                daemon.get("/status").body.contains("job-logs.conf")
            });
        }
        drop(daemon);
    }
}

#[test]
fn a_killed_service_leaves_what_it_has_written() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, config) = service(&logs, "");
    let mut job = job("8111", &mounted.path.join("file"), 2000, "30", None);
    until(&logs, "slurm:8111", |log| log["bytes_written"] == 2_000_000);
    daemon.end(libc::SIGKILL);
    let log = until(&logs, "slurm:8111", |log| log["complete"] == false);
    assert_eq!(written(&log).0, 2_000_000);
    job.kill().unwrap();
    job.wait().unwrap();
    drop(config);
}

#[test]
fn a_full_disk_costs_logs_and_not_the_service() {
    let mounted = Mounted::new();
    let disk = Mounted::new();
    let remount = |size: &str| {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,size={size}")])
            .arg(&disk.path)
            .status();
        assert!(status.unwrap().success());
    };
    remount("64k");
    fs::write(disk.path.join("filler"), vec![1; 56 << 10]).unwrap();
    let (daemon, _config) = service(&disk.path.join("logs"), "least = \"1s\"");
    let mut job = job("8121", &mounted.path.join("file"), 500, "6", None);
    let started = Instant::now();
    let error = |daemon: &Daemon| {
        let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
        status["jobs"]["error"].clone()
    };
    while error(&daemon).is_null() {
        assert!(started.elapsed() < PATIENCE, "no error is said");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(daemon.get("/healthz").status, 200);
    // With room, all that was counted is written.
    remount("64m");
    let log = complete(&disk.path.join("logs"), "slurm:8121");
    assert_eq!(written(&log).0, 500_000);
    job.wait().unwrap();
    let (status, said) = daemon.end(libc::SIGTERM);
    assert!(status.success() && said.contains("job logs: "), "{said}");
}

#[test]
fn the_oldest_logs_are_removed_first() {
    turn::alone();
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let log = |day: &str, name: &str| {
        let path = logs.join("2024/01").join(day).join(name);
        fs::create_dir_all(path.join("part-000001")).unwrap();
        fs::write(path.join("part-000001/files.parquet"), vec![1; 700 << 10]).unwrap();
        let time = std::time::SystemTime::now() - Duration::from_secs(3600);
        let offset = Duration::from_secs(60 * day.parse::<u64>().unwrap());
        fs::File::open(&path)
            .unwrap()
            .set_modified(time + offset)
            .unwrap();
        path
    };
    common::need_root();
    fs::create_dir_all(&logs).unwrap();
    let (old, new) = (log("01", "a.d"), log("02", "b.d"));
    let (daemon, _config) = service(&logs, "max_size_mib = 1\nleast = \"1s\"");
    let mut job = job("8131", &mounted.path.join("file"), 100, "3", None);
    let started = Instant::now();
    while old.exists() {
        assert!(started.elapsed() < PATIENCE, "the oldest is still there");
        std::thread::sleep(Duration::from_millis(200));
    }
    job.wait().unwrap();
    complete(&logs, "slurm:8131");
    assert!(new.exists() && !logs.join("2024/01/01").exists());
    daemon.end(libc::SIGTERM);
}

#[test]
fn formats_and_findings_are_made_at_the_end() {
    turn::alone();
    let mounted = Mounted::new();
    open_to_all(&mounted.path);
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let keys = "least = \"1s\"\nformats = [\"darshan\", \"html\", \"json\", \"recording\"]";
    let (daemon, _config) = service(&logs, keys);
    let mut job = job("8141", &mounted.path.join("file"), 3000, "3", Some(12_345));
    assert!(job.wait().unwrap().success());
    let log = examined(&logs, "slurm:8141");
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    assert_eq!(written(&log).0, 3_000_000);
    for (ending, start) in [
        ("darshan", &b""[..]),
        ("html", &b"<!doctype html>"[..]),
        ("json", &b"{"[..]),
    ] {
        let path = directory.with_extension(ending);
        wait_until(ending, || path.exists());
        let about = fs::metadata(&path).unwrap();
        assert_eq!((about.uid(), about.mode() & 0o777), (12_345, 0o600));
        let content = fs::read(&path).unwrap();
        assert!(
            !content.is_empty() && content.starts_with(start),
            "{ending}"
        );
    }
    let summary = fs::read(directory.with_extension("json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["verdict"]["code"], log["verdict"]);
    let codes = |findings: &Value| -> std::collections::BTreeSet<String> {
        let all = findings.as_array().unwrap().iter();
        all.map(|one| one["code"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(codes(&summary["findings"]), codes(&log["findings"]));
    let about = fs::metadata(directory.join("job.json")).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o777), (12_345, 0o600));
    assert_eq!(state(&daemon)["not_examined"], 0);
    daemon.end(libc::SIGTERM);
    // As if the analysis had found something else: what is selected is what the logs say.
    let path = directory.join("job.json");
    let mut about: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    about["findings"] = serde_json::json!([
        {"code": "call-hangs", "severity": "medium", "confidence": "high"}
    ]);
    fs::write(&path, about.to_string()).unwrap();
    for (args, is_selected) in [
        (["--finding", "call-hangs"], true),
        (["--finding", "small-files-at-random"], false),
        (["--severity", "low"], true),
        (["--severity", "medium"], true),
        (["--severity", "high"], false),
    ] {
        let out = jobs(&logs, &args);
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(text.contains("slurm:8141"), is_selected, "{args:?}: {text}");
        assert_eq!(text.contains("call-hangs (medium)"), is_selected, "{text}");
    }
    // All of it goes with the log.
    assert!(jobs(&logs, &["rm", "8141"]).status.success());
    assert!(
        fs::read_dir(directory.parent().unwrap())
            .unwrap()
            .next()
            .is_none()
    );
    assert!(!jobs(&logs, &["rm", "8141"]).status.success());
}

#[test]
fn a_job_is_named_by_its_busiest_program_not_by_its_first() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, _config) = service(&logs, "least = \"1s\"");
    let work = format!(
        "sleep 3; {} if=/dev/zero of=\"$1\" bs=1000 count=3000 status=none; exec sleep 1",
        tool("dd").display()
    );
    let mut job = Command::new("sh");
    job.args(["-c", &work, "sh"]).arg(mounted.path.join("file"));
    let status = job.env("SLURM_JOB_ID", "8161").status().unwrap();
    assert!(status.success());
    let log = complete(&logs, "slurm:8161");
    let executable = log["executable"].as_str().unwrap();
    assert!(executable.ends_with("/dd"), "{executable}");
    daemon.end(libc::SIGTERM);
}

#[test]
fn a_recording_that_is_not_wanted_goes() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, _config) = service(&logs, "least = \"1s\"\nformats = [\"json\"]");
    let mut job = job("8151", &mounted.path.join("file"), 100, "2", None);
    job.wait().unwrap();
    let log = complete(&logs, "slurm:8151");
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    wait_until("the summary", || directory.with_extension("json").exists());
    let left = fs::read_dir(&directory).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["job.json"]);
    let report = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["report", "job:8151", "--dir"])
        .arg(&logs)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&report.stderr);
    assert!(
        !report.status.success() && said.contains("formats"),
        "{said}"
    );
    daemon.end(libc::SIGTERM);
}

#[test]
fn an_epilog_ends_a_log() {
    let mounted = Mounted::new();
    open_to_all(&mounted.path);
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let socket = base.join("socket");
    fs::set_permissions(&base, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (daemon, _config) = service_with(&logs, "least = \"1s\"", |command| {
        command
            .env("IOTRACE_SOCKET", &socket)
            .args(["--socket-group", "*"]);
    });
    let iotrace = base.join("iotrace");
    fs::copy(env!("CARGO_BIN_EXE_iotrace"), &iotrace).unwrap();
    let end = |id: &str, user: u32| {
        let mut command = Command::new(&iotrace);
        command.args(["jobs", "end", id, "--socket"]).arg(&socket);
        command.uid(user).gid(user).output().unwrap()
    };
    let user = 12_345;
    let mut job = job("8161", &mounted.path.join("file"), 2000, "30", Some(user));
    until(&logs, "slurm:8161", |log| log["user"] == user);
    let refused = end("8161", user + 1);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(77) && said.contains("another user's"),
        "{said}"
    );
    let none = end("8162", 0);
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(
        none.status.code() == Some(1) && said.contains("no log of job 8162"),
        "{said}"
    );
    let ended = end("8161", user);
    assert!(ended.status.success(), "{ended:?}");
    let directory = String::from_utf8(ended.stdout).unwrap();
    // It is complete when the command returns, with all that was done, while the job still runs.
    let log = listed(&logs, "slurm:8161");
    let log = log
        .iter()
        .find(|log| log["directory"] == directory.trim())
        .unwrap();
    assert_eq!(
        (&log["complete"], &log["bytes_written"]),
        (&true.into(), &2_000_000.into())
    );
    assert_eq!(log["unit_ended"], false);
    assert_eq!(fs::metadata(directory.trim()).unwrap().uid(), user);
    job.kill().unwrap();
    job.wait().unwrap();
    daemon.end(libc::SIGTERM);
}

/// A control group that the service takes for a systemd service; gone at the end.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mut mounts = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let unified = mounts
            .find(|words| words[2] == "cgroup2")
            .expect("cgroup v2");
        let path = Path::new(unified[1]).join("system.slice").join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A process in it: root begins it, and it goes on as `user`, as services do.
    fn run(&self, user: u32, work: &str, file: &Path) -> Child {
        let enter = format!(
            "echo $$ >\"$2/cgroup.procs\"; exec setpriv --reuid {user} --regid {user} --clear-groups \
             env -u SLURM_JOB_ID sh -c '{work}' sh \"$1\""
        );
        let mut command = Command::new("sh");
        command.args(["-c", &enter, "sh"]).arg(file).arg(&self.0);
        command.spawn().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let own = self.0.ancestors();
        for path in own.take_while(|path| !path.ends_with("system.slice")) {
            let _ = fs::remove_dir(path);
        }
    }
}

const USER: u32 = 12_345;

/// Users of a service, and what they run.
struct Attack {
    _base: tempfile::TempDir,
    base: PathBuf,
    mounted: Mounted,
    daemon: Daemon,
    _config: tempfile::NamedTempFile,
    logs: PathBuf,
    socket: PathBuf,
}

/// Bytes that only root can read.
const SECRET_BYTES: usize = 1_234_567;

impl Attack {
    fn new() -> Self {
        let mounted = Mounted::new();
        open_to_all(&mounted.path);
        let (dir, base) = common::directory();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        let (logs, socket) = (base.join("logs"), base.join("socket"));
        let (daemon, config) = service_with(&logs, "least = \"1s\"", |command| {
            command
                .env("IOTRACE_SOCKET", &socket)
                .args(["--socket-group", "*"]);
        });
        let attack = Self {
            _base: dir,
            base,
            mounted,
            daemon,
            _config: config,
            logs,
            socket,
        };
        attack.program("set-uid", &common::workload(), 0, 0o4755);
        attack.program("set-gid", &common::workload(), USER + 1, 0o2755);
        attack.program("set-uid-setpriv", &tool("setpriv"), 0, 0o4755);
        attack.program("workload", &common::workload(), 0, 0o755);
        attack.program(
            "iotrace",
            Path::new(env!("CARGO_BIN_EXE_iotrace")),
            0,
            0o755,
        );
        for (name, group, mode) in [
            ("secret", 0, 0o600),
            ("of-a-group", USER + 1, 0o640),
            ("public", 0, 0o644),
        ] {
            let path = attack.base.join(name);
            fs::write(&path, vec![b'x'; SECRET_BYTES]).unwrap();
            chown(&path, Some(0), Some(group)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        attack
    }

    fn program(&self, name: &str, from: &Path, group: u32, mode: u32) {
        let program = self.base.join(name);
        fs::copy(from, &program).unwrap();
        chown(&program, Some(0), Some(group)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A shell of the user's in a job that its environment names, in the directory of the programs.
    fn job(&self, number: &str, work: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", work, "sh"]);
        command
            .arg(self.mounted.path.join(number))
            .arg(&self.socket);
        command.current_dir(&self.base).env("SLURM_JOB_ID", number);
        command.uid(USER).gid(USER).spawn().unwrap()
    }
}

/// What a job does before anybody else comes: its log has begun by then.
fn begin() -> String {
    let dd = tool("dd");
    format!(
        "{} if=/dev/zero of=\"$1\" bs=1000 count=500 status=none; sleep 3; ",
        dd.display()
    )
}

#[test]
fn a_units_log_is_its_users_if_all_its_processes_are() {
    let attack = Attack::new();
    let place = |name: &str| attack.mounted.path.join(name);
    let own = Group::new("iotrace-test-own.service");
    let mixed = Group::new("iotrace-test-mixed.service");
    let work = format!("{} sleep 1", begin());
    let mut children = [
        own.run(USER, &work, &place("own")),
        mixed.run(USER, &work, &place("mixed")),
        mixed.run(USER + 1, &work, &place("other")),
    ];
    for child in &mut children {
        child.wait().unwrap();
    }
    for (unit, is_users, files) in [
        ("systemd:iotrace-test-own.service", true, &["own"][..]),
        (
            "systemd:iotrace-test-mixed.service",
            false,
            &["mixed", "other"],
        ),
    ] {
        let log = examined(&attack.logs, unit);
        assert_owner(&log, USER, is_users, unit);
        for file in files {
            assert_eq!(written_to(&log, &place(file)), 500_000, "{unit} {file}");
        }
    }
    attack.daemon.end(libc::SIGTERM);
}

#[test]
fn a_process_that_lives_for_a_moment_makes_a_units_log_roots() {
    turn::alone();
    let attack = Attack::new();
    let programs = attack.base.display();
    let visitor = |user: u32, group: &Group, work: &str| {
        let status = group.run(user, work, &attack.base.join("public")).wait();
        assert!(status.unwrap().success());
    };
    // Who comes for a moment while the user's program sleeps, and whether the log is the user's still.
    type Visit<'a> = &'a dyn Fn(&Group);
    let moments: [(&str, Visit<'_>, bool); 7] = [
        ("nobody", &|_| (), true),
        ("same", &|group| visitor(USER, group, "true"), true),
        ("other", &|group| visitor(USER + 1, group, "true"), false),
        ("root", &|group| visitor(0, group, "true"), false),
        (
            "set-uid",
            &|group| {
                visitor(
                    USER,
                    group,
                    &format!("{programs}/set-uid rights {programs}/secret"),
                )
            },
            false,
        ),
        (
            "set-gid",
            &|group| {
                visitor(
                    USER,
                    group,
                    &format!("{programs}/set-gid rights {programs}/of-a-group"),
                )
            },
            false,
        ),
        // A process of the user's again when the second ends.
        (
            "becomes",
            &|group| {
                let become_user = format!(
                    "exec {programs}/set-uid-setpriv --reuid {USER} --regid {USER} --clear-groups sleep 2"
                );
                visitor(USER, group, &become_user);
            },
            false,
        ),
    ];
    let all = moments.map(|(name, visit, is_users)| {
        let group = Group::new(&format!("iotrace-test-{name}.service"));
        let work = format!("{} sleep 4", begin());
        let child = group.run(USER, &work, &attack.mounted.path.join(name));
        (name, group, child, visit, is_users)
    });
    for (name, ..) in &all {
        until(
            &attack.logs,
            &format!("systemd:iotrace-test-{name}.service"),
            |_| true,
        );
    }
    for (_, group, _, visit, _) in &all {
        visit(group);
    }
    for (name, _group, mut child, _, is_users) in all {
        child.wait().unwrap();
        let log = examined(
            &attack.logs,
            &format!("systemd:iotrace-test-{name}.service"),
        );
        assert_owner(&log, USER, is_users, name);
        let file = attack.mounted.path.join(name);
        assert_eq!(written_to(&log, &file), 500_000, "{name}");
    }
    attack.daemon.end(libc::SIGTERM);
}

#[test]
fn a_program_with_more_rights_makes_a_jobs_log_roots() {
    let attack = Attack::new();
    let become_user = format!("./set-uid-setpriv --reuid {USER} --regid {USER} --clear-groups");
    let jobs = [
        ("8401", "./workload rights public".to_owned(), true),
        ("8402", "./set-uid rights secret".to_owned(), false),
        ("8403", "./set-gid rights of-a-group".to_owned(), false),
        ("8404", "exec ./set-uid rights secret".to_owned(), false),
        ("8405", format!("exec {become_user} sleep 2"), false),
        // The program with more rights comes into another job, and is its user's again before the second ends.
        (
            "8406",
            format!(
                "SLURM_JOB_ID=8407 exec {become_user} {} if=public of=/dev/null status=none",
                tool("dd").display()
            ),
            false,
        ),
    ];
    let mut children = jobs.each_ref().map(|(number, work, _)| {
        let child = attack.job(number, &format!("{} {work}", begin()));
        (number, child)
    });
    for (number, child) in &mut children {
        assert!(child.wait().unwrap().success(), "{number}");
    }
    for (number, _, is_users) in &jobs {
        let log = examined(&attack.logs, &format!("slurm:{number}"));
        assert_owner(&log, USER, *is_users, number);
        let file = attack.mounted.path.join(number);
        assert_eq!(written_to(&log, &file), 500_000, "{number}");
    }
    let other = examined(&attack.logs, "slurm:8407");
    assert_owner(&other, USER, false, "8407");
    attack.daemon.end(libc::SIGTERM);
}

#[test]
fn a_batch_jobs_log_is_its_users_and_has_nothing_of_roots_processes() {
    let attack = Attack::new();
    let step = |job: &str| {
        Group::new(&format!(
            "iotrace-test-slurmstepd.scope/job_{job}/step_0/user/task_0"
        ))
    };
    let place = |name: &str| attack.mounted.path.join(name);
    let jobs = [("8601", 0, true), ("8602", USER + 1, false)];
    for (job, visitor, _) in jobs {
        let group = step(job);
        let dd = tool("dd");
        // In a process of its own, whose files are named.
        let write = format!(
            "{} if=/dev/zero of=\"$1\" bs=1000 count=70 status=none; true",
            dd.display()
        );
        // Before the user's processes, with them, and after them.
        let visit = || group.run(visitor, &write, &place(&format!("{job}-visitor")));
        visit().wait().unwrap();
        let mut child = group.run(USER, &begin(), &place(job));
        visit().wait().unwrap();
        child.wait().unwrap();
        visit().wait().unwrap();
    }
    for (job, _, is_users) in jobs {
        let log = examined(&attack.logs, &format!("slurm:{job}"));
        assert_owner(&log, USER, is_users, job);
        assert_eq!(written_to(&log, &place(job)), 500_000, "{job}");
        let visitor = place(&format!("{job}-visitor"));
        let bytes = if is_users { 0 } else { 210_000 };
        assert_eq!(written_to(&log, &visitor), bytes, "{job}");
        let (total, _) = written(&log);
        // The shells that begin the user's program write their pids.
        assert!(total < 500_000 + bytes + 1000, "{job}: {total}");
    }
    attack.daemon.end(libc::SIGTERM);
}

#[test]
fn the_end_of_a_log_is_no_way_around_who_may_read_it() {
    turn::alone();
    let attack = Attack::new();
    let numbers: Vec<String> = (8501..=8510)
        .map(|number: u32| number.to_string())
        .collect();
    // At all times of a second.
    let mut children: Vec<Child> = numbers
        .iter()
        .zip(0..)
        .map(|(number, tenth)| {
            let work = format!(
                "{} sleep 0.{tenth}; ./set-uid rights secret; ./iotrace jobs end {number} --socket \"$2\" 2>/dev/null; sleep 2",
                begin()
            );
            attack.job(number, &work)
        })
        .collect();
    for child in &mut children {
        child.wait().unwrap();
    }
    let has_secret = |log: &Value| log["bytes_read"].as_u64().unwrap() >= SECRET_BYTES as u64;
    for number in &numbers {
        let unit = format!("slurm:{number}");
        until(&attack.logs, &unit, |log| {
            has_secret(log) && !log["verdict"].as_str().unwrap().is_empty()
        });
        for log in listed(&attack.logs, &unit)
            .iter()
            .filter(|log| has_secret(log))
        {
            assert_owner(log, USER, false, &unit);
        }
    }
    attack.daemon.end(libc::SIGTERM);
}

#[test]
fn a_log_begins_with_its_job() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, _config) = service(&logs, "least = \"1s\"");
    // Not at the very beginning of the service, where no log could begin earlier.
    std::thread::sleep(Duration::from_secs(3));
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_nanos() as i64
    };
    let before = now();
    let file = mounted.path.join("file");
    let mut job = job("8171", &file, 100, "3", None);
    let after = now();
    job.wait().unwrap();
    let log = complete(&logs, "slurm:8171");
    let start = log["start_unix_ns"].as_i64().unwrap();
    // The log begins at most a second before the first counts are taken, or when the first process began.
    assert!(start <= after, "{start} {after}");
    assert!(start >= before - 1_000_000_000, "{start} {before}");
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    let recorded = iotrace_recording::read(&directory).unwrap();
    let spans = recorded.model.spans().unwrap().all();
    let is_of_file =
        |index: u32| recorded.model.file(index).path == file.as_os_str().as_encoded_bytes();
    assert!(
        spans.iter().any(|span| is_of_file(span.file)),
        "the use of the first interval"
    );
    daemon.end(libc::SIGTERM);
}

#[test]
fn jobs_beyond_the_limit_are_counted_and_not_logged() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, _config) = service(&logs, "least = \"1s\"\nmax_open = 1");
    let first = |name: &str| mounted.path.join(name);
    // Whatever else this machine does may have the one place before it.
    let mut holder = job("8180", &first("holder"), 100, "12", None);
    wait_until("a log has the place", || state(&daemon)["open"] == 1);
    let before = state(&daemon)["not_logged"].as_u64().unwrap();
    let mut all = [
        job("8181", &first("a"), 100, "4", None),
        job("8182", &first("b"), 100, "4", None),
    ];
    wait_until("the others are counted", || {
        assert!(state(&daemon)["open"].as_u64().unwrap() <= 1);
        state(&daemon)["not_logged"].as_u64().unwrap() > before
    });
    for job in all.iter_mut().chain([&mut holder]) {
        job.wait().unwrap();
    }
    let logged = listed(&logs, "slurm:8181").len() + listed(&logs, "slurm:8182").len();
    assert!(logged <= 1, "{logged} logs");
    daemon.end(libc::SIGTERM);
}

#[test]
fn logs_are_removed_at_their_age() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let (daemon, _config) = service(&logs, "least = \"1s\"\nkeep = \"8s\"");
    let mut job = job("8191", &mounted.path.join("file"), 100, "2", None);
    job.wait().unwrap();
    let log = complete(&logs, "slurm:8191");
    let directory = PathBuf::from(log["directory"].as_str().unwrap());
    wait_until("the log is removed", || !directory.exists());
    // It is counted after it is gone.
    wait_until("the removal is counted", || {
        state(&daemon)["removed"].as_u64().unwrap() >= 1
    });
    daemon.end(libc::SIGTERM);
}

#[test]
fn a_job_goes_on_in_the_next_log_when_the_service_is_restarted() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let (logs, go) = (base.join("logs"), base.join("go"));
    let file = mounted.path.join("file");
    let write = format!(
        "{} if=/dev/zero of=\"$1\" bs=1000 status=none",
        tool("dd").display()
    );
    let work = format!(
        "{write} count=3000; while ! test -e \"$2\"; do sleep 0.2; done; {write} count=7000"
    );
    let (daemon, _config) = service(&logs, "least = \"1s\"");
    let mut job = Command::new("sh")
        .args(["-c", &work, "sh"])
        .args([&file, &go])
        .env("SLURM_JOB_ID", "8202")
        .spawn()
        .unwrap();
    until(&logs, "slurm:8202", |log| log["bytes_written"] == 3_000_000);
    daemon.end(libc::SIGTERM);
    std::thread::sleep(Duration::from_millis(1500));
    let (daemon, _config) = service(&logs, "least = \"1s\"");
    fs::write(&go, "").unwrap();
    job.wait().unwrap();
    until(&logs, "slurm:8202", |log| {
        log["bytes_written"] == 7_000_000 && log["complete"] == true
    });
    daemon.end(libc::SIGTERM);
    let (report, said) = report_of(&logs, "8202");
    assert_eq!(said, "");
    assert_eq!(report["totals"]["bytes_written"], 10_000_000);
    let files = report["files"].as_array().unwrap();
    let written: Vec<_> = files
        .iter()
        .filter(|row| row["path"] == file.to_str().unwrap())
        .map(|row| [&row["inode"], &row["generation"], &row["device"]])
        .collect();
    assert!(
        written.len() == 2 && written[0] == written[1],
        "{written:?}"
    );
    let processes = report["processes"].as_array().unwrap();
    let of_job = |process: &&Value| process["pid"] == job.id();
    assert_eq!(processes.iter().filter(of_job).count(), 1);
    assert!(report["losses"]["seconds_between_logs"].as_u64() >= Some(1));
}

#[test]
fn the_logs_of_several_nodes_make_one_job() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    for (host, blocks) in [(&b"node-one"[..], 3000), (&b"node-two"[..], 7000)] {
        let (daemon, _config) = service_with(&logs, "least = \"1s\"", |command| {
            // SAFETY: two plain calls in the child; the name lives as long as this process.
            unsafe {
                command.pre_exec(move || {
                    let failed = libc::unshare(libc::CLONE_NEWUTS) != 0
                        || libc::sethostname(host.as_ptr().cast(), host.len()) != 0;
                    match failed {
                        true => Err(std::io::Error::last_os_error()),
                        false => Ok(()),
                    }
                });
            }
        });
        let mut job = job("8201", &mounted.path.join("file"), blocks, "2", None);
        job.wait().unwrap();
        let name = std::str::from_utf8(host).unwrap();
        until(&logs, "slurm:8201", |log| {
            log["host"] == name && log["complete"] == true
        });
        daemon.end(libc::SIGTERM);
    }
    let (report, _) = report_of(&logs, "8201");
    let nodes = report["nodes"].as_array().unwrap();
    let mut hosts: Vec<_> = nodes
        .iter()
        .map(|node| node["host"].as_str().unwrap())
        .collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node-one", "node-two"]);
    assert_eq!(report["totals"]["bytes_written"], 10_000_000);
}

#[test]
fn a_disk_that_hangs_costs_logs_and_not_the_service() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let disk = base.join("disk");
    let hung = Slow::mount(&disk, &[], Speed::default());
    let (mut daemon, _config) = service(&disk, "least = \"1s\"");
    hung.hang();
    // Something to count in every interval.
    let work = format!(
        "while sleep 0.2; do {} if=/dev/zero of=\"$1\" bs=1000 count=5 status=none; done",
        tool("dd").display()
    );
    let mut job = Command::new("sh")
        .args(["-c", &work, "sh"])
        .arg(mounted.path.join("file"))
        .env("SLURM_JOB_ID", "8211")
        .spawn()
        .unwrap();
    wait_until("the loss is counted", || {
        assert_eq!(daemon.get("/healthz").status, 200);
        state(&daemon)["merged"].as_u64().unwrap() > 0
    });
    daemon.signal(libc::SIGTERM);
    let status = wait_for(&mut daemon.child, PATIENCE);
    assert!(status.success(), "{status}");
    drop(hung);
    job.kill().unwrap();
    job.wait().unwrap();
}

#[test]
fn a_job_that_pauses_between_two_logs_has_lost_nothing() {
    let mounted = Mounted::new();
    let (_dir, base) = common::directory();
    let logs = base.join("logs");
    let write = format!(
        "{} if=/dev/zero of=\"$1\" bs=1000 status=none count=\"$2\"; sleep 1.5",
        tool("dd").display()
    );
    let (daemon, _config) = service(&logs, "least = \"1s\"");
    for count in ["3000", "7000"] {
        let job = Command::new("sh")
            .args(["-c", &write, "sh"])
            .arg(mounted.path.join("file"))
            .arg(count)
            .env("SLURM_JOB_ID", "8203")
            .status();
        assert!(job.unwrap().success());
        until(&logs, "slurm:8203", |log| {
            log["bytes_written"] == count.parse::<u64>().unwrap() * 1000 && log["complete"] == true
        });
        std::thread::sleep(Duration::from_millis(1500));
    }
    daemon.end(libc::SIGTERM);
    let (report, said) = report_of(&logs, "8203");
    assert_eq!(said, "");
    assert_eq!(report["totals"]["bytes_written"], 10_000_000);
    assert_eq!(
        report["losses"]["seconds_between_logs"]
            .as_u64()
            .unwrap_or(0),
        0
    );
}
