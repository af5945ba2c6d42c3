//! A run like a small training job.

use iotrace_common::{
    key::FileId,
    op,
    value::{Io, IoFull},
};

use iotrace_model::{
    Model,
    counters::*,
    input::{Event, FileName, Place, ProcessId},
    run::{Clock, Run, Target},
};

const SECOND: u64 = 1_000_000_000;

/// Of twelve seconds, that lost nothing.
pub fn run() -> Run {
    Run {
        iotrace_version: "0.1.0".into(),
        host: "gpu-7".into(),
        kernel: "6.18.0".into(),
        boot_id: "b".into(),
        hook: "btf".into(),
        detail: "full".into(),
        target: Target::Command(vec!["python3".into(), "examples/train.py".into()]),
        exit_code: Some(0),
        start_unix_ns: 1_763_682_780 * SECOND as i64,
        duration_ns: 12_400_000_000,
        clock: Clock {
            realtime_minus_monotonic_ns: 1_763_682_000 * SECOND as i64,
            realtime_minus_boottime_ns: 1_763_682_000 * SECOND as i64,
        },
        clock_step_ns: 0,
        merged_time: iotrace_model::run::MergedTime::default(),
        block: false,
        memory_bytes: 16 << 30,
        room_bytes: std::collections::BTreeMap::new(),
        in_flight: Vec::new(),
        losses: [
            ("skipped".to_owned(), 1234),
            ("recursion_misses".to_owned(), 0),
        ]
        .into(),
        trace: None,
        timeline: None,
        uprobes: Vec::new(),
    }
}

pub fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start: pid }
}

pub fn name(inode: u64, path: &[u8], mode: u32) -> Event {
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode,
    };
    let path = path.to_vec();
    Event::File(FileName {
        file,
        path,
        size: 110_000,
        mode,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    })
}

/// The place of a file that [`name`] named.
pub fn place(inode: u64) -> Place {
    Place::File(FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode,
    })
}

pub fn counted(values: &[(usize, u64)]) -> Counters {
    let mut counters = Counters::ZERO;
    values
        .iter()
        .for_each(|(index, value)| counters.v[*index] = *value);
    counters
}

/// Two workers that read shards, one trainer that writes a checkpoint, a hostile name, failures, a directory.
pub fn training() -> Model {
    let mut model = Model::default();
    model.update_mounts(
        b"1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /data rw - lustre mgs:/fs rw",
    );
    let args = vec![b"python3".to_vec(), b"examples/train.py".to_vec()];
    let comm = b"python3".to_vec();
    let start_boottime = 779 * SECOND;
    model.event(Event::Exec {
        process: process(4242),
        start_boottime,
        parent: 1,
        rights: iotrace_common::rights::Rights::of_user(0),
        comm,
        args,
    });
    model.event(Event::Exe {
        process: process(4242),
        path: b"/usr/bin/python3.13".to_vec(),
    });
    for worker in [4243, 4244] {
        model.event(Event::Fork {
            parent: process(4242),
            child: process(worker),
            child_start_boottime: 780 * SECOND,
            rights: iotrace_common::rights::Rights::of_user(0),
            comm: b"python3".to_vec(),
        });
        model.event(Event::Exit {
            process: process(worker),
            time: 790 * SECOND,
            status: 9,
        });
        for shard in 0..30 {
            read_shard(&mut model, worker, shard);
        }
    }
    write_checkpoint(&mut model);
    model.event(name(900, b"/tmp/evil\n\x1b[31m\xff", 0o100_644));
    let evil = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 900,
    };
    model.add(
        process(4242),
        Place::File(evil),
        &counted(&[
            (OPENS, 1),
            (META_NS, 190_000_000),
            (FIRST_OPERATION, 781 * SECOND),
        ]),
    );
    model.event(name(901, b"/usr/lib/python3.13", 0o040_755));
    let directory = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 901,
    };
    model.add(
        process(4242),
        Place::File(directory),
        &counted(&[(GETDENTS, 4), (STATS, 9), (META_NS, 40_000)]),
    );
    let by_name = [
        (STATS, 3_210),
        (RENAMES, 1),
        (FAILURES, 902),
        (META_NS, 3_000_000),
        (FAILED_NS, 1_100_000),
    ];
    model.add(process(4242), Place::PathOnly, &counted(&by_name));
    model.add_failures(
        process(4242),
        Place::PathOnly,
        op::OPEN as u32,
        2,
        700,
        900_000,
    );
    model.add_failures(
        process(4242),
        Place::PathOnly,
        op::STAT as u32,
        2,
        200,
        190_000,
    );
    model.add_failures(
        process(4242),
        Place::PathOnly,
        op::OPEN as u32,
        13,
        2,
        10_000,
    );
    model
}

fn read_shard(model: &mut Model, worker: u32, shard: u64) {
    let file = FileId {
        device: 40,
        generation: 1,
        inode: 100 + shard,
    };
    let path =
        format!("/data/imagenet/train/a-directory-with-a-long-name/epoch/shard-{shard:06}.tar")
            .into_bytes();
    model.event(Event::File(FileName {
        file,
        path,
        size: 0,
        mode: 0o100_644,
        magic: 0,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }));
    let mut io = Io {
        bytes_read: 10 << 20,
        first_operation: 781 * SECOND,
        last_operation: 789 * SECOND,
        ..Io::ZERO
    };
    let mut full = IoFull {
        read_sizes: [1, 0, 0, 0, 10, 0, 0, 0, 0, 0],
        consecutive_reads: 8,
        sequential_reads: 9,
        file_unaligned: 1,
        max_byte_read: (10 << 20) - 1,
        slowest_read_ns: 9_000_000 + shard,
        slowest_read_bytes: 1 << 20,
        first_start: [781 * SECOND, 782 * SECOND, 0, 789 * SECOND],
        last_end: [782 * SECOND, 788 * SECOND, 0, 789 * SECOND],
        merged_ns: [40_000_000, 0, 80_000],
        ..IoFull::ZERO
    };
    full.access_sizes.value[..2].copy_from_slice(&[1 << 20, 4097]);
    full.access_sizes.calls[..2].copy_from_slice(&[9, 1]);
    (full.strides.value[0], full.strides.calls[0]) = (512, 3);
    io.calls[op::OPEN] = 1;
    io.calls[op::READ] = 11;
    io.calls[op::CLOSE] = 1;
    io.zero_reads = 1;
    io.ns = [45_000_000 + shard * 1_000_000, 0, 90_000, 0];
    for counters in [Counters::from(&io), Counters::from(&full)] {
        model.add(process(worker), Place::File(file), &counters);
    }
}

fn write_checkpoint(model: &mut Model) {
    model.event(name(500, b"/ckpt/model.pt.tmp", 0o100_644));
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 500,
    };
    let mut counters = counted(&[
        (OPENS, 1),
        (WRITES, 64),
        (FSYNCS, 1),
        (CLOSES, 1),
        (BYTES_WRITTEN, 64 << 20),
        (WRITE_NS, 31_000_000),
        (SYNC_NS, 240_000_000),
        (WRITE_SIZE_100K_1M, 64),
        (SEQUENTIAL_WRITES, 63),
        (CONSECUTIVE_WRITES, 63),
        (CREATE_MODE, 0o644),
    ]);
    counters.sizes.add(1 << 20, 64);
    model.add(process(4242), Place::File(file), &counters);
    let (from, to) = (b"/ckpt/model.pt.tmp".to_vec(), b"/ckpt/model.pt".to_vec());
    model.event(Event::Rename {
        process: process(4242),
        time: 790 * SECOND,
        from,
        to,
        exchange: false,
    });
}
