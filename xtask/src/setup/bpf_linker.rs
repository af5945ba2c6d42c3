//! bpf-linker: looked for, and built against the LLVM of the kernel crate's own compiler.
//!
//! It links LLVM bitcode, which no LLVM reads that is older than the one that wrote it. The compiler
//! brings its LLVM as a shared library, in rustup's toolchains as in distributions, so bpf-linker
//! takes that one: it always fits, and nothing else has to be installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::toolchain::{self, Toolchain};
use crate::{cmd, run};

use super::detect;
use super::table::BPF_LINKER_VERSION;

/// The LLVM releases that this bpf-linker can be built for.
const LLVM_RELEASES: std::ops::RangeInclusive<u32> = 21..=23;

/// What is missing: the program, a new enough version, or an LLVM that fits the compiler.
pub fn lack(toolchain: Option<&Toolchain>) -> Option<String> {
    let Some(program) = toolchain::installed("bpf-linker") else {
        return Some("no `bpf-linker` on PATH nor in cargo's home".to_owned());
    };
    let name = program.display();
    let Some(version) = detect::version(&program) else {
        return Some(format!("{name} does not run")); // such as after its LLVM was removed
    };
    if Some(version) < detect::numbers(BPF_LINKER_VERSION) {
        return Some(format!("{name} is older than {BPF_LINKER_VERSION}"));
    }
    // A bpf-linker with LLVM inside is a release of its project; there is no way to ask it.
    let llvm = llvm_release(&shared_llvm(&program)?)?;
    let wanted = toolchain
        .map(|toolchain| toolchain.llvm)
        .filter(|wanted| llvm < *wanted)?;
    Some(format!(
        "{name} has LLVM {llvm}, and the compiler writes for LLVM {wanted}"
    ))
}

/// Builds and installs it.
pub fn install(toolchain: &Toolchain) -> Result<()> {
    let release = toolchain.llvm;
    if !LLVM_RELEASES.contains(&release) {
        bail!(
            "bpf-linker {BPF_LINKER_VERSION} knows LLVM {} to {}, and {toolchain} has {release}",
            LLVM_RELEASES.start(),
            LLVM_RELEASES.end()
        );
    }
    let library = shared_llvm(&toolchain.rustc).with_context(|| {
        format!("{toolchain} has no shared LLVM; install a released bpf-linker binary instead")
    })?;
    let directory = link_directory(&library)?;
    let mut install = cmd::cargo();
    install.args([
        "install",
        "--locked",
        "--force",
        "bpf-linker",
        "--version",
        BPF_LINKER_VERSION,
    ]);
    install.args([
        "--no-default-features",
        "--features",
        &format!("llvm-{release}"),
    ]);
    install.env("LLVM_PREFIX", prefix(&library)?);
    install.env(
        "CARGO_ENCODED_RUSTFLAGS",
        format!("-Lnative={}", directory.display()),
    );
    cmd::run(&mut install)
}

/// The shared LLVM library that a program loads, if it loads one.
fn shared_llvm(program: &Path) -> Option<PathBuf> {
    let list = cmd::stdout_of(cmd::command("ldd").arg(program)).ok()?;
    let path = list.lines().find_map(llvm_path)?;
    fs::canonicalize(path).ok()
}

/// The path in a line of `ldd` about LLVM: `libLLVM.so.22.1 => /usr/lib/libLLVM.so.22.1 (0x7f..)`.
fn llvm_path(line: &str) -> Option<&str> {
    let (name, found) = line.trim().split_once(" => ")?;
    name.starts_with("libLLVM")
        .then(|| found.rsplit_once(" (").map_or(found, |(path, _)| path))
}

/// The release in the library's name: `libLLVM.so.22.1`, `libLLVM-20.so.1`.
fn llvm_release(library: &Path) -> Option<u32> {
    let name = library.file_name()?.to_str()?.strip_prefix("libLLVM")?;
    let digits = name.trim_start_matches(|character: char| !character.is_ascii_digit());
    digits
        .split(|character: char| !character.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// What bpf-linker calls LLVM's prefix: it takes the library from `lib` below it when it runs.
fn prefix(library: &Path) -> Result<&Path> {
    let lib = library
        .ancestors()
        .find(|dir| dir.ends_with("lib") || dir.ends_with("lib64"));
    let prefix = lib.and_then(Path::parent);
    prefix.with_context(|| format!("{} is in no `lib` directory", library.display()))
}

/// A directory with the library under the name that the linker looks for, which only development
/// packages have.
fn link_directory(library: &Path) -> Result<PathBuf> {
    let directory = run::target_dir()?.join("llvm");
    let link = directory.join("libLLVM.so");
    fs::create_dir_all(&directory)
        .and_then(|()| {
            if link.is_symlink() {
                fs::remove_file(&link)
            } else {
                Ok(())
            }
        })
        .and_then(|()| symlink(library, &link))
        .with_context(|| format!("cannot make {}", link.display()))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::{Path, llvm_path, llvm_release, prefix};

    #[test]
    fn reads_the_library_from_ldd() {
        let rustup = "\tlibLLVM.so.22.1-rust-1.97.0-nightly => /r/toolchains/n/bin/../lib/libLLVM.so.22.1-rust-1.97.0-nightly (0x00007fa60c200000)";
        assert_eq!(
            llvm_path(rustup),
            Some("/r/toolchains/n/bin/../lib/libLLVM.so.22.1-rust-1.97.0-nightly")
        );
        assert_eq!(
            llvm_path("\tlibc.so.6 => /lib/libc.so.6 (0x00007fa60c200000)"),
            None
        );
        assert_eq!(llvm_path("\tstatically linked"), None);
    }

    #[test]
    fn reads_the_release_from_the_name() {
        let release = |name| llvm_release(Path::new(name));
        assert_eq!(release("/usr/lib/libLLVM.so.22.1"), Some(22));
        assert_eq!(
            release("/t/lib/libLLVM.so.23.1-rust-1.101.0-nightly"),
            Some(23)
        );
        assert_eq!(release("/usr/lib/libLLVM-20.so.1"), Some(20));
        assert_eq!(release("/usr/lib/libLLVM.so"), None);
    }

    #[test]
    fn finds_the_prefix_above_multiarch_directories() {
        let of = |library| prefix(Path::new(library)).ok();
        assert_eq!(
            of("/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1"),
            Some(Path::new("/usr"))
        );
        assert_eq!(
            of("/r/toolchains/n/lib/libLLVM.so"),
            Some(Path::new("/r/toolchains/n"))
        );
        assert_eq!(of("/opt/libLLVM.so"), None);
    }
}
