//! `cargo xtask run`: builds iotrace and becomes it.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

use anyhow::{Context as _, Result, anyhow};

use crate::setup::{self, Purpose};
use crate::{cmd, kernel_crate};

/// Builds with optimizations and replaces this process, so that signals and the exit code are
/// iotrace's own. The traced program keeps our working directory, terminal and environment.
pub fn task(args: &[OsString]) -> Result<()> {
    setup::ensure(&[Purpose::Build])?;
    cmd::run(cmd::cargo().args([
        "build",
        "--locked",
        "--release",
        "--package",
        "iotrace-daemon",
    ]))?;

    let target = target_dir()?;
    let mut iotrace = with_root(&target.join("release/iotrace"))?;
    iotrace.args(args);
    remove_cargo_environment(&mut iotrace, &target);
    let error: io::Error = iotrace.exec();
    Err(anyhow!(error).context(format!("cannot run {}", cmd::shown(&iotrace))))
}

/// The command itself, or by sudo with our environment (and our `PATH`, which sudo replaces).
fn with_root(program: &Path) -> Result<Command> {
    if cmd::is_root()? {
        return Ok(Command::new(program));
    }
    let mut path = OsString::from("PATH=");
    path.push(env::var_os("PATH").unwrap_or_default());
    let mut sudo = Command::new("sudo");
    sudo.arg("-E").arg("env").arg(path).arg(program);
    Ok(sudo)
}

/// Where cargo puts what it builds, seen from where it put this program.
pub fn target_dir() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own file")?;
    let target = own.ancestors().nth(2).map(Path::to_owned);
    target.with_context(|| format!("{} is not in a target directory", own.display()))
}

/// Takes out what cargo and rustup added to the environment for us. It is not the user's, and the
/// library path would show in the recording: the loader looks in every directory of it.
fn remove_cargo_environment(command: &mut Command, target: &Path) {
    kernel_crate::remove_cargo_variables(command);
    const LIBRARIES: &str = "LD_LIBRARY_PATH";
    let libraries = env::var_os(LIBRARIES).unwrap_or_default();
    let users: Vec<_> = env::split_paths(&libraries)
        .filter(|dir| !is_cargos(dir, target))
        .collect();
    match env::join_paths(users) {
        Ok(users) if !users.is_empty() => command.env(LIBRARIES, users),
        _ => command.env_remove(LIBRARIES),
    };
}

/// Whether cargo or rustup put this directory into the library path: the target directory, the
/// standard library's and the compiler's.
fn is_cargos(dir: &Path, target: &Path) -> bool {
    let has = |name: &str| {
        dir.components()
            .any(|part| part.as_os_str() == OsStr::new(name))
    };
    dir.starts_with(target) || has("rustlib") || has("toolchains")
}
