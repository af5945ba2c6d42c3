//! The end of a recording that has a `--duration`: what it waits for if it is late.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A recording that ends later than this after its time says why.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Watches the end of a recording that has a time to end at.
#[derive(Default)]
pub struct Ending(Option<Watch>);

struct Watch {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

struct Shared {
    steps: Mutex<Steps>,
    is_over: Condvar,
}

/// What is done, one after the other.
struct Steps {
    /// When the time is up.
    time: Instant,
    current: String,
    since: Instant,
    /// Of those after the time was up.
    longest: (String, Duration),
    is_over: bool,
}

impl Steps {
    /// Goes on with another step.
    fn turn(&mut self, to: String) {
        let length = self.since.max(self.time).elapsed();
        let last = std::mem::replace(&mut self.current, to);
        if length > self.longest.1 {
            self.longest = (last, length);
        }
        self.since = Instant::now();
    }
}

impl Shared {
    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what is waited for if it takes too long.
    fn watch(&self) {
        let steps = self.steps();
        let left = (steps.time + TOLERANCE).saturating_duration_since(Instant::now());
        let waited = self
            .is_over
            .wait_timeout_while(steps, left, |steps| !steps.is_over);
        let (steps, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !steps.is_over {
            log::warn!("time is up, and iotrace is still {}", steps.current);
        }
    }
}

impl Ending {
    /// Begins to watch. `time`: when the time is up; `what`: what is done until the next step, as in "iotrace is still ...".
    pub fn begin(&mut self, time: Instant, what: &str) {
        let now = Instant::now();
        let shared = Arc::new(Shared {
            steps: Mutex::new(Steps {
                time,
                current: what.to_owned(),
                since: now,
                longest: (String::new(), Duration::ZERO),
                is_over: false,
            }),
            is_over: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("iotrace-ending".into())
            .spawn(move || watched.watch());
        // Without the thread, only the message is missing.
        self.0 = thread.ok().map(|thread| Watch { shared, thread });
    }

    /// Goes on with the next step.
    pub fn turn(&self, to: impl Into<String>) {
        if let Some(watch) = &self.0 {
            watch.shared.steps().turn(to.into());
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(Watch { shared, thread }) = self.0.take() else {
            return;
        };
        let mut steps = shared.steps();
        steps.turn(String::new());
        steps.is_over = true;
        let late = steps.time.elapsed();
        let (what, length) = steps.longest.clone();
        drop(steps);
        shared.is_over.notify_all();
        // It only writes messages.
        let _ = thread.join();
        if late > TOLERANCE {
            log::warn!("the recording ended {late:.1?} after its time: {what} took {length:.1?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_done_after_the_time_makes_it_late() {
        let now = Instant::now();
        let ago = |seconds| {
            now.checked_sub(Duration::from_secs(seconds))
                .expect("the past")
        };
        let mut steps = Steps {
            time: ago(3),
            current: "counting".into(),
            since: ago(60),
            longest: (String::new(), Duration::ZERO),
            is_over: false,
        };
        steps.turn("reading".into());
        assert_eq!(steps.longest.0, "counting");
        assert!(
            (3..60).contains(&steps.longest.1.as_secs()),
            "{:?}",
            steps.longest
        );
        steps.since = ago(30);
        steps.time = ago(20);
        steps.turn("writing".into());
        assert_eq!(steps.longest.0, "reading");
        // What is shorter is not it.
        steps.turn("reporting".into());
        assert_eq!(steps.longest.0, "reading");
        // The time is not up yet.
        steps.longest.1 = Duration::ZERO;
        steps.time = now + Duration::from_secs(60);
        steps.since = ago(30);
        steps.turn("more".into());
        assert_eq!(steps.longest.1, Duration::ZERO);
    }
}
