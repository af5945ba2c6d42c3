//! Commands in the documentation do what it says: each is run by a shell, as a reader would, and must succeed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    common::{directory, export::set_host, need_root, python, run::Background},
    uprobes::marker,
};

#[expect(dead_code, reason = "other tests parse the same commands")]
#[path = "../../src/documented.rs"]
mod pages;

/// Commands that are not run here. The tests of the service run what needs one or is one; a live view needs a terminal.
const NOT_RUN: [&str; 5] = [
    "iotrace daemon  ",
    "iotrace jobs",
    "iotrace snapshot --pid 4242\n",
    "--since-last",
    "iotrace top",
];
/// Words in the examples that a reader replaces, and times that are long for a test.
const PLACEHOLDERS: [(&str, &str); 9] = [
    ("sudo ", ""),
    ("DIR...", "run.d"),
    ("DIR", "run.d"),
    ("FORMAT", "csv"),
    ("FILE", "tables"),
    ("/local/scratch", "."),
    ("--duration 60", "--duration 1"),
    ("--for 10s", "--for 1s"),
    ("iotrace mcp", "echo \"$FIRST_REQUEST\" | iotrace mcp"),
];
/// Recordings that documented commands read.
const RECORDINGS: [&str; 6] = [
    "before.d", "after.d", "node1.d", "node2.d", "run1.d", "run2.d",
];
const TRAINING_SCRIPT: &str = "\
import os, time
os.makedirs('data/train', exist_ok=True)
for number in range(20):
    with open(f'data/train/{number}.tar', 'wb') as file:
        file.write(bytes(4096))
for epoch in range(3):
    for number in range(20):
        with open(f'data/train/{number}.tar', 'rb') as file:
            file.read()
        time.sleep(0.005)
    with open(f'model-{epoch}.pt', 'wb') as file:
        file.write(bytes(65536))
        os.fsync(file.fileno())
";
/// The first request of an assistant.
const FIRST_REQUEST: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"#,
    r#""clientInfo":{"name":"a","version":"1"}}}"#
);
const RULES_FILE: &str =
    "[[rule]]\nname = \"own data\"\nphase = \"training\"\nglob = \"/data/**\"\n";

/// A shell's command line, run where the files of the reader are.
#[track_caller]
fn run(line: &str, dir: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_iotrace"))
        .parent()
        .expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = [
        program.into(),
        python().parent().expect("a directory").to_owned(),
    ];
    let found = found.into_iter().chain(std::env::split_paths(&path));
    let out = Command::new("sh")
        .args(["-c", line])
        .current_dir(dir)
        .env("PATH", std::env::join_paths(found).expect("a path"))
        .env("USER", "root")
        .env("FIRST_REQUEST", FIRST_REQUEST)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("sh");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {}\n{told}", out.status);
    assert!(!told.contains("panicked"), "{line}: {told}");
}

/// The files of the reader: a job that trains, and recordings of it.
fn prepare(dir: &Path) {
    fs::write(dir.join("train.py"), TRAINING_SCRIPT).expect("a program");
    fs::write(dir.join("job.sh"), "#!/bin/sh\nexec python3 train.py\n").expect("a script");
    fs::write(dir.join("iotrace.toml"), RULES_FILE).expect("rules");
    run("chmod +x job.sh", dir);
    let options = "--waits=timeline --lines --latencies";
    run(
        &format!("iotrace record {options} -o run.d -- python3 train.py"),
        dir,
    );
    for recording in RECORDINGS {
        run(&format!("cp -r run.d {recording}"), dir);
    }
    // Those of several nodes have different ones.
    for (recording, host) in [("node1.d", "node1"), ("node2.d", "node2")] {
        set_host(&dir.join(recording), host);
    }
}

/// A command with what the reader would put in place of its examples.
fn meant(line: String, job: &Background, marker: &Path) -> String {
    let placeholders = PLACEHOLDERS.iter();
    let line = placeholders.fold(line, |line, (from, to)| line.replace(from, to));
    let marker = marker.to_str().expect("a path of letters");
    let line = line
        .replace("4242", &job.0.id().to_string())
        .replace("/opt/job/libiotrace-marker.so", marker);
    match line.contains("record ") {
        true => line.replace("--pid", "--duration 1 --pid"),
        false => line,
    }
}

#[test]
fn every_documented_command_can_be_run() {
    need_root();
    let (_keep, dir) = directory();
    prepare(&dir);
    let fresh: PathBuf = dir.join("fresh");
    fs::create_dir(&fresh).expect("a directory");
    for file in ["train.py", "job.sh"] {
        run(&format!("cp {file} fresh/"), &dir);
    }
    let marker = marker(&dir);
    let job = Background(Command::new("sleep").arg("600").spawn().expect("sleep"));
    let code = pages::code().into_iter().filter(|code| code.is_line);
    let lines = code.map(|code| code.text).filter(|line| {
        if pages::invocations(line, &["iotrace"]).is_empty() {
            return false;
        }
        let line = format!("{line}\n");
        !NOT_RUN.iter().any(|part| line.contains(part))
    });
    let uncommented = |line: String| match line.split_once(" #") {
        Some((command, _)) => command.trim().to_owned(),
        None => line.trim().to_owned(),
    };
    let lines: BTreeSet<String> = lines.map(uncommented).collect();
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        let meant = meant(line, &job, &marker);
        println!("{meant}");
        let is_recording = meant.contains("record ");
        run(&meant, if is_recording { &fresh } else { &dir });
    }
}
