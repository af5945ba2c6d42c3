//! `iotrace check`: what it says of the kernel's hooks, compared with what tracefs lists.

use std::{path::Path, process::Command};

use crate::common::{need_root, need_tracefs};

/// What `iotrace check` calls a hook, and a tracepoint that it takes.
const HOOKS: [(&str, &str); 4] = [
    ("io_uring", "io_uring/io_uring_submit_req"),
    ("page cache", "filemap/mm_filemap_add_to_page_cache"),
    ("mapped files", "filemap/mm_filemap_fault"),
    ("block devices", "block/block_rq_issue"),
];

#[test]
fn the_hooks_are_those_that_tracefs_lists() {
    need_root();
    need_tracefs();
    let check = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["check", "--features"])
        .output()
        .expect("iotrace runs");
    let text = String::from_utf8(check.stdout).expect("UTF-8");
    assert!(check.status.success(), "{text}");
    assert!(text.ends_with("\niotrace can run here.\n"), "{text}");
    let events = Path::new("/sys/kernel/tracing/events");
    for (name, tracepoint) in HOOKS {
        let mark = if events.join(tracepoint).exists() {
            "ok"
        } else {
            "without"
        };
        let row = format!("  {mark:8} {name:29} since ");
        assert!(text.contains(&row), "no {row:?} in\n{text}");
    }
}
