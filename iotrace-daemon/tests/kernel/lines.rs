//! Lines of Python programs against the interpreter's own audit hook.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::common::{
    Iotrace, directory,
    export::{python_directory, report_of},
    run::Finished,
    turn,
};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lines.py");
/// A call that takes longer counts as slow (docs/guide/lines.md), nanoseconds.
const SLOW_NS: u64 = 100_000;
/// By what the program's clock may see a call longer than the kernel does.
const SLACK_NS: u64 = 200_000;
/// Where interpreters lie that are not on the path.
const INSTALLED: &str = ".pyenv/versions";

/// Versions of Python whose lines are known.
const KNOWN: std::ops::RangeInclusive<u32> = 11..=15;

/// The interpreters of a version whose lines are known, by their files.
fn interpreters() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let own = fs::read_dir(home.join(INSTALLED)).into_iter().flatten();
    let own = own.flatten().map(|entry| entry.path().join("bin/python3"));
    let directories = ["/usr/bin", "/usr/local/bin"]
        .map(PathBuf::from)
        .into_iter();
    let directories = directories.chain([python_directory().join("debian/usr/bin")]);
    let others = directories.flat_map(|directory| {
        let versions = KNOWN.map(|minor| format!("python3.{minor}"));
        let names = versions.chain(["python3".into()]);
        names
            .map(move |name| directory.join(name))
            .collect::<Vec<_>>()
    });
    let mut found = BTreeMap::new();
    for path in own.chain(others) {
        let tell = "import os,sys; print(sys.implementation.name, *sys.version_info[:2], os.path.realpath(sys.executable))";
        let Ok(output) = Command::new(&path).args(["-c", tell]).output() else {
            continue;
        };
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<&str> = told.split_whitespace().collect();
        if let ["cpython", "3", minor, file] = words[..]
            && minor.parse().is_ok_and(|minor| KNOWN.contains(&minor))
        {
            found.insert(file.to_owned(), path);
        }
    }
    found.into_values().collect()
}

/// The lines of the report by file, line and function.
fn found(report: &Value) -> BTreeMap<String, &Value> {
    let lines = report["lines"]["lines"].as_array().expect("lines");
    let name = |line: &Value| {
        let text = |key: &str| line[key].as_str().expect("text").to_owned();
        let (file, function) = (text("file"), text("function"));
        let file = file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{} {function}", line["line"])
    };
    lines.iter().map(|line| (name(line), line)).collect()
}

#[test]
fn lines_are_those_of_the_audit_hook() {
    turn::alone();
    let interpreters = interpreters();
    let newest = format!("python3.{}", KNOWN.end());
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
            "cat /etc/hostname > /dev/null; '{}' {PROGRAM} {} {}",
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

/// Asserts that the lines are what the program says in `truth`.
fn agree(python: &Path, truth: &Path, report: &Value) {
    let truth: Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    let found = found(report);
    for (place, opens) in truth["opens"].as_object().unwrap() {
        let line = found.get(place);
        let line =
            line.unwrap_or_else(|| panic!("{}: {place} is in none of {found:?}", python.display()));
        assert_eq!(&line["opens"], opens, "{}: {place}", python.display());
    }
    let sum = |function: &str, counter: &str| -> u64 {
        let places = found.keys().filter(|place| place.ends_with(function));
        let counts = places.map(|place| found[place][counter].as_u64().unwrap());
        counts.sum()
    };
    let said = |key: &str| truth[key].as_u64().unwrap();
    assert_eq!(sum(" Loader.one", "bytes_read"), said("loader_bytes"));
    assert_eq!(sum(" generate", "bytes_read"), said("generated"));
    // `save` opened nothing: its writes are of the line that did.
    assert_eq!(sum(" save", "bytes_written"), 0);
    let opener = found
        .values()
        .find(|line| line["bytes_written"] == said("written"));
    let opener = opener.expect("a line with all bytes that were saved");
    assert_eq!(
        (&opener["function"], &opener["writes"], &opener["opens"]),
        (&"<module>".into(), &40.into(), &1.into())
    );
    // The program's clock sees a call longer than the kernel does, but not by as much as it is given here.
    let lengths = truth["sync_ns"].as_array().unwrap();
    let longer = |ns: u64| {
        let longer = lengths
            .iter()
            .filter(|length| length.as_u64().unwrap() > ns);
        longer.count() as u64
    };
    let slow = sum(" sync", "slow_calls");
    assert!(
        (longer(SLOW_NS + SLACK_NS)..=longer(SLOW_NS)).contains(&slow),
        "{slow} slow calls of {lengths:?}"
    );
    for (place, line) in &found {
        let text = place.split_once(':').map(|(file, _)| match file {
            "lines.py" => {
                let number = line["line"].as_u64().unwrap() as usize;
                let program = fs::read_to_string(PROGRAM).unwrap();
                Value::from(program.lines().nth(number - 1).unwrap().trim())
            }
            // Made by the program from a text.
            _ => Value::Null,
        });
        assert_eq!(
            line["source"],
            text.unwrap(),
            "{}: {place}",
            python.display()
        );
    }
    let is_by_library = |line: &&Value| {
        let via = line["via"]["file"].as_str().unwrap_or_default();
        line["function"] == "by_library" && via.contains("pathlib")
    };
    let opens = found.values().copied().find(is_by_library);
    assert_eq!(opens.expect("by_library")["opens"], 5);
    assert_eq!(report["notes"]["lines_unread"], 0);
    assert_eq!(report["notes"]["lines_lost"], 0);
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
        .arg(PROGRAM)
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
