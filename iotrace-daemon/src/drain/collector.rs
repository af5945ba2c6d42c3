//! The thread that drains: looks at the ring buffer when the kernel side asks for it and ten times a
//! second, empties the counters once a second and whenever a generation is half full.

use std::{
    io,
    os::fd::AsFd as _,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Batch, Drain};
use crate::kernel::KernelError;

/// Longest time between two looks at the events.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two drains of the counters.
const DRAIN: Duration = Duration::from_secs(1);

/// A draining thread.
pub struct Collector {
    thread: JoinHandle<Result<Drain, KernelError>>,
    stop: io::PipeWriter,
    batches: UnboundedReceiver<Batch>,
}

impl Collector {
    /// Starts to drain.
    pub fn start(drain: Drain) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        // Unbounded: a reader that is busy with a slow disk must not let the kernel's maps fill up.
        let (sender, batches) = unbounded_channel();
        let thread = std::thread::Builder::new()
            .name("iotrace-drain".into())
            .spawn(move || collect(drain, &stopped, &sender))?;
        Ok(Self {
            thread,
            stop,
            batches,
        })
    }

    /// The next batch; `None` once the thread has ended, which [`Collector::stop`] says the reason of.
    pub async fn next(&mut self) -> Option<Batch> {
        self.batches.recv().await
    }

    /// Stops the thread; what it has taken and nobody has seen goes to `take`.
    pub fn stop(mut self, mut take: impl FnMut(Batch)) -> Result<Drain, KernelError> {
        drop(self.stop);
        let drain = self.thread.join().unwrap_or_else(|_| {
            Err(KernelError::Io {
                what: "the draining thread".into(),
                source: io::Error::other("it panicked"),
            })
        });
        while let Ok(batch) = self.batches.try_recv() {
            take(batch);
        }
        drain
    }
}

/// Priority of the thread: what it leaves undone in time goes to the overflow, and it needs little time.
const NICE: i32 = -10;

/// Puts the running thread before others. Without the privilege (CAP_SYS_NICE) it runs like them.
fn hurry() {
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
    stopped: &io::PipeReader,
    batches: &UnboundedSender<Batch>,
) -> Result<Drain, KernelError> {
    hurry();
    // The receiver lives until this thread has been joined.
    let mut sink = |batch| drop(batches.send(batch));
    let mut next = Instant::now() + DRAIN;
    loop {
        let limit = LOOK.min(next.saturating_duration_since(Instant::now()));
        let stop = drain
            .wait(stopped.as_fd(), limit)
            .map_err(|source| KernelError::Io {
                what: "the event ring buffer cannot be waited for".into(),
                source,
            })?;
        if stop {
            return Ok(drain);
        }
        let fill = drain.events(&mut sink);
        if fill || Instant::now() >= next {
            drain.counters(&mut sink)?;
            next = Instant::now() + DRAIN;
        }
    }
}
