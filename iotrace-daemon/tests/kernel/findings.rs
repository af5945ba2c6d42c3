//! Each finding: a real program that has the fault, traced, and one that nearly has it.
//!
//! The programs are the jobs of `programs/jobs.py`. Where a job has to be slow, its files lie on a filesystem that is
//! as slow as is said here (`common::slow`), so that the machine's own speed matters little.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::common::{
    Iotrace,
    cache::drop_pages,
    directory, fio, number, python,
    slow::{Slow, Speed},
    text, turn,
};
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A job in a directory of its own.
struct Job {
    dir: PathBuf,
    thresholds: &'static str,
    flush: &'static str,
    /// More options of `iotrace record`.
    options: &'static [&'static str],
    /// Gone after the run.
    mounted: Vec<Slow>,
    _keep: TempDir,
}

impl Job {
    fn new() -> Self {
        let (keep, dir) = directory();
        Self {
            dir,
            thresholds: "",
            flush: "1h",
            options: &[],
            mounted: Vec::new(),
            _keep: keep,
        }
    }

    /// A file of zeros that takes no room.
    fn file(self, name: &str, size: u64) -> Self {
        let file = fs::File::create(self.path(name)).expect("a file");
        file.set_len(size).expect("its size");
        self
    }

    /// A slow filesystem at `name`.
    fn slow(mut self, name: &str, files: &[(&str, u64, Speed)], speed: Speed) -> Self {
        let mounted = Slow::mount(&self.path(name), files, speed);
        self.mounted.push(mounted);
        self
    }

    /// With other thresholds than the usual ones.
    fn thresholds(mut self, thresholds: &'static str) -> Self {
        self.thresholds = thresholds;
        self
    }

    fn flush(mut self, flush: &'static str) -> Self {
        self.flush = flush;
        self
    }

    fn options(mut self, options: &'static [&'static str]) -> Self {
        self.options = options;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The report of a job of `programs/jobs.py` on the file or directory `name`.
    fn run(&self, job: &str, name: &str, options: &[&str]) -> Value {
        let path = self.path(name);
        let mut arguments: Vec<&OsStr> = vec![job.as_ref(), "--path".as_ref(), path.as_ref()];
        arguments.extend(options.iter().map(OsStr::new));
        self.script("jobs.py", &arguments)
    }

    /// The report of a Python program of `programs`.
    fn script(&self, name: &str, arguments: &[&OsStr]) -> Value {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let mut command = vec![python().into_os_string(), "-S".into()];
        command.push(programs.join(name).into());
        command.extend(arguments.iter().map(Into::into));
        self.command(&command)
    }

    fn command(&self, command: &[std::ffi::OsString]) -> Value {
        let rules = self.path("thresholds.toml");
        fs::write(&rules, format!("[thresholds]\n{}\n", self.thresholds)).expect("thresholds");
        let finished = Iotrace::record()
            .entries("16384")
            .flush(self.flush)
            .args(["--rules".as_ref(), rules.as_os_str()])
            .args(self.options)
            .command(command);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        series_adds_up(&report);
        report
    }
}

/// Over all intervals the series is what the totals, the processes and their phases say.
fn series_adds_up(report: &Value) {
    let slices = report["time_series"].as_array().expect("a series");
    let of = |key: &str| -> f64 {
        let processes = slices.iter().flat_map(|slice| {
            let processes = slice["processes"].as_array().expect("processes");
            processes.iter().map(|process| &process[key])
        });
        processes
            .map(|value| value.as_f64().expect("a number"))
            .sum()
    };
    let totals = &report["totals"];
    for key in ["failures", "bytes_read", "bytes_written"] {
        assert_eq!(of(key), number(totals, key) as f64, "{key}");
    }
    let seconds = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
    for (name, phase) in report["phases"].as_object().expect("phases") {
        for key in ["bytes_read", "bytes_written"] {
            let of = |slice: &Value| slice["phases"][name][key].as_u64().unwrap_or(0);
            let sum: u64 = slices.iter().map(of).sum();
            assert_eq!(sum, number(phase, key), "{name} {key}");
        }
        let least = seconds(phase, "merged_seconds_at_least");
        let most = seconds(phase, "merged_seconds");
        let each: Vec<f64> = report["processes"]
            .as_array()
            .expect("processes")
            .iter()
            .map(|process| seconds(&process["phases"][name], "merged_seconds"))
            .collect();
        let (largest, sum) = (
            each.iter().copied().fold(0.0, f64::max),
            each.iter().sum::<f64>(),
        );
        // Within bounds that are at least as near as those by process alone.
        assert!(
            least <= most + 1e-9 && most <= sum + 1e-9,
            "{name}: {least} {most} {each:?}"
        );
        assert!(largest <= most + 1e-9, "{name}: {most} {each:?}");
        if each.iter().filter(|seconds| **seconds > 0.0).count() <= 1 {
            assert!(
                (most - least).abs() < 1e-9 && phase["merged_exact"] == true,
                "{name}"
            );
            let series: f64 = slices
                .iter()
                .map(|slice| seconds(&slice["phases"][name], "merged_seconds"))
                .sum();
            assert!((series - sum).abs() < 1e-6, "{name}: {series} and {sum}");
        }
    }
}

fn find<'a>(report: &'a Value, code: &str) -> Option<&'a Value> {
    let findings = report["findings"].as_array().expect("findings");
    findings
        .iter()
        .find(|finding| text(finding, "code") == code)
}

/// The finding, which must be there.
#[track_caller]
fn found<'a>(report: &'a Value, code: &str) -> &'a Value {
    find(report, code).unwrap_or_else(|| {
        panic!(
            "no {code}: {:#}\nphases {:#}\ncheckpoints {:#}\nepochs {:#}\nbalance {:#}",
            report["findings"],
            report["phases"],
            report["checkpoints"],
            report["epochs"],
            report["balance"]
        )
    })
}

/// Fails where there is such a finding.
#[track_caller]
fn silent(report: &Value, code: &str) {
    let finding = find(report, code);
    assert!(finding.is_none(), "{:#}", finding.unwrap_or(&Value::Null));
}

