//! Waits whose lengths the program knows: one thread that waits for another process, which sleeps and computes in turn.

use std::{
    fs,
    io::{Read as _, Write as _},
    process,
    time::{Duration, Instant},
};

use serde_json::json;

const ROUNDS: u32 = 100;
const SLEEP: Duration = Duration::from_millis(4);
const COMPUTE: Duration = Duration::from_millis(2);

/// Waits for a child that sleeps and computes before each byte that it sends; prints how long it did both, by its own clocks, and
/// what the kernel says of the waiting thread: nanoseconds.
pub fn run() {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let before = scheduled();
    let began = Instant::now();
    // SAFETY: the child has one thread, as this process has.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        drop(reader);
        let (mut slept, mut computed) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            std::thread::sleep(SLEEP);
            let middle = Instant::now();
            while middle.elapsed() < COMPUTE {}
            slept += middle - start;
            computed += middle.elapsed();
            writer.write_all(&[0]).expect("a byte");
        }
        for time in [slept, computed] {
            let ns = time.as_nanos() as u64;
            writer.write_all(&ns.to_ne_bytes()).expect("a time");
        }
        process::exit(0);
    }
    drop(writer);
    let mut byte = [0];
    for _ in 0..ROUNDS {
        reader.read_exact(&mut byte).expect("a byte");
    }
    let [slept, computed] = [0; 2].map(|_| {
        let mut ns = [0; 8];
        reader.read_exact(&mut ns).expect("a time");
        u64::from_ne_bytes(ns)
    });
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    let after = scheduled();
    let truth = json!({
        "pid": process::id(),
        "slept_ns": slept,
        "computed_ns": computed,
        "whole_ns": began.elapsed().as_nanos() as u64,
        "cpu_ns": after.0 - before.0,
        "cpu_ns_since_birth": after.0,
        "delayed_ns": after.1 - before.1,
    });
    println!("{truth}");
}

/// How long this thread ran, and how long it was ready to run and had no CPU: nanoseconds, by /proc/thread-self/schedstat.
fn scheduled() -> (u64, u64) {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let mut numbers = text
        .split_whitespace()
        .map(|word| word.parse().expect("a number"));
    (
        numbers.next().expect("run time"),
        numbers.next().expect("delay"),
    )
}
