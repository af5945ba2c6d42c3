//! `iotrace daemon`: the whole machine, for as long as it runs, as metrics.
//!
//! The same kernel side, drain and model as `record --all`; once a second one interval of the model goes to the service.

mod clients;
mod interval;
mod receivers;
mod reload;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{
        mpsc::{Receiver, channel},
        oneshot,
    },
};

use self::{
    clients::Asked,
    receivers::{Receivers, UnitWaits},
    reload::{applied, bound_top},
};
use crate::{PROGRAMS, config::Sorting, ticks::ticks};
use iotrace_model::{
    Model, host,
    run::{Clock, Target, rfc3339},
};
use iotrace_service::{
    background::Background,
    config::{Config, Flags, NO_SOCKET},
    findings::Looks,
    front::{Front, Listeners, Settings},
    http,
    intake::Intake,
    jobs,
    notify::Notifier,
    shared::{Draining, Memory, Recordings, Service, Shared, State},
    snapshot::Families,
    socket::{self, Counting, Question, Socket},
    subscriptions::{Order, Subscriptions},
    totals::Totals,
};
use iotrace_tracer::{
    drain::collector::{Collector, Taken},
    engine::{Engine, Loaded},
    kernel::{
        Detail, KeepWaits, Kernel, Measuring, Options, TraceOptions, WantedLines, block, load,
        trace::Filter,
    },
};

/// Questions and orders of the socket's clients that wait to be heard, each.
const QUESTIONS: usize = 64;
/// Between two intervals.
const TICK: Duration = Duration::from_secs(1);
/// Room of all rings of the operation trace together, bytes. They are read 50 times a second, so that is enough for 10 million
/// operations a second.
const TRACE_BYTES: u64 = 16 << 20;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Read the configuration and the files that it names, say what is wrong with them, and do no more.
    #[arg(long)]
    check_config: bool,
}

/// What errors of the job logs' directory are of.
const LOGS_PLACE: &str = "the directory of job logs";

/// Runs `iotrace daemon`.
pub fn run(args: &Args, verbose: u8) -> anyhow::Result<ExitCode> {
    let config = args.flags.config()?;
    if args.check_config {
        check(&args.flags, &config)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut daemon = Daemon::start(args.flags.clone(), config, verbose)?;
        daemon.follow().await?;
        daemon.end()
    })?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Opens and reads all that a configuration names.
