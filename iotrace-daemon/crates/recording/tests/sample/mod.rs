//! A recording that has every table and every column.

use std::{path::Path, sync::Arc};

use iotrace_common::{
    block::{Requests, Transfers},
    global_merged::{GROUPS, Time},
    key::{FileId, IoKey},
    library::Calls,
    op,
    trace::{Missing, NONE, Operation},
};
use iotrace_model::{
    About, FailureCount, IoTotals, Model,
    block::{Classes, Device},
    computing::CpuTime,
    counters::{Counters, FAILURES, STATS, TABLE},
    environ::{RANKS, Rank, Role},
    input::{Event, FileName, Place, ProcessId},
    library::Range,
    lines::{Counts as LineCounts, Lined, Place as LinePlace},
    run::{Clock, MergedTime, Run, Target},
    sources::SourceLine,
    waits::{Leaf, Waited},
};
use iotrace_recording::{Recorder, trace::TraceWriter};

const SECOND: u64 = 1_000_000_000;
const P: ProcessId = ProcessId { pid: 100, start: 7 };
const Q: ProcessId = ProcessId {
    pid: 101,
    start: 4_000_000_000,
};

pub fn run() -> Run {
    Run {
        iotrace_version: "0.1.0".into(),
        host: "gpu-7".into(),
        kernel: "6.18.0".into(),
        boot_id: "f00d".into(),
        hook: "btf".into(),
        detail: "full".into(),
        target: Target::Command(vec!["python3".into()]),
        exit_code: None,
        start_unix_ns: 1_763_682_780_123_456_789,
        duration_ns: 0,
        clock: Clock {
            realtime_minus_monotonic_ns: 1_763_682_000_000_000_001,
            realtime_minus_boottime_ns: 1_763_681_000_000_000_002,
        },
        clock_step_ns: 0,
        merged_time: MergedTime::Exact,
        block: true,
        memory_bytes: 16 << 30,
        room_bytes: [("/".to_owned(), 5)].into(),
        in_flight: Vec::new(),
        losses: [("skipped".to_owned(), 5)].into(),
        trace: None,
        timeline: None,
        uprobes: Vec::new(),
    }
}

fn file(inode: u64) -> FileId {
    FileId {
        device: 259 << 20 | 3,
        generation: u32::MAX,
        inode,
    }
}

/// What a version of the format knows.
pub struct Form {
    /// The columns of its counters, in order.
    pub counters: Vec<String>,
    /// Its operations are those below this number.
    pub ops: usize,
    /// Whether it counts by line of a program.
    pub has_lines: bool,
    /// Whether it says which files were there before.
    pub has_existed: bool,
    /// What threads can wait for.
    pub leaves: Vec<Leaf>,
}

impl Form {
    /// The newest version.
    pub fn newest() -> Self {
        Self {
            counters: counters(),
            ops: op::NAMES.len(),
            has_lines: true,
            has_existed: true,
            leaves: Leaf::ALL.to_vec(),
        }
    }
}

/// The columns of all counters, in order.
pub fn counters() -> Vec<String> {
    TABLE.iter().map(|one| one.column.to_owned()).collect()
}

/// Counters with a value in each of these columns, all different.
fn everything(seed: u64, columns: &[String]) -> Counters {
    let mut counters = Counters::ZERO;
    let known = self::counters();
    for (column, value) in columns.iter().zip(seed * 1_000 + 1..) {
        let index = known.iter().position(|known| known == column);
        counters.v[index.expect("a counter")] = value;
    }
    for size in 0..20 {
        counters.sizes.add(4096 + size, seed + size);
    }
    for stride in 0..5 {
        counters.strides.add(512 << stride, seed);
    }
    counters
}

fn named(inode: u64, path: &[u8], form: &Form) -> Event {
    Event::File(FileName {
        file: file(inode),
        path: path.to_vec(),
        size: 1 << 40,
        mode: if inode.is_multiple_of(5) {
            0o040_755
        } else {
            0o100_644
        },
        magic: 0x0bd0_0bd0,
        block_size: 4096,
        truncated: inode.is_multiple_of(3),
        deleted: inode.is_multiple_of(4),
        existed: form.has_existed && inode.is_multiple_of(7),
    })
}

