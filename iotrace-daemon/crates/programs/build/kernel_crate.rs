//! The cargo command for the kernel crate: target, flags and a clean environment.
//!
//! `build.rs` builds with it, and `cargo xtask lint` runs clippy with it, so both see the same code.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::toolchain::Toolchain;

/// The package's name, and that of its only binary.
pub const PACKAGE: &str = "iotrace-ebpf";

/// The objects that are made of it: a name for the file, and the features that it is built with.
pub const OBJECTS: [(&str, &str); 3] = [
    (PACKAGE, ""),
    ("iotrace-ebpf-compat_510", "compat_510"),
    ("iotrace-ebpf-nobtf", "nobtf"),
];

/// The instruction set: `v3` has 32-bit registers and jumps, which Linux 5.1 and later run; `v2`
/// serves older ones, at more instructions per program.
const CPU: &str = "v3";

/// The machine that the programs will run on.
pub struct Machine {
    pub arch: String,
    pub big_endian: bool,
}

impl Machine {
    /// The compilation target of the kernel crate for it.
    pub fn target(&self) -> &'static str {
        if self.big_endian {
            "bpfeb-unknown-none"
        } else {
            "bpfel-unknown-none"
        }
    }

    /// The name that the `bpf_target_arch` cfg of aya-ebpf has for it.
    fn bpf_arch(&self) -> &str {
        if self.arch.starts_with("riscv64") {
            "riscv64"
        } else {
            &self.arch
        }
    }
}

/// The command: `cargo build` or `cargo clippy` for the kernel crate with `features`, in the workspace `root`.
///
/// `target_dir` must not be the outer cargo's, which holds its lock while a build script runs.
pub fn cargo(
    toolchain: &Toolchain,
    subcommand: &str,
    features: &str,
    machine: &Machine,
    root: &Path,
    target_dir: &Path,
) -> Command {
    let cargo = Some(toolchain.tool("cargo")).filter(|path| path.is_file());
    let cargo = cargo.map_or_else(outer_cargo, OsString::from);
    let mut command = match subcommand {
        // Not `cargo clippy`, which would look for `cargo-clippy` on PATH and find rustup's.
        "clippy" => Command::new(toolchain.tool("cargo-clippy")),
        _ => Command::new(&cargo),
    };
    remove_cargo_variables(&mut command);
    command.current_dir(root);
    command.args([
        subcommand,
        "--quiet",
        "--locked",
        "--release",
        "--package",
        PACKAGE,
        "--features",
        features,
    ]);
    command.args([
        "-Z",
        "build-std=core",
        "--target",
        machine.target(),
        "--target-dir",
    ]);
    command.arg(target_dir);
    command.env("CARGO", &cargo); // cargo-clippy asks here for its cargo
    command.env("RUSTC", &toolchain.rustc);
    if !toolchain.is_nightly() {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", rustflags(machine));
    command
}

/// The compiler's flags, in cargo's encoding. BTF is made from the debug information.
///
/// Small copies and fills are stores in the program. In order, which the linker would ask for, LLVM leaves all but copies
/// to functions that go byte by byte: slow to run, and slow for the kernel to check.
///
/// Arithmetic wraps, whatever the profile says: a check of a product needs 128 bits, which BPF does not have.
///
/// Blocks of instructions stay in the order of the source: older kernels (6.1 is one) refuse a loop that is entered in its
/// middle and falls through to its beginning, which LLVM may make of any loop.
fn rustflags(machine: &Machine) -> String {
    let arch = format!("--cfg=bpf_target_arch=\"{}\"", machine.bpf_arch());
    let cpu = format!("-Ctarget-cpu={CPU}");
    [
        arch.as_str(),
        cpu.as_str(),
        "-Cdebuginfo=2",
        "-Coverflow-checks=off",
        "-Clink-arg=--btf",
        "-Clink-arg=--disable-expand-memcpy-in-order",
        "-Clink-arg=--llvm-args=-disable-block-placement",
    ]
    .join("\x1f")
}

/// The cargo that runs us, for a compiler that was packaged without one.
fn outer_cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Removes what the outer cargo and rustup set for themselves: their compiler, flags, wrappers,
/// profile and toolchain are not the kernel crate's.
pub fn remove_cargo_variables(command: &mut Command) {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_cargo_variable) {
            command.env_remove(name);
        }
    }
}

/// Whether it directs a build. What says how to reach a registry, where cargo's home is and how
/// many jobs may run stays.
fn is_cargo_variable(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_TERM_",
    ];
    let kept = KEPT.iter().any(|kept| name.starts_with(kept));
    let outer = [
        "CARGO",
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUST_RECURSION_COUNT",
        "CLIPPY_",
    ];
    !kept && outer.iter().any(|prefix| name.starts_with(prefix))
}
