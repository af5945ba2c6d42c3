//! The prolog and the epilog for Slurm, started as slurmd starts them, and what the service makes of what they note.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use crate::common::{
    self,
    daemon::{self, Daemon, Sample, sum},
};

const JOBS: &str = "/run/iotrace-jobs";

/// A SLUID that no job of this machine has.
fn sluid(name: &str) -> String {
    format!("s{:07}{name:0>6}", std::process::id() % 10_000_000)
}

/// Runs a script with the environment of slurmd's: no search path, and these variables.
fn script(name: &str, variables: &[(&str, &str)]) -> Output {
    common::need_root();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/slurm");
    let mut command = Command::new(script.join(name));
    command.env_clear().envs(variables.iter().copied());
    command.env("SLURM_CLUSTER_NAME", "cluster");
    command.output().expect("the script")
}

#[test]
fn the_prolog_notes_a_job_and_the_epilog_forgets_it() {
    let sluid = sluid("AAAAAA");
    let job = [("SLURM_JOB_ID", "992"), ("SLURM_JOB_SLUID", &*sluid)];
    let note = Path::new(JOBS).join(&sluid);
    for _ in 0..2 {
        let out = script("prolog", &job);
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
        assert_eq!(fs::read_link(&note).unwrap(), Path::new("992"));
    }
    let out = script("epilog", &job);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert!(!note.is_symlink());
    // Again, as for a job whose prolog did not run.
    assert!(script("epilog", &job).status.success());
}

#[test]
fn neither_ever_drains_a_node() {
    let long = "x".repeat(300);
    for (variables, complains) in [
        (&[][..], false),
        (&[("SLURM_JOB_ID", "1")][..], false),
        (&[("SLURM_JOB_SLUID", "sEKNKTV3WPV500")][..], true),
        (
            &[("SLURM_JOB_ID", "1"), ("SLURM_JOB_SLUID", "s/../../etc/x")][..],
            true,
        ),
        (
            &[("SLURM_JOB_ID", "1"), ("SLURM_JOB_SLUID", "-rf")][..],
            true,
        ),
        (
            &[
                ("SLURM_JOB_ID", "1"),
                ("SLURM_JOB_SLUID", &*format!("s{long}")),
            ][..],
            true,
        ),
    ] {
        let out = script("prolog", variables);
        assert!(out.status.success(), "{variables:?}: {out:?}");
        assert_eq!(!out.stderr.is_empty(), complains, "{variables:?}: {out:?}");
        assert!(
            script("epilog", variables).status.success(),
            "{variables:?}"
        );
    }
    assert!(!Path::new("/etc/x").exists());
}

/// A cgroup of a Slurm step; gone at the end.
struct Step(PathBuf);

impl Step {
    /// One of a job, which is named by its SLUID or `job_` and its number.
    fn new(hierarchy: &Path, job: &str) -> Self {
        let step = hierarchy
            .join(format!("iotrace-{job}_slurmstepd.scope"))
            .join(job)
            .join("step_extern");
        fs::create_dir_all(&step).unwrap();
        Self(step)
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        for directory in self.0.ancestors().take(3) {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Where the hierarchies are that the kernel side looks at: version 2's, and memory's of version 1 where it is mounted.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let is_looked_at = |kind: &str, options: &str| match kind {
        "cgroup2" => true,
        "cgroup" => options.split(',').any(|option| option == "memory"),
        _ => false,
    };
    let found: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            is_looked_at(words[2], words[3]).then(|| words[1].into())
        })
        .collect();
    assert!(!found.is_empty(), "no control groups are mounted");
    found
}

