//! One recording for a client. If the service does not count what the client asks for, the recording loads its own kernel programs
//! and sends their counters as it drains them.
//!
//! The service keeps nothing of it and writes no file. The programs trace the client's user alone, so that neither a pid
//! that is reused nor a program with other rights brings anybody else's files into it. A client that is slow loses counts of
//! its own: what finds no room in the kernel's maps, which say so.

use std::{
    os::fd::AsFd as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Counting,
    peer::{Peer, Process},
    protocol::{Answer, Begun, Code, NO_LINES, Record, Refusal, Sums, Wish},
    shared,
    wire::{Limits, Over, Wire},
};
use iotrace_model::host;
use iotrace_model::targets;
use iotrace_phases::dfa::Table;
use iotrace_tracer::drain::{Drain, Wake, collector};
use iotrace_tracer::engine::{Engine, Loaded};
use iotrace_tracer::kernel::{HookChoice, Kernel, KernelError, Losses, Options, Programs};

/// Longest time between two looks at the events.
const EVENTS_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two drains of the counters.
const COUNTERS_INTERVAL: Duration = Duration::from_secs(1);
/// Waits so many milliseconds between the first look at a process and the moment it is traced, for the tests.
const PAUSE_VARIABLE: &str = "IOTRACE_TEST_PAUSE";

/// How recordings are made, and what each is allowed.
#[derive(Clone, Debug)]
pub struct Settings {
    pub programs: Programs,
    pub btf: Option<PathBuf>,
    /// What the programs sort files by.
    pub rules: Arc<Table>,
    pub page_cache: bool,
    /// Entries of each of the two generations of kernel counters.
    pub entries: u32,
    pub max_duration: Duration,
    /// Of what is sent.
    pub max_bytes: u64,
}

/// By whose programs a recording is made.
pub enum Made<'a> {
    Own,
    Shared(&'a Counting),
}

/// Records for a client, from its request to its end.
pub fn run(mut wire: Wire, peer: Peer, record: &Record, settings: &Settings, made: Made<'_>) {
    let ended = match made {
        Made::Own => Recording::start(peer, record, settings)
            .map(|(recording, begun)| recording.follow(&mut wire, &begun, settings)),
        Made::Shared(counting) => shared::start(peer, record, counting, settings)
            .map(|(recording, begun)| recording.follow(&mut wire, &begun, settings)),
    };
    let refusal = match ended {
        Ok(Ok(())) => return,
        Ok(Err(Over::Gone(error))) => {
            return log::debug!("a recording's client has gone: {error}");
        }
        Ok(Err(Over::Garbage)) => Refusal::new(
            Code::BadRequest,
            "a recording is told \"all\", \"stop\" or the interpreter of a process, a line each",
        ),
        Ok(Err(Over::Kernel(error))) => Refusal::new(Code::Failed, error.to_string()),
        Err(refusal) => refusal,
    };
    // Who does not take it in has gone.
    let _ = wire.say(&Answer::from(refusal));
}

/// The processes that are named, where the client may ask about all of them.
pub fn processes(peer: Peer, record: &Record) -> Result<Vec<Process>, Refusal> {
    let open = |pid: &u32| {
        let process = Process::open(*pid)?;
        peer.check(&process)?;
        Ok(process)
    };
    record.pids.iter().map(open).collect()
}

/// A running recording.
struct Recording {
    kernel: Kernel,
    drain: Drain,
}

impl Recording {
    /// Loads, attaches, tests, and traces the processes; what to tell the client.
    fn start(peer: Peer, record: &Record, settings: &Settings) -> Result<(Self, Answer), Refusal> {
        if record.kept().lines.are_some() {
            let message = format!("{NO_LINES}: the service loads programs for this recording");
            return Err(Refusal::new(Code::Failed, message));
        }
        collector::hurry();
        let processes = processes(peer, record)?;
        pause();
        let failed = |error: KernelError| {
            log::error!("a recording cannot be made: {error}");
            Refusal::new(Code::Failed, error.to_string())
        };
        let engine = load_programs(record, settings).map_err(failed)?;
        let Engine {
            kernel,
            drain,
            hook,
            ..
        } = engine;
        let mut recording = Self { kernel, drain };
        let start_unix_ns = host::realtime()
            .map_err(|error| Refusal::new(Code::Failed, format!("the clock: {error}")))?;
        recording.trace(peer, record).map_err(failed)?;
        // What was checked before may have ended, and its pid be another process's.
        for process in &processes {
            peer.check(process)?;
        }
        let begun = Answer::Begun(Begun {
            hook: hook.name().into(),
            start_unix_ns,
            shared: false,
            rules: settings.rules.fingerprint(),
            page_cache: settings.page_cache,
        });
        Ok((recording, begun))
    }

