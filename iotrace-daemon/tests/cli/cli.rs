//! `iotrace record` as its users meet it: what it runs, how it ends, what it exits with.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use crate::common::{
    self, Iotrace,
    compare::{self, Counts, same},
    directory, number,
    run::{take_interrupts, wait_for},
    text, truth,
};
use serde_json::Value;

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// A command that runs until it is ended; ended with the test.
struct Target(Child);

impl Target {
    fn new(script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", script])
            .process_group(0)
            .spawn();
        Self(child.expect("sh"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_none()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: its own process group, whose leader was not waited for, or the signal finds none.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

#[test]
fn the_exit_code_of_the_program_is_passed_on() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let finished = Iotrace::record().command(sh(script));
        assert_eq!(finished.code(), code, "{script}: {}", finished.stderr);
        let report = finished.report();
        assert_eq!(report["exit_code"], code);
        assert_eq!(report["processes"][0]["exit_code"], code);
        assert_eq!(report["command"][2], script);
    }
}

#[test]
fn a_program_that_cannot_run_is_named() {
    let (_keep, dir) = directory();
    let plain = dir.join("plain");
    fs::write(&plain, "no program").unwrap();
    let missing = dir.join("missing");
    let cases: [(&Path, i32); 4] = [
        (Path::new("no-such-program-anywhere"), 127),
        (&missing, 127),
        (&plain, 126),
        (&dir, 126),
    ];
    for (command, code) in cases {
        let finished = Iotrace::record().command([command]);
        finished.refused(code, &["cannot run", command.to_str().unwrap()]);
        assert!(
            !finished.recording.exists(),
            "a recording of nothing is left"
        );
    }
}

#[test]
fn a_program_without_its_interpreter_is_named() {
    let (_keep, dir) = directory();
    let script = dir.join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let finished = Iotrace::record().command([&script]);
    let words = ["cannot run", "script", "install the interpreter"];
    finished.refused(127, &words);
}

#[test]
fn the_program_keeps_its_streams_and_directory() {
    let (_keep, dir) = directory();
    fs::write(dir.join("here"), "text").unwrap();
    let finished = Iotrace::record()
        .current_dir(&dir)
        .command(sh("cat here; echo on stderr >&2; cat"));
    assert_eq!(finished.code(), 0);
    assert!(finished.stdout.starts_with("text{"), "{}", finished.stdout);
    finished.says(&["on stderr"]);
}

#[test]
fn duration_ends_a_program() {
    let started = Instant::now();
    let finished = Iotrace::record()
        .args(["--duration", "1s"])
        .command(sh("sleep 100 & echo $!; wait"));
    assert_eq!(finished.code(), 124, "{}", finished.stderr);
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    let (background, report) = finished.truth_and_report();
    assert_eq!(report["exit_code"], 124);
    let duration = report["duration_seconds"].as_f64().unwrap();
    assert!((1.0..5.0).contains(&duration), "{duration}");
    // Its children ended with it.
    let state = fs::read_to_string(format!("/proc/{background}/stat"));
    assert!(
        state.is_err() || state.unwrap().contains(") Z "),
        "process {background} goes on"
    );
}

#[test]
fn duration_ends_a_program_that_will_not_end() {
    let started = Instant::now();
    let finished = Iotrace::record()
        .args(["--duration", "500ms"])
        .command(sh("trap '' TERM; while :; do sleep 1; done"));
    assert_eq!(finished.code(), 124, "{}", finished.stderr);
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(finished.report()["exit_code"], 124);
}

#[test]
fn a_program_that_ends_before_its_time_has_its_own_exit_code() {
    let finished = Iotrace::record()
        .args(["--duration", "100s"])
        .command(sh("exit 3"));
    assert_eq!(finished.code(), 3);
}

#[test]
fn duration_leaves_a_process_that_was_there_before() {
    let mut target = Target::new("exec sleep 100");
    let finished = Iotrace::record()
        .args(["--duration", "1s", "--pid", &target.pid()])
        .run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    assert_eq!(report["pids"][0].to_string(), target.pid());
    assert_eq!(report["exit_code"], Value::Null);
    assert!(target.runs());
}

#[test]
fn an_interrupt_reaches_the_program_and_the_report_comes() {
    // To iotrace alone, and to its group, as a shell without job control does it.
    for group in [false, true] {
        let mut iotrace = Iotrace::record().own_group().flush("100ms").start_command([
            "sh",
            "-c",
            "trap 'exit 9' INT; while :; do sleep 0.1; done",
        ]);
        iotrace.until_recording();
        let pid = iotrace.child.id() as i32;
        // SAFETY: a child that was not waited for, in a group of its own.
        unsafe { libc::kill(if group { -pid } else { pid }, libc::SIGINT) };
        let finished = iotrace.wait();
        assert_eq!(finished.code(), 9, "{}", finished.stderr);
        assert_eq!(finished.report()["exit_code"], 9);
    }
}

#[test]
fn an_interrupt_before_tracing_begins_is_told() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let (_keep, dir) = directory();
        // It waits for a writer, so that the signal never comes too late.
        let (_other, other) = directory();
        let types = other.join("types");
        let made = Command::new("mkfifo").arg(&types).status().unwrap();
        assert!(made.success());
        let mut iotrace = Command::new(env!("CARGO_BIN_EXE_iotrace"));
        iotrace.args(["record", "-o", "recording", "--btf"]);
        iotrace.arg(&types).args(["--", "touch", "ran"]);
        iotrace.current_dir(&dir).stderr(Stdio::piped());
        take_interrupts(&mut iotrace);
        let child = iotrace.spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        let is_caught = || {
            let status = fs::read_to_string(&status).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(line.unwrap_or_default().trim(), 16).unwrap_or(0);
            caught >> (signal - 1) & 1 == 1
        };
        while !is_caught() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        let out = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(128 + signal), "{errors}");
        assert!(errors.contains("before tracing began"), "{errors}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }
}

#[test]
fn a_start_that_is_stopped_and_continued_loads_what_it_would() {
    // The kernel gives up verifying a program when a signal comes.
    let iotrace = Iotrace::record().start_command(["true"]);
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(20));
        iotrace.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(2));
        iotrace.signal(libc::SIGCONT);
    }
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    for message in ["falling back", "cannot be loaded"] {
        let is_said = finished.stderr.contains(message);
        assert!(!is_said, "{}", finished.stderr);
    }
}

