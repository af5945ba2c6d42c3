//! The first screen of runs of different kinds.

use unicode_width::UnicodeWidthStr as _;

use super::{training::*, *};
use crate::diff::Diff;
use iotrace_analysis::findings::Finding;
use iotrace_model::{
    counters::*,
    input::{Event, Place},
    run::{CallInFlight, Target},
    waits::{Leaf, Waited},
};

/// The first screen at a width, checked for what holds of each.
fn screen(model: &Model, run: &Run, width: usize) -> String {
    let text = written(model, run, &Extent::Summary, Layout::plain(width));
    println!("{text}");
    // Two lines are left for where the recording is.
    assert!(text.lines().count() <= 22, "{text}");
    for line in text.lines() {
        assert!(line.width() <= width, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    text
}

/// What holds of it must be there, and nothing else.
fn says(text: &str, wanted: &[&str], unwanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "no {word:?} in\n{text}");
    }
    for word in unwanted {
        assert!(!text.contains(word), "{word:?} in\n{text}");
    }
}

/// One process that was in reads of a file for so long, from the start of the run.
fn reading(path: &[u8], ns: u64) -> Model {
    let mut model = Model::with_history();
    reads(&mut model, 1, (1, path), ns);
    settled(model)
}

const TRAINING: &[u8] = b"/data/train/a.bin";
/// The start of the run by the monotonic clock, nanoseconds.
const SECOND_OF_START: u64 = 780_000_000_000;

#[test]
fn the_verdict_of_waits_fits_the_screen() {
    for (leaf, verdict) in [
        (
            Leaf::Storage,
            "I/O-BOUND: the main thread waited 90 % (11.2 s) for storage",
        ),
        (
            Leaf::PageFault,
            "I/O-BOUND: the main thread waited 90 % (11.2 s) for storage",
        ),
        (
            Leaf::Computing,
            "LOADER-BOUND: the main thread waited 90 % (11.2 s) for the loader's computing",
        ),
        (
            Leaf::Sleep,
            "NOT I/O-BOUND: the main thread did not wait for storage",
        ),
    ] {
        let mut model = training();
        let process = process(1);
        for (leaf, ns) in [(leaf, 11_160_000_000), (Leaf::Running, 1_240_000_000)] {
            model.add_waited(&Waited {
                process,
                leaf,
                by: (leaf == Leaf::Computing).then_some(process),
                file: None,
                phase: 0,
                ns,
            });
        }
        let text = screen(&model, &run(), 80);
        says(&text, &[verdict], &[]);
    }
}

#[test]
fn a_main_thread_that_runs_in_calls_on_files_is_not_called_unbound() {
    let verdict = |in_calls: u64, path: &[u8]| {
        let mut model = reading(path, 7_000_000_000);
        for (leaf, ns) in [
            (Leaf::Running, 12_000_000_000),
            (Leaf::OfThatInCalls, in_calls),
        ] {
            model.add_waited(&Waited {
                process: process(1),
                leaf,
                by: None,
                file: None,
                phase: 0,
                ns,
            });
        }
        screen(&model, &run(), 80)
    };
    let much = verdict(7_000_000_000, TRAINING);
    let taken = [
        "LIKELY I/O-BOUND: file I/O took 56 %",
        "ran 100 % (58 % in calls)",
    ];
    says(&much, &taken, &["NOT "]);
    let other = verdict(7_000_000_000, b"/opt/thing");
    let unclear = "NOT CLEAR: the main thread ran 58 % in calls on files, waited 0 % for storage";
    says(&other, &[unclear], &["NOT I/O-BOUND"]);
    // Another thread was in these calls.
    let little = verdict(500_000_000, TRAINING);
    says(
        &little,
        &["NOT I/O-BOUND: the main thread did not wait"],
        &["LIKELY"],
    );
}

