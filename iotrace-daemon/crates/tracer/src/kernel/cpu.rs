//! CPU time of threads: what the programs must be told of it, and the iterator that reads it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use aya::{Btf, Ebpf, programs::Iter};
use iotrace_common::abi::{
    Setting,
    globals::{self, CPU_FIELDS, TASK_FLAGS_FIELDS},
};

use super::{
    attach::{program, program_error},
    bpf::bpf,
    btf::Types,
    offsets,
};

const PROGRAM: &str = "thread_times";

/// `BPF_LINK_CREATE`, `BPF_ITER_CREATE`, `BPF_TRACE_ITER`.
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;
const TRACE_ITER: u32 = 28;

/// Reads it from the kernel's types; or why it cannot be told.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    types
        .function("bpf_iter_task")
        .ok_or("this kernel has no BPF iterator over tasks")?;
    let mut settings = offsets::all_optional(types, CPU_FIELDS)?;
    settings.extend(offsets::all_optional(types, TASK_FLAGS_FIELDS)?);
    settings.push(globals::COUNT_CPU.set(true));
    Ok(settings)
}

/// The iterator over all threads, ready to run.
#[derive(Debug)]
pub struct Threads {
    link: OwnedFd,
}

impl Threads {
    /// Loads the iterator.
    pub fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<Self, String> {
        let iterator: &mut Iter = program(ebpf, PROGRAM).map_err(|error| error.to_string())?;
        iterator
            .load("task", btf)
            .map_err(|error| program_error(PROGRAM, "iter/task", &error).to_string())?;
        let program = iterator.fd().map_err(|error| error.to_string())?;
        let link = bpf(
            LINK_CREATE,
            &mut [program.as_fd().as_raw_fd() as u32, 0, TRACE_ITER, 0],
        );
        let link = link.map_err(|error| format!("the iterator cannot be attached: {error}"))?;
        Ok(Self { link })
    }

    /// What the iterator says, from its beginning to its end once it is read.
    pub fn open(&self) -> io::Result<File> {
        bpf(ITER_CREATE, &mut [self.link.as_raw_fd() as u32, 0]).map(File::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let settings = find(&types).unwrap();
        assert!(settings.contains(&globals::COUNT_CPU.set(true)));
    }
}
