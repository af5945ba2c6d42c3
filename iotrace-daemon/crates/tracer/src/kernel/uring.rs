//! io_uring: what the programs must be told of its requests.
//!
//! A kernel whose requests look otherwise is traced without its io_uring, and that is said.

use iotrace_common::abi::{Setting, globals};

use super::{btf::Types, offsets};

/// Names of the tracepoint at the submission of a request, the newest first.
const SUBMIT: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];
const COMPLETE: &str = "io_uring_complete";
/// Arguments of the first of these at most, where the request is its first: before Linux 6.0 there were more, and the
/// ring was.
const REQUEST_FIRST: usize = 2;
/// Arguments of `io_uring_complete` where the result is in the last one, an entry of the completion queue.
const WITH_CQE: usize = 3;

/// Reads it from the kernel's types; or why its requests cannot be accounted.
pub fn find(types: &Types) -> Result<Vec<Setting>, String> {
    let arguments = |name| types.tracepoint_arguments(name);
    let submit = SUBMIT.into_iter().find(|name| types.has_tracepoint(name));
    let submit = submit.unwrap_or(SUBMIT[0]);
    if arguments(submit).is_none_or(|arguments| arguments > REQUEST_FIRST) {
        return Err(format!(
            "the tracepoint {submit} of this kernel does not begin with the request, as from Linux 6.0 on"
        ));
    }
    // Before Linux 6.9 no request truncates a file.
    let truncate = offsets::optional(types, &globals::TRUNCATE_LENGTH);
    let mut settings: Vec<Setting> = truncate.into_iter().collect();
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
    let has_cqe = arguments(COMPLETE) == Some(WITH_CQE);
    settings.push(globals::COMPLETE_HAS_CQE.set(has_cqe));
    Ok(settings)
}
