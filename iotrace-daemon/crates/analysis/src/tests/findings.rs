//! Each finding: a job that has it, and one that nearly does.

use iotrace_common::op;

use super::job::{Job, id, used};
use crate::findings::{Confidence, Severity, Subject, Value, thresholds};
use iotrace_model::{
    Model,
    computing::CpuTime,
    counters::*,
    input::{Place, ProcessId},
    run::CallInFlight,
    waits::{Leaf, Waited},
};
use iotrace_phases::phase::Phase;

const MIB: u64 = 1 << 20;

/// Reads of 85 bytes that are so many of 1,100 calls.
fn with_tiny_reads(tiny: u64) -> Job {
    let mut job = Job::new(10_000);
    let all = 1_100;
    job.count(
        used(1, "/data/labels.csv", 0, 100),
        &[
            (READS, all),
            (READ_SIZE_0_100, tiny),
            (READ_SIZE_10K_100K, all - tiny),
            (BYTES_READ, tiny * 85),
            (READ_NS, 1_000_000),
        ],
    );
    job
}

#[test]
fn tiny_reads() {
    let found = with_tiny_reads(1_050).finds("tiny-reads");
    assert!(found.evidence.contains(&("calls", Value::Count(1_050))));
    assert_eq!(found.subjects.len(), 1);
    with_tiny_reads(999).finds_no("tiny-reads");
    let mut nearly = with_tiny_reads(1_050);
    nearly.thresholds = nearly.thresholds.clone().with(thresholds::TINY_SHARE, 0.99);
    nearly.finds_no("tiny-reads");
    // The read of zero bytes that says that the file ends is no tiny read.
    let mut ends = Job::new(10_000);
    ends.count(
        used(1, "/data/a.csv", 0, 100),
        &[
            (READS, 3_000),
            (ZERO_READS, 1_400),
            (READ_SIZE_0_100, 1_400),
            (READ_SIZE_10K_100K, 1_600),
            (BYTES_READ, 1 << 24),
            (READ_NS, 1),
        ],
    );
    ends.finds_no("tiny-reads");
    // Files a little larger than a tiny read: no larger call could take more of them.
    let small = |calls: u64| {
        let mut job = Job::new(10_000);
        for file in 1..=1_000 {
            let path = format!("/data/{file}.jpg");
            let counters = [
                (OPENS, 1),
                (READS, calls),
                (READ_SIZE_1K_10K, calls),
                (BYTES_READ, 12_000),
                (READ_NS, 1_000_000),
            ];
            job.count(used(1, &path, 0, 100), &counters);
        }
        job
    };
    small(2).finds_no("tiny-reads");
    small(6).finds("tiny-reads");
}

#[test]
fn tiny_writes() {
    let writes = |tiny: u64, large: u64| {
        let mut job = Job::new(10_000);
        let counters = [
            (WRITES, tiny + large),
            (WRITE_SIZE_100_1K, tiny),
            (WRITE_SIZE_1M_4M, large),
            (BYTES_WRITTEN, 1 << 20),
            (WRITE_NS, 9),
        ];
        job.count(used(1, "/out/events.out.tfevents.1", 0, 100), &counters);
        job
    };
    writes(2_000, 10).finds("tiny-writes");
    writes(2_000, 2_001).finds_no("tiny-writes");
}

/// So many files of `size` bytes in a tree, read once in the given order.
fn with_tree(files: u64, size: u64, is_shuffled: bool) -> Job {
    let mut job = Job::new(10_000_000);
    job.program(1, 0);
    for turn in 0..files {
        let index = if is_shuffled {
            turn * 7_919 % files
        } else {
            turn
        };
        let path = format!("/data/train/n{:02}/{index:06}.jpg", index % 7);
        let path = if is_shuffled {
            path
        } else {
            format!("/data/train/n00/{index:06}.jpg")
        };
        job.file(&path, size);
        job.read(used(1, &path, turn * 10, turn * 10 + 9), size);
    }
    job
}

#[test]
fn small_files_at_random() {
    let found = with_tree(1_201, 100 << 10, true).finds("small-files-at-random");
    assert!(found.evidence.contains(&("files", Value::Count(1_201))));
    assert!(
        matches!(&found.subjects[0], Subject::Directory(path) if path.starts_with(b"/data/train/n"))
    );
    with_tree(997, 100 << 10, true).finds_no("small-files-at-random");
    with_tree(1_201, 100 << 10, false).finds_no("small-files-at-random");
    with_tree(1_201, 2 << 20, true).finds_no("small-files-at-random");
}

/// Look-ups that found nothing, beside opens that did.
fn with_lookups(not_found: u64, opens: u64) -> Job {
    let mut job = Job::new(10_000);
    job.program(1, 0);
    job.model.add(id(1), Place::PathOnly, &{
        let mut counters = Counters::ZERO;
        counters.v[FAILURES] = not_found;
        counters.v[FAILED_NS] = not_found * 500_000;
        counters
    });
    job.model.add_failures(
        id(1),
        Place::PathOnly,
        op::OPEN as u32,
        2,
        not_found,
        not_found * 500_000,
    );
    job.count(
        used(1, "/usr/lib/python3/os.py", 0, 10),
        &[(OPENS, opens), (META_NS, 1_000)],
    );
    job
}

#[test]
fn startup_metadata_storm() {
    let found = with_lookups(2_000, 3_000).finds("startup-metadata-storm");
    assert!(found.evidence.contains(&("not_found", Value::Count(2_000))));
    assert!(matches!(found.subjects[0], Subject::Process(0)));
    with_lookups(999, 10).finds_no("startup-metadata-storm");
    with_lookups(1_100, 8_900).finds_no("startup-metadata-storm");
}

#[test]
fn open_per_sample() {
    let opened = |opens: u64, bytes: u64| {
        let mut job = Job::new(10_000);
        job.file("/data/train.h5", 100 * MIB);
        job.program(1, 0);
        let counters = [
            (OPENS, opens),
            (CLOSES, opens),
            (READS, opens),
            (BYTES_READ, bytes),
            (META_NS, 2_000_000_000),
            (READ_NS, 1),
        ];
        job.count(used(1, "/data/train.h5", 0, 9_000), &counters);
        job
    };
    let found = opened(1_500, 100 * MIB).finds("open-per-sample");
    assert!(
        found
            .evidence
            .contains(&("bytes_per_open", Value::Bytes(100 * MIB / 1_500)))
    );
    opened(999, 100 * MIB).finds_no("open-per-sample");
    // Each open reads about all of it: passes, not samples.
    opened(1_500, 1_500 * 90 * MIB).finds_no("open-per-sample");
}

/// Reads a file every 100 ms.
fn read_on(job: &mut Job, times: std::ops::Range<u64>) {
    for start in times.step_by(100) {
        let path = format!("/data/at-{start}.tar");
        job.read(used(2, &path, start, start + 80), MIB);
    }
}

/// A run of 30 s with calls on one file.
fn with_calls(path: &str, values: &[(usize, u64)]) -> Job {
    let mut job = Job::new(30_000);
    job.count(used(1, path, 0, 25_000), values);
    job
}

