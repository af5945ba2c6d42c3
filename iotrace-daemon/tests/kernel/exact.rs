//! What iotrace reports is what was done, to the call and the byte: compared with a program that counts itself.

use crate::common::{
    Iotrace,
    compare::{self, Counts, exact, same},
    directory, number, text,
    truth::{self, Process},
};

#[test]
fn every_call_btf_full() {
    let (_, report) = exact(Iotrace::record().hook("btf"), "every-call", &[]);
    compare::nothing_lost(&report);
    assert_eq!(
        (text(&report, "hook"), text(&report, "detail")),
        ("btf", "full")
    );
}

#[test]
fn every_call_btf_basic() {
    let iotrace = Iotrace::record().hook("btf").args(["--detail", "basic"]);
    let (_, report) = exact(iotrace, "every-call", &[]);
    compare::nothing_lost(&report);
    assert_eq!(
        (text(&report, "hook"), text(&report, "detail")),
        ("btf", "basic")
    );
}

#[test]
fn every_call_tracepoint_full() {
    let (_, report) = exact(Iotrace::record().hook("tracepoint"), "every-call", &[]);
    compare::nothing_lost(&report);
    assert_eq!(
        (text(&report, "hook"), text(&report, "detail")),
        ("tracepoint", "full")
    );
}

#[test]
fn every_call_tracepoint_basic() {
    let iotrace = Iotrace::record()
        .hook("tracepoint")
        .args(["--detail", "basic"]);
    let (_, report) = exact(iotrace, "every-call", &[]);
    compare::nothing_lost(&report);
    assert_eq!(
        (text(&report, "hook"), text(&report, "detail")),
        ("tracepoint", "basic")
    );
}

#[test]
fn requests_of_io_uring() {
    for detail in ["basic", "full"] {
        let iotrace = Iotrace::record().args(["--detail", detail]);
        let (_, report) = exact(iotrace, "uring", &[]);
        compare::nothing_lost(&report);
    }
}

#[test]
fn sixteen_threads_on_one_file() {
    for hook in ["btf", "tracepoint"] {
        let (_, report) = exact(Iotrace::record().hook(hook), "threads-on-one", &[]);
        compare::nothing_lost(&report);
    }
}

#[test]
fn sixteen_threads_on_many_files() {
    let (_, report) = exact(Iotrace::record(), "threads-on-many", &[]);
    compare::nothing_lost(&report);
}

#[test]
fn descriptors_by_dup_fork_socket_and_exec() {
    for hook in ["btf", "tracepoint"] {
        let (truth, report) = exact(Iotrace::record().hook(hook), "descriptors", &[]);
        compare::nothing_lost(&report);
        // A process that a thread of it made another program goes on as the same process.
        for process in truth::processes(&truth) {
            if process.role == "a program executed by a thread" {
                let found = compare::process(&report, process.pid);
                assert_eq!(number(found, "execs"), 1);
                assert_eq!(found["command"][1], "after-exec");
            }
        }
    }
}

#[test]
fn odd_files() {
    let (truth, report) = exact(Iotrace::record(), "odd-files", &[]);
    compare::nothing_lost(&report);
    let processes = truth::processes(&truth);
    let [process] = &processes[..] else {
        panic!("{} processes", processes.len())
    };
    let files = process.files();
    let paths: Vec<&String> = files.keys().collect();
    for path in paths {
        let row = compare::row(&report, process.pid, path);
        let name = path.rsplit('/').next().unwrap_or_default();
        let opened_as = text(row, "opened_as")
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let (deleted, before) = match name {
            "deleted" | "memfd:in memory" => (true, ""),
            "swapped-1" => (false, "swapped-2"),
            "swapped-2" => (false, "swapped-1"),
            "file" => (false, "file"),
            "replaced" => (false, "replacement"),
            _ => (false, ""),
        };
        if name != "memfd:in memory" && name != "written-then-opened" {
            assert_eq!(row["deleted"].as_bool().unwrap_or(false), deleted, "{path}");
            assert_eq!(opened_as, before, "{path}");
        }
    }
}

