//! `iotrace daemon`: the whole machine, for as long as it runs, as metrics.
//!
//! The same kernel side, drain and model as `record --all`; once a second one interval of the model goes to the service.

use crate::PROGRAMS;
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

use super::{config::Sorting, live, ticks::ticks};
use iotrace_model::host;
use iotrace_model::targets;
use iotrace_model::{
    Model,
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
    snapshot::{Families, Snapshot},
    socket::{
        self, Counting, Question, Socket,
        protocol::{Code, Refusal},
    },
    subscriptions::{Order, Subscriptions, What},
    totals::Totals,
};
use iotrace_tracer::drain::{
    Batch, Records, Resolution, Stats,
    collector::{Collector, Taken},
};
use iotrace_tracer::engine::{Engine, Loaded};
use iotrace_tracer::in_flight;
use iotrace_tracer::kernel::{
    KeepWaits, Kernel, KernelError, Measuring, Options, TraceOptions, block, capabilities, load,
    recordings::Kept, trace::Filter,
};

/// Questions and orders of the socket's clients that wait to be heard, each.
const QUESTIONS: usize = 64;
/// Between two intervals.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between two looks at what changes slowly: mounts, losses, processes whose end was missed.
const SLOW: u64 = 10;
/// Processes that have ended, from which on the model forgets them.
const ENDED: usize = 1000;
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

/// A drain that was asked for: whether it ends an interval, and how many questions and orders it answers.
#[derive(Clone, Copy, Default)]
struct Asked {
    ends_interval: bool,
    questions: usize,
    orders: usize,
    /// Logs that end with the interval.
    logs: usize,
}

/// What threads of the units that the configuration names wait for.
#[derive(Default)]
struct UnitWaits(Resolution);

impl UnitWaits {
    /// Has waits kept of all processes; `None` where this kernel cannot.
    fn begin(kernel: &mut Kernel) -> Option<Self> {
        if let Err(error) = kernel.keep_all_waits() {
            log::warn!("it is not known what units wait for: {error}");
            return None;
        }
        Some(Self::default())
    }

    fn take(&mut self, records: &Records, intake: &mut Intake, model: &Model, totals: &mut Totals) {
        let is_wanted = |process| intake.keeps_waits(process, totals);
        let mut part = records.part(is_wanted, |_| true);
        self.0.take(&mut part);
        intake.take_waits(&self.0.sums(), model, totals);
    }
}

/// Who gets what was drained.
struct Receivers<'a> {
    subscriptions: &'a mut Subscriptions,
    waits: &'a mut Option<UnitWaits>,
    intake: &'a mut Intake,
    model: &'a mut Model,
    shared: &'a Shared,
    /// What is kept of all processes.
    kept: Kept,
}