#[test]
fn a_long_call() {
    const S: u64 = 1_000_000_000;
    let one_read = [(READS, 1), (READ_NS, 20 * S), (SLOWEST_READ_NS, 20 * S)];
    let found = with_calls("/data/a.bin", &one_read).finds("long-call");
    assert_eq!(found.title, "A single read took 20 s, 67 % of the run");
    assert_eq!(found.saving.severity, Severity::High);
    let syncs = |calls: u64| [(FSYNCS, calls), (SYNC_NS, 20 * S)];
    let found = with_calls("/out/log.txt", &syncs(1)).finds("long-call");
    assert!(
        found
            .evidence
            .contains(&("operation", Value::Text("sync".into())))
    );
    // As much time in many calls, a call that is short, and a file that tells what happens.
    with_calls("/out/log.txt", &syncs(100)).finds_no("long-call");
    let many_reads = [(READS, 100), (READ_NS, 20 * S), (SLOWEST_READ_NS, S)];
    with_calls("/data/a.bin", &many_reads).finds_no("long-call");
    let short = [(READS, 1), (READ_NS, 4 * S), (SLOWEST_READ_NS, 4 * S)];
    with_calls("/data/a.bin", &short).finds_no("long-call");
    with_calls("/sys/kernel/tracing/trace_pipe", &one_read).finds_no("long-call");
}

/// Saves of 2 s with so much of it in fsync.
fn with_saves(sync: u64) -> Job {
    let mut job = Job::new(100_000);
    for step in 0..2_u64 {
        let path = format!("/out/step_{step}.ckpt");
        job.write(
            used(1, &path, step * 20_000, step * 20_000 + 2_000),
            64 * MIB,
            sync,
        );
    }
    job
}

#[test]
fn checkpoint_bound_by_fsync() {
    let found = with_saves(1_500).finds("checkpoint-bound-by-fsync");
    assert!(
        found
            .evidence
            .contains(&("fsync_share", Value::Share(0.75)))
    );
    with_saves(900).finds_no("checkpoint-bound-by-fsync");
    // Training goes on meanwhile.
    let mut background = with_saves(1_500);
    read_on(&mut background, 0..30_000);
    background.finds_no("checkpoint-bound-by-fsync");
}

/// Two ranks that read; the first writes `first` of 100 MiB of a checkpoint, the other the rest.
fn with_writers(first: u64) -> Job {
    let mut job = Job::new(100_000);
    for rank in [10, 20] {
        job.program(rank, 1);
        job.read(
            used(rank, &format!("/data/shard-{rank}.tar"), 0, 100),
            16 * MIB,
        );
    }
    job.write(used(10, "/out/step_1.ckpt", 10_000, 13_000), first * MIB, 0);
    if first < 100 {
        job.write(
            used(20, "/out/step_1.rank1.ckpt", 10_000, 11_000),
            (100 - first) * MIB,
            0,
        );
    }
    job
}

#[test]
fn checkpoint_by_one_writer() {
    let found = with_writers(100).finds("checkpoint-by-one-writer");
    assert!(found.evidence.contains(&("ranks", Value::Count(2))));
    with_writers(60).finds_no("checkpoint-by-one-writer");
    // Training goes on meanwhile.
    let mut background = with_writers(100);
    read_on(&mut background, 200..20_000);
    background.finds_no("checkpoint-by-one-writer");
    // With one rank there is no other that could write.
    with_saves(0).finds_no("checkpoint-by-one-writer");
}

/// Reads before and behind a save of so many milliseconds in a run of 10 s.
fn with_pause(length: u64, is_read_meanwhile: bool) -> Job {
    let mut job = Job::new(10_000);
    job.read(used(2, "/data/a.tar", 0, 900), 16 * MIB);
    job.write(
        used(1, "/out/step_1.ckpt", 1_000, 1_000 + length),
        64 * MIB,
        0,
    );
    if is_read_meanwhile {
        read_on(&mut job, 1_000..1_000 + length);
    }
    job.read(used(2, "/data/c.tar", 5_000, 5_900), 16 * MIB);
    job
}

#[test]
fn training_stalled_by_checkpoints() {
    let found = with_pause(1_000, false).finds("training-stalled-by-checkpoints");
    assert!(
        found
            .evidence
            .contains(&("share_of_run", Value::Share(0.1)))
    );
    with_pause(400, false).finds_no("training-stalled-by-checkpoints");
    with_pause(1_000, true).finds_no("training-stalled-by-checkpoints");
    // Loader workers read until their queue is full.
    let mut queued = with_pause(2_000, false);
    queued.read(used(3, "/data/b.tar", 1_000, 1_500), MIB);
    let found = queued.finds("training-stalled-by-checkpoints");
    assert!(
        found
            .evidence
            .contains(&("share_of_run", Value::Share(0.2)))
    );
    // It is known that the main thread waited for nothing of the save, or for a part of it.
    for (held_up, is_found) in [(0, false), (300, false), (900, true)] {
        let mut known = with_pause(1_000, false);
        known
            .model
            .add_waited(&waited(1, Leaf::Running, None, 9_000));
        known
            .model
            .add_waited(&waited(1, Leaf::OfThatInCalls, None, held_up));
        let found = known.analysis().findings;
        let is_stalled = found
            .iter()
            .any(|found| found.code == "training-stalled-by-checkpoints");
        assert_eq!(is_stalled, is_found, "{held_up}");
    }
    // Nothing is read after the last save.
    let mut last = Job::new(10_000);
    last.read(used(2, "/data/a.tar", 0, 900), 16 * MIB);
    last.write(used(1, "/out/step_1.ckpt", 1_000, 5_000), 64 * MIB, 0);
    last.finds_no("training-stalled-by-checkpoints");
    // It pauses as long without a save.
    let mut slow = Job::new(20_000);
    for start in [0, 3_000, 6_000, 9_000, 12_000] {
        slow.read(used(2, "/data/a.tar", start, start + 900), 16 * MIB);
    }
    slow.write(used(1, "/out/step_1.ckpt", 4_000, 5_500), 64 * MIB, 0);
    slow.finds_no("training-stalled-by-checkpoints");
}

#[test]
fn main_threads_that_write_checkpoints_are_held_up_by_them() {
    let code = "training-stalled-by-checkpoints";
    let job = |saves: u64, in_calls: u64| {
        let mut job = Job::new(10_000);
        job.program(10, 1);
        for save in 0..saves {
            let path = format!("/out/step_{save}.ckpt");
            let start = 1_000 + 3_000 * save;
            job.write(used(10, &path, start, start + 1_000), 64 * MIB, 0);
        }
        for (leaf, ms) in [(Leaf::Running, 9_500), (Leaf::OfThatInCalls, in_calls)] {
            job.model.add_waited(&waited(10, leaf, None, ms));
        }
        job
    };
    // The last one is the end of the run.
    let found = job(3, 3_000).finds(code);
    assert_eq!(found.saving.at_most_ns, 2_000_000_000);
    job(1, 1_000).finds_no(code);
    // Another thread writes them.
    job(3, 100).finds_no(code);
}

/// Four forked workers that read so many MiB each; none for one that reads nothing.
fn with_workers(mib: [u64; 4]) -> Job {
    let mut job = Job::new(10_000);
    job.program(1, 0);
    for (index, mib) in mib.into_iter().enumerate() {
        let pid = 2 + index as u32;
        job.worker(pid, 1);
        if mib > 0 {
            job.read(
                used(pid, &format!("/data/shard-{index}.tar"), 10, 5_000),
                mib * MIB,
            );
        }
    }
    job
}

