//! Waits against the program's own clocks: each program says for how long its main thread waited, and what its loader did in that
//! time.

use crate::common::{
    Iotrace, quiet, text,
    waits::{NEAR_SECONDS, NEAR_SHARE, Program, differences, waited},
};
use serde_json::Value;

/// Share of its time that a thread waits for one kind of thing from which on that is said of the run.
const WAITED_SHARE: f64 = 0.1;

/// Compares a program's waits with its own clocks; what the report says of its main thread. `verdict`: of the run.
fn check(program: &str, verdict: &str, is_cached: bool) -> Value {
    check_at(program, verdict, is_cached, "250ms").1
}

/// The same at a flush interval; what the program says, and what the report says of its main thread.
fn check_at(program: &str, verdict: &str, is_cached: bool, flush: &str) -> (Value, Value) {
    let (truth, found, report) =
        quiet::measured(|| waited(Iotrace::record(), program, is_cached, flush));
    let seconds = |value: &Value| value.as_f64().expect("seconds");
    let leaf = |name: &str| seconds(&found["leaves"][name]);
    let whole = seconds(&found["running_seconds"]) + seconds(&found["waiting_seconds"]);
    // Where others use the CPUs, that holds a program up that does not wait else.
    let is_crowded = leaf("run_queue") >= WAITED_SHARE * whole;
    let code = text(&report["verdict"], "code");
    let is_told = code == verdict || is_crowded && code == "waits-for-cpus";
    assert!(
        is_told,
        "{program} {verdict}: {}\n{found:#}",
        report["verdict"]
    );
    let findings = report["findings"].as_array().expect("findings");
    let has = |codes: &[&str]| {
        findings.iter().any(|finding| {
            let also = finding["also"].as_array().into_iter().flatten();
            let mut all = also.chain([&finding["code"]]);
            all.any(|found| codes.iter().any(|code| found == code))
        })
    };
    let of_storage = ["storage-bound", "input-bound", "mapped-input-waits"];
    for (codes, ns) in [
        (&of_storage[..], leaf("storage") + leaf("page_fault")),
        (&["decode-bound", "workers-start-again"], leaf("loader_cpu")),
        (&["too-few-cpus"], leaf("run_queue")),
    ] {
        let is_bound = ns >= WAITED_SHARE * whole;
        assert_eq!(
            has(codes),
            is_bound,
            "{program}: {codes:?} {findings:#?}\n{found:#}"
        );
    }
    let differences = differences(program, &truth, &found);
    assert!(
        differences.is_empty(),
        "{}\n{found:#}\n{truth:#}",
        differences.join("\n")
    );
    (truth, found)
}

/// Of the storage that a thread waited for, that of files by this name.
fn storage_of(found: &Value, name: &str) -> f64 {
    let files = found["files"].as_array().expect("files");
    let of_name = files.iter().filter(|file| {
        file["path"]
            .as_str()
            .is_some_and(|path| path.contains(name))
    });
    of_name
        .map(|file| file["seconds"].as_f64().expect("seconds"))
        .sum()
}

/// The storage that a thread waited for is that of the samples.
#[track_caller]
fn is_of_samples(found: &Value) {
    let storage = leaf(found, "storage");
    let of_samples = storage_of(found, "/train/sample-");
    assert!(of_samples > 0.95 * storage, "{found:#}");
}

#[test]
fn a_thread_that_reads_itself_waits_for_its_files() {
    let found = check("own_reads", "waits-for-storage", false);
    is_of_samples(&found);
}

#[test]
fn the_wait_for_a_worker_is_what_the_worker_did() {
    let found = check("by_pipe", "waits-for-storage", false);
    is_of_samples(&found);
    let first = found["files"].as_array().unwrap().first().unwrap();
    assert_eq!(text(first, "phase"), "training");
}

/// Seconds of a kind of wait.
fn leaf(of: &Value, kind: &str) -> f64 {
    of["leaves"][kind].as_f64().expect("seconds")
}

/// Running and all kinds of waits, seconds.
fn whole(of: &Value) -> f64 {
    let leaves = of["leaves"].as_object().expect("leaves").values();
    let waiting: f64 = leaves.map(|seconds| seconds.as_f64().unwrap()).sum();
    of["running_seconds"].as_f64().expect("seconds") + waiting
}

/// Compares what a thread waited for in each epoch with the program's own clocks; storage in each epoch, at least and at most.
fn epochs(truth: &Value, found: &Value) -> Vec<(f64, f64)> {
    let told = truth["epochs"].as_array().expect("epochs");
    let epochs = found["epochs"].as_array().expect("epochs");
    assert_eq!(epochs.len(), told.len(), "{found:#}");
    let outside = &found["outside_epochs"];
    for kind in found["leaves"].as_object().unwrap().keys() {
        let sum: f64 = epochs.iter().map(|epoch| leaf(epoch, kind)).sum();
        let all = sum + leaf(outside, kind);
        assert!((all - leaf(found, kind)).abs() < 1e-6, "{kind}: {found:#}");
    }
    for (told, found) in told.iter().zip(epochs) {
        let (least, most) = (&found["at_least"], &found["at_most"]);
        let length = found["end"].as_f64().unwrap() - found["start"].as_f64().unwrap();
        assert!((whole(found) - length).abs() < 1e-6, "{found:#}");
        assert!(whole(least) <= length + 1e-6 && length <= whole(most) + 1e-6);
        for kind in ["storage", "loader_cpu"] {
            let told = told[kind].as_f64().unwrap();
            let near = NEAR_SECONDS.max(told * NEAR_SHARE);
            // What the program measures has its time on the run queue in it.
            let queued = leaf(most, "run_queue");
            let range = leaf(least, kind) - near..=leaf(most, kind) + near + queued;
            assert!(range.contains(&told), "{kind} is {told} s: {found:#}");
        }
    }
    let storage = |of: &Value| leaf(of, "storage");
    let bounds = |epoch: &Value| (storage(&epoch["at_least"]), storage(&epoch["at_most"]));
    epochs.iter().map(bounds).collect()
}