/// ext4 gives the inode number of a file that was removed to the next one: the generation tells them apart.
#[test]
fn files_that_reuse_an_inode_number_have_rows_of_their_own() {
    const FILES: usize = 2000;
    let (_keep, dir) = directory();
    let dir = dir.to_str().expect("UTF-8");
    let finished = Iotrace::record().workload(["reused-inodes", dir, &FILES.to_string()]);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let processes = truth::processes(&truth);
    let process: &Process<'_> = &processes[0];
    let rows = compare::rows_of(&report, process.pid);
    assert_eq!(rows.len(), FILES);
    let mut numbers: Vec<usize> = Vec::new();
    let mut all = Counts::default();
    for row in rows {
        let name = text(row, "path")
            .strip_prefix(dir)
            .expect("a file of the directory");
        let file: usize = name[1..].parse().expect("a number");
        numbers.push(file);
        let counts = Counts::of(row);
        all.merge(&counts);
        for (counter, done) in [
            ("opens", 1),
            ("writes", 1),
            ("reads", 1),
            ("closes", 1),
            ("unlinks", 1),
            ("bytes_read", file as u64 + 1),
            ("bytes_written", file as u64 + 1),
        ] {
            assert_eq!(counts.get(counter), done, "{counter} of {name}");
        }
        assert_eq!(row["deleted"], true, "{name}");
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..FILES).collect::<Vec<_>>());
    let done = &process.files()["all of them"];
    assert_eq!(done.difference(&all), "");
}

#[test]
fn processes_that_share_a_pid_have_rows_of_their_own() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["same-pid", dir.to_str().expect("UTF-8")]);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let lives = truth::processes(&truth);
    let pid = lives[0].pid;
    assert!(lives.iter().all(|life| life.pid == pid));
    let found = compare::processes_of(&report, pid);
    assert_eq!(found.len(), 3);
    for (life, process) in lives.iter().zip(found) {
        let files = life.files();
        let (path, done) = files.iter().next().expect("a file");
        let row = compare::row(&report, pid, path);
        assert_eq!(done.difference(&Counts::of(row)), "", "{}", life.role);
        assert_eq!(
            done.difference(&Counts::of(&process["totals"])),
            "",
            "{}",
            life.role
        );
        assert_eq!(process["exit_code"], 0);
        assert!(process["start_time"].is_string() && process["end_time"].is_string());
    }
}

#[test]
fn workers_killed_in_mid_run_keep_what_they_did() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["killed", dir.to_str().expect("UTF-8")]);
    let (truth, report) = finished.truth_and_report();
    let lost = compare::skipped(&report);
    for worker in truth::processes(&truth) {
        let process = compare::process(&report, worker.pid);
        assert_eq!(process["exit_code"], 128 + libc::SIGKILL);
        let (begun, counted) = worker.calls();
        if worker.role == "killed at rest" {
            assert_eq!(begun, counted);
        }
        let totals = Counts::of(&process["totals"]);
        let found: u64 = ["opens", "reads", "writes"]
            .iter()
            .map(|name| totals.get(name))
            .sum();
        // A call that was in flight may have ended without the program's knowing.
        assert!(
            (counted.saturating_sub(lost)..=begun).contains(&found),
            "{}: {counted} counted, {begun} begun, {found} reported",
            worker.role
        );
        if begun == counted && lost == 0 {
            same(&worker, &report);
        }
    }
}

#[test]
fn interrupted_calls_stand_under_the_kernels_restart_codes() {
    for hook in ["btf", "tracepoint"] {
        let (_, report) = exact(Iotrace::record().hook(hook), "interrupted", &[]);
        compare::nothing_lost(&report);
        let errors = &report["totals"]["errors_by_operation"]["open"];
        assert_eq!(number(errors, "ERESTARTSYS"), 4, "{errors}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_the_32_bit_interface_are_told_apart() {
    for hook in ["btf", "tracepoint"] {
        let (truth, report) = exact(Iotrace::record().hook(hook), "compat", &[]);
        let losses = report["losses"].as_object().expect("losses");
        let lost: Vec<_> = losses
            .iter()
            .filter(|(_, count)| count.as_u64() != Some(0))
            .collect();
        if hook == "btf" {
            assert_eq!(
                number(&report["losses"], "compat_calls"),
                number(&truth, "compat_calls")
            );
            assert_eq!(lost.len(), 1, "{lost:?}");
        } else {
            // The kernel has no per-syscall tracepoints for 32-bit calls.
            assert!(
                lost.iter().all(|(name, _)| *name == "compat_calls"),
                "{lost:?}"
            );
        }
    }
}
