//! `iotrace top`: live processes with their phases, and files, in the terminal.
//!
//! ```text
//! mod      where counts come from, the loop
//! lines    one interval of the model -> lines
//! cpu      CPU time of the processes on the screen
//! state    lines, sorted, filtered and grouped (pure)
//! tree     children under their parents (pure)
//! keys     what each key and the mouse do
//! columns  which columns fit, and what they say of a line
//! view     lines -> the screen
//! recorder recordings of processes that are selected
//! ```

mod columns;
mod cpu;
mod keys;
mod lines;
mod recorder;
mod state;
mod tree;
mod view;

use std::{
    ffi::OsString,
    io::{self, IsTerminal as _},
    panic,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use ratatui::{
    DefaultTerminal,
    crossterm::{
        event::{self, DisableMouseCapture, EnableMouseCapture, Event},
        execute,
    },
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::{MissedTickBehavior, interval},
};

use super::{config::Sorting, live, source::Source};
use cpu::Sampler;
use iotrace_model::host;
use iotrace_model::targets;
use iotrace_model::{Model, history::Bounds, run::Clock};
use iotrace_tracer::drain::collector::Taken;
use iotrace_tracer::in_flight;
use lines::{Lines, Users};
use recorder::Recorder;
use state::State;

/// Files from which on those are forgotten that are not in use.
const FILES: usize = 100_000;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these processes, with their descendants [default: all; without privileges, all of one's own]
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Time between two looks.
    #[arg(short, long, default_value = "1s", value_parser = crate::times::parse_time)]
    interval: Duration,
    /// Begin with files instead of processes.
    #[arg(long)]
    files: bool,
    /// Show only lines that have this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Count how long calls take, which adds 37 ns to each, and show the 99th percentile; recordings made here have them, too.
    #[arg(long)]
    latencies: bool,
    /// Rules that come before the built-in ones [default: as of `iotrace record`]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Let the service at this Unix socket count, as it does by itself for users without privileges.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Args {
    /// The options of `iotrace record` for recordings by the same service and rules, of what is shown.
    fn of_recordings(&self) -> Vec<OsString> {
        let options = [("--socket", &self.socket), ("--rules", &self.rules)];
        let given = options
            .into_iter()
            .filter_map(|(name, path)| Some([name.into(), path.clone()?.into()]));
        let latencies = self.latencies.then(|| "--latencies".into());
        given.flatten().chain(latencies).collect()
    }
}

/// Runs `iotrace top`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "top needs a terminal: for a file or a pipe there is `iotrace snapshot` and `iotrace record`"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        let sorting = Sorting::read(args.rules.as_deref())?;
        let source = live::open(&args.pid, args.socket.as_deref(), &sorting, args.latencies)?;
        let mut top = Top::new(args, source, sorting)?;
        let mut signals = Signals::new()?;
        let mut terminal = take_terminal().context("the terminal cannot be used")?;
        let shown = top.follow(&mut terminal, &mut signals).await;
        give_terminal_back();
        top.recorder.finish(&mut signals).await;
        let ended = top.source.abandon();
        shown?;
        ended?;
        anyhow::Ok(())
    });
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

/// Takes the terminal with its mouse. It is given back on a panic, too.
fn take_terminal() -> io::Result<DefaultTerminal> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        release_mouse();
        hook(info);
    }));
    let terminal = ratatui::try_init()?;
    execute!(io::stdout(), EnableMouseCapture).inspect_err(|_| give_terminal_back())?;
    Ok(terminal)
}

/// Leaves the terminal as it was; of one that is gone nothing can be said.
fn give_terminal_back() {
    release_mouse();
    let _ = ratatui::try_restore();
}

fn release_mouse() {
    let _ = execute!(io::stdout(), DisableMouseCapture);
}

