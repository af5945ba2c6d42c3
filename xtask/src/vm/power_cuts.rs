//! `cargo xtask vm --power-cuts`: whether saved checkpoints survive power cuts, and whether iotrace says so;
//! `power_cuts.py` has the saves and what is expected of each.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::cmd;

use super::debian::Debian;

const SCRIPT: &str = include_str!("power_cuts.py");

/// An error where the script does not run here, too: it says itself what it checks.
pub fn debian() -> Result<Debian> {
    let mut list = Command::new("python3");
    list.args(["-c", SCRIPT, "list"]).stdin(Stdio::null());
    let checks = cmd::stdout_of(&mut list)?;
    Ok(Debian {
        name: "power-cuts",
        included: "systemd-sysv,dbus,procps,dmsetup,kmod,mount,e2fsprogs,xfsprogs,python3-torch",
        modules: &["libcrc32c", "xfs", "loop", "dm-mod", "dm-log-writes"],
        script: SCRIPT,
        checks: checks.lines().map(str::to_owned).collect(),
        disk: 6 << 30,
    })
}