#[test]
fn other_signals_end_like_an_interrupt() {
    for signal in [libc::SIGTERM, libc::SIGHUP] {
        let mut iotrace = Iotrace::record()
            .flush("100ms")
            .start_command(["sleep", "100"]);
        iotrace.until_recording();
        iotrace.signal(signal);
        let finished = iotrace.wait();
        assert_eq!(finished.code(), 128 + signal);
        assert_eq!(finished.report()["exit_code"], 128 + signal);
    }
}

#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let (_keep, dir) = directory();
    let go = dir.join("go");
    let script = format!("until test -e {}; do sleep 0.1; done", go.display());
    let mut iotrace = Iotrace::record()
        .flush("100ms")
        .ignoring_hangups()
        .start_command(sh(&script));
    iotrace.until_recording();
    iotrace.signal(libc::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    fs::write(&go, "").unwrap();
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished.report();
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let (_keep, dir) = directory();
    let file = dir.join("pid");
    let script = format!(
        "trap '' INT; exec >{} 2>&1; echo $$; while :; do sleep 1; done",
        file.display()
    );
    let started = Instant::now();
    let mut iotrace = Iotrace::record().flush("100ms").start_command(sh(&script));
    iotrace.until_recording();
    let shell: i32 = wait_for_text(&file).parse().unwrap();
    let recorded = started.elapsed().as_secs_f64();
    iotrace.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    iotrace.signal(libc::SIGINT);
    let finished = iotrace.wait();
    // SAFETY: the program's own process group; it may have ended.
    unsafe { libc::kill(-shell, libc::SIGKILL) };
    // Without the second one the program has five seconds.
    let report = finished.report();
    let seconds = report["duration_seconds"].as_f64().unwrap();
    assert!(seconds < recorded + 4.0, "{seconds} after {recorded}");
}

