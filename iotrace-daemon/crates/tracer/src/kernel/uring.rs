//! io_uring: what the programs must be told of its requests, and the hooks on them.
//!
//! Attaches the BTF raw tracepoints `io_uring_submit_req` (`io_uring_submit_sqe` before Linux 6.3) and `io_uring_complete`.
//! A kernel without them, or whose requests look otherwise, is traced without its io_uring, and that is said.

use aya::{Btf, Ebpf};

use super::{
    KernelError,
    attach::attach_raw,
    btf::Types,
    offsets::{self, Setting},
};

/// Fields of a request, and of what its operations keep in it.
const FIELDS: [offsets::Optional; 16] = [
    ("REQUEST_OPCODE", "io_kiocb", "opcode"),
    ("REQUEST_FLAGS", "io_kiocb", "flags"),
    ("REQUEST_FILE", "io_kiocb", "file"),
    ("REQUEST_FD", "io_kiocb", "cqe.fd"),
    ("RW_POSITION", "io_rw", "kiocb.ki_pos"),
    ("RW_BUFFER", "io_rw", "addr"),
    ("RW_LENGTH", "io_rw", "len"),
    ("OPEN_SLOT", "io_open", "file_slot"),
    ("CLOSE_FD", "io_close", "fd"),
    ("CLOSE_SLOT", "io_close", "file_slot"),
    ("SYNC_FLAGS", "io_sync", "flags"),
    ("SYNC_OFFSET", "io_sync", "off"),
    ("SYNC_LENGTH", "io_sync", "len"),
    ("UNLINK_FLAGS", "io_unlink", "flags"),
    ("CQE_RESULT", "io_uring_cqe", "res"),
    ("CQE_FLAGS", "io_uring_cqe", "flags"),
];

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
    let mut settings = offsets::all_optional(types, &FIELDS)?;
    // Before Linux 6.9 no request truncates a file.
    let truncate = offsets::optional(types, "io_ftrunc", "len");
    settings.extend(truncate.map(|offset| ("TRUNCATE_LENGTH", offset)));
    if let Ok(behind) = offsets::optional(types, "io_kiocb", "tctx") {
        settings.extend([
            ("REQUEST_TASK", behind),
            (
                "URING_TASK_TASK",
                offsets::optional(types, "io_uring_task", "task")?,
            ),
            ("TASK_IS_BEHIND", 1),
        ]);
    } else {
        settings.push((
            "REQUEST_TASK",
            offsets::optional(types, "io_kiocb", "task")?,
        ));
    }
    let arguments = types
        .tracepoint_arguments(COMPLETE)
        .ok_or("this kernel has no tracepoint io_uring_complete")?;
    settings.push(("COMPLETE_HAS_CQE", u64::from(arguments == WITH_CQE)));
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
        let value = |name| uring.settings.iter().find(|(global, _)| *global == name);
        assert_eq!(value("CQE_RESULT"), Some(&("CQE_RESULT", 8)));
        assert_eq!(value("REQUEST_FILE"), Some(&("REQUEST_FILE", 0)));
    }
}
