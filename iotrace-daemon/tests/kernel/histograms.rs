//! Histograms hold what the counters hold: operation for operation, nanosecond for nanosecond, byte for byte.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use crate::{common, engine::loaded};
use iotrace_common::{
    bucket::SIZES,
    histogram::Histograms,
    op::{self, class, class_of},
    value::{Io, IoFull},
};
use iotrace_tracer::drain::Batch;
use iotrace_tracer::engine::Engine;
use iotrace_tracer::kernel::{ByPhase, Detail, HookChoice, Options};

/// What the counters of all threads hold, as a histogram would show it: all operations of a class in its first bucket.
#[derive(Default)]
struct Counted {
    classes: [u64; class::COUNT],
    ns: [u64; class::COUNT],
    bytes: [u64; 2],
    /// By size, transfers left out.
    sizes: [[u64; SIZES]; 2],
    zero_reads: u64,
    transfers: [u64; 2],
}

impl Counted {
    fn add(&mut self, io: &Io) {
        for (op, calls) in io.calls.iter().enumerate() {
            self.classes[class_of(op)] += u64::from(*calls);
        }
        self.classes[class::FAILED] += u64::from(io.failures);
        // Opens are metadata in the counters.
        let groups = [class::READ, class::WRITE, class::METADATA, class::SYNC];
        for (class, ns) in groups.into_iter().zip(io.ns) {
            self.ns[class] += ns;
        }
        self.ns[class::FAILED] += io.failed_ns;
        self.bytes[0] += io.bytes_read;
        self.bytes[1] += io.bytes_written;
        self.zero_reads += u64::from(io.zero_reads);
        self.transfers[0] += u64::from(io.calls[op::TRANSFER_READ]);
        self.transfers[1] += u64::from(io.calls[op::TRANSFER_WRITE]);
    }

    fn add_full(&mut self, full: &IoFull) {
        for (sum, calls) in self.sizes[0].iter_mut().zip(full.read_sizes) {
            *sum += u64::from(calls);
        }
        for (sum, calls) in self.sizes[1].iter_mut().zip(full.write_sizes) {
            *sum += u64::from(calls);
        }
    }
}

/// Traces a mode of the counting program with histograms: what the counters say, and the histograms.
fn trace(hook: HookChoice, mode: &[&str]) -> (Counted, ByPhase) {
    let (_keep, dir) = common::directory();
    let options = Options {
        detail: Detail::Full,
        histograms: true,
        map_entries: Some(4096),
        ..Options::least()
    };
    let attached = loaded(&options).attach_what_there_is(hook).unwrap();
    let Engine {
        mut kernel,
        mut drain,
        ..
    } = attached.prove().unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", "read go && exec \"$0\" \"$@\""])
        .arg(common::workload())
        .arg(mode[0])
        .arg(&dir)
        .args(&mode[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    kernel.add_target(shell.id()).unwrap();
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert!(shell.wait().unwrap().success());
    let mut counted = Counted::default();
    let mut take = |batch: Batch| match batch {
        Batch::Basic((_, values)) | Batch::BasicOverflow((_, values)) => {
            values.iter().for_each(|io| counted.add(io));
        }
        Batch::Full((_, values)) | Batch::FullOverflow((_, values)) => {
            values.iter().for_each(|full| counted.add_full(full));
        }
        _ => {}
    };
    drain.counters(&mut take).unwrap();
    let histograms = kernel.histograms().unwrap().expect("they are kept");
    assert_eq!(kernel.losses().unwrap()["lost_operations"], 0);
    kernel.detach().unwrap();
    (counted, histograms)
}

#[track_caller]
fn same(counted: &Counted, by_phase: &ByPhase) {
    let mut all = Histograms::default();
    by_phase.iter().for_each(|phase| all.add(phase));
    for (class, durations) in all.durations.iter().enumerate() {
        let name = class::NAMES[class];
        let calls: u64 = durations.calls.iter().sum();
        assert_eq!(calls, counted.classes[class], "{name}");
    }
    let ns = |class: usize| all.durations[class].ns;
    assert_eq!(ns(class::READ), counted.ns[class::READ]);
    assert_eq!(ns(class::WRITE), counted.ns[class::WRITE]);
    assert_eq!(ns(class::SYNC), counted.ns[class::SYNC]);
    assert_eq!(ns(class::FAILED), counted.ns[class::FAILED]);
    assert_eq!(
        ns(class::OPEN) + ns(class::METADATA),
        counted.ns[class::METADATA]
    );
    for (direction, sizes) in all.sizes.iter().enumerate() {
        assert_eq!(sizes.bytes, counted.bytes[direction]);
        let mut expected = counted.sizes[direction];
        if direction == 0 {
            expected[0] -= counted.zero_reads;
        }
        // Transfers are in no bucket of the counters, and may be in any here.
        let more: Vec<u64> = sizes
            .calls
            .iter()
            .zip(expected)
            .map(|(now, then)| now.checked_sub(then).expect("no bucket lacks a call"))
            .collect();
        assert_eq!(more.iter().sum::<u64>(), counted.transfers[direction]);
    }
}

#[test]
fn every_call_is_in_one_bucket() {
    for hook in [HookChoice::Btf, HookChoice::Tracepoint] {
        let (counted, histograms) = trace(hook, &["every-call"]);
        assert!(counted.classes.iter().all(|calls| *calls > 0));
        assert!(counted.transfers.iter().all(|calls| *calls > 0) && counted.zero_reads > 0);
        same(&counted, &histograms);
    }
}

#[test]
fn sizes_of_all_kinds_are_in_their_buckets() {
    let (counted, histograms) = trace(HookChoice::Auto, &["pattern", "11"]);
    assert!(counted.sizes[0].iter().filter(|calls| **calls > 0).count() > 3);
    same(&counted, &histograms);
}

#[test]
fn threads_lose_nothing_to_each_other() {
    let (counted, histograms) = trace(HookChoice::Auto, &["threads-on-one"]);
    assert!(counted.classes[class::READ] > 1000);
    same(&counted, &histograms);
}
