//! The counters of a log against Darshan's own rules, replayed on what real programs did; and Drishti on a log.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use crate::common::{
    Iotrace, compare, directory,
    export::{by_pydarshan, environment, exported},
    number, python,
    run::Finished,
    text,
};
use iotrace_common::value::{SIZE_SLOTS, STRIDE_SLOTS};
use serde_json::Value;

/// Does what its arguments name, and prints each call on a file: its kind, and offset, bytes and alignment where it has
/// them. Buffers are in anonymous memory, which is aligned to a page.
const PROGRAM: &str = r#"
import json, mmap, os, random, sys
root, what, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = {}
memory = mmap.mmap(-1, 8 << 20)
view = memoryview(memory)
class File:
    def __init__(self, name, flags, mode=0o777):
        self.name, self.fd, self.position = name, os.open(f"{root}/{name}", flags, mode), 0
        self.note("open", mode=mode if flags & os.O_CREAT else 0)
    def note(self, kind, **about):
        calls.setdefault(self.name, []).append({"kind": kind, **about})
    def move(self, kind, bytes, shift=0, at=None):
        buffer = view[shift:shift + bytes]
        offset = self.position if at is None else at
        if kind == "read":
            done = os.readv(self.fd, [buffer]) if at is None else os.preadv(self.fd, [buffer], at)
        else:
            done = os.writev(self.fd, [buffer]) if at is None else os.pwritev(self.fd, [buffer], at)
        if at is None:
            self.position += done
        self.note(kind, offset=offset, bytes=done, unaligned=shift % 8 != 0)
        return done
    def seek(self, offset, whence=os.SEEK_SET):
        self.position = os.lseek(self.fd, offset, whence)
        self.note("seek")
    def stat(self):
        os.fstat(self.fd)
        self.note("stat")
    def sync(self, data=False):
        (os.fdatasync if data else os.fsync)(self.fd)
        self.note("fdatasync" if data else "fsync")
    def dup(self):
        copy = os.dup(self.fd)
        self.note("dup")
        os.close(copy)
        self.note("close of a copy")
    def map(self):
        mmap.mmap(self.fd, 4096, prot=mmap.PROT_READ).close()
        # Python asks for the size, and keeps a descriptor of its own.
        for kind in ("stat", "dup", "mmap", "close of a copy"):
            self.note(kind)
    def close(self):
        os.close(self.fd)
        self.note("close")

def example():
    with open(root + "/shard-000.tar", "wb") as file:
        file.truncate(200 << 20)
    calls.clear()
    shard = File("shard-000.tar", os.O_RDONLY)
    for _ in range(100):
        shard.move("read", 1 << 20)
    for index in range(10):
        shard.move("read", 4000, at=(110 << 20) + index * 100_000)
    shard.close()
    model = File("model.pt", os.O_CREAT | os.O_WRONLY, 0o644)
    for _ in range(64):
        model.move("write", 4 << 20)
    model.sync()
    model.close()

def edges():
    file = File("edges", os.O_CREAT | os.O_RDWR, 0o640)
    for size in (100, 101, 1024, 1025, 10240, 10241, 102400, 102401, 1 << 20, (1 << 20) + 1, 4 << 20, (4 << 20) + 1, 0):
        file.move("write", size)
    file.seek(0)
    for size in (1, 100, 101, 1024, 1025, 1 << 20, (4 << 20) + 1):
        file.move("read", size)
    file.move("read", 10, at=99_999_989)  # far behind the end
    file.move("read", 512, at=4096)
    file.close()
    # Again: positions and last bytes start anew.
    file = File("edges", os.O_RDONLY)
    while file.move("read", 1 << 20):
        pass
    file.map()
    file.close()

def strides():
    file = File("strides", os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o600)
    file.move("write", 1 << 20)
    for index in range(1, 40):
        file.move("read", 512, shift=index % 16, at=index * 1536)
    for index in range(1, 20):
        file.move("write", 100, at=index * 1000)
        file.move("read", 64, at=index * 1000)
    file.close()

