//! Looks for the tools, by files where that is enough: this runs before every task.

use std::path::{Path, PathBuf};

use crate::cmd;
use crate::toolchain::{self, Toolchain};

use super::table::Kind;
use super::{bpf_linker, helm, interpreters, python};

/// Where dpkg has a list of the files of each installed package.
const PACKAGES: &str = "/var/lib/dpkg/info";

/// What the search for one tool needs of the search for another.
pub struct Found {
    /// The kernel crate's compiler, or why there is none.
    pub toolchain: Result<Toolchain, String>,
}

impl Found {
    pub fn look() -> Self {
        Self {
            toolchain: Toolchain::find(env!("CARGO_PKG_RUST_VERSION")),
        }
    }

    /// What is missing of a tool; nothing if it is there.
    pub fn lack(&self, kind: Kind) -> Option<String> {
        match kind {
            Kind::Command { name, .. } => toolchain::on_path(name)
                .next()
                .is_none()
                .then(|| format!("no `{name}` on PATH")),
            Kind::Package(name) => lack_of_file(&Path::new(PACKAGES).join(format!("{name}.list"))),
            Kind::Component { file, .. } => lack_of_file(&beside_cargo(file)),
            Kind::Target(name) => lack_of_target(name),
            Kind::Crate { name, version } => lack_of_crate(name, version),
            Kind::PythonEnvironment { name, packages } => python::lack(name, packages),
            Kind::Interpreters => interpreters::lack(),
            Kind::Helm => helm::lack(),
            Kind::KernelCompiler => self.toolchain.as_ref().err().cloned(),
            Kind::KernelClippy => match &self.toolchain {
                Ok(found) => lack_of_file(&found.tool("cargo-clippy")),
                Err(_) => Some("no compiler to lint for".to_owned()),
            },
            Kind::BpfLinker => bpf_linker::lack(self.toolchain.as_ref().ok()),
        }
    }
}

/// Major, minor and patch of the version that a program prints behind its name.
pub fn version(program: &Path) -> Option<(u32, u32, u32)> {
    let text = cmd::stdout_of(cmd::command(program).arg("--version")).ok()?;
    numbers(text.split_whitespace().nth(1)?)
}

/// The three numbers of a version.
pub fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

/// A component's file: rustup's stand-ins on `PATH` are there whether the component is or not.
fn beside_cargo(file: &str) -> PathBuf {
    cmd::cargo_path().with_file_name(file)
}

/// Libraries stand below the directory of the compiler's programs.
fn lack_of_target(name: &str) -> Option<String> {
    let root = cmd::cargo_path().parent()?.parent()?.to_owned();
    let libraries = root.join("lib/rustlib").join(name).join("lib");
    (!libraries.is_dir()).then(|| format!("no {}", libraries.display()))
}

fn lack_of_file(file: &Path) -> Option<String> {
    (!file.is_file()).then(|| format!("no {}", file.display()))
}

fn lack_of_crate(name: &str, wanted: &str) -> Option<String> {
    let Some(program) = toolchain::installed(name) else {
        return Some(format!("no `{name}` on PATH nor in cargo's home"));
    };
    let there = version(&program);
    (there < numbers(wanted)).then(|| format!("{} is older than {wanted}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(numbers("0.13.0"), Some((0, 13, 0)));
        assert!(numbers("0.9.15") < numbers("0.13.0"));
        assert!(numbers("0.14.0-rc.1") > numbers("0.13.0"));
        assert_eq!(numbers("unknown"), None);
        assert!(None < numbers("0.0.0"), "what prints no version is too old");
    }
}
