//! The running trace: from the moment the processes come into scope to the moment the hooks are off and the maps empty.

use std::{
    collections::VecDeque,
    io,
    process::ExitStatus,
    time::{Duration, Instant},
};

use super::{
    child::{self, Held, Running},
    interrupt::Signals,
    links::Links,
    live,
    operations::Operations,
    session::Session,
    source::Source,
    ticks::ticks,
};
use iotrace_model::{Model, host, targets};
use iotrace_tracer::drain::{Batch, Stats, collector::Taken, rings};
use iotrace_tracer::kernel::KernelError;

/// Until when since the start a flush interval holds, and the interval.
const FLUSH_STAGES: [(Duration, Duration); 2] = [
    (Duration::from_secs(5), Duration::from_millis(250)),
    (Duration::from_secs(30), Duration::from_secs(1)),
];
const FLUSH_INTERVAL: Duration = Duration::from_secs(5);
/// Until when since the start the first steps last so long; twice as long until twice as late, and so on.
const FIRST_STEPS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_millis(250));
/// Shortest step if a service counts, which drains for others too.
const SHARED_STEP: Duration = Duration::from_secs(1);
/// Exit code when `--duration` ends a program, as timeout(1)'s.
const TIMED_OUT: i32 = 124;
/// Between two looks at the processes.
const TICK: Duration = Duration::from_millis(200);
/// What a program gets between the signal that is to end it and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// What is done until the end, for [`Ending`](super::ending::Ending).
const COUNTING: &str = "taking in what was counted";

/// The running trace.
pub struct Trace {
    source: Source,
    /// Nothing more comes from the source.
    over: bool,
    /// The rings of the operation trace, before it begins.
    rings: Option<rings::Operations>,
    operations: Option<Operations>,
    links: Links,
    child: Option<Running>,
    signals: Signals,
    /// When the program that is to end will be killed.
    ending: Option<Instant>,
    timed_out: bool,
    /// Whether the program was sent SIGKILL.
    killed: bool,
}

impl Trace {
    /// Starts to drain; nothing is in scope yet.
    pub fn new(source: Source, signals: Signals) -> Self {
        Self {
            source,
            over: false,
            rings: None,
            operations: None,
            links: Links::new(),
            child: None,
            signals,
            ending: None,
            timed_out: false,
            killed: false,
        }
    }

    /// Has every operation of these rings kept, too.
    pub fn keep_operations(&mut self, rings: Option<rings::Operations>) {
        self.rings = rings;
    }

    /// Takes the hooks off without a last look.
    pub fn abandon(self) -> Result<(), KernelError> {
        self.source.abandon()
    }

    /// Puts the processes into scope and lets the program go.
    pub fn begin(&mut self, session: &mut Session, held: Option<Held>) -> anyhow::Result<()> {
        session.model.update_mounts(&host::mountinfo()?);
        session.begin()?;
        if session.args.trace {
            let rings = self.rings.take();
            let (args, run) = (&session.args, &session.run);
            let (most_bytes, filter) = (args.trace_max_size, &args.trace_filter);
            if let Some(directory) = session.output() {
                let started = Operations::start(rings, directory, run, most_bytes, filter);
                self.operations = Some(started?);
            }
        }
        match &mut self.source {
            Source::Service(remote) => session.began(remote.begun.start_unix_ns),
            Source::Own { kernel, .. } => {
                if let Some(held) = &held {
                    kernel.add_target(held.pid())?;
                } else if session.args.all {
                    kernel.trace_all()?;
                }
            }
        }
        if let Some(held) = held {
            self.child = Some(held.release()?);
        } else if !session.args.all {
            self.add_running(session)?;
        }
        if self.child.is_none() {
            self.source.begin_anew();
        }
        Ok(())
    }

    /// Puts processes that run into scope, and takes down who they are.
    fn add_running(&mut self, session: &mut Session) -> Result<(), KernelError> {
        let roots = session.args.pid.clone();
        let follow = !session.args.no_follow;
        let find = || targets::wanted(&roots, follow, std::process::id());
        // Twice: a child made between the first look and its parent's becoming a target is not followed.
        for pid in find().into_iter().chain(find()) {
            if let Source::Own { kernel, .. } = &mut self.source {
                kernel.add_target(pid)?;
            }
            session.earlier.look(pid);
            session
                .known
                .extend(targets::describe(pid).map(|about| (pid, about)));
        }
        Ok(())
    }

