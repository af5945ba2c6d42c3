//! The finding `loader-polls`, on timelines that are made up.

use std::convert::Infallible;

use super::{
    job::{Job, id, used},
    timeline::{MAIN, MS, WORKER, ended, segment},
};
use crate::findings::{Finding, Value};
use iotrace_model::{
    run::TimelineRun,
    timeline::{Cause, Segment},
    waits::{Leaf, Waited},
};

const SAMPLE_COUNT: u64 = 40;
/// How long a sample takes, milliseconds.
const SAMPLE_MS: u64 = 50;
const RUN_MS: u64 = SAMPLE_MS * SAMPLE_COUNT;
/// Sleeps of the main thread for one sample, from when to when.
const SLEEP_TIMES_MS: [(u64, u64); 3] = [(2, 18), (18, 34), (34, 50)];

/// A job whose main thread slept; `loader` reads training data.
fn job(loader: u32) -> Job {
    let mut job = Job::new(RUN_MS);
    job.program(MAIN, 1);
    job.worker(WORKER, MAIN);
    job.file("/data/train/a.bin", 1 << 20);
    let used = used(loader, "/data/train/a.bin", 0, RUN_MS);
    job.read(used, 1 << 20);
    for (leaf, ms) in [(Leaf::Running, 2), (Leaf::Sleep, SAMPLE_MS - 2)] {
        job.model.add_waited(&Waited {
            process: id(MAIN),
            leaf,
            by: None,
            file: None,
            phase: 0,
            ns: ms * SAMPLE_COUNT * MS,
        });
    }
    job.flush(RUN_MS);
    job.run.timeline = Some(TimelineRun {
        cpus: 2,
        segments: 5 * SAMPLE_COUNT,
        dropped: 0,
    });
    job
}

/// The main thread sleeps as told and is woken at the end if it `is_woken`; the loader is off the CPU for `cause` for 45 ms.
fn timeline(sleeps: &[(u64, u64)], is_woken: bool, cause: Cause) -> Vec<Segment> {
    let mut all = vec![
        segment(MAIN, [0; 3], Cause::Born, None),
        segment(WORKER, [0; 3], Cause::Born, Some(MAIN)),
    ];
    for sample in 0..SAMPLE_COUNT {
        let from = SAMPLE_MS * sample;
        let at = |ms: u64| from + ms;
        let sleep = |(off, on): &(u64, u64)| [at(*off), at(*on), at(*on)];
        let sleeps = sleeps.iter().map(sleep);
        all.extend(sleeps.map(|times| segment(MAIN, times, Cause::Sleep, None)));
        if is_woken {
            all.push(segment(
                MAIN,
                [at(34), at(50), at(50)],
                Cause::Thread,
                Some(WORKER),
            ));
        }
        let by = (cause == Cause::Thread).then_some(MAIN);
        all.push(segment(WORKER, [at(0), at(45), at(45)], cause, by));
    }
    all.extend([ended(WORKER, RUN_MS), ended(MAIN, RUN_MS)]);
    all
}

/// The finding of a job with this timeline.
fn polls(job: &Job, segments: Vec<Segment>) -> Option<Finding> {
    let mut analysis = job.analysis();
    let Ok(()) = analysis.quote(&job.model, &job.run, || Ok::<_, Infallible>(segments));
    let mut findings = analysis.findings.into_iter();
    findings.find(|finding| finding.code == "loader-polls")
}

#[test]
fn the_last_sleep_of_each_loop_is_lost() {
    let found = polls(
        &job(WORKER),
        timeline(&SLEEP_TIMES_MS, false, Cause::Storage),
    )
    .expect("found");
    assert_eq!(found.saving.at_most_ns, 16 * SAMPLE_COUNT * MS);
    for (name, value) in [
        (
            "polled_seconds",
            Value::Seconds((48 * SAMPLE_COUNT) as f64 / 1e3),
        ),
        ("share_of_time", Value::Share(0.96)),
        ("waits", Value::Count(SAMPLE_COUNT)),
        ("sleeps", Value::Count(3 * SAMPLE_COUNT)),
        ("mean_sleep_seconds", Value::Seconds(0.016)),
        ("loader_processes", Value::Count(1)),
    ] {
        let known = found.evidence.iter().find(|(known, _)| *known == name);
        assert_eq!(known, Some(&(name, value)));
    }
}

#[test]
fn other_sleeps_are_no_polling() {
    let silent = |what: &str, job: &Job, segments: Vec<Segment>| {
        let found = polls(job, segments);
        assert!(found.is_none(), "{what}: {found:?}");
    };
    let polling = || timeline(&SLEEP_TIMES_MS, false, Cause::Storage);
    silent("no loader", &job(MAIN), polling());
    let idle = timeline(&SLEEP_TIMES_MS, false, Cause::Thread);
    silent("the loader is idle", &job(WORKER), idle);
    let once = timeline(&SLEEP_TIMES_MS[..1], false, Cause::Storage);
    silent("one sleep a step", &job(WORKER), once);
    let woken = timeline(&SLEEP_TIMES_MS[..2], true, Cause::Storage);
    silent("a call with a timeout", &job(WORKER), woken);
    // The other thread runs: the main thread waits for the lock of the interpreter.
    let mut locked = polling();
    let other = |segment: Segment| Segment {
        process: id(MAIN),
        tid: MAIN + 1,
        ..segment
    };
    locked.push(other(segment(MAIN, [0; 3], Cause::Born, Some(MAIN))));
    locked.push(other(ended(MAIN, RUN_MS)));
    silent("a lock", &job(WORKER), locked);
    let mut cut = job(WORKER);
    cut.run.timeline = Some(TimelineRun {
        cpus: 2,
        segments: 5 * SAMPLE_COUNT,
        dropped: 1,
    });
    silent("a part of the timeline", &cut, polling());
}
