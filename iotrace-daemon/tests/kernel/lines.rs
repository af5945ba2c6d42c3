//! Lines of Python programs against the interpreter's own audit hook.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::common::{
    Iotrace, directory,
    export::report_of,
    lines::{KNOWN_MINOR_VERSIONS, PROGRAM_PATH, agree, found, interpreters},
    run::Finished,
    turn,
};

#[test]
fn lines_are_those_of_the_audit_hook() {
    turn::alone();
    let interpreters = interpreters();
    let newest = format!("python3.{}", KNOWN_MINOR_VERSIONS.end());
    assert!(
        interpreters.iter().any(|python| python.ends_with(&newest)),
        "no {newest}: `cargo xtask setup` installs it"
    );
    for python in interpreters {
        let (_keep, dir) = directory();
        let data = dir.join("data");
        fs::create_dir(&data).unwrap();
        let truth = dir.join("truth.json");
        // A native program beside it.
        let script = format!(
            "cat /etc/hostname > /dev/null; '{}' {PROGRAM_PATH} {} {}",
            python.display(),
            truth.display(),
            data.display()
        );
        let finished = recorded(&script);
        let report = finished.report();
        agree(&python, &truth, &report);
        // The native program's.
        assert!(report["lines"]["opens_without_line"].as_u64().unwrap() > 0);
        let again = report_of(&[&finished.recording]);
        assert_eq!(
            again["lines"], report["lines"],
            "the recording says the same"
        );
    }
}

/// Records a shell script with its lines.
fn recorded(script: &str) -> Finished {
    let finished = Iotrace::record()
        .flush("250ms")
        .args(["--lines"])
        .command(["sh", "-c", script]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

/// Opens a file in lines of files that have a text or none: `main.py` and `kept.py` stay as they are, `changed.py` is changed
/// and `removed.py` removed while it runs, and two are not its user's to read.
const SOURCES: &str = r##"
import os, sys, time
time.sleep(1)
sys.dont_write_bytecode = True
import changed, kept, removed
directory = os.path.dirname(__file__)
os.close(os.open(__file__, os.O_RDONLY))  # a <b>\\</b>
with open(changed.__file__, "a") as file:
    file.write("# later\n")
os.unlink(removed.__file__)
for module in changed, kept, removed:
    module.opens(__file__)
for name in "/etc/shadow", directory + "/secret.py", directory + "/link.py", directory + "/none.py":
    exec(compile("os.close(os.open(__file__, os.O_RDONLY))", name, "exec"))
# Files are read while the program runs.
time.sleep(1)
"##;

#[test]
fn source_text_is_that_of_the_files_that_ran() {
    const USER: u32 = 54_321;
    turn::alone();
    let interpreters = interpreters();
    let python = interpreters
        .iter()
        .find(|python| python.starts_with("/usr"));
    let python = python.expect("a CPython 3.11 or newer that every user may run");
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().canonicalize().unwrap();
    let put = |name: &str, text: &str| {
        fs::write(dir.join(name), text).unwrap();
        chown(dir.join(name), Some(USER), Some(USER)).unwrap();
    };
    let module = "import os\ndef opens(name):\n    os.close(os.open(name, os.O_RDONLY))\n";
    put("main.py", SOURCES);
    for name in ["changed.py", "kept.py", "removed.py"] {
        put(name, module);
    }
    fs::write(dir.join("secret.py"), "SECRET\n").unwrap();
    fs::set_permissions(dir.join("secret.py"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("secret.py", dir.join("link.py")).unwrap();
    chown(&dir, Some(USER), Some(USER)).unwrap();
    // A file that changed as the program began is not believed.
    thread::sleep(Duration::from_secs(1));
    let script = format!(
        "exec setpriv --reuid {USER} --regid {USER} --clear-groups '{}' {}",
        python.display(),
        dir.join("main.py").display()
    );
    let finished = recorded(&script);
    let report = finished.report();
    let texts: BTreeMap<&str, &Value> = report["lines"]["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .filter(|line| line["opens"] != 0)
        .map(|line| (line["file"].as_str().unwrap(), &line["source"]))
        .filter(|(file, _)| file.starts_with('/') && !file.ends_with("/main.py"))
        .collect();
    let none = &Value::Null;
    let text = Value::from("os.close(os.open(name, os.O_RDONLY))");
    let own = |name: &str| dir.join(name).into_os_string().into_string().unwrap();
    let names = [
        "changed.py",
        "kept.py",
        "link.py",
        "none.py",
        "removed.py",
        "secret.py",
    ]
    .map(own);
    let [changed, kept, link, missing, removed, secret] = names.each_ref().map(String::as_str);
    let expected = BTreeMap::from([
        ("/etc/shadow", none),
        (changed, none),
        (kept, &text),
        (link, none),
        (missing, none),
        (removed, none),
        (secret, none),
    ]);
    assert_eq!(texts, expected);
    let found = found(&report);
    let marked = SOURCES.lines().find(|line| line.contains("<b>"));
    assert!(
        found.values().any(|line| line["source"] == marked.unwrap()),
        "{found:?}"
    );
    let again = report_of(&[&finished.recording]);
    assert_eq!(again["lines"], report["lines"]);
    let kept_bytes = fs::read_dir(&finished.recording).unwrap().flatten();
    for part in kept_bytes.filter(|part| part.path().is_dir()) {
        let table = fs::read(part.path().join("sources.parquet")).unwrap_or_default();
        assert!(!table.windows(6).any(|text| text == b"SECRET"));
    }
}

#[test]
fn lines_of_a_running_process_are_found() {
    turn::alone();
    let (_keep, dir) = directory();
    let data = dir.join("data");
    fs::create_dir(&data).unwrap();
    let (truth, go) = (dir.join("truth.json"), dir.join("go"));
    let interpreters = interpreters();
    let python = interpreters.first().expect("a CPython 3.11 or newer");
    let mut program = Command::new(python)
        .arg(PROGRAM_PATH)
        .args([&truth, &data, &go])
        .spawn()
        .unwrap();
    let pid = program.id().to_string();
    let mut running = Iotrace::record()
        .flush("250ms")
        .args(["--lines", "--pid", &pid])
        .start();
    running.until_recording();
    fs::write(&go, "").unwrap();
    assert!(program.wait().unwrap().success());
    let finished = running.wait();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    agree(python, &truth, &report);
    let narrow = shown(&finished.recording, "80");
    let wide = shown(&finished.recording, "140");
    let row = narrow.lines().find(|line| line.contains("Loader.one"));
    let row = row.unwrap_or_else(|| panic!("Loader.one is not in: {narrow}"));
    // 50 passes over 20 files, and 25 in each of 6 workers.
    assert!(row.contains(" 1,150 "), "{row}");
    // With less of the directories before it, and not cut within.
    assert!(row.contains("lines.py:") && !row.contains('…'), "{row}");
    assert!(wide.contains("pathlib"), "{wide}");
}

/// The section of a recording's report, in so many columns.
fn shown(recording: &Path, columns: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command
        .env("COLUMNS", columns)
        .args(["report", "--section", "lines"])
        .arg(recording);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_native_program_has_no_lines() {
    turn::alone();
    let finished =
        Iotrace::record()
            .args(["--lines"])
            .command(["sh", "-c", "cat /etc/hostname > /dev/null"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert_eq!(finished.report()["lines"], Value::Null);
}
