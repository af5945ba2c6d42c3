//! Ticks of the loops that trace.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// One tick at once, and one each period from then on, of 10 milliseconds at least. What is late is not made up for.
pub fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
