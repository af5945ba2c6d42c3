//! Names: of any bytes and any depth, over mounts of every kind, for processes with a root of their own.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{
    self, Iotrace,
    compare::{self, Counts},
    directory, number, text,
    truth::{self, Process},
};
use serde_json::Value;

/// A mount, taken off at the end.
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path, args: &[&OsStr]) -> Self {
        fs::create_dir_all(at).unwrap();
        let status = Command::new("mount").args(args).arg(at).status().unwrap();
        assert!(status.success(), "mount {args:?}: CAP_SYS_ADMIN is needed");
        Self(at.into())
    }

    fn tmpfs(at: &Path) -> Self {
        Self::new(at, &["-t".as_ref(), "tmpfs".as_ref(), "tmpfs".as_ref()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Traces `touch` on files; the rows, in the order of the files.
fn touch(files: &[PathBuf]) -> (Value, Vec<Value>) {
    let mut args: Vec<OsString> = vec!["touch".into()];
    args.extend(files.iter().map(Into::into));
    let finished = Iotrace::record().workload(args);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let processes = truth::processes(&truth);
    let pid = processes[0].pid;
    let rows = compare::rows_of(&report, pid);
    assert_eq!(rows.len(), files.len(), "{rows:#?}");
    let find = |file: &PathBuf| {
        let row = rows
            .iter()
            .find(|row| path_of(row) == file.as_os_str().as_bytes());
        let row = row.unwrap_or_else(|| panic!("{file:?} is not among {:?}", names(&rows)));
        let counts = Counts::of(row);
        for (counter, done) in [
            ("opens", 1),
            ("writes", 1),
            ("bytes_written", 10),
            ("reads", 1),
            ("bytes_read", 4),
            ("closes", 1),
        ] {
            assert_eq!(counts.get(counter), done, "{counter} of {file:?}");
        }
        assert!(
            row["deleted"].is_null() && row["opened_as"].is_null(),
            "{row}"
        );
        (*row).clone()
    };
    (report.clone(), files.iter().map(find).collect())
}

fn names(rows: &[&Value]) -> Vec<String> {
    rows.iter().map(|row| row["path"].to_string()).collect()
}

/// A row's path, byte by byte.
fn path_of(row: &Value) -> Vec<u8> {
    match row["path_hex"].as_str() {
        Some(digits) => (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect(),
        None => text(row, "path").as_bytes().to_vec(),
    }
}

#[track_caller]
fn on(row: &Value, mount_point: &Path, fs_type: &str) {
    assert_eq!(
        text(row, "mount_point"),
        mount_point.to_str().unwrap(),
        "{row}"
    );
    assert_eq!(text(row, "fs_type"), fs_type, "{row}");
}

#[test]
fn names_of_any_bytes() {
    let (_keep, dir) = directory();
    let names: [&[u8]; 9] = [
        b"new\nline",
        b"\x1b[31mred\x1b[0m",
        b"invalid \xff\xfe utf-8",
        "gr\u{fc}n \u{1f409}".as_bytes(),
        b"quote\"back\\slash",
        b"tab\tbell\x07",
        b" ",
        b"-o",
        &[b'n'; 255],
    ];
    let files: Vec<PathBuf> = names
        .iter()
        .map(|name| dir.join(OsStr::from_bytes(name)))
        .collect();
    let (report, rows) = touch(&files);
    assert!(rows[2]["path_hex"].is_string() && rows[0]["path_hex"].is_null());
    // The device and the inode are the file's own.
    use std::os::unix::fs::MetadataExt as _;
    for (file, row) in files.iter().zip(&rows) {
        let metadata = fs::metadata(file).unwrap();
        assert_eq!(number(row, "inode"), metadata.ino());
        let device = format!(
            "{}:{}",
            libc::major(metadata.dev()),
            libc::minor(metadata.dev())
        );
        assert_eq!(text(row, "device"), device);
        assert_eq!(row["type"], "regular");
    }
    assert_eq!(
        number(&report["totals"], "files"),
        compare::list(&report, "files")
            .iter()
            .filter(|row| row["type"] == "regular")
            .map(|row| format!("{} {}", row["device"], row["inode"]))
            .collect::<std::collections::BTreeSet<_>>()
            .len() as u64
    );
}

#[test]
fn no_name_reaches_the_terminal_as_it_is() {
    let (_keep, dir) = directory();
    let file = dir.join(OsStr::from_bytes(b"\x1b[31mred\nnext \xff line"));
    let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args([
            "record",
            "--full",
            "--report",
            "stdout",
            "--map-entries",
            "1024",
            "-o",
        ])
        .arg(dir.join("recording"))
        .arg("--")
        .args([
            common::workload().as_os_str(),
            OsStr::new("touch"),
            file.as_os_str(),
        ])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).expect("the text report is UTF-8");
    assert!(!text.contains('\x1b') && text.contains("[31mred"), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("next")), "{text}");
}

#[test]
fn deep_paths() {
    let (_keep, dir) = directory();
    let deep: PathBuf = dir.join(["directory"; 100].join("/"));
    fs::create_dir_all(&deep).unwrap();
    let long = dir.join(["l"; 15].map(|name| name.repeat(255)).join("/"));
    fs::create_dir_all(&long).unwrap();
    let files = [deep.join("file"), long.join("file")];
    assert!(files[1].as_os_str().len() > 3800);
    let (_, rows) = touch(&files);
    assert!(rows.iter().all(|row| row["path_truncated"].is_null()));
}

/// Traces a file below `depth` directories of one name.
fn below(depth: usize, component: &str) -> (PathBuf, Value) {
    let (_keep, dir) = directory();
    let finished =
        Iotrace::record().workload(["deep", dir.to_str().unwrap(), &depth.to_string(), component]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let processes = truth::processes(&truth);
    let process: &Process<'_> = &processes[0];
    let rows = compare::rows_of(&report, process.pid);
    let [row] = rows[..] else {
        panic!("{:?}", names(&rows))
    };
    assert_eq!(process.files()["leaf"].difference(&Counts::of(row)), "");
    (dir, row.clone())
}

#[test]
fn a_path_longer_than_any_call_takes() {
    let component = "c".repeat(255);
    let (dir, row) = below(20, &component);
    let path = text(&row, "path");
    assert!(
        path.ends_with(&format!("/{component}/{component}/leaf")),
        "{path}"
    );
    // 5,120 bytes: whole, or said not to be.
    let whole = format!(
        "{}/{}leaf",
        dir.display(),
        format!("{component}/").repeat(20)
    );
    assert!(path == whole || row["path_truncated"] == true, "{path}");
    assert!(path.len() > 3000, "{}", path.len());
}

#[test]
fn a_path_of_500_and_of_600_components() {
    for (depth, truncated) in [(500, false), (600, true)] {
        let (dir, row) = below(depth, "d");
        let path = text(&row, "path");
        let whole = format!("{}/{}leaf", dir.display(), "d/".repeat(depth));
        assert!(path.ends_with("/d/d/leaf"), "{path}");
        if truncated {
            assert!(path == whole || row["path_truncated"] == true, "{path}");
        } else {
            assert_eq!(path, whole);
        }
    }
}

#[test]
fn memory_filesystems_one_in_the_other() {
    let (_keep, dir) = directory();
    let (outer, inner) = (dir.join("outer"), dir.join("outer/a/inner"));
    let _outer = Mount::tmpfs(&outer);
    let _inner = Mount::tmpfs(&inner);
    fs::create_dir(inner.join("b")).unwrap();
    let (_, rows) = touch(&[
        outer.join("file"),
        outer.join("a/file"),
        inner.join("file"),
        inner.join("b/file"),
    ]);
    on(&rows[0], &outer, "tmpfs");
    on(&rows[1], &outer, "tmpfs");
    on(&rows[2], &inner, "tmpfs");
    on(&rows[3], &inner, "tmpfs");
    assert_ne!(rows[1]["device"], rows[2]["device"]);
}

#[test]
fn a_bind_mount_is_named_by_the_way_that_was_taken() {
    let (_keep, dir) = directory();
    let (source, target) = (dir.join("source/below"), dir.join("target"));
    fs::create_dir_all(&source).unwrap();
    let _bind = Mount::new(&target, &["--bind".as_ref(), source.as_os_str()]);
    fs::create_dir(source.join("deeper")).unwrap();
    let (_, rows) = touch(&[
        target.join("file"),
        target.join("deeper/file"),
        source.join("other"),
    ]);
    assert_eq!(text(&rows[0], "mount_point"), target.to_str().unwrap());
    assert_eq!(rows[0]["device"], rows[2]["device"]);
    assert_ne!(text(&rows[2], "mount_point"), target.to_str().unwrap());
    // A file bound over a file.
    let (file, over) = (dir.join("file"), dir.join("over"));
    fs::write(&file, "").unwrap();
    fs::write(&over, "").unwrap();
    let status = Command::new("mount")
        .arg("--bind")
        .args([&file, &over])
        .status()
        .unwrap();
    assert!(status.success());
    let guard = Mount(over.clone());
    touch(&[over]);
    drop(guard);
}

#[test]
fn an_overlay_names_the_merged_tree() {
    let (_keep, dir) = directory();
    // On a filesystem that can be an upper layer whatever the disk's is.
    let layers = dir.join("layers");
    let _layers = Mount::tmpfs(&layers);
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|name| layers.join(name));
    for layer in [&lower, &upper, &work] {
        fs::create_dir(layer).unwrap();
    }
    fs::write(lower.join("old"), "0123456789").unwrap();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let _overlay = Mount::new(
        &merged,
        &["-t", "overlay", "-o", &options, "overlay"].map(OsStr::new),
    );
    let (_, rows) = touch(&[merged.join("old"), merged.join("new")]);
    for row in &rows {
        on(row, &merged, "overlay");
    }
}

#[test]
fn a_mount_that_another_namespace_alone_has() {
    let (_keep, dir) = directory();
    let private = dir.join("private");
    fs::create_dir(&private).unwrap();
    let script = format!(
        "mount -t tmpfs tmpfs {private} && mkdir {private}/d && {} touch {private}/d/file",
        common::workload().display(),
        private = private.display()
    );
    let unshare = common::tool("unshare");
    let command: [&OsStr; 5] = [
        unshare.as_ref(),
        "--mount".as_ref(),
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
    ];
    let finished = Iotrace::record().command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let pid = truth::processes(&truth)[0].pid;
    let file = private.join("d/file");
    let row = compare::row(&report, pid, file.to_str().unwrap());
    assert_eq!(text(row, "fs_type"), "tmpfs", "{row}");
}

#[test]
fn a_changed_root_is_named_from_the_true_one() {
    let (_keep, dir) = directory();
    let root = dir.join("root");
    fs::create_dir_all(root.join("data")).unwrap();
    let finished = Iotrace::record().workload(["in-root", root.to_str().unwrap(), "/data/file"]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    let pid = truth::processes(&truth)[0].pid;
    let file = root.join("data/file");
    let row = compare::row(&report, pid, file.to_str().unwrap());
    assert_eq!(Counts::of(row).get("bytes_written"), 10);
}

/// What the report says of the file with this path.
fn file_at<'a>(report: &'a Value, path: &Path) -> &'a Value {
    let rows = compare::list(report, "files");
    let found = rows
        .iter()
        .find(|row| text(row, "path") == path.to_str().unwrap());
    found.unwrap_or_else(|| {
        let paths: Vec<&str> = rows.iter().map(|row| text(row, "path")).collect();
        panic!("{} is not among {paths:?}", path.display())
    })
}

/// Renames and removals inside a changed root and relative to a directory find the file, too.
#[test]
fn a_rename_by_relative_path_finds_its_file() {
    let (_keep, dir) = directory();
    fs::create_dir_all(dir.join("a/b")).unwrap();
    let script =
        "cd a; echo 1 >b/before; mv b/before ./b/../after; cd ..; rm a/after; echo 2 >b; mv b c";
    let finished = Iotrace::record()
        .current_dir(&dir)
        .command(["sh", "-c", script]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    let named = |name: &str| file_at(&report, &dir.join(name));
    let gone = named("a/after");
    assert_eq!(
        text(gone, "opened_as"),
        dir.join("a/b/before").to_str().unwrap()
    );
    assert_eq!(gone["deleted"], true);
    let kept = named("c");
    assert_eq!(text(kept, "opened_as"), dir.join("b").to_str().unwrap());
    assert!(kept["deleted"].is_null());
}

/// Files are known by where they are, also where the program renames them below a symbolic link.
#[test]
fn a_rename_below_a_symbolic_link_finds_its_file() {
    let (_keep, dir) = directory();
    fs::create_dir(dir.join("real")).unwrap();
    std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
    let script = "echo 1 >link/new.tmp; mv link/new.tmp link/new; echo 2 >link/gone; rm link/gone";
    let finished = Iotrace::record()
        .current_dir(&dir)
        .command(["sh", "-c", script]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    let named = |name: &str| file_at(&report, &dir.join("real").join(name));
    let first = dir.join("real/new.tmp");
    assert_eq!(text(named("new"), "opened_as"), first.to_str().unwrap());
    assert_eq!(named("gone")["deleted"], true);
}
