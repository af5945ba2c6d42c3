//! `iotrace report --stage-to`: the files it names are copied, and the second run is as much faster as was foretold.

use std::{fs, path::Path, process::Command, time::Duration};

use crate::common::{
    Iotrace, directory,
    experiment::{self, Number},
    number, python, quiet,
    slow::{Slow, Speed},
};
use serde_json::Value;

/// Reads all files of a directory twice, and one that is warm; what lies in a second directory under the same path, from there.
/// Prints the seconds that the reads of the directory took.
const PROGRAM: &str = r#"
import os, sys, time
data, copy, warm = sys.argv[1:]
def read(path):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 1 << 20):
        pass
    os.close(fd)
names = [os.path.join(data, name) for name in os.environ["NAMES"].split()]
names = [copy + name if os.path.exists(copy + name) else name for name in names]
begin = time.monotonic()
for epoch in range(2):
    for name in names:
        read(name)
print(time.monotonic() - begin)
read(warm)
"#;

/// Runs iotrace on a recording, which must succeed: standard output, standard error.
fn report(recording: &Path, args: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let out = command.arg("report").arg(recording).args(args).output();
    let out = out.expect("iotrace starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let said = (text(out.stdout), text(out.stderr));
    assert!(out.status.success(), "{}", said.1);
    said
}

#[test]
fn staging_the_files_saves_what_was_foretold() {
    let (_keep, dir) = directory();
    let per_mib = |ms| Speed {
        read: Duration::from_millis(ms),
        ..Speed::default()
    };
    // The small ones are 6 % of the bytes, and hold up the job for most of the time.
    let small: Vec<String> = (0..16).map(|number| format!("small-{number}")).collect();
    let mut files: Vec<(&str, u64, Speed)> = Vec::new();
    files.extend(
        small
            .iter()
            .map(|name| (name.as_str(), 64 << 10, per_mib(800))),
    );
    files.extend(["large-0", "large-1"].map(|name| (name, 8 << 20, per_mib(10))));
    let names: Vec<&str> = files.iter().map(|(name, _, _)| *name).collect();
    let data = dir.join("data");
    let _mounted = Slow::mount(&data, &files, Speed::default());
    let (copy, warm) = (dir.join("copy"), dir.join("warm.bin"));
    fs::create_dir(&copy).unwrap();
    fs::write(&warm, vec![0; 4 << 20]).unwrap();
    let program = [
        python().into_os_string(),
        "-c".into(),
        PROGRAM.into(),
        data.clone().into(),
        copy.clone().into(),
        warm.clone().into(),
    ];
    let record = || {
        Iotrace::record()
            .env("NAMES", &names.join(" "))
            .command(&program)
    };
    let first = quiet::measured(record);
    assert_eq!(first.code(), 0, "{}", first.stderr);
    let seconds = |stdout: &str| -> f64 {
        let line = stdout.lines().next().expect("a line");
        line.parse().expect("seconds")
    };
    let before = seconds(&first.stdout);

    let json = report(&first.recording, &["--stage-to", "1M", "-f", "json"]).0;
    let staging: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(number(&staging, "bytes"), 16 * (64 << 10));
    let saves = staging["saves_at_most_seconds"].as_f64().unwrap();
    let (list, said) = report(&first.recording, &["--stage-to", "1M"]);
    let mut expected: Vec<String> = small
        .iter()
        .map(|name| data.join(name).display().to_string())
        .collect();
    expected.sort();
    assert_eq!(list.lines().collect::<Vec<_>>(), expected, "{said}");
    assert!(
        said.contains("rsync -a --files-from=LIST / DIRECTORY/"),
        "{said}"
    );
    // Room for all: the large ones, too, but nothing that was in the page cache.
    let (all, _) = report(&first.recording, &["--stage-to", dir.to_str().unwrap()]);
    let all: Vec<&str> = all.lines().collect();
    assert!(
        all.contains(&data.join("large-0").to_str().unwrap()),
        "{all:?}"
    );
    assert!(!all.contains(&warm.to_str().unwrap()), "{all:?}");

    for path in list.lines() {
        let to = copy.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
    let second = quiet::measured(record);
    let after = seconds(&second.stdout);
    let saved = before - after;
    experiment::keep(
        "Staged small files",
        "6 % of the bytes",
        &[Number::Seconds("saved", saved, saves)],
    );
    assert!(saved > 1.0, "{before} s, then {after} s");
    assert!(
        (saves - saved).abs() < saved * 0.05 + 0.05,
        "{saves} s were foretold, {saved} s saved"
    );
}

#[test]
fn a_size_or_a_directory_is_wanted() {
    for wrong in ["/no/such/directory", "3 apples"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
        let out = command.args(["report", "--stage-to", wrong, "x"]).output();
        let out = out.expect("iotrace starts");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && said.contains("a directory that exists"),
            "{said}"
        );
    }
}
