//! io_uring: what the programs must be told of its requests, and the hooks on them.
//!
//! Attaches the BTF raw tracepoints `io_uring_submit_req` (`io_uring_submit_sqe` before Linux 6.3) and `io_uring_complete`.
//! A kernel without them, or whose requests look otherwise, is traced without its io_uring, and that is said.

use aya::{Btf, Ebpf};
use iotrace_common::abi::{
    Setting,
    globals::{self, URING_FIELDS},
};

use super::{KernelError, attach::attach_raw, btf::Types, offsets};

/// Names of the tracepoint at the submission of a request, the newest first.
const SUBMIT: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];
const COMPLETE: &str = "io_uring_complete";
/// Arguments of the first of these at most, where the request is its first: before Linux 6.0 there were more, and the
/// ring was.
const REQUEST_FIRST: usize = 2;
/// Arguments of `io_uring_complete` where the result stands in the last one, an entry of the completion queue.
const WITH_CQE: usize = 3;

/// What this kernel's io_uring is like.
#[derive(Clone, Debug)]
pub struct Uring {
    pub settings: Vec<Setting>,
    submit: &'static str,
}

/// Reads it from the kernel's types; or why its requests cannot be accounted.
pub fn find(types: &Types) -> Result<Uring, String> {
    let submit = SUBMIT
        .into_iter()
        .find(|name| types.has_tracepoint(name))
        .ok_or("this kernel has no tracepoint io_uring_submit_req")?;
    if types
        .tracepoint_arguments(submit)
        .is_none_or(|arguments| arguments > REQUEST_FIRST)
    {
        return Err(format!(
            "the tracepoint {submit} of this kernel does not begin with the request, as from Linux 6.0 on"
        ));
    }
    let mut settings = offsets::all_optional(types, URING_FIELDS)?;
    // Before Linux 6.9 no request truncates a file.
    settings.extend(offsets::optional(types, &globals::TRUNCATE_LENGTH));
    let of_request = |field| types.offset("io_kiocb", field);
    if let Some(behind) = of_request("tctx") {
        settings.extend([
            globals::REQUEST_TASK.set(behind),
            offsets::optional(types, &globals::URING_TASK_TASK)?,
            globals::TASK_IS_BEHIND.set(true),
        ]);
    } else {
        let task =
            of_request("task").ok_or("this kernel's type information has no io_kiocb.task")?;
        settings.push(globals::REQUEST_TASK.set(task));
    }
    let arguments = types
        .tracepoint_arguments(COMPLETE)
        .ok_or("this kernel has no tracepoint io_uring_complete")?;
    settings.push(globals::COMPLETE_HAS_CQE.set(arguments == WITH_CQE));
    Ok(Uring { settings, submit })
}

impl Uring {
    /// Attaches the hooks.
    pub fn attach(&self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), KernelError> {
        // The ends first, so that no request is told of whose end is not.
        attach_raw(
            ebpf,
            &[("uring_complete", COMPLETE), ("uring_submit", self.submit)],
            btf,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_of_it() {
        let types = super::super::load::read_types(None).unwrap();
        let uring = find(&types).unwrap();
        let has = |setting| uring.settings.contains(&setting);
        assert!(has(globals::CQE_RESULT.global.set(8)));
        assert!(has(globals::REQUEST_FILE.global.set(0)));
    }
}
