//! Lines of Python programs: whether this kernel lets the programs walk frames.

use iotrace_common::abi::{Setting, globals};

use super::{btf::Types, load};

/// What the programs are told; or why lines cannot be found.
pub fn find(_types: &Types) -> Result<Vec<Setting>, String> {
    if load::has_loop() {
        Ok(vec![globals::LINES.set(true)])
    } else {
        Err("this kernel lacks the helper bpf_loop (Linux 5.17)".into())
    }
}
