//! Processes that come and go by the thousand, of many jobs: memory stays flat, series stay few, and every job has what
//! it did. Then the service is killed in mid-load and started again.
//!
//! So do the logs of jobs that go on for as long.
//!
//! `IOTRACE_CHURN_SECONDS` says for how long; `cargo xtask soak` does it for ten minutes.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use iotrace_service::jobs::about::About;

use crate::common::{
    daemon::{self, Daemon, Mounted, Sample, sum},
    tool, turn,
};

const JOBS: u32 = 200;
/// Between two processes: 2,000 a minute.
const PACE: Duration = Duration::from_millis(30);
/// Bytes that each process writes, in three operations.
const BYTES: u64 = 3000;
const MIB: f64 = 1024.0 * 1024.0;

/// Processes done, by job.
type Done = Mutex<BTreeMap<u32, u64>>;

/// Tells those that start processes to stop, also where a test fails: it waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Starts processes of the jobs from `first` on, in turn, until it is told to stop.
fn churn(dir: &Path, first: u32, stop: &AtomicBool, done: &Done) {
    let dd = tool("dd");
    let started = Instant::now();
    let mut running: Vec<(Child, u32, PathBuf)> = Vec::new();
    let mut number = 0_u32;
    let reap = |running: &mut Vec<(Child, u32, PathBuf)>, all: bool| {
        running.retain_mut(|(child, job, file)| {
            let ended = if all {
                Some(child.wait().unwrap())
            } else {
                child.try_wait().unwrap()
            };
            let Some(status) = ended else { return true };
            assert!(status.success());
            fs::remove_file(file).unwrap();
            *done.lock().unwrap().entry(*job).or_default() += 1;
            false
        });
    };
    while !stop.load(Relaxed) {
        let job = first + number % JOBS;
        let file = dir.join(format!("{job}-{number}"));
        let child = Command::new(&dd)
            .args(["if=/dev/zero", "bs=1000", "count=3", "status=none"])
            .arg(format!("of={}", file.display()))
            .env("SLURM_JOB_ID", job.to_string())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        running.push((child, job, file));
        number += 1;
        reap(&mut running, false);
        let due = PACE * number;
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
    reap(&mut running, true);
}

/// Starts a process of a new job every now and then, each of which reads the same files, until it is told to stop.
fn new_jobs(dir: &Path, stop: &AtomicBool) {
    const PACE: Duration = Duration::from_millis(150);
    let files: Vec<PathBuf> = (0..30)
        .map(|number| dir.join(format!("shared-{number}")))
        .collect();
    files
        .iter()
        .for_each(|file| fs::write(file, b"data").unwrap());
    let cat = tool("cat");
    for job in 1_000_000.. {
        if stop.load(Relaxed) {
            return;
        }
        let mut command = Command::new(&cat);
        command.args(&files).env("SLURM_JOB_ID", job.to_string());
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
        std::thread::sleep(PACE);
    }
}

/// Bytes written on the mount, by job.
fn written(samples: &[Sample], mount: &str) -> BTreeMap<u32, u64> {
    let mut jobs = BTreeMap::new();
    for sample in samples.iter().filter(|sample| {
        sample.name == "iotrace_bytes_total"
            && sample.label("mountpoint") == mount
            && sample.label("operation") == "write"
    }) {
        if let Some(job) = sample.label("unit").strip_prefix("slurm:") {
            *jobs.entry(job.parse().unwrap()).or_default() += sample.value as u64;
        }
    }
    jobs
}

/// Waits until every job has what it did, to the byte.
fn until_all_is_counted(daemon: &Daemon, mount: &str, done: &BTreeMap<u32, u64>) -> Vec<Sample> {
    let truth: BTreeMap<u32, u64> = done.iter().map(|(job, n)| (*job, n * BYTES)).collect();
    let of_jobs = |samples: &[Sample]| {
        let mut jobs = written(samples, mount);
        jobs.retain(|job, _| truth.contains_key(job));
        jobs
    };
    let samples = daemon.until("counts of all processes", |samples| {
        let now: u64 = of_jobs(samples).values().sum();
        (now >= truth.values().sum()).then(|| samples.to_vec())
    });
    assert_eq!(of_jobs(&samples), truth);
    samples
}

fn gauge(samples: &[Sample], name: &str) -> f64 {
    sum(samples, name, &[])
}

/// Entries of each table of the service.
fn tables(samples: &[Sample]) -> BTreeMap<&str, f64> {
    samples
        .iter()
        .filter(|sample| sample.name == "iotrace_table_entries")
        .map(|sample| (sample.label("table"), sample.value))
        .collect()
}

/// Fails if a table grew while jobs and processes came and went at one pace. `settled`: when a quarter was over.
fn no_table_grows(settled: &[Sample], last: &[Sample]) {
    let before = tables(settled);
    let after = tables(last);
    assert!(after.len() >= 15, "{after:?}");
    for (table, entries) in after {
        let was = before.get(table).copied().unwrap_or(0.0);
        // Others on this machine come and go, too.
        assert!(
            entries <= was * 1.5 + 3000.0,
            "{table}: {was}, then {entries}"
        );
    }
}

/// Ids of the BPF programs that a process has attached.
fn programs(pid: u32) -> HashSet<u32> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    infos
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .filter_map(|text| {
            let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
            id.and_then(|id| id.trim().parse().ok())
        })
        .collect()
}