#[test]
fn unbalanced_workers() {
    let found = with_workers([100, 50, 50, 60]).finds("unbalanced-workers");
    assert!(matches!(found.subjects[0], Subject::Process(1)));
    with_workers([70, 50, 50, 60]).finds_no("unbalanced-workers");
    // Few bytes say nothing.
    with_workers([3, 1, 1, 1]).finds_no("unbalanced-workers");
}

#[test]
fn idle_workers() {
    let found = with_workers([50, 50, 0, 0]).finds("idle-workers");
    assert_eq!(found.subjects.len(), 2);
    with_workers([50, 50, 20, 20]).finds_no("idle-workers");
    with_workers([50, 50, 0, 0]).finds_no("unbalanced-workers");
    // They decode what the others read, or have no share in that.
    let decoded = |ms: [u64; 4]| {
        let mut job = with_workers([50, 50, 0, 0]);
        for (pid, ms) in (2..).zip(ms) {
            job.model
                .add_waited(&waited(1, Leaf::Computing, Some(id(pid)), ms));
        }
        job
    };
    decoded([0, 0, 900, 900]).finds_no("idle-workers");
    decoded([900, 900, 20, 20]).finds("idle-workers");
}

#[test]
fn too_few_cpus_for_its_threads_or_because_of_others() {
    for (other_threads, advice) in [
        (50, "Other programs"),
        (1_900, "Other programs"),
        (2_100, "Give the job more CPUs"),
    ] {
        let mut job = Job::new(10_000);
        job.program(1, 0);
        for (leaf, ms) in [(Leaf::Running, 6_000), (Leaf::RunQueue, 4_000)] {
            job.model.add_waited(&waited(1, leaf, None, ms));
        }
        let time = CpuTime {
            cpu_ns: (6_000 + other_threads) * 1_000_000,
            ..CpuTime::default()
        };
        job.model.add_cpu(id(1), &time);
        let found = job.finds("too-few-cpus");
        assert!(found.advice.starts_with(advice), "{}", found.advice);
    }
}

/// `ms` milliseconds of a program's main thread.
fn waited(pid: u32, leaf: Leaf, by: Option<ProcessId>, ms: u64) -> Waited {
    Waited {
        process: id(pid),
        leaf,
        by,
        file: None,
        phase: 0,
        ns: ms * 1_000_000,
    }
}

#[test]
fn unbalanced_ranks() {
    let ranks = |second: u64| {
        let mut job = Job::new(10_000);
        for (rank, mib) in [(10, 100), (20, second)] {
            job.program(rank, 1);
            job.read(
                used(rank, &format!("/data/shard-{rank}.tar"), 0, 5_000),
                mib * MIB,
            );
        }
        job
    };
    ranks(40).finds("unbalanced-ranks");
    ranks(80).finds_no("unbalanced-ranks");
    // A program that reads the data before is no rank.
    let mut other = ranks(40);
    other.runs(10, "/usr/bin/python3");
    other.runs(20, "/usr/bin/cat");
    other.finds_no("unbalanced-ranks");
    // Nor is one that has ended before.
    let mut before = ranks(40);
    before.ends(10, 5_100);
    before.program_later(20, 1, 5_200);
    before.finds_no("unbalanced-ranks");
}

/// Training files of 1 GiB on Lustre, read in `slow` ms, beside 1 GiB on the local disk that was read in `fast` ms.
fn on_two_mounts(slow: u64, fast: u64, stored: u64) -> Job {
    let mut job = Job::new(100_000);
    job.program(1, 0);
    job.file("/lustre/data/train.tar", 1 << 30);
    job.read(used(1, "/lustre/data/train.tar", 0, slow), 1 << 30);
    let model = used(1, "/models/a.safetensors", 0, fast);
    job.read(model, 1 << 30);
    job.count(model, &[(BYTES_FETCHED, stored)]);
    job
}

#[test]
fn stage_the_data_set() {
    let found = on_two_mounts(20_000, 2_000, 1 << 30).finds("stage-the-data-set");
    assert!(found.evidence.contains(&("bytes", Value::Bytes(1 << 30))));
    assert!(found.saving.at_most_ns.abs_diff(18_000_000_000) < 10_000_000);
    on_two_mounts(20_000, 11_000, 1 << 30).finds_no("stage-the-data-set");
    // The page cache is as fast on any mount.
    on_two_mounts(20_000, 2_000, 0).finds_no("stage-the-data-set");
    let mut full = on_two_mounts(20_000, 2_000, 1 << 30);
    full.run.room_bytes.insert("/".into(), 1 << 29);
    full.finds_no("stage-the-data-set");
}

/// Two epochs over 64 MiB, each of so many milliseconds in reads.
fn with_epochs(ms: u64) -> Job {
    with_epochs_of([ms, ms])
}

fn with_epochs_of(ms: [u64; 2]) -> Job {
    let mut job = Job::new(100_000);
    job.program(1, 0);
    for (epoch, ms) in (0..2).zip(ms) {
        for shard in 0..4 {
            let path = format!("/data/shard-{shard}.tar");
            if epoch == 0 {
                job.file(&path, 16 * MIB);
            }
            let from = epoch * 40_000 + shard * ms / 4;
            job.read(used(1, &path, from, from + ms / 4), 16 * MIB);
        }
        job.flush((epoch + 1) * 40_000);
    }
    job
}

#[test]
fn data_set_fits_in_memory() {
    with_epochs(20_000).finds("data-set-fits-in-memory");
    with_epochs(400).finds_no("data-set-fits-in-memory");
    let mut small = with_epochs(20_000);
    small.run.memory_bytes = 100 * MIB;
    small.finds_no("data-set-fits-in-memory");
    small.run.memory_bytes = 0;
    small.finds_no("data-set-fits-in-memory");
}

#[test]
fn slow_file() {
    let read = |last: u64| {
        let mut job = Job::new(100_000);
        job.program(1, 0);
        for shard in 0..8 {
            let length = if shard == 7 { last } else { 400 };
            let from = shard * 1_000;
            job.read(
                used(1, &format!("/data/shard-{shard}.tar"), from, from + length),
                16 * MIB,
            );
        }
        job
    };
    let found = read(4_000).finds("slow-file");
    assert_eq!(found.subjects, [Subject::File(7)]);
    read(1_600).finds_no("slow-file");
}

#[test]
fn slow_mount() {
    // Without room on the other there is nothing to stage to.
    let without_room = |slow, fast, stored| {
        let mut job = on_two_mounts(slow, fast, stored);
        job.run.room_bytes.clear();
        job
    };
    let found = without_room(20_000, 2_000, 1 << 30).finds("slow-mount");
    assert_eq!(found.saving.at_most_ns, 18_000_000_000);
    without_room(20_000, 5_000, 1 << 30).finds_no("slow-mount");
    // The page cache is as fast on any mount.
    without_room(20_000, 2_000, 0).finds_no("slow-mount");
    // Nothing to compare with.
    with_epochs(20_000).finds_no("slow-mount");
}

#[test]
fn at_detail_basic_sizes_say_nothing() {
    let mut job = Job::new(10_000);
    job.count(
        used(1, "/data/labels.csv", 0, 100),
        &[(READS, 50_000), (BYTES_READ, 50_000 * 85), (READ_NS, 1)],
    );
    job.finds_no("tiny-reads");
}

