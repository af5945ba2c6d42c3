//! Bad input, missing rights and full disks: each a message that names the thing and the mend, and an exit code.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::common::{
    self, Iotrace,
    compare::{self, same},
    directory, truth,
};

/// A filesystem in memory, unmounted at the end.
pub struct Tmpfs(pub PathBuf);

impl Tmpfs {
    pub fn new(at: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&at)
            .status();
        assert!(status.unwrap().success(), "mount needs CAP_SYS_ADMIN");
        Self(at)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// `iotrace record` with an output of the test's own.
fn record_into(output: &Path, command: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["record", "--map-entries", "1024", "--format", "json", "-o"])
        .arg(output)
        .arg("--")
        .args(command)
        .output()
        .unwrap()
}

#[track_caller]
fn refused(out: &std::process::Output, code: i32, words: &[&str]) {
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{errors}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "");
    for word in words {
        assert!(
            errors.contains(word),
            "standard error lacks {word:?}: {errors}"
        );
    }
}

#[test]
fn an_output_that_is_not_empty_is_refused() {
    let (_keep, dir) = directory();
    let (recording, ran) = (dir.join("kept"), dir.join("ran"));
    fs::create_dir(&recording).unwrap();
    fs::write(recording.join("mine"), "mine").unwrap();
    let out = record_into(&recording, &["touch", ran.to_str().unwrap()]);
    refused(&out, 1, &["kept", "not empty", "name another directory"]);
    assert_eq!(fs::read_dir(&recording).unwrap().count(), 1);
    assert!(!ran.exists(), "the program ran all the same");
    // A file in its place.
    let out = record_into(&recording.join("mine"), &["touch", ran.to_str().unwrap()]);
    refused(&out, 1, &["kept/mine"]);
    assert!(!ran.exists(), "the program ran all the same");
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let (_keep, dir) = directory();
    let read_only = Tmpfs::new(dir.join("read-only"), "ro");
    let ran = dir.join("ran");
    let out = record_into(
        &read_only.0.join("recording"),
        &["touch", ran.to_str().unwrap()],
    );
    refused(
        &out,
        1,
        &[
            "read-only/recording",
            "Read-only file system",
            "name a directory that can be written",
        ],
    );
    assert!(!ran.exists(), "the program ran all the same");
}

#[test]
fn a_disk_that_fills_up_costs_the_recording_and_not_the_report() {
    let (_keep, dir) = directory();
    let small = Tmpfs::new(dir.join("small"), "size=32k");
    let work = dir.join("work");
    fs::create_dir(&work).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args([
            "record",
            "--map-entries",
            "8192",
            "--flush",
            "100ms",
            "--report",
        ])
        .arg(dir.join("report.json"))
        .arg("-o")
        .arg(small.0.join("recording"))
        .arg("--")
        .arg(common::workload())
        .arg("threads-on-many")
        .arg(&work)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    // The recording is incomplete, and says so last; the exit code is the program's; what was counted is all there.
    assert_eq!(out.status.code(), Some(0), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(last.contains("small/recording is incomplete"), "{errors}");
    assert!(!last.contains("next flush"), "{errors}");
    for word in ["No space left on device", "small/recording", "make room"] {
        assert!(
            errors.contains(word),
            "standard error lacks {word:?}: {errors}"
        );
    }
    let truth = serde_json::from_slice(&out.stdout).expect("the program's output");
    let report = fs::read(dir.join("report.json")).expect("the report");
    let report = serde_json::from_slice(&report).unwrap();
    compare::conserved(&report);
    compare::nothing_lost(&report);
    truth::processes(&truth)
        .iter()
        .for_each(|process| same(process, &report));
}

#[test]
fn a_full_disk_does_not_change_the_exit_code() {
    let (_keep, dir) = directory();
    let small = Tmpfs::new(dir.join("small"), "size=32k");
    let script = format!(
        "dd if=/dev/zero of={}/filler 2>/dev/null; exit 7",
        small.0.display()
    );
    let out = record_into(&small.0.join("recording"), &["sh", "-c", &script]);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{errors}");
    let last = errors.lines().last().unwrap_or_default();
    assert!(last.contains("small/recording is incomplete"), "{errors}");
    assert!(last.contains("No space left on device"), "{errors}");
}

#[test]
fn words_that_do_not_exist_are_refused() {
    for (args, word) in [
        (&["--hook", "kprobe", "--", "true"][..], "kprobe"),
        (&["--detail", "most", "--", "true"], "most"),
        (&["--duration", "soon", "--", "true"], "soon"),
        (&["--duration=-1s", "--", "true"], "-1s"),
        (&["--flush", "x", "--", "true"], "x"),
        (&["--map-entries", "0", "--", "true"], "0"),
        (&["--pid", "0"], "0"),
        (&["--pid", "abc"], "abc"),
        (&["--pid", "1", "--all"], "--all"),
        (&["--all", "--", "true"], "--all"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let finished = Iotrace::bare().args(args).run();
        finished.refused(2, &[word]);
    }
    // Nothing to trace.
    Iotrace::record().run().refused(2, &["--pid", "--all"]);
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("recrod")
        .output()
        .unwrap();
    refused(&out, 2, &["recrod"]);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let gone = child.id().to_string();
    let finished = Iotrace::record().args(["--pid", &gone]).run();
    finished.refused(1, &["no process", &gone]);
    assert!(!finished.recording.exists());
}

#[test]
fn a_thread_is_told_from_a_process() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        // SAFETY: gettid has no preconditions.
        sender.send(unsafe { libc::gettid() }).unwrap();
        let _ = stopped.recv();
    });
    let tid = receiver.recv().unwrap().to_string();
    let finished = Iotrace::record().args(["--pid", &tid]).run();
    finished.refused(1, &[&tid, "is a thread", &std::process::id().to_string()]);
    drop(stop);
    thread.join().unwrap();
}

