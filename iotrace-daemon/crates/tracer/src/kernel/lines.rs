//! What opened files: whether this kernel lets the programs walk frames.

use iotrace_common::abi::{Setting, globals};

use super::{btf::Types, load};

/// Bytes of `struct pt_regs` up to the last register of a program (linux/ptrace.h of the interface to user space).
const REGISTERS_BYTES: u64 = if cfg!(target_arch = "aarch64") {
    272
} else {
    168
};

/// Whose opens are counted by what made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedLines {
    /// Lines of Python programs.
    pub python: bool,
    /// Functions of native programs.
    pub native: bool,
}

impl WantedLines {
    /// Whether anything is.
    pub fn are_some(self) -> bool {
        self.python || self.native
    }
}

/// What the programs are told; or why lines cannot be found.
pub fn find(_types: &Types) -> Result<Vec<Setting>, String> {
    if load::has_loop() {
        Ok(vec![
            globals::LINES.set(true),
            globals::REGS_BYTES.set(REGISTERS_BYTES),
        ])
    } else {
        Err("this kernel lacks the helper bpf_loop (Linux 5.17)".into())
    }
}