#[test]
fn a_run_without_anything_has_no_finding() {
    assert!(Job::new(1_000).analysis().findings.is_empty());
    assert!(Job::new(0).analysis().findings.is_empty());
}

/// Reads of training data by one process for so many milliseconds of ten seconds.
fn with_reader(pid: u32, ms: u64) -> Job {
    let mut job = Job::new(10_000);
    job.program(1, 0);
    if pid != 1 {
        job.worker(pid, 1);
    }
    let ns = ms * 1_000_000;
    job.count(
        used(pid, "/data/train.tfrecord", 0, ms),
        &[
            (OPENS, 1),
            (CLOSES, 1),
            (READS, 100),
            (BYTES_READ, 100 * MIB),
            (READ_NS, ns),
            (UNION_READ_NS, ns),
        ],
    );
    job
}

#[test]
fn input_bound() {
    let found = with_reader(1, 9_200).finds("input-bound");
    assert!(
        found
            .evidence
            .contains(&("share_of_run", Value::Share(0.92)))
    );
    assert!(found.advice.contains("more workers"));
    with_reader(1, 2_000).finds_no("input-bound");
    // A worker that waits for half of the time reads ahead of use.
    with_reader(2, 5_000).finds_no("input-bound");
    with_reader(2, 9_500).finds("input-bound");
    // So does one that is idle for a fifth of it.
    let read_ahead = |cpu: u64| {
        let mut job = Job::new(10_000);
        job.program(1, 0);
        job.worker(2, 1);
        for sample in 0..20 {
            let path = format!("/data/{sample}.tfrecord");
            let ns = 430 * 1_000_000;
            job.count(
                used(2, &path, sample * 500, sample * 500 + 430),
                &[
                    (READS, 1),
                    (BYTES_READ, MIB),
                    (READ_NS, ns),
                    (UNION_READ_NS, ns),
                ],
            );
        }
        job.computes(2, cpu);
        job
    };
    read_ahead(100).finds_no("input-bound");
    read_ahead(1_200).finds("input-bound");
}

#[test]
fn mapped_input_waits() {
    let with_faults = |ms: u64| {
        let mut job = Job::new(8_000);
        job.program(1, 0);
        job.count(
            used(1, "/data/train.tfrecord", 0, ms),
            &[
                (OPENS, 1),
                (MMAPS, 1),
                (FAULTS, 5_000),
                (TIMED_MAJOR_FAULTS, 5_000),
                (MAJOR_FAULT_NS, ms * 1_000_000),
            ],
        );
        job
    };
    let found = with_faults(7_300).finds("mapped-input-waits");
    assert!(found.evidence.contains(&("faults", Value::Count(5_000))));
    with_faults(700).finds_no("mapped-input-waits");
}

#[test]
fn small_files_are_not_read_by_larger_calls() {
    let mut job = Job::new(10_000);
    for index in 0..600 {
        job.count(
            used(1, &format!("/data/{index}.csv"), 0, 100),
            &[
                (OPENS, 1),
                (READS, 2),
                (READ_SIZE_1K_10K, 2),
                (BYTES_READ, 7 << 10),
                (READ_NS, 1_000_000),
                (MAX_BYTE_READ, (7 << 10) - 1),
            ],
        );
    }
    job.finds_no("tiny-reads");
}

#[test]
fn a_call_that_hangs() {
    let with_call = |seconds: u64| {
        let mut job = Job::new(100_000);
        job.run.in_flight.push(CallInFlight {
            pid: 7,
            tid: 8,
            operation: "write".into(),
            path: Some("/lustre/out/model.pt".into()),
            mount_point: Some("/lustre".into()),
            fs_type: Some("lustre".into()),
            phase: 3,
            began_before: false,
            start_unix_ns: 0,
            ns: seconds * 1_000_000_000,
        });
        job
    };
    let found = with_call(60).finds("call-hangs");
    assert_eq!(found.subjects, [Subject::Mount(b"/lustre".to_vec())]);
    with_call(3).finds_no("call-hangs");
}

/// Two epochs over 64 MiB that take so many milliseconds each; of the second, so much comes from storage.
fn with_cold_epoch(first: u64, second: u64, fetched_again: u64) -> Job {
    let mut job = Job::new(100_000);
    job.program(1, 0);
    for (epoch, ms, fetched) in [(0, first, 16 * MIB), (1, second, fetched_again)] {
        for shard in 0..4 {
            let path = format!("/data/shard-{shard}.tar");
            if epoch == 0 {
                job.file(&path, 16 * MIB);
            }
            let from = epoch * 40_000 + shard * ms / 4;
            let one = used(1, &path, from, from + ms / 4);
            job.read_from_storage(one, 16 * MIB, fetched);
        }
        job.flush((epoch + 1) * 40_000);
    }
    job
}

#[test]
fn cold_first_epoch() {
    let found = with_cold_epoch(20_000, 1_000, 0).finds("cold-first-epoch");
    assert_eq!(found.saving.at_most_ns, 19_000_000_000);
    assert_eq!(found.saving.severity, Severity::Medium);
    // Less than five seconds; less than three times as long; no faster the second time.
    with_cold_epoch(4_000, 100, 0).finds_no("cold-first-epoch");
    with_cold_epoch(20_000, 8_000, 0).finds_no("cold-first-epoch");
    with_cold_epoch(20_000, 1_000, 16 * MIB).finds_no("cold-first-epoch");
    with_epochs(20_000).finds_no("cold-first-epoch");
    let found = with_epochs_of([20_000, 1_000]).finds("cold-first-epoch");
    assert_eq!(
        found.saving.confidence,
        Confidence::Low,
        "the kernel does not tell"
    );
}

/// Two ranks that each read the first `mib` of 64 MiB in four shards, once.
fn with_ranks(shards: [&[u64]; 2]) -> Job {
    let mut job = Job::new(10_000);
    for shard in 0..4 {
        job.file(&format!("/data/shard-{shard}.tar"), 16 * MIB);
    }
    for (rank, shards) in [10, 20].into_iter().zip(shards) {
        job.program(rank, 1);
        for (turn, shard) in shards.iter().enumerate() {
            let from = turn as u64 * 1_000;
            let path = format!("/data/shard-{shard}.tar");
            job.read(used(rank, &path, from, from + 900), 16 * MIB);
        }
    }
    job
}

#[test]
fn read_again_by_ranks() {
    let found = with_ranks([&[0, 1, 2, 3], &[1, 0, 3, 2]]).finds("read-again-by-ranks");
    assert!(found.evidence.contains(&("ranks", Value::Count(2))));
    assert_eq!(found.saving.at_most_ns, 3_600_000_000);
    with_ranks([&[0, 2], &[1, 3]]).finds_no("read-again-by-ranks");
    // Validation on one of them.
    with_ranks([&[0, 1, 2, 3], &[]]).finds_no("read-again-by-ranks");
    // Programs that run one after the other, three passes each.
    let mut job = Job::with_spans(40_000);
    [10, 11].iter().for_each(|pid| job.program(*pid, 1));
    for shard in 0..4 {
        job.file(&format!("/data/shard-{shard}.tar"), 16 * MIB);
    }
    for turn in 0..24_u64 {
        let (pid, from) = (10 + turn as u32 / 12, turn * 1_000);
        let path = format!("/data/shard-{}.tar", turn % 4);
        job.read(used(pid, &path, from, from + 900), 16 * MIB);
        job.flush(from + 1_000);
    }
    job.finds_no("read-again-by-ranks");
    assert_eq!(job.analysis().epochs.epochs.len(), 6);
}