/// A copy of iotrace that any user can run, in a directory that any user can write to.
fn for_everyone(dir: &Path) -> PathBuf {
    let copy = dir.join("iotrace");
    fs::copy(env!("CARGO_BIN_EXE_iotrace"), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    copy
}

#[test]
fn without_privilege_it_says_which_is_missing() {
    common::need_root();
    let (_keep, dir) = directory();
    let iotrace = for_everyone(&dir);
    for hook in ["auto", "btf", "tracepoint"] {
        let out = Command::new(common::tool("setpriv"))
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&iotrace)
            .args(["record", "--hook", hook, "-o"])
            .arg(dir.join("recording"))
            .args(["--", "touch"])
            .arg(dir.join("ran"))
            .output()
            .unwrap();
        let words = [
            "it lacks CAP_BPF and CAP_PERFMON",
            "iotrace: run `sudo iotrace record --hook",
        ];
        refused(&out, 77, &words);
        assert!(!dir.join("ran").exists(), "the program ran all the same");
        assert!(
            !dir.join("recording").exists(),
            "a recording of nothing is left"
        );
    }
}

/// Processes have other numbers there than those that the kernel programs see.
#[test]
fn a_pid_namespace_of_its_own_is_named() {
    common::need_root();
    let (_keep, dir) = directory();
    let out = Command::new(common::tool("unshare"))
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(env!("CARGO_BIN_EXE_iotrace"))
        .args(["record", "-o"])
        .arg(dir.join("recording"))
        .args(["--", "touch"])
        .arg(dir.join("ran"))
        .output()
        .unwrap();
    refused(
        &out,
        77,
        &["PID namespace of its own", "hostPID: true", "--pid=host"],
    );
    assert!(!dir.join("ran").exists(), "the program ran all the same");
}

/// A kernel that says it is locked down; what such a kernel refuses, the virtual machines' tests see.
#[test]
fn a_locked_down_kernel_is_named() {
    common::need_root();
    let (_keep, dir) = directory();
    let locked = r#"mount -t tmpfs tmpfs /sys/kernel/security
        echo "none integrity [confidentiality]" >/sys/kernel/security/lockdown
        exec "$@""#;
    let iotrace = |args: &[&str]| {
        Command::new(common::tool("unshare"))
            .args(["--mount", "sh", "-ec", locked, "sh"])
            .arg(env!("CARGO_BIN_EXE_iotrace"))
            .args(args)
            .output()
            .unwrap()
    };
    let (recording, ran) = (dir.join("recording"), dir.join("ran"));
    let [recording_path, ran_path] = [&recording, &ran].map(|path| path.to_str().unwrap());
    let out = iotrace(&["record", "-o", recording_path, "--", "touch", ran_path]);
    refused(
        &out,
        77,
        &["lockdown=confidentiality", "lockdown=integrity"],
    );
    assert!(!ran.exists() && !recording.exists());
    for args in [&["check"][..], &["check", "--features"]] {
        let check = iotrace(args);
        assert_eq!(check.status.code(), Some(77));
        let text = String::from_utf8_lossy(&check.stdout);
        assert!(text.contains("lockdown=confidentiality"), "{text}");
        assert!(text.ends_with("iotrace cannot run here.\n"), "{text}");
    }
}