fn check(flags: &Flags, config: &Config) -> anyhow::Result<()> {
    let named = config.trace.rules.clone().or_else(|| flags.file());
    Sorting::read(named.as_deref())?;
    Settings::read(&config.http)?;
    if config.trace.btf.is_some() {
        // A file that is named is a matter of the configuration, not of the kernel.
        load::read_types(config.trace.btf.as_deref())
            .map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    socket::check(config)?;
    jobs::check(&config.jobs).context(LOGS_PLACE)?;
    Ok(())
}

/// The running service.
struct Daemon {
    flags: Flags,
    config: Config,
    kernel: Kernel,
    collector: Collector,
    model: Model,
    intake: Intake,
    /// The kernel measures run times as long as this is here.
    measuring: Option<Measuring>,
    shared: Arc<Shared>,
    address: SocketAddr,
    front: Front,
    /// Ready when the front uses the settings of the last reload.
    applied: Option<oneshot::Receiver<()>>,
    socket: Option<Socket>,
    /// What clients of the socket ask, and who waits for an answer.
    questions: Receiver<Question>,
    waiting: Vec<Question>,
    /// Whose log is to end, and those that wait for the end of an interval.
    ends: Receiver<jobs::LogEnd>,
    ending: Vec<jobs::LogEnd>,
    /// What recordings order, and who gets what part of the counts.
    orders: Receiver<Order>,
    subscriptions: Subscriptions,
    /// Whether what threads wait for is handed on, and operations one by one.
    are_waits_wanted: bool,
    are_operations_wanted: bool,
    /// What threads of the units that the configuration names wait for.
    waits: Option<UnitWaits>,
    families: Families,
    started_unix_ns: i64,
    clock: Clock,
    notifier: Arc<Notifier>,
    _watchdog: Option<Background>,
    signals: Signals,
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

impl Daemon {
    /// Opens the endpoint, loads, attaches, tests, and lets the counting begin.
    fn start(flags: Flags, config: Config, verbose: u8) -> anyhow::Result<Self> {
        // Environments of all users pass through this memory: nobody gets a dump of it, or may look into it.
        // SAFETY: a plain call.
        if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
            log::warn!("core dumps stay on: {}", std::io::Error::last_os_error());
        }
        let notifier = Notifier::from_environment().context("systemd's NOTIFY_SOCKET")?;
        let notifier = Arc::new(notifier);
        // Before anything else, so that a reload that comes early does not end it.
        let signals = Signals::new()?;
        let named = config.trace.rules.clone().or_else(|| flags.file());
        let Sorting {
            classifier,
            thresholds,
        } = Sorting::read(named.as_deref())?;
        let loaded = Loaded::new(&options(&config, verbose), &PROGRAMS, classifier.table())?;
        let Engine {
            mut kernel,
            mut drain,
            hook,
            hooks,
        } = loaded.attach_what_there_is(config.trace.hook)?.prove()?;
        let run = host::run(
            env!("IOTRACE_VERSION"),
            Target::All(true),
            hook.name(),
            kernel.detail().name(),
        )?;
        let measuring = match config.trace.program_stats.then(Measuring::start) {
            Some(Err(error)) => {
                log::warn!("program_stats: {error}");
                None
            }
            measuring => measuring.and_then(Result::ok),
        };
        let classifier = Arc::new(classifier);
        let (clock, started_unix_ns) = (run.clock, run.start_unix_ns);
        let slurm_steps = config.metrics.slurm_steps;
        let looks = Looks::new(Arc::clone(&classifier), thresholds, run.clone());
        let mut intake = Intake::new(Arc::clone(&classifier), slurm_steps, looks, run.clone());
        let logs = jobs::start(&config.jobs, &run, named);
        intake.set_jobs(logs.context(LOGS_PLACE)?);
        let service = Service {
            version: env!("IOTRACE_VERSION"),
            host: run.host,
            kernel: run.kernel,
            started: rfc3339(run.start_unix_ns),
            hook: run.hook,
            detail: run.detail,
            hooks,
            clock: run.clock,
            warnings: Vec::new(),
            unaccounted: kernel.losses()?,
            drain: Draining {
                map_entries_limit: kernel.map_entries().into(),
                map_bytes: kernel.map_bytes(),
                ..Draining::default()
            },
            programs: Vec::new(),
            memory: Memory::default(),
            recordings: Recordings::default(),
            jobs: None,
            config: config.clone(),
        };
        let mut totals = Totals::new(config.metrics.max_series);
        bound_top(&mut totals, &config);
        let shared = Arc::new(Shared::new(State {
            totals,
            histograms: kernel.histograms()?,
            devices: Vec::new(),
            service,
        }));
        let settings = Settings::read(&config.http)?;
        let listener = http::listen(config.http.listen)?;
        let address = listener.local_addr().context("the address of HTTP")?;
        let (asked, questions) = channel(QUESTIONS);
        let (ordered, orders) = channel(QUESTIONS);
        let (log_ends, ends) = channel(QUESTIONS);
        let counting = Counting {
            questions: asked,
            orders: ordered,
            ends: log_ends,
            hook: hook.name().into(),
            page_cache: config.trace.page_cache,
            lacks_waits: kernel.lacks_waits().map(Into::into),
            lacks_lines: kernel.lacks_lines().map(Into::into),
        };
        let socket =
            Socket::open(&config, PROGRAMS, classifier.table(), counting).unwrap_or_else(|error| {
                log::warn!("{error}");
                let reason = Some(error.to_string());
                shared.with(|state| state.service.recordings.reason = reason);
                None
            });
        let (socket, users) = socket.unzip();
        if let Some(socket) = &socket {
            shared.with(|state| state.service.recordings = socket.state());
        }
        let listeners = Listeners {
            http: listener,
            users,
        };
        let hub = socket.as_ref().map(Socket::hub);
        let front = Front::start(listeners, &settings, Arc::clone(&shared), hub)?;
        let watched = Arc::clone(&shared);
        let watchdog = notifier
            .watch(move || watched.is_healthy())
            .context("no watchdog")?;
        drain.watch(kernel.take_threads());
        let (waits, latencies) = (&config.metrics.waits, &config.metrics.latencies);
        intake.set_chosen(waits, latencies);
        let waits = match waits.is_empty() {
            true => None,
            false => UnitWaits::begin(&mut kernel),
        };
        let mut daemon = Self {
            intake,
            measuring,
            flags,
            config,
            kernel,
            collector: Collector::start(drain)?,
            model: Model::with_spans(),
            shared,
            address,
            front,
            applied: None,
            socket,
            questions,
            waiting: Vec::new(),
            ends,
            ending: Vec::new(),
            orders,
            subscriptions: Subscriptions::default(),
            are_waits_wanted: false,
            are_operations_wanted: false,
            waits,
            families: Families::default(),
            started_unix_ns,
            clock,
            notifier,
            _watchdog: watchdog,
            signals,
        };
        daemon.want_records();
        daemon.model.update_mounts(&host::machine_mountinfo()?);
        daemon.kernel.trace_all()?;
        eprintln!("iotrace: listening on {}", daemon.address);
        let status = daemon.summary();
        daemon.notifier.ready(&status);
        Ok(daemon)
    }

    /// Takes what comes until a signal says that it is enough.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut tick = ticks(TICK);
        let mut number = 0;
        // The drains that were asked for.
        let mut asked: VecDeque<Asked> = VecDeque::new();
        loop {
            tokio::select! {
                taken = self.collector.next() => match taken {
                    Some(Taken::Batch(batch)) => {
                        let mut receivers = Receivers {
                            subscriptions: &mut self.subscriptions,
                            waits: &mut self.waits,
                            intake: &mut self.intake,
                            model: &mut self.model,
                            shared: &self.shared,
                            kept: self.kernel.kept_of_all(),
                        };
                        receivers.take(batch);
                    }
                    Some(Taken::All { stats, .. }) => {
                        // Those who asked since the drain began wait for the next one.
                        let done = asked.pop_front().unwrap_or_default();
                        self.answer(done.questions);
                        self.carry_out(done.orders, stats)?;
                        if done.ends_interval {
                            number += 1;
                            for end in self.ending.drain(..done.logs) {
                                self.intake.end_log(end);
                            }
                            self.take(stats, number)?;
                        }
                        if asked.is_empty() {
                            self.ask_for_clients(&mut asked);
                        }
                    }
                    // The thread has ended for a reason, which the end will say.
                    None => return Ok(()),
                },
                _ = tick.tick() => {
                    // All that came before is in the drain that begins now.
                    let logs = self.ending.len() - asked.iter().map(|asked| asked.logs).sum::<usize>();
                    asked.push_back(Asked { ends_interval: true, logs, ..Asked::default() });
                    self.ask();
                }
                Some(question) = self.questions.recv() => {
                    self.waiting.push(question);
                    // Where a drain goes on, the next one answers all that came meanwhile.
                    if asked.is_empty() {
                        self.ask_for_clients(&mut asked);
                    }
                }
                Some(end) = self.ends.recv() => self.ending.push(end),
                Some(order) = self.orders.recv() => {
                    self.take_order(order)?;
                    if asked.is_empty() {
                        self.ask_for_clients(&mut asked);
                    }
                }
                _ = self.signals.hangup.recv() => self.reload(),
                () = applied(&mut self.applied) => self.reloaded(),
                _ = self.signals.interrupt.recv() => return Ok(()),
                _ = self.signals.terminate.recv() => return Ok(()),
            }
        }
    }

    /// One line on how it is.
    fn summary(&self) -> String {
        self.shared.with(|state| {
            let hooks = &state.service.hooks;
            let attached = hooks.iter().filter(|hook| hook.attached).count();
            format!(
                "{attached} of {} hooks attached, {} units, {} series",
                hooks.len(),
                state.totals.units().all().count(),
                state.totals.series()
            )
        })
    }

    /// Takes the hooks off.
    fn end(mut self) -> anyhow::Result<()> {
        self.notifier.stopping();
        let mut receivers = Receivers {
            subscriptions: &mut self.subscriptions,
            waits: &mut self.waits,
            intake: &mut self.intake,
            model: &mut self.model,
            shared: &self.shared,
            kept: self.kernel.kept_of_all(),
        };
        let drained = self.collector.stop(|taken| {
            if let Some(batch) = taken.batch() {
                receivers.take(batch);
            }
        });
        let detached = self.kernel.detach()?;
        let mut drain = drained?;
        // Recordings and job logs end with all that was done.
        drain.rest(&mut |batch| receivers.take(batch))?;
        let losses = detached.losses()?;
        let (intake, model) = (&mut self.intake, &mut self.model);
        intake.set_losses(&losses, drain.stats().damaged);
        let subscriptions = &mut self.subscriptions;
        subscriptions.end("the service ends", &losses, drain.stats());
        let shared = &self.shared;
        shared.with(|state| intake.take(model, &mut state.totals, Instant::now()));
        intake.end_jobs();
        drop(self.socket);
        drop(self.front);
        Ok(())
    }
}

fn options(config: &Config, verbose: u8) -> Options {
    let has_socket = config.recordings.socket != Path::new(NO_SOCKET);
    let detail = config.detail();
    Options {
        detail,
        environment: true,
        cgroup: true,
        cpu: has_socket,
        histograms: config.metrics.histograms,
        latencies: config.keeps_latencies(),
        map_entries: Some(match detail {
            Detail::Basic => config.trace.map_entries,
            Detail::Full => config.trace.map_entries.div_ceil(2),
        }),
        btf: config.trace.btf.clone(),
        program_log: verbose > 1,
        page_cache: config.trace.page_cache,
        block: match config.trace.block {
            true => block::Wanted::Devices,
            false => block::Wanted::Nothing,
        },
        waits: match has_socket || !config.metrics.waits.is_empty() {
            true => KeepWaits::OnDemand,
            false => KeepWaits::Never,
        },
        recordings: has_socket.then_some(config.recordings.max_entries),
        trace: has_socket.then(|| TraceOptions {
            buffer_bytes: TRACE_BYTES,
            filter: Filter::default(),
        }),
        lines: WantedLines {
            python: has_socket,
            native: has_socket,
        },
        ..Options::least()
    }
}
