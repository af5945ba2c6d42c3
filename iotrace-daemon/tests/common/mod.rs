//! Runs iotrace and the test programs, and compares what they say.
#![allow(
    clippy::allow_attributes,
    dead_code,
    unused_imports,
    reason = "each test file uses a part of it"
)]

pub mod cache;
pub mod compare;
pub mod daemon;
pub mod experiment;
pub mod export;
pub mod fio;
pub mod golden;
pub mod library;
pub mod lines;
pub mod quiet;
pub mod run;
pub mod slow;
pub mod stacks;
pub mod trace;
pub mod truth;
pub mod turn;
pub mod waits;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

pub use iotrace_made as made;
pub use run::Iotrace;
use serde_json::Value;
use tempfile::TempDir;

/// A directory on the disk's own filesystem, gone at the end; its path has no symbolic link in it.
pub fn directory() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().canonicalize().expect("its path");
    (dir, path)
}

/// The counting program: that of the package `iotrace-workload`, in the directory of `iotrace`.
pub fn workload() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_iotrace")).with_file_name("workload");
    assert!(
        path.exists(),
        "run `cargo build --package iotrace-workload`, which makes {}: `cargo test --test NAME` does not",
        path.display()
    );
    path
}

/// A tool that a test compares with. A missing one fails the test.
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: `cargo xtask setup` installs it"))
}

/// Compiles a C program of the tests. Without the compiler's own versions of the library's functions, which would make
/// other calls of them.
pub fn compiled(source: &str, directory: &Path, args: &[&str]) -> PathBuf {
    let out = directory.join(source).with_extension("out");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let status = Command::new(tool("cc"))
        .args(["-Wall", "-O1", "-fno-builtin", "-o"])
        .arg(&out)
        .arg(sources.join(source))
        .args(args)
        .status();
    assert!(status.expect("cc").success(), "{source} does not compile");
    out
}

/// The interpreter itself, where `python3` is a script that looks for it.
pub fn python() -> PathBuf {
    let out = Command::new(tool("python3"))
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let out = out.expect("python3");
    PathBuf::from(String::from_utf8(out.stdout).expect("a path").trim())
}

/// Python of the distribution's, which every user may run: another may stand where only root comes.
pub fn users_python() -> PathBuf {
    let python = PathBuf::from("/usr/bin/python3");
    assert!(
        python.exists(),
        "no {}: `cargo xtask setup` installs it",
        python.display()
    );
    python
}

/// Fails unless this process may trace, naming what is missing. What traces shares the machine: see [`turn`].
pub fn need_root() {
    turn::share();
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    assert_eq!(
        uid, 0,
        "these tests trace the real kernel: run them as root (CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN)"
    );
}

/// Mounts tracefs where the per-syscall tracepoints are looked for, unless it is there.
pub fn need_tracefs() {
    let events = Path::new("/sys/kernel/tracing/events/syscalls");
    if events.exists() {
        return;
    }
    let status = Command::new("mount")
        .args(["-t", "tracefs", "tracefs", "/sys/kernel/tracing"])
        .status();
    assert!(
        events.exists(),
        "no {} and tracefs cannot be mounted ({status:?})",
        events.display()
    );
}

/// A string of a JSON object.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A number of a JSON object; 0 where it is absent.
pub fn number(value: &Value, key: &str) -> u64 {
    match &value[key] {
        Value::Null => 0,
        number => number
            .as_u64()
            .unwrap_or_else(|| panic!("{key} is {number}")),
    }
}