#[test]
fn a_login_without_the_jobs_environment_is_the_jobs() {
    let (noted, unknown) = (sluid("BBBBBB"), sluid("CCCCCC"));
    let job = [("SLURM_JOB_ID", "991"), ("SLURM_JOB_SLUID", &*noted)];
    assert!(script("prolog", &job).status.success());
    let daemon = Daemon::start(&mut daemon::command());
    let (_dir, path) = common::directory();
    let hierarchies = hierarchies();
    // Nothing of it is left in /proc when the service looks.
    daemon.signal(libc::SIGSTOP);
    for hierarchy in &hierarchies {
        for sluid in [&noted, &unknown] {
            let step = Step::new(hierarchy, sluid);
            // As pam_slurm_adopt does: into the cgroup, and on with an empty environment.
            let work = "exec env -i /bin/dd if=/dev/zero of=\"$2\" bs=1000 count=30 status=none";
            let login = format!("echo $$ >\"$1/cgroup.procs\"; {work}");
            let status = Command::new("sh")
                .args(["-c", &login, "sh"])
                .args([&step.0, &path.join("written")])
                .status();
            assert!(status.unwrap().success());
        }
    }
    daemon.signal(libc::SIGCONT);
    for unit in ["slurm:991".to_owned(), format!("slurm:{unknown}")] {
        let labels = [("unit", &*unit), ("operation", "write")];
        let bytes = 30_000.0 * hierarchies.len() as f64;
        daemon.until(&format!("bytes of {unit}"), |samples| {
            (sum(samples, "iotrace_bytes_total", &labels) >= bytes).then_some(())
        });
    }
    let info = [("unit", "slurm:991"), ("hpc_job", "991")];
    assert_eq!(sum(&daemon.scrape(), "iotrace_unit_info", &info), 1.0);
    script("epilog", &job);
}

#[test]
fn a_zombie_is_of_its_control_groups_job() {
    common::need_root();
    let daemon = Daemon::start(&mut daemon::command());
    let (_dir, path) = common::directory();
    // All that the service finds of it in /proc is the zombie.
    daemon.signal(libc::SIGSTOP);
    let step = Step::new(&hierarchies()[0], "job_990003");
    let write = "dd if=/dev/zero of=\"$2\" bs=1000 count=30";
    let start = format!("echo $$ >\"$1/cgroup.procs\"; SLURM_JOB_ID=990003 exec {write}");
    let mut writer = Command::new("sh")
        .args(["-c", &start, "sh"])
        .args([&step.0, &path.join("written")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stat = format!("/proc/{}/stat", writer.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(10));
    }
    daemon.signal(libc::SIGCONT);
    let labels = [("unit", "slurm:990003"), ("operation", "write")];
    let samples = daemon.until("bytes of the job", |samples| {
        (sum(samples, "iotrace_bytes_total", &labels) >= 30_000.0).then(|| samples.to_vec())
    });
    writer.wait().unwrap();
    let claimed = |sample: &&Sample| !sample.label("claimed").is_empty();
    let units = samples
        .iter()
        .filter(claimed)
        .map(|sample| sample.label("unit"));
    let units: Vec<_> = units.collect();
    assert!(!units.contains(&"slurm:990003"), "{units:?}");
}

/// A process of a job that Slurm started, which reads and starts no other; ended at the end, before its cgroup is removed.
struct Task {
    child: Child,
    _step: Step,
}

impl Task {
    fn new(job: u32, names: [(&str, &str); 4]) -> Self {
        let step = Step::new(&hierarchies()[0], &format!("job_{job}"));
        let start = "echo $$ >\"$1/cgroup.procs\" && shift && exec env \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", start, "sh"]).arg(&step.0);
        command.arg(format!("SLURM_JOB_ID={job}"));
        command.args(names.map(|(name, value)| format!("SLURM_JOB_{name}={value}")));
        let read = "import time\nwhile True:\n    open('/etc/passwd').read()\n    time.sleep(0.1)";
        command.args(["python3", "-c", read]);
        Self {
            child: command.stdin(Stdio::null()).spawn().unwrap(),
            _step: step,
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_unit_has_the_names_that_slurm_gives_its_job() {
    let names = [
        ("USER", "ada"),
        ("ACCOUNT", "physics"),
        ("PARTITION", "gpu"),
        ("NAME", "train a"),
    ];
    let before = Task::new(990_001, names);
    let daemon = Daemon::start(&mut daemon::command());
    let after = Task::new(990_002, names);
    for job in ["990001", "990002"] {
        let unit = format!("slurm:{job}");
        let labels = [
            ("unit", &*unit),
            ("hpc_job", job),
            ("user", "ada"),
            ("account", "physics"),
            ("partition", "gpu"),
            ("job_name", "train a"),
        ];
        daemon.until(&format!("names of {unit}"), |samples| {
            (sum(samples, "iotrace_unit_info", &labels) == 1.0).then_some(())
        });
    }
    drop((before, after));
}
