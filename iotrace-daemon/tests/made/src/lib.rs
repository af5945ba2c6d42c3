//! Recordings that tests and measurements make by themselves, without a program that was traced.

use std::{collections::BTreeMap, path::Path};

use iotrace_common::key::FileId;
use iotrace_model::{
    Model,
    counters::*,
    input::{Event, FileName, Place, ProcessId},
    run::{Clock, MergedTime, Run, Target},
};
use iotrace_recording::{Error, Recorder};

const SECOND: u64 = 1_000_000_000;
/// Of [`epochs`]: processes that read, and the parts of the recording in an epoch.
const WORKER_COUNT: u64 = 4;
const PARTS_PER_EPOCH: u64 = 10;
/// Length of a part, nanoseconds.
const PART_NS: u64 = 5 * SECOND;
/// When the node's runs begin by `CLOCK_MONOTONIC`, nanoseconds.
const BEGIN_NS: u64 = 100 * SECOND;

/// A run that began 100 seconds after its node booted and lasted `seconds`. The wall clock is `offset` seconds ahead of the
/// time since boot.
pub fn run(host: &str, offset: i64, seconds: u64) -> Run {
    Run {
        iotrace_version: "0.1.0".into(),
        host: host.into(),
        kernel: "6.18.0".into(),
        boot_id: format!("boot of {host}"),
        hook: "btf".into(),
        detail: "full".into(),
        target: Target::Command(vec!["torchrun".into(), "train.py".into()]),
        exit_code: Some(0),
        start_unix_ns: (offset + 100) * SECOND as i64,
        duration_ns: seconds * SECOND,
        clock: Clock {
            realtime_minus_monotonic_ns: offset * SECOND as i64,
            realtime_minus_boottime_ns: offset * SECOND as i64,
        },
        clock_step_ns: 0,
        merged_time: MergedTime::default(),
        block: false,
        memory_bytes: 1 << 34,
        room_bytes: BTreeMap::new(),
        in_flight: Vec::new(),
        losses: BTreeMap::new(),
        trace: None,
        timeline: None,
        uprobes: Vec::new(),
    }
}

/// A regular file on ext4 is seen.
pub fn seen(file: FileId, path: Vec<u8>, size: u64) -> Event {
    Event::File(FileName {
        file,
        path,
        size,
        mode: 0o100_644,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    })
}

/// Records a job whose workers read as many files as a data set of images has, each once in each epoch and by any worker.
pub fn epochs(directory: &Path, files: u64, epochs: u64) -> Result<(), Error> {
    let (mut model, mut run) = (Model::with_spans(), run("gpu-1", 1_700_000_000, 0));
    model.update_mounts(b"1 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let mut recorder = Recorder::create(directory, &run)?;
    for epoch in 0..epochs {
        for part in 0..PARTS_PER_EPOCH {
            let begin = BEGIN_NS + run.duration_ns;
            for index in files * part / PARTS_PER_EPOCH..files * (part + 1) / PARTS_PER_EPOCH {
                let within = index * PART_NS * PARTS_PER_EPOCH / files;
                read(&mut model, epoch, index, begin + within % PART_NS);
            }
            run.duration_ns += PART_NS;
            recorder.flush(&mut model, &run)?;
        }
    }
    recorder.finish(&mut model, &run)
}

/// An image is opened, read to its end and closed.
fn read(model: &mut Model, epoch: u64, index: u64, begin: u64) {
    let file = FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode: 1000 + index,
    };
    let size = 50_000 + index % 977 * 128;
    if epoch == 0 {
        let path = format!("/data/imagenet/train/n{:08}/{index:08}.JPEG", index / 1300);
        model.event(seen(file, path.into_bytes(), size));
    }
    let (opened, end) = (begin + 10_000, begin + 200_000);
    let mut counters = Counters::ZERO;
    for (counter, value) in [
        (OPENS, 1),
        (READS, 2),
        (ZERO_READS, 1),
        (CLOSES, 1),
        (BYTES_READ, size),
        (READ_NS, 100_000),
        (UNION_READ_NS, 100_000),
        (META_NS, 10_000),
        (FIRST_OPERATION, begin),
        (LAST_OPERATION, end),
        (READ_SIZE_0_100, 1),
        (READ_SIZE_10K_100K, 1),
        (CONSECUTIVE_READS, 1),
        (SEQUENTIAL_READS, 1),
        (MAX_BYTE_READ, size - 1),
        (SLOWEST_READ_NS, 90_000),
        (SLOWEST_READ_BYTES, size),
        (FIRST_OPEN, begin),
        (FIRST_READ, opened),
        (FIRST_CLOSE, end - 1000),
        (LAST_OPEN, opened),
        (LAST_READ, end - 2000),
        (LAST_CLOSE, end),
        (MERGED_READ_NS, 100_000),
        (MERGED_META_NS, 10_000),
    ] {
        counters.v[counter] = value;
    }
    counters.sizes.add(size, 1);
    let worker = (index / WORKER_COUNT + index + epoch) % WORKER_COUNT;
    let process = ProcessId {
        pid: 100 + worker as u32,
        start: 7,
    };
    model.add(process, Place::File(file), &counters);
}
