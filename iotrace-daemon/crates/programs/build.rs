//! Builds the kernel crate and puts its objects into `OUT_DIR`. The crate embeds a copy of each, compressed and without what
//! no run needs.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[path = "build/kernel_crate.rs"]
mod kernel_crate;
#[path = "build/toolchain.rs"]
mod toolchain;
#[path = "build/unneeded.rs"]
mod unneeded;

use kernel_crate::{Machine, OBJECTS, PACKAGE};
use toolchain::Toolchain;

/// The mend for everything that is missing.
const SETUP: &str =
    "`cargo xtask setup` installs what is missing, `cargo xtask setup --check` names it";

fn main() -> ExitCode {
    let package = path_variable("CARGO_MANIFEST_DIR");
    let root = package
        .ancestors()
        .nth(3)
        .expect("the package is three directories below the workspace");
    match build_kernel_crate(root) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the kernel crate {PACKAGE} was not built: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the objects. Their warnings become ours; their errors end the build.
fn build_kernel_crate(root: &Path) -> Result<(), String> {
    rerun_if_changed(root);
    let toolchain = Toolchain::find(env!("CARGO_PKG_RUST_VERSION"))
        .map_err(|why| format!("no compiler with the sources of `core`: {why}\n{SETUP}"))?;
    let linker = toolchain::installed("bpf-linker")
        .ok_or_else(|| format!("bpf-linker was not found\n{SETUP}"))?;
    for tool in [&toolchain.rustc, &linker] {
        println!("cargo::rerun-if-changed={}", tool.display());
    }

    let machine = Machine {
        arch: variable("CARGO_CFG_TARGET_ARCH"),
        big_endian: variable("CARGO_CFG_TARGET_ENDIAN") == "big",
    };
    let out = path_variable("OUT_DIR");
    for (name, features) in OBJECTS {
        build_object(
            &toolchain,
            &linker,
            &machine,
            features,
            root,
            &out.join(name),
        )?;
    }
    Ok(())
}

/// Builds the kernel crate with `features` and puts the object at `to`.
fn build_object(
    toolchain: &Toolchain,
    linker: &Path,
    machine: &Machine,
    features: &str,
    root: &Path,
    to: &Path,
) -> Result<(), String> {
    // Not an object's name, which would be in its way. One for all: they differ in the last crate alone.
    let target_dir = to.with_file_name("kernel-target");
    let mut cargo = kernel_crate::cargo(toolchain, "build", features, machine, root, &target_dir);
    let linker_variable = machine.target().replace('-', "_").to_uppercase();
    cargo.env(format!("CARGO_TARGET_{linker_variable}_LINKER"), linker);
    let output = cargo
        .output()
        .map_err(|error| format!("cannot run {cargo:?}: {error}"))?;

    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} with {toolchain}\n{messages}", output.status));
    }
    for line in messages.lines().filter(|line| !line.is_empty()) {
        println!("cargo::warning={line}");
    }
    let object = target_dir
        .join(machine.target())
        .join("release")
        .join(PACKAGE);
    let copied = fs::copy(&object, to).and_then(|_| compress(to));
    copied.map_err(|error| format!("cannot copy {}: {error}", object.display()))
}

/// Writes a compressed copy of an object, without what no run needs, in the same directory.
fn compress(file: &Path) -> std::io::Result<()> {
    let object = unneeded::without(fs::read(file)?);
    let compressed = fs::File::create(file.with_added_extension("gz"))?;
    let mut encoder = flate2::write::GzEncoder::new(compressed, flate2::Compression::best());
    encoder.write_all(&object)?;
    encoder.finish()?.sync_all()
}

/// Names what the object is made of, beside the tools, which are named once they are found.
fn rerun_if_changed(root: &Path) {
    for part in [
        PACKAGE,
        "iotrace-common",
        "Cargo.toml",
        "Cargo.lock",
        "iotrace-daemon/crates/programs/build",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    for name in [toolchain::RUSTC_VARIABLE, "CARGO_HOME", "RUSTUP_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
}

/// A variable that cargo sets for every build script.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo did not set {name}: {error}"))
}

/// The same, as a path.
fn path_variable(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo did not set {name}")))
}
