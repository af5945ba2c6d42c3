//! What the service itself costs: CPU, memory, descriptors.

use std::fs;

use serde::Serialize;

/// Use of resources by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// In user and kernel mode, of all threads.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub open_descriptors: u64,
    pub max_descriptors: u64,
}

impl Usage {
    /// As it is now. What cannot be read is 0.
    pub fn now() -> Self {
        let [virtual_bytes, resident_bytes] = memory().unwrap_or_default();
        Self {
            cpu_seconds: cpu(),
            resident_bytes,
            virtual_bytes,
            open_descriptors: fs::read_dir("/proc/self/fd")
                .map_or(0, |entries| entries.count() as u64 - 1), // that of the directory itself
            max_descriptors: limit(),
        }
    }
}

fn cpu() -> f64 {
    // SAFETY: all zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the target lives here.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return 0.0;
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// proc(5), statm: pages, all and resident.
fn memory() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').map(str::parse::<u64>);
    // SAFETY: sysconf has no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    Some([pages.next()?.ok()? * page, pages.next()?.ok()? * page])
}

fn limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the target lives here.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let before = Usage::now();
        let file = fs::File::open("/proc/self/stat").unwrap();
        let usage = Usage::now();
        assert!(usage.resident_bytes > 1 << 20 && usage.virtual_bytes > usage.resident_bytes);
        assert!(usage.open_descriptors >= 4 && usage.max_descriptors >= usage.open_descriptors);
        assert!(usage.cpu_seconds >= before.cpu_seconds);
        drop(file);
    }
}
