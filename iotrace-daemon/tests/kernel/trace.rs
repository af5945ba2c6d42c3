//! The operation trace: every operation as strace saw it, the same sums as the counters, and every one that is missing
//! counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    self, Iotrace, directory,
    run::wait_for,
    trace::{self, open, rows, same, sums_of_counters, sums_of_rows, whole},
};
use iotrace_common::op;
use iotrace_recording::trace::Trace;

/// Traces many reads by some threads of the counting program.
fn reads(iotrace: Iotrace, dir: &Path, count: u64, threads: u64) -> common::run::Finished {
    iotrace.args(["--trace"]).workload([
        "reads".to_owned(),
        dir.to_string_lossy().into_owned(),
        count.to_string(),
        threads.to_string(),
    ])
}

#[test]
fn sums_are_those_of_the_counters() {
    for mode in ["every-call", "threads-on-many", "descriptors"] {
        let (_keep, dir) = directory();
        let run = Iotrace::record()
            .args(["--trace"])
            .workload([mode.into(), dir.into_os_string()]);
        assert_eq!(run.code(), 0, "{}", run.stderr);
        let trace = open(&run.recording);
        same(&sums_of_rows(&trace), &sums_of_counters(&run.recording));
        assert_eq!((trace.about.lost(), trace.about.left_out()), (0, 0));
    }
}

