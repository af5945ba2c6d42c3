//! How long work on a rule set may take: some sets are small and take minutes, whatever is counted of them beforehand. The
//! built-in rules take a tenth of a second, and on a slow machine, such as an emulated one, much longer: there the limit is a
//! multiple of that.

use std::{sync::LazyLock, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use super::{TooLarge, build::build_within};
use crate::rules::RuleSet;

/// Most CPU time, unless [`MAX_BUILTIN_TIMES`] is more.
pub const MAX_CPU_TIME: Duration = Duration::from_secs(2);
/// How many times the CPU time of the built-in rules a rule set may take.
pub const MAX_BUILTIN_TIMES: u32 = 10;

/// The limit on this machine. Measured only by who takes longer than [`MAX_CPU_TIME`].
static LIMIT: LazyLock<Duration> = LazyLock::new(|| {
    let start = now();
    // They compile: else there is no classifier at all.
    let _ = RuleSet::builtin().map(|rules| build_within(rules.all(), &CpuTime::unlimited()));
    MAX_CPU_TIME.max((now() - start) * MAX_BUILTIN_TIMES)
});

/// The CPU time of this thread from here on, if it has an end.
pub struct CpuTime(Option<Duration>);

impl CpuTime {
    pub fn start() -> Self {
        Self(Some(now()))
    }

    /// For the built-in rules.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Fails when the time is up.
    pub fn check(&self) -> Result<(), TooLarge> {
        let used = self.0.map(|start| now().saturating_sub(start));
        match used {
            Some(used) if used > MAX_CPU_TIME && used > *LIMIT => Err(TooLarge::Time),
            _ => Ok(()),
        }
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