/// Names of the subjects of a kind.
fn subjects<'a>(finding: &'a Value, kind: &str) -> Vec<&'a str> {
    let all = finding["subjects"].as_array().expect("subjects").iter();
    all.filter(|subject| text(subject, "kind") == kind)
        .map(|subject| text(subject, "name"))
        .collect()
}

fn evidence(finding: &Value, name: &str) -> f64 {
    let value = &finding["evidence"][name];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no {name}: {:#}", finding["evidence"]))
}

/// Seconds of the run.
fn saves_at_most(finding: &Value) -> f64 {
    finding["saves_at_most_seconds"].as_f64().expect("a saving")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn tiny_reads() {
    let job = Job::new().file("data_batch_1.bin", 300 * MIB);
    // As the published run of CIFAR-10: 94 % of 50,000 reads of 84 to 86 bytes.
    let report = job.run(
        "records",
        "data_batch_1.bin",
        &["--records", "47000", "--blocks", "3000"],
    );
    let finding = found(&report, "tiny-reads");
    assert_eq!(evidence(finding, "calls"), 47_000.0);
    assert!((evidence(finding, "share_of_calls") - 0.94).abs() < 1e-9);
    assert!((84.0..=86.0).contains(&evidence(finding, "commonest_bytes")));
    assert_eq!(
        subjects(finding, "file"),
        [job.path("data_batch_1.bin").to_str().unwrap()]
    );
    let nearly = ["--records", "1100", "--blocks", "1200"];
    silent(
        &job.run("records", "data_batch_1.bin", &nearly),
        "tiny-reads",
    );
}

#[test]
fn tiny_writes() {
    let job = Job::new();
    let report = job.run(
        "log",
        "train.log",
        &["--records", "1500", "--blocks", "200"],
    );
    let finding = found(&report, "tiny-writes");
    assert_eq!(evidence(finding, "calls"), 1_500.0);
    assert_eq!(evidence(finding, "commonest_bytes"), 19.0);
    silent(
        &job.run("log", "train.log", &["--records", "990"]),
        "tiny-writes",
    );
}

#[test]
fn small_files_at_random() {
    let job = Job::new();
    fs::create_dir(job.path("train")).unwrap();
    for index in 0..1_200 {
        fs::write(job.path(&format!("train/{index:04}.jpg")), [0; 3_000]).unwrap();
    }
    let report = job.run("tree", "train", &["--shuffle"]);
    let finding = found(&report, "small-files-at-random");
    assert_eq!(evidence(finding, "files"), 1_200.0);
    assert_eq!(evidence(finding, "mean_file_bytes"), 3_000.0);
    assert_eq!(
        subjects(finding, "directory"),
        [job.path("train").to_str().unwrap()]
    );
    silent(&job.run("tree", "train", &[]), "small-files-at-random");
}

#[test]
fn open_per_sample() {
    let job = Job::new().file("train.h5", 16 * MIB);
    // So many that they take more than a hundredth of the run on any machine.
    let report = job.run("samples", "train.h5", &["--records", "8000"]);
    let finding = found(&report, "open-per-sample");
    assert_eq!(evidence(finding, "opens"), 8_000.0);
    assert_eq!(evidence(finding, "bytes_per_open"), f64::from(16 << 10));
    let nearly = ["--records", "1200", "--every", "2"];
    silent(&job.run("samples", "train.h5", &nearly), "open-per-sample");
}

/// A job that saves twice, with so many milliseconds in writes and in syncs for each.
fn saving(write: u64, fsync: u64) -> Value {
    let speed = Speed {
        write: ms(write / 2),
        fsync: ms(fsync),
        ..Speed::default()
    };
    let job = Job::new().slow("out", &[], speed);
    job.run("saves", "out", &["--records", "2", "--blocks", "2"])
}

#[test]
fn checkpoint_bound_by_fsync() {
    let report = saving(100, 700);
    let finding = found(&report, "checkpoint-bound-by-fsync");
    assert_eq!(evidence(finding, "fsyncs"), 2.0);
    assert!(evidence(finding, "fsync_seconds") >= 1.4);
    assert!(evidence(finding, "fsync_share") > 0.7);
    assert_eq!(subjects(finding, "file").len(), 2);
    silent(&saving(700, 100), "checkpoint-bound-by-fsync");
}

/// A job that writes `records` records of `blocks` MiB (100 bytes for 0) to a file, and syncs it after `every` records. A sync
/// takes `fsync` milliseconds.
fn journal(name: &str, [records, blocks, every]: [&str; 3], fsync: u64) -> Value {
    let speed = Speed {
        fsync: ms(fsync),
        ..Speed::default()
    };
    let job = Job::new().slow("out", &[], speed);
    let options = ["--records", records, "--blocks", blocks, "--every", every];
    job.run("journal", &format!("out/{name}"), &options)
}

#[test]
fn frequent_syncs() {
    let report = journal("events.db", ["150", "0", "1"], 5);
    let finding = found(&report, "frequent-syncs");
    assert_eq!(evidence(finding, "syncs"), 150.0);
    assert_eq!(evidence(finding, "bytes_per_sync"), 100.0);
    assert!(evidence(finding, "seconds") >= 0.75);
    assert_eq!(subjects(finding, "file").len(), 1);
    // A sync for many records, for many bytes, that takes no time, and of a checkpoint.
    for (name, records, fsync) in [
        ("events.db", ["1500", "0", "50"], 5),
        ("events.db", ["120", "1", "1"], 5),
        ("events.db", ["150", "0", "1"], 0),
        ("model.pt", ["150", "0", "1"], 5),
    ] {
        silent(&journal(name, records, fsync), "frequent-syncs");
    }
}

/// Two ranks that write so many MiB each of the checkpoint, at 300 ms each.
fn writing(writes: [&str; 2]) -> (Value, PathBuf) {
    let speed = Speed {
        write: ms(300),
        ..Speed::default()
    };
    let shard = |name| (name, 4 * MIB, Speed::default());
    let files = [shard("shard-0.tfrecord"), shard("shard-1.tfrecord")];
    let job = Job::new().slow("out", &files, speed);
    let options = ["--shares", "4", "4", "--writes", writes[0], writes[1]];
    let report = job.run("ranks", "out", &options);
    (report, job.dir)
}

#[test]
fn checkpoint_by_one_writer() {
    let (report, _) = writing(["5", "0"]);
    let finding = found(&report, "checkpoint-by-one-writer");
    assert_eq!(evidence(finding, "ranks"), 2.0);
    assert_eq!(evidence(finding, "bytes_written"), (5 * MIB) as f64);
    silent(&writing(["5", "4"]).0, "checkpoint-by-one-writer");
}

#[test]
fn training_stalled_by_checkpoints() {
    let speed = Speed {
        write: ms(150),
        ..Speed::default()
    };
    let files = [("train.tfrecord", MIB, Speed::default())];
    let options = ["--records", "3", "--blocks", "4"];
    let job = || Job::new().slow("out", &files, speed).flush("100ms");
    let report = job().run("steps", "out", &options);
    let finding = found(&report, "training-stalled-by-checkpoints");
    assert_eq!(evidence(finding, "stopped"), 3.0);
    assert!(evidence(finding, "seconds") >= 1.7);
    let beside = [options.as_slice(), &["--beside"]].concat();
    silent(
        &job().run("steps", "out", &beside),
        "training-stalled-by-checkpoints",
    );
}

/// A job whose loader reads ahead, and which saves three times, 600 ms each; the seconds that training waited for saves.
fn reading_ahead(options: &[&str]) -> (Value, f64) {
    let names: Vec<String> = (0..240).map(|index| format!("{index:03}.jpg")).collect();
    let speed = Speed {
        read: ms(80),
        ..Speed::default()
    };
    let files: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), 64 << 10, speed))
        .collect();
    let speed = Speed {
        write: ms(50),
        fsync: ms(400),
        ..Speed::default()
    };
    let job = Job::new()
        .slow("train", &files, Speed::default())
        .slow("out", &[], speed)
        .flush("100ms");
    let out = job.path("out");
    let mut all = vec!["--records", "3", "--blocks", "4", "--other"];
    all.push(out.to_str().expect("a name"));
    all.extend(options);
    all.push("--names");
    all.extend(names.iter().map(String::as_str));
    let report = job.run("loader", "train", &all);
    let waited = fs::read_to_string(job.path("waited")).expect("the program's own clock");
    (report, waited.parse().expect("seconds"))
}