/// Shards of 4 MiB that are opened one behind the other, so often each, and of which so many bytes are read in each open.
fn with_opens(shards: u64, opens: u64, bytes: u64) -> Job {
    let mut job = Job::new(100_000);
    job.program(1, 0);
    for turn in 0..shards * opens {
        let path = format!("/data/shard-{}.tar", turn % shards);
        job.file(&path, 4 * MIB);
        let from = turn * 1_000;
        job.count(
            used(1, &path, from, from + 900),
            &[
                (OPENS, 1),
                (CLOSES, 1),
                (READS, bytes / MIB),
                (BYTES_READ, bytes),
                (READ_NS, 900_000_000),
                (MAX_BYTE_READ, 4 * MIB - 1),
            ],
        );
        job.flush(from + 1_000);
    }
    job
}

#[test]
fn read_amplification() {
    let found = with_opens(4, 1, 20 * MIB).finds("read-amplification");
    assert!(
        found
            .evidence
            .contains(&("bytes_of_the_files", Value::Bytes(16 * MIB)))
    );
    // Four of the five reads of 900 ms each, of four files.
    assert_eq!(found.saving.at_most_ns / 1_000_000, 2_880);
    with_opens(1, 3, 20 * MIB).finds("read-amplification");
    // A file that is kept open for five epochs.
    with_opens(1, 1, 20 * MIB).finds_no("read-amplification");
    with_opens(4, 3, 4 * MIB).finds_no("read-amplification");
}

/// An open, what it reads, and its close are in intervals of their own.
#[test]
fn amplification_of_opens_that_intervals_cut() {
    let cut = |bytes: u64| {
        let mut job = Job::new(100_000);
        job.program(1, 0);
        for turn in 0..12 {
            let path = format!("/data/shard-{}.tar", turn % 4);
            job.file(&path, 4 * MIB);
            let from = turn * 1_000;
            job.count(used(1, &path, from, from + 1), &[(OPENS, 1)]);
            job.flush(from + 10);
            let reads = [
                (READS, bytes / MIB),
                (BYTES_READ, bytes),
                (READ_NS, 900_000_000),
                (MAX_BYTE_READ, 4 * MIB - 1),
            ];
            job.count(used(1, &path, from + 20, from + 900), &reads);
            job.flush(from + 910);
            job.count(used(1, &path, from + 920, from + 921), &[(CLOSES, 1)]);
            job.flush(from + 1_000);
        }
        job
    };
    let found = cut(20 * MIB).finds("read-amplification");
    assert!(found.evidence.contains(&("opens", Value::Count(12))));
    cut(4 * MIB).finds_no("read-amplification");
}

/// Intervals of a second in which one to three readers read together so many MiB from storage.
fn with_readers(mib: [u64; 3]) -> Job {
    let mut job = Job::new(9_000);
    job.program(1, 0);
    let path = "/data/train.tar";
    job.file(path, 4 << 30);
    for second in 0..9_u64 {
        let readers = second / 3 + 1;
        let bytes = mib[readers as usize - 1] * MIB;
        let ns = readers * 1_000_000_000;
        job.count(
            used(1, path, second * 1_000, second * 1_000 + 1_000),
            &[
                (OPENS, u64::from(second == 0)),
                (READS, 100),
                (BYTES_READ, bytes),
                (BYTES_FETCHED, bytes),
                (READ_NS, ns),
                (UNION_READ_NS, 1_000_000_000),
            ],
        );
        job.flush((second + 1) * 1_000);
    }
    job
}

#[test]
fn bandwidth_of_mount_reached() {
    let found = with_readers([100, 100, 102]).finds("bandwidth-of-mount-reached");
    assert!(found.subjects == [Subject::Mount(b"/".to_vec())]);
    assert_eq!(found.also, ["input-bound"], "it says why");
    assert!(!found.advice.contains("Read with more"), "{}", found.advice);
    with_readers([100, 190, 270]).finds_no("bandwidth-of-mount-reached");
    // The same number of readers all the time says nothing of more.
    with_reader(1, 9_200).finds_no("bandwidth-of-mount-reached");
}

#[test]
fn severity_is_the_share_of_the_run_that_can_be_saved() {
    // Every call is tiny, and all of them take a millisecond.
    let found = with_tiny_reads(1_100).finds("tiny-reads");
    assert_eq!(found.saving.at_most_ns, 1_000_000);
    assert_eq!(found.saving.severity, Severity::Low);
    // Four threads read for ten seconds each within ten.
    let mut job = Job::new(10_000);
    job.program(1, 0);
    job.count(
        used(1, "/data/labels.csv", 0, 10_000),
        &[
            (READS, 2_000),
            (READ_SIZE_0_100, 2_000),
            (BYTES_READ, 100_000),
            (READ_NS, 40_000_000_000),
            (UNION_READ_NS, 9_000_000_000),
        ],
    );
    let found = job.finds("tiny-reads");
    assert_eq!(found.saving.at_most_ns, 9_000_000_000);
    assert_eq!(found.saving.severity, Severity::High);
}

#[test]
fn one_cause_is_one_finding() {
    let mut job = on_two_mounts(60_000, 2_000, 1 << 30);
    let codes = |job: &Job| {
        let findings = job.analysis().findings.into_iter();
        findings
            .map(|finding| (finding.code, finding.also))
            .collect::<Vec<_>>()
    };
    assert_eq!(codes(&job), [("stage-the-data-set", vec!["slow-mount"])]);
    job.run.room_bytes.clear();
    assert_eq!(codes(&job), [("slow-mount", vec![])]);
}

/// Two epochs of 80 files in four directories, in these orders, by two workers that take every other file.
fn in_orders(orders: [&[u64]; 2]) -> Job {
    in_orders_by(orders, [1, 1])
}

/// The same by workers of these programs.
fn in_orders_by(orders: [&[u64]; 2], programs: [u32; 2]) -> Job {
    let mut job = Job::new(100_000);
    programs.iter().for_each(|pid| job.program(*pid, 0));
    let path = |file: u64| format!("/data/n{}/{:02}.jpg", file % 4, file / 4);
    for file in 0..80 {
        job.file(&path(file), MIB);
    }
    for (epoch, (order, program)) in (0..).zip(orders.into_iter().zip(programs)) {
        for worker in 0..2 {
            let pid = 10 + epoch as u32 * 2 + worker;
            job.worker(pid, program);
            let own = order.iter().skip(worker as usize).step_by(2);
            for (turn, file) in (0..).zip(own) {
                // One is a little slower in the second epoch: what is read at one time is chance.
                let from = epoch * 50_000 + turn * (1_000 + epoch * u64::from(worker) * 7);
                job.read(used(pid, &path(*file), from, from + 900), MIB);
            }
        }
    }
    job
}