    /// Follows the processes until they end, time is up or a signal comes.
    pub async fn follow(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let deadline = session
            .args
            .duration
            .map(|duration| session.started + duration);
        let mut look = ticks(TICK);
        let mut flush = Box::pin(tokio::time::sleep(flush_interval(session)));
        let mut step = Box::pin(tokio::time::sleep(step_length(session, self.least_step())));
        // There is nothing yet to look at.
        look.reset();
        if let (Some(deadline), None) = (deadline, &self.child) {
            session.ending.begin(deadline, COUNTING);
        }
        // While a part is written, what comes waits with the ends of its steps: they are as short as ever.
        let mut asked = VecDeque::new();
        let mut least = self.least_step();
        let mut pace = Pace::new(Instant::now());
        loop {
            let next = [deadline.filter(|_| !self.timed_out), self.ending]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                taken = self.source.next(), if !self.over && !session.is_writing() => match taken {
                    Some(Taken::Batch(batch)) => {
                        let mapped = batch.mapped();
                        enter(batch, &mut self.operations, &mut self.links, &mut session.model);
                        self.source.probe(&mapped, &session.model);
                    }
                    Some(Taken::All { stats, until }) => {
                        self.links.end_of_drain(&mut session.model);
                        session.end_step(until);
                        if asked.pop_front() == Some(Asked::Flush) {
                            self.flush(session)?;
                        }
                        let now = Instant::now();
                        least = self.least_step().max(pace.after(stats.last_entries, now));
                        step.as_mut().reset((now + step_length(session, least)).into());
                    }
                    None => if self.is_over(session) { return Ok(()) },
                },
                written = session.written(), if session.is_writing() => {
                    written?;
                    // Counted from here: a slow disk must not be given one part behind the other.
                    flush.as_mut().reset((Instant::now() + flush_interval(session)).into());
                }
                _ = look.tick() => {
                    self.source.look();
                    if let Some(child) = &mut self.child {
                        child.look();
                    }
                    if !session.is_writing() {
                        session.ending.turn("reading /proc");
                        session.describe();
                        session.ending.turn(COUNTING);
                        session.show_progress();
                    }
                    if targets_ended(session) {
                        return Ok(());
                    }
                }
                () = &mut flush, if asked.is_empty() && !self.over && !session.is_writing() => {
                    self.source.ask();
                    asked.push_back(Asked::Flush);
                }
                () = &mut step, if !self.over && (asked.is_empty() || session.is_writing()) => {
                    let now = tokio::time::Instant::now();
                    let left = flush.deadline().saturating_duration_since(now);
                    let length = step_length(session, least);
                    if !session.is_writing() && left < length / 2 {
                        // The flush ends it.
                        step.as_mut().reset(flush.deadline() + length);
                    } else {
                        self.source.ask_for_counters();
                        asked.push_back(Asked::Step);
                        step.as_mut().reset(now + length);
                    }
                }
                status = ended(&mut self.child) => {
                    session.run.exit_code = Some(child::exit_code(status?));
                    return Ok(());
                }
                signal = self.signals.next() => if self.interrupted(session, signal) { return Ok(()) },
                () = until(next) => if self.time_is_up() { return Ok(()) },
            }
        }
    }

    /// Shortest time between two drains for a step.
    fn least_step(&self) -> Duration {
        match self.source.is_shared() {
            true => SHARED_STEP,
            false => Duration::ZERO,
        }
    }

    /// Writes a part, of all that was done until it was asked for.
    fn flush(&mut self, session: &mut Session) -> anyhow::Result<()> {
        session.run.losses = self.source.losses()?;
        session.run.uprobes = self.source.probed();
        self.links.forget();
        if let Some(operations) = &mut self.operations {
            operations.cut();
            session.run.trace = Some(operations.summary());
        }
        session.model.update_mounts(&host::mountinfo()?);
        session.tick();
        session.take_in_flight(&self.source.in_flight());
        session.flush();
        Ok(())
    }

    /// Handles the end of what the source has; true: stop now. A program goes on when the service has ended its
    /// recording. If no reason is known yet, the end will say it.
    fn is_over(&mut self, session: &mut Session) -> bool {
        self.over = true;
        session.tick();
        let Some(reason) = self.source.reason() else {
            return true;
        };
        session.status_line.clear();
        log::warn!("the recording ends here: {reason}");
        session.is_cut = true;
        self.child.is_none()
    }

    /// Handles a signal to iotrace; true: stop now. A program gets it first, and iotrace stops at its end; a second
    /// signal stops iotrace alone.
    fn interrupted(&mut self, session: &mut Session, signal: i32) -> bool {
        let Some(child) = &self.child else {
            return true;
        };
        if self.ending.is_some() {
            session.run.exit_code = Some(128 + signal);
            return true;
        }
        child.signal(signal);
        self.ending = Some(Instant::now() + GRACE);
        false
    }

    /// Handles the end of `--duration`, or of the grace after it; true: stop now.
    fn time_is_up(&mut self) -> bool {
        let Some(child) = &self.child else {
            return true;
        };
        if self.ending.is_some() {
            if self.killed {
                // A call that hangs in the kernel outlives SIGKILL.
                log::warn!(
                    "the program does not end, killed or not: the recording ends without it"
                );
                return true;
            }
            child.signal(libc::SIGKILL);
            self.killed = true;
            self.ending = Some(Instant::now() + GRACE);
            return false;
        }
        self.timed_out = true;
        self.ending = Some(Instant::now() + GRACE);
        child.signal(libc::SIGTERM);
        false
    }

    /// Takes the hooks off, and everything that is left out of the maps.
    pub async fn end(mut self, session: &mut Session) -> anyhow::Result<()> {
        if !self.over {
            session.tick();
        }
        if self.timed_out && self.child.is_some() {
            session.ending.begin(Instant::now(), "reading /proc");
        }
        session.ending.turn("reading /proc");
        session.describe();
        session.run.uprobes = self.source.probed();
        let in_flight = self.source.in_flight();
        let is_writing = session.is_writing();
        let mut left = Vec::new();
        let take = |taken: Taken| match is_writing {
            true => left.push(taken),
            // The last step ends with the run.
            false => {
                if let Some(batch) = taken.batch() {
                    enter(
                        batch,
                        &mut self.operations,
                        &mut self.links,
                        &mut session.model,
                    );
                }
            }
        };
        let turn = |what| session.ending.turn(what);
        let ended = self.source.end(take, turn).await;
        if !self.over {
            session.tick();
        }
        session.ending.turn(session.writing());
        session.written().await?;
        for taken in left {
            match taken {
                Taken::Batch(batch) => enter(
                    batch,
                    &mut self.operations,
                    &mut self.links,
                    &mut session.model,
                ),
                Taken::All { until, .. } => {
                    self.links.end_of_drain(&mut session.model);
                    session.end_step(until);
                }
            }
        }
        self.links.end_of_drain(&mut session.model);
        let (losses, stats, lost) = ended?;
        session.model.update_mounts(&host::mountinfo()?);
        session.run.losses = losses;
        session.lost = lost;
        if let Some(operations) = self.operations {
            session.run.trace = Some(operations.finish()?);
        }
        session.run.clock_step_ns = host::clock_step(&session.run.clock)?;
        session
            .run
            .losses
            .insert("damaged_events".into(), stats.damaged);
        log_stats(stats);
        // Processes that the last batches told of, and names of files.
        session.describe();
        if !self.over {
            session.take_in_flight(&in_flight);
        }
        if self.timed_out && self.child.is_some() {
            session.run.exit_code = Some(TIMED_OUT);
        }
        Ok(())
    }
}

