//! What the service itself costs: CPU, memory, descriptors.

use std::{fs, sync::atomic::Ordering::Relaxed};

use serde::Serialize;

use super::front;

/// What the service's two processes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// The tracer.
    #[serde(flatten)]
    pub own: Resources,
    pub open_descriptors: u64,
    pub max_descriptors: u64,
    pub front: Front,
}

/// What the front uses; 0 if it does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Front {
    pub pid: u32,
    /// Since the start of the service.
    pub restarts: u64,
    #[serde(flatten)]
    pub resources: Resources,
}

/// What one process uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Resources {
    /// In user and kernel mode, of all threads.
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
}

impl Usage {
    /// As it is now. What cannot be read is 0.
    pub fn now(front: &front::State) -> Self {
        let pid = front.pid.load(Relaxed);
        Self {
            own: Resources::of(std::process::id()),
            open_descriptors: fs::read_dir("/proc/self/fd")
                .map_or(0, |entries| entries.count() as u64 - 1), // that of the directory itself
            max_descriptors: limit(),
            front: Front {
                pid,
                restarts: front.restarts.load(Relaxed),
                resources: Resources::of(pid),
            },
        }
    }
}

impl Resources {
    fn of(pid: u32) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"));
        text.ok()
            .and_then(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    /// proc(5), stat. The name in parentheses may hold anything; after it comes the third field.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let [user, system, virtual_bytes, pages] = [14, 15, 23, 24].map(field);
        // SAFETY: sysconf has no preconditions.
        let [ticks, page_bytes] =
            [libc::_SC_CLK_TCK, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
        Some(Self {
            cpu_seconds: (user? + system?) as f64 / ticks as f64,
            resident_bytes: pages? * u64::try_from(page_bytes).ok()?,
            virtual_bytes: virtual_bytes?,
        })
    }
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
        let front = front::State::default();
        let before = Usage::now(&front);
        let file = fs::File::open("/proc/self/stat").unwrap();
        let usage = Usage::now(&front);
        assert!(usage.own.resident_bytes > 1 << 20);
        assert!(usage.own.virtual_bytes > usage.own.resident_bytes);
        assert!(usage.open_descriptors >= 4 && usage.max_descriptors >= usage.open_descriptors);
        assert!(usage.own.cpu_seconds >= before.own.cpu_seconds);
        assert_eq!(usage.front, Front::default(), "there is none");
        front.pid.store(std::process::id(), Relaxed);
        let usage = Usage::now(&front);
        assert!(usage.front.resources.resident_bytes > 1 << 20);
        drop(file);
    }

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) R 1 (b)) S 1 7 7 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 9 8192 2 18446744073709551615";
        let resources = Resources::parse(stat).unwrap();
        assert_eq!(resources.virtual_bytes, 8192);
        assert!((resources.cpu_seconds - 3.5).abs() < 1e-9);
        assert_eq!(Resources::parse("7 (a) S 1"), None);
    }
}
