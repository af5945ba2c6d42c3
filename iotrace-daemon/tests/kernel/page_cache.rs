//! What comes from storage and what from the page cache, and files used as memory: compared with programs whose every
//! page is known, whose pages are dropped from the page cache first or held in it.

use std::{fs, path::Path, process::Command};

use crate::common::{
    Iotrace,
    cache::Held,
    compare::{self, list},
    directory, number, python, text, tool,
};
use serde_json::Value;

const SIZE: u64 = 4 << 20;
const PAGE: u64 = 4096;

/// Uses a file in the ways that it is told, one after the other. `drop` takes its pages out of the page cache.
const PROGRAM: &str = "
import mmap, os, sys
path, ways = sys.argv[1], sys.argv[2:]
size = os.path.getsize(path)
for way in ways:
    writes, direct = 'write' in way, os.O_DIRECT if 'direct' in way else 0
    fd = os.open(path, (os.O_RDWR if writes else os.O_RDONLY) | direct)
    if way == 'drop':
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    elif way in ('read', 'read-direct'):
        buffer = mmap.mmap(-1, 1 << 20)
        for offset in range(0, size, 1 << 20):
            os.preadv(fd, [buffer], offset)
    elif way == 'ahead':
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
    elif way == 'write':
        os.pwrite(fd, bytes(size), 0)
        os.fsync(fd)
    elif way.startswith('map'):
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writes else 0)
        flags = mmap.MAP_PRIVATE if 'private' in way else mmap.MAP_SHARED
        memory = mmap.mmap(fd, size, flags, protection)
        if 'random' in way:
            memory.madvise(mmap.MADV_RANDOM)
        if 'populate' in way:
            memory.madvise(22)
        for offset in range(0, size, 4096):
            if writes:
                memory[offset] = 1
            else:
                memory[offset]
        if 'sync' in way:
            memory.flush()
        memory.close()
    os.close(fd)
";

/// A file of random pages that lie on the disk.
fn file(dir: &Path) -> String {
    let path = dir.join("data");
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..SIZE / 8)
        .flat_map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_ne_bytes()
        })
        .collect();
    fs::write(&path, bytes).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path.to_str().expect("UTF-8").into()
}

/// Runs the program; the file's counters over all processes that used it.
fn used(path: &str, ways: &[&str]) -> (Value, Value) {
    let program = python();
    let program = program.to_str().expect("UTF-8");
    let finished = Iotrace::record().command([&[program, "-c", PROGRAM, path], ways].concat());
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = finished.report();
    let row = list(&report, "files")
        .iter()
        .find(|row| text(row, "path") == path)
        .expect("the file's row");
    (row.clone(), report)
}

/// The counters of `row`, by these names, as they should be.
#[track_caller]
fn counted(row: &Value, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(number(row, name), *value, "{name} of {row}");
    }
}

#[test]
fn reads_from_storage_and_from_memory() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let (row, _) = used(&path, &["drop", "read"]);
    counted(
        &row,
        &[
            ("bytes_read", SIZE),
            ("bytes_fetched", SIZE),
            ("bytes_cached", 0),
        ],
    );
    counted(&row, &[("mapped_bytes_fetched", 0), ("faults", 0)]);
    let _held = Held::new(Path::new(&path));
    let (row, report) = used(&path, &["read", "read"]);
    counted(
        &row,
        &[
            ("bytes_read", 2 * SIZE),
            ("bytes_fetched", 0),
            ("bytes_cached", 2 * SIZE),
        ],
    );
    // Its own code is mapped.
    assert!(number(&report["totals"], "faults") > 0);
}

#[test]
fn direct_reads_are_all_from_storage() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let (row, _) = used(&path, &["drop", "read-direct", "read-direct"]);
    counted(
        &row,
        &[("bytes_read", 2 * SIZE), ("bytes_fetched", 2 * SIZE)],
    );
}

#[test]
fn readahead_is_fetched_and_not_mapped() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let (row, _) = used(&path, &["drop", "ahead"]);
    counted(&row, &[("bytes_read", 0), ("mapped_bytes_fetched", 0)]);
    assert!(number(&row, "bytes_fetched") > 0, "{row}");
}

#[test]
fn what_is_written_is_not_fetched() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let (row, _) = used(&path, &["drop", "write"]);
    counted(
        &row,
        &[
            ("bytes_written", SIZE),
            ("bytes_fetched", 0),
            ("mapped_bytes_dirtied", 0),
        ],
    );
    for engine in ["--ioengine=io_uring", "--ioengine=psync"] {
        let written = dir.join("written");
        let fio = tool("fio");
        let written = written.to_str().expect("UTF-8");
        let finished = Iotrace::record().command([
            fio.to_str().expect("UTF-8"),
            "--name=job",
            "--filename",
            written,
            engine,
            "--rw=write",
            "--size=4m",
            "--bs=64k",
            "--fallocate=none",
            "--iodepth=4",
            "--output=/dev/null",
        ]);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let rows = list(&report, "files").iter();
        let rows: Vec<_> = rows.filter(|row| text(row, "path") == written).collect();
        let sum = |name| rows.iter().map(|row| number(row, name)).sum::<u64>();
        assert_eq!(
            (sum("bytes_written"), sum("bytes_fetched")),
            (SIZE, 0),
            "{engine}"
        );
        fs::remove_file(written).unwrap();
    }
}