#[test]
fn epochs_in_the_same_order() {
    let shuffled = |step: u64| -> Vec<u64> { (0..80).map(|turn| turn * step % 80).collect() };
    let (one, other) = (shuffled(37), shuffled(23));
    let found = in_orders([&one, &one]).finds("epochs-in-the-same-order");
    assert_eq!(found.saving.at_most_ns, 0);
    assert!(found.evidence.contains(&("files", Value::Count(80))));
    in_orders([&one, &other]).finds_no("epochs-in-the-same-order");
    // A walk over the directories, and the order of names.
    let walk: Vec<u64> = (0..4)
        .flat_map(|directory| (0..20).map(move |turn| turn * 7 % 20 * 4 + directory))
        .collect();
    in_orders([&walk, &walk]).finds_no("epochs-in-the-same-order");
    let mut sorted: Vec<u64> = (0..80).collect();
    sorted.sort_by_key(|file| (file % 4, file / 4));
    in_orders([&sorted, &sorted]).finds_no("epochs-in-the-same-order");
    // Two trainings with one seed, and one that goes on from what the other saved.
    let mut in_turn = in_orders_by([&one, &one], [1, 2]);
    in_turn.finds_no("epochs-in-the-same-order");
    in_turn.write(used(1, "/out/model_epoch1.pt", 45_000, 45_100), 8 * MIB, 0);
    in_turn.read(used(2, "/out/model_epoch1.pt", 49_000, 49_100), 8 * MIB);
    in_turn.finds("epochs-in-the-same-order");
    // An evaluation loads a model for each pass.
    let mut evaluation = in_orders([&one, &one]);
    for epoch in 0..2 {
        let path = format!("/out/model_epoch{epoch}.pt");
        let from = epoch * 50_000;
        evaluation.read(used(1, &path, from, from + 10), 8 * MIB);
    }
    evaluation.finds_no("epochs-in-the-same-order");
    evaluation.write(used(1, "/out/model_epoch9.pt", 99_000, 99_100), 8 * MIB, 0);
    evaluation.finds("epochs-in-the-same-order");
}

/// Two epochs of 80 files, in these orders, by the processes of a pool. Others of them read the files in the second
/// epoch, and of files that follow each other in the order the second is read first, in each epoch another pair.
fn in_orders_by_pool(orders: [&[u64]; 2], directories: u64, processes: u32) -> Job {
    let mut job = Job::new(100_000);
    job.program(1, 0);
    let path = |file: u64| {
        format!(
            "/data/n{}/{:02}.jpg",
            file % directories,
            file / directories
        )
    };
    for file in 0..80 {
        job.file(&path(file), MIB);
    }
    (0..processes).for_each(|worker| job.worker(10 + worker, 1));
    for (epoch, order) in (0..).zip(orders) {
        for (turn, file) in (0..).zip(order) {
            let pid = 10 + (turn / (1 + epoch) % u64::from(processes)) as u32;
            let place = ((turn + epoch) ^ 1) + 1 - epoch;
            let from = epoch * 50_000 + place * 500;
            job.read(used(pid, &path(*file), from, from + 900), MIB);
        }
        job.flush((epoch + 1) * 50_000);
    }
    job
}

#[test]
fn epochs_in_about_the_same_order() {
    let shuffled = |seed: u64| -> Vec<u64> {
        let mut files: Vec<u64> = (0..80).collect();
        files.sort_by_key(|file| (file + seed) * (file + 3 * seed) * 7_919 % 1_009);
        files
    };
    let (one, other) = (shuffled(37), shuffled(23));
    // Shuffled in blocks.
    let in_blocks = |step: u64| -> Vec<u64> {
        let place = |turn: u64| turn / 20 * 20 + turn % 20 * step % 20;
        (0..80).map(|turn| one[place(turn) as usize]).collect()
    };
    for processes in [1, 3] {
        in_orders_by_pool([&one, &one], 4, processes).finds("epochs-in-the-same-order");
        for (first, second) in [(&one, &other), (&in_blocks(7), &in_blocks(11))] {
            let job = in_orders_by_pool([first, second], 4, processes);
            job.finds_no("epochs-in-the-same-order");
        }
        // The order of names, in which each file is in another directory, with numbers as such and digit by digit.
        let by_number: Vec<u64> = (0..80).collect();
        let mut by_digit = by_number.clone();
        by_digit.sort_by_key(|file| format!("{file}/"));
        for order in [&by_number, &by_digit] {
            let job = in_orders_by_pool([order, order], 80, processes);
            job.finds_no("epochs-in-the-same-order");
        }
    }
}

/// What each of two ranks reads of 96 files of `size` bytes in directory `name`, epoch for epoch.
fn with_samples(name: &str, size: u64, epochs: &[[Vec<u64>; 2]]) -> Job {
    with_samples_in(Model::with_history(), name, size, epochs)
}

/// The same in a model.
fn with_samples_in(model: Model, name: &str, size: u64, epochs: &[[Vec<u64>; 2]]) -> Job {
    let mut job = Job::of(model, epochs.len() as u64 * 10_000);
    let path = |file: u64| format!("/data/{name}/n{}/{file:02}.jpg", file % 4);
    for file in 0..96 {
        job.file(&path(file), size);
    }
    for rank in 0..2 {
        job.program(10 + rank, 1);
    }
    for (epoch, ranks) in (0..).zip(epochs) {
        for (rank, order) in (0..).zip(ranks) {
            for (turn, file) in (0..).zip(order) {
                let from = epoch * 10_000 + turn * 100 + u64::from(rank);
                job.read(used(10 + rank, &path(*file), from, from + 90), size);
            }
        }
        job.flush((epoch + 1) * 10_000);
    }
    job
}

/// So many numbers in an order that looks random.
fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..count).collect();
    order.sort_by_key(|number| {
        let mixed = (number + 97 * seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    });
    order
}