#[test]
fn every_width_has_one_screen() {
    for width in [80, 100, 200] {
        let text = screen(&training(), &run(), width);
        says(
            &text,
            &[
                "python3 examples/train.py",
                "exit 0",
                "training reads",
                "Nothing lost",
            ],
            &["LOST", "job 4711"],
        );
    }
}

#[test]
fn little_io_is_no_bound_and_much_is_not_called_none() {
    let little = screen(&reading(TRAINING, 620_000_000), &run(), 80);
    says(
        &little,
        &["NOT I/O-BOUND: file I/O took at most 5 % of the run"],
        &["NOT CLEAR"],
    );
    let more = screen(&reading(b"/opt/thing", 3_720_000_000), &run(), 80);
    says(
        &more,
        &["NOT CLEAR: file I/O took 30 % of the run"],
        &["NOT I/O-BOUND"],
    );
    // What was lost may have been all of it.
    let mut lossy = run();
    lossy.losses.insert("lost_operations".into(), 5_000);
    let text = screen(&reading(TRAINING, 620_000_000), &lossy, 80);
    says(
        &text,
        &["NOT CLEAR", "5,000 operations or records LOST"],
        &["NOT I/O-BOUND", "Nothing lost"],
    );
}

#[test]
fn bytes_of_no_known_file_are_said() {
    let with_overflow = |bytes| {
        let mut model = Model::with_history();
        reads(&mut model, 1, (1, TRAINING), 1_000_000);
        let mut counters = Counters::ZERO;
        (counters.v[READS], counters.v[BYTES_READ]) = (1, bytes);
        let process = model.processes()[0].id;
        model.add(process, Place::Overflow, &counters);
        screen(&settled(model), &run(), 80)
    };
    let words = "read and written belong to no known file: --section losses";
    says(&with_overflow(1 << 30), &[" 1.00 GiB ", words], &[]);
    says(&with_overflow(1), &[], &[words]);
}

#[test]
fn a_run_in_reads_is_likely_bound_by_them() {
    let text = screen(&reading(TRAINING, 11_500_000_000), &run(), 80);
    says(
        &text,
        &[
            "LIKELY I/O-BOUND: file I/O took 93 % of the run",
            "To change",
            "11.5 s, 93 %",
        ],
        &["NOT"],
    );
    let report = as_json(&reading(TRAINING, 11_500_000_000), &run());
    assert_eq!(report["verdict"]["code"], "likely-io-bound");
    assert_eq!(report["verdict"]["finding"], "input-bound");
    let share = report["verdict"]["share_of_run_at_most"].as_f64().unwrap();
    assert!((share - 11.5 / 12.4).abs() < 1e-6, "{share}");
}

#[test]
fn nothing_recorded_is_said_and_nothing_is_advised() {
    let text = screen(&Model::with_history(), &run(), 80);
    says(
        &text,
        &[
            "NOTHING RECORDED: no traced process used a file\n Find out which process",
            "--pid PID",
            "Nothing lost",
        ],
        &["Nothing to change", "To change", "0 %", "Nothing was"],
    );
    let attached = Run {
        target: Target::Pids(vec![7]),
        ..run()
    };
    let text = screen(&Model::with_history(), &attached, 80);
    says(
        &text,
        &["\n So it waited for none in this time. Record for longer"],
        &["docker", "Nothing was"],
    );
    // One file is something.
    let text = screen(&reading(b"/opt/thing", 1_000), &run(), 80);
    says(&text, &["NOT I/O-BOUND"], &["NOTHING", "--pid PID"]);
}

