//! Lines of Python programs against the interpreter's own audit hook: the same whoever finds them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::export::python_directory;

pub const PROGRAM_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lines.py");
/// A call that takes longer counts as slow (docs/guide/lines.md), nanoseconds.
const SLOW_NS: u64 = 100_000;
/// By what the program's clock may see a call longer than the kernel does.
const SLACK_NS: u64 = 200_000;
/// Where interpreters lie that are not on the path.
const PYENV_DIRECTORY: &str = ".pyenv/versions";

/// Versions of Python whose lines are known.
pub const KNOWN_MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 11..=15;

/// The interpreters of a version whose lines are known, by their files.
pub fn interpreters() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let own = fs::read_dir(home.join(PYENV_DIRECTORY))
        .into_iter()
        .flatten();
    let own = own.flatten().map(|entry| entry.path().join("bin/python3"));
    let directories = ["/usr/bin", "/usr/local/bin"]
        .map(PathBuf::from)
        .into_iter();
    let directories = directories.chain([python_directory().join("debian/usr/bin")]);
    let others = directories.flat_map(|directory| {
        let versions = KNOWN_MINOR_VERSIONS.map(|minor| format!("python3.{minor}"));
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
            && minor
                .parse()
                .is_ok_and(|minor| KNOWN_MINOR_VERSIONS.contains(&minor))
        {
            found.insert(file.to_owned(), path);
        }
    }
    found.into_values().collect()
}

/// The lines of the report by file, line and function.
pub fn found(report: &Value) -> BTreeMap<String, &Value> {
    let lines = report["lines"]["lines"].as_array().expect("lines");
    let name = |line: &Value| {
        let text = |key: &str| line[key].as_str().expect("text").to_owned();
        let (file, function) = (text("file"), text("function"));
        let file = file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{} {function}", line["line"])
    };
    lines.iter().map(|line| (name(line), line)).collect()
}

/// Asserts that the lines are what the program says in `truth`.
pub fn agree(python: &Path, truth: &Path, report: &Value) {
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
                let program = fs::read_to_string(PROGRAM_PATH).unwrap();
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
