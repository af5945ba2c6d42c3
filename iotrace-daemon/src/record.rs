//! `iotrace record`: trace a program, processes or the system; write a recording; report.
//!
//! Order matters: the program is made and held, the hooks come on and prove themselves, the program becomes a target
//! and goes. At its end the hooks come off first, so that what is drained last is all there is.

use crate::PROGRAMS;
use std::{
    collections::HashSet,
    ffi::OsString,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use rustix::fs::Access;

use super::{
    child::Held,
    config::Sorting,
    interrupt, live,
    output::{Format, Place, TextOptions, is_special},
    remote::{self, Remote},
    session::Session,
    sizes::parse_size,
    source::Source,
    tell,
    times::parse_time,
    trace::Trace,
    user::User,
};
use iotrace_model::run::MergedTime;
use iotrace_model::targets;
use iotrace_service::socket::protocol::{Begun, NO_WAITS, Record, Refusal};
use iotrace_tracer::drain::rings;
use iotrace_tracer::engine::{Engine, Loaded};
use iotrace_tracer::kernel::{
    Detail, HookChoice, KeepWaits, Options, TraceOptions, WantedLines, block, capabilities,
    trace::Filter, uprobes::Wanted,
};

/// Room for operations on their way out of the kernel, bytes.
const TRACE_BYTES: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("scope").required(true).args(["pid", "all", "command"]))]
pub struct Args {
    /// Trace this process, with its threads and descendants; may be given several times.
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Trace every process of the system.
    #[arg(short, long)]
    pub all: bool,
    /// Do not follow the children of the traced processes.
    #[arg(long)]
    pub no_follow: bool,
    /// Stop after this time, e.g. 30s, 5m, 2h; a number alone is of seconds. A program is ended.
    #[arg(short, long, value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Duration>,
    /// How much to keep per file.
    #[arg(long, value_enum, default_value_t = Detail::Full)]
    pub detail: Detail,
    /// How to see system calls.
    #[arg(long, value_enum, default_value_t = HookChoice::Auto)]
    hook: HookChoice,
    /// Directory for the recording [default: iotrace-DATE-TIME-PID.d here]. A name that ends in .html, .json or .txt is that
    /// of a file for the report.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write the report to this file, or to `stdout` or `stderr` [default: stdout; the text report of a program whose output
    /// goes to a file or a pipe: stderr]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Report as text, as JSON or as a page for a browser [default: as the name of the file ends, else text]. The output of a
    /// program goes to stderr where the report is not text and goes to stdout.
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    pub text: TextOptions,
    /// Flush interval: at most this much is lost if the recorder is killed [default: 250ms in the first 5 seconds, 1s up to
    /// half a minute, then 5s]. Timelines are finer: 250ms in the first minute, then coarser as the run grows
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub flush: Option<Duration>,
    /// Merged time over all processes: within bounds, or exactly, which makes each traced call more expensive.
    #[arg(long, value_enum, default_value_t = MergedTime::Bounds, value_name = "HOW")]
    pub merged_time: MergedTime,
    /// Entries of each of the two generations of kernel counters; the self-test alone needs 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1 << 24))]
    map_entries: Option<u32>,
    /// The running kernel's type information, where it is not at /sys/kernel/btf/vmlinux.
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// Rules and thresholds that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Let the service at this Unix socket count [default: the one that runs, if it can give what is asked]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Load kernel programs also where a service runs.
    #[arg(long, conflicts_with = "socket")]
    standalone: bool,
    /// Count neither what comes from storage and what from the page cache, nor the use of mapped files.
    #[arg(long)]
    no_page_cache: bool,
    /// Count requests to block devices, too: by device, and their bytes by process and file.
    #[arg(long, conflicts_with = "no_page_cache")]
    pub block: bool,
    /// Keep every operation by itself, too: who, which file, where, how much, when, with what result.
    #[arg(long)]
    pub trace: bool,
    /// Most room for these operations on disk, e.g. 500M, 10G: what comes then is counted, and left out.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "trace")]
    pub trace_max_size: Option<u64>,
    /// Keep only some: phase=NAME, path=GLOB, min-duration=TIME, pid=PID, comm=NAME; may be given several times. Of one
    /// key any value will do, of several keys each must be met.
    #[arg(long, value_name = "KEY=VALUE", requires = "trace")]
    pub trace_filter: Vec<String>,
    /// Room for operations on their way out of the kernel, on all CPUs together [default: 64M; where the service counts, what
    /// it has]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "trace")]
    trace_buffer: Option<u64>,
    /// See calls of these libraries by uprobes, too: stdio, cufile, hdf5, mpiio, marker; NAME:FILE for one file of
    /// it.
    #[arg(long, value_name = "NAME[:FILE],...", value_delimiter = ',')]
    pub uprobe: Vec<Wanted>,
    /// Keep what the main threads of processes wait for: storage by file, the loader's computing, the run queue, sleep, page
    /// faults, the network. `timeline`: also every wait of every thread, for `iotrace whatif` [default: sums where this kernel
    /// can; with --all: off]
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "sums")]
    pub waits: Option<Waits>,
    /// Find the line of a Python program that opened each file, too, and the lines of slow calls (CPython 3.11 to 3.15).
    #[arg(long)]
    pub lines: bool,
    /// Find the function of a native program that opened each file, too, with its line where there is debugging information.
    #[arg(long)]
    pub stacks: bool,
    /// Keep how long operations took, too: percentiles by operation, phase and mount point.
    #[arg(long)]
    pub latencies: bool,
    /// Run the command as this user, with their groups and HOME, USER, LOGNAME and SHELL; needs root.
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// The program to trace, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What is kept of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Waits {
    /// Sums for main threads.
    Sums,
    /// The same, and every wait of every thread.
    Timeline,
    /// Nothing.
    Off,
}