#[test]
fn ranks_read_the_same() {
    let order = |seed: u64| shuffled(96, seed);
    let part = |step: u64, rank: usize| -> Vec<u64> {
        order(step).into_iter().skip(rank).step_by(2).collect()
    };
    let parts = |step: u64| [part(step, 0), part(step, 1)];
    // Without a sampler: each reads everything, in an order of its own or not.
    for ranks in [[order(5), order(7)], [(0..96).collect(), (0..96).collect()]] {
        let found =
            with_samples("train", 5_000, &[ranks.clone(), ranks]).finds("ranks-read-the-same");
        assert!(found.evidence.contains(&("ranks", Value::Count(2))));
        assert!(
            found
                .evidence
                .contains(&("shared_files", Value::Share(1.0)))
        );
    }
    // One epoch of all, and ranks that all take the part of the first one.
    with_samples("train", 5_000, &[[order(5), order(7)]]).finds("ranks-read-the-same");
    let same = |step| [part(step, 0), part(step, 0)];
    with_samples("train", 5_000, &[same(5), same(11)]).finds("ranks-read-the-same");
    // A sampler: other files for each in each epoch, the same for each, and some left out.
    let right = [parts(5), parts(11), parts(17), parts(29)];
    with_samples("train", 5_000, &right).finds_no("ranks-read-the-same");
    with_samples("train", 5_000, &[parts(5), parts(5)]).finds_no("ranks-read-the-same");
    // Ranks that exchange their parts, so that none reads a file again before the third epoch.
    let [one, other] = parts(5);
    let exchanged = [[one.clone(), other.clone()], [other, one]];
    let exchanged = [exchanged.clone(), exchanged].concat();
    with_samples("train", 5_000, &exchanged).finds_no("ranks-read-the-same");
    let dropped = right.map(|ranks| ranks.map(|files| files[..45].to_vec()));
    with_samples("train", 5_000, &dropped).finds_no("ranks-read-the-same");
    // Ranks that share the layers of one model by the names of their saves. Trials, each of which saves its own model.
    for (saved, is_found) in [
        (
            [
                "iter_100/mp_rank_00/model_optim_rng.pt",
                "iter_100/mp_rank_01/model_optim_rng.pt",
            ],
            false,
        ),
        (["iter_100/mp_rank_00/model_optim_rng.pt"; 2], true),
        (["0/model.pt", "1/model.pt"], false),
        (["0/model.pt"; 2], true),
    ] {
        let mut job = with_samples("train", 5_000, &[[order(5), order(5)]]);
        for (pid, path) in (10..).zip(saved) {
            let path = format!("/out/{path}");
            job.write(used(pid, &path, 9_800, 9_900), MIB, 0);
        }
        match is_found {
            true => drop(job.finds("ranks-read-the-same")),
            false => job.finds_no("ranks-read-the-same"),
        }
    }
    // Each has its part, and evaluates on all that are left.
    let (training, rest): (Vec<u64>, Vec<u64>) = (0..96).partition(|file| *file < 60);
    let epoch = |step: u64| {
        let order: Vec<u64> = order(step)
            .into_iter()
            .filter(|file| training.contains(file))
            .collect();
        [0, 1].map(|rank| {
            let part = order.iter().skip(rank).step_by(2).copied();
            part.chain(rest.iter().copied()).collect::<Vec<u64>>()
        })
    };
    with_samples("train", 5_000, &[5, 11, 17].map(epoch)).finds_no("ranks-read-the-same");
    // Validation, shards, and few files.
    let all = || [[order(5), order(7)]];
    with_samples("val", 5_000, &all()).finds_no("ranks-read-the-same");
    with_samples("train", 64 * MIB, &all()).finds_no("ranks-read-the-same");
    let few = [[order(5)[..32].to_vec(), order(5)[..32].to_vec()]];
    with_samples("train", 5_000, &few).finds_no("ranks-read-the-same");
    // One rank behind the other, as two programs are.
    let turns = [[order(5), Vec::new()], [Vec::new(), order(7)]];
    with_samples("train", 5_000, &turns).finds_no("ranks-read-the-same");
    // Read into memory once, at the start of a long run.
    let mut job = with_samples("train", 5_000, &all());
    job.run.duration_ns *= 4;
    job.finds_no("ranks-read-the-same");
}

/// Where the uses of files were too many to keep each, nothing is concluded from their order, and what was counted stays.
#[test]
fn uses_that_were_not_kept_one_by_one_say_nothing_of_epochs() {
    let order: Vec<u64> = (0..96).collect();
    let epochs = vec![[order.clone(), order]; 6];
    let kept = with_samples("train", 5_000, &epochs);
    kept.finds("ranks-read-the-same");
    assert!(kept.analysis().epochs.untold.is_none());
    let job = with_samples_in(Model::with_history_of(2_000), "train", 5_000, &epochs);
    assert!(job.model.has_coarse_history());
    for code in [
        "ranks-read-the-same",
        "epochs-in-the-same-order",
        "cold-first-epoch",
    ] {
        job.finds_no(code);
    }
    let found = job.analysis().epochs;
    assert!(
        found.epochs.is_empty() && found.untold.is_some(),
        "{found:?}"
    );
    assert_eq!((found.files, found.bytes), (96, 96 * 5_000));
}

/// Three epochs over 80 files of 100,000 bytes. `pictures` of them are pictures, file 7 and those after it. Of file 7, each
/// epoch reads that number of `bytes`.
fn with_damage(bytes: [u64; 3], pictures: u64) -> Job {
    let mut job = Job::new(30_000);
    job.program(10, 1);
    let path = |file: u64| {
        let suffix = if (file + 73) % 80 < pictures {
            "jpg"
        } else {
            "npy"
        };
        format!("/data/train/{file:02}.{suffix}")
    };
    for file in 0..80 {
        job.file(&path(file), 100_000);
    }
    for (epoch, damaged) in (0..).zip(bytes) {
        for turn in 0..80 {
            let file = (turn + epoch * 11) * 37 % 80;
            let from = epoch * 10_000 + turn * 100;
            let bytes = if file == 7 { damaged } else { 100_000 };
            if bytes > 0 {
                job.read(used(10, &path(file), from, from + 90), bytes);
            }
        }
        job.flush((epoch + 1) * 10_000);
    }
    job
}

#[test]
fn samples_never_read() {
    let found = with_damage([8_192; 3], 80).finds("samples-never-read");
    assert_eq!(found.saving.at_most_ns, 0);
    for evidence in [
        ("files", Value::Count(1)),
        ("files_read_whole", Value::Count(79)),
        ("epochs", Value::Count(3)),
        ("bytes_never_read", Value::Bytes(100_000 - 8_192)),
    ] {
        assert!(found.evidence.contains(&evidence), "{:?}", found.evidence);
    }
    assert!(matches!(found.subjects[..], [Subject::File(7)]));
    // More than half of what others have is read for a purpose. What was read whole in one epoch is not damaged.
    with_damage([50_000; 3], 80).finds("samples-never-read");
    with_damage([51_000; 3], 80).finds_no("samples-never-read");
    with_damage([8_192, 100_000, 8_192], 80).finds_no("samples-never-read");
    // It is not asked for in each epoch.
    with_damage([8_192, 0, 8_192], 80).finds_no("samples-never-read");
    with_damage([8_192, 8_192, 0], 80).finds_no("samples-never-read");
    // Of its kind there are few.
    with_damage([8_192; 3], 8).finds("samples-never-read");
    with_damage([8_192; 3], 7).finds_no("samples-never-read");
    // As many bytes as the file has, but always the same.
    with_damage([34_000; 3], 80).finds("samples-never-read");
    // Counts of some files are lost, or of what was mapped not known.
    let mut lossy = with_damage([8_192; 3], 80);
    lossy.run.losses = [("lost_operations".to_owned(), 1)].into();
    lossy.finds_no("samples-never-read");
    let mut overflown = with_damage([8_192; 3], 80);
    let mut counters = Counters::ZERO;
    counters.v[READS] = 1;
    overflown.model.add(id(10), Place::Overflow, &counters);
    overflown.finds_no("samples-never-read");
    let mut mapped = with_damage([8_192; 3], 80);
    mapped.count(
        used(10, "/data/train/07.jpg", 29_000, 29_010),
        &[(MMAPS, 1)],
    );
    mapped.finds_no("samples-never-read");
}

/// Two epochs of 64 training files and `leaked` of 40 validation files in `order`. A pass over all validation files follows
/// each.
fn with_leak(names: [&str; 2], leaked: u64, order: impl Fn(u64, u64) -> u64) -> Job {
    let mut job = Job::new(60_000);
    job.program(10, 1);
    let path = |file: u64| match file.checked_sub(64) {
        None => format!("/data/test/set/{}/{file:02}.jpg", names[0]),
        Some(file) => format!("/data/test/set/{}/{file:02}.jpg", names[1]),
    };
    for file in 0..104 {
        job.file(&path(file), 5_000);
    }
    for epoch in 0..2 {
        let files = 64 + leaked;
        let training = (0..files).map(|turn| order(turn + epoch * 13, files));
        for (turn, file) in (0..).zip(training.chain(64..104)) {
            let from = epoch * 30_000 + turn * 100;
            job.read(used(10, &path(file), from, from + 90), 5_000);
        }
        job.flush((epoch + 1) * 30_000);
    }
    job
}

