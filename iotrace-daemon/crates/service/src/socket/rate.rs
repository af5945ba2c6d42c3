//! How often something may be done: a user's requests and recordings, of which some load programs and patch the kernel, and what
//! else all users feel.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How many may come at once, and the time after which there is one more.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    burst: u32,
    interval: Duration,
}

/// Recordings that have limits.
pub const START_RATE: Rate = Rate {
    burst: 5,
    interval: Duration::from_secs(2),
};
/// Requests of any kind: most have the kernel's counters read at once. A program may ask after each of its steps.
pub const REQUEST_RATE: Rate = Rate {
    burst: 100,
    interval: Duration::from_millis(50),
};

/// Takes one from a bucket that is full at `full` again, holds `burst`, and gets one more after each `interval`; the time until
/// there is one if there is none.
pub fn take(
    full: &mut Instant,
    now: Instant,
    burst: u32,
    interval: Duration,
) -> Result<(), Duration> {
    let next = (*full).max(now) + interval;
    let over = next.saturating_duration_since(now + interval * burst);
    if !over.is_zero() {
        return Err(over);
    }
    *full = next;
    Ok(())
}

/// When each user's bucket is full again.
#[derive(Debug)]
pub struct Rates {
    rate: Rate,
    full: HashMap<u32, Instant>,
}

impl Rates {
    pub fn new(rate: Rate) -> Self {
        let full = HashMap::new();
        Self { rate, full }
    }

    /// Takes one of a user; the time until there is one if there is none.
    pub fn take(&mut self, uid: u32, now: Instant) -> Result<(), Duration> {
        self.full.retain(|_, full| *full > now);
        let full = self.full.entry(uid).or_insert(now);
        take(full, now, self.rate.burst, self.rate.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_at_a_time() {
        let (mut rates, now) = (Rates::new(START_RATE), Instant::now());
        let Rate { burst, interval } = START_RATE;
        for _ in 0..burst {
            rates.take(1, now).unwrap();
        }
        assert_eq!(rates.take(1, now), Err(interval));
        assert_eq!(rates.take(1, now), Err(interval), "a refusal costs nothing");
        rates.take(2, now).unwrap();
        rates.take(1, now + interval).unwrap();
        assert_eq!(rates.take(1, now + interval), Err(interval));
        let later = now + interval * 100;
        rates.take(1, later).unwrap();
        assert_eq!(rates.full.len(), 1, "full buckets are not kept");
    }
}