/// Takes in what was counted, and operations that a service tells of.
fn enter(batch: Batch, operations: &mut Option<Operations>, links: &mut Links, model: &mut Model) {
    match (batch, operations) {
        (Batch::Events(events), _) => {
            events
                .into_iter()
                .for_each(|event| links.take(event, model));
        }
        (Batch::Operations(traced), Some(operations)) => operations.take(traced, model),
        (batch, _) => batch.apply(model),
    }
}

/// What the source was asked for a drain for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// To end a step.
    Step,
    /// To end a step and to write a part.
    Flush,
}

/// Keeps what steps cost to some percent of a CPU: an entry of a drain costs about 10 µs until it is written.
#[derive(Debug)]
struct Pace {
    /// Time that has to pass for the entries so far.
    owed: Duration,
    since: Instant,
}

impl Pace {
    /// Time for each entry.
    const TIME_PER_ENTRY: Duration = Duration::from_micros(500);
    /// Time that may be owed before a step gets longer: a program that opens thousands of files at its start is to have short
    /// steps behind them.
    const MAX_OWED: Duration = Duration::from_secs(10);

    fn new(now: Instant) -> Self {
        Self {
            owed: Duration::ZERO,
            since: now,
        }
    }

    /// The minimum length of the next step, after a drain that took this many entries: one that took few was cheap, whatever
    /// is owed for those before.
    fn after(&mut self, entries: u64, now: Instant) -> Duration {
        let cost = Self::TIME_PER_ENTRY * u32::try_from(entries).unwrap_or(u32::MAX);
        let passed = now - self.since;
        self.owed = self.owed.saturating_sub(passed) + cost;
        self.since = now;
        self.owed.saturating_sub(Self::MAX_OWED).min(cost)
    }
}