/// Workers that fill their queue read on at the beginning of a save.
#[test]
fn saves_of_a_job_whose_loader_reads_ahead() {
    let (report, waited) = reading_ahead(&[]);
    let finding = found(&report, "training-stalled-by-checkpoints");
    assert_eq!(evidence(finding, "stopped"), 3.0);
    let seconds = evidence(finding, "seconds");
    assert!(
        (0.8 * waited..1.05 * waited).contains(&seconds),
        "{seconds} s of {waited} s"
    );
    assert!(
        finding["also"]
            .as_array()
            .unwrap()
            .contains(&"checkpoint-bound-by-fsync".into())
    );
    // It does already what is advised.
    let (report, waited) = reading_ahead(&["--beside"]);
    assert!(waited < 0.2, "{waited} s");
    assert_eq!(report["checkpoints"].as_array().unwrap().len(), 3);
    silent(&report, "training-stalled-by-checkpoints");
    silent(&report, "checkpoint-bound-by-fsync");
}

/// Readers of shards that are as large.
fn sharing(what: &str, shares: &[&str]) -> Value {
    // Without waits: the main process of these jobs computes nothing, and waits for their end alone.
    let mut job = Job::new().options(&["--waits=off"]);
    fs::create_dir(job.path("data")).unwrap();
    for index in 0..shares.len() {
        job = job.file(&format!("data/shard-{index}.tfrecord"), 64 * MIB);
    }
    let writes = vec!["0"; shares.len()];
    let options = [&["--shares"], shares, &["--writes"], &writes].concat();
    job.run(what, "data", &options)
}

#[test]
fn unbalanced_workers() {
    let report = sharing("workers", &["24", "8", "8", "8"]);
    let finding = found(&report, "unbalanced-workers");
    assert!((evidence(finding, "imbalance") - 1.0).abs() < 1e-6);
    assert_eq!(evidence(finding, "most_bytes"), (24 * MIB) as f64);
    silent(
        &sharing("workers", &["12", "10", "9", "9"]),
        "unbalanced-workers",
    );
}

#[test]
fn unbalanced_ranks() {
    let report = sharing("ranks", &["32", "8", "8"]);
    let finding = found(&report, "unbalanced-ranks");
    assert!((evidence(finding, "imbalance") - 1.0).abs() < 1e-6);
    silent(&sharing("ranks", &["19", "16", "16"]), "unbalanced-ranks");
    // Another program that reads the data is no rank.
    let beside = format!(
        "{READ_ALL}\nimport subprocess\nsubprocess.run(['cat'] + names, stdout=subprocess.DEVNULL)\n\
         for _ in range(3):\n  for name in names: read(open(name, 'rb', 0))"
    );
    silent(&on_shards(1, true, "", &beside), "unbalanced-ranks");
}

#[test]
fn idle_workers() {
    let report = sharing("workers", &["12", "12", "12", "0"]);
    let finding = found(&report, "idle-workers");
    assert_eq!(
        (evidence(finding, "workers"), evidence(finding, "idle")),
        (4.0, 1.0)
    );
    silent(
        &sharing("workers", &["12", "12", "12", "4"]),
        "idle-workers",
    );
}

const SHARDS: [&str; 8] = [
    "0.tfrecord",
    "1.tfrecord",
    "2.tfrecord",
    "3.tfrecord",
    "4.tfrecord",
    "5.tfrecord",
    "6.tfrecord",
    "7.tfrecord",
];

/// Eight shards of 3 MiB on a mount of so many milliseconds for each MiB, read at one time in each epoch; `other` MiB
/// are written to the disk, and as many read from it.
fn reading(read: u64, is_cached: bool, epochs: &str, other: &str, is_read: bool) -> Value {
    let speed = Speed {
        read: ms(read),
        is_cached,
        ..Speed::default()
    };
    let files = SHARDS.map(|name| (name, 3 * MIB, speed));
    let job = Job::new().slow("data", &files, speed);
    let path = job.path("model.ckpt");
    let mut options = vec!["--records", epochs, "--names"];
    options.extend(SHARDS);
    options.extend(["--blocks", other, "--other", path.to_str().unwrap()]);
    let stored = job.path("stored.bin");
    fs::write(&stored, vec![1; other.parse::<usize>().unwrap() << 20]).expect("a file");
    drop_pages(&stored);
    if is_read {
        options.extend(["--read", stored.to_str().unwrap()]);
    }
    job.run("epochs", "data", &options)
}

