//! Packages of Debian and what descends from it.

use std::sync::Once;

use anyhow::{Context as _, Result, bail};

use crate::cmd;
use crate::toolchain;

/// Installs packages; elsewhere than on Debian's kin, an error that names them.
pub fn install(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    if toolchain::on_path("apt-get").next().is_none() {
        bail!("install these packages, or your distribution's like them (Debian's names): {names}");
    }
    update();
    let options = ["install", "--yes", "--no-install-recommends"];
    cmd::run(apt_get()?.args(options).args(packages))
        .with_context(|| format!("apt-get cannot install {names}"))
}

/// Fetches the lists, once. An unreachable source is no end: the lists that are there may do.
pub fn update() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let updated = apt_get().and_then(|mut apt| cmd::run(apt.arg("update")));
        if let Err(error) = updated {
            eprintln!("setup: {error:#}; going on with the package lists that are there");
        }
    });
}

/// apt-get that asks no questions.
fn apt_get() -> Result<std::process::Command> {
    let mut apt = cmd::as_root("env")?; // sudo drops variables, so `env` sets this one behind it
    apt.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
    Ok(apt)
}
