//! Recordings that tests make by themselves, without a program that was traced.

use std::collections::BTreeMap;

use iotrace_common::key::FileId;
use iotrace_model::{
    input::{Event, FileName},
    run::{Clock, MergedTime, Run, Target},
};

const SECOND: u64 = 1_000_000_000;

/// A run on a node that had run for 100 seconds, and whose wall clock is so many seconds ahead of the time since its boot.
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
    })
}