/// Those that end it. Control-C in the terminal is a key.
struct Signals([Signal; 4]);

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    /// Waits for one.
    async fn next(&mut self) {
        let [terminate, interrupt, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

struct Top {
    source: Source,
    sorting: Sorting,
    /// Those that were named.
    pids: Vec<u32>,
    model: Model,
    users: Users,
    cpu: Sampler,
    state: State,
    recorder: Recorder,
    interval: Duration,
    /// When the last look was.
    looked: Instant,
}

impl Top {
    fn new(args: &Args, source: Source, sorting: Sorting) -> io::Result<Self> {
        let mut model = Model::default();
        model.update_mounts(&host::mountinfo()?);
        let mut state = State::new(args.files, args.filter.clone());
        state.has_latencies = args.latencies;
        Ok(Self {
            source,
            sorting,
            pids: args.pid.clone(),
            model,
            users: Users::default(),
            cpu: Sampler::default(),
            state,
            recorder: Recorder::new(args.of_recordings()),
            interval: args.interval.max(Duration::from_millis(100)),
            looked: Instant::now(),
        })
    }

    /// Shows what comes until a key or a signal says that it is enough.
    async fn follow(
        &mut self,
        terminal: &mut DefaultTerminal,
        signals: &mut Signals,
    ) -> anyhow::Result<()> {
        let mut events = read_events();
        let mut look = interval(self.interval);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.reset();
        loop {
            self.recorder.poll();
            self.state.notice = self.recorder.notice();
            terminal.draw(|frame| view::draw(frame, &mut self.state))?;
            // Counts come in many batches; only what is to be seen is drawn.
            loop {
                tokio::select! {
                    taken = self.source.next() => match taken {
                        Some(Taken::Batch(batch)) => {
                            batch.apply(&mut self.model);
                            continue;
                        }
                        Some(Taken::All { .. }) => self.take()?,
                        None => anyhow::bail!(
                            "nothing more is counted: {}",
                            self.source.reason().unwrap_or("the kernel side has ended")
                        ),
                    },
                    _ = look.tick() => {
                        self.source.look();
                        self.source.ask();
                        continue;
                    }
                    event = events.recv() => match event {
                        Some(event) => {
                            keys::take(&mut self.state, &event);
                            if self.state.is_over {
                                return Ok(());
                            }
                            if std::mem::take(&mut self.state.is_recording_wanted) {
                                let selected = self.state.selected.as_ref();
                                self.recorder.toggle(selected.map(|selected| selected.process.pid));
                            }
                        }
                        None => return Ok(()),
                    },
                    () = signals.next() => return Ok(()),
                }
                break;
            }
        }
    }

    /// Takes an interval off the model.
    fn take(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let period = now.saturating_duration_since(self.looked);
        self.looked = now;
        live::describe(&mut self.model, targets::describe);
        self.state.ended = self
            .pids
            .iter()
            .copied()
            .filter(|pid| live::has_ended(*pid))
            .collect();
        let classifier = &self.sorting.classifier;
        let lines = Lines::of(&self.model, classifier, &mut self.users, period);
        let cpu = self.cpu.sample(&self.state.cpu_wanted);
        let lost = live::lost(&self.source.losses()?);
        self.state.take(lines, cpu, lost);
        let heads = self.source.in_flight();
        let calls = in_flight::of_all(&heads, &self.model, &Clock::default());
        self.state.in_flight = calls.into_iter().map(|(_, call)| call).collect();
        self.model.settle(Bounds { start: 0, end: 0 });
        self.forget()?;
        Ok(())
    }

    /// Lets the model forget what was there before, when that is much. Names come again where the kernel side is ours.
    fn forget(&mut self) -> anyhow::Result<()> {
        if self.model.file_count() < FILES {
            return Ok(());
        }
        if let Source::Own { kernel, .. } = &mut self.source {
            self.model
                .forget(|process| process.about.end.is_none(), |_| false);
            kernel.forget_names()?;
            self.model.update_mounts(&host::mountinfo()?);
        }
        Ok(())
    }
}

/// What the terminal sends, as far as it is of use.
fn read_events() -> UnboundedReceiver<Event> {
    let (sender, events) = unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if keys::is_of_use(&event) && sender.send(event).is_err() {
                return;
            }
        }
    });
    events
}