#[test]
fn mapped_files_from_storage_and_from_memory() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let pages = SIZE / PAGE;
    // Each page by itself: every fault is known.
    let (row, _) = used(&path, &["drop", "map-random"]);
    counted(
        &row,
        &[
            ("bytes_read", 0),
            ("bytes_fetched", SIZE),
            ("mapped_bytes_fetched", SIZE),
        ],
    );
    counted(
        &row,
        &[
            ("mapped_bytes", SIZE),
            ("faults", pages),
            ("major_faults", pages),
        ],
    );
    // In order: the kernel fetches ahead, and maps more than it is asked for.
    for way in ["map", "map-private", "map-populate"] {
        let (row, _) = used(&path, &["drop", way]);
        counted(
            &row,
            &[
                ("bytes_read", 0),
                ("bytes_fetched", SIZE),
                ("mapped_bytes_fetched", SIZE),
            ],
        );
        let (faults, major) = (number(&row, "faults"), number(&row, "major_faults"));
        assert!(
            (1..pages).contains(&faults) && (1..=faults).contains(&major),
            "{way}: {row}"
        );
        let mapped = number(&row, "mapped_bytes");
        assert!(
            (faults * PAGE..=SIZE + 64 * PAGE).contains(&mapped),
            "{way}: {row}"
        );
    }
    let _held = Held::new(Path::new(&path));
    for way in ["map", "map-private", "map-random"] {
        let (row, _) = used(&path, &[way]);
        counted(
            &row,
            &[("bytes_read", 0), ("bytes_fetched", 0), ("major_faults", 0)],
        );
        assert!(
            number(&row, "faults") > 0 && number(&row, "mapped_bytes") > 0,
            "{way}: {row}"
        );
    }
}

#[test]
fn stores_to_mapped_files() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let pages = SIZE / PAGE;
    let (row, report) = used(&path, &["drop", "map-random-write-sync"]);
    counted(
        &row,
        &[
            ("bytes_written", 0),
            ("faults", pages),
            ("major_faults", pages),
        ],
    );
    counted(
        &row,
        &[
            ("bytes_fetched", SIZE),
            ("mapped_bytes", SIZE),
            ("mapped_bytes_dirtied", SIZE),
        ],
    );
    assert_eq!(number(&report["totals"], "msyncs"), 1);
    // What a private mapping changes is its own.
    let (row, _) = used(&path, &["drop", "map-random-private-write"]);
    counted(
        &row,
        &[
            ("faults", pages),
            ("mapped_bytes", SIZE),
            ("mapped_bytes_dirtied", 0),
        ],
    );
}

#[test]
fn reads_and_mappings_of_one_file_add_up() {
    let (_keep, dir) = directory();
    let path = file(&dir);
    let _held = Held::new(Path::new(&path));
    let (row, report) = used(&path, &["read", "map-random-write", "write"]);
    counted(
        &row,
        &[
            ("bytes_read", SIZE),
            ("bytes_written", SIZE),
            ("bytes_fetched", 0),
        ],
    );
    let totals = &report["totals"];
    let by = &totals["bytes_by_access"];
    assert_eq!(number(by, "read"), number(totals, "bytes_read"));
    assert_eq!(number(by, "mapped"), number(totals, "mapped_bytes"));
    let parts = ["read", "written", "mapped"].map(|way| number(by, way));
    assert_eq!(number(by, "all"), parts.iter().sum::<u64>());
    // By process and by phase they are the same bytes.
    for name in ["bytes_fetched", "mapped_bytes", "faults"] {
        let of = |rows: Vec<&Value>| rows.into_iter().map(|row| number(row, name)).sum::<u64>();
        let processes = list(&report, "processes")
            .iter()
            .map(|process| &process["totals"]);
        assert_eq!(
            of(processes.collect()),
            number(totals, name),
            "{name} by process"
        );
        // What filesystems fetch for themselves is of no phase.
        if name != "bytes_fetched" {
            let phases = report["phases"].as_object().unwrap().values().collect();
            assert_eq!(of(phases), number(totals, name), "{name} by phase");
        }
    }
    compare::nothing_lost(&report);
}

#[test]
fn files_behind_an_overlay() {
    let (_keep, dir) = directory();
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    file(&dir.join("lower"));
    let places = ["lower", "upper", "work"].map(|name| dir.join(name).display().to_string());
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        places[0], places[1], places[2]
    );
    let merged = dir.join("merged");
    let mount = |command: &mut Command| assert!(command.status().unwrap().success());
    mount(
        Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options])
            .arg(&merged),
    );
    let path = merged.join("data").display().to_string();
    let compared = std::panic::catch_unwind(|| {
        // Before and after it is copied up.
        for _ in 0..2 {
            let (row, _) = used(&path, &["drop", "read"]);
            counted(&row, &[("bytes_read", SIZE), ("bytes_fetched", SIZE)]);
            let (row, _) = used(&path, &["drop", "map-random"]);
            counted(&row, &[("bytes_fetched", SIZE), ("faults", SIZE / PAGE)]);
            used(&path, &["write"]);
        }
    });
    mount(Command::new("umount").arg(&merged));
    compared.unwrap();
}
