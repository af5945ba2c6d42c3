//! Waits against what the kernel and the program say: on every kernel, with nothing but the counting program.

use crate::common::{Iotrace, directory, number, workload};

/// How far times may be from each other as a share, and nanoseconds: a busy host stops all CPUs of a virtual machine.
const NEAR_SHARE: f64 = 0.05;
const NEAR_NS: f64 = 10_000_000.0;
/// Share of its time that an emulated CPU spends in interrupts at most.
const INTERRUPTS_SHARE: f64 = 0.03;

#[test]
fn waits_add_up_to_what_the_kernel_says() {
    compare(Iotrace::record());
}

/// As before Linux 5.18, whose tracepoint does not tell it.
#[test]
fn waits_add_up_where_the_state_is_read_from_the_task() {
    compare(Iotrace::record().env("IOTRACE_TEST_OFFSET", "HAS_PREVIOUS_STATE=0"));
}

fn compare(iotrace: Iotrace) {
    let (_keep, dir) = directory();
    let workload = workload();
    let command = [workload.to_str().unwrap(), "waits", dir.to_str().unwrap()];
    let finished = iotrace.args(["--waits"]).command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    assert_eq!(report["notes"]["waits_lost"], 0);
    let waits = report["waits"].as_array().expect("waits");
    let mut of_program = waits.iter().filter(|waiter| waiter["pid"] == truth["pid"]);
    let found = of_program.next().expect("the program's main thread");
    let ns = |value: &serde_json::Value| value.as_f64().expect("seconds") * 1e9;
    let told = |name: &str| number(&truth, name) as f64;
    let (running, waiting) = (ns(&found["running_seconds"]), ns(&found["waiting_seconds"]));
    let leaves = found["leaves"].as_object().expect("leaves");
    let sum: f64 = leaves.values().map(ns).sum();
    assert!(
        (sum - waiting).abs() < 1_000.0,
        "{sum} of {waiting}: {found}"
    );
    let leaf = |name: &str| ns(&leaves[name]);
    // What the child did is what it waited for, but for the time that it ran itself, or was ready to. It loads no data.
    let own = told("cpu_ns") + leaf("run_queue");
    for (told, leaf) in [
        (told("slept_ns"), leaf("sleep")),
        (told("computed_ns"), leaf("other")),
    ] {
        let near = NEAR_NS.max(told * NEAR_SHARE);
        let range = told - own - near..=told + near;
        assert!(range.contains(&leaf), "{leaf} of {told}: {found} {truth}");
    }
    // What it ran since its birth, a part of which was before it was traced. Interrupts are in it, and not in its CPU time.
    let least = told("cpu_ns") - NEAR_NS;
    let interrupts = told("whole_ns") * INTERRUPTS_SHARE;
    let most = told("cpu_ns_since_birth") * (1.0 + NEAR_SHARE) + interrupts + NEAR_NS;
    assert!((least..=most).contains(&running), "{found} {truth}");
    assert!(
        running + waiting >= told("whole_ns") * 0.99,
        "{found} {truth}"
    );
    assert!(
        leaf("run_queue") >= told("delayed_ns") - NEAR_NS,
        "{found} {truth}"
    );
    assert!(leaf("unresolved") < NEAR_NS, "{found}");
}
