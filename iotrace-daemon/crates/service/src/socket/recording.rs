//! One recording for a client: kernel programs of its own, whose counters go to the client as they are drained.
//!
//! The service keeps nothing of it and writes no file. The programs trace the client's user alone, so that neither a pid
//! that is reused nor a program with other rights brings anybody else's files into it. A client that is slow loses counts of
//! its own: what finds no room in the kernel's maps, which say so.

use iotrace_tracer::kernel::Programs;
use std::{
    io::{self, ErrorKind},
    os::{fd::AsFd as _, unix::net::UnixStream},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use super::{
    peer::{Peer, Process},
    protocol::{Answer, Code, MAX_LINE_BYTES, Record, Refusal, Sums, Wish, line},
};
use iotrace_model::host;
use iotrace_model::targets;
use iotrace_phases::dfa::Table;
use iotrace_tracer::drain::{Batch, Drain, Wake, collector, wire};
use iotrace_tracer::kernel::{
    HookChoice, Kernel, KernelError, Losses, Options, block, load, selftest,
};

/// Longest time between two looks at the events.
const EVENTS_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two drains of the counters.
const COUNTERS_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may take to read what it asked for.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at whether a client that does not read is still waited for.
const CLIENT_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};
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

/// Why a recording goes on no more.
enum Over {
    /// The client has gone, or does not read.
    Gone(io::Error),
    /// The client says what it may not.
    Garbage,
    Kernel(KernelError),
}

