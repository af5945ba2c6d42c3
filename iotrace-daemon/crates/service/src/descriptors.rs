//! Open files of each unit: descriptors whose link in `/proc/PID/fd` names a file, looked at a few at a time.
//!
//! Reading a link asks the kernel for a name only, never the filesystem: a server that does not answer stops nothing.

use std::{
    collections::HashMap,
    fs,
    os::unix::ffi::OsStrExt as _,
    time::{Duration, Instant},
};

use super::totals::UnitId;

/// From the start of one round over all processes to that of the next, at least.
const MIN_ROUND_TIME: Duration = Duration::from_secs(30);
/// Descriptors looked at in one go; a process is looked at as a whole.
const MAX_DESCRIPTORS_AT_ONCE: usize = 2000;
/// Names of files that are none, or no data.
const NO_FILES: [&[u8]; 4] = [b"/dev/", b"/proc/", b"/sys/", b"/memfd:"];

/// A round over all processes.
#[derive(Debug, Default)]
pub struct Descriptors {
    started: Option<Instant>,
    /// Processes that are still to be looked at.
    left: Vec<(u32, UnitId)>,
    counts: HashMap<UnitId, u64>,
}

impl Descriptors {
    /// Goes on with the round, or begins the next one with `all` processes; the counts of one that is complete.
    pub fn go_on(
        &mut self,
        all: impl FnOnce() -> Vec<(u32, UnitId)>,
        now: Instant,
    ) -> Option<HashMap<UnitId, u64>> {
        if self.left.is_empty() {
            let since = self
                .started
                .map(|started| now.saturating_duration_since(started));
            if since.is_some_and(|since| since < MIN_ROUND_TIME) {
                return None;
            }
            self.started = Some(now);
            self.left = all();
        }
        let mut looked = 0;
        while looked < MAX_DESCRIPTORS_AT_ONCE {
            let Some((pid, unit)) = self.left.pop() else {
                return Some(std::mem::take(&mut self.counts));
            };
            let (descriptors, files) = count(pid);
            looked += descriptors + 1;
            *self.counts.entry(unit).or_default() += files;
        }
        None
    }
}

/// Descriptors of a process, and how many of them are files; none where it is gone or must not be looked at.
fn count(pid: u32) -> (usize, u64) {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return (0, 0);
    };
    let (mut all, mut files) = (0, 0);
    for entry in entries.filter_map(Result::ok) {
        all += 1;
        let is_file = fs::read_link(entry.path()).is_ok_and(|name| {
            let name = name.as_os_str().as_bytes();
            name.starts_with(b"/") && !NO_FILES.iter().any(|start| name.starts_with(start))
        });
        files += u64::from(is_file);
    }
    (all, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_pipes_are_not() {
        let own = std::process::id();
        let all = || vec![(own, 5)];
        let now = Instant::now();
        let mut round = Descriptors::default();
        let before = round.go_on(all, now).expect("one process is one go")[&5];
        assert!(round.go_on(all, now).is_none(), "too early");
        let files: Vec<_> = (0..20)
            .map(|_| fs::File::open(std::env::current_exe().unwrap()).unwrap())
            .collect();
        let _pipes = [(); 5].map(|()| std::io::pipe().unwrap());
        let after = round
            .go_on(all, now + MIN_ROUND_TIME)
            .expect("the next round")[&5];
        // Other tests open files, too.
        assert!(after >= before.max(15) + 5, "{before} and {after}");
        drop(files);
    }
}