#[test]
fn stage_the_data_set() {
    // Nine times 24 MiB by eight threads at 5 MB/s each, and a disk from which 24 MiB are read: some 6 s to gain.
    let report = reading(230, false, "9", "24", true);
    let finding = found(&report, "stage-the-data-set");
    assert_eq!(evidence(finding, "files"), 8.0);
    assert_eq!(evidence(finding, "bytes"), (24 * MIB) as f64);
    assert!(evidence(finding, "room_bytes") > evidence(finding, "bytes"));
    let (now, then) = (
        evidence(finding, "bandwidth_bytes_per_second"),
        evidence(finding, "other_bandwidth_bytes_per_second"),
    );
    let gain = evidence(finding, "seconds") * (1.0 - now / then);
    let saved = saves_at_most(finding);
    assert!((saved - gain).abs() < 1e-6 && gain > 5.0);
    // By the clock, not by the eight threads'.
    assert!(evidence(finding, "read_seconds") > 5.0 * evidence(finding, "seconds"));
    assert!(saved < report["duration_seconds"].as_f64().unwrap());
    let mounts = subjects(finding, "mount");
    assert!(
        mounts.len() == 2 && mounts[0].ends_with("/data"),
        "{mounts:?}"
    );
    // What is written goes to memory, and says nothing of the disk.
    silent(&reading(230, false, "9", "24", false), "stage-the-data-set");
    // Nothing to compare with: of so little the disk's bandwidth is not told.
    silent(&reading(230, false, "9", "8", true), "stage-the-data-set");
}

#[test]
fn data_set_fits_in_memory() {
    let report = reading(120, false, "3", "0", false);
    let finding = found(&report, "data-set-fits-in-memory");
    assert_eq!(evidence(finding, "epochs"), 3.0);
    assert!(evidence(finding, "later_read_seconds") > 5.0);
    // The later epochs come from the page cache.
    let cached = reading(120, true, "3", "0", false);
    assert_eq!(cached["epochs"].as_array().unwrap().len(), 3);
    silent(&cached, "data-set-fits-in-memory");
}

/// Five shards, of which one takes so many milliseconds for each MiB and the others 100.
fn with_slow_file(read: u64) -> Value {
    let file = |name, read| {
        let speed = Speed {
            read: ms(read),
            ..Speed::default()
        };
        (name, 3 * MIB, speed)
    };
    let mut files: Vec<_> = SHARDS[..5].iter().map(|name| file(*name, 50)).collect();
    files[2].2.read = ms(read);
    let job = Job::new().slow("data", &files, Speed::default());
    let names = [&["--names"], &SHARDS[..5]].concat();
    job.run("epochs", "data", &names)
}

#[test]
fn slow_file() {
    let report = with_slow_file(500);
    let finding = found(&report, "slow-file");
    assert!(subjects(finding, "file")[0].ends_with("/data/2.tfrecord"));
    assert!(evidence(finding, "read_seconds") >= 1.5);
    silent(&with_slow_file(120), "slow-file");
}

#[test]
fn slow_mount() {
    let report = reading(60, false, "1", "24", true);
    let finding = found(&report, "slow-mount");
    assert!(subjects(finding, "mount")[0].ends_with("/data"));
    assert_eq!(evidence(finding, "bytes"), (24 * MIB) as f64);
    // As slow, and nothing beside it.
    silent(&reading(60, false, "1", "0", false), "slow-mount");
}

/// A program that is started with so many directories in which its libraries are looked for, and not found.
fn searching(directories: usize, thresholds: &'static str) -> (Value, PathBuf) {
    let job = Job::new().thresholds(thresholds);
    let paths = (0..directories).map(|index| job.path(&format!("lib{index:03}")));
    let paths: Vec<PathBuf> = paths.collect();
    for path in &paths {
        fs::create_dir(path).unwrap();
    }
    let list = std::env::join_paths(paths).expect("paths");
    let mut variable = std::ffi::OsString::from("LD_LIBRARY_PATH=");
    variable.push(list);
    let program = ["-S", "-c", "import ssl, sqlite3, bz2, lzma, ctypes"];
    let mut command = vec!["/usr/bin/env".into(), variable, python().into()];
    command.extend(program.map(Into::into));
    (job.command(&command), job.dir)
}

#[test]
fn startup_metadata_storm() {
    // Look-ups on a local disk cost microseconds each: without a threshold of time they are a storm.
    const ANY_TIME: &str = "not_found_seconds = 0\nnot_found_run_share = 0";
    silent(&searching(300, "").0, "startup-metadata-storm");
    let (report, dir) = searching(300, ANY_TIME);
    let finding = found(&report, "startup-metadata-storm");
    assert!(evidence(finding, "not_found") >= 1_200.0);
    assert!(evidence(finding, "searched_directories") >= 300.0);
    // It names the directories that were searched; the interpreter's own may be among them.
    let directories = subjects(finding, "directory");
    let ours = directories
        .iter()
        .filter(|name| Path::new(name).starts_with(&dir));
    assert!(
        directories.len() == 8 && ours.count() >= 6,
        "{directories:?}"
    );
    let startup = &report["startup"];
    assert_eq!(number(startup, "not_found_unlisted"), 0, "{startup:#}");
    assert!(number(startup, "not_found") >= 1_200);
    // The loader of a processor with AVX-512 looks into 40 directories beneath each.
    silent(&searching(2, ANY_TIME).0, "startup-metadata-storm");
}

/// Looks for files in every way that there is, and so often as the names say.
const LOOKS: &str = r#"
import contextlib, os, sys
top, many = sys.argv[1], int(sys.argv[2])
def attempt(call, *args, **more):
    with contextlib.suppress(OSError):
        call(*args, **more)