def mixed():
    random.seed(seed)
    for number in range(3):
        name = f"mixed-{number}"
        for opened in range(3):
            flags = os.O_RDWR | (os.O_CREAT if opened == 0 else 0)
            file = File(name, flags, 0o644)
            for _ in range(150):
                size = random.choice([0, 1, 8, 100, 512, 4096, 10_000, 65_536, 1 << 20])
                shift = random.choice([0, 0, 8, 1, 4])
                at = random.choice([None, None, None, random.randrange(1 << 22), 4096 * random.randrange(512)])
                what = random.randrange(20)
                if what < 8:
                    file.move("read", size, shift, at)
                elif what < 16:
                    file.move("write", size, shift, at)
                elif what == 16:
                    file.seek(random.randrange(1 << 21))
                elif what == 17:
                    file.stat()
                elif what == 18:
                    file.sync(random.random() < 0.5)
                else:
                    file.dup()
            file.close()

{"example": example, "edges": edges, "strides": strides, "mixed": mixed}[what]()
with open(root + "/calls.json", "w") as file:
    json.dump({"block": os.statvfs(root).f_bsize, "files": calls}, file)
"#;

/// Darshan's rules for the integers of one file of one rank, by the calls in their order.
#[derive(Default)]
struct Replay {
    counters: BTreeMap<String, i64>,
    sizes: Vec<(i64, i64)>,
    strides: Vec<(i64, i64)>,
    /// Last byte read and written, and the direction of the last access.
    last: [i64; 2],
    direction: Option<usize>,
}

const KINDS: [(&str, &str, &str); 2] = [("READ", "READS", "READ"), ("WRITE", "WRITES", "WRITTEN")];
const BUCKETS: [(&str, i64); 10] = [
    ("0_100", 100),
    ("100_1K", 1 << 10),
    ("1K_10K", 10 << 10),
    ("10K_100K", 100 << 10),
    ("100K_1M", 1 << 20),
    ("1M_4M", 4 << 20),
    ("4M_10M", 10 << 20),
    ("10M_100M", 100 << 20),
    ("100M_1G", 1 << 30),
    ("1G_PLUS", i64::MAX),
];

impl Replay {
    /// The integers; where there are more distinct sizes or strides than the kernel side keeps of an interval, those that
    /// `record` has must be among them.
    fn of(calls: &[Value], block: i64, record: &Value) -> BTreeMap<String, i64> {
        let mut replay = Self::default();
        for name in [
            "OPENS",
            "FILENOS",
            "DUPS",
            "READS",
            "WRITES",
            "SEEKS",
            "STATS",
            "MMAPS",
            "FSYNCS",
            "FDSYNCS",
            "RENAME_SOURCES",
            "RENAMED_FROM",
            "MODE",
            "BYTES_READ",
            "BYTES_WRITTEN",
            "MAX_BYTE_READ",
            "MAX_BYTE_WRITTEN",
            "CONSEC_READS",
            "CONSEC_WRITES",
            "SEQ_READS",
            "SEQ_WRITES",
            "RW_SWITCHES",
            "MEM_NOT_ALIGNED",
            "FILE_NOT_ALIGNED",
            "FASTEST_RANK",
            "FASTEST_RANK_BYTES",
            "SLOWEST_RANK",
            "SLOWEST_RANK_BYTES",
        ] {
            replay.counters.insert(name.into(), 0);
        }
        for ((kind, ..), (bucket, _)) in KINDS
            .iter()
            .flat_map(|kind| BUCKETS.iter().map(move |b| (kind, b)))
        {
            replay.counters.insert(format!("SIZE_{kind}_{bucket}"), 0);
        }
        for call in calls {
            replay.call(call, block);
        }
        let Self {
            mut counters,
            sizes,
            strides,
            ..
        } = replay;
        counters.insert("RENAME_TARGETS".into(), -1); // not measured, by design
        counters.insert("MEM_ALIGNMENT".into(), 8);
        counters.insert("FILE_ALIGNMENT".into(), block);
        for (name, value, mut table, kept) in [
            ("STRIDE", "STRIDE", strides, STRIDE_SLOTS),
            ("ACCESS", "ACCESS", sizes, SIZE_SLOTS),
        ] {
            let all: BTreeMap<i64, i64> = table.iter().copied().collect();
            table.sort_by_key(|(value, count)| std::cmp::Reverse((*count, *value)));
            table.resize(4, (0, 0));
            for (rank, (mut of, mut count)) in (1..).zip(table) {
                let names = [
                    format!("{name}{rank}_{value}"),
                    format!("{name}{rank}_COUNT"),
                ];
                if all.len() > kept {
                    [of, count] = names
                        .each_ref()
                        .map(|name| record[format!("POSIX_{name}")].as_i64().unwrap());
                    assert!(
                        all.get(&of).is_some_and(|most| count <= *most),
                        "{of}: {count}"
                    );
                }
                let [of_name, count_name] = names;
                counters.insert(of_name, of);
                counters.insert(count_name, count);
            }
        }
        counters
    }