impl From<KernelError> for Over {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<io::Error> for Over {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// Records for a client, from its request to its end. `early`: what it said behind the request already.
pub fn run(
    stream: UnixStream,
    early: Vec<u8>,
    peer: Peer,
    record: &Record,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
) {
    collector::hurry();
    let mut wire = Wire {
        stream,
        heard: early,
        sent: 0,
        stop: Arc::clone(stop),
    };
    let refusal = match Recording::start(peer, record, settings) {
        Ok((recording, begun)) => match recording.follow(&mut wire, &begun, settings) {
            Ok(()) => return,
            Err(Over::Gone(error)) => return log::debug!("a recording's client has gone: {error}"),
            Err(Over::Garbage) => Refusal::new(
                Code::BadRequest,
                "a recording is told \"all\" or \"stop\", a line each",
            ),
            Err(Over::Kernel(error)) => Refusal::new(Code::Failed, error.to_string()),
        },
        Err(refusal) => refusal,
    };
    // Who does not take it in has gone.
    let _ = wire.say(&Answer::from(refusal));
}

/// A running recording.
struct Recording {
    kernel: Kernel,
    drain: Drain,
}

impl Recording {
    /// Loads, attaches, tests, and traces the processes; what to tell the client.
    fn start(peer: Peer, record: &Record, settings: &Settings) -> Result<(Self, Answer), Refusal> {
        let processes: Vec<Process> = record
            .pids
            .iter()
            .map(|pid| {
                let process = Process::open(*pid)?;
                peer.check(&process)?;
                Ok(process)
            })
            .collect::<Result<_, Refusal>>()?;
        pause();
        let failed = |error: KernelError| {
            log::error!("a recording cannot be made: {error}");
            Refusal::new(Code::Failed, error.to_string())
        };
        let (kernel, drain, hook) = load_programs(record, settings).map_err(failed)?;
        let mut recording = Self { kernel, drain };
        let start_unix_ns = host::realtime()
            .map_err(|error| Refusal::new(Code::Failed, format!("the clock: {error}")))?;
        recording.trace(peer, record).map_err(failed)?;
        // What was checked before may have ended, and its pid be another process's.
        for process in &processes {
            peer.check(process)?;
        }
        let begun = Answer::Begun {
            hook: hook.into(),
            start_unix_ns,
        };
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
        let find = || match record.follow {
            true => targets::descendants(&record.pids),
            false => record.pids.clone(),
        };
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
        let deadline = Instant::now() + settings.max_duration;
        let mut next = Instant::now() + COUNTERS_INTERVAL;
        let reason = loop {
            let now = Instant::now();
            let limit = EVENTS_INTERVAL.min(next.min(deadline).saturating_duration_since(now));
            let wake = self.drain.wait(wire.stream.as_fd(), limit);
            let wishes = match wake.map_err(|source| KernelError::Io {
                what: "the event ring buffer cannot be waited for".into(),
                source,
            })? {
                Wake::Look if wire.heard.is_empty() => vec![],
                _ => wire.listen()?,
            };
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
            if let Some(reason) = wire.limit(deadline, settings) {
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
fn send_events(drain: &mut Drain, wire: &mut Wire) -> io::Result<bool> {
    let mut events = Vec::new();
    let fill = drain.pack_events(std::process::id(), &mut events);
    wire.bytes(wire::Kind::Events, &events)?;
    Ok(fill)
}

/// Loads the programs and lets them prove themselves; one recording at a time, since that takes a CPU.
fn load_programs(
    record: &Record,
    settings: &Settings,
) -> Result<(Kernel, Drain, &'static str), KernelError> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options {
        detail: record.detail,
        follow: record.follow,
        environment: true,
        cgroup: false,
        histograms: false,
        cpu: false,
        merge_all: false,
        negative_lookups: true,
        map_entries: Some(settings.entries),
        btf: settings.btf.clone(),
        program_log: false,
        trace: None,
        page_cache: settings.page_cache,
        block: block::Wanted::Nothing,
        uprobes: Vec::new(),
        waits: false,
    };
    let types = load::read_types(options.btf.as_deref())?;
    let mut kernel = load::load(&options, &settings.programs, &types, &settings.rules)?;
    drop(types);
    let mut drain = Drain::new(&mut kernel)?;
    // The other kind takes seconds to come off.
    let hook = kernel.attach(HookChoice::Btf)?;
    selftest::run(&mut kernel, &mut drain)?;
    kernel.zero_losses()?;
    Ok((kernel, drain, hook.name()))
}

/// The client's end of the wire.
struct Wire {
    stream: UnixStream,
    /// What was heard of a line whose end has not come.
    heard: Vec<u8>,
    /// Bytes sent.
    sent: u64,
    /// The service ends.
    stop: Arc<AtomicBool>,
}

impl Wire {
    /// What the client wants by now.
    fn listen(&mut self) -> Result<Vec<Wish>, Over> {
        let mut bytes = [0; MAX_LINE_BYTES];
        match recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok((_, count)) => self.heard.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut wishes = Vec::new();
        let mut lines = self.heard.split_inclusive(|byte| *byte == b'\n');
        let mut rest = Vec::new();
        for line in &mut lines {
            if line.ends_with(b"\n") {
                wishes.push(serde_json::from_slice(line).map_err(|_| Over::Garbage)?);
            } else {
                rest = line.to_vec();
            }
        }
        if rest.len() > MAX_LINE_BYTES {
            return Err(Over::Garbage);
        }
        self.heard = rest;
        Ok(wishes)
    }

    /// Why there must be no more of this recording.
    fn limit(&self, deadline: Instant, settings: &Settings) -> Option<String> {
        if self.stop.load(Relaxed) {
            return Some("the service ends".into());
        }
        if Instant::now() >= deadline {
            let limit = humantime::format_duration(settings.max_duration);
            return Some(format!(
                "a recording may last {limit}: max_duration in [recordings]"
            ));
        }
        (self.sent >= settings.max_bytes).then(|| {
            format!(
                "a recording may have {} MiB: max_mib in [recordings]",
                settings.max_bytes >> 20
            )
        })
    }

    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        match wire::pack(batch, std::process::id()) {
            Some((kind, bytes)) => self.bytes(kind, &bytes),
            None => Ok(()),
        }
    }

    fn bytes(&mut self, kind: wire::Kind, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let header = Answer::Batch {
            kind,
            bytes: bytes.len() as u32,
        };
        self.say(&header)?;
        self.write(bytes)
    }

    fn say(&mut self, answer: &Answer) -> io::Result<()> {
        self.write(&line(answer))
    }

    /// Writes all of it within [`CLIENT_TIMEOUT`], however little the client reads at a time. The front shares the socket's flags
    /// and timeouts, so they have no effect here.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + CLIENT_TIMEOUT;
        while !bytes.is_empty() {
            match send(
                &self.stream,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => {
                    self.sent += count as u64;
                    bytes = &bytes[count..];
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    let mut writable = [PollFd::new(&self.stream, PollFlags::OUT)];
                    match poll(&mut writable, Some(&CLIENT_CHECK_INTERVAL)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
            let given_up = Instant::now() >= deadline || self.stop.load(Relaxed);
            if given_up && !bytes.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

fn pause() {
    let text = std::env::var(PAUSE_VARIABLE).unwrap_or_default();
    if let Ok(milliseconds) = text.parse() {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
}