#[test]
fn workers_that_start_again_are_told_from_those_that_decode() {
    let [again, decode] = ["workers-start-again", "decode-bound"];
    for (program, found, other) in [
        ("workers_anew", again, decode),
        ("one_worker", decode, again),
    ] {
        let (_, waiter, report) = waited(Iotrace::record(), program, true, "250ms");
        let findings = report["findings"].as_array().expect("findings");
        let codes: Vec<&str> = findings.iter().map(|one| text(one, "code")).collect();
        let is_right = codes.contains(&found) && !codes.contains(&other);
        assert!(is_right, "{program}: {codes:?}\n{waiter:#}");
    }
}

#[test]
fn epochs_differ_in_what_was_waited_for() {
    let (truth, found) = check_at("epochs", "waits-for-loader", true, "250ms");
    let bounds = epochs(&truth, &found);
    let [cold, warm, last] = bounds[..] else {
        panic!("three epochs: {found:#}");
    };
    // How much of an epoch is certain depends on where its edges cut intervals.
    let all = leaf(&found, "storage");
    assert!(cold.1 > 0.9 * all, "{bounds:?} of {all}: {found:#}");
    assert!(
        warm.0 < 0.1 * all && last.0 < 0.1 * all,
        "{bounds:?} of {all}: {found:#}"
    );
    // With intervals as long as an epoch, bounds are wide and right.
    let (truth, found) = check_at("epochs", "waits-for-loader", true, "1s");
    epochs(&truth, &found);
}

#[test]
fn ranks_may_be_started_by_multiprocessing() {
    for program in ["by_spawned_rank", "by_forked_rank", "by_saving_ranks"] {
        let found = check(program, "waits-for-storage", false);
        is_of_samples(&found);
    }
}

#[test]
fn workers_may_send_by_sockets() {
    check("by_socket", "waits-for-storage", false);
    check("by_tcp", "waits-for-storage", false);
}

#[test]
fn loaders_may_be_threads_and_have_loaders() {
    check("by_thread", "waits-for-storage", false);
    check("by_chain", "waits-for-storage", false);
    check("by_tiers", "waits-for-loader", false);
}

#[test]
fn threads_that_load_nothing_are_no_loaders() {
    check("compute_threads", "waits-for-storage", false);
}

#[test]
fn a_wait_may_be_repeated_after_its_timeout() {
    check("by_pipe_with_timeouts", "waits-for-storage", false);
}

#[test]
fn polling_and_timeouts_are_sleep() {
    check("polling", "not-io-bound", false);
    check("timeouts", "not-io-bound", false);
}

#[test]
fn reads_that_nobody_waits_for_are_hidden() {
    check("hidden", "not-io-bound", false);
}

#[test]
fn a_loader_that_computes_holds_up() {
    check("decoding", "waits-for-loader", false);
}

#[test]
fn a_run_is_judged_by_what_trains() {
    for (script, who) in [
        (r#""$@" | cat"#, "the main thread"),
        (r#"sleep 60 & "$@"; kill $!"#, "the main thread"),
        (r#""$@"; "$@"; "$@""#, "3 main threads"),
    ] {
        let (report, truth) = quiet::measured(|| {
            let program = Program::new("decoding", false);
            let script = ["bash", "-c", script, "bash"].map(str::to_owned);
            let command = [&script[..], &program.command].concat();
            let finished = Iotrace::record().flush("250ms").command(command);
            (finished.report(), program.truth())
        });
        let verdict = &report["verdict"];
        assert!(text(verdict, "text").contains(who), "{script}: {verdict}");
        // Where others use the CPUs, it waits for those as well.
        let is_told = ["waits-for-loader", "waits-for-cpus"].contains(&text(verdict, "code"));
        assert!(is_told, "{script}: {verdict}");
        let is_program = report["waits"][0]["pid"] == truth["pid"];
        assert!(is_program || who == "3 main threads", "{script}: {verdict}");
    }
}

#[test]
fn a_thread_without_a_cpu_waits_for_one() {
    check("crowded", "waits-for-cpus", false);
}

#[test]
fn pages_of_mapped_files_are_page_faults() {
    check("mapped", "waits-for-storage", true);
}

#[test]
fn waits_are_kept_unless_they_are_turned_off() {
    let default = Iotrace::record().command(["sleep", "0.1"]);
    assert!(default.report()["waits"].is_array(), "{}", default.stderr);
    let off = Iotrace::record()
        .args(["--waits=off"])
        .command(["sleep", "0.1"]);
    assert_eq!(off.report()["waits"], Value::Null, "{}", off.stderr);
}
