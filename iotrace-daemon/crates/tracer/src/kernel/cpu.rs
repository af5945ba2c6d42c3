//! CPU time of threads: what the programs must be told of it, and the iterator that reads it.

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use aya::{Btf, Ebpf, programs::Iter};
use iotrace_common::abi::{Setting, globals};

use super::{
    KernelError,
    bpf::bpf,
    btf::Types,
    program::{TASKS, load, program},
};

/// `BPF_LINK_CREATE`, `BPF_ITER_CREATE`, `BPF_TRACE_ITER`.
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;
const TRACE_ITER: u32 = 28;

/// Reads it from the kernel's types; or why it cannot be told.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    types
        .function("bpf_iter_task")
        .ok_or("this kernel has no BPF iterator over tasks")?;
    Ok(vec![globals::COUNT_CPU.set(true)])
}

/// The iterator over all threads, ready to run.
#[derive(Debug)]
pub struct Threads {
    link: OwnedFd,
}

impl Threads {
    /// Loads the iterator.
    pub fn load(
        ebpf: &mut Ebpf,
        name: &'static str,
        hook: &'static str,
        btf: &Btf,
    ) -> Result<Self, KernelError> {
        let iterator: &mut Iter = program(ebpf, name)?;
        if iterator.fd().is_err() {
            load(name, hook, || iterator.load(TASKS, btf))?;
        }
        let failed = |reason| KernelError::Attach {
            hook: hook.into(),
            reason,
            hint: "",
        };
        let program = iterator.fd().map_err(|error| failed(error.to_string()))?;
        let link = bpf(
            LINK_CREATE,
            &mut [program.as_fd().as_raw_fd() as u32, 0, TRACE_ITER, 0],
        );
        let link = link.map_err(|error| failed(error.to_string()))?;
        Ok(Self { link })
    }

    /// What the iterator says, from its beginning to its end once it is read.
    pub fn open(&self) -> io::Result<File> {
        bpf(ITER_CREATE, &mut [self.link.as_raw_fd() as u32, 0]).map(File::from)
    }
}
