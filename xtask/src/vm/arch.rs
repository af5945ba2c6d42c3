//! The processors that machines have, and what differs with them.

use std::fmt;

/// A processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arch {
    Amd64,
    Arm64,
}

/// What a kernel's name on the command line ends with where it is not for x86-64.
pub const ARM64_SUFFIX: &str = "-arm64";

impl Arch {
    /// As Debian names it.
    pub fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As Rust names it.
    pub fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The compiler and linker of C, where they are not this machine's own.
    pub fn cross_compiler(self) -> Option<&'static str> {
        match self {
            Self::Amd64 => None,
            Self::Arm64 => Some("aarch64-linux-gnu-gcc"),
        }
    }

    /// The program that runs programs for it here, where the processor does not.
    pub fn emulator(self) -> Option<&'static str> {
        match self {
            Self::Amd64 => None,
            Self::Arm64 => Some("qemu-aarch64-static"),
        }
    }

    /// The program that runs whole machines.
    pub fn qemu(self) -> &'static str {
        match self {
            Self::Amd64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    /// The board, and an emulated processor. Of arm64 one whose pointers need no signatures: to emulate those takes most
    /// of the time.
    pub fn board(self) -> (&'static str, &'static str) {
        match self {
            // Without fast string instructions: emulated, they take byte after byte, a quarter of a machine's time.
            Self::Amd64 => ("q35", "max,-erms,-fsrm,-fzrm,-fsrs,-fsrc,-la57"),
            Self::Arm64 => ("virt", "neoverse-n1"),
        }
    }

    /// The first serial line, which is the kernel's console; tests speak on the second.
    pub fn console(self) -> &'static str {
        match self {
            Self::Amd64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }
}

/// Behind a release: nothing for the usual one.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Amd64 => Ok(()),
            Self::Arm64 => f.write_str(" arm64"),
        }
    }
}