#[test]
fn validation_in_training() {
    let mixed = |turn: u64, files: u64| shuffled(files, 5)[(turn % files) as usize];
    let in_turn = |turn: u64, files: u64| turn % files;
    let code = "validation-in-training";
    let found = with_leak(["train", "val"], 40, mixed).finds(code);
    assert_eq!(found.saving.at_most_ns, 0);
    for evidence in [
        ("files", Value::Count(40)),
        ("validation_files", Value::Count(40)),
        ("training_files", Value::Count(64)),
        ("epochs", Value::Count(2)),
    ] {
        assert!(found.evidence.contains(&evidence), "{:?}", found.evidence);
    }
    assert!(
        matches!(&found.subjects[..], [Subject::Directory(path)] if path == b"/data/test/set/val")
    );
    with_leak(["train2017", "val2017"], 40, mixed).finds(code);
    with_leak(["train", "val"], 20, mixed).finds(code);
    // Few, none, and all after the training files.
    with_leak(["train", "val"], 15, mixed).finds_no(code);
    with_leak(["train", "val"], 0, mixed).finds_no(code);
    with_leak(["train", "val"], 40, in_turn).finds_no(code);
    // Each step takes a file for validation, too.
    let by_steps = |turn: u64, files: u64| {
        let (step, place) = (turn % files / 3, turn % files % 3);
        match place {
            2 => 64 + step,
            place => step * 2 + place,
        }
    };
    with_leak(["train", "val"], 32, by_steps).finds_no(code);
    // No name says that they are for validation, or for training.
    with_leak(["train", "more"], 40, mixed).finds_no(code);
    with_leak(["cats", "dev"], 40, mixed).finds_no(code);
    with_leak(["train", "train-val"], 40, mixed).finds_no(code);
    with_leak(["val", "train"], 40, mixed).finds_no(code);
}

/// A job whose main thread ran for 7 s and waited for 2 s.
fn waiting_for(leaf: Leaf, phase: Phase) -> Job {
    let mut job = Job::new(10_000);
    job.program(10, 1);
    for (leaf, seconds) in [(Leaf::Running, 7), (leaf, 2)] {
        job.model.add_waited(&Waited {
            process: id(10),
            leaf,
            by: Some(id(10)),
            file: None,
            phase: phase.code(),
            ns: seconds * 1_000_000_000,
        });
    }
    job
}

#[test]
fn waits_for_storage_at_the_start_and_for_saves_are_no_input() {
    let (input, start) = ("storage-bound", "startup-waits-for-storage");
    let expect = |job: Job, found: Option<&str>| {
        job.analysis().findings.iter().for_each(|one| {
            if [input, start].contains(&one.code) {
                assert_eq!(one.saving.at_most_ns, 2_000_000_000);
            }
        });
        for code in [input, start] {
            match found {
                Some(found) if found == code => drop(job.finds(code)),
                _ => job.finds_no(code),
            }
        }
    };
    let storage = |phase| waiting_for(Leaf::Storage, phase);
    expect(storage(Phase::Training), Some(input));
    expect(storage(Phase::UNMATCHED), Some(input));
    expect(storage(Phase::Startup), Some(start));
    expect(storage(Phase::Checkpoint), None);
    // Page faults are of the start as far as they were on its files.
    let faults = |path| {
        let mut job = waiting_for(Leaf::PageFault, Phase::UNMATCHED);
        job.count(
            used(10, path, 0, 3_000),
            &[
                (OPENS, 1),
                (MAJOR_FAULTS, 9),
                (MAJOR_FAULT_NS, 3_000_000_000),
            ],
        );
        job
    };
    expect(faults("/usr/lib/x86_64-linux-gnu/libtorch.so"), Some(start));
    expect(faults("/data/train/tokens.bin"), Some(input));
}

#[test]
fn threads_that_compute_for_the_main_thread_are_no_loader() {
    waiting_for(Leaf::Computing, Phase::UNMATCHED).finds("decode-bound");
    waiting_for(Leaf::ComputeThreads, Phase::UNMATCHED).finds_no("decode-bound");
    // Whatever thread of a worker computes, it is the loader.
    let mut job = waiting_for(Leaf::ComputeThreads, Phase::UNMATCHED);
    job.worker(11, 10);
    job.model.add_waited(&Waited {
        process: id(10),
        leaf: Leaf::ComputeThreads,
        by: Some(id(11)),
        file: None,
        phase: 0,
        ns: 2_000_000_000,
    });
    // Processes of which none reads data load none: programs and libraries are none, nor are a few bytes of anything else.
    job.reads(10, Phase::Startup, 1 << 30);
    job.reads(11, Phase::Restore, 1 << 20);
    job.finds_no("decode-bound");
    // The kernel side sorts by names: `tokens.bin` may be a model.
    job.reads(11, Phase::Restore, 1 << 24);
    let found = job.finds("decode-bound");
    assert_eq!(found.saving.at_most_ns, 2_000_000_000);
}

#[test]
fn a_loader_that_reads_cached_files_is_not_told_to_decode_less() {
    let advice = |read_ms: u64, fetched: u64| {
        let mut job = waiting_for(Leaf::Computing, Phase::UNMATCHED);
        job.computes(10, 12_000);
        let file = used(10, "/data/train/a.jpg", 0, read_ms);
        job.read_from_storage(file, 64 * MIB, fetched);
        job.flush(10_000);
        job.finds("decode-bound").advice
    };
    let [cached, stored, decoded] = [advice(4_000, 0), advice(4_000, 64 * MIB), advice(400, 0)];
    assert!(cached.contains("page cache"), "{cached}");
    assert!(!stored.contains("page cache"), "{stored}");
    assert!(!decoded.contains("page cache"), "{decoded}");
}

/// A main thread waits 0.7 s for each of three workers. A worker lives for 1 s and reads its first data after `starting` milliseconds.
/// The workers begin `apart` milliseconds after each other.
fn with_starting_workers(starting: u64, apart: u64) -> Job {
    let mut job = waiting_for(Leaf::ComputeThreads, Phase::UNMATCHED);
    for worker in 0..3 {
        let (pid, from) = (20 + worker as u32, 1_000 + worker * apart);
        job.worker_later(pid, 10, from);
        job.reads(pid, Phase::Training, 64 * MIB);
        job.model.add_waited(&Waited {
            process: id(10),
            leaf: Leaf::Computing,
            by: Some(id(pid)),
            file: None,
            phase: 0,
            ns: 700_000_000,
        });
        let path = format!("/data/train/{worker}.tar");
        job.read(used(pid, &path, from + starting, from + 950), 64 * MIB);
        job.ends(pid, from + 1_000);
    }
    job
}

#[test]
fn workers_that_start_again() {
    // The first one has to start.
    let found = with_starting_workers(900, 1_500).finds("workers-start-again");
    assert_eq!(found.saving.at_most_ns, 2_100_000_000);
    with_starting_workers(900, 1_500).finds_no("decode-bound");
    for (starting, apart) in [(300, 1_500), (900, 100)] {
        with_starting_workers(starting, apart).finds("decode-bound");
        with_starting_workers(starting, apart).finds_no("workers-start-again");
    }
}