/// Runs `iotrace record`.
pub fn run(mut args: Args, verbose: u8) -> anyhow::Result<ExitCode> {
    interrupt::end_before_tracing();
    args.find_report()?;
    let mut given = HashSet::new();
    args.pid.retain(|pid| given.insert(*pid));
    for pid in &args.pid {
        targets::check(*pid)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let service = Service::find(&args);
    let recorded = runtime.block_on(async {
        let sorting = Sorting::read(args.rules.as_deref())?;
        let held = hold(&args)?;
        match service.start(&args, &sorting, held.as_ref())? {
            Some(remote) => record_by_service(args, sorting, held, remote).await,
            None => record(args, sorting, held, verbose).await,
        }
    });
    let mut session = recorded.map_err(|error| live::explain(error, service.is_only()))?;
    runtime.shutdown_background();
    let recorded = session.finish();
    session.name_those_left();
    // The report first: that the recording is incomplete is the last thing that is said.
    let is_complete = recorded.is_ok() && !session.is_cut;
    let outcome = session.print(is_complete).and(recorded);
    match (outcome, session.run.exit_code) {
        (Ok(()), code) => Ok(ExitCode::from(code.unwrap_or(0) as u8)),
        (Err(error), None) => Err(error),
        (Err(error), Some(code)) => {
            // A program must not fail because its tracer did.
            tell(&error);
            Ok(ExitCode::from(code as u8))
        }
    }
}

impl Args {
    /// Tells a report's file from the recording's directory.
    fn find_report(&mut self) -> anyhow::Result<()> {
        let is_report = |path: &PathBuf| Format::of_name(path).is_some() && !path.is_dir();
        if self.output.as_ref().is_some_and(is_report) {
            if let Some(report) = &self.report {
                anyhow::bail!(
                    "leave out --output or --report: both name a file for the report, and that is {}",
                    report.display()
                );
            }
            self.report = self.output.take();
        }
        let place = self.place();
        self.format().check(&self.text, &place, "--report")?;
        if let Place::File(file) = place
            && !is_special(&file)
        {
            // Said before the program runs: it may run for days.
            let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            rustix::fs::access(directory, Access::WRITE_OK).with_context(|| {
                format!(
                    "name a file for the report in a directory that can be written, not {}",
                    file.display()
                )
            })?;
        }
        Ok(())
    }

    /// How the report is written.
    pub fn format(&self) -> Format {
        Format::of(self.format, self.report.as_deref())
    }

    /// Where it goes.
    pub fn place(&self) -> Place {
        let is_apart = self.command.is_empty() || io::stdout().is_terminal();
        match &self.report {
            Some(name) => Place::of(name),
            None if self.format() == Format::Text && !is_apart => Place::Stderr,
            None => Place::Stdout,
        }
    }

    /// Whether standard output is for the report alone.
    fn keeps_stdout(&self) -> bool {
        self.format() != Format::Text && self.place() == Place::Stdout
    }
}

async fn record(
    args: Args,
    sorting: Sorting,
    held: Option<Held>,
    verbose: u8,
) -> anyhow::Result<Session> {
    let options = Options {
        detail: args.detail,
        follow: args.all || !args.no_follow,
        environment: true,
        negative_lookups: true,
        cpu: true,
        latencies: args.latencies,
        merge_all: args.merged_time == MergedTime::Exact,
        map_entries: args.map_entries,
        btf: args.btf.clone(),
        program_log: verbose > 1,
        trace: if args.trace {
            Some(TraceOptions {
                buffer_bytes: args.trace_buffer.unwrap_or(TRACE_BYTES),
                filter: Filter::new(&args.trace_filter).context("--trace-filter")?,
            })
        } else {
            None
        },
        page_cache: !args.no_page_cache,
        block: match args.block {
            true => block::Wanted::Files,
            false => block::Wanted::Nothing,
        },
        uprobes: args.uprobe.clone(),
        waits: match args.waits {
            Some(Waits::Sums | Waits::Timeline) => KeepWaits::Always,
            Some(Waits::Off) => KeepWaits::Never,
            // Of all processes they would cost the whole machine something.
            None if args.all => KeepWaits::Never,
            None => KeepWaits::IfPossible,
        },
        lines: WantedLines {
            python: args.lines,
            native: args.stacks,
        },
        ..Options::least()
    };
    let rules = sorting.classifier.table();
    let loaded = Loaded::with_or_without_types(&options, &PROGRAMS, rules)?;
    let Engine {
        mut kernel,
        mut drain,
        hook,
        ..
    } = loaded.attach(args.hook)?.prove()?;
    let running = if args.all {
        targets::all().collect()
    } else {
        targets::descendants(&args.pid)
    };
    kernel.probe_libraries(&running)?;
    log::info!(
        "hook {}, detail {}, {} entries in each of two generations, {} MiB of kernel maps",
        hook.name(),
        kernel.detail().name(),
        kernel.map_entries(),
        kernel.map_bytes() >> 20
    );
    drain.begin_block()?;
    drain.begin_waits();
    if args.waits == Some(Waits::Timeline) {
        drain.keep_timeline();
    }
    drain.begin_lines(&running);
    drain.watch(kernel.take_threads());
    let rings = rings::Operations::take(&mut kernel)?;
    let args = Args {
        detail: kernel.detail(),
        ..args
    };
    let signals = interrupt::tracing_begins()?;
    let session = Session::new(args, sorting, hook.name())?;
    let mut trace = Trace::new(Source::own(kernel, drain)?, signals);
    trace.keep_operations(rings);
    follow(trace, session, held).await
}

async fn record_by_service(
    args: Args,
    sorting: Sorting,
    held: Option<Held>,
    mut remote: Remote,
) -> anyhow::Result<Session> {
    if args.waits == Some(Waits::Timeline) {
        remote.keep_timeline();
    }
    if !capabilities::may_trace() {
        // The program has its own already: what is recorded is for this user alone, wherever it is written.
        // SAFETY: a plain call.
        unsafe { libc::umask(0o077) };
    }
    let signals = interrupt::tracing_begins()?;
    let session = Session::new(args, sorting, &remote.begun.hook)?;
    follow(Trace::new(Source::Service(remote), signals), session, held).await
}

/// The service that may make the recording.
enum Service {
    /// None: this process loads the programs.
    None,
    /// One that is to make it: it was named, or this process may not load programs.
    Only(PathBuf),
    /// One that saves the machine other programs, if it gives the same.
    Running(PathBuf),
}

impl Service {
    fn find(args: &Args) -> Self {
        if args.standalone {
            return Self::None;
        }
        match live::service(args.socket.as_deref()) {
            Some(socket) => Self::Only(socket),
            None => Some(remote::place())
                .filter(|path| path.exists())
                .map_or(Self::None, Self::Running),
        }
    }

    fn is_only(&self) -> bool {
        matches!(self, Self::Only(_))
    }

    /// Asks it for the recording; `None`: it makes none, and this process records.
    fn start(
        &self,
        args: &Args,
        sorting: &Sorting,
        held: Option<&Held>,
    ) -> anyhow::Result<Option<Remote>> {
        let ask_for = |waits, socket| {
            let pids = held.map_or_else(|| args.pid.clone(), |held| vec![held.pid()]);
            let record = Record {
                latencies: args.latencies,
                waits,
                trace: args.trace,
                lines: args.lines,
                stacks: args.stacks,
                ..Record::new(args.detail, !args.no_follow, pids)
            };
            Remote::start(socket, record, &args.pid)
        };
        let ask = |socket| match args.waits {
            Some(waits) => ask_for(waits != Waits::Off, socket),
            None => ask_for(true, socket).or_else(|error| match is_for_waits(&error) {
                true => ask_for(false, socket),
                false => Err(error),
            }),
        };
        let socket = match self {
            Self::None => return Ok(None),
            Self::Only(socket) => {
                if let Some(flag) = only_without_service(args) {
                    anyhow::bail!(
                        "{flag} is not for recordings that the service makes: leave it out, or run iotrace as root without \
                         it"
                    );
                }
                return ask(socket).map(Some);
            }
            Self::Running(socket) => socket,
        };
        let reason = match only_without_service(args) {
            Some(flag) => format!("it does not give {flag}"),
            None => match ask(socket) {
                Ok(remote) => match differs(&remote.begun, sorting) {
                    None => return Ok(Some(remote)),
                    Some(reason) => reason.into(),
                },
                Err(error) => format!("{error:#}"),
            },
        };
        log::info!(
            "recording without the service at {}: {reason}",
            socket.display()
        );
        Ok(None)
    }
}

/// Whether the service refused a recording because it knows no waits.
fn is_for_waits(error: &anyhow::Error) -> bool {
    let refusal = error.downcast_ref::<Refusal>();
    refusal.is_some_and(|refusal| refusal.message.starts_with(NO_WAITS))
}

/// Why a recording that the service makes would not be the same as one without it.
fn differs(begun: &Begun, sorting: &Sorting) -> Option<&'static str> {
    if !begun.shared {
        Some("it would load other programs for it")
    } else if begun.rules != sorting.classifier.table().fingerprint() {
        Some("it sorts files by other rules")
    } else if !begun.page_cache {
        Some("it does not see the page cache")
    } else {
        None
    }
}