/// How long the next step lasts, which is `least` at least.
fn step_length(session: &Session, least: Duration) -> Duration {
    step_at(session.started.elapsed()).max(least)
}

/// How long a step lasts so long after the start: a run of any length has some hundreds.
fn step_at(elapsed: Duration) -> Duration {
    let (mut until, mut step) = FIRST_STEPS;
    while elapsed >= until {
        (until, step) = (until * 2, step * 2);
    }
    step
}

/// How long the next interval lasts.
fn flush_interval(session: &Session) -> Duration {
    const MIN_INTERVAL: Duration = Duration::from_millis(10);
    match session.args.flush {
        Some(given) => given.max(MIN_INTERVAL),
        None => flush_interval_at(session.started.elapsed()),
    }
}

/// How long an interval lasts so long after the start, which is short and eventful.
fn flush_interval_at(elapsed: Duration) -> Duration {
    let is_in = |(until, _): &&(Duration, Duration)| elapsed < *until;
    let stage = FLUSH_STAGES.iter().find(is_in);
    stage.map_or(FLUSH_INTERVAL, |(_, interval)| *interval)
}

fn log_stats(stats: Stats) {
    log::info!(
        "{} drains took {:?} ({:?} at most) for {} entries",
        stats.drains,
        Duration::from_nanos(stats.drain_ns),
        Duration::from_nanos(stats.slowest_drain_ns),
        stats.entries
    );
}

/// Whether all processes given by pid have ended.
fn targets_ended(session: &Session) -> bool {
    let pids = &session.args.pid;
    !pids.is_empty() && pids.iter().all(|pid| live::has_ended(*pid))
}

/// Waits for the program's end; for ever where there is none.
async fn ended(child: &mut Option<Running>) -> io::Result<ExitStatus> {
    match child {
        Some(child) => child.ended().await,
        None => std::future::pending().await,
    }
}

/// Waits until a moment; for ever where there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_many_rows_for_long_are_not() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert_eq!(pace.after(19_000, start), Duration::ZERO);

        // Once the burst is paid for, 400 rows in each quarter of a second are too few to matter.
        let mut now = start;
        for _ in 0..100 {
            now += Duration::from_millis(250);
            assert_eq!(pace.after(400, now), Duration::ZERO);
        }

        // 2,000 rows in each step: in the end a step lasts a second.
        let mut step = Duration::ZERO;
        for _ in 0..100 {
            now += step.max(Duration::from_millis(250));
            step = pace.after(2_000, now);
        }
        assert_eq!(step, Duration::from_secs(1));

        // Far more than is free: what is beyond it is waited for, once.
        let mut pace = Pace::new(now);
        assert_eq!(pace.after(30_000, now), Duration::from_secs(5));
        now += Duration::from_secs(1);
        assert_eq!(pace.after(2, now), Duration::from_millis(1));
    }
}
