//! Whether others trace this system meanwhile: their hooks would be measured with ours.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::call::Call;
use super::remote::{Places, Worker};
use super::unless_brief;

/// How long the CPU's best speed is looked for, milliseconds.
const BEST_MILLIS: u64 = 4000;
/// How much of the best time a loop may take before that is news.
const BETTER: f64 = 0.97;
/// How much longer a system call may take than when nothing is attached.
const LONGER: f64 = 1.04;
/// How often a system call is measured for a quiet CPU core.
const TRIES: u32 = 4;
/// How long other tracers are waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sees them by what they do to a system call: hooks of every kind slow it down, and what stays of a
/// tracepoint for seconds after its program is gone is not to be seen otherwise.
pub struct Others {
    /// A worker that is never traced by name.
    sentinel: Worker,
    /// The CPU's best speed: a loop's nanoseconds.
    best: f64,
    /// Nanoseconds of getppid when nothing is attached, as far as is known.
    idle: f64,
    /// How often any of that turned out to have been too much.
    corrections: u32,
}

impl Others {
    /// Finds out what the machine does when it is quiet.
    pub fn look(places: &Places) -> Result<Self> {
        let mut sentinel = Worker::start(places, &[])?;
        sentinel.ask(&format!("best {}", unless_brief(BEST_MILLIS, 100)))?;
        let [best, ..] = sentinel.answer()?;
        let mut others = Self {
            sentinel,
            best,
            idle: f64::MAX,
            corrections: 0,
        };
        others.idle = others.getppid()?;
        Ok(others)
    }

    /// The CPU's best speed: a loop's nanoseconds.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// Takes down the best time of the loop that a worker saw.
    pub fn saw(&mut self, best: f64) {
        if best < self.best * BETTER {
            self.best = best;
            self.corrections += 1;
        }
    }

    /// How often it turned out that what was taken for quiet was not. What was measured before the last
    /// time may have been disturbed.
    pub fn corrections(&self) -> u32 {
        self.corrections
    }

    /// Waits until nobody traces; false: somebody still does.
    pub fn wait(&mut self) -> Result<bool> {
        let end = Instant::now() + unless_brief(PATIENCE, Duration::ZERO);
        while Instant::now() < end {
            if self.idle()? {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(false)
    }

    /// Whether a system call takes no longer now than at the quietest moment so far.
    pub fn idle(&mut self) -> Result<bool> {
        let now = self.getppid()?;
        let idle = now <= self.idle * LONGER;
        if idle {
            self.corrections += u32::from(now * LONGER < self.idle);
            self.idle = self.idle.min(now);
        }
        Ok(idle)
    }

    /// Nanoseconds of getppid, on a CPU core that is quiet if that can be had.
    fn getppid(&mut self) -> Result<f64> {
        let mut ns = f64::MAX;
        for _ in 0..TRIES {
            self.sentinel
                .ask(&format!("call {} {}", Call::Getppid.word(), self.best))?;
            let [now, _, quiet, best] = self.sentinel.answer()?;
            self.saw(best);
            ns = ns.min(now);
            if quiet == 1.0 {
                break;
            }
        }
        Ok(ns)
    }
}
