//! The profile for containers that has the filter of the systemd unit: its list is the unit's, and the service needs no
//! other system call.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr as _,
};

use seccompiler::{SeccompAction, SeccompFilter};
use serde_json::{Value, json};

use crate::{
    common::{
        self,
        compare::same,
        daemon::{Mounted, sum},
        tool, truth,
    },
    jobs,
};

const SYSTEMD_UNIT: &str = include_str!("../../../deploy/systemd/iotrace.service");

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/seccomp/iotrace.json")
}

/// The value of a key of the unit.
fn of_unit(key: &str) -> &'static str {
    let mut lines = SYSTEMD_UNIT.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{key} in the unit"))
}

/// Names that the profile allows.
fn allowed() -> BTreeSet<String> {
    let text = fs::read_to_string(file()).expect("the profile");
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(of_unit("SystemCallErrorNumber"), "EPERM");
    assert_eq!(profile["defaultErrnoRet"], libc::EPERM);
    // Without a list of architectures a profile is for the native one.
    assert_eq!(of_unit("SystemCallArchitectures"), "native");
    assert!(profile["architectures"].is_null());
    let rules = profile["syscalls"].as_array().expect("rules");
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["action"], "SCMP_ACT_ALLOW");
    let names = rules[0]["names"].as_array().expect("names").iter();
    names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect()
}

/// systemd's groups of system calls, with what each has: calls and groups.
fn groups() -> BTreeMap<String, Vec<String>> {
    let out = Command::new(tool("systemd-analyze"))
        .args(["--no-pager", "syscall-filter"])
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut group = String::new();
    for line in text.lines() {
        let name = line.trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        if line.starts_with('@') {
            name.clone_into(&mut group);
            groups.entry(group.clone()).or_default();
        } else if let Some(of_group) = groups.get_mut(&group) {
            of_group.push(name.to_owned());
        }
    }
    groups
}

/// The calls of a word of the unit's filter.
fn calls(word: &str, groups: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    if !word.starts_with('@') {
        return BTreeSet::from([word.to_owned()]);
    }
    let words = groups.get(word).expect("a group of systemd's");
    words.iter().flat_map(|word| calls(word, groups)).collect()
}

/// `IOTRACE_BLESS=1 cargo test --test service seccomp` writes the profile.
#[test]
fn the_profile_is_the_units_filter() {
    let groups = groups();
    let words = of_unit("SystemCallFilter").split(' ');
    let expected: BTreeSet<String> = words.flat_map(|word| calls(word, &groups)).collect();
    assert!(expected.contains("bpf") && expected.contains("futex") && !expected.contains("mount"));
    if std::env::var_os("IOTRACE_BLESS").is_some() {
        let profile = json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": libc::EPERM,
            "syscalls": [{"action": "SCMP_ACT_ALLOW", "names": expected}],
        });
        fs::write(file(), format!("{profile:#}\n")).unwrap();
    }
    let found = allowed();
    let missing = &expected - &found;
    assert!(missing.is_empty(), "the unit allows more: {missing:?}");
    // A profile that was written with a newer systemd has calls that this one does not know.
    let known = groups.keys().flat_map(|group| calls(group, &groups));
    let known: BTreeSet<String> = known.collect();
    let more: Vec<&String> = found
        .difference(&expected)
        .filter(|call| known.contains(*call))
        .collect();
    assert!(more.is_empty(), "the unit does not allow {more:?}");
}

/// Lets a command make the calls of the profile; any other one kills it.
fn confine(command: &mut Command) {
    // A name that this architecture does not have is no rule, as for the runtimes of containers.
    let numbers = allowed()
        .into_iter()
        .filter_map(|name| Some(syscalls::Sysno::from_str(&name).ok()?.id().into()));
    let filter = SeccompFilter::new(
        numbers.map(|number| (number, Vec::new())).collect(),
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    let apply =
        move || seccompiler::apply_filter(&program).map_err(|_| io::ErrorKind::Other.into());
    // SAFETY: after the fork, this only makes system calls.
    unsafe { command.pre_exec(apply) };
}

#[test]
fn the_service_makes_no_call_that_the_profile_refuses() {
    let mounted = Mounted::new();
    jobs::open_to_all(&mounted.path);
    let (_dir, path) = common::directory();
    let [logs, socket, work] = ["logs", "socket", "work"].map(|name| path.join(name));
    fs::create_dir(&work).unwrap();
    let (daemon, _config) = jobs::service_with(&logs, "least = \"1s\"", |command| {
        command.env("IOTRACE_SOCKET", &socket);
        confine(command);
    });
    // A user's job, whose log a child of the service examines; and one that is recorded through the socket.
    let mut job = jobs::job("771", &mounted.path.join("file"), 100, "2", Some(12_345));
    let record = common::Iotrace::of_user(Path::new(env!("CARGO_BIN_EXE_iotrace")), 0, &socket);
    let workload = common::workload();
    let finished = record.command([workload.as_path(), Path::new("descriptors"), &work]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let processes = truth::processes(&truth);
    assert!(!processes.is_empty());
    processes.iter().for_each(|process| same(process, &report));
    assert!(job.wait().unwrap().success());
    daemon.signal(libc::SIGHUP);
    jobs::examined(&logs, "slurm:771");
    let written = [("unit", "slurm:771"), ("operation", "write")];
    let samples = daemon.until("the writes of the job", |samples| {
        (sum(samples, "iotrace_operations_total", &written) >= 100.0).then(|| samples.to_vec())
    });
    // Neither process was killed for a call.
    let restarts = samples
        .iter()
        .filter(|sample| sample.name == "iotrace_front_restarts_total")
        .map(|sample| sample.value);
    assert_eq!(restarts.collect::<Vec<_>>(), [0.0]);
    let (status, said) = daemon.end(libc::SIGTERM);
    assert!(status.success(), "{status}: {said}");
}