#[test]
fn hung_calls_come_first() {
    let mut run = run();
    run.in_flight.push(CallInFlight {
        pid: 1,
        tid: 1,
        operation: "read".into(),
        path: Some("/data/train/a.bin".into()),
        mount_point: Some("/data".into()),
        fs_type: Some("nfs4".into()),
        phase: 0,
        began_before: false,
        start_unix_ns: run.start_unix_ns,
        ns: 12_000_000_000,
    });
    let text = screen(&reading(TRAINING, 620_000_000), &run, 80);
    says(
        &text,
        &[
            "CALLS HANG: 1 call has not returned, the longest for 12.0 s",
            " 12.0 s                   in read, not returned  /data/train/a.bin",
            "100 %   107 KiB                   1  /data/train",
        ],
        &["NOT I/O-BOUND"],
    );
    // One that is young, or of a file that is not known, is in no place.
    run.in_flight[0].ns = 100_000_000;
    let text = screen(&reading(TRAINING, 620_000_000), &run, 80);
    says(&text, &["1 call had not returned"], &["not returned  /"]);
}

/// A process that runs `args` and was forked by `parent`, from the start of the run to `end` seconds after it.
fn runs(model: &mut Model, pid: u32, parent: u32, args: &[&str], end: u64) {
    model.event(Event::Exec {
        process: process(pid),
        start_boottime: SECOND_OF_START + u64::from(pid),
        parent,
        rights: iotrace_common::rights::Rights::of_user(0),
        comm: name_of(args[0]).into(),
        args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
    });
    model.event(Event::Exit {
        process: process(pid),
        time: SECOND_OF_START + end * 1_000_000_000,
        status: 0,
    });
}

fn name_of(path: &str) -> &[u8] {
    iotrace_model::paths::name(path.as_bytes())
}

/// Reads of a file by a process for so long, from the start of the run.
fn reads(model: &mut Model, pid: u32, (inode, path): (u64, &[u8]), ns: u64) {
    model.event(name(inode, path, 0o100_644));
    let mut counters = counted(&[
        (OPENS, 1),
        (READS, 2),
        (BYTES_READ, 110_000),
        (READ_NS, ns),
        (UNION_READ_NS, ns),
    ]);
    for (index, at) in [
        (FIRST_OPERATION, 0),
        (LAST_OPERATION, ns),
        (FIRST_READ, 0),
        (LAST_READ, ns),
    ] {
        counters.v[index] = SECOND_OF_START + at;
    }
    model.add(process(pid), place(inode), &counters);
}

/// Maps a file of 110,000 bytes, and reads `read` bytes of it by a call.
fn maps(model: &mut Model, pid: u32, (inode, path): (u64, &[u8]), read: u64) {
    model.event(name(inode, path, 0o100_644));
    let mut counters = counted(&[
        (OPENS, 1),
        (CLOSES, 1),
        (MMAPS, 1),
        (READS, read.min(1)),
        (BYTES_READ, read),
        (MAPPED_BYTES, 4096),
        (READ_NS, 1_000),
        (UNION_READ_NS, 1_000),
    ]);
    for index in [FIRST_OPERATION, LAST_OPERATION] {
        counters.v[index] = SECOND_OF_START + inode;
    }
    model.add(process(pid), place(inode), &counters);
}

#[test]
fn mapped_files_are_told_by_their_size() {
    let mut model = Model::with_history();
    reads(&mut model, 1, (1, b"/data/train/state.json"), 1_000);
    for (inode, path) in [(2, "a"), (3, "b")] {
        let path = format!("/data/train/{path}.arrow");
        maps(&mut model, 1, (inode, path.as_bytes()), 0);
    }
    let weights = b"/models/llama/model.safetensors";
    maps(&mut model, 1, (4, weights), 8);
    let model = settled(model);
    let text = screen(&model, &run(), 100);
    says(
        &text,
        &[
            "107 KiB read, 215 KiB mapped",
            "Epochs: not known; data: 107 KiB in 1 file, 215 KiB in 2 mapped files",
            "107 KiB mapped, 1 load",
        ],
        &["at least"],
    );
    let report = as_json(&model, &run());
    let load = &report["restores"][0];
    assert_eq!(
        [&load["bytes_read"], &load["mapped_file_bytes"]],
        [8, 110_000]
    );
    assert!(load["bandwidth_bytes_per_second"].is_null() && load["exact"] == false);
    assert_eq!(report["training_data"]["mapped_files"], 2);
    // A file that was read as a whole, too.
    let mut model = Model::with_history();
    maps(&mut model, 1, (4, weights), 110_000);
    let model = settled(model);
    says(&screen(&model, &run(), 100), &["107 KiB read, 1 load"], &[]);
    assert_eq!(as_json(&model, &run())["restores"][0]["exact"], true);
}

