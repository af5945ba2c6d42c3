//! One run of the workers.

use std::path::Path;

use anyhow::Result;

use crate::bench::iotrace::{Outcome, Recording};
use crate::bench::remote::{Places, Worker};
use crate::bench::stats::median;

/// What iotrace keeps, if it is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Detail {
    Untraced,
    /// As basic, but files are not sorted into phases.
    Unsorted,
    Basic,
    Full,
}

impl Detail {
    pub const ALL: [Self; 4] = [Self::Untraced, Self::Unsorted, Self::Basic, Self::Full];

    /// As iotrace and the tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::Unsorted | Self::Basic => "basic",
            Self::Full => "full",
        }
    }
}

/// What is to be run.
#[derive(Clone, Copy)]
pub struct Run {
    pub detail: Detail,
    pub workers: u64,
    pub files: u64,
    pub epochs: u32,
}

/// What came out.
pub struct Visit {
    /// Seconds of the first epoch, and of the others in the middle.
    pub first: f64,
    pub later: f64,
    /// CPU seconds of the workers in an epoch, the first and the others in the middle.
    pub first_cpu: f64,
    pub later_cpu: f64,
    pub outcome: Option<Outcome>,
}

impl Run {
    /// Runs all epochs under iotrace, or untraced.
    pub fn visit(&self, places: &Places, scratch: &Path) -> Result<Visit> {
        let workers: Result<Vec<_>> = (0..self.workers)
            .map(|_| Worker::start(places, &[]))
            .collect();
        let mut workers = workers?;
        let pids: Vec<_> = workers.iter().map(Worker::pid).collect();
        let recording = match self.detail {
            Detail::Untraced => None,
            Detail::Unsorted => Some(Recording::start_unsorted(scratch, &pids)?),
            detail => Some(Recording::start(scratch, &pids, detail.name(), "btf")?),
        };
        let mut epochs = Vec::new();
        for _ in 0..self.epochs {
            epochs.push(self.epoch(&mut workers)?);
        }
        let outcome = recording.map(Recording::stop).transpose()?;
        if let Some(outcome) = &outcome {
            self.check(outcome);
        }
        let (first, first_cpu) = epochs.remove(0);
        let (mut walls, mut cpus): (Vec<_>, Vec<_>) = epochs.into_iter().unzip();
        let (later, later_cpu) = (median(&mut walls), median(&mut cpus));
        Ok(Visit {
            first,
            later,
            first_cpu,
            later_cpu,
            outcome,
        })
    }

    /// One epoch of all workers: seconds until the last is done, and their CPU seconds.
    fn epoch(&self, workers: &mut [Worker]) -> Result<(f64, f64)> {
        for (number, worker) in workers.iter_mut().enumerate() {
            worker.ask(&format!("epoch {number} {} {}", self.workers, self.files))?;
        }
        let (mut wall, mut cpu) = (0.0_f64, 0.0);
        for worker in workers {
            let [ns, cpu_ns, ..] = worker.answer()?;
            wall = wall.max(ns / 1e9);
            cpu += cpu_ns / 1e9;
        }
        Ok((wall, cpu))
    }

    /// Says so if iotrace did not count every open.
    fn check(&self, outcome: &Outcome) {
        let opens = self.files * u64::from(self.epochs);
        if outcome.opens != opens {
            println!(
                "note:    {} counted {} of {opens} opens",
                self.detail.name(),
                outcome.opens
            );
        }
    }
}