os.makedirs(top + "/here/beneath")
os.chdir(top + "/here")
beneath = os.open(top + "/here/beneath", os.O_RDONLY)
for _ in range(5):
    for path in (top + "/absolute/x", "relative/x", "./x", "../up/x", "x", "beneath//twice/./x"):
        for call in (os.stat, os.lstat, os.readlink, lambda p: os.open(p, os.O_RDONLY), lambda p: os.access(p, 0)):
            attempt(call, path)
    attempt(os.stat, "by/x", dir_fd=beneath)
    attempt(os.readlink, "x", dir_fd=beneath)
    attempt(os.stat, top + "/here")
    attempt(os.unlink, "gone/x")
for index in range(many):
    attempt(os.stat, f"/nowhere/{index}/x")
"#;

/// Where the program looked in vain beneath `top`, by the recording.
fn looked(top: &Path, many: &str) -> (BTreeMap<String, u64>, iotrace_recording::Recorded, Value) {
    let command = [
        "-S".as_ref(),
        "-c".as_ref(),
        LOOKS.as_ref(),
        top.as_os_str(),
        many.as_ref(),
    ];
    let command =
        std::iter::once(python().into_os_string()).chain(command.map(OsStr::to_os_string));
    // Without what cargo sets, which the loader would look through; the report lists a hundred directories.
    let finished = Iotrace::record()
        .env("LD_LIBRARY_PATH", "")
        .command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let mut beneath = BTreeMap::new();
    for (_, path, count) in recorded.model.negative_lookups().all() {
        let path = Path::new(OsStr::from_bytes(path));
        if let Ok(path) = path.strip_prefix(top) {
            *beneath
                .entry(path.to_string_lossy().into_owned())
                .or_default() += count.calls;
        }
    }
    (beneath, recorded, finished.report())
}

#[test]
fn searched_directories_are_those_of_the_program() {
    let (_keep, dir) = directory();
    let (beneath, _, report) = looked(&dir.join("top"), "0");
    let expected = [
        // Of the top itself, when the program made it.
        ("", 1),
        ("absolute", 25),
        ("here", 50),
        ("here/beneath", 5),
        ("here/beneath/by", 5),
        ("here/beneath/twice", 25),
        ("here/relative", 25),
        ("up", 25),
    ];
    let expected = expected.map(|(path, calls)| (path.to_owned(), calls));
    assert_eq!(beneath, BTreeMap::from(expected));
    let startup = &report["startup"];
    assert_eq!(number(startup, "not_found_unlisted"), 0, "{startup:#}");
    let listed = startup["searched"].as_array().expect("directories");
    let sum: u64 = listed
        .iter()
        .map(|searched| number(searched, "not_found"))
        .sum();
    assert_eq!(sum, number(startup, "not_found"));
}

#[test]
fn more_directories_than_there_is_room_for_are_counted() {
    const MANY: u64 = 40_000;
    let (_keep, dir) = directory();
    let (_, recorded, report) = looked(&dir.join("top"), &MANY.to_string());
    let (unlisted, startup) = (
        number(&report["notes"], "unlisted_lookups"),
        &report["startup"],
    );
    let counted: u64 = recorded
        .model
        .negative_lookups()
        .all()
        .map(|(_, _, count)| count.calls)
        .sum();
    assert!(number(startup, "not_found") >= MANY);
    assert_eq!(counted + unlisted, number(startup, "not_found"));
    // Without one for the directories that no longer found room.
    let named = recorded
        .model
        .negative_lookups()
        .all()
        .filter(|(_, path, _)| !path.is_empty());
    let named: u64 = named.map(|(_, _, count)| count.calls).sum();
    assert!(
        named >= u64::from(iotrace_common::limits::MISSING_ENTRIES) / 2,
        "{named}"
    );
    assert_eq!(
        number(startup, "not_found_unlisted"),
        number(startup, "not_found") - named
    );
}

/// Runs a Python program on the eight shards of 3 MiB, which take so many milliseconds for each MiB. With thresholds it is
/// looked at every 100 ms.
fn on_shards(read: u64, is_cached: bool, thresholds: &'static str, program: &str) -> Value {
    let speed = Speed {
        read: ms(read),
        is_cached,
        ..Speed::default()
    };
    let files = SHARDS.map(|name| (name, 3 * MIB, speed));
    let job = Job::new()
        .thresholds(thresholds)
        .flush(if thresholds.is_empty() { "1h" } else { "100ms" })
        .slow("data", &files, Speed::default());
    let command = [
        python().into_os_string(),
        "-S".into(),
        "-c".into(),
        program.into(),
        job.path("data").into(),
    ];
    job.command(&command)
}

/// Reads all shards, one behind the other.
const READ_ALL: &str = "
import sys
def read(file):
    while file.read(1 << 20):
        pass
names = [f'{sys.argv[1]}/{index}.tfrecord' for index in range(8)]
";

#[test]
fn input_bound() {
    let once = format!("{READ_ALL}\nfor name in names: read(open(name, 'rb', 0))");
    let report = on_shards(80, false, "", &once);
    let finding = found(&report, "input-bound");
    assert_eq!(text(finding, "severity"), "high");
    assert!(text(finding, "advice").contains("more workers"));
    let (saved, run) = (
        saves_at_most(finding),
        report["duration_seconds"].as_f64().unwrap(),
    );
    assert!(saved >= 24.0 * 0.08 && saved <= run, "{saved} of {run}");
    // The same reads, beside four times as much computing.
    let computes = format!("{once}\nimport time; time.sleep(8)");
    silent(&on_shards(80, false, "", &computes), "input-bound");
    // A worker reads one sample ahead of a main process that computes for so many milliseconds on each.
    let behind = |compute: u32| {
        format!(
            "{READ_ALL}\n\
             import os, time\n\
             (orders, order), (samples, sample) = os.pipe(), os.pipe()\n\
             if os.fork() == 0:\n  \
               os.close(order)\n  \
               for name in names:\n    \
                 file = os.open(name, 0)\n    \
                 while os.read(file, 1 << 20):\n      \
                   os.write(sample, b'x')\n      \
                   os.read(orders, 1)\n    \
                 os.close(file)\n  \
               os._exit(0)\n\
             os.close(sample)\n\
             os.write(order, b'x')\n\
             while os.read(samples, 1):\n  \
               os.write(order, b'x')\n  \
               time.sleep({compute} / 1000)"
        )
    };
    let report = on_shards(200, false, "", &behind(10));
    found(&report, "input-bound");
    // It is idle for a third of the time: it waits for who computes.
    let often = "workers_share = 0.5";
    let report = on_shards(200, false, often, &behind(300));
    let taken = &report["verdict"]["share_of_run_at_least"];
    assert!(taken.as_f64() > Some(0.5), "{taken}");
    silent(&report, "input-bound");
    assert_eq!(report["verdict"]["code"], "not-io-bound");
}