/// One pass over the data in each 2 s, for so long.
fn passes(ns: u64) -> Model {
    const EPOCH_INTERVAL_NS: u64 = 2_000_000_000;
    let mut model = Model::with_history();
    model.event(name(1, name_of("/data/train/a.bin"), 0o100_644));
    for pass in 0..5 {
        let mut counters = counted(&[(OPENS, 1), (READS, 2), (BYTES_READ, 110_000), (READ_NS, ns)]);
        let start = SECOND_OF_START + pass * EPOCH_INTERVAL_NS;
        for (index, at) in [
            (FIRST_OPERATION, start),
            (LAST_OPERATION, start + ns),
            (FIRST_READ, start),
            (LAST_READ, start + ns),
        ] {
            counters.v[index] = at;
        }
        model.add(process(1), place(1), &counters);
        let start = run().start_unix_ns + (pass * EPOCH_INTERVAL_NS) as i64;
        model.settle(iotrace_model::history::Bounds {
            start,
            end: start + EPOCH_INTERVAL_NS as i64,
        });
    }
    model
}

#[test]
fn a_pass_at_once_is_not_an_epochs_length() {
    let at_once = screen(&passes(30_000_000), &run(), 80);
    says(
        &at_once,
        &["Epochs: 5 of", "each read in 30.0 ms, one every 2.00 s"],
        &["30.0 ms each"],
    );
    let all_the_time = screen(&passes(1_500_000_000), &run(), 80);
    says(
        &all_the_time,
        &["Epochs: 5 of", "1.50 s each"],
        &["one every"],
    );
}

fn settled(mut model: Model) -> Model {
    let run = run();
    model.settle(iotrace_model::history::Bounds {
        start: run.start_unix_ns,
        end: run.start_unix_ns + run.duration_ns as i64,
    });
    model
}

/// One that trains from files with a worker, and one that computes.
fn two_programs() -> Model {
    let mut model = Model::with_history();
    let python = "/opt/a/very/long/path/to/an/environment/bin/python3.12";
    runs(
        &mut model,
        10,
        1,
        &[python, "-u", "/home/me/train.py", "--lr", "3"],
        10,
    );
    runs(&mut model, 20, 1, &[python, "-m", "solver"], 12);
    model.event(Event::Fork {
        parent: process(10),
        child: process(11),
        child_start_boottime: SECOND_OF_START + 11,
        rights: iotrace_common::rights::Rights::of_user(0),
        comm: b"python3.12".to_vec(),
    });
    reads(&mut model, 10, (1, TRAINING), 6_000_000_000);
    reads(&mut model, 11, (2, b"/data/train/b.bin"), 1_000_000_000);
    reads(&mut model, 20, (3, b"/opt/input"), 60_000_000);
    model
}

fn of_machine() -> Run {
    Run {
        target: Target::All(true),
        exit_code: None,
        ..run()
    }
}

