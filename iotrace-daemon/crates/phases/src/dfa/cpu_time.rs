//! How long work on a rule set may take: some sets are small and take minutes, whatever is counted of them beforehand. The
//! built-in rules take a tenth of a second.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::TooLarge;

/// Most CPU time.
pub const MAX_CPU_TIME: Duration = Duration::from_secs(2);

/// The CPU time of this thread from here on, if it has an end.
pub struct CpuTime(Option<Duration>);

impl CpuTime {
    pub fn start() -> Self {
        Self(Some(now()))
    }

    /// For rules that are known to be small, also where programs are built to run slowly, as for fuzzing.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Fails when the time is up.
    pub fn check(&self) -> Result<(), TooLarge> {
        match self.0 {
            Some(start) if now().saturating_sub(start) > MAX_CPU_TIME => Err(TooLarge::Time),
            _ => Ok(()),
        }
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