#[test]
fn an_interrupt_ends_the_trace_of_a_process_and_leaves_the_process() {
    let mut target = Target::new("while :; do cat /etc/hostname >/dev/null; done");
    let mut iotrace = Iotrace::record()
        .flush("100ms")
        .args(["--pid", &target.pid()])
        .start();
    iotrace.until_recording();
    std::thread::sleep(Duration::from_millis(300));
    iotrace.signal(libc::SIGINT);
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    assert!(
        number(&report["totals"], "reads") > 0,
        "{}",
        report["totals"]
    );
    assert!(target.runs());
}

/// Time from the end of a program to that of iotrace.
fn end_takes(hook: &str) -> Duration {
    let finished = Iotrace::record().hook(hook).command(sh("date +%s%N"));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    assert_eq!(finished.code(), 0);
    let ended: u64 = finished.stdout.lines().next().unwrap().parse().unwrap();
    Duration::from_nanos(now - ended)
}

#[test]
fn the_end_is_instant_with_either_hook() {
    // Taking a hundred tracepoints off takes the kernel eight seconds, each time; a busy machine is slow now and then.
    let is_instant = |hook| (0..6).any(|_| end_takes(hook) < Duration::from_secs(6));
    for hook in ["btf", "tracepoint"] {
        assert!(is_instant(hook), "{hook}");
    }
}

/// The counting program, with workers that wait for the word to begin.
struct Attached {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    pids: Vec<String>,
}

