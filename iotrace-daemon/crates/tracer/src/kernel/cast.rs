//! Calls of the kernel function `bpf_rdonly_cast`, which turns any address into a typed pointer.
//!
//! Neither rustc nor bpf-linker nor aya knows calls of kernel functions. The programs call a helper
//! that no kernel has; here each such call becomes a call of the function by its BTF id. A kernel
//! without the function gets the object as it is, with the branch that calls it turned off.

use iotrace_common::{
    CAST_MARKER,
    abi::{
        Setting, Type,
        globals::{self, CAST_TYPES, OPTIONAL_CAST_TYPES},
    },
};

use super::btf::Types;

const CALL: u8 = 0x85;
/// `BPF_PSEUDO_KFUNC_CALL`, in the upper half of the byte of registers.
const KERNEL_FUNCTION: u8 = 2 << 4;
/// Puts the function into the object's calls; the settings that go with it. None where the kernel
/// has no such function.
pub fn apply(object: &mut [u8], types: &Types) -> Vec<Setting> {
    let Some(function) = types.function("bpf_rdonly_cast") else {
        return vec![];
    };
    let id = |of: &Type| Some(of.global.set(types.structure(of.structure)?));
    let ids: Option<Vec<Setting>> = CAST_TYPES.iter().map(id).collect();
    let Some(mut settings) = ids else {
        return vec![];
    };
    settings.extend(OPTIONAL_CAST_TYPES.iter().filter_map(id));
    let mut call = [CALL, 0, 0, 0, 0, 0, 0, 0];
    call[4..].copy_from_slice(&CAST_MARKER.to_ne_bytes());
    // Instructions are aligned to their size in the file as in the section.
    for instruction in object
        .chunks_exact_mut(call.len())
        .filter(|bytes| **bytes == call)
    {
        instruction[1] = KERNEL_FUNCTION;
        instruction[4..].copy_from_slice(&function.to_ne_bytes());
    }
    settings.push(globals::HAS_CAST.set(true));
    settings
}
