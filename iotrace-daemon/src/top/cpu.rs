//! CPU time of the processes on the screen, from /proc/PID/stat. Reading it waits for no lock that a hung process can
//! hold, as reading its command line does.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use iotrace_model::{input::ProcessId, targets};

/// By process: CPU time as a share of the time that has passed; 2 if two CPUs were busy.
pub type Shares = HashMap<ProcessId, f64>;

/// What was read last.
#[derive(Default)]
pub struct Sampler {
    read: Option<Instant>,
    times: HashMap<ProcessId, Duration>,
}

impl Sampler {
    /// Reads the CPU time of `processes`; the shares since the last call, of those that were read then too.
    pub fn sample(&mut self, processes: &[ProcessId]) -> Shares {
        self.sample_at(Instant::now(), processes, targets::cpu_time)
    }

    fn sample_at(
        &mut self,
        now: Instant,
        processes: &[ProcessId],
        read: impl Fn(ProcessId) -> Option<Duration>,
    ) -> Shares {
        let times = processes
            .iter()
            .filter_map(|process| Some((*process, read(*process)?)));
        let times: HashMap<ProcessId, Duration> = times.collect();
        let last = self.read.replace(now);
        let earlier = std::mem::replace(&mut self.times, times);
        let Some(elapsed) = last.map(|last| now.saturating_duration_since(last)) else {
            return Shares::new();
        };
        let share = |(process, time): (&ProcessId, &Duration)| {
            let used = time.saturating_sub(*earlier.get(process)?);
            Some((*process, used.div_duration_f64(elapsed)))
        };
        if elapsed.is_zero() {
            return Shares::new();
        }
        self.times.iter().filter_map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_samples() {
        let id = |pid| ProcessId { pid, start: 1 };
        let mut sampler = Sampler::default();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let seconds = |seconds: u64| move |_| Some(Duration::from_secs(seconds));
        assert!(
            sampler
                .sample_at(start, &[id(1), id(2)], seconds(10))
                .is_empty()
        );
        let shares = sampler.sample_at(start + 2 * second, &[id(1), id(3)], seconds(13));
        assert_eq!(
            shares,
            Shares::from([(id(1), 1.5)]),
            "3 was not read before"
        );
        let shares = sampler.sample_at(start + 3 * second, &[id(1), id(2), id(3)], |process| {
            (process.pid != 1).then_some(13 * second)
        });
        assert_eq!(shares, Shares::from([(id(3), 0.0)]), "1 has ended");
    }
}