#[test]
fn cold_first_epoch() {
    turn::alone();
    let epochs =
        format!("{READ_ALL}\nfor _ in range(3):\n  for name in names: read(open(name, 'rb', 0))");
    let thresholds = "cold_seconds = 0.5";
    let report = on_shards(100, true, thresholds, &epochs);
    let finding = found(&report, "cold-first-epoch");
    assert_eq!(evidence(finding, "later_epochs"), 2.0);
    // The run is the first epoch, and little else.
    let run = report["duration_seconds"].as_f64().unwrap();
    let saved = saves_at_most(finding);
    assert!((0.6 * run..run).contains(&saved), "{saved} of {run}");
    // No page cache: each epoch is as slow.
    silent(
        &on_shards(60, false, thresholds, &epochs),
        "cold-first-epoch",
    );
    // No later epoch that was faster.
    let once = format!("{READ_ALL}\nfor name in names: read(open(name, 'rb', 0))");
    silent(&on_shards(100, true, thresholds, &once), "cold-first-epoch");
}

#[test]
fn read_again_by_ranks() {
    let ranks = |shares: &str| {
        format!(
            "import subprocess, sys\nrank = '''{READ_ALL}\nfor name in names[int(sys.argv[2])::{shares}]: read(open(name, \"rb\", 0))'''\n\
             ranks = [subprocess.Popen([sys.executable, '-S', '-c', rank, sys.argv[1], r]) for r in '01']\n\
             sys.exit(max(rank.wait() for rank in ranks))"
        )
    };
    // Both from the first file on, and each file.
    let all = ranks("1").replace("names[int(sys.argv[2])::1]", "names");
    let report = on_shards(70, false, "", &all);
    let finding = found(&report, "read-again-by-ranks");
    assert_eq!(evidence(finding, "ranks"), 2.0);
    assert_eq!(
        evidence(finding, "bytes_read_again_per_epoch"),
        (24 * MIB) as f64
    );
    silent(
        &on_shards(70, false, "", &ranks("2")),
        "read-again-by-ranks",
    );
}

#[test]
fn read_amplification() {
    let report = on_shards(
        30,
        false,
        "",
        &format!(
            "{READ_ALL}\nfor name in names:\n  file = open(name, 'rb', 0)\n  \
             for _ in range(3): read(file); file.seek(0)\n  file.close()"
        ),
    );
    let finding = found(&report, "read-amplification");
    assert_eq!(evidence(finding, "files"), 8.0);
    assert_eq!(evidence(finding, "bytes_read"), (72 * MIB) as f64);
    assert_eq!(evidence(finding, "bytes_of_the_files"), (24 * MIB) as f64);
    // Three epochs over files that are kept open.
    let kept = format!(
        "{READ_ALL}\nfiles = [open(name, 'rb', 0) for name in names]\nfor _ in range(3):\n  \
         for file in files: read(file); file.seek(0)"
    );
    silent(&on_shards(30, false, "", &kept), "read-amplification");
}

/// A job that copies its data to a local disk first is not advised to.
#[test]
fn a_job_that_stages_its_data() {
    let report = on_shards(
        150,
        false,
        "",
        &format!(
            "{READ_ALL}\nimport os, shutil\nlocal = os.path.dirname(sys.argv[1]) + '/local'\n\
             os.mkdir(local)\n\
             for name in names: shutil.copy(name, local)\n\
             for _ in range(6):\n  \
             for name in os.listdir(local): read(open(os.path.join(local, name), 'rb', 0))"
        ),
    );
    assert_eq!(report["copies"].as_array().expect("copies").len(), 8);
    let epochs = report["epochs"].as_array().expect("epochs");
    assert_eq!(epochs.len(), 6, "{}", report["training_data"]);
    for code in [
        "stage-the-data-set",
        "slow-mount",
        "input-bound",
        "data-set-fits-in-memory",
        "cold-first-epoch",
    ] {
        silent(&report, code);
    }
}

/// Two loader workers in each epoch, which between them read 96 files of eight directories in the order that `order` makes of
/// the list `names` and the number `epoch`.
fn epochs_in_order(order: &str) -> Value {
    let job = Job::new().flush("250ms");
    for directory in 0..8 {
        let directory = job.path(&format!("train/n{directory}"));
        fs::create_dir_all(&directory).expect("a directory");
        for file in 0..12 {
            fs::write(directory.join(format!("{file}.jpg")), [0; 5_000]).expect("a file");
        }
    }
    let program = format!(
        "import os, random, sys, time\n\
         names = [os.path.join(d, f) for d, _, fs in os.walk(sys.argv[1]) for f in fs]\n\
         random.Random(5).shuffle(names)\n\
         for epoch in range(3):\n  \
           order = {order}\n  \
           for worker in range(2):\n    \
             if os.fork() == 0:\n      \
               for name in order[worker::2]:\n        \
                 open(name, 'rb', 0).read()\n        \
                 time.sleep(random.random() * 0.002)\n      \
               os._exit(0)\n  \
           os.wait(); os.wait()\n"
    );
    let command = [
        python().into_os_string(),
        "-S".into(),
        "-c".into(),
        program.into(),
        job.path("train").into(),
    ];
    job.command(&command)
}

#[test]
fn epochs_in_the_same_order() {
    let report = epochs_in_order("names");
    let finding = found(&report, "epochs-in-the-same-order");
    assert_eq!(evidence(finding, "files"), 96.0);
    assert_eq!(evidence(finding, "epochs_in_the_same_order"), 2.0);
    assert_eq!(
        (text(finding, "severity"), saves_at_most(finding)),
        ("low", 0.0)
    );
    for silent_order in [
        "random.Random(epoch).sample(names, len(names))",
        "sorted(names)",
        "[os.path.join(d, f) for d, _, fs in os.walk(sys.argv[1]) for f in fs]",
    ] {
        silent(&epochs_in_order(silent_order), "epochs-in-the-same-order");
    }
}