    /// Puts the processes into scope.
    fn trace(&mut self, peer: Peer, record: &Record) -> Result<(), KernelError> {
        if !peer.is_root() {
            self.kernel.restrict_to(peer.rights)?;
        }
        if record.pids.is_empty() {
            return self.kernel.trace_all();
        }
        let find = || targets::wanted(&record.pids, record.follow, peer.pid);
        // Twice: a child made between the first look and its parent's becoming a target is not followed. Descendants of
        // another user come into the scope, too, and the programs leave them out.
        for pid in find().into_iter().chain(find()) {
            self.kernel.add_target(pid)?;
        }
        Ok(())
    }

    /// Sends what is counted until the client has enough, or may have no more.
    fn follow(mut self, wire: &mut Wire, begun: &Answer, settings: &Settings) -> Result<(), Over> {
        wire.say(begun)?;
        let limits = Limits::from_now(settings);
        let deadline = limits.deadline;
        let mut next = Instant::now() + COUNTERS_INTERVAL;
        let reason = loop {
            let now = Instant::now();
            let limit = EVENTS_INTERVAL.min(next.min(deadline).saturating_duration_since(now));
            let wake = self.drain.wait(wire.as_fd(), limit);
            let wishes = match wake.map_err(|source| KernelError::Io {
                what: "the event ring buffer cannot be waited for".into(),
                source,
            })? {
                Wake::Look if !wire.has_heard() => vec![],
                _ => wire.listen()?,
            };
            if wishes.iter().any(|wish| matches!(wish, Wish::Python(_))) {
                return Err(Over::Garbage);
            }
            let fill = send_events(&mut self.drain, wire)?;
            if wishes.contains(&Wish::Stop) {
                break None;
            }
            if fill || !wishes.is_empty() || Instant::now() >= next {
                self.kernel.attach_more();
                self.send_counters(wire)?;
                next = Instant::now() + COUNTERS_INTERVAL;
            }
            if !wishes.is_empty() {
                // The names of files that were first used since the events were taken.
                send_events(&mut self.drain, wire)?;
                let all = Answer::All(self.sums(self.kernel.losses()?));
                wishes.iter().try_for_each(|_| wire.say(&all))?;
            }
            if let Some(reason) = wire.limit(Some(&limits)) {
                break Some(reason);
            }
        };
        self.end(wire, reason)
    }

    /// Takes the hooks off and sends what is left.
    fn end(mut self, wire: &mut Wire, reason: Option<String>) -> Result<(), Over> {
        self.send_counters(wire)?;
        let Self { kernel, mut drain } = self;
        let detached = kernel.detach()?;
        let mut sent = Ok(());
        drain.rest_of_counters(&mut |batch| {
            if sent.is_ok() {
                sent = wire.batch(&batch);
            }
        })?;
        sent?;
        send_events(&mut drain, wire)?;
        let end = Answer::End {
            sums: Sums {
                losses: detached.losses()?,
                drains: drain.stats(),
            },
            reason,
        };
        Ok(wire.say(&end)?)
    }

    fn send_counters(&mut self, wire: &mut Wire) -> Result<(), Over> {
        let mut sent = Ok(());
        self.drain.counters(&mut |batch| {
            if sent.is_ok() {
                sent = wire.batch(&batch);
            }
        })?;
        Ok(sent?)
    }

    fn sums(&self, losses: Losses) -> Sums {
        Sums {
            losses,
            drains: self.drain.stats(),
        }
    }
}

/// Sends the events; true: a generation is half full.
fn send_events(drain: &mut Drain, wire: &mut Wire) -> Result<bool, Over> {
    let mut sent = Ok(());
    let fill = drain.events(&mut |batch| {
        if sent.is_ok() {
            sent = wire.batch(&batch);
        }
    });
    sent?;
    Ok(fill)
}

/// Loads the programs and lets them prove themselves; one recording at a time, since that takes a CPU.
fn load_programs(record: &Record, settings: &Settings) -> Result<Engine, KernelError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options {
        detail: record.detail,
        follow: record.follow,
        environment: true,
        negative_lookups: record.negative_lookups,
        latencies: record.latencies,
        map_entries: Some(settings.entries),
        btf: settings.btf.clone(),
        page_cache: settings.page_cache,
        ..Options::least()
    };
    let loaded = Loaded::new(&options, &settings.programs, &settings.rules)?;
    // The other kind takes seconds to come off.
    loaded.attach(HookChoice::Btf)?.prove()
}

pub fn pause() {
    let text = std::env::var(PAUSE_VARIABLE).unwrap_or_default();
    if let Ok(milliseconds) = text.parse() {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
}
