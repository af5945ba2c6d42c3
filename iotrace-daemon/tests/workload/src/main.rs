//! A program that does I/O and counts exactly what it did, for the tests to compare with what iotrace says.
//!
//! `workload MODE DIRECTORY [...]`: works in the directory and prints its own counts as one JSON object, by process
//! and file. The work is done by raw system calls in forked children, which do nothing else: so a child's book is all
//! that it did.

mod book;
mod bulk;
mod calls;
mod descriptors;
mod endings;
mod every_call;
mod merged;
mod odd_files;
mod pattern;
mod rights;
mod service;
mod threads;
mod uring;
mod visit;
mod waits;

use std::{ffi::OsString, os::unix::process::CommandExt as _, process::Command};

use book::Truth;

fn main() {
    // One arena of memory: for a second one the C library would read a file.
    // SAFETY: a plain call, before there are threads.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let mut args = std::env::args_os().skip(1);
    // What is no UTF-8 is read again by the modes that take such paths.
    let mut text = || Some(args.next()?.to_string_lossy().into_owned());
    let mode = text().expect("usage: workload MODE DIRECTORY [...]");
    let dir = text().expect("usage: workload MODE DIRECTORY [...]");
    let mut word = |what: &str| text().unwrap_or_else(|| panic!("{mode} needs {what}"));
    let number = |text: String| text.parse::<u64>().expect("a number");
    let mut truth = Truth::default();
    match mode.as_str() {
        "every-call" => every_call::run(&mut truth, &dir),
        "threads-on-one" => threads::on_one(&mut truth, &dir),
        "threads-on-many" => threads::on_many(&mut truth, &dir),
        "busy" => threads::busy(&mut truth, &dir, number(word("milliseconds"))),
        "descriptors" => descriptors::run(&mut truth, &dir),
        "after-exec" => {
            let fd = number(word("a descriptor"));
            return descriptors::after_exec(number(dir) as i32, fd as i32);
        }
        "odd-files" => odd_files::run(&mut truth, &dir),
        "reused-inodes" => {
            odd_files::reused_inodes(&mut truth, &dir, number(word("a count")) as usize);
        }
        "killed" => endings::killed(&mut truth, &dir),
        "interrupted" => endings::interrupted(&mut truth, &dir),
        "same-pid" => endings::same_pid(&mut truth, &dir),
        #[cfg(target_arch = "x86_64")]
        "compat" => endings::compat(&mut truth, &dir),
        "pattern" => pattern::run(&mut truth, &dir, number(word("a seed"))),
        "steady" => pattern::run_steady(&mut truth, &dir),
        "attached" => service::attached(&mut truth, &dir, number(word("a number")) as usize),
        "endless" => {
            let progress = word("a progress file");
            return service::endless(&dir, &progress, number(word("seconds")));
        }
        "reads" => {
            let (count, threads) = (number(word("a count")), number(word("a number of threads")));
            return bulk::reads(&dir, count, threads);
        }
        "many" => bulk::many(&mut truth, &dir, number(word("a count")) as usize),
        "touch" => bulk::touch(&mut truth, std::env::args_os().skip(2).collect()),
        "deep" => {
            let depth = number(word("a depth"));
            bulk::deep(&mut truth, &dir, depth as usize, &word("a name"));
        }
        "uring" => uring::run(&mut truth, &dir),
        "merged" => merged::run(&mut truth, &dir),
        "waits" => return waits::run(),
        "rights" => return rights::run(&dir),
        "visit" => visit::all(&mut truth, &dir),
        "renamed" => visit::renamed(&mut truth, &dir),
        "in-turn" => in_turn(&dir, std::env::args_os().skip(3)),
        "in-root" => bulk::in_root(&mut truth, &dir, &word("a name")),
        _ => panic!("no mode {mode}"),
    }
    truth.print();
}

/// Becomes another program at a real-time priority, which its children have too: each thread runs until it waits.
fn in_turn(program: &str, args: impl Iterator<Item = OsString>) -> ! {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: a plain call with a parameter of its own.
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    let error = Command::new(program).args(args).exec();
    panic!("{program}: {error}")
}