/// Two ranks that train for three epochs on 120 samples in the way of `variant` (`programs/ranks.py`).
fn sampled(variant: &str) -> Value {
    let job = Job::new().flush("250ms");
    for directory in ["train/a", "train/b", "val", "holdout", "shards"] {
        fs::create_dir_all(job.path(directory)).expect("a directory");
    }
    for sample in 0..60 {
        for directory in ["train/a", "train/b"] {
            let path = job.path(&format!("{directory}/{sample:03}.jpg"));
            fs::write(path, [0; 5_000]).expect("a sample");
        }
        fs::write(job.path(&format!("val/{sample:03}.jpg")), [0; 5_000]).expect("a sample");
    }
    for sample in 0..40 {
        fs::write(job.path(&format!("holdout/{sample:03}.jpg")), [0; 5_000]).expect("a sample");
    }
    for shard in 0..80 {
        fs::write(job.path(&format!("shards/{shard:03}.tar")), [0; 20_480]).expect("a shard");
    }
    let job = job.file("train/tokens.bin", 8 * MIB);
    job.script("ranks.py", &[variant.as_ref(), job.path("").as_ref()])
}

#[test]
fn ranks_read_the_same() {
    for variant in [
        "no-sampler",
        "no-sampler-same-seed",
        "wrong-rank",
        "no-split-of-shards",
    ] {
        let report = sampled(variant);
        let finding = found(&report, "ranks-read-the-same");
        assert_eq!(evidence(finding, "ranks"), 2.0, "{variant}");
        assert!(
            evidence(finding, "shared_files") > 0.9,
            "{variant}: {finding:#}"
        );
    }
    for variant in [
        "right",
        "right-with-workers",
        "no-set-epoch",
        "subset",
        "drop-last",
        "in-order",
        "shards",
        "tokens",
        "validation",
        "holdout",
        "start-up",
        "one-behind-the-other",
    ] {
        let report = sampled(variant);
        let finding = find(&report, "ranks-read-the-same");
        assert!(finding.is_none(), "{variant}: {finding:#?}");
    }
}

/// A job that reads samples in the way of `variant` (`programs/samples.py`).
fn reading_samples(variant: &str) -> Value {
    let job = Job::new().flush("250ms");
    let files = |directory: &str, number: u32, suffix: &str, size: usize| {
        fs::create_dir_all(job.path(directory)).expect("a directory");
        for file in 0..number {
            let path = job.path(&format!("{directory}/{file:03}.{suffix}"));
            fs::write(path, vec![0; size]).expect("a file");
        }
    };
    files("train/a", 40, "jpg", 40_000);
    files("train/b", 40, "jpg", 40_000);
    files("val", 60, "jpg", 40_000);
    files("shards", 16, "tar", 400_000);
    files("clips", 60, "wav", 30_000);
    for long in 0..6 {
        let path = job.path(&format!("clips/long-{long}.wav"));
        fs::write(path, [0; 400_000]).expect("a long clip");
    }
    job.script("samples.py", &[variant.as_ref(), job.path("").as_ref()])
}

#[test]
fn samples_never_read() {
    for (variant, files, whole, size) in [
        ("damaged", 4.0, 76.0, 40_000.0),
        ("damaged-shard", 1.0, 15.0, 400_000.0),
    ] {
        let report = reading_samples(variant);
        let finding = found(&report, "samples-never-read");
        assert_eq!(evidence(finding, "files"), files, "{variant}");
        assert_eq!(evidence(finding, "files_read_whole"), whole, "{variant}");
        assert_eq!(evidence(finding, "epochs"), 3.0, "{variant}");
        assert_eq!(
            evidence(finding, "bytes_never_read"),
            files * (size - 4_096.0),
            "{variant}"
        );
        assert_eq!(subjects(finding, "file").len() as f64, files, "{variant}");
        assert_eq!(saves_at_most(finding), 0.0);
    }
    for variant in [
        "damaged-once",
        "right",
        "drop-last",
        "with-replacement",
        "kept-in-memory",
        "held-out",
        "scanned-and-held-out",
        "cut-off",
        "streamed",
        "clips",
        "heads",
        "leaked",
    ] {
        let report = reading_samples(variant);
        let finding = find(&report, "samples-never-read");
        assert!(finding.is_none(), "{variant}: {finding:#?}");
    }
}

#[test]
fn validation_in_training() {
    for variant in ["leaked", "leaked-to-workers"] {
        let report = reading_samples(variant);
        let finding = found(&report, "validation-in-training");
        // At the end of a training pass some come before those of the pass over all of them.
        let files = evidence(finding, "files");
        assert!((50.0..=60.0).contains(&files), "{variant}: {files}");
        assert_eq!(evidence(finding, "validation_files"), 60.0, "{variant}");
        assert_eq!(evidence(finding, "training_files"), 80.0, "{variant}");
        assert_eq!(evidence(finding, "epochs"), 3.0, "{variant}");
        let directories = subjects(finding, "directory");
        assert!(
            directories.len() == 1 && directories[0].ends_with("/val"),
            "{directories:?}"
        );
        assert_eq!(saves_at_most(finding), 0.0);
    }
    for variant in [
        "leaked-few",
        "leaked-once",
        "trained-on-all",
        "validated",
        "validated-by-workers",
        "tried-on-training-files",
        "read-ahead",
        "checked-often",
        "evaluated-meanwhile",
        "trained-and-validated-apart",
    ] {
        let report = reading_samples(variant);
        let finding = find(&report, "validation-in-training");
        assert!(finding.is_none(), "{variant}: {finding:#?}");
    }
}

/// A job that takes samples in the way of `variant` (`programs/polls.py`), each of which takes the loader 50 ms; what it says
/// itself, and its report.
fn taking_samples(variant: &str) -> (Value, Value) {
    let speed = Speed {
        read: ms(50),
        ..Speed::default()
    };
    let mut job = Job::new().options(&["--waits=timeline"]);
    let mounted = Slow::of_samples(&job.path("train"), speed);
    job.mounted.push(mounted);
    let (truth, data) = (job.path("truth.json"), job.path("train"));
    let arguments = [variant.as_ref(), truth.as_ref(), data.as_ref()];
    let report = job.script("polls.py", &arguments);
    let truth = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    (truth, report)
}

