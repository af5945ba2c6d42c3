//! `cargo xtask package`: the Debian package of iotrace, by dpkg-deb.
//!
//! The package is `iotrace-daemon`, because another program has the name `iotrace` (a block tracer of Open CAS), whose
//! binary is at the same place: the two conflict.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::setup::{self, Purpose};
use crate::{cmd, run};

/// Options of the task.
#[derive(clap::Args)]
pub struct Options {
    /// Package this binary, rather than one that is built with optimizations.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

const NAME: &str = "iotrace-daemon";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Files of the repository, where they go, and their modes.
const FILES: [(&str, &str, u32); 10] = [
    (
        "deploy/systemd/iotrace.service",
        "usr/lib/systemd/system/iotrace.service",
        0o644,
    ),
    (
        "deploy/systemd/iotrace.sysusers",
        "usr/lib/sysusers.d/iotrace.conf",
        0o644,
    ),
    ("deploy/iotrace.toml", "etc/iotrace/iotrace.toml", 0o644),
    (
        "deploy/prometheus/rules.yml",
        "usr/share/iotrace/prometheus/rules.yml",
        0o644,
    ),
    (
        "deploy/prometheus/alerts.yml",
        "usr/share/iotrace/prometheus/alerts.yml",
        0o644,
    ),
    (
        "deploy/prometheus/scrape.yml",
        "usr/share/iotrace/prometheus/scrape.yml",
        0o644,
    ),
    (
        "deploy/grafana/iotrace.json",
        "usr/share/iotrace/grafana/iotrace.json",
        0o644,
    ),
    (
        "docs/service.md",
        "usr/share/doc/iotrace-daemon/service.md",
        0o644,
    ),
    (
        "docs/metrics.md",
        "usr/share/doc/iotrace-daemon/metrics.md",
        0o644,
    ),
    (
        "docs/configuration.md",
        "usr/share/doc/iotrace-daemon/configuration.md",
        0o644,
    ),
];
/// Scripts of the package itself.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Builds the package; says where it is.
pub fn task(options: &Options) -> Result<()> {
    setup::ensure(&[Purpose::Build])?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => {
            let build = [
                "build",
                "--locked",
                "--release",
                "--package",
                "iotrace-daemon",
            ];
            cmd::run(cmd::cargo().args(build))?;
            run::target_dir()?.join("release/iotrace")
        }
    };
    let directory = run::target_dir()?.join("package");
    fs::create_dir_all(&directory)?;
    println!("{}", deb(&binary, &directory)?.display());
    Ok(())
}

/// Makes the package of `binary` in `directory`.
fn deb(binary: &Path, directory: &Path) -> Result<PathBuf> {
    let stage = directory.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).with_context(|| format!("cannot empty {}", stage.display()))?;
    }
    install(binary, &stage.join("usr/bin/iotrace"), 0o755)?;
    for (from, to, mode) in FILES {
        install(&cmd::root().join(from), &stage.join(to), mode)?;
    }
    for script in SCRIPTS {
        let from = cmd::root().join("deploy/debian").join(script);
        install(&from, &stage.join("DEBIAN").join(script), 0o755)?;
    }
    let copyright = stage.join("usr/share/doc").join(NAME).join("copyright");
    fs::write(&copyright, copyright_text()?)?;
    fs::write(
        stage.join("DEBIAN/conffiles"),
        "/etc/iotrace/iotrace.toml\n",
    )?;
    let architecture = cmd::stdout_of(cmd::command("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    fs::write(stage.join("DEBIAN/control"), control(architecture))?;
    let package = directory.join(format!("{NAME}_{VERSION}_{architecture}.deb"));
    let mut build = cmd::command("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]);
    cmd::run(build.arg(&stage).arg(&package))?;
    Ok(package)
}

fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn control(architecture: &str) -> String {
    format!(
        "Package: {NAME}\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: The iotrace developers <iotrace@localhost>\n\
         Section: admin\n\
         Priority: optional\n\
         Depends: libc6\n\
         Conflicts: iotrace\n\
         Description: I/O of every job on this machine, as metrics\n \
         iotrace counts in the kernel, by eBPF, what every process does to its files,\n \
         sorts it into the phases of a training job, and exports it to Prometheus by\n \
         Slurm job, Kubernetes container or service.\n"
    )
}

fn copyright_text() -> Result<String> {
    let mut text =
        String::from("MIT or Apache-2.0, as you choose; the kernel programs also GPL-2.0.\n\n");
    text.push_str(&fs::read_to_string(cmd::root().join("LICENSE-MIT"))?);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A root that dpkg takes for a system's, gone at the end.
    struct Root(PathBuf);

    impl Root {
        fn new() -> Self {
            let root = std::env::temp_dir().join(format!("iotrace-package-{}", std::process::id()));
            for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
                fs::create_dir_all(root.join(directory)).unwrap();
            }
            fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
            Self(root)
        }

        fn dpkg(&self, args: &[&str]) -> (bool, String) {
            let out = Command::new("dpkg")
                .arg(format!("--root={}", self.0.display()))
                .args([
                    "--force-script-chrootless",
                    "--force-depends",
                    "--force-not-root",
                ])
                .args(args)
                .output()
                .unwrap();
            let said = [out.stdout, out.stderr].concat();
            (
                out.status.success(),
                String::from_utf8_lossy(&said).into_owned(),
            )
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn installs_and_leaves() {
        let root = Root::new();
        let made = root.0.join("made");
        fs::create_dir(&made).unwrap();
        let package = deb(Path::new("/bin/true"), &made).unwrap();
        let (installed, said) = root.dpkg(&["-i", package.to_str().unwrap()]);
        assert!(installed, "{said}");
        for (from, to, _) in FILES {
            let (from, to) = (cmd::root().join(from), root.0.join(to));
            assert_eq!(fs::read(from).unwrap(), fs::read(to).unwrap());
        }
        let mode = fs::metadata(root.0.join("usr/bin/iotrace"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o755);
        let passwd = fs::read_to_string(root.0.join("etc/passwd")).unwrap();
        assert!(passwd.contains("iotrace:"), "no user: {passwd}\n{said}");
        // A configuration that was changed survives an upgrade and a removal, and goes with a purge.
        let config = root.0.join("etc/iotrace/iotrace.toml");
        fs::write(&config, "[http]\n").unwrap();
        for action in [&["-i", package.to_str().unwrap()][..], &["-r", NAME]] {
            let (done, said) = root.dpkg(action);
            assert!(done, "{action:?}: {said}");
            assert_eq!(fs::read_to_string(&config).unwrap(), "[http]\n");
        }
        assert!(!root.0.join("usr/bin/iotrace").exists());
        let (purged, said) = root.dpkg(&["-P", NAME]);
        assert!(purged && !config.exists(), "{said}");
    }
}