/// Whether the kernel has a BPF program of this id.
fn is_loaded(id: u32) -> bool {
    const GET_FD_BY_ID: libc::c_int = 13;
    let attr = [id, 0, 0, 0];
    // SAFETY: the attribute is as long as it is said to be; a descriptor that is returned is closed.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_bpf,
            GET_FD_BY_ID,
            attr.as_ptr(),
            size_of_val(&attr),
        );
        if fd >= 0 {
            libc::close(fd as i32);
        }
        fd >= 0
    }
}

#[test]
fn what_comes_and_goes_is_counted_and_leaves_nothing_behind() {
    turn::alone();
    let seconds = std::env::var("IOTRACE_CHURN_SECONDS")
        .map_or(40, |text| text.parse().expect("IOTRACE_CHURN_SECONDS"));
    let length = Duration::from_secs(seconds);
    let mounted = Mounted::new();
    let mut command = daemon::command();
    // Little is remembered, so that forgetting is a part of it.
    command.args([
        "--max-files",
        "2000",
        "--top-processes",
        "10",
        "--linger",
        "10s",
    ]);
    let daemon = Daemon::start(&mut command);
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let samples = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| churn(&mounted.path, 10_000, &stop, &done));
        scope.spawn(|| new_jobs(&mounted.path, &stop));
        let started = Instant::now();
        let mut looks: Vec<Vec<Sample>> = Vec::new();
        while started.elapsed() < length {
            std::thread::sleep(length / 40);
            looks.push(daemon.scrape());
        }
        looks
    });
    let truth = done.lock().unwrap().clone();
    let processes: u64 = truth.values().sum();
    let last = until_all_is_counted(&daemon, mounted.name(), &truth);
    println!(
        "{processes} processes of {} jobs in {seconds} s",
        truth.len()
    );
    for (index, look) in samples.iter().enumerate().step_by(8) {
        println!(
            "{:3} % of it: {:.1} MiB, {} series, {} files, {} processes, {} descriptors",
            index * 100 / samples.len(),
            gauge(look, "process_resident_memory_bytes") / MIB,
            gauge(look, "iotrace_series"),
            gauge(look, "iotrace_known_files"),
            gauge(look, "iotrace_known_processes"),
            gauge(look, "process_open_fds"),
        );
        println!("      {:?}", tables(look));
    }
    // At least two thirds of what was asked for: the machine may be busy.
    assert!(processes > seconds * 22, "{processes} processes");
    assert_eq!(truth.len() as u32, JOBS);
    let settled = &samples[samples.len() / 4];
    let grown = |name: &str| gauge(&last, name) - gauge(settled, name);
    // A shorter run ends before the first jobs are forgotten.
    if length >= Duration::from_secs(300) {
        no_table_grows(settled, &last);
    }
    assert!(grown("process_resident_memory_bytes") < 12.0 * MIB);
    assert!(grown("process_open_fds").abs() <= 3.0);
    assert!(
        samples
            .iter()
            .all(|look| gauge(look, "iotrace_series") <= 20_000.0)
    );
    // What is a quarter above the bound is forgotten. Others on this machine may use many files at any moment.
    daemon.until("files within the bound", |samples| {
        (gauge(samples, "iotrace_known_files") <= 2500.0).then_some(())
    });
    assert_eq!(
        sum(&last, "iotrace_unaccounted_total", &[("kind", "lost")]),
        0.0
    );
    // No counter of a job that goes on falls. Those of jobs that are over go.
    for pair in samples.windows(2) {
        let (before, after) = (
            written(&pair[0], mounted.name()),
            written(&pair[1], mounted.name()),
        );
        for (job, bytes) in before.iter().filter(|(job, _)| truth.contains_key(job)) {
            assert!(after.get(job) >= Some(bytes), "job {job}: {bytes} bytes");
        }
    }
    // What is known by job goes with the jobs, though the files that they used are still known.
    daemon.until("tables without the jobs", |samples| {
        let tables = tables(samples);
        (tables["units"] < 100.0 && tables["unit_files"] < 4000.0).then_some(())
    });
    is_killed_and_starts_again(daemon, &mounted);
}

