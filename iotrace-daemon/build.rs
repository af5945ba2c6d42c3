//! Names this build's version and commit (`IOTRACE_VERSION`).

use std::{env, path::Path, process::Command};

fn main() {
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it for every build script");
    let root = Path::new(&package)
        .parent()
        .expect("the package is a directory of the workspace");
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    match commit(root) {
        Some(commit) => println!("cargo::rustc-env=IOTRACE_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=IOTRACE_VERSION={version}"),
    }
}

/// The commit that is checked out, if the workspace is the top of a git repository (and not a copy
/// inside another one).
fn commit(root: &Path) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let log = root.join(git(root, &["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        // It grows with every checkout and commit. (A path that is not there would make every build run this.)
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(root, &["rev-parse", "--short=10", "HEAD"])
}

/// What a git command prints, if it succeeds.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
