//! Recordings of real programs that were made once and kept: what is made of recordings is tested on them without a
//! privilege.
//!
//! `golden/NAME.tar.gz` holds the recording, where the program worked, and the report of that day.
//! `kernel::golden` records the same programs again and compares; with [`WRITE`] set, it writes the archives.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{
    Iotrace, compare, directory,
    export::{report_of, set_meta},
    run::Finished,
    tool, users_python,
};

/// Set to `recordings`, `kernel::golden` writes all archives; set to `reports`, `formats::golden` writes the reports in
/// them, for a report that is meant to say something else.
pub const WRITE: &str = "IOTRACE_WRITE_GOLDEN";

const ARCHIVES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/golden");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/train.py");
/// What an archive holds.
const RECORDING: &str = "recording";
const PLACE: &str = "place";
const REPORT: &str = "report.json";

/// A program to record.
pub struct Golden {
    pub name: &'static str,
    /// Options of `iotrace record`.
    options: &'static [&'static str],
    /// The command, for a new directory that it may work in.
    command: fn(&Path) -> Vec<OsString>,
}

/// All of them.
pub const ALL: [Golden; 13] = [
    golden("files", &OFTEN, |dir| script("files", dir, &[])),
    golden(
        "files-basic",
        &["--flush", "50ms", "--detail", "basic"],
        |dir| script("files", dir, &[]),
    ),
    golden("nothing", &["--flush", "1h"], |_| vec!["true".into()]),
    golden("operations", &TRACED, |dir| script("operations", dir, &[])),
    golden("tables", &TRACED, |dir| script("tables", dir, &[])),
    golden("ranks-0", &OFTEN, |dir| script("ranks", dir, &["0"])),
    golden("ranks-2", &OFTEN, |dir| script("ranks", dir, &["2"])),
    golden("epochs", &OFTEN, |dir| script("epochs", dir, &[])),
    golden("small-reads", &OFTEN, |dir| {
        script("saves", dir, &["1000", "1"])
    }),
    golden("large-reads", &OFTEN, |dir| {
        script("saves", dir, &["100000", "3"])
    }),
    golden("training", &["--flush", "200ms"], |dir| {
        let args = ["--epochs", "3", "--data", "data"];
        interpreted(Path::new(EXAMPLE), dir, &args)
    }),
    golden("hostile-names", &["--flush", "1h"], hostile_names),
    golden("waits", &["--flush", "200ms", "--waits"], |_| {
        let code = "import os, time\nfor _ in range(8): os.stat('/'); time.sleep(0.1)";
        [bare_python(), vec!["-c".into(), code.into()]].concat()
    }),
];

const OFTEN: [&str; 2] = ["--flush", "50ms"];
const TRACED: [&str; 3] = ["--flush", "50ms", "--trace"];

const fn golden(
    name: &'static str,
    options: &'static [&'static str],
    command: fn(&Path) -> Vec<OsString>,
) -> Golden {
    Golden {
        name,
        options,
        command,
    }
}

/// A script of ours, which makes the directory `work`.
fn script(name: &str, dir: &Path, args: &[&str]) -> Vec<OsString> {
    let source = format!("{PROGRAMS}/{name}.py");
    let args = [&["work"], args].concat();
    interpreted(Path::new(&source), dir, &args)
}

/// A copy of a script in the directory, run by the distribution's Python without what a machine adds to it.
fn interpreted(source: &Path, dir: &Path, args: &[&str]) -> Vec<OsString> {
    let script = dir.join(source.file_name().expect("a name"));
    fs::copy(source, &script).expect("a copy");
    let mut command = bare_python();
    command.push(script.into_os_string());
    command.extend(args.iter().map(OsString::from));
    command
}

fn bare_python() -> Vec<OsString> {
    vec![users_python().into_os_string(), "-IS".into()]
}

/// Names that are not text, or are more than text to a page. A slash cannot be in a name, but in a path: `<` before it
/// and `script>` after it.
pub const HOSTILE: [&[u8]; 8] = [
    b"</script><script>alert(1)<",
    b"<img src=x onerror=alert(2)>.jpg",
    b"<!--<script>.bin",
    b"\"><svg onload=alert(3)>",
    b"line\nbreak\ttab\x1b[31m",
    b"bad\xff\xfe\x80utf8",
    "\u{202e}gpj.exe\u{200b}\u{2028}\u{7}".as_bytes(),
    b"${alert(4)} {{7*7}} @DATA@ &lt;b&gt; \\u003c",
];