#[test]
fn sums_are_those_of_the_counters_at_detail_basic_by_tracepoints() {
    let (_keep, dir) = directory();
    let run = Iotrace::record()
        .hook("tracepoint")
        .args(["--trace", "--detail", "basic"])
        .workload(["every-call".into(), dir.into_os_string()]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = open(&run.recording);
    same(&sums_of_rows(&trace), &sums_of_counters(&run.recording));
}

/// As strace shows a call: operation, offset, length, result.
type Seen = (&'static str, Option<i64>, Option<i64>, i64);

/// Calls of one thread as strace saw them, on descriptors of files in a directory. Positions are added up here.
fn seen_by_strace(log: &str, dir: &str) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut positions: BTreeMap<i64, i64> = BTreeMap::new();
    for line in log.lines() {
        let Some((call, result)) = line.rsplit_once(" = ") else {
            continue;
        };
        let Some((name, args)) = call.trim_end().split_once('(') else {
            continue;
        };
        let word = result.split(['<', ' ']).next().unwrap_or_default();
        let error = result.split(' ').nth(1);
        let result: i64 = match (word, error) {
            ("-1", Some("EBADF")) => -i64::from(libc::EBADF),
            ("-1", Some("EINVAL")) => -i64::from(libc::EINVAL),
            _ => match word.parse() {
                Ok(number) => number,
                Err(_) => continue,
            },
        };
        let is_ours = |text: &str| text.contains(&format!("<{dir}/"));
        // Four bytes of buffers are shown (strace -s 4), of which none is a comma.
        let args: Vec<&str> = args.trim_end_matches(')').split(", ").collect();
        // Of `[64] => [364]` the first one.
        let number = |index: usize| {
            let text = args[index].trim_start_matches('[');
            let end = text.find(|c: char| c != '-' && !c.is_ascii_digit());
            text[..end.unwrap_or(text.len())].parse::<i64>().ok()
        };
        let fd = number(0).unwrap_or(-1);
        if name == "openat" {
            if is_ours(line.rsplit_once(" = ").unwrap().1) {
                positions.insert(result, 0);
                seen.push(("open", None, None, result));
            }
            continue;
        }
        if !is_ours(args[0]) {
            continue;
        }
        let at = positions.get(&fd).copied();
        let moved = result.max(0);
        let mut move_on = |fd: i64| *positions.entry(fd).or_insert(0) += moved;
        match name {
            "read" | "write" => {
                move_on(fd);
                seen.push((
                    if name == "read" { "read" } else { "write" },
                    at,
                    number(2),
                    result,
                ));
            }
            "pread64" => seen.push(("read", number(3), number(2), result)),
            "pwrite64" => seen.push(("write", number(3), number(2), result)),
            "readv" | "preadv" | "preadv2" => {
                let lengths = args.iter().filter_map(|arg| arg.split_once("iov_len="));
                let length = lengths.map(|(_, length)| {
                    let digits = length.trim_end_matches(|c: char| !c.is_ascii_digit());
                    digits.parse::<i64>().expect("a length")
                });
                let length = Some(length.sum());
                if name == "readv" {
                    move_on(fd);
                    seen.push(("read", at, length, result));
                } else {
                    let behind = if name == "preadv2" { 2 } else { 1 };
                    seen.push(("read", number(args.len() - behind), length, result));
                }
            }
            "lseek" => {
                positions.insert(fd, result);
                seen.push(("seek", Some(result), None, result));
            }
            "ftruncate" => seen.push(("truncate", None, number(1), result)),
            "fallocate" => seen.push(("fallocate", number(2), number(3), result)),
            "fsync" => seen.push(("fsync", None, None, result)),
            "close" => seen.push(("close", None, None, result)),
            "fstat" | "newfstatat" => seen.push(("stat", None, None, result)),
            "sendfile" => {
                let source = number(1).unwrap_or(-1);
                let from = number(2).or(positions.get(&source).copied());
                seen.push(("transfer_read", from, number(3), result));
                seen.push(("transfer_write", at, number(3), result));
                *positions.entry(fd).or_insert(0) += moved;
                if number(2).is_none() {
                    *positions.entry(source).or_insert(0) += moved;
                }
            }
            "copy_file_range" => {
                let target = number(2).unwrap_or(-1);
                let to = number(3).or(positions.get(&target).copied());
                seen.push(("transfer_read", number(1).or(at), number(4), result));
                seen.push(("transfer_write", to, number(4), result));
                for (fd, given) in [(fd, number(1)), (target, number(3))] {
                    if given.is_none() {
                        *positions.entry(fd).or_insert(0) += moved;
                    }
                }
            }
            _ => {}
        }
    }
    seen
}

const PROGRAM: &str = r"
import os, sys, threading
def work(i):
    name = 'f%d' % i
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    for n in range(40):
        os.write(fd, b'x' * (100 + n))
    os.pwrite(fd, b'y' * 33, 12345 + i)
    os.lseek(fd, 77, os.SEEK_SET)
    os.read(fd, 500); os.read(fd, 100000); os.read(fd, 10)
    os.pread(fd, 50, 4096); os.pread(fd, 50, 1 << 40)
    os.lseek(fd, -5, os.SEEK_END)
    os.lseek(fd, 10, os.SEEK_SET)
    os.readv(fd, [bytearray(10), bytearray(200), bytearray(3)])
    os.preadv(fd, [bytearray(7), bytearray(8)], 1000)
    os.ftruncate(fd, 9000); os.posix_fallocate(fd, 100, 20000); os.fsync(fd); os.fstat(fd)
    out = os.open(name + '.out', os.O_CREAT | os.O_WRONLY)
    try: os.pread(out, 10, 20)
    except OSError: pass
    os.sendfile(out, fd, 64, 300); os.sendfile(out, fd, None, 200)
    os.copy_file_range(fd, out, 150); os.copy_file_range(fd, out, 5000, 11, 22)
    os.close(out); os.close(fd)
work(9)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
";

/// What `workload uring` asks its first ring for on the file `plain`, in order.
fn asked_of_io_uring() -> Vec<Seen> {
    let bad = -i64::from(libc::EBADF);
    let mut asked = vec![
        ("write", Some(0), Some(5000), 5000),
        ("write", Some(5000), Some(100), 100),
        ("read", Some(4000), Some(9000), 1100),
        ("read", Some(5100), Some(9000), 0),
        ("fsync", None, None, 0),
        ("fdatasync", None, None, 0),
        ("sync_file_range", Some(1024), Some(4096), 0),
        ("fallocate", Some(512), Some(1 << 16), 0),
        ("read", Some(0), Some(64), 64),
        ("fsync", None, None, 0),
        ("close", None, None, 0),
    ];
    asked.extend((0..8).map(|index| ("write", Some(300 * index), Some(300), 300)));
    asked.extend([
        ("fsync", None, None, 0),
        ("read", Some(0), Some(8), bad),
        ("close", None, None, 0),
    ]);
    asked
}

#[test]
fn requests_of_io_uring_have_what_they_asked_for() {
    let (_keep, dir) = directory();
    let plain = dir.join("plain");
    let run = Iotrace::record()
        .args(["--trace"])
        .workload(["uring".into(), dir.into_os_string()]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = whole(&run.recording);
    let inode = fs::metadata(plain).unwrap().ino();
    let mut rows = rows(&trace);
    rows.retain(|row| {
        let is_plain = trace.file(row).is_some_and(|file| file.inode == inode);
        is_plain && row.op as usize != op::OPEN
    });
    let seen: Vec<Seen> = rows
        .iter()
        .map(|row| {
            (
                op::NAMES[row.op as usize],
                row.offset,
                row.length,
                row.result,
            )
        })
        .collect();
    assert_eq!(seen, asked_of_io_uring());
}

#[test]
fn every_operation_is_as_strace_saw_it() {
    let (_keep, dir) = directory();
    let logs = dir.join("logs");
    fs::create_dir(&logs).unwrap();
    let work = dir.join("work");
    fs::create_dir(&work).unwrap();
    let prefix = logs.join("log");
    let run = Iotrace::record()
        .args(["--trace"])
        .current_dir(&work)
        .command([
            common::tool("strace").as_os_str(),
            "-ff".as_ref(),
            "-y".as_ref(),
            "-s4".as_ref(),
            "-o".as_ref(),
            prefix.as_os_str(),
            common::python().as_os_str(),
            "-c".as_ref(),
            PROGRAM.as_ref(),
        ]);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = open(&run.recording);
    let inodes: BTreeSet<u64> = fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().ino())
        .collect();
    let mut found: BTreeMap<u32, Vec<Seen>> = BTreeMap::new();
    for row in rows(&trace) {
        if trace
            .file(&row)
            .is_some_and(|file| inodes.contains(&file.inode))
        {
            let name = op::NAMES[row.op as usize];
            let seen = (name, row.offset, row.length, row.result);
            found.entry(row.tid).or_default().push(seen);
        }
    }
    let mut compared = 0;
    for entry in fs::read_dir(&logs).unwrap() {
        let path = entry.unwrap().path();
        let tid: u32 = path.extension().unwrap().to_str().unwrap().parse().unwrap();
        let log = fs::read_to_string(&path).unwrap();
        let seen = seen_by_strace(&log, work.to_str().unwrap());
        let rows = found.remove(&tid).unwrap_or_default();
        for (at, (seen, row)) in seen.iter().zip(&rows).enumerate() {
            assert_eq!(seen, row, "call {at} of thread {tid}");
        }
        assert_eq!(seen.len(), rows.len(), "thread {tid}");
        compared += seen.len();
    }
    assert!(
        found.is_empty(),
        "threads that strace did not see: {found:?}"
    );
    assert!(compared > 5 * 60, "{compared} calls compared");
}

#[test]
fn three_million_operations() {
    let (_keep, dir) = directory();
    let iotrace = Iotrace::record().args(["--trace-buffer", "256M"]);
    let run = reads(iotrace, &dir, 3_000_000, 2);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = whole(&run.recording);
    assert!(trace.operations + trace.about.lost() > 3_000_000);
    assert_eq!(trace.about.lost(), 0, "lost");
    let each = trace.about.bytes as f64 / trace.operations as f64;
    assert!(each < 10.0, "{each} bytes an operation");
    let mut on_disk = 0;
    for entry in fs::read_dir(&run.recording).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("trace-") {
            let files = fs::read_dir(entry.path()).unwrap().map(Result::unwrap);
            // Beside their checksums.
            let files = files.filter(|file| file.file_name() != "checksums");
            on_disk += files
                .map(|file| file.metadata().unwrap().len())
                .sum::<u64>();
        }
    }
    assert_eq!(trace.about.bytes, on_disk, "bytes said and there");
}

