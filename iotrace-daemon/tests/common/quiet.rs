//! Whether other programs use the CPUs while something is measured that depends on them.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

/// CPUs that other programs use, and the host takes away, up to which the machine is quiet.
const MAX_CPUS: f64 = 0.25;
/// How often one thing is measured at most.
const MAX_ATTEMPTS: u32 = 3;
/// How long all tests of a program may take for what they measure again, milliseconds: on a machine that is never quiet they
/// must end, too.
static LEFT_MS: AtomicU64 = AtomicU64::new(180_000);

/// Does something with children, all of which have ended then; again if other programs disturbed it.
pub fn measured<T>(mut work: impl FnMut() -> T) -> T {
    for _ in 1..MAX_ATTEMPTS {
        let (start, before) = (Instant::now(), Ticks::now());
        let result = work();
        let cpus = Ticks::now().others_since(&before);
        let took = start.elapsed().as_millis() as u64;
        let take = |left: u64| left.checked_sub(took);
        let is_over = || {
            LEFT_MS
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_err()
        };
        if cpus <= MAX_CPUS || is_over() {
            return result;
        }
        println!("other programs used {cpus:.2} CPUs: measured again");
    }
    work()
}

/// Ticks of all CPUs since boot.
struct Ticks {
    all: u64,
    /// In which they were not idle.
    busy: u64,
    /// Of this process and of its children that have ended.
    own: u64,
}

impl Ticks {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").expect("/proc/stat");
        let line = stat.lines().next().expect("a line of all CPUs");
        // user, nice, system, idle, iowait, irq, softirq, steal; those of guests are in user and nice.
        let of: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(number)
            .collect();
        let own = fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
        let behind_name = own.rsplit(')').next().expect("a name in brackets");
        // utime, stime, cutime and cstime are its fields 14 to 17, and behind the name is the third.
        let own = behind_name.split_whitespace().skip(11).take(4);
        let all: u64 = of.iter().sum();
        Self {
            all,
            busy: all - of[3] - of[4],
            own: own.map(number).sum(),
        }
    }

    /// CPUs that were used by others, on average.
    fn others_since(&self, before: &Self) -> f64 {
        let cpus = thread::available_parallelism().expect("CPUs").get();
        let others = (self.busy - before.busy).saturating_sub(self.own - before.own);
        others as f64 / (self.all - before.all).max(1) as f64 * cpus as f64
    }
}

fn number(field: &str) -> u64 {
    field.parse().expect("ticks")
}
