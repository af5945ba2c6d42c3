//! `iotrace record`: trace a program, processes or the system; write a recording; report.
//!
//! Order matters: the program is made and held, the hooks come on and prove themselves, the program becomes a target
//! and goes. At its end the hooks come off first, so that what is drained last is all there is.

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{self, BufWriter, IsTerminal as _, Write as _},
    path::PathBuf,
    process::{ExitCode, ExitStatus},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Interval, MissedTickBehavior, interval},
};

use super::{
    child::{self, Held, Running},
    host,
    progress::Progress,
    targets,
};
use crate::{
    drain::{Batch, Drain, Stats, collector::Collector},
    kernel::{Detail, HookChoice, Kernel, Options, load, selftest},
    model::{
        About, Model,
        run::{Run, Target},
    },
    recording::Recorder,
    report::{self, Report},
};

/// Exit code when `--duration` ends a program, as timeout(1)'s.
const TIMED_OUT: i32 = 124;
/// Between two looks at the events.
const TICK: Duration = Duration::from_millis(200);
/// What a program gets between SIGTERM and SIGKILL when `--duration` ends it.
const GRACE: Duration = Duration::from_secs(5);

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("scope").required(true).args(["pid", "all", "command"]))]
pub struct Args {
    /// Trace this process, with its threads and descendants; may be given several times.
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Trace every process of the system.
    #[arg(short, long)]
    all: bool,
    /// Do not follow the children of the traced processes.
    #[arg(long)]
    no_follow: bool,
    /// Stop after this time, e.g. 30s, 5m, 2h; a program is ended.
    #[arg(short, long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// How much to keep per file.
    #[arg(long, value_enum, default_value_t = Detail::Full)]
    detail: Detail,
    /// How to see system calls.
    #[arg(long, value_enum, default_value_t = HookChoice::Auto)]
    hook: HookChoice,
    /// Directory for the recording [default: iotrace-DATE-TIME-PID.d here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Report as text or JSON.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Time between two parts of the recording: what a killed recorder loses at most.
    #[arg(long, default_value = "5s", value_parser = humantime::parse_duration)]
    flush: Duration,
    /// Entries of each of the two generations of kernel counters; the self-test alone needs 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1 << 24))]
    map_entries: Option<u32>,
    /// The running kernel's type information, where it is not at /sys/kernel/btf/vmlinux.
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// The program to trace, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `iotrace record`.
pub fn run(args: Args, verbose: u8) -> anyhow::Result<ExitCode> {
    for pid in &args.pid {
        targets::check(*pid)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (outcome, mut session) = runtime.block_on(record(args, verbose))?;
    runtime.shutdown_background();
    let recorded = session.finish(outcome.exit_code);
    session.print()?;
    recorded?;
    Ok(ExitCode::from(outcome.exit_code.unwrap_or(0) as u8))
}

/// How the recording ended.
struct Outcome {
    /// The program's, as a shell's; `None` where iotrace did not start one.
    exit_code: Option<i32>,
}

/// What is kept while recording, and after the hooks are off.
struct Session {
    args: Args,
    model: Model,
    run: Run,
    recorder: Option<Recorder>,
    directory: PathBuf,
    started: Instant,
    progress: Progress,
    /// Processes given by pid and their descendants, as they were at the start: they may be gone when first asked for.
    known: HashMap<u32, About>,
}

async fn record(args: Args, verbose: u8) -> anyhow::Result<(Outcome, Session)> {
    let signals = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let options = Options {
        detail: args.detail,
        follow: args.all || !args.no_follow,
        map_entries: args.map_entries,
        btf: args.btf.clone(),
        program_log: verbose > 1,
    };
    let types = load::read_types(options.btf.as_deref())?;
    let held = if args.command.is_empty() {
        None
    } else {
        Some(Held::new(&args.command).context("a process for the command cannot be made")?)
    };
    let mut kernel = load::load(&options, &types)?;
    drop(types);
    let mut drain = Drain::new(&mut kernel)?;
    let hook = kernel.attach(args.hook)?;
    selftest::run(&mut kernel, &mut drain)?;
    kernel.zero_losses()?;
    log::info!(
        "hook {}, detail {}, {} entries in each of two generations, {} MiB of kernel maps",
        hook.name(),
        kernel.detail().name(),
        kernel.map_entries(),
        kernel.map_bytes() >> 20
    );
    let mut session = Session::new(args, hook.name())?;
    let mut recording = Recording {
        kernel,
        collector: Collector::start(drain)?,
        child: None,
        signals,
        ending: None,
        timed_out: false,
    };
    if let Err(error) = recording.begin(&mut session, held) {
        // Nothing was traced: what is left behind would only be an empty recording.
        session.discard();
        recording.kernel.detach()?;
        return Err(error);
    }
    recording.follow(&mut session).await?;
    let outcome = recording.end(&mut session)?;
    Ok((outcome, session))
}

impl Session {
    fn new(args: Args, hook: &str) -> anyhow::Result<Self> {
        let target = if args.all {
            Target::All(true)
        } else if args.command.is_empty() {
            Target::Pids(args.pid.clone())
        } else {
            Target::Command(
                args.command
                    .iter()
                    .map(|arg| arg.to_string_lossy().into_owned())
                    .collect(),
            )
        };
        let run = host::run(target, hook, args.detail.name())?;
        let directory = args.output.clone().unwrap_or_else(|| host::directory(&run));
        let recorder = Recorder::create(&directory, &run)?;
        Ok(Self {
            args,
            model: Model::default(),
            run,
            recorder: Some(recorder),
            directory,
            started: Instant::now(),
            progress: Progress::new(),
            known: HashMap::new(),
        })
    }

    /// Lets the run's time begin.
    fn begin(&mut self) -> anyhow::Result<()> {
        self.started = Instant::now();
        self.run.start_unix_ns = host::realtime()?;
        Ok(())
    }

    /// Asks /proc for the processes that no event has told of.
    fn describe(&mut self) {
        let unknown: Vec<_> = self.model.undescribed().collect();
        for process in unknown {
            let about =
                targets::look(process.pid).or_else(|| self.known.get(&process.pid).cloned());
            if let Some(about) = about.filter(|about| targets::is_of(about, process)) {
                self.model.describe_process(process, about);
            }
        }
    }

    /// Takes down how long the run has lasted.
    fn tick(&mut self) {
        self.run.duration_ns = self.started.elapsed().as_nanos() as u64;
    }

    /// Writes what came since the last flush. A failure is said and not final: the next flush takes it all.
    fn flush(&mut self) {
        self.tick();
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Err(error) = recorder.flush(&mut self.model, &self.run) {
            self.progress.clear();
            log::error!("{error}");
        }
    }

    /// Takes the recording away again.
    fn discard(&mut self) {
        if let Some(Err(error)) = self.recorder.take().map(Recorder::discard) {
            log::warn!("{error}");
        }
    }

    /// Writes the last part.
    fn finish(&mut self, exit_code: Option<i32>) -> anyhow::Result<()> {
        self.progress.clear();
        self.run.exit_code = exit_code;
        match self.recorder.take() {
            Some(recorder) => recorder
                .finish(&mut self.model, &self.run)
                .with_context(|| {
                    format!("the recording {} is incomplete", self.directory.display())
                }),
            None => Ok(()),
        }
    }

    /// Writes the report to standard output, and where the recording is to standard error.
    fn print(&self) -> anyhow::Result<()> {
        let report = Report::new(&self.model, &self.run);
        print(&report, self.args.format)?;
        log::info!("recording in {}", self.directory.display());
        Ok(())
    }
}

/// Writes a report to standard output.
pub fn print(report: &Report<'_>, format: Format) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let color = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = BufWriter::new(stdout.lock());
    match format {
        Format::Text => report::text(report, color, &mut out)?,
        Format::Json => report::json(report, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// The running trace.
struct Recording {
    kernel: Kernel,
    collector: Collector,
    child: Option<Running>,
    signals: (Signal, Signal),
    /// When the program that is to end will be killed.
    ending: Option<Instant>,
    timed_out: bool,
}

impl Recording {
    /// Puts the processes into scope and lets the program go.
    fn begin(&mut self, session: &mut Session, held: Option<Held>) -> anyhow::Result<()> {
        session.model.update_mounts(&host::mountinfo()?);
        session.begin()?;
        if let Some(held) = held {
            self.kernel.add_target(held.pid())?;
            self.child = Some(held.release()?);
            return Ok(());
        }
        if session.args.all {
            self.kernel.trace_all()?;
            return Ok(());
        }
        let roots = session.args.pid.clone();
        let follow = !session.args.no_follow;
        let find = || {
            if follow {
                targets::descendants(&roots)
            } else {
                roots.clone()
            }
        };
        // Twice: a child made between the first look and its parent's becoming a target is not followed.
        for pid in find().into_iter().chain(find()) {
            self.kernel.add_target(pid)?;
            session
                .known
                .extend(targets::look(pid).map(|about| (pid, about)));
        }
        Ok(())
    }

    /// Follows the processes until they end, time is up or a signal comes.
    async fn follow(&mut self, session: &mut Session) -> anyhow::Result<()> {
        let deadline = session
            .args
            .duration
            .map(|duration| session.started + duration);
        let mut look = ticks(TICK);
        let mut flush = ticks(session.args.flush);
        loop {
            let next = [deadline.filter(|_| !self.timed_out), self.ending]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                batch = self.collector.next() => match batch {
                    Some(batch) => batch.apply(&mut session.model),
                    // The thread has ended for a reason, which the end will say.
                    None => return Ok(()),
                },
                _ = look.tick() => {
                    session.describe();
                    session.progress.show(session.started.elapsed(), &session.model);
                    if targets_ended(session) {
                        return Ok(());
                    }
                }
                _ = flush.tick() => {
                    session.run.losses = self.kernel.losses()?;
                    session.model.update_mounts(&host::mountinfo()?);
                    session.flush();
                }
                status = ended(&mut self.child) => {
                    session.run.exit_code = Some(child::exit_code(status?));
                    return Ok(());
                }
                _ = self.signals.0.recv() => if self.interrupted(libc::SIGINT) { return Ok(()) },
                _ = self.signals.1.recv() => if self.interrupted(libc::SIGTERM) { return Ok(()) },
                () = until(next) => if self.time_is_up() { return Ok(()) },
            }
        }
    }

    /// Handles a signal to iotrace; true: stop now. A program gets it first, and iotrace stops at its end.
    fn interrupted(&mut self, signal: i32) -> bool {
        match &self.child {
            Some(child) if self.ending.is_none() => {
                child.signal(signal);
                self.ending = Some(Instant::now() + GRACE);
                false
            }
            _ => true,
        }
    }

    /// Handles the end of `--duration`, or of the grace after it; true: stop now.
    fn time_is_up(&mut self) -> bool {
        let Some(child) = &self.child else {
            return true;
        };
        if self.ending.is_some() {
            child.signal(libc::SIGKILL);
            self.ending = None;
            return false;
        }
        self.timed_out = true;
        self.ending = Some(Instant::now() + GRACE);
        child.signal(libc::SIGTERM);
        false
    }

    /// Takes the hooks off, and everything that is left out of the maps.
    fn end(self, session: &mut Session) -> anyhow::Result<Outcome> {
        session.tick();
        session.describe();
        session.model.update_mounts(&host::mountinfo()?);
        let mut take = |batch: Batch| batch.apply(&mut session.model);
        let mut drain = self.collector.stop(&mut take)?;
        session.run.losses = self.kernel.losses()?;
        self.kernel.detach()?;
        drain.rest(&mut take)?;
        let stats = drain.stats();
        session
            .run
            .losses
            .insert("damaged_events".into(), stats.damaged);
        log_stats(stats);
        let exit_code = if self.timed_out && self.child.is_some() {
            Some(TIMED_OUT)
        } else {
            session.run.exit_code
        };
        Ok(Outcome { exit_code })
    }
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
    let gone = |pid: &u32| matches!(targets::check(*pid), Err(targets::TargetError::Gone(_)));
    let pids = &session.args.pid;
    !pids.is_empty() && pids.iter().all(gone)
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

fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once.
    ticks.reset();
    ticks
}
