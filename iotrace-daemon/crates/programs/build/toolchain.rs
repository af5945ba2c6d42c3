//! Finds the tools that build the kernel crate: a compiler with the sources of `core`, and bpf-linker.
//!
//! The BPF targets have no prebuilt `core`, so cargo builds it from the library sources, which must
//! be those of the compiler itself. Two roads lead there: a nightly of rustup's with `rust-src`, and a
//! distribution's compiler with its source package (any release channel: `RUSTC_BOOTSTRAP` opens it).
//!
//! `build.rs` and xtask share this file, so that `cargo xtask setup` installs what the build picks.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names a compiler to use in place of the search.
pub const RUSTC_VARIABLE: &str = "IOTRACE_EBPF_RUSTC";

/// The rustup toolchain that is looked for, and that `cargo xtask setup` installs.
///
/// A dated one: the kernel's verifier may refuse what the next LLVM makes of the same source. That of
/// October 2026 (LLVM 23) returns a pair of values in two registers, which Linux 6.18 does not allow.
pub const RUSTUP_TOOLCHAIN: &str = "nightly-2026-05-21";

/// Where a compiler came from, which decides how its parts are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `IOTRACE_EBPF_RUSTC`.
    Variable,
    /// rustup's [`RUSTUP_TOOLCHAIN`].
    Rustup,
    /// A compiler on `PATH` that is not rustup's.
    Path,
}

/// A compiler that can build the kernel crate.
#[derive(Clone, Debug)]
pub struct Toolchain {
    pub origin: Origin,
    pub rustc: PathBuf,
    pub sysroot: PathBuf,
    /// As rustc prints it: `1.96.0`, `1.97.0-nightly`.
    pub release: String,
    /// bpf-linker reads this LLVM's bitcode, so its own LLVM must be at least as new.
    pub llvm: u32,
}

impl Toolchain {
    /// Finds the compiler: the variable's, rustup's, or one on `PATH`, the first that will do.
    ///
    /// `minimum` is the oldest release that compiles the workspace (`1.95`). The error says of each
    /// candidate why it was refused.
    pub fn find(minimum: &str) -> Result<Self, String> {
        if let Some(rustc) = env::var_os(RUSTC_VARIABLE) {
            return Self::inspect(Path::new(&rustc), Origin::Variable, minimum)
                .map_err(|why| format!("{RUSTC_VARIABLE}: {why}"));
        }
        let mut refused = Vec::new();
        let rustup = rustup_rustc().map(|rustc| (rustc, Origin::Rustup));
        let path = on_path("rustc").filter(|rustc| !is_rustup_proxy(rustc));
        for (rustc, origin) in rustup
            .into_iter()
            .chain(path.map(|rustc| (rustc, Origin::Path)))
        {
            match Self::inspect(&rustc, origin, minimum) {
                Ok(found) => return Ok(found),
                Err(why) => refused.push(why),
            }
        }
        Err(match refused.as_slice() {
            [] => format!("no {RUSTUP_TOOLCHAIN} toolchain of rustup, no other rustc on PATH"),
            _ => refused.join("; "),
        })
    }

    /// Asks one compiler what it is, and refuses one that cannot build the kernel crate.
    fn inspect(rustc: &Path, origin: Origin, minimum: &str) -> Result<Self, String> {
        let sysroot = PathBuf::from(stdout_of(rustc, &["--print", "sysroot"])?.trim_end());
        if !sysroot
            .join("lib/rustlib/src/rust/library/core/Cargo.toml")
            .exists()
        {
            let name = rustc.display();
            return Err(format!(
                "{name} has no library sources beside it (rust-src)"
            ));
        }
        let version = stdout_of(rustc, &["-vV"])?;
        let field = |name: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(name));
            line.ok_or_else(|| format!("{} -vV does not print `{name}`", rustc.display()))
        };
        let release = field("release: ")?.to_owned();
        if numbers(&release) < numbers(minimum) {
            let name = rustc.display();
            return Err(format!(
                "{name} is {release}, and {minimum} or newer is needed"
            ));
        }
        let llvm = numbers(field("LLVM version: ")?).0;
        Ok(Self {
            origin,
            rustc: rustc.to_owned(),
            sysroot,
            release,
            llvm,
        })
    }

    /// The path of another tool of this toolchain, whether it is installed or not.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.sysroot.join("bin").join(name)
    }

    /// Whether its release channel allows `-Z` options by itself.
    pub fn is_nightly(&self) -> bool {
        self.release.ends_with("-nightly") || self.release.ends_with("-dev")
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            origin,
            rustc,
            release,
            llvm,
            ..
        } = self;
        let origin = match origin {
            Origin::Variable => RUSTC_VARIABLE,
            Origin::Rustup => "rustup",
            Origin::Path => "PATH",
        };
        write!(
            f,
            "rustc {release} with LLVM {llvm} (from {origin}: {})",
            rustc.display()
        )
    }
}

/// A program on `PATH`, or where `cargo install` puts it, which not every `PATH` has.
pub fn installed(name: &str) -> Option<PathBuf> {
    let home = home("CARGO_HOME", ".cargo").map(|home| home.join("bin").join(name));
    on_path(name)
        .chain(home.filter(|path| path.is_file()))
        .next()
}

/// The home directory of cargo or rustup, by their own rule.
fn home(variable: &str, default: &str) -> Option<PathBuf> {
    let below_home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(default));
    env::var_os(variable).map(PathBuf::from).or_else(below_home)
}

/// All files of this name on `PATH`, in its order.
pub fn on_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found: Vec<_> = env::split_paths(&path)
        .map(|dir| dir.join(name))
        .filter(|file| file.is_file())
        .collect();
    found.into_iter()
}

/// The compiler of rustup's [`RUSTUP_TOOLCHAIN`] for this machine, if it is installed.
///
/// Its directory is looked for, because rustup, asked about a toolchain, may well download it.
pub fn rustup_rustc() -> Option<PathBuf> {
    let host = format!("{RUSTUP_TOOLCHAIN}-{}-", env::consts::ARCH);
    let toolchains = fs::read_dir(home("RUSTUP_HOME", ".rustup")?.join("toolchains")).ok()?;
    let named = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(&host);
    let nightly = toolchains.flatten().find(named)?;
    Some(nightly.path().join("bin/rustc")).filter(|rustc| rustc.is_file())
}

/// Whether this `rustc` is rustup's stand-in, which runs whatever toolchain the directory asks for.
fn is_rustup_proxy(rustc: &Path) -> bool {
    rustc.with_file_name("rustup").exists()
}

/// Major and minor of a version, the rest ignored.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What a tool prints, or why it does not.
fn stdout_of(program: impl AsRef<OsStr>, args: &[&str]) -> Result<String, String> {
    let name = Path::new(program.as_ref()).display().to_string();
    let output = Command::new(program)
        .args(args)
        .stderr(Stdio::null())
        .output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{name} {} failed ({})",
            args.join(" "),
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} prints what is not UTF-8"))
}