/// What happens in one interval.
pub fn interval(model: &mut Model, seed: u64, form: &Form) {
    let everything = |seed| everything(seed, &form.counters);
    model.describe_process(
        P,
        About {
            start_boottime: 99 * SECOND,
            parent: 1,
            uid: Some(1000),
            rights: None,
            comm: b"py\xff".to_vec(),
            exe: b"/usr/bin/python3\xfe".to_vec(),
            args: vec![b"python3".to_vec(), b"a\nb \xfe".to_vec(), b"".to_vec()],
            role: Role {
                rank: Some(Rank {
                    number: 3,
                    variable: RANKS[1],
                }),
                job: Some("slurm:4242".into()),
            },
            execs: seed as u32,
            end: None,
            status: None,
        },
    );
    if seed == 2 {
        model.event(Event::Exit {
            process: P,
            time: 88 * SECOND + 1,
            status: 3 << 8,
        });
    }
    let names: [&[u8]; 7] = [
        b"/data/a",
        b"/data/a",
        b"/bad\xff\xfe",
        b"/new\nline",
        b"",
        b"/d",
        b"/data/x/y",
    ];
    for (inode, name) in (1..).zip(names) {
        if !name.is_empty() {
            model.event(named(inode, name, form));
        }
        model.add_sorted(
            if inode.is_multiple_of(2) { P } else { Q },
            Place::File(file(inode)),
            1 + (inode as u32 + seed as u32) % 8,
            &everything(inode + seed),
        );
        model.add_span(P, file(inode), inode as u32, &everything(inode * seed));
    }
    if seed == 2 {
        let (from, to) = (b"/data/x/y".to_vec(), b"/data/z".to_vec());
        model.event(Event::Rename {
            process: P,
            time: 5,
            from,
            to,
            exchange: false,
        });
    }
    let mut few = Counters::ZERO;
    few.v[STATS] = 3;
    few.v[FAILURES] = seed;
    model.add_sorted(P, Place::PathOnly, 0, &few);
    model.add_sorted(Q, Place::Overflow, 2, &everything(3));
    model.add_done(
        P,
        4,
        &IoTotals {
            operations: 1,
            bytes_read: 2,
            bytes_written: 3,
            ns: 4,
            merged_ns: 5,
        },
    );
    for errno in [2, 5, 512, 1000] {
        model.add_failures(P, Place::PathOnly, op::OPEN as u32, errno, 2 + seed, 999);
        model.add_failures(Q, Place::Overflow, op::READ as u32, errno, 2, 999);
        model.add_failures(Q, Place::File(file(2)), op::WRITE as u32, errno, 2, 999);
    }
    model.add_cpu(
        P,
        &CpuTime {
            cpu_ns: 5 * seed,
            computing_at_least_ns: 3,
            beside_at_most_ns: 2,
        },
    );
    model.add_cpu(
        Q,
        &CpuTime {
            cpu_ns: 7,
            computing_at_least_ns: 0,
            beside_at_most_ns: 1,
        },
    );
    model.computing_mut().add_length(5 * SECOND);
    for (index, leaf) in form.leaves.iter().copied().enumerate() {
        model.add_waited(&Waited {
            process: P,
            leaf,
            by: (index % 2 == 1).then_some(Q),
            file: (index % 3 == 1).then_some(file(1 + index as u64)),
            phase: (index % 10) as u16,
            ns: 1000 + seed + index as u64,
        });
    }
    for index in (0..4_u64).filter(|_| form.has_lines) {
        let place = |line| {
            Some(Arc::new(LinePlace {
                file: format!("/home/é/train{line}.py").into(),
                line,
                function: "Set.__getitem__".into(),
            }))
        };
        model.add_lined(&Lined {
            process: P,
            own: place(index as u32).filter(|_| index > 0),
            via: place(7).filter(|_| index == 2),
            phase: index as u16,
            counts: LineCounts {
                opens: 1 + index,
                reads: seed,
                writes: 2,
                others: 3,
                bytes_read: 4,
                bytes_written: 5,
                ns: 6,
                slow: 7,
                slow_ns: 8,
            },
        });
    }
    for line in (0..3_u32).filter(|_| form.has_lines) {
        model.sources_mut().add(SourceLine {
            file: "/home/é/train1.py".into(),
            line,
            text: (line > 0).then(|| "    ö = open(name)".into()),
        });
    }
    let mut times = [Time::default(); GROUPS];
    for (index, time) in times.iter_mut().enumerate() {
        *time = Time {
            ns: index as u64 * seed,
            uncertain_ns: index as u64 / 2,
        };
    }
    model.global_merged_mut().add(&times);
    let mut classes = Classes::default();
    for (index, class) in classes.iter_mut().enumerate().skip(1) {
        *class = Requests {
            requests: 3,
            bytes: index as u64,
            failures: 1,
            ns: 77,
            deepest: 4 + seed,
            ..Requests::default()
        };
        class.durations[index] = 2;
        class.durations[15] = 1;
    }
    model.block_mut().add_device(
        Device {
            number: 259 << 20,
            name: "nvme0n1".into(),
        },
        &classes,
    );
    model.add_transfers(
        Some(P),
        Some(file(1)),
        &Transfers {
            reads: 1,
            writes: 2,
            bytes_read: 4096,
            bytes_written: seed,
        },
    );
    model.add_transfers(
        None,
        Some(file(3)),
        &Transfers {
            reads: 0,
            writes: 2,
            bytes_read: 0,
            bytes_written: 8192,
        },
    );
    model.add_transfers(
        None,
        None,
        &Transfers {
            reads: 1,
            ..Transfers::default()
        },
    );
    model.add_negative_lookups_at(
        P,
        b"/usr/lib/python\xff",
        FailureCount { calls: 10, ns: 100 },
    );
    model.add_negative_lookups_at(
        P,
        b"",
        FailureCount {
            calls: seed,
            ns: 100,
        },
    );
    let mut calls = Calls {
        calls: 3,
        failures: 1,
        bytes: 9,
        ns: 8,
        slowest_ns: 7,
        slowest_bytes: 6,
        max_byte: 5,
        first: SECOND,
        last: 2 * SECOND,
        ..Calls::default()
    };
    calls.sizes[2] = 3;
    calls.sizes[9] = seed;
    model.restore_library_calls(
        P,
        0,
        Some(file(1)),
        (b"a.h5".to_vec(), b"/set\xff".to_vec()),
        &calls,
    );
    model.restore_library_calls(
        Q,
        20,
        None,
        (Vec::new(), Vec::new()),
        &Calls {
            calls: 1,
            ..Calls::default()
        },
    );
    model.restore_range(
        P,
        Range {
            process: 0,
            tid: 100,
            name: b"step \xff".to_vec(),
            depth: 1,
            start: 3 * SECOND,
            end: Some(4 * SECOND),
            is_mark: false,
            done: IoTotals {
                operations: 1,
                bytes_read: 2,
                bytes_written: 3,
                ns: seed,
                merged_ns: 0,
            },
        },
    );
    model.restore_range(
        Q,
        Range {
            process: 0,
            tid: 101,
            name: b"mark".to_vec(),
            depth: 0,
            start: 3 * SECOND,
            end: None,
            is_mark: true,
            done: IoTotals::default(),
        },
    );
}