#[test]
fn a_foreign_process_is_refused() {
    common::need_root();
    let (_keep, dir) = directory();
    let iotrace = for_everyone(&dir);
    let pid = std::process::id().to_string();
    let out = Command::new(common::tool("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&iotrace)
        .args(["record", "--pid", &pid, "-o"])
        .arg(dir.join("recording"))
        .output()
        .unwrap();
    assert_ne!(out.status.code(), Some(0));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(errors.contains(&pid) && errors.contains("root"), "{errors}");
}

#[test]
fn two_capabilities_are_enough() {
    common::need_root();
    let (_keep, dir) = directory();
    let iotrace = for_everyone(&dir);
    let out = Command::new(common::tool("setpriv"))
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"])
        .arg(&iotrace)
        .args([
            "record",
            "--hook",
            "btf",
            "--map-entries",
            "1024",
            "--format",
            "json",
            "-o",
        ])
        .arg(dir.join("recording"))
        .args(["--", "cat", "/etc/hostname"])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains(r#""path":"/etc/hostname""#), "{text}");
}

#[test]
fn missing_type_information_is_named() {
    let finished = Iotrace::record()
        .args(["--btf", "/no/such/btf"])
        .command(["true"]);
    finished.refused(77, &["/no/such/btf", "CONFIG_DEBUG_INFO_BTF"]);
    let finished = Iotrace::record()
        .args(["--btf", "/etc/hostname"])
        .command(["true"]);
    finished.refused(1, &["/etc/hostname", "BTF"]);
    // Breaks off in the middle.
    let (_keep, dir) = directory();
    let broken = dir.join("broken");
    let whole = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    let finished = Iotrace::record()
        .args(["--btf", broken.to_str().unwrap()])
        .command(["true"]);
    finished.refused(1, &[broken.to_str().unwrap()]);
}

/// A kernel that is laid out otherwise than iotrace believes: no number may come of it.
#[test]
fn a_wrong_offset_is_found_before_any_number_is_believed() {
    let (_keep, dir) = directory();
    for global in [
        "REGS_ARG0",
        "REGS_ARG1",
        "TASK_FILES",
        "FILES_FDT",
        "FDT_FD",
        "FILE_INODE",
        "FILE_PATH",
        "INODE_INO",
        "INODE_SB",
        "INODE_MODE",
        "SB_DEV",
        "DENTRY_PARENT",
        "MOUNT_PARENT",
        "VFSMOUNT_ROOT",
    ] {
        let ran = dir.join("ran");
        // Off by one pointer.
        // The descriptors of `struct fdtable` are at 8 on every 64-bit kernel.
        let near = if global == "FDT_FD" { "16" } else { "8" };
        for wrong in [near, "48"] {
            let finished = Iotrace::record()
                .env("IOTRACE_TEST_OFFSET", &format!("{global}={wrong}"))
                .command(["touch", ran.to_str().unwrap()]);
            if finished.code() == 0 {
                // By chance the right one.
                let finished = Iotrace::record().command(["true"]);
                assert_eq!(finished.code(), 0, "{}", finished.stderr);
                panic!("{global}={wrong} was believed");
            }
            assert_eq!(finished.code(), 1, "{global}={wrong}: {}", finished.stderr);
            assert_eq!(finished.stdout, "", "{global}={wrong}");
            assert!(
                !ran.exists(),
                "{global}={wrong}: the program ran all the same"
            );
        }
    }
}

#[test]
fn a_report_of_something_else_is_refused() {
    let report = |dir: &Path| {
        Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .arg("report")
            .arg(dir)
            .output()
            .unwrap()
    };
    let (_keep, dir) = directory();
    let missing = report(&dir.join("missing"));
    refused(&missing, 1, &["missing", "No such file"]);
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
    refused(&report(&dir), 1, &[dir.to_str().unwrap(), "no recording"]);
    let finished = Iotrace::record().command(["sh", "-c", "read line </etc/hostname"]);
    finished.report();
    let out = report(&finished.recording);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(String::from_utf8_lossy(&out.stdout).contains("hostname"));
    // Newer.
    let meta = finished.recording.join("meta.json");
    let text = fs::read_to_string(&meta).unwrap();
    let newer = text.replacen(r#""format_version":1"#, r#""format_version":2"#, 1);
    let newer = newer.replacen(r#""format_version": 1"#, r#""format_version": 2"#, 1);
    assert_ne!(newer, text, "{text}");
    fs::write(&meta, newer).unwrap();
    refused(
        &report(&finished.recording),
        1,
        &["format 2", "update iotrace"],
    );
    // Truncated: the description, and a table.
    fs::write(&meta, &text[..text.len() / 2]).unwrap();
    refused(&report(&finished.recording), 1, &["meta.json", "damaged"]);
    fs::write(&meta, text).unwrap();
    let part = finished.recording.join("part-000001");
    for table in fs::read_dir(&part)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let whole = fs::read(&table).unwrap();
        fs::write(&table, &whole[..whole.len() / 2]).unwrap();
        refused(&report(&finished.recording), 1, &["part-000001", "damaged"]);
        fs::write(&table, whole).unwrap();
    }
    assert!(report(&finished.recording).status.success());
}

#[test]
fn a_kernel_too_full_for_the_maps_is_an_error() {
    let started = Instant::now();
    let finished = Iotrace::record().entries("4294967295").command(["true"]);
    assert_ne!(finished.code(), 0);
    assert_eq!(finished.stdout, "");
    finished.says(&["--map-entries"]);
    assert!(started.elapsed() < Duration::from_secs(60));
}
