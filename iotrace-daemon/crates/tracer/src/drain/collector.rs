//! The thread that drains: looks at the ring buffer when the kernel side asks for it and ten times a
//! second, empties the counters once a second, whenever a generation is half full, and when asked. Counters follow the events
//! of their processes and files.

use std::{
    io::{self, Read as _, Write as _},
    os::fd::AsFd as _,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Batch, Drain, Stats, Wake};
use crate::kernel::KernelError;

/// Longest time between two looks at the events.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two drains of the counters.
const DRAIN: Duration = Duration::from_secs(1);

/// What is asked for: everything that was done until now, the same without CPU time, that CPU time counts from now on, or
/// that waits or operations one by one are handed on, or no longer.
const ALL: u8 = 0;
const COUNTERS: u8 = 1;
const ANEW: u8 = 2;
const WAITS_ON: u8 = 3;
const WAITS_OFF: u8 = 4;
const OPERATIONS_ON: u8 = 5;
const OPERATIONS_OFF: u8 = 6;

/// What comes from the thread.
pub enum Taken {
    Batch(Batch),
    /// Everything that was done before the last [`Collector::ask`] has come.
    All {
        /// What draining has cost so far.
        stats: Stats,
        /// Calls that ended before this moment are in it, later ones are not; `CLOCK_MONOTONIC` nanoseconds.
        until: u64,
    },
}

impl Taken {
    /// What was counted, for those who end no steps.
    pub fn batch(self) -> Option<Batch> {
        match self {
            Self::Batch(batch) => Some(batch),
            Self::All { .. } => None,
        }
    }
}

/// A draining thread.
pub struct Collector {
    thread: JoinHandle<Result<Drain, KernelError>>,
    ask: io::PipeWriter,
    taken: UnboundedReceiver<Taken>,
}

impl Collector {
    /// Starts to drain.
    pub fn start(drain: Drain) -> io::Result<Self> {
        let (asked, ask) = io::pipe()?;
        // Unbounded: a reader that is busy with a slow disk must not let the kernel's maps fill up.
        let (sender, taken) = unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("iotrace-drain".into())
            .spawn(move || collect(drain, &asked, &sender))?;
        Ok(Self { thread, ask, taken })
    }

    /// Asks for a drain at once; [`Taken::All`] comes behind what it takes.
    pub fn ask(&mut self) {
        // A thread that has ended does not hear it, which `next` tells of.
        let _ = self.ask.write_all(&[ALL]);
    }

    /// As [`Collector::ask`], but nobody wants CPU time, which takes a look at every thread of the machine.
    pub fn ask_for_counters(&mut self) {
        let _ = self.ask.write_all(&[COUNTERS]);
    }

    /// Has the CPU time of threads counted from now on.
    pub fn begin_anew(&mut self) {
        let _ = self.ask.write_all(&[ANEW]);
    }

    /// Has what threads wait for handed on from now on, or no longer.
    pub fn want_waits(&mut self, are_wanted: bool) {
        let what = if are_wanted { WAITS_ON } else { WAITS_OFF };
        let _ = self.ask.write_all(&[what]);
    }

    /// Has operations handed on one by one from now on, or no longer.
    pub fn want_operations(&mut self, are_wanted: bool) {
        let what = match are_wanted {
            true => OPERATIONS_ON,
            false => OPERATIONS_OFF,
        };
        let _ = self.ask.write_all(&[what]);
    }

    /// What comes next; `None` once the thread has ended, which [`Collector::stop`] says the reason of.
    pub async fn next(&mut self) -> Option<Taken> {
        self.taken.recv().await
    }

    /// Stops the thread; what it has taken and nobody has seen goes to `take`.
    pub fn stop(mut self, mut take: impl FnMut(Taken)) -> Result<Drain, KernelError> {
        drop(self.ask);
        let drain = self.thread.join().unwrap_or_else(|_| {
            Err(KernelError::Io {
                what: "the draining thread".into(),
                source: io::Error::other("it panicked"),
            })
        });
        while let Ok(taken) = self.taken.try_recv() {
            take(taken);
        }
        drain
    }
}

/// Priority of the thread: what it leaves undone in time goes to the overflow, and it needs little time.
const NICE: i32 = -10;

/// Puts the running thread before others. Without the privilege (CAP_SYS_NICE) it runs like them.
pub fn hurry() {
    // SAFETY: on Linux this sets the priority of the calling thread alone.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } != 0 {
        log::debug!(
            "the draining thread keeps its priority: {}",
            io::Error::last_os_error()
        );
    }
}

fn collect(
    mut drain: Drain,
    asked: &io::PipeReader,
    taken: &UnboundedSender<Taken>,
) -> Result<Drain, KernelError> {
    hurry();
    // The receiver lives until this thread has been joined.
    let send = |what| drop(taken.send(what));
    let mut sink = |batch| send(Taken::Batch(batch));
    let mut next = Instant::now() + DRAIN;
    loop {
        let look = drain.look_at_rings().unwrap_or(LOOK);
        let limit = look.min(next.saturating_duration_since(Instant::now()));
        let wake = drain.wait(asked.as_fd(), limit).map_err(failed_wait)?;
        let mut is_cpu_wanted = false;
        let all = match wake {
            Wake::Look => false,
            Wake::Asked => {
                let mut what = [ALL];
                (&*asked).read_exact(&mut what).map_err(failed_wait)?;
                match what {
                    [ANEW] => {
                        drain.look(true, &mut sink);
                        continue;
                    }
                    [WAITS_ON | WAITS_OFF] => {
                        drain.want_waits(what == [WAITS_ON]);
                        continue;
                    }
                    [OPERATIONS_ON | OPERATIONS_OFF] => {
                        drain.want_operations(what == [OPERATIONS_ON])?;
                        continue;
                    }
                    _ => is_cpu_wanted = what == [ALL],
                }
                true
            }
            Wake::Stop => {
                drain.events(&mut sink);
                drain.look(false, &mut sink);
                return Ok(drain);
            }
        };
        let fill = drain.events(&mut sink);
        drain.hand_on_records(&mut sink);
        if fill || all || Instant::now() >= next {
            let mut counted = Vec::new();
            drain.counters(&mut |batch| counted.push(batch))?;
            // The names of files that were first used since the events were taken, and the processes that were made since.
            drain.events(&mut sink);
            counted.into_iter().for_each(&mut sink);
            next = Instant::now() + DRAIN;
        }
        if is_cpu_wanted {
            drain.look(false, &mut sink);
        }
        if all {
            send(Taken::All {
                stats: drain.stats(),
                until: drain.flipped(),
            });
        }
    }
}

fn failed_wait(source: io::Error) -> KernelError {
    KernelError::Io {
        what: "the event ring buffer cannot be waited for".into(),
        source,
    }
}