/// SIGKILL in mid-load: its hooks go with it. The next one counts from 0 on, exactly.
fn is_killed_and_starts_again(daemon: Daemon, mounted: &Mounted) {
    let (stop, done) = (AtomicBool::new(false), Done::default());
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| churn(&mounted.path, 20_000, &stop, &done));
        // What a file is of may be decided seconds after it was written.
        let before = daemon.until("bytes of the jobs", |samples| {
            let written = written(samples, mounted.name());
            (!written.is_empty()).then_some(written)
        });
        let hooks = programs(daemon.child.id());
        assert!(
            hooks.len() >= 5 && hooks.iter().all(|id| is_loaded(*id)),
            "{hooks:?}"
        );
        let (status, _) = daemon.end(libc::SIGKILL);
        assert!(!status.success());
        let started = Instant::now();
        while hooks.iter().any(|id| is_loaded(*id)) {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "hooks are left"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let daemon = Daemon::start(&mut daemon::command());
        // Jobs that the first one counted begin anew, lower than they were.
        let old = written(&daemon.scrape(), mounted.name());
        assert!(old.keys().all(|job| *job >= 20_000), "{before:?} {old:?}");
        let (stop_new, new) = (AtomicBool::new(false), Done::default());
        std::thread::scope(|scope| {
            let _stop = Stop(&stop_new);
            scope.spawn(|| churn(&mounted.path, 30_000, &stop_new, &new));
            std::thread::sleep(Duration::from_secs(5));
        });
        let new = new.lock().unwrap().clone();
        assert!(new.len() > 50);
        until_all_is_counted(&daemon, mounted.name(), &new);
    });
    drop(done);
}

/// Starts a job of short processes, each of which adds to the job's file, until `stop` exists.
fn long_job(number: u32, file: &Path, stop: &Path) -> Child {
    // Two processes in 12 seconds: 200 jobs have 2,000 a minute.
    let work = format!(
        "while [ ! -e \"$2\" ]; do \
         {} if=/dev/zero of=\"$1\" bs=1000 count=3 oflag=append conv=notrunc status=none; sleep 12; done",
        tool("dd").display()
    );
    Command::new("sh")
        .args(["-c", &work, "sh"])
        .args([file, stop])
        .env("SLURM_JOB_ID", number.to_string())
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn logs_of_many_jobs_are_exact() {
    turn::alone();
    /// Memory of the service with all logs open.
    const MOST_MIB: f64 = 400.0;
    let seconds = std::env::var("IOTRACE_CHURN_SECONDS")
        .map_or(30, |text| text.parse().expect("IOTRACE_CHURN_SECONDS"));
    let mounted = Mounted::new();
    let logs = mounted.path.join("logs");
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        &config,
        format!("[jobs]\ndirectory = {logs:?}\nmax_open = 1000\n"),
    )
    .unwrap();
    let mut command = daemon::command();
    command.arg("--config").arg(config.path());
    let daemon = Daemon::start(&mut command);
    let stop = mounted.path.join("stop");
    let file = |job: u32| mounted.path.join(format!("job-{job}"));
    let mut jobs = Vec::new();
    for job in 0..JOBS {
        jobs.push(long_job(40_000 + job, &file(job), &stop));
        std::thread::sleep(Duration::from_millis(20));
    }
    let started = Instant::now();
    let mut memory = Vec::new();
    while started.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(Duration::from_secs(3));
        memory.push(gauge(&daemon.scrape(), "process_resident_memory_bytes") / MIB);
    }
    fs::write(&stop, b"").unwrap();
    for job in &mut jobs {
        assert!(job.wait().unwrap().success());
    }
    let of_job = |about: &About| about.job.parse::<u32>().ok()?.checked_sub(40_000);
    let deadline = Instant::now() + Duration::from_secs(120);
    let complete = loop {
        let all = iotrace_service::jobs::logs(&logs).into_iter();
        let mut all: Vec<_> = all
            .filter_map(|log| {
                let about = About::read(&log)?;
                let job = of_job(&about).filter(|job| *job < JOBS)?;
                Some((job, about, log))
            })
            .collect();
        all.retain(|(_, about, _)| about.complete && !about.verdict.is_empty());
        if all.len() >= JOBS as usize {
            break all;
        }
        assert!(Instant::now() < deadline, "{} logs are complete", all.len());
        std::thread::sleep(Duration::from_secs(1));
    };
    assert_eq!(complete.len() as u32, JOBS, "one log of each job");
    let mut bytes = 0;
    for (job, about, log) in &complete {
        let truth = fs::metadata(file(*job)).unwrap().len();
        let recorded = iotrace_recording::read(log).unwrap();
        let written = recorded.model.io_totals().bytes_written;
        assert_eq!((about.bytes_written, written), (truth, truth), "job {job}");
        assert_eq!(about.merged, 0, "job {job}");
        bytes += truth;
    }
    let most = memory.iter().copied().fold(0.0, f64::max);
    println!(
        "logs: {JOBS} jobs, {} processes, {bytes} bytes, all exact; memory {:.1} MiB first, {most:.1} MiB at most, {:.1} MiB last",
        bytes / BYTES * 2,
        memory.first().copied().unwrap_or_default(),
        memory.last().copied().unwrap_or_default(),
    );
    assert!(most < MOST_MIB, "{most} MiB");
    daemon.end(libc::SIGTERM);
}