impl Attached {
    fn new(dir: &Path, workers: usize) -> Self {
        let mut child = Command::new(common::workload())
            .args([Path::new("attached"), dir, Path::new(&workers.to_string())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the counting program");
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let pids = line
            .strip_prefix("ready ")
            .expect("ready")
            .split_whitespace()
            .map(Into::into);
        Self {
            pids: pids.collect(),
            child,
            output,
        }
    }

    /// Lets the workers go; what they counted.
    fn go(mut self) -> Value {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(wait_for(&mut self.child, Duration::from_secs(60)).success());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

#[test]
fn processes_that_run_already_are_traced_with_what_they_have_open() {
    for hook in ["btf", "tracepoint"] {
        let (_keep, dir) = directory();
        let attached = Attached::new(&dir, 3);
        let mut args = Vec::new();
        attached
            .pids
            .iter()
            .for_each(|pid| args.extend(["--pid", pid]));
        let mut iotrace = Iotrace::record()
            .hook(hook)
            .flush("100ms")
            .args(args)
            .start();
        iotrace.until_recording();
        let truth = attached.go();
        // It ends when all of them have.
        let finished = iotrace.wait();
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let processes = truth::processes(&truth);
        assert_eq!(processes.len(), 6);
        processes.iter().for_each(|process| same(process, &report));
        assert_eq!(compare::list(&report, "processes").len(), 6);
        for process in processes
            .iter()
            .filter(|process| process.role == "attached")
        {
            let found = compare::process(&report, process.pid);
            assert!(text(found, "exe").ends_with("/workload"), "{found}");
            assert_eq!(found["exit_code"], 0);
            assert!(found["uid"] == 0 && number(found, "ppid") != 0, "{found}");
        }
    }
}

#[test]
fn without_following_only_the_process_itself_is_traced() {
    let (_keep, dir) = directory();
    let attached = Attached::new(&dir, 1);
    let mut iotrace = Iotrace::record()
        .flush("100ms")
        .args(["--no-follow", "--pid", &attached.pids[0]])
        .start();
    iotrace.until_recording();
    let truth = attached.go();
    let report = iotrace.wait().report();
    assert_eq!(compare::list(&report, "processes").len(), 1);
    let processes = truth::processes(&truth);
    let traced = processes.iter().find(|process| process.role == "attached");
    same(traced.expect("the process"), &report);
}

#[test]
fn descendants_that_were_there_before_are_traced() {
    let (_keep, dir) = directory();
    let attached = Attached::new(&dir, 2);
    // The parent of the workers alone is named.
    let parent = attached.child.id().to_string();
    let mut iotrace = Iotrace::record()
        .flush("100ms")
        .args(["--pid", &parent])
        .start();
    iotrace.until_recording();
    let truth = attached.go();
    let report = iotrace.wait().report();
    let processes = truth::processes(&truth);
    assert_eq!(processes.len(), 4);
    processes.iter().for_each(|process| same(process, &report));
    assert_eq!(compare::list(&report, "processes").len(), 5);
}

#[test]
fn a_target_that_is_dead_but_not_waited_for_ends_the_trace() {
    // The inner sleep's parent becomes a program that never waits.
    let (_keep, dir) = directory();
    let file = dir.join("pid");
    let script = format!("sleep 2 & echo $! > {}; exec sleep 60", file.display());
    let _target = Target::new(&script);
    let pid = wait_for_text(&file);
    let started = Instant::now();
    let finished = Iotrace::record()
        .args(["--pid", &pid, "--duration", "30s"])
        .run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "it went on for {:?}",
        started.elapsed()
    );
}

fn wait_for_text(file: &PathBuf) -> String {
    let started = Instant::now();
    loop {
        match fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(
                started.elapsed() < Duration::from_secs(30),
                "{}",
                file.display()
            ),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_whole_system_is_traced_and_iotrace_itself_is_not() {
    let (_keep, dir) = directory();
    let mut iotrace = Iotrace::bare()
        .args(["--all"])
        .flush("100ms")
        .own_group()
        .start();
    iotrace.until_recording();
    let out = Command::new(common::workload())
        .arg("threads-on-many")
        .arg(&dir)
        .output()
        .unwrap();
    assert!(out.status.success());
    let own = u64::from(iotrace.child.id());
    iotrace.signal(libc::SIGINT);
    let finished = iotrace.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    assert_eq!(report["all"], true);
    let truth: Value = serde_json::from_slice(&out.stdout).unwrap();
    truth::processes(&truth)
        .iter()
        .for_each(|process| same(process, &report));
    assert!(
        compare::processes_of(&report, own).is_empty(),
        "iotrace traced itself"
    );
}

#[test]
fn moments_lie_within_the_run() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["threads-on-many", dir.to_str().unwrap()]);
    let (_, report) = finished.truth_and_report();
    let duration = report["duration_seconds"].as_f64().unwrap();
    let moments = |value: &Value| -> Vec<(String, f64)> {
        let object = value.as_object().unwrap().iter();
        let at = object.filter(|(key, _)| key.ends_with("_at"));
        at.map(|(key, value)| (key.clone(), value.as_f64().unwrap()))
            .collect()
    };
    let mut checked = 0;
    for row in compare::list(&report, "files")
        .iter()
        .chain([&report["totals"]])
    {
        for (name, at) in moments(row) {
            assert!(
                (0.0..=duration).contains(&at),
                "{name} is {at} in a run of {duration} s: {row}"
            );
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (_keep, dir) = directory();
    for format in ["text", "json"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .args(["record", "--map-entries", "1024", "--format", format])
            .args(["--report", "stdout", "-o"])
            .arg(dir.join(format))
            .args(["--", "true"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let status = wait_for(&mut child, Duration::from_secs(60));
        let mut errors = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert_eq!(
            (status.code(), status.signal()),
            (Some(0), None),
            "{errors}"
        );
        assert_eq!(errors, "");
    }
}

#[test]
fn the_text_report_is_for_people() {
    let (_keep, dir) = directory();
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["record", "--full", "--report", "stdout"])
        .args(["--map-entries", "4096", "-o"])
        .arg(dir.join("recording"))
        .arg("--")
        .arg(common::workload())
        .arg("threads-on-many")
        .arg(&dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("file-63"), "{text}");
    assert!(!text.contains('\x1b'), "colour where there is no terminal");
    // The first line is the counting program's own.
    for line in text.lines().skip(1) {
        assert!(
            line.chars().count() <= 100,
            "{} columns: {line}",
            line.chars().count()
        );
    }
}

#[test]
fn a_long_run_counts_the_same_over_many_flushes() {
    let (_keep, dir) = directory();
    let iotrace = Iotrace::record().flush("50ms");
    let finished = iotrace.workload(["threads-on-many", dir.to_str().unwrap()]);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    truth::processes(&truth)
        .iter()
        .for_each(|process| same(process, &report));
    let total = Counts::of(&report["totals"]);
    assert!(total.get("writes") > 1000);
}

/// Runs iotrace in a directory, with its output in pipes: standard output, standard error.
fn iotrace_in(dir: &Path, args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let out = command.args(args).current_dir(dir).stdin(Stdio::null());
    let out = out.env_remove("COLUMNS").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let said = (text(out.stdout), text(out.stderr));
    assert!(out.status.success(), "{args:?}: {}", said.1);
    said
}

/// Arguments of `record` on a program that says something, with small kernel maps.
fn recording<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["record", "--map-entries", "1024"];
    args.extend(more);
    args.extend(["--", "sh", "-c", "echo said; cat /etc/hostname >copy"]);
    args
}

#[test]
fn the_report_does_not_mix_with_the_programs_output() {
    let (_keep, dir) = directory();
    // Into a pipe, what the program says is alone; so is JSON.
    let (out, errors) = iotrace_in(&dir, &recording(&[]));
    assert_eq!(out, "said\n");
    assert!(errors.starts_with("sh -c "), "{errors}");
    assert!(errors.contains(" Recording: iotrace-"), "{errors}");
    for (format, has_files) in [("json", true), ("json-summary", false)] {
        let (out, errors) = iotrace_in(&dir, &recording(&["-f", format]));
        let report: Value = serde_json::from_str(&out).expect("JSON alone");
        assert_eq!(report["exit_code"], 0);
        assert_eq!(report["files"].is_array(), has_files, "{format}");
        assert!(errors.starts_with("said\n"), "{errors}");
    }
    // Named, it goes there, in the format of the name.
    for (option, name, word) in [
        ("--report", "a.json", "\"format_version\""),
        ("-o", "b.html", "<!doctype html>"),
        ("--report", "c.txt", "sh -c "),
    ] {
        let (out, errors) = iotrace_in(&dir, &recording(&[option, name]));
        assert_eq!(out, "said\n", "{name}");
        assert!(errors.contains(&format!("report in {name}")), "{errors}");
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(text.contains(word), "{name}: {text:.200}");
    }
    let (out, _) = iotrace_in(&dir, &recording(&["--report", "stdout"]));
    assert!(out.starts_with("said\nsh -c "), "{out}");
}

#[test]
fn the_first_screen_is_one_screen_and_the_newest_recording_is_reported() {
    let (_keep, dir) = directory();
    iotrace_in(&dir, &recording(&["-o", "older"]));
    std::thread::sleep(Duration::from_millis(20));
    let mut args = recording(&["-o", "newer"]);
    let last = args.len() - 1;
    args[last] = "echo this is the newer one >copy";
    iotrace_in(&dir, &args);
    let (text, _) = iotrace_in(&dir, &["report"]);
    assert!(
        text.contains("the newer one") && text.contains(" Recording: newer\n"),
        "{text}"
    );
    assert!(text.lines().count() <= 24, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let (section, _) = iotrace_in(&dir, &["report", "--section", "losses", "older"]);
    assert!(
        section.contains("Losses\n") && !section.contains("Totals\n"),
        "{section}"
    );
    let (absent, _) = iotrace_in(&dir, &["report", "--section", "lines,nodes", "older"]);
    let said = "lines: none; record with --lines or --stacks to keep them";
    assert!(
        absent.contains(said) && absent.contains("nodes: none\n"),
        "{absent}"
    );
    let (full, _) = iotrace_in(&dir, &["report", "--full", "older"]);
    assert!(
        full.contains("Losses\n") && full.contains("Totals\n"),
        "{full}"
    );
    let (csv, _) = iotrace_in(&dir, &["export", "--format", "csv"]);
    assert!(csv.contains("/copy"), "{csv}");
}

#[test]
fn what_is_left_out_or_mistaken_is_named_with_the_way_out() {
    let (_keep, dir) = directory();
    let refused = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
        let out = command.args(args).current_dir(&dir).output().unwrap();
        assert!(!out.status.success(), "{args:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let said = refused(&["record", "python3", "train.py"]);
    assert!(said.contains("record -- python3 train.py"), "{said}");
    let said = refused(&["record", "--report", "no/such/x.json", "--", "touch", "ran"]);
    assert!(said.contains("no/such/x.json"), "{said}");
    assert!(!dir.join("ran").exists(), "the program ran all the same");
    // An argument of any bytes is no reason to panic.
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff.py");
    let out = command
        .args(["record", "python3"])
        .arg::<&std::ffi::OsStr>(odd);
    let out = out.current_dir(&dir).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let said = refused(&["record", "--nonsense", "--", "true"]);
    assert!(!said.contains("before the program"), "{said}");
    let said = refused(&["report"]);
    assert!(said.contains("iotrace record -- PROGRAM"), "{said}");
    let said = refused(&["report", "--full", "-f", "json", "somewhere"]);
    assert!(said.contains("leave out --full"), "{said}");
}

#[test]
fn a_number_alone_is_of_seconds() {
    let started = Instant::now();
    let finished = Iotrace::record()
        .args(["--duration", "1"])
        .command(["sleep", "100"]);
    assert_eq!(finished.code(), 124, "{}", finished.stderr);
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn the_start_of_a_run_is_flushed_often() {
    let script =
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat /etc/hostname >/dev/null; sleep 0.1; done";
    let parts = |iotrace: Iotrace| {
        let finished = iotrace.command(sh(script));
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let meta = fs::read_to_string(finished.recording.join("meta.json")).unwrap();
        let meta: Value = serde_json::from_str(&meta).unwrap();
        let slices = compare::list(&finished.report(), "time_series").len();
        (meta["parts"].as_array().unwrap().len(), slices)
    };
    let (often, slices) = parts(Iotrace::bare().entries("4096"));
    assert!(often >= 3 && slices >= 3, "{often} parts, {slices} slices");
    let (once, slices) = parts(Iotrace::record());
    assert!(
        once == 1 && slices >= 3,
        "steps are no flushes: {slices} slices"
    );
}

#[test]
fn a_process_that_outlives_the_program_is_named() {
    let finished = Iotrace::record().command(sh("sleep 100 >/dev/null 2>&1 & echo $!"));
    let (left, _) = finished.truth_and_report();
    let left = left.as_i64().unwrap();
    // SAFETY: a plain call; it is the program's child.
    unsafe { libc::kill(left as i32, libc::SIGKILL) };
    finished.says(&["1 of its processes still run", &format!("sleep {left}")]);

    let finished = Iotrace::record().command(sh("sleep 0.1 & wait"));
    let is_said = finished.stderr.contains("still run");
    assert!(!is_said, "{}", finished.stderr);
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_for_the_program() {
    common::need_root();
    let (_keep, dir) = directory();
    let program = "grep SigIgn: /proc/self/status; seq 1000000 1005000 | xargs touch; exit 3";
    let mut shell = Command::new("sh");
    // In 512 bytes: the self-test writes a few pages.
    shell.args(["-c", "ulimit -f 48; exec \"$@\"", "sh"]);
    shell.args([env!("CARGO_BIN_EXE_iotrace"), "record", "-o", "recording"]);
    shell
        .args(["--map-entries", "16384", "--"])
        .args(sh(program));
    let out = shell.current_dir(&dir).output().unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{errors}");
    let ignored = String::from_utf8(out.stdout).unwrap();
    let ignored = ignored.trim().strip_prefix("SigIgn:").unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(ignored >> (libc::SIGXFSZ - 1) & 1, 0, "{ignored:x}");
    for words in [
        "File too large",
        "recording is incomplete",
        "Nothing else lost.",
    ] {
        assert!(errors.contains(words), "{words:?}: {errors}");
    }
    assert!(!errors.contains("Nothing lost."), "{errors}");
}