#[test]
fn each_program_of_a_machine_is_judged_by_itself() {
    let (model, run) = (settled(two_programs()), of_machine());
    let text = screen(&model, &run, 80);
    says(
        &text,
        &[
            "each program by itself",
            " LIKELY I/O-BOUND     60 %   10.0 s     2  training reads    python train.py",
            " NOT I/O-BOUND         1 %   12.0 s     1  other files       python -m solver",
        ],
        &["everything else", "To change", "of the run"],
    );
    let report = as_json(&model, &run);
    let programs = report["programs"].as_array().unwrap();
    let of = |key: &str| -> Vec<&Value> { programs.iter().map(|one| &one[key]).collect() };
    assert_eq!(of("name"), ["python train.py", "python -m solver"]);
    assert_eq!(of("verdict"), ["likely-io-bound", "not-io-bound"]);
    assert_eq!(of("processes"), [2, 1]);
    assert_eq!(of("pid"), [10, 20]);
    for share in of("share_of_lifetime_at_least")
        .into_iter()
        .zip([0.6, 0.005])
    {
        let (share, expected) = (share.0.as_f64().unwrap(), share.1);
        assert!((share - expected).abs() < 1e-6, "{share}");
    }
    assert_eq!(as_json(&model, &super::run()).get("programs"), None);
}

#[test]
fn waits_judge_each_program_of_a_machine() {
    let mut model = two_programs();
    for (pid, leaf, ns) in [
        (10, Leaf::Storage, 500_000_000),
        (10, Leaf::Running, 9_000_000_000),
        (20, Leaf::RunQueue, 8_000_000_000),
        (20, Leaf::Running, 4_000_000_000),
    ] {
        model.add_waited(&Waited {
            process: process(pid),
            leaf,
            by: None,
            file: None,
            phase: 0,
            ns,
        });
    }
    let text = screen(&settled(model), &of_machine(), 80);
    // It read ahead while it computed.
    says(
        &text,
        &[
            " NOT I/O-BOUND         5 %   10.0 s     2  training reads    python train.py",
            " TOO FEW CPUS          0 %   12.0 s     1  a CPU             python -m solver",
        ],
        &["To change", "The main thread"],
    );
}

#[test]
fn processes_of_a_job_are_one_row() {
    let mut model = Model::with_history();
    for pid in [10, 20] {
        runs(&mut model, pid, 1, &["python", "train.py"], 10);
        model.event(Event::Environment {
            process: process(pid),
            variables: format!("SLURM_JOB_ID=4711\0SLURM_PROCID={}\0", pid / 10 - 1)
                .into_bytes()
                .into(),
        });
        reads(&mut model, pid, (pid.into(), b"/opt/thing"), 3_000_000_000);
    }
    runs(&mut model, 30, 1, &["python", "train.py"], 10);
    reads(&mut model, 30, (30, b"/opt/thing"), 3_000_000_000);
    let text = screen(&settled(model), &of_machine(), 80);
    says(
        &text,
        &[
            " NOT CLEAR            30 %   10.0 s     2  other files       slurm:4711 train.py",
            " NOT CLEAR            30 %   10.0 s     1  other files       python train.py",
            "iotrace record --pid PID",
        ],
        &[],
    );
}

