//! Predictions that findings quote: of a pipeline whose times are known.

use std::convert::Infallible;

use iotrace_common::diag;
use iotrace_model::{
    About,
    environ::{Rank, Role},
    run::TimelineRun,
    timeline::{Cause, Segment},
    waits::{Leaf, Waited},
};
use iotrace_phases::phase::Phase;

use super::{
    job::{Job, id},
    timeline::{MAIN, MS, WORKER, ended, pipeline, segment},
};
use crate::{
    findings::{
        Finding,
        predictions::{MAX_SEGMENTS, NotPredicted, Predictions},
    },
    whatif::{CannotTell, Part, Single},
};

const SAMPLES: u64 = 40;
/// How long the pipeline takes, milliseconds.
const RUN_MS: u64 = 25 * SAMPLES + 10;

/// The job whose main thread waited for this for all of the time in which it did not run.
fn waiting_for(leaf: Leaf) -> Job {
    let mut job = Job::new(RUN_MS);
    job.program(MAIN, 1);
    job.worker(WORKER, MAIN);
    waited(&mut job, MAIN, leaf);
    job.flush(RUN_MS);
    job.run.timeline = Some(TimelineRun {
        cpus: 2,
        segments: 2 * SAMPLES,
        dropped: 0,
    });
    job
}

fn waited(job: &mut Job, pid: u32, leaf: Leaf) {
    job.reads(WORKER, Phase::Training, 1);
    let ran = 10 * SAMPLES * MS;
    for (leaf, by, ns) in [
        (Leaf::Running, None, ran),
        (leaf, Some(id(WORKER)), RUN_MS * MS - ran),
    ] {
        job.model.add_waited(&Waited {
            process: id(pid),
            leaf,
            by,
            file: None,
            phase: 0,
            ns,
        });
    }
}

/// The finding of a job whose timeline has these segments.
#[track_caller]
fn finding(job: &Job, code: &str, segments: Vec<Segment>) -> Finding {
    let mut analysis = job.analysis();
    let read = || Ok::<_, Infallible>(segments);
    let Ok(()) = analysis.quote(&job.model, &job.run, read);
    let mut findings = analysis.findings.into_iter();
    let found = findings.find(|finding| finding.code == code);
    found.unwrap_or_else(|| panic!("no {code}"))
}

/// Changes, and milliseconds that they lead to.
fn quoted(predictions: &Predictions) -> Vec<(Single, u64)> {
    let quotes = predictions.quotes.iter();
    quotes
        .map(|quote| {
            let ns = quote.prediction.replayed.ns;
            assert!(quote.prediction.is_predictable);
            assert!(quote.prediction.low <= ns && ns <= quote.prediction.high);
            (quote.change, (ns + MS / 2) / MS)
        })
        .collect()
}

/// Fails unless nothing is quoted, for this reason, and without a look at the timeline if that is not needed.
#[track_caller]
fn is_silent(job: &Job, code: &str, reason: Option<NotPredicted>) {
    let mut analysis = job.analysis();
    let read = || -> Result<Vec<Segment>, &str> { Err("it was read") };
    analysis.quote(&job.model, &job.run, read).unwrap();
    let findings = analysis.findings.iter();
    let found = findings.filter(|finding| finding.code == code);
    let predictions: Vec<_> = found.map(|finding| &finding.saving.predictions).collect();
    assert_eq!(predictions.len(), 1, "{code}");
    assert!(predictions[0].quotes.is_empty());
    let expected: Vec<NotPredicted> = reason.into_iter().collect();
    assert_eq!(predictions[0].missing, expected);
}

#[test]
fn storage_bound_says_what_faster_storage_gives() {
    let job = waiting_for(Leaf::Storage);
    let found = finding(&job, "storage-bound", pipeline(SAMPLES, Cause::Storage));
    let predictions = &found.saving.predictions;
    assert_eq!(predictions.recorded_ns, RUN_MS * MS);
    assert_eq!(predictions.missing, []);
    assert_eq!(
        quoted(predictions),
        [
            (Single::Storage(2.0), 15 * SAMPLES + 10),
            (Single::Storage(f64::INFINITY), 10 * SAMPLES + 5)
        ]
    );
    let limits: Vec<Part> = predictions
        .quotes
        .iter()
        .map(|quote| quote.prediction.replayed.bottleneck().unwrap().0)
        .collect();
    assert_eq!(limits, [Part::Storage, Part::Main]);
    // The upper bound is the same with and without predictions.
    let plain = job.finds("storage-bound");
    assert_eq!(found.saving.at_most_ns, plain.saving.at_most_ns);
    assert_eq!(found.saving.severity, plain.saving.severity);
}

#[test]
fn decode_bound_says_what_twice_the_workers_give() {
    let job = waiting_for(Leaf::Computing);
    let found = finding(&job, "decode-bound", pipeline(SAMPLES, Cause::Storage));
    let quotes = quoted(&found.saving.predictions);
    assert_eq!(quotes.len(), 1);
    let (change, ms) = quotes[0];
    assert_eq!(change, Single::Workers(2));
    assert!((500..=530).contains(&ms), "{ms}");
    // A thread that reads no files may be no worker.
    let found = finding(&job, "decode-bound", pipeline(SAMPLES, Cause::Sleep));
    assert!(found.saving.predictions.quotes.is_empty());
    assert_eq!(
        found.saving.predictions.missing,
        [CannotTell::NoWorkers.into()]
    );
}