    fn count(&mut self, name: &str, by: i64) {
        *self
            .counters
            .get_mut(name)
            .unwrap_or_else(|| panic!("{name}")) += by;
    }

    fn call(&mut self, call: &Value, block: i64) {
        match text(call, "kind") {
            "open" => {
                self.count("OPENS", 1);
                self.last = [0; 2];
                self.direction = None; // by design: of the open file, Darshan's is of the file
                let mode = call["mode"].as_i64().unwrap();
                if mode != 0 {
                    self.counters.insert("MODE".into(), mode);
                }
            }
            "close" => self.last = [0; 2],
            "dup" => {
                self.count("OPENS", 1);
                self.count("DUPS", 1);
            }
            "close of a copy" => {}
            "seek" => self.count("SEEKS", 1),
            "stat" => self.count("STATS", 1),
            "mmap" => self.count("MMAPS", 1),
            "fsync" => self.count("FSYNCS", 1),
            "fdatasync" => self.count("FDSYNCS", 1),
            "read" => self.access(0, call, block),
            "write" => self.access(1, call, block),
            other => panic!("{other}"),
        }
    }

    fn access(&mut self, direction: usize, call: &Value, block: i64) {
        let (kind, calls, moved) = KINDS[direction];
        let (offset, bytes) = (
            call["offset"].as_i64().unwrap(),
            call["bytes"].as_i64().unwrap(),
        );
        self.count(calls, 1);
        self.count(&format!("BYTES_{moved}"), bytes);
        let bucket = BUCKETS.iter().find(|(_, most)| bytes <= *most).unwrap().0;
        self.count(&format!("SIZE_{kind}_{bucket}"), 1);
        let highest = self.counters.get_mut(&format!("MAX_BYTE_{moved}")).unwrap();
        *highest = (*highest).max(offset + bytes - 1);
        let last = self.last[direction];
        self.count(&format!("SEQ_{calls}"), i64::from(offset > last));
        self.count(&format!("CONSEC_{calls}"), i64::from(offset == last + 1));
        if offset > last && last != 0 && offset > 0 {
            tabled(&mut self.strides, offset - last - 1);
        }
        tabled(&mut self.sizes, bytes);
        self.last[direction] = offset + bytes - 1;
        let switched = self.direction.is_some_and(|before| before != direction);
        self.count("RW_SWITCHES", switched.into());
        self.direction = Some(direction);
        self.count(
            "MEM_NOT_ALIGNED",
            call["unaligned"].as_bool().unwrap().into(),
        );
        self.count("FILE_NOT_ALIGNED", i64::from(offset % block != 0));
    }
}

/// None that is 0 is listed.
fn tabled(table: &mut Vec<(i64, i64)>, value: i64) {
    if value == 0 {
        return;
    }
    match table.iter().position(|(known, _)| *known == value) {
        Some(index) => table[index].1 += 1,
        None => table.push((value, 1)),
    }
}