#[test]
fn a_script_that_finds_a_program_is_the_program() {
    let shim = |last: &[&str]| {
        let mut model = Model::with_history();
        runs(
            &mut model,
            10,
            1,
            &["bash", "/root/.pyenv/shims/python", "train.py"],
            12,
        );
        runs(
            &mut model,
            11,
            10,
            &["bash", "/root/.pyenv/libexec/pyenv-which"],
            1,
        );
        runs(&mut model, 12, 11, &["sed", "s/a/b/"], 1);
        for (pid, inode) in [(10, 1), (11, 2), (12, 3)] {
            reads(&mut model, pid, (inode, b"/root/.pyenv/version"), 1_000_000);
        }
        for (pid, program) in (13..).zip(last) {
            let python = "/root/.pyenv/versions/3.12/bin/python";
            runs(&mut model, pid, 10, &[python, program, "-v"], 12);
            reads(&mut model, pid, (u64::from(pid), TRAINING), 1_000_000_000);
        }
        settled(model)
    };
    let typed = |words: &[&str]| Run {
        target: Target::Command(words.iter().map(|word| (*word).to_owned()).collect()),
        ..run()
    };
    let wrapped = typed(&["bash", "/root/.pyenv/shims/python", "train.py"]);
    let text = screen(&shim(&["train.py"]), &wrapped, 80);
    says(
        &text,
        &["python train.py -v  ", "  1 process  "],
        &["bash", "shims"],
    );
    let sections = Extent::Sections(vec!["processes".into()]);
    let sections = written(&shim(&["train.py"]), &wrapped, &sections, Layout::plain(80));
    says(&sections, &["others", "3 more processes"], &["pyenv-which"]);
    // Counters stay with the process that has them.
    assert_eq!(
        as_json(&shim(&["train.py"]), &wrapped)["processes"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    // A script that runs several programs is one of its own, and what somebody typed stays.
    let many = screen(
        &shim(&["a.py", "b.py", "c.py"]),
        &typed(&["bash", "run.sh"]),
        80,
    );
    says(&many, &["bash run.sh  ", "  4 processes  "], &[]);
    let code = screen(&shim(&["train.py"]), &typed(&["sh", "-c", "train"]), 80);
    says(&code, &["sh -c train  "], &[]);
}

#[test]
fn a_tree_of_files_is_one_line() {
    let mut model = Model::with_history();
    for inode in 0..100_000_u64 {
        let path = format!("/data/train/n{:04}/{inode}.jpg", inode % 1_000);
        model.event(name(inode + 1, path.as_bytes(), 0o100_644));
        let counters = counted(&[
            (OPENS, 1),
            (READS, 1),
            (BYTES_READ, 7_000),
            (READ_NS, 1_000),
        ]);
        model.add(process(1), place(inode + 1), &counters);
    }
    for directory in 0..1_000_u64 {
        let path = format!("/data/train/n{directory:04}");
        model.event(name(200_000 + directory, path.as_bytes(), 0o040_755));
        let counters = counted(&[(GETDENTS, 2), (META_NS, 50_000)]);
        model.add(process(1), place(200_000 + directory), &counters);
    }
    let text = screen(&model, &run(), 80);
    says(
        &text,
        &[" 150 ms     100 %", "100,000  /data/train\n"],
        &["n0000"],
    );
    let full = written(&model, &run(), &Extent::Full, Layout::plain(80));
    let (_, directories) = full.split_once("Directories by time").unwrap();
    let (directories, _) = directories.split_once("\n\n").unwrap();
    says(directories, &["202,000  100,000  /data/train"], &["n0000"]);
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let mut run = run();
    run.target = Target::Command(vec!["\x1b[31mx".into(), "\n".repeat(300)]);
    run.host = "h\x1b]0;t\x07".into();
    screen(&training(), &run, 80);
}

#[test]
fn a_finding_that_another_one_explains_is_neither_gone_nor_new() {
    let (model, run) = (reading(TRAINING, 11_500_000_000), run());
    let with_findings = |findings: &[(&'static str, &[&'static str])]| {
        let mut report = Report::new(&model, &run);
        let one = report.analysis.findings[0].clone();
        let findings = findings.iter().map(|(code, also)| Finding {
            code,
            also: also.to_vec(),
            ..one.clone()
        });
        report.analysis.findings = findings.collect();
        report
    };
    let before = with_findings(&[("tiny-reads", &["input-bound"]), ("decode-bound", &[])]);
    let after = with_findings(&[("input-bound", &[]), ("slow-file", &[])]);
    let diff = Diff::new(&before, &after);
    // Of neither run it is known what threads waited for, so nor is it whether `decode-bound` is gone.
    let gone: Vec<_> = diff.gone().map(|one| one.code).collect();
    assert_eq!(gone, ["tiny-reads"]);
    let new: Vec<_> = diff.new_ones().map(|one| one.code).collect();
    assert_eq!(new, ["slow-file"]);
    let kept: Vec<_> = diff.kept().map(|(was, is)| (was.code, is.code)).collect();
    assert_eq!(kept, [("tiny-reads", "input-bound")]);
}
