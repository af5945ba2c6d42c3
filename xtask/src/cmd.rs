//! Running other programs.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, bail};

/// The top of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a directory of the workspace")
}

/// A command in the workspace, whose standard input is empty: no task waits for an answer.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this task, without what it says of this package to this process: build scripts of dependencies
/// run again where those variables are other ones, and what depends on them is built anew.
pub fn cargo() -> Command {
    let mut cargo = command(cargo_path());
    for (name, _) in env::vars_os() {
        let told = |start| name.to_string_lossy().starts_with(start);
        if told("CARGO_PKG_") || told("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Where it is: a toolchain's own, not rustup's stand-in.
pub fn cargo_path() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// A command that needs root.
pub fn as_root(program: &str) -> Result<Command> {
    if is_root()? {
        return Ok(command(program));
    }
    let mut sudo = command("sudo");
    sudo.arg(program).stdin(Stdio::inherit()); // sudo may ask for a password
    Ok(sudo)
}

/// Whether this process has root's rights.
pub fn is_root() -> Result<bool> {
    let own =
        fs::metadata("/proc/self").context("cannot read /proc/self, which is this process")?;
    Ok(own.uid() == 0)
}

/// Runs a command and shows it; its failure is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = spawn(command)?.wait();
    require_success(
        command,
        status.with_context(|| format!("lost {}", shown(command)))?,
    )
}

/// The same, and what it printed on standard output, which is shown as it comes.
pub fn run_and_keep(command: &mut Command) -> Result<(String, Result<()>)> {
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let output = child.stdout.take().context("no standard output")?;
    let mut kept = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.with_context(|| format!("cannot read from {}", shown(command)))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        kept.push_str(&line);
        kept.push('\n');
    }
    let status = child.wait();
    let status = status.with_context(|| format!("lost {}", shown(command)))?;
    Ok((kept, require_success(command, status)))
}

/// As [`run`], ended when it takes longer than `limit`.
pub fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    let mut child = spawn(command)?;
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return require_success(command, status);
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    bail!(
        "`{}` did not end within {} s",
        shown(command),
        limit.as_secs()
    )
}

/// What a command prints, without showing it.
pub fn stdout_of(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    require_success(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn spawn(command: &mut Command) -> Result<Child> {
    eprintln!("+ {}", shown(command));
    command
        .spawn()
        .with_context(|| format!("cannot run {}", shown(command)))
}

fn require_success(command: &Command, status: ExitStatus) -> Result<()> {
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// A command as a person would type it, its environment left out.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = [name].into_iter().chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