fn record(dir: &Path, what: &str, seed: &str) -> Finished {
    let (program, work) = (dir.join("program.py"), dir.join("written"));
    fs::write(&program, PROGRAM).unwrap();
    fs::create_dir_all(&work).unwrap();
    let finished = Iotrace::record().flush("100ms").command([
        python().as_os_str(),
        program.as_os_str(),
        work.as_os_str(),
        what.as_ref(),
        seed.as_ref(),
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    finished
}

/// Records, exports, and compares every integer of every file with Darshan's rules.
#[track_caller]
fn check(what: &str, seed: &str) {
    let (_keep, dir) = directory();
    let finished = record(&dir, what, seed);
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &["-f", "darshan", "-o", log.to_str().unwrap()],
    );
    let read = by_pydarshan(&log);
    let truth: Value =
        serde_json::from_slice(&fs::read(dir.join("written/calls.json")).unwrap()).unwrap();
    let block = truth["block"].as_i64().unwrap();
    for (name, calls) in truth["files"].as_object().unwrap() {
        let records = compare::list(&read, "records").iter();
        let of_file: Vec<_> = records
            .filter(|record| text(record, "name").ends_with(&format!("/written/{name}")))
            .collect();
        let [record] = of_file[..] else {
            panic!("{} records of {name}", of_file.len());
        };
        let mut rules = Replay::of(calls.as_array().unwrap(), block, record);
        // Which access is the slowest is the clock's to say: it must be one that there was.
        for (kind, moved) in [("read", "READ"), ("write", "WRITE")] {
            let slowest = record[format!("POSIX_MAX_{moved}_TIME_SIZE")]
                .as_i64()
                .unwrap();
            let mut of_kind = calls
                .as_array()
                .unwrap()
                .iter()
                .filter(|call| text(call, "kind") == kind)
                .peekable();
            let any = of_kind.peek().is_some();
            assert!(
                slowest == 0 && !any || of_kind.any(|call| call["bytes"].as_i64() == Some(slowest))
            );
            rules.insert(format!("MAX_{moved}_TIME_SIZE"), slowest);
        }
        if what == "example" && name == "shard-000.tar" {
            // Its file was made by a stream before: an open with O_CREAT, a truncate and what Python looks up.
            for name in ["OPENS", "STATS", "SEEKS", "MODE"] {
                rules.insert(
                    name.into(),
                    record[format!("POSIX_{name}")].as_i64().unwrap(),
                );
            }
        }
        let mut wrong = String::new();
        let mut integers = 0;
        for (counter, value) in record.as_object().unwrap() {
            let Some(counter) = counter
                .strip_prefix("POSIX_")
                .filter(|name| !name.starts_with("F_"))
            else {
                continue;
            };
            integers += 1;
            let expected = rules
                .get(counter)
                .unwrap_or_else(|| panic!("no rule of {counter}"));
            if value.as_i64() != Some(*expected) {
                wrong += &format!("  {counter}: {expected} by the rules, {value} in the log\n");
            }
        }
        assert_eq!(integers, 69);
        assert!(wrong.is_empty(), "{name}:\n{wrong}");
    }
}

/// A shard read in blocks and a little at random, and a checkpoint: 110 reads, 99 of them consecutive, 64 writes.
#[test]
fn a_shard_and_a_checkpoint() {
    check("example", "0");
}

#[test]
fn bounds_of_buckets_ends_of_files_and_a_second_open() {
    check("edges", "0");
}

#[test]
fn strides_switches_and_unaligned_buffers() {
    check("strides", "0");
}

#[test]
fn anything_in_any_order() {
    check("mixed", "1");
    check("mixed", "4711");
}

/// Drishti prints numbers that it works out from a log; the report has what they are made of.
#[test]
fn drishti_finds_the_reports_numbers() {
    let (_keep, dir) = directory();
    let finished = record(&dir, "mixed", "7");
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &["-f", "darshan", "-o", log.to_str().unwrap()],
    );
    let drishti = environment("darshan").with_file_name("drishti");
    let out = Command::new(drishti)
        .args(["--size", "400", "--code"])
        .arg(&log)
        .current_dir(&dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && errors.is_empty(), "{errors}");
    let said = String::from_utf8(out.stdout).unwrap();
    let totals = &report["totals"];
    let [reads, writes, read, written, unaligned] = [
        "reads",
        "writes",
        "bytes_read",
        "bytes_written",
        "file_unaligned",
    ]
    .map(|name| number(totals, name) as f64);
    let percent = |part: f64, whole: f64| format!("{:.2}%", part * 100.0 / whole);
    let users: std::collections::BTreeSet<u64> = compare::list(&report, "files")
        .iter()
        .filter(|row| text(row, "type") == "regular")
        .map(|row| number(row, "pid"))
        .collect();
    let calls = reads + writes;
    for expected in [
        format!("PROCESSES       {}", users.len()),
        format!(
            "{} writes vs. {} reads",
            percent(writes, calls),
            percent(reads, calls)
        ),
        format!(
            "{} write vs. {} read)",
            percent(written, read + written),
            percent(read, read + written)
        ),
        format!(
            "({}) of misaligned file requests",
            percent(unaligned, calls)
        ),
    ] {
        assert!(said.contains(&expected), "{expected} is not in:\n{said}");
    }
    // Random is what is not sequential, of more than 1,000 reads or writes; else it says how many are in order.
    for (kind, calls, verb) in [("reads", reads, "read"), ("writes", writes, "write")] {
        let sequential = number(totals, &format!("sequential_{kind}")) as f64;
        let consecutive = number(totals, &format!("consecutive_{kind}")) as f64;
        let ordered = format!(
            "consecutive ({}) and sequential ({}) {verb} requests",
            percent(consecutive, calls),
            percent(sequential - consecutive, calls)
        );
        assert!(said.contains(&ordered), "{ordered} is not in:\n{said}");
    }
}