/// An operation of the trace, one of the first `ops` operations.
pub fn operation(index: u64, ops: usize) -> Operation {
    let op = (index % ops as u64) as u32;
    Operation {
        key: IoKey {
            file: if index.is_multiple_of(7) {
                FileId::NONE
            } else {
                file(index % 1000)
            },
            tgid: 100,
            start: 7,
            tid: 100 + (index % 3) as u32,
            phase: (index % 10) as u32,
        },
        start: 100 * SECOND + index * 300,
        end: 100 * SECOND + index * 300 + index % 977,
        offset: if index.is_multiple_of(5) {
            NONE
        } else {
            index * 4096
        },
        length: if index.is_multiple_of(11) { NONE } else { 4096 },
        result: match index % 13 {
            0 => -2,
            1 => -512,
            2 => -700,
            3 => 17,
            _ => 4096,
        },
        op,
        epoch: 0,
    }
}

/// Fills a model with two intervals, and writes each into `directory`, with a trace of `operations`. It has what the form
/// knows.
pub fn record(directory: &Path, form: &Form, operations: u64) -> (Model, Run) {
    let (mut model, mut run) = (Model::with_history(), run());
    let mut recorder = Recorder::create(directory, &run).unwrap();
    interval(&mut model, 1, form);
    run.duration_ns = 5 * SECOND;
    recorder.flush(&mut model, &run).unwrap();
    interval(&mut model, 2, form);
    run.duration_ns = 8 * SECOND + 123;
    recorder.flush(&mut model, &run).unwrap();
    let mut trace = TraceWriter::new(recorder.directory(), run.clock, None);
    let missing = Missing {
        lost: 1,
        left_out: 2,
    };
    let operations = (0..operations)
        .map(|index| operation(index, form.ops))
        .collect();
    trace.write(operations, vec![(P, missing)]).unwrap();
    run.trace = Some(trace.summary());
    run.exit_code = Some(3);
    recorder.finish(&mut model, &run).unwrap();
    (model, run)
}
