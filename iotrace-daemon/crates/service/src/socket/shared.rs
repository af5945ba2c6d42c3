//! One recording by the programs of the service: the side that counts hands on what is of the client's processes.

use std::{
    io::{self, ErrorKind},
    os::fd::AsFd as _,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use super::{
    Counting,
    peer::Peer,
    protocol::{
        Answer, Begun, Code, Interpreter, NO_LINES, NO_WAITS, Numbered, Record, Refusal, Wish,
    },
    rate,
    recording::{Settings, pause, processes},
    wire::{Limits, Over, Wire},
};
use crate::sight::Sight;
use crate::subscriptions::{Begin, Item, Order, Queue, Wanted, What};
use iotrace_model::{host, input::Event, run::RAW};
use iotrace_tracer::drain::Batch;

/// Between two looks at what ends a recording: its time, its size, the end of the service.
const LOOK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How long a drain may take before the side that counts is given up.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// The same once the service ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Interpreters that a client may tell of at once, and the time after which it may tell of one more.
const INTERPRETERS: u32 = 1000;
const INTERPRETER_INTERVAL: Duration = Duration::from_millis(10);

/// Whether the programs of the service count what is asked.
pub fn can_be(record: &Record, counting: &Counting) -> bool {
    // Without type information they do not know who may look into a process.
    counting.hook != RAW && (!record.pids.is_empty() || !record.kept().is_more())
}

/// A recording that has begun.
pub struct Recording<'a> {
    counting: &'a Counting,
    queue: Arc<Queue>,
    /// Of the client; none: of root, who may learn all names.
    sight: Option<Sight>,
    /// When the client may tell of as many interpreters as ever.
    interpreters: Instant,
}

/// Has the processes told of; what to say to the client.
pub fn start<'a>(
    peer: Peer,
    record: &Record,
    counting: &'a Counting,
    settings: &Settings,
) -> Result<(Recording<'a>, Answer), Refusal> {
    let failed = |error: io::Error| Refusal::new(Code::Failed, format!("no recording: {error}"));
    for (is_wanted, without, lacks) in [
        (record.waits, NO_WAITS, &counting.lacks_waits),
        (
            record.kept().lines.are_some(),
            NO_LINES,
            &counting.lacks_lines,
        ),
    ] {
        if let (true, Some(reason)) = (is_wanted, lacks) {
            let message = format!("{without}: {reason}");
            return Err(Refusal::new(Code::Failed, message));
        }
    }
    let processes = processes(peer, record)?;
    pause();
    let queue = Arc::new(Queue::new().map_err(failed)?);
    let recording = Recording {
        counting,
        queue,
        sight: (!peer.is_root()).then(|| Sight::of(peer.rights.uid, peer.rights.gid, peer.pid)),
        interpreters: Instant::now(),
    };
    let start_unix_ns = host::realtime().map_err(failed)?;
    recording
        .order(What::Begin(Begin {
            wanted: Wanted {
                client: (!peer.is_root()).then_some(peer.rights),
                recorder: peer.pid,
                pids: record.pids.clone(),
                follow: record.follow,
            },
            kept: record.kept(),
            slot: None,
        }))
        .map_err(failed)?;
    recording.until_begun().map_err(failed)?;
    if let Some(refusal) = recording.queue.refusal() {
        return Err(refusal);
    }
    // What was checked before may have ended, and its pid be another process's.
    for process in &processes {
        peer.check(process)?;
    }
    let begun = Answer::Begun(Begun {
        hook: counting.hook.clone(),
        start_unix_ns,
        shared: true,
        rules: settings.rules.fingerprint(),
        page_cache: counting.page_cache,
    });
    Ok((recording, begun))
}

impl Recording<'_> {
    /// Sends what is counted until the client has enough, or may have no more.
    pub fn follow(
        mut self,
        wire: &mut Wire,
        begun: &Answer,
        settings: &Settings,
    ) -> Result<(), Over> {
        wire.say(begun)?;
        // Limits are for users: root could as well record without the service.
        let limits = self.sight.is_some().then(|| Limits::from_now(settings));
        // When the last answer must be there, once it was asked for.
        let mut ends_by = None;
        loop {
            if self.wait(wire)? || wire.has_heard() {
                for wish in wire.listen()? {
                    match wish {
                        Wish::All => self.order(What::All)?,
                        Wish::Stop => {
                            ends_by.get_or_insert(Instant::now() + DRAIN_TIMEOUT);
                            self.order(What::End(None))?;
                        }
                        Wish::Python(interpreter) => self.tell(wire, interpreter)?,
                    }
                }
            }
            for item in self.queue.take() {
                match item {
                    Item::Begun => {}
                    Item::Batch(batch) => wire.batch(&self.limit(batch))?,
                    Item::Python(numbered) => wire.say(&Answer::Python(numbered))?,
                    Item::All(sums) => wire.say(&Answer::All(sums))?,
                    Item::End(sums, reason) => return Ok(wire.say(&Answer::End { sums, reason })?),
                }
            }
            if ends_by.is_none()
                && let Some(reason) = wire.limit(limits.as_ref())
            {
                // A service that ends hands on the last by itself.
                let is_asked = self.order(What::End(Some(reason))).is_ok();
                let timeout = if is_asked { DRAIN_TIMEOUT } else { END_TIMEOUT };
                ends_by = Some(Instant::now() + timeout);
            }
            if ends_by.is_some_and(|by| Instant::now() > by) {
                return Err(io::Error::from(ErrorKind::TimedOut).into());
            }
        }
    }

    /// Has the side that counts look at an interpreter, unless the client tells of too many.
    fn tell(&mut self, wire: &mut Wire, interpreter: Interpreter) -> io::Result<()> {
        let interval = INTERPRETER_INTERVAL;
        match rate::take(
            &mut self.interpreters,
            Instant::now(),
            INTERPRETERS,
            interval,
        ) {
            Ok(()) => self.order(What::Python(interpreter)),
            Err(_) => wire.say(&Answer::Python(Numbered {
                pid: interpreter.pid,
                number: None,
                replaces: None,
            })),
        }
    }

    /// The batch without the names that the client may not learn.
    fn limit(&mut self, mut batch: Batch) -> Batch {
        if let (Batch::Events(events), Some(sight)) = (&mut batch, &mut self.sight) {
            events.retain(|event| match event {
                Event::File(name) => sight.may_learn(&name.path),
                Event::NegativeLookup { path, .. } => sight.may_learn(path),
                _ => true,
            });
        }
        batch
    }

    fn order(&self, what: What) -> io::Result<()> {
        let queue = Arc::clone(&self.queue);
        let order = Order { what, queue };
        let sent = self.counting.orders.blocking_send(order);
        sent.map_err(|_| io::Error::other("the service ends"))
    }

    fn until_begun(&self) -> io::Result<()> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while Instant::now() < deadline {
            let mut ready = [PollFd::new(&self.queue, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK_INTERVAL)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Waits until something is to be sent or heard; whether the client said something.
    fn wait(&self, wire: &Wire) -> io::Result<bool> {
        let wire = wire.as_fd();
        let mut ready = [
            PollFd::new(&self.queue, PollFlags::IN),
            PollFd::new(&wire, PollFlags::IN),
        ];
        match poll(&mut ready, Some(&LOOK_INTERVAL)) {
            Ok(_) => Ok(!ready[1].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.queue.close();
    }
}