/// Where a file of each of those names is in the directory of the program.
pub fn hostile_paths(place: &Path) -> Vec<PathBuf> {
    let names = HOSTILE.iter().enumerate();
    names
        .map(|(index, name)| {
            let name = OsString::from_vec(name.to_vec());
            place.join(format!("h{index}")).join(name)
        })
        .collect()
}

fn hostile_names(dir: &Path) -> Vec<OsString> {
    let mut command = vec!["cat".into()];
    for path in hostile_paths(dir) {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, "\n").expect("written");
        command.push(path.into_os_string());
    }
    command
}

impl Golden {
    /// Records the program now, in a directory of its own.
    pub fn record(&self) -> (Finished, TempDir, PathBuf) {
        let (keep, dir) = directory();
        let iotrace = Iotrace::bare().entries("4096").args(self.options);
        let iotrace = iotrace.on_host(c"node1").current_dir(&dir);
        let finished = iotrace.command((self.command)(&dir));
        assert_eq!(finished.code(), 0, "{}: {}", self.name, finished.stderr);
        (finished, keep, dir)
    }

    /// Replaces the archive by a recording that is made now.
    pub fn write(&self) {
        let (finished, _keep, place) = self.record();
        let (_dir, contents) = directory();
        fs::rename(&finished.recording, contents.join(RECORDING)).expect("one filesystem");
        set_meta(&contents.join(RECORDING), "kernel", "6.18.0");
        fs::write(contents.join(PLACE), place.to_str().expect("UTF-8")).expect("a file");
        pack(self.name, &contents);
    }
}

/// The archive of a name.
fn archive(name: &str) -> PathBuf {
    Path::new(ARCHIVES).join(format!("{name}.tar.gz"))
}

/// Writes the archive of a directory, with the report of its recording.
fn pack(name: &str, contents: &Path) {
    let report = report_of(&[contents.join(RECORDING)]);
    let text = serde_json::to_string(&report).expect("JSON");
    fs::write(contents.join(REPORT), text).expect("a file");
    let status = Command::new(tool("tar"))
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mtime=@0", "--mode=u+rw", "-czf"])
        .arg(archive(name))
        .arg("-C")
        .arg(contents)
        .arg(".")
        .status();
    assert!(status.expect("tar").success(), "{name}");
}

/// A recording as it was kept, in a directory that goes with it.
pub struct Kept {
    name: &'static str,
    pub recording: PathBuf,
    /// Where the program worked.
    pub place: PathBuf,
    dir: TempDir,
}

/// Unpacks the recording of a name.
pub fn kept(name: &str) -> Kept {
    let known = ALL.iter().find(|golden| golden.name == name);
    let name = known.unwrap_or_else(|| panic!("no recording {name}")).name;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let status = Command::new(tool("tar"))
        .arg("-xzf")
        .arg(archive(name))
        .args(["--no-same-owner", "-C"])
        .arg(dir.path())
        .status();
    assert!(status.expect("tar").success(), "{name}");
    Kept {
        name,
        recording: dir.path().join(RECORDING),
        place: fs::read_to_string(dir.path().join(PLACE))
            .expect("a path")
            .into(),
        dir,
    }
}

impl Kept {
    /// The report, in which nothing is lost and sums agree.
    #[track_caller]
    pub fn report(&self) -> Value {
        let report = report_of(&[&self.recording]);
        compare::nothing_lost(&report);
        compare::conserved(&report);
        report
    }

    /// What the report said when it was kept.
    pub fn report_then(&self) -> Value {
        let text = fs::read(self.dir.path().join(REPORT)).expect("a report");
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Keeps the report of now in its place.
    pub fn keep_report(&self) {
        pack(self.name, self.dir.path());
    }
}

/// Bytes and calls of a report by file below a directory, as far as no interpreter makes more of them than the program
/// asks for.
pub fn done(report: &Value, place: &Path) -> Vec<String> {
    const COUNTERS: [&str; 6] = [
        "reads",
        "writes",
        "bytes_read",
        "bytes_written",
        "fsyncs",
        "renames",
    ];
    let mut files = std::collections::BTreeMap::<PathBuf, [u64; COUNTERS.len()]>::new();
    for row in compare::list(report, "files") {
        let Ok(path) = Path::new(super::text(row, "path")).strip_prefix(place) else {
            continue;
        };
        let sums = files.entry(path.into()).or_default();
        for (sum, name) in sums.iter_mut().zip(COUNTERS) {
            *sum += super::number(row, name);
        }
    }
    files
        .iter()
        .map(|(path, sums)| format!("{}: {sums:?}", path.display()))
        .collect()
}