#[test]
fn loader_polls() {
    turn::alone();
    let (truth, report) = taking_samples("polling");
    let finding = found(&report, "loader-polls");
    let told = |key: &str| truth[key].as_f64().unwrap();
    // A sleep of the program's start may be one more.
    for (found, key) in [
        (evidence(finding, "polled_seconds"), "polled_seconds"),
        (saves_at_most(finding), "last_seconds"),
        (evidence(finding, "sleeps"), "sleeps"),
        (evidence(finding, "waits"), "waits"),
    ] {
        let told = told(key);
        assert!(
            (found - told).abs() <= told * 0.1,
            "{key} is {told}, not {found}: {finding:#}"
        );
    }
    assert_eq!(evidence(finding, "loader_processes"), 1.0);
    assert_eq!(subjects(finding, "process").len(), 1);
    for variant in [
        "pausing",
        "pausing-with-loader",
        "blocking",
        "blocking-with-timeout",
        "emulated",
    ] {
        let (_, report) = taking_samples(variant);
        let finding = find(&report, "loader-polls");
        assert!(finding.is_none(), "{variant}: {finding:#?}");
    }
}

/// The report of a save in the way of `variant` (`programs/durable.py`) below `top`.
fn saved(variant: &str, top: &Path) -> Value {
    let job = Job::new();
    job.script("durable.py", &[variant.as_ref(), top.as_ref()])
}

/// A directory on storage, or what counts as it. The prefix ends with a letter: a digit behind it may be a step's number.
fn on_storage(prefix: &str) -> TempDir {
    tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a directory")
}

#[test]
fn checkpoint_not_durable() {
    let durable: &[&str] = &[];
    for (variant, missing) in [
        ("right", durable),
        ("fdatasync", durable),
        ("synced", durable),
        ("o-dsync", durable),
        ("o-sync", durable),
        ("syncfs", durable),
        ("sync", durable),
        ("by-another", durable),
        ("by-another-descriptor", durable),
        ("synced-again", durable),
        ("no-directory-sync", &["directory_sync"]),
        ("directory-synced-before", &["directory_sync"]),
        ("no-sync-before-rename", &["sync_before_rename"]),
        ("renamed-only", &["file_sync", "directory_sync"]),
        ("nothing", &["file_sync"]),
        ("written-after", &["file_sync"]),
        ("ranges", &["file_sync"]),
        ("zip", &["file_sync"]),
        ("in-place", &["new_file"]),
    ] {
        let top = on_storage("ckpt-x");
        let report = saved(variant, top.path());
        let saves = report["checkpoints"].as_array().expect("saves");
        let last = saves.last().unwrap_or_else(|| panic!("{variant}: no save"));
        assert_eq!(
            last["missing"],
            Value::from(missing),
            "{variant}: {saves:#?}"
        );
        assert_eq!(last["durable"], missing.is_empty(), "{variant}: {saves:#?}");
        let unsynced = number(last, "unsynced_bytes");
        let written = number(last, "bytes_written");
        let is_unsynced = missing.contains(&"file_sync");
        assert_eq!(unsynced, if is_unsynced { written } else { 0 }, "{variant}");
        if missing.is_empty() {
            silent(&report, "checkpoint-not-durable");
        } else {
            let finding = found(&report, "checkpoint-not-durable");
            assert_eq!(evidence(finding, "not_durable"), 1.0, "{variant}");
            assert_eq!(saves_at_most(finding), 0.0);
        }
    }
}

#[test]
fn syncs_by_requests_make_a_save_durable() {
    for engine in ["io_uring", "libaio"] {
        for (sync, missing) in [("1", &[] as &[&str]), ("0", &["file_sync"])] {
            // fio's own report is beside the checkpoint, and not in it.
            let top = on_storage("run-");
            fs::create_dir(top.path().join("ckpt")).expect("a directory");
            let (engine, sync) = (
                format!("--ioengine={engine}"),
                format!("--end_fsync={sync}"),
            );
            let options = [
                "--rw=write",
                "--size=2m",
                "--bs=256k",
                "--iodepth=4",
                "--fallocate=none",
                "--filename=ckpt/model.pt",
                &engine,
                &sync,
            ];
            let (_, report, _) = fio::run(Iotrace::record(), top.path(), &options);
            let saves = report["checkpoints"].as_array().expect("saves");
            let last = saves.last().expect("a save");
            assert_eq!(
                last["missing"],
                Value::from(missing),
                "{engine}: {saves:#?}"
            );
            assert_eq!(number(last, "bytes_written"), 2 * MIB, "{engine}");
            if missing.is_empty() {
                silent(&report, "checkpoint-not-durable");
            } else {
                found(&report, "checkpoint-not-durable");
            }
        }
    }
}

#[test]
fn a_save_of_which_not_all_is_known_is_not_judged() {
    for variant in ["msync", "mapped", "killed"] {
        let top = on_storage("ckpt-x");
        let report = saved(variant, top.path());
        let saves = report["checkpoints"].as_array().expect("saves");
        let last = saves.last().unwrap_or_else(|| panic!("{variant}: no save"));
        assert_eq!(last["durable"], Value::Null, "{variant}: {saves:#?}");
        assert_eq!(number(last, "unsynced_bytes"), 0, "{variant}");
        silent(&report, "checkpoint-not-durable");
    }
}

#[test]
fn a_save_that_goes_elsewhere_is_no_fault() {
    let top = on_storage("ckpt-x");
    silent(&saved("copied", top.path()), "checkpoint-not-durable");
    // In memory it is staged: a sync would change nothing.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let top = memory.path().join("checkpoints");
    fs::create_dir(&top).expect("a directory");
    let report = saved("nothing", &top);
    silent(&report, "checkpoint-not-durable");
    for save in report["checkpoints"].as_array().expect("saves") {
        assert_eq!(save["missing"], Value::from(vec!["storage"]));
    }
}