#[test]
fn what_finds_its_ring_full_is_counted_by_process() {
    let (_keep, dir) = directory();
    let iotrace = Iotrace::record().args(["--trace-buffer", "1"]);
    let run = reads(iotrace, &dir, 400_000, 2);
    let trace = whole(&run.recording);
    assert!(trace.about.lost() > 0, "nothing was lost");
    assert!(trace.operations > 0, "everything was lost");
    let report = run.truth_and_report().1;
    assert_eq!(report["trace"]["lost"], trace.about.lost());
    let share = report["trace"]["lost_share"].as_f64().unwrap();
    assert!((share - trace.about.lost_share()).abs() < 1e-9, "{share}");
}

#[test]
fn a_trace_stays_within_its_size() {
    let (_keep, dir) = directory();
    let iotrace = Iotrace::record()
        .flush("200ms")
        .args(["--trace-max-size", "200K"]);
    let run = reads(iotrace, &dir, 1_500_000, 2);
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let trace = whole(&run.recording);
    assert!(trace.about.left_out() > 0, "nothing was left out");
    assert!(trace.operations > 0, "everything was left out");
    assert!(
        trace.about.bytes <= 220 << 10,
        "{} bytes",
        trace.about.bytes
    );
    run.says(&["reached its size"]);
}