#[test]
fn too_few_cpus_says_what_twice_the_cpus_give() {
    // Two threads that compute for 100 ms each share one CPU: each is off it every other millisecond.
    let mut job = waiting_for(Leaf::RunQueue);
    job.run.timeline.as_mut().unwrap().cpus = 1;
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 1], Cause::Born, Some(MAIN)),
    ];
    for index in 0..100 {
        let from = 2 * index;
        all.push(segment(
            MAIN,
            [from + 1, from + 1, from + 2],
            Cause::Preempted,
            None,
        ));
        all.push(segment(
            WORKER,
            [from + 2, from + 2, from + 3],
            Cause::Preempted,
            None,
        ));
    }
    all.extend([ended(WORKER, 202), ended(MAIN, 202)]);
    let found = finding(&job, "too-few-cpus", all);
    assert_eq!(found.saving.predictions.missing, []);
    let quotes = quoted(&found.saving.predictions);
    assert_eq!(quotes.len(), 1);
    let (change, ms) = quotes[0];
    assert_eq!(change, Single::Cpus(2));
    assert!((100..=110).contains(&ms), "{ms}");
}

#[test]
fn what_is_not_predictable_is_not_quoted() {
    // Another worker, which computes, is always ready before the main thread needs it: with faster storage it may be too late.
    let job = waiting_for(Leaf::Storage);
    let computing = 30;
    let mut all = vec![
        ended(MAIN, 0),
        segment(WORKER, [0, 0, 0], Cause::Born, Some(MAIN)),
        segment(computing, [0, 0, 0], Cause::Born, Some(MAIN)),
    ];
    for index in 0..SAMPLES {
        let (from, to) = (20 * index, 20 * (index + 1));
        let idle = if index == 0 { 0 } else { from + 1 };
        all.extend([
            segment(MAIN, [idle, to, to], Cause::Thread, Some(WORKER)),
            segment(WORKER, [from, to, to], Cause::Storage, None),
            segment(
                computing,
                [from + 6, to + 1, to + 1],
                Cause::Thread,
                Some(MAIN),
            ),
        ]);
    }
    all.push(ended(MAIN, 20 * SAMPLES + 1));
    let found = finding(&job, "storage-bound", all);
    let predictions = &found.saving.predictions;
    let quoted = quoted(predictions);
    assert_eq!(quoted.len(), 1, "{predictions:?}");
    assert_eq!(quoted[0].0, Single::Storage(2.0));
    assert_eq!(
        predictions.missing,
        [NotPredicted::NotPredictable(Single::Storage(f64::INFINITY))]
    );
}

#[test]
fn a_replay_that_is_far_from_the_recording_is_not_quoted() {
    // The recorded wake-ups are of a host with more CPUs than the timeline says.
    let mut job = waiting_for(Leaf::Storage);
    job.run.timeline.as_mut().unwrap().cpus = 1;
    let mut all = pipeline(SAMPLES, Cause::Storage);
    for other in 30..40 {
        all.extend([
            segment(other, [0, 0, 0], Cause::Born, Some(MAIN)),
            ended(other, RUN_MS),
        ]);
    }
    let found = finding(&job, "storage-bound", all);
    assert!(found.saving.predictions.quotes.is_empty());
    assert_eq!(found.saving.predictions.missing, [NotPredicted::NotTrusted]);
}

#[test]
fn a_timeline_that_tells_nothing_is_not_read() {
    let code = "storage-bound";
    let mut job = waiting_for(Leaf::Storage);
    job.run.timeline.as_mut().unwrap().dropped = 1;
    let waits = 2 * SAMPLES + 1;
    let dropped = CannotTell::NoRoom { dropped: 1, waits };
    is_silent(&job, code, Some(dropped.into()));

    let mut job = waiting_for(Leaf::Storage);
    job.run.timeline.as_mut().unwrap().segments = MAX_SEGMENTS + 1;
    is_silent(&job, code, Some(NotPredicted::TooLong(MAX_SEGMENTS + 1)));

    let mut job = waiting_for(Leaf::Storage);
    job.run.timeline = None;
    is_silent(&job, code, None);

    let mut job = waiting_for(Leaf::Storage);
    waited(&mut job, MAIN + 1, Leaf::Storage);
    for (number, pid) in [(0, MAIN), (1, MAIN + 1)] {
        let rank = Rank {
            number,
            variable: "RANK",
        };
        let role = Role {
            rank: Some(rank),
            job: None,
        };
        let about = About {
            role,
            ..About::default()
        };
        job.model.restore_process(id(pid), about);
    }
    is_silent(&job, code, Some(NotPredicted::SeveralMains));

    // Lost waits take the finding itself away.
    let mut job = waiting_for(Leaf::Storage);
    let lost = diag::NAMES[diag::WAITS_LOST as usize].to_owned();
    job.run.losses.insert(lost, 1);
    job.finds_no(code);
}
