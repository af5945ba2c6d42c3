//! The Unix socket: users without privileges have their own processes recorded.
//!
//! ```text
//! listener     the socket in the file system
//! door         in the front: clients, until they have sent a request
//! protocol     what is said
//! peer         who asks, and what they may ask about
//! places       how many there may be
//! rate         how often there may be one
//! recording    one recording, in a separate thread, with separate kernel programs
//! shared       the same with the kernel programs of the service
//! wire         what is sent, and what is heard
//! ```
//!
//! The front reads the first line of each client and hands the client over to the [`Hub`], which takes from the kernel alone
//! who the client is.

pub mod door;
mod listener;
mod peer;
mod places;
pub mod protocol;
mod rate;
mod recording;
mod shared;
mod wire;

use iotrace_tracer::kernel::Programs;
use std::{
    io::{self, ErrorKind},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use iotrace_common::rights::Rights;
use tokio::sync::{mpsc::Sender, oneshot};

use super::{
    config::{Config, NO_SOCKET},
    jobs::LogEnd,
    shared::Recordings,
    snapshot::Snapshot,
    subordinate::Subordinates,
    subscriptions::Order,
};
use iotrace_phases::dfa::Table;
use listener::Bound;
pub use listener::{SocketError, check};
pub use peer::with_known_namespace;
use peer::{Peer, Process};
use places::{Place, Places};
use protocol::{Answer, Ask, Code, MAX_LINE_BYTES, Record, Refusal, say};
use rate::Rates;
use recording::{Made, Settings};
use wire::Wire;

/// Connections at one time, of all users and of one: in the front before their request, in the tracer after it.
const MAX_CONNECTIONS: usize = 128;
const MAX_CONNECTIONS_EACH: usize = 16;
/// How long the end of a log may take.
const LOG_TIMEOUT: Duration = Duration::from_secs(20);
/// How long recordings have to say goodbye when the service ends.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// The open socket. Ends, with all recordings, when it is dropped.
pub struct Socket {
    hub: Arc<Hub>,
    bound: Option<Bound>,
}

/// What clients share.
pub struct Hub {
    /// The address that clients connected to.
    address: std::os::unix::net::SocketAddr,
    limits: Mutex<Limits>,
    connections: Arc<Places>,
    recordings: Arc<Places>,
    /// Recordings of what is counted anyway, and those of root by the programs of the service.
    shared: Arc<Places>,
    starts: Mutex<Rates>,
    requests: Mutex<Rates>,
    counting: Counting,
    begun: AtomicU64,
    refused: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// How the side that counts is asked.
pub struct Counting {
    pub questions: Sender<Question>,
    pub orders: Sender<Order>,
    pub ends: Sender<LogEnd>,
    /// How its programs see system calls.
    pub hook: String,
    /// Whether they see the page cache and mapped files.
    pub page_cache: bool,
    /// Why they cannot keep waits, where they cannot.
    pub lacks_waits: Option<String>,
    /// The same of lines.
    pub lacks_lines: Option<String>,
}

/// A question for the side that counts.
pub struct Question {
    pub pid: u32,
    /// Who asks: what they may not look into does not count; none: all counts.
    pub client: Option<Rights>,
    /// `None`: they may not look into the process.
    pub reply: oneshot::Sender<Option<Snapshot>>,
}

/// What the configuration allows.
#[derive(Clone, Debug)]
struct Limits {
    max: usize,
    max_per_user: usize,
    recording: Settings,
    /// A user counts as one with all subordinate ids.
    subordinates: Subordinates,
}

impl Limits {
    fn new(config: &Config, programs: Programs, rules: Arc<Table>) -> Self {
        let recordings = &config.recordings;
        Self {
            max: recordings.max,
            max_per_user: recordings.max_per_user,
            subordinates: Subordinates::read(),
            recording: Settings {
                programs,
                btf: config.trace.btf.clone(),
                rules,
                page_cache: config.trace.page_cache,
                entries: recordings.max_entries,
                max_duration: recordings.max_duration.0,
                max_bytes: recordings.max_mib << 20,
            },
        }
    }
}

impl Socket {
    /// Opens the socket, for the front to listen at; what clients ask goes to `counting`. `None` if the configuration wants
    /// none.
    pub fn open(
        config: &Config,
        programs: Programs,
        rules: &Table,
        counting: Counting,
    ) -> Result<Option<(Self, UnixListener)>, SocketError> {
        let path = &config.recordings.socket;
        if path == Path::new(NO_SOCKET) {
            return Ok(None);
        }
        let (bound, listener) = Bound::new(path, config.recordings.group.as_deref())?;
        let address = listener.local_addr();
        let address = address.map_err(|source| SocketError::Open {
            path: path.clone(),
            source,
        })?;
        let hub = Arc::new(Hub {
            address,
            limits: Limits::new(config, programs, Arc::new(rules.clone())).into(),
            connections: Arc::default(),
            recordings: Arc::default(),
            shared: Arc::default(),
            starts: Mutex::new(Rates::new(rate::START_RATE)),
            requests: Mutex::new(Rates::new(rate::REQUEST_RATE)),
            counting,
            begun: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stop: Arc::default(),
        });
        let socket = Self {
            hub,
            bound: Some(bound),
        };
        Ok(Some((socket, listener)))
    }

    /// What takes clients over from the front.
    pub fn hub(&self) -> Arc<Hub> {
        Arc::clone(&self.hub)
    }

    /// Takes new limits, for recordings that begin from here on.
    pub fn reload(&self, config: &Config) {
        let mut limits = self.hub.limits();
        let recording = &limits.recording;
        *limits = Limits::new(config, recording.programs, Arc::clone(&recording.rules));
    }

    /// How many recordings there are and were.
    pub fn state(&self) -> Recordings {
        Recordings {
            open: true,
            reason: None,
            running: self.hub.running() as u64,
            begun: self.hub.begun.load(Relaxed),
            refused: self.hub.refused.load(Relaxed),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.hub.stop.store(true, Relaxed);
        drop(self.bound.take());
        let deadline = Instant::now() + END_TIMEOUT;
        while self.hub.running() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Hub {
    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recordings that run.
    fn running(&self) -> usize {
        self.recordings.taken() + self.shared.taken()
    }

    /// Counts clients that the front refused.
    pub fn count_refused(&self, count: u64) {
        self.refused.fetch_add(count, Relaxed);
    }

    /// Takes a client over from the front, whose pid is `front`. `heard`: the request and what the client sent after it. An
    /// error means that this is not a client's connection, or no request: the front is compromised or broken.
    pub fn take(
        self: &Arc<Self>,
        stream: UnixStream,
        mut heard: Vec<u8>,
        front: u32,
    ) -> io::Result<()> {
        let end = heard.iter().position(|byte| *byte == b'\n');
        let (Some(end), true) = (end, peer::was_accepted(&stream, &self.address)) else {
            return Err(ErrorKind::InvalidData.into());
        };
        let early = heard.split_off(end + 1);
        if heard.len() + early.len() > MAX_LINE_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        let asked = Peer::of(&stream).and_then(|peer| Ok((peer, protocol::request(&heard)?)));
        // Neither process of the service is a client.
        if let Ok((peer, _)) = &asked
            && [std::process::id(), front].contains(&peer.pid)
        {
            return Err(ErrorKind::InvalidData.into());
        }
        let done = asked.and_then(|(peer, ask)| {
            let user = self.limits().subordinates.owner(peer.rights.uid);
            let place = self
                .connections
                .take(user, MAX_CONNECTIONS_EACH, MAX_CONNECTIONS);
            let place = place.ok_or_else(too_many_connections)?;
            if !peer.is_root() {
                not_too_often(&self.requests, user, "requests")?;
            }
            match ask {
                Ask::Record(record) => record_for(&stream, early, peer, place, record, self),
                Ask::EndLog(what) => {
                    let (stream, hub) = (stream.try_clone().map_err(failed)?, Arc::clone(self));
                    tokio::spawn(async move {
                        match end_logs(peer, what.job, &hub).await {
                            Ok(directories) => say(&stream, &Answer::LogsEnded { directories }),
                            Err(refusal) => hub.refuse(&stream, refusal),
                        }
                        drop(place);
                    });
                    Ok(())
                }
                Ask::Snapshot(what) => {
                    let (stream, hub) = (stream.try_clone().map_err(failed)?, Arc::clone(self));
                    let pid = what.pid.unwrap_or(peer.pid);
                    tokio::spawn(async move {
                        match snapshot(peer, pid, &hub).await {
                            Ok(snapshot) => say(&stream, &Answer::Snapshot(snapshot)),
                            Err(refusal) => hub.refuse(&stream, refusal),
                        }
                        drop(place);
                    });
                    Ok(())
                }
            }
        });
        if let Err(refusal) = done {
            self.refuse(&stream, refusal);
        }
        Ok(())
    }

    fn refuse(&self, stream: &UnixStream, refusal: Refusal) {
        self.refused.fetch_add(1, Relaxed);
        say(stream, &refusal.into());
    }
}

fn failed(error: io::Error) -> Refusal {
    Refusal::new(Code::Failed, format!("no recording: {error}"))
}

/// Takes one of these of a user.
fn not_too_often(rates: &Mutex<Rates>, user: u32, what: &str) -> Result<(), Refusal> {
    let mut rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
    rates.take(user, Instant::now()).map_err(|wait| {
        let seconds = wait.as_secs_f64().ceil();
        let message = format!("too many {what} in a short time: try again in {seconds} s");
        Refusal::new(Code::Busy, message)
    })
}

fn too_many_connections() -> Refusal {
    Refusal::new(
        Code::Busy,
        format!(
            "too many connections: the service has {MAX_CONNECTIONS} at one time, {MAX_CONNECTIONS_EACH} of one user"
        ),
    )
}

/// What a process has done, after a drain of what it did until now.
async fn snapshot(peer: Peer, pid: u32, hub: &Hub) -> Result<Snapshot, Refusal> {
    let process = Process::open(pid)?;
    peer.check(&process)?;
    let (reply, replied) = oneshot::channel();
    let question = Question {
        pid,
        client: (!peer.is_root()).then_some(peer.rights),
        reply,
    };
    let ends = || Refusal::new(Code::Failed, "the service ends");
    hub.counting
        .questions
        .send(question)
        .await
        .map_err(|_| ends())?;
    let snapshot = replied.await.map_err(|_| ends())?;
    // The pid was the process's until now, and so is the answer.
    peer.check(&process)?;
    snapshot.ok_or_else(|| {
        let message = format!(
            "process {pid} belongs to another user or runs with other rights than its user's: only root may ask about it"
        );
        Refusal::new(Code::Denied, message)
    })
}

/// Ends the logs of a job, and waits until they are written.
async fn end_logs(peer: Peer, job: String, hub: &Hub) -> Result<Vec<PathBuf>, Refusal> {
    let (reply, replied) = oneshot::channel();
    let end = LogEnd {
        job,
        user: peer.rights.uid,
        reply,
    };
    let ends = || Refusal::new(Code::Failed, "the service ends");
    let asked = hub.counting.ends.send(end).await;
    asked.map_err(|_| ends())?;
    let mut directories = Vec::new();
    for written in replied.await.map_err(|_| ends())?? {
        let written = tokio::time::timeout(LOG_TIMEOUT, written).await;
        let directory = written.map_err(|_| {
            let message = "the log is ended, and the disk does not take it yet";
            Refusal::new(Code::Failed, message)
        })?;
        let directory = directory.map_err(|_| {
            let message = "the log could not be written: `jobs.error` in /status has the reason";
            Refusal::new(Code::Failed, message)
        })?;
        directories.extend(directory);
    }
    Ok(directories)
}

/// Starts a recording in a thread of its own.
fn record_for(
    stream: &UnixStream,
    early: Vec<u8>,
    peer: Peer,
    connection: Place,
    record: Record,
    hub: &Arc<Hub>,
) -> Result<(), Refusal> {
    let limits = hub.limits().clone();
    let user = limits.subordinates.owner(peer.rights.uid);
    let is_shared = shared::can_be(&record, &hub.counting);
    // What is kept of all processes costs no more than its connection, so the limits of connections suffice.
    let is_limited = !is_shared || record.kept().is_more() && !peer.is_root();
    let place = match is_limited {
        false => hub.shared.take(user, MAX_CONNECTIONS_EACH, MAX_CONNECTIONS),
        true => hub.recordings.take(user, limits.max_per_user, limits.max),
    };
    let place = place.ok_or_else(|| {
        Refusal::new(
            Code::Busy,
            format!(
                "the service makes {} recordings at one time, {} of one user: wait until one has ended (max and \
                 max_per_user in [recordings])",
                limits.max, limits.max_per_user
            ),
        )
    })?;
    if !peer.is_root() && is_limited {
        not_too_often(&hub.starts, user, "recordings")?;
    }
    let stream = stream.try_clone().map_err(failed)?;
    let wire = Wire::new(stream, early, Arc::clone(&hub.stop));
    hub.begun.fetch_add(1, Relaxed);
    let hub = Arc::clone(hub);
    std::thread::Builder::new()
        .name("iotrace-record".into())
        .spawn(move || {
            let made = match is_shared {
                true => Made::Shared(&hub.counting),
                false => Made::Own,
            };
            recording::run(wire, peer, &record, &limits.recording, made);
            drop((connection, place));
        })
        .map(drop)
        .map_err(failed)
}