/// Records a shell's work under filters.
#[test]
fn filters_choose_paths() {
    let (_keep, dir) = directory();
    trace::filters_choose_paths(&Iotrace::record, &dir);
}

#[test]
fn filters_choose_phases() {
    let (_keep, dir) = directory();
    trace::filters_choose_phases(&Iotrace::record, &dir);
}

#[test]
fn filters_choose_durations() {
    let (_keep, dir) = directory();
    trace::filters_choose_durations(&Iotrace::record, &dir);
}

#[test]
fn a_filter_that_matches_nothing_is_named() {
    for (filter, is_empty) in [("path=/none/*", true), ("path=/**", false)] {
        let record = Iotrace::record().args(["--trace", "--trace-filter", filter]);
        let finished = record.command(["cat", "/proc/self/stat"]);
        let warning = format!("no operation matched --trace-filter {filter}");
        let stderr = &finished.stderr;
        assert_eq!(stderr.contains(&warning), is_empty, "{stderr}");
    }
}

#[test]
fn filters_choose_programs_by_their_name() {
    let (_keep, dir) = directory();
    trace::filters_choose_names(&Iotrace::record, &dir);
}

/// A shell that waits for a line before it works.
fn waiting_shell(dir: &Path, script: &str) -> Child {
    let script = format!("read line; {script}");
    Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh")
}

#[test]
fn filters_choose_processes() {
    let (_keep, dir) = directory();
    let mut shell = waiting_shell(&dir, "echo hello >own; cat own own >copy; echo more >>own");
    let pid = shell.id();
    let mut running = Iotrace::record()
        .flush("100ms")
        .args(["--trace", "--pid", &pid.to_string()])
        .args([
            "--trace-filter",
            &format!("pid={pid}"),
            "--trace-filter",
            "path=own",
        ])
        .start();
    running.until_recording();
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    wait_for(&mut shell, Duration::from_secs(60));
    let run = running.wait();
    let trace = open(&run.recording);
    let rows = rows(&trace);
    assert!(rows.iter().all(|row| row.pid == pid), "{rows:?}");
    let writes = rows.iter().filter(|row| row.op as usize == op::WRITE);
    let writes: Vec<_> = writes
        .map(|row| (row.offset, row.length, row.result))
        .collect();
    assert_eq!(writes, [(Some(0), Some(6), 6), (Some(6), Some(5), 5)]);
}

#[test]
fn a_killed_recorder_leaves_what_it_had_flushed() {
    let (_keep, dir) = directory();
    let mut running = Iotrace::record()
        .flush("100ms")
        .args(["--trace"])
        .start_command([
            common::workload().into_os_string(),
            "reads".into(),
            dir.clone().into_os_string(),
            // More than it comes to before it is killed.
            "100000000".into(),
            "1".into(),
        ]);
    running.until_recording();
    let part = running.recording().join("trace-000002");
    let started = Instant::now();
    while !part.exists() {
        assert!(
            started.elapsed() < Duration::from_secs(300),
            "no second part"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    running.kill_all();
    let run = running.wait();
    let trace = open(&run.recording);
    assert!(trace.operations > 0);
    let rows = rows(&trace);
    assert_eq!(rows.len() as u64, trace.operations);
    assert!(
        !iotrace_recording::read(&run.recording)
            .unwrap()
            .is_complete()
    );
}

#[test]
fn a_damaged_trace_is_said_to_be() {
    let (_keep, dir) = directory();
    let run = reads(Iotrace::record(), &dir, 1000, 1);
    let part = run.recording.join("trace-000001");
    let file = part.join("operations.parquet");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let error = Trace::open(&run.recording).unwrap_err().to_string();
    assert!(error.contains("operations.parquet is damaged"), "{error}");
    fs::remove_dir_all(&part).unwrap();
    let error = Trace::open(&run.recording).unwrap_err().to_string();
    assert!(error.contains("it is missing"), "{error}");
}

#[test]
fn wrong_options_are_refused() {
    for (args, words) in [
        (&["--trace-filter", "phase=log"][..], &["--trace"][..]),
        (
            &["--trace", "--trace-filter", "phase=save"],
            &["save", "phases list"],
        ),
        (
            &["--trace", "--trace-filter", "size=4"],
            &["size=4", "min-duration"],
        ),
        (&["--trace", "--trace-filter", "path=a**["], &["a**["]),
        (&["--trace", "--trace-max-size", "much"], &["much"]),
    ] {
        let run = Iotrace::record().args(args).command(["true"]);
        assert_ne!(run.code(), 0, "{args:?}");
        run.says(words);
    }
}
