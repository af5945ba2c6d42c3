//! What the service says of a job beside its sums: epochs, findings, open files; and who does the most.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    daemon::{self, Daemon, Mounted, Sample, sum},
    tool,
};

/// Reads the data three times, asks for missing modules, keeps files open; reads it once more for each line.
const JOB: &str = r#"
import os, sys
root = sys.argv[1]
files = [f"{root}/train/{n:05}.jpg" for n in range(300)]
def epoch():
    for name in files:
        with open(name, "rb", buffering=0) as file:
            file.read(100)
            while file.read(4096):
                pass
for _ in range(3):
    epoch()
for n in range(4000):
    try:
        os.stat(f"{root}/lib/python3/site-packages/missing{n}.py")
    except FileNotFoundError:
        pass
kept = [open(name, "rb") for name in files[:70]]
print("ready", flush=True)
for _ in sys.stdin:
    epoch()
    print("done", flush=True)
"#;

/// Scrapes until `is_enough`, for longer than a look at all units takes.
fn until<T>(daemon: &Daemon, what: &str, mut is_enough: impl FnMut(&[Sample]) -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let samples = daemon.scrape();
        if let Some(found) = is_enough(&samples) {
            return found;
        }
        let ours: Vec<_> = samples
            .iter()
            .filter(|sample| sample.label("unit") == "slurm:700")
            .collect();
        assert!(
            started.elapsed() < Duration::from_secs(150),
            "no {what}: {ours:#?}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn epochs_findings_and_open_files_of_a_job_are_seen() {
    let mounted = Mounted::new();
    let train = mounted.path.join("train");
    fs::create_dir(&train).unwrap();
    for number in 0..300 {
        fs::write(train.join(format!("{number:05}.jpg")), vec![7; 20_000]).unwrap();
    }
    // Four thousand look-ups take some milliseconds.
    let rules = mounted.path.join("rules.toml");
    let thresholds = "[thresholds]\nnot_found_seconds = 1e-6\nnot_found_run_share = 1e-9\n";
    fs::write(&rules, thresholds).unwrap();
    let mut command = daemon::command();
    command.args(["--program-stats", "--rules"]).arg(&rules);
    let daemon = Daemon::start(&mut command);
    let mut job = Command::new(tool("python3"))
        .args(["-c", JOB, mounted.name()])
        .env("SLURM_JOB_ID", "700")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What the tests have there may be a file, which would be one more open file.
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(job.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let unit = ("unit", "slurm:700");
    let epochs = |samples: &[Sample]| sum(samples, "iotrace_epochs_total", &[unit]);
    // The third may go on, as far as anybody can know.
    until(&daemon, "two epochs", |samples| {
        assert!(epochs(samples) <= 2.0, "{}", epochs(samples));
        (epochs(samples) == 2.0).then_some(())
    });
    let mut stdin = job.stdin.take().unwrap();
    stdin.write_all(b"again\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "done");
    until(&daemon, "the third epoch", |samples| {
        (epochs(samples) >= 3.0).then_some(())
    });
    until(&daemon, "open files", |samples| {
        let open = sum(samples, "iotrace_open_files", &[unit]);
        (open == 70.0).then_some(())
    });
    let samples = until(&daemon, "a finding", |samples| {
        let storm = [unit, ("code", "startup-metadata-storm")];
        (sum(samples, "iotrace_findings", &storm) >= 1.0).then(|| samples.to_vec())
    });
    let read = [unit, ("operation", "read"), ("phase", "training")];
    assert_eq!(
        sum(&samples, "iotrace_bytes_total", &read),
        4.0 * 300.0 * 20_000.0
    );
    let last = sum(
        &samples,
        "iotrace_training_last_read_timestamp_seconds",
        &[unit],
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let age = now.unwrap().as_secs_f64() - last;
    assert!((0.0..200.0).contains(&age), "{age} s ago");
    let program = [("program", "sys_exit")];
    let runs = sum(&samples, "iotrace_program_runs_total", &program);
    let time = sum(&samples, "iotrace_program_run_seconds_total", &program);
    assert!(runs > 10_000.0, "{runs}");
    assert!(
        time > runs * 1e-9 && time < runs * 1e-3,
        "{time} s in {runs}"
    );
    daemon::promtool_finds_no_fault(&daemon.get("/metrics").body);
    drop(stdin);
    job.wait().unwrap();
    until(&daemon, "closed files", |samples| {
        (sum(samples, "iotrace_open_files", &[unit]) == 0.0).then_some(())
    });
}

/// Bytes of all samples of one name in which a label is there.
fn bytes(samples: &[Sample], name: &str, label: &str) -> f64 {
    samples
        .iter()
        .filter(|sample| sample.name == name && !sample.label(label).is_empty())
        .map(|sample| sample.value)
        .sum()
}

#[test]
fn those_that_do_the_most_are_few_and_the_rest_is_one() {
    let mounted = Mounted::new();
    let mut command = daemon::command();
    command.args(["--top-directories", "3", "--top-processes", "3"]);
    let daemon = Daemon::start(&mut command);
    for directory in 0..20 {
        let path = mounted.path.join(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        let status = Command::new(tool("dd"))
            .args(["if=/dev/zero", "bs=1M", "count=5", "status=none"])
            .arg(format!("of={}/file", path.display()))
            .env("SLURM_JOB_ID", "701")
            .status();
        assert!(status.unwrap().success());
    }
    let written = [("unit", "slurm:701"), ("operation", "write")];
    daemon.until("all bytes", |samples| {
        (sum(samples, "iotrace_bytes_total", &written) >= 20.0 * 5e6).then_some(())
    });
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(15) {
        let samples = daemon.scrape();
        for (name, label) in [
            ("iotrace_directory_operations_total", "directory"),
            ("iotrace_process_operations_total", "pid"),
        ] {
            let of_name = samples.iter().filter(|sample| sample.name == name);
            let own: Vec<_> = of_name.collect();
            assert!(own.len() <= 4 && own.iter().any(|sample| sample.label(label) == "other"));
        }
        // Whatever others do meanwhile: every byte of a named file is of one directory, or of the rest.
        assert_eq!(
            bytes(&samples, "iotrace_directory_bytes_total", "directory"),
            bytes(&samples, "iotrace_bytes_total", "mountpoint")
        );
        // Bytes of files whose name has not come are a process's already.
        assert!(
            bytes(&samples, "iotrace_process_bytes_total", "pid")
                >= bytes(&samples, "iotrace_bytes_total", "phase")
        );
        std::thread::sleep(Duration::from_millis(700));
    }
}
