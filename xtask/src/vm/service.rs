//! `cargo xtask vm --service`: the unit of the Debian package, run by systemd; `service.sh` says what is looked at.

use super::debian::Debian;

const SCRIPT: &str = include_str!("service.sh");

pub fn debian() -> Debian {
    Debian {
        name: "service",
        included: "systemd-sysv,dbus,procps",
        modules: &[],
        script: SCRIPT,
        checks: checks().map(str::to_owned).collect(),
        disk: 1 << 30,
    }
}

/// The script's checks: its functions of this name.
fn checks() -> impl Iterator<Item = &'static str> {
    let lines = SCRIPT.lines();
    lines.filter_map(|line| line.strip_prefix("check_")?.strip_suffix("() {"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_script_has_checks() {
        assert!(super::checks().count() > 5);
    }
}
