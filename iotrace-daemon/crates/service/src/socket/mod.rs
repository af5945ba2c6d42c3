//! The Unix socket: users without privileges have their own processes recorded.
//!
//! ```text
//! protocol     what is said
//! peer         who asks, and what they may ask about
//! places       how many there may be
//! rate         how often there may be one
//! recording    one recording, in a thread of its own
//! ```
//!
//! A thread listens. A client costs one of [`CONNECTIONS`] places, of which one user has [`CONNECTIONS_EACH`], and must say
//! what it wants within [`PATIENCE`]; who finds no place is told so and gone.

mod peer;
mod places;
pub mod protocol;
mod rate;
mod recording;

use iotrace_tracer::kernel::Programs;
use std::{
    fs,
    io::{self, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
        net,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use iotrace_common::rights::Rights;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc::Sender, oneshot},
    time::timeout,
};

use super::{
    background::Background,
    config::{Config, EVERY_GROUP, NO_SOCKET},
    shared::Recordings,
    snapshot::Snapshot,
    subordinate::Subordinates,
};
use iotrace_phases::dfa::Table;
use peer::{Peer, Process};
use places::{Place, Places};
use protocol::{Answer, Ask, Code, LINE, Record, Refusal, line};
use rate::Rates;
use recording::Settings;

/// Connections at one time, and of one user.
const CONNECTIONS: usize = 128;
const CONNECTIONS_EACH: usize = 16;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long recordings have to say goodbye when the service ends.
const FAREWELL: Duration = Duration::from_secs(3);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the socket {path} cannot be opened: {source}; set `socket` in [recordings]")]
    Open { path: PathBuf, source: io::Error },
    #[error("another iotrace listens at {0} already; set `socket` in [recordings]")]
    Taken(PathBuf),
    #[error(
        "there is no group {0}; set `group` in [recordings] to one, or to \"*\" for every user"
    )]
    NoGroup(String),
    #[error(
        "the socket cannot be given to the group {group}: {source}; add SupplementaryGroups={group} to the unit"
    )]
    Group { group: String, source: io::Error },
}

/// The open socket. Ends, with all recordings, when it is dropped.
pub struct Socket {
    path: PathBuf,
    /// Device and inode of the socket: another's is not taken away.
    identity: (u64, u64),
    hub: Arc<Hub>,
    _background: Background,
}