impl Receivers<'_> {
    fn take(&mut self, batch: Batch) {
        let (intake, model) = (&mut *self.intake, &mut *self.model);
        self.subscriptions.take(&batch, model);
        if let (Batch::WaitRecords(records), Some(waits)) = (&batch, &mut self.waits) {
            self.shared
                .with(|state| waits.take(records, intake, model, &mut state.totals));
        }
        if let Some(batch) = batch.of_all(self.kept) {
            self.shared
                .with(|state| intake.see(&batch, &mut state.totals));
            batch.apply(model);
        }
    }
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
        intake.set_jobs(logs.context("the directory of job logs")?);
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
                    self.take_order(order);
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

    /// Asks for a drain, where clients wait for one.
    fn ask_for_clients(&mut self, asked: &mut VecDeque<Asked>) {
        let next = Asked {
            ends_interval: false,
            questions: self.waiting.len(),
            orders: self.subscriptions.waiting(),
            logs: 0,
        };
        if next.questions + next.orders > 0 {
            asked.push_back(next);
            self.ask();
        }
    }

    /// Asks for a drain.
    fn ask(&mut self) {
        if self.subscriptions.want(|kept| kept.cpu) {
            self.collector.ask();
        } else {
            self.collector.ask_for_counters();
        }
    }

    /// Takes an order of a recording. Before the drain that it begins after, more is kept of its processes.
    fn take_order(&mut self, mut order: Order) {
        if let What::Begin(begin) = &mut order.what
            && begin.kept.is_more()
        {
            let wanted = &begin.wanted;
            let begun = self
                .kernel
                .begin_recording(begin.kept, &wanted.pids, wanted.follow);
            match begun {
                Ok(Some(slot)) => begin.slot = Some(slot),
                Ok(None) => {
                    let message = "the service keeps more of the processes of as many recordings as it can: wait until one has ended";
                    return order.queue.refuse(Refusal::new(Code::Busy, message));
                }
                Err(error) => {
                    log::warn!("a recording does not begin: {error}");
                    let message = format!("the recording does not begin: {error}");
                    return order.queue.refuse(Refusal::new(Code::Failed, message));
                }
            }
        }
        self.subscriptions.order(order);
        self.want_records();
    }

    /// Has waits and operations read as long as somebody keeps them.
    fn want_records(&mut self) {
        let waits = self.waits.is_some() || self.subscriptions.want(|kept| kept.waits);
        if std::mem::replace(&mut self.are_waits_wanted, waits) != waits {
            self.collector.want_waits(waits);
        }
        let operations = self.subscriptions.want(|kept| kept.trace);
        if std::mem::replace(&mut self.are_operations_wanted, operations) != operations {
            self.collector.want_operations(operations);
        }
    }

    /// Carries out the orders that came first, and has names sent again that recordings were told from memory.
    fn carry_out(&mut self, count: usize, stats: Stats) -> Result<(), KernelError> {
        if count > 0 || self.subscriptions.count() > 0 {
            let losses = self.kernel.losses()?;
            self.subscriptions.carry_out(count, &losses, stats);
        }
        for slot in self.subscriptions.take_ended() {
            self.kernel.end_recording(slot)?;
        }
        self.want_records();
        let names = self.subscriptions.take_told_from_memory();
        self.kernel.forget_names_of(&names)
    }

    /// Answers the questions that came first.
    fn answer(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        // Processes that were there before.
        live::describe(&mut self.model, targets::identify);
        let now = host::realtime().unwrap_or(0);
        let in_flight = in_flight::of_all(&self.kernel.in_flight(), &self.model, &self.clock);
        for question in self.waiting.drain(..count).collect::<Vec<_>>() {
            let whom = (question.pid, question.client);
            let snapshot = self.families.snapshot(&self.model, whom, &in_flight);
            let snapshot = snapshot.map(|snapshot| Snapshot {
                time_unix_ns: now,
                since_unix_ns: self.since(question.pid),
                ..snapshot
            });
            // Who asked may have gone.
            let _ = question.reply.send(snapshot);
        }
    }

    /// From when on a process is counted, nanoseconds since the Unix epoch.
    fn since(&self, pid: u32) -> i64 {
        let start = targets::identify(pid).map_or(0, |about| {
            self.clock.unix_ns_of_boottime(about.start_boottime)
        });
        start.max(self.started_unix_ns)
    }

    /// Takes one interval.
    fn take(&mut self, stats: Stats, number: u64) -> Result<(), KernelError> {
        let now = Instant::now();
        self.kernel.attach_more();
        self.kernel.sweep_recordings()?;
        // After the drain that this interval ends with: they hold no less than the counters.
        let (losses, histograms) = (self.kernel.losses()?, self.kernel.histograms()?);
        let programs = match &self.measuring {
            Some(_) => self.kernel.program_runs(),
            None => Vec::new(),
        };
        let unmeasured = self.config.trace.program_stats && self.measuring.is_none();
        let devices = self.model.block().devices();
        let devices = devices.map(|(_, device, classes)| (device.clone(), *classes));
        let devices = devices.collect();
        let (intake, model, config) = (&mut self.intake, &mut self.model, &self.config);
        let families = &self.families;
        let is_slow = number.is_multiple_of(SLOW);
        let in_flight = match is_slow {
            true => in_flight::of_all(&self.kernel.in_flight(), model, &self.clock),
            false => Vec::new(),
        };
        intake.set_losses(&losses, stats.damaged);
        intake.read_ahead(model);
        self.shared.with(|state| {
            intake.take(model, &mut state.totals, now);
            state.histograms = histograms;
            state.devices = devices;
            state.service.unaccounted = losses;
            state
                .service
                .unaccounted
                .insert("damaged_events".into(), stats.damaged);
            state.service.drain.update(stats);
            state.service.jobs = intake.jobs();
            state.service.programs = programs;
            state.service.memory.files = model.file_count() as u64;
            state.service.memory.reads_given_up = intake.processes().reads_given_up();
            state.service.memory.processes = intake.processes().count() as u64;
            if let Some(socket) = &self.socket {
                state.service.recordings = socket.state();
            }
            if is_slow {
                intake.take_in_flight(in_flight, &mut state.totals);
                intake.expire(&mut state.totals, config.metrics.linger.0, now);
                intake.look(&mut state.totals, now);
                state.service.warnings = warnings(&state.service, intake, unmeasured);
                let tables = state.totals.tables().into_iter();
                let tables = tables.chain(intake.tables()).chain(families.tables());
                let tables = tables.chain([("model_mounts", model.mounts().len())]);
                state.service.memory.tables = tables
                    .map(|(table, entries)| (table, entries as u64))
                    .collect();
            }
        });
        let seen = intake.go_on(model, config.metrics.findings, now);
        self.shared.with(|state| {
            seen.enter(&mut state.totals);
            state.service.memory.findings_skipped = intake.findings_skipped();
            state.service.memory.crowded_out = intake.crowded_out();
        });
        let is_over = self.model.file_count() > config.memory.max_files * 5 / 4;
        if is_over && !is_slow {
            self.forget()?;
        }
        if is_slow {
            self.forget()?;
            match host::machine_mountinfo() {
                Ok(text) => {
                    self.model.update_mounts(&text);
                    self.model.forget_mounts(&text);
                    self.intake.update_mounts(&text);
                }
                Err(error) => log::warn!("the mounts cannot be read: {error}"),
            }
            self.notifier.status(&self.summary());
        }
        self.shared.looked();
        Ok(())
    }

    /// Lets the model forget what is old, when there is enough of it.
    fn forget(&mut self) -> Result<(), KernelError> {
        let known = self.intake.processes().living();
        let ended = self.model.processes().len().saturating_sub(known);
        let max_files = self.config.memory.max_files;
        if self.model.file_count() <= max_files && ended < ENDED.max(known) {
            return Ok(());
        }
        let processes = self.intake.processes();
        self.families
            .fold(&self.model, |process| processes.knows(process));
        let forgotten = self.intake.forget(&mut self.model, max_files);
        self.kernel.forget_names_of(&forgotten)?;
        self.shared.with(|state| {
            state.service.memory.forgotten_files += forgotten.len() as u64;
        });
        Ok(())
    }

    /// Reads the configuration again. One that is wrong changes nothing.
    fn reload(&mut self) {
        self.notifier.reloading();
        match self.flags.config() {
            Ok(new) => self.change(new),
            Err(error) => {
                log::error!("nothing is reloaded: {error}");
                self.notifier.ready(&self.summary());
            }
        }
    }

    fn change(&mut self, new: Config) {
        let fixed = self.config.fixed_changes(&new);
        if !fixed.is_empty() {
            log::warn!("takes effect at the next start: {}", fixed.join(", "));
        }
        match Settings::read(&new.http) {
            Ok(settings) => self.applied = Some(self.front.reload(&settings)),
            Err(error) => log::error!("the users and the certificate stay as they were: {error}"),
        }
        if let Some(socket) = &self.socket {
            socket.reload(&new);
        }
        self.config = new;
        let config = &self.config;
        self.shared.with(|state| {
            state.totals.set_limit(config.metrics.max_series);
            bound_top(&mut state.totals, config);
            state.service.config = config.clone();
        });
        if self.applied.is_none() {
            self.reloaded();
        }
    }

    /// All of the new configuration is in use.
    fn reloaded(&mut self) {
        eprintln!("iotrace: the configuration is reloaded");
        self.notifier.ready(&self.summary());
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

/// Waits until the front uses new settings; for ever if it has been given none.
async fn applied(waiting: &mut Option<oneshot::Receiver<()>>) {
    match waiting {
        // Its end is the answer, too.
        Some(applies) => drop(applies.await),
        None => std::future::pending().await,
    }
    *waiting = None;
}

fn options(config: &Config, verbose: u8) -> Options {
    let has_socket = config.recordings.socket != Path::new(NO_SOCKET);
    Options {
        detail: config.trace.detail,
        environment: true,
        cgroup: true,
        cpu: has_socket,
        histograms: config.metrics.histograms,
        latencies: config.keeps_latencies(),
        map_entries: Some(config.trace.map_entries),
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
        ..Options::least()
    }
}

fn bound_top(totals: &mut Totals, config: &Config) {
    totals.directories.set_limit(config.metrics.top_directories);
    totals.processes.set_limit(config.metrics.top_processes);
}

/// What is missing, and what to do. `unmeasured`: the run time of the programs was asked for, and is not measured.
fn warnings(service: &Service, intake: &Intake, unmeasured: bool) -> Vec<String> {
    let hooks = service.hooks.iter().filter(|hook| !hook.attached);
    let mut warnings: Vec<String> = hooks
        .map(|hook| {
            let reason = hook.reason.as_deref().unwrap_or_default();
            format!("hook {} is not attached: {reason}", hook.name)
        })
        .collect();
    if let Some(reason) = &service.recordings.reason {
        warnings.push(format!("no recordings for users: {reason}"));
    }
    if let Some(error) = service.jobs.as_ref().and_then(|jobs| jobs.error.as_ref()) {
        warnings.push(format!("job logs are not written: {error}"));
    }
    let refused = intake.processes().refused();
    if refused > 0 {
        warnings.push(format!(
            "the environment of {refused} processes could not be read, so batch jobs are detected by their cgroups alone: \
             give the service CAP_SYS_PTRACE"
        ));
    }
    if capabilities::SYS_NICE.is_held() == Some(false) {
        warnings.push(
            "the draining thread has no priority, so under load more operations are counted without their file: give \
             the service CAP_SYS_NICE"
                .into(),
        );
    }
    if unmeasured {
        warnings.push(
            "the run time of the kernel programs is not measured: program_stats needs CAP_SYS_ADMIN"
                .into(),
        );
    }
    warnings
}
