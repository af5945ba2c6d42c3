//! Where and how urgently the worker runs.

use std::sync::OnceLock;
use std::{io, mem};

use anyhow::{Context as _, Result};

/// Asks to be run before all others. Without the right to, more pieces are disturbed.
pub fn raise_priority() {
    prefer(-20);
}

/// Runs the calling thread, and what it starts from now on, with this priority (nice(2)), where it has the right to.
pub fn prefer(nice: i32) {
    // SAFETY: setpriority touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// The CPUs that this process may use: those of its main thread at the first call.
pub fn own() -> &'static [usize] {
    static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let mut set = empty();
        // SAFETY: the set is as large as it says.
        unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        let all = 0..libc::CPU_SETSIZE as usize;
        // SAFETY: below the size of the set.
        all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
            .collect()
    })
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: usize) -> Result<()> {
    let mut set = empty();
    // SAFETY: a CPU of this machine is below the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is as large as it says.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } < 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("a thread cannot be kept on CPU {cpu}"));
    }
    Ok(())
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: all zeros is the empty set.
    unsafe { mem::zeroed() }
}