/// What connections share.
struct Hub {
    limits: Mutex<Limits>,
    connections: Arc<Places>,
    recordings: Arc<Places>,
    rates: Mutex<Rates>,
    questions: Sender<Question>,
    begun: AtomicU64,
    refused: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Hub {
    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// Opens the socket, whose clients' questions go to `questions`; `None` where the configuration wants none.
    pub fn start(
        config: &Config,
        programs: Programs,
        rules: &Table,
        questions: Sender<Question>,
    ) -> Result<Option<Self>, SocketError> {
        let path = &config.recordings.socket;
        if path == Path::new(NO_SOCKET) {
            return Ok(None);
        }
        let failed = |source| SocketError::Open {
            path: path.clone(),
            source,
        };
        let listener = bind(path, config.recordings.group.as_deref())?;
        listener.set_nonblocking(true).map_err(failed)?;
        let metadata = fs::metadata(path).map_err(failed)?;
        let hub = Arc::new(Hub {
            limits: Limits::new(config, programs, Arc::new(rules.clone())).into(),
            connections: Arc::default(),
            recordings: Arc::default(),
            rates: Mutex::default(),
            questions,
            begun: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            stop: Arc::default(),
        });
        let served = Arc::clone(&hub);
        let background = Background::start("iotrace-socket", "recordings for users", move || {
            serve(listener, served)
        })
        .map_err(failed)?;
        Ok(Some(Self {
            path: path.clone(),
            identity: (metadata.dev(), metadata.ino()),
            hub,
            _background: background,
        }))
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
            running: self.hub.recordings.taken() as u64,
            begun: self.hub.begun.load(Relaxed),
            refused: self.hub.refused.load(Relaxed),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.hub.stop.store(true, Relaxed);
        let own = fs::metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if own && let Err(error) = fs::remove_file(&self.path) {
            log::debug!("the socket stays behind: {error}");
        }
        let deadline = Instant::now() + FAREWELL;
        while self.hub.recordings.taken() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Binds the socket, which members of the group may connect to. One that nobody listens at is left over and replaced.
fn bind(path: &Path, group: Option<&str>) -> Result<net::UnixListener, SocketError> {
    let failed = |source| SocketError::Open {
        path: path.into(),
        source,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    if is_socket {
        if net::UnixStream::connect(path).is_ok() {
            return Err(SocketError::Taken(path.into()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let members = members(group)?;
    let listener = net::UnixListener::bind(path).map_err(failed)?;
    if members.is_some() {
        chown(path, None, members).map_err(|source| SocketError::Group {
            group: group.unwrap_or_default().into(),
            source,
        })?;
    }
    let mode = if group == Some(EVERY_GROUP) {
        0o666
    } else {
        0o660
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

/// Whether the group that the configuration names is there.
pub fn check(config: &Config) -> Result<(), SocketError> {
    members(config.recordings.group.as_deref()).map(drop)
}

/// The group to give the socket to; none where it is the service's own, or where there is none.
fn members(group: Option<&str>) -> Result<Option<u32>, SocketError> {
    match group {
        None | Some(EVERY_GROUP) => Ok(None),
        Some(group) => match gid_of(group) {
            Some(gid) => Ok(Some(gid)),
            None => Err(SocketError::NoGroup(group.into())),
        },
    }
}

/// The number of a group by its name, or by itself.
fn gid_of(group: &str) -> Option<u32> {
    if let Ok(gid) = group.parse() {
        return Some(gid);
    }
    let name = std::ffi::CString::new(group).ok()?;
    // Members' names may fill it; a group with more is not found.
    let mut buffer = vec![0; 1 << 20];
    // SAFETY: integers and pointers, of which all zeros is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: a string that ends, and places that live through the call with their sizes.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    (error == 0 && !found.is_null()).then_some(entry.gr_gid)
}

async fn serve(listener: net::UnixListener, hub: Arc<Hub>) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return log::error!("no recordings for users: {error}"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Err(error) = admit(stream, &hub) {
                    log::debug!("a client of the socket: {error}");
                }
            }
            Err(error) => {
                // Out of descriptors, as a rule: some come back.
                log::warn!("a connection to the socket was not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Gives a client a place, or says why it has none.
fn admit(stream: UnixStream, hub: &Arc<Hub>) -> io::Result<()> {
    let mut stream = stream.into_std()?;
    let admitted = Peer::of(&stream).and_then(|peer| {
        let user = hub.limits().subordinates.owner(peer.rights.uid);
        let place = hub.connections.take(user, CONNECTIONS_EACH, CONNECTIONS);
        let busy = || {
            Refusal::new(
                Code::Busy,
                format!(
                    "too many connections: the service has {CONNECTIONS} at one time, {CONNECTIONS_EACH} of one user"
                ),
            )
        };
        Ok((peer, place.ok_or_else(busy)?))
    });
    match admitted {
        Ok((peer, place)) => {
            let stream = UnixStream::from_std(stream)?;
            let hub = Arc::clone(hub);
            tokio::spawn(async move { converse(stream, peer, place, &hub).await });
            Ok(())
        }
        Err(refusal) => {
            hub.refused.fetch_add(1, Relaxed);
            // A line finds room in an empty socket, or the client is no client.
            stream.write_all(&line(&Answer::from(refusal)))
        }
    }
}

async fn converse(stream: UnixStream, peer: Peer, place: Place, hub: &Arc<Hub>) {
    let mut heard = Vec::new();
    let ask = match timeout(PATIENCE, hear(&stream, &mut heard)).await {
        Ok(Ok(line)) => protocol::request(&line),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(Refusal::new(
            Code::BadRequest,
            "no request came: the first line says what is asked",
        )),
    };
    let answer = match &ask {
        Ok(Ask::Snapshot(what)) => Some(snapshot(peer, what.pid.unwrap_or(peer.pid), hub).await),
        _ => None,
    };
    let Ok(stream) = stream.into_std() else {
        return;
    };
    let done = match (ask, answer) {
        (Ok(Ask::Record(record)), _) => record_for(&stream, heard, peer, place, record, hub),
        (Ok(Ask::Snapshot(_)), Some(Ok(snapshot))) => {
            // A line finds room in an empty socket, or the client is no client.
            let _ = (&stream).write_all(&line(&Answer::Snapshot(snapshot)));
            Ok(())
        }
        (Ok(Ask::Snapshot(_)), answer) => answer.map_or(Ok(()), |answer| answer.map(drop)),
        (Err(refusal), _) => Err(refusal),
    };
    if let Err(refusal) = done {
        hub.refused.fetch_add(1, Relaxed);
        // As above.
        let _ = (&stream).write_all(&line(&Answer::from(refusal)));
    }
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
    hub.questions.send(question).await.map_err(|_| ends())?;
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

/// Takes the first line off what is heard.
async fn hear(stream: &UnixStream, heard: &mut Vec<u8>) -> Result<Vec<u8>, Refusal> {
    loop {
        if let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let rest = heard.split_off(end + 1);
            return Ok(std::mem::replace(heard, rest));
        }
        if heard.len() >= LINE {
            let message = format!("a request is a line of at most {LINE} bytes");
            return Err(Refusal::new(Code::BadRequest, message));
        }
        let mut bytes = [0; LINE];
        let read = match stream.readable().await {
            Ok(()) => stream.try_read(&mut bytes[..LINE - heard.len()]),
            Err(error) => Err(error),
        };
        match read {
            Ok(count) if count > 0 => heard.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Err(Refusal::new(Code::BadRequest, "the request breaks off")),
        }
    }
}

/// Starts a recording in a thread of its own.
fn record_for(
    stream: &net::UnixStream,
    heard: Vec<u8>,
    peer: Peer,
    connection: Place,
    record: Record,
    hub: &Arc<Hub>,
) -> Result<(), Refusal> {
    let limits = hub.limits().clone();
    let user = limits.subordinates.owner(peer.rights.uid);
    let place = hub
        .recordings
        .take(user, limits.max_per_user, limits.max)
        .ok_or_else(|| {
            Refusal::new(
                Code::Busy,
                format!(
                    "the service makes {} recordings at one time, {} of one user: wait until one has ended (max and \
                     max_per_user in [recordings])",
                    limits.max, limits.max_per_user
                ),
            )
        })?;
    if !peer.is_root() {
        let mut rates = hub.rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.take(user, Instant::now()).map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil();
            let message = format!("too many recordings in a short time: try again in {seconds} s");
            Refusal::new(Code::Busy, message)
        })?;
    }
    let failed = |error: io::Error| Refusal::new(Code::Failed, format!("no recording: {error}"));
    let stream = stream.try_clone().map_err(failed)?;
    stream.set_nonblocking(false).map_err(failed)?;
    let stop = Arc::clone(&hub.stop);
    hub.begun.fetch_add(1, Relaxed);
    std::thread::Builder::new()
        .name("iotrace-record".into())
        .spawn(move || {
            recording::run(stream, heard, peer, &record, &limits.recording, &stop);
            drop((connection, place));
        })
        .map(drop)
        .map_err(failed)
}