/// The first option that the service does not give.
fn only_without_service(args: &Args) -> Option<&'static str> {
    let given = [
        ("--all", args.all),
        ("--hook", args.hook != HookChoice::Auto),
        ("--map-entries", args.map_entries.is_some()),
        ("--btf", args.btf.is_some()),
        ("--merged-time", args.merged_time != MergedTime::Bounds),
        ("--trace-buffer", args.trace_buffer.is_some()),
        ("--no-page-cache", args.no_page_cache),
        ("--block", args.block),
        ("--uprobe", !args.uprobe.is_empty()),
    ];
    let found = given.into_iter().find(|(_, is_given)| *is_given);
    found.map(|(flag, _)| flag)
}

/// Makes the program's process, where there is a program.
fn hold(args: &Args) -> anyhow::Result<Option<Held>> {
    if args.command.is_empty() {
        return Ok(None);
    }
    let user = args.user.as_deref().map(User::find).transpose()?;
    let held = Held::new(&args.command, user, args.keeps_stdout())
        .context("a process for the command cannot be made")?;
    Ok(Some(held))
}

/// Records from the start of the processes' being traced to the end.
async fn follow(
    mut trace: Trace,
    mut session: Session,
    held: Option<Held>,
) -> anyhow::Result<Session> {
    if let Err(error) = trace.begin(&mut session, held) {
        // Nothing was traced: what is left behind would only be an empty recording.
        session.discard();
        trace.abandon()?;
        return Err(error);
    }
    trace.follow(&mut session).await?;
    if let Err(error) = trace.end(&mut session).await {
        session.lost = Some(error);
    }
    Ok(session)
}
