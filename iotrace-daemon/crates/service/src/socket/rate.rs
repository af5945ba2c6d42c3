//! How often something may be done: a user's recordings, of which each start loads programs and patches the kernel, and what else
//! all users feel.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Starts that are allowed at once, and the time after which there is one more.
const BURST: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(2);

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
#[derive(Debug, Default)]
pub struct Rates(HashMap<u32, Instant>);

impl Rates {
    /// Takes one start of a user; the time until there is one if there is none.
    pub fn take(&mut self, uid: u32, now: Instant) -> Result<(), Duration> {
        self.0.retain(|_, full| *full > now);
        take(self.0.entry(uid).or_insert(now), now, BURST, INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_one_at_a_time() {
        let (mut rates, now) = (Rates::default(), Instant::now());
        for _ in 0..BURST {
            rates.take(1, now).unwrap();
        }
        assert_eq!(rates.take(1, now), Err(INTERVAL));
        assert_eq!(rates.take(1, now), Err(INTERVAL), "a refusal costs nothing");
        rates.take(2, now).unwrap();
        rates.take(1, now + INTERVAL).unwrap();
        assert_eq!(rates.take(1, now + INTERVAL), Err(INTERVAL));
        let later = now + INTERVAL * 100;
        rates.take(1, later).unwrap();
        assert_eq!(rates.0.len(), 1, "full buckets are not kept");
    }
}
