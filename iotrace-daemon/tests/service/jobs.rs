//! Job logs: what the service writes of each job without anybody asking.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::{
    self,
    daemon::{self, Daemon, Mounted},
    tool,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A service that writes logs to a directory.
fn service(logs: &Path, keys: &str) -> (Daemon, tempfile::NamedTempFile) {
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[jobs]\ndirectory = {logs:?}\nflush = \"1s\"\n{keys}\n");
    fs::write(&config, text).unwrap();
    let mut command = daemon::command();
    command.arg("--config").arg(config.path());
    (Daemon::start(&mut command), config)
}

/// A job that writes `blocks` of 1000 bytes to a file, then sleeps.
fn job(number: &str, file: &Path, blocks: u32, seconds: &str, user: Option<u32>) -> Child {
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

fn complete(logs: &Path, unit: &str) -> Value {
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
    let (daemon, _config) = service(&logs, "least = \"2s\"");
    let (first, second) = (mounted.path.join("first"), mounted.path.join("second"));
    let mut jobs = [
        job("8101", &first, 3000, "4", Some(12_345)),
        job("8102", &second, 7000, "4", None),
        // Too short for a log.
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
    assert!(recorded.complete);
    let args = recorded
        .model
        .processes()
        .iter()
        .map(|of| of.about.args.len());
    assert_eq!(args.max(), Some(0), "only the path of the program");
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
