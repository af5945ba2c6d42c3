//! Job logs: a recording for every unit, without anybody asking.
//!
//! ```text
//! feed   main loop: what each unit did in an interval, sent to the thread without ever waiting for it
//! note   what one unit did in an interval
//! owner  whose a log is
//! log    thread: the model and the recorder of one unit
//! about  job.json, which names the unit of a log
//! examine
//!        what is made of a log that has ended, by a child process
//! name   path of a log
//! keep   removal of old logs
//! ```
//!
//! A log belongs to root until its unit has ended, and to the unit's user from then on: nobody but root can change a
//! directory that the service writes to.

pub mod about;
pub mod examine;
mod feed;
pub mod keep;
mod log;
mod name;
mod note;
mod owner;

use std::{
    collections::HashMap,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::sync::oneshot;

pub use feed::Feed;
pub use keep::{logs, may_give};

use crate::{
    config,
    socket::protocol::{Code, Refusal},
    totals::UnitId,
};
use examine::Queue;
use iotrace_model::run::Run;
use log::Log;
use note::Note;

/// Intervals that wait for the thread.
const QUEUE_INTERVALS: usize = 4;
/// Longest pause between two looks at what is due.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// The same as long as a log is being examined.
const EXAMINE_INTERVAL: Duration = Duration::from_millis(20);
/// Pause between two removals of old logs.
const KEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long the end of the service waits for the thread.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the thread examines logs then; the others are examined after the next start.
const LAST_EXAMINATIONS: Duration = Duration::from_secs(4);

/// The state of the logs, as `/status` shows it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    /// Logs that are being written.
    pub open: u64,
    /// Logs that were ended well, since the start of the service.
    pub written: u64,
    /// Units without a log, because `max_open` were being written.
    pub not_logged: u64,
    /// Logs that could not be ended.
    pub failed: u64,
    /// Logs that have ended and of which verdict, findings or a format could not be made.
    pub not_examined: u64,
    /// Counts that were logged without their file, for want of room.
    pub merged: u64,
    /// Logs that were removed because of their age or the size of all.
    pub removed: u64,
    /// Why a write failed last, as long as any log lacks what could not be written.
    pub error: Option<String>,
}

/// What the thread and the feed count.
#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    written: AtomicU64,
    not_logged: AtomicU64,
    failed: AtomicU64,
    not_examined: AtomicU64,
    merged: AtomicU64,
    removed: AtomicU64,
    failing: Mutex<Failing>,
}

/// Logs that lack what could not be written.
#[derive(Debug, Default)]
struct Failing {
    logs: u64,
    /// Why the last failed write failed.
    error: Option<String>,
}

impl Counts {
    fn state(&self) -> State {
        State {
            open: self.open.load(Relaxed),
            written: self.written.load(Relaxed),
            not_logged: self.not_logged.load(Relaxed),
            failed: self.failed.load(Relaxed),
            not_examined: self.not_examined.load(Relaxed),
            merged: self.merged.load(Relaxed),
            removed: self.removed.load(Relaxed),
            error: self.failing().error.clone(),
        }
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down that a log could not be written. `is_first`: its last write had not failed. Says the first failure of all: on
    /// a disk that is nearly full, some logs are written and others are not.
    fn fails(&self, error: String, is_first: bool) {
        let mut failing = self.failing();
        if failing.error.is_none() {
            ::log::warn!("job logs: {error}; counts are kept in memory");
        }
        failing.logs += u64::from(is_first);
        failing.error = Some(error);
    }

    /// Takes down that a log lacks nothing more, or is given up.
    fn settles(&self, is_written: bool) {
        let mut failing = self.failing();
        failing.logs = failing.logs.saturating_sub(1);
        if failing.logs == 0 {
            failing.error = None;
            if is_written {
                ::log::warn!("job logs are written again");
            }
        }
    }
}

/// The wish that the logs of a job end now.
pub struct LogEnd {
    /// Number or unit of the job.
    pub job: String,
    /// Who wishes it.
    pub user: u32,
    /// One for each log.
    pub reply: oneshot::Sender<Result<Vec<Ended>, Refusal>>,
}

/// The directory of a log, once it has ended; `None` if it was too short to be kept.
pub type Ended = oneshot::Receiver<Option<PathBuf>>;

impl LogEnd {
    pub fn refuse(self, code: Code, message: &str) {
        // Who wished it may have gone.
        let _ = self.reply.send(Err(Refusal::new(code, message)));
    }
}

/// What goes to the thread.
enum Message {
    Notes(Vec<Note>),
    /// The service ends.
    End(i64),
}

/// The running thread.
struct Writer {
    sender: SyncSender<Message>,
    thread: JoinHandle<()>,
}

/// Starts the logs, if they are configured. `rules`: the file of the rules and thresholds that logs are examined by.
pub fn start(
    config: &config::Jobs,
    run: &Run,
    rules: Option<PathBuf>,
) -> std::io::Result<Option<Feed>> {
    let Some(directory) = &config.directory else {
        return Ok(None);
    };
    make_directory(directory).map_err(|error| explained(error, directory))?;
    let counts = Arc::new(Counts::default());
    let (sender, receiver) = sync_channel(QUEUE_INTERVALS);
    let rules = rules.map(std::path::absolute).transpose()?;
    let thread = Thread {
        queue: Queue::new(&config.formats, rules),
        config: config.clone(),
        run: run.clone(),
        logs: HashMap::new(),
        counts: Arc::clone(&counts),
        kept: None,
    };
    let thread = std::thread::Builder::new()
        .name("iotrace-jobs".into())
        .spawn(move || thread.run(&receiver))?;
    let writer = Writer { sender, thread };
    Ok(Some(Feed::new(config, run.clone(), counts, writer)))
}

/// Makes a directory in which users find the logs, each of which is its owner's alone; one that is there must be nobody else's.
fn make_directory(path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => check_owner(path),
        Err(error) => Err(error),
    }
}

/// Fails unless the path is of a directory of this user's that nobody else can write to.
fn check_owner(path: &Path) -> std::io::Result<()> {
    let about = std::fs::symlink_metadata(path)?;
    let is_own = about.uid() == iotrace_recording::directory::effective_user();
    if !about.is_dir() || !is_own || about.mode() & 0o022 != 0 {
        return Err(std::io::Error::other(format!(
            "{} is no directory of the service's user that only this user can write to",
            path.display()
        )));
    }
    Ok(())
}

/// Checks the directory of the logs, if it is there; the start of the service makes it otherwise.
pub fn check(config: &config::Jobs) -> std::io::Result<()> {
    match config.directory.as_deref().map(check_owner) {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Says what to do where the directory cannot be made.
fn explained(error: std::io::Error, directory: &Path) -> std::io::Error {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    if !matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return error;
    }
    let text = format!(
        "if systemd runs the service, copy /usr/share/iotrace/systemd/job-logs.conf to \
         /etc/systemd/system/iotrace.service.d; cannot make {}: {error}",
        directory.display()
    );
    std::io::Error::new(error.kind(), text)
}

/// What the thread works on.
struct Thread {
    config: config::Jobs,
    run: Run,
    logs: HashMap<UnitId, Vec<Log>>,
    queue: Queue,
    counts: Arc<Counts>,
    /// When old logs were removed last.
    kept: Option<Instant>,
}

impl Thread {
    fn run(mut self, receiver: &Receiver<Message>) {
        if let Some(directory) = &self.config.directory {
            keep::give_to_users(directory);
            for log in keep::unexamined(directory) {
                self.queue.push(log);
            }
        }
        loop {
            let pause = match self.queue.is_busy() {
                true => EXAMINE_INTERVAL,
                false => LOOK_INTERVAL,
            };
            match receiver.recv_timeout(pause) {
                Ok(Message::Notes(notes)) => notes.into_iter().for_each(|note| self.take(note)),
                Ok(Message::End(now)) => {
                    for log in self.logs.values_mut().flatten() {
                        log.end(now);
                    }
                    self.write(true);
                    let end = Instant::now() + LAST_EXAMINATIONS;
                    self.queue.go_on(&self.counts);
                    while self.queue.is_busy() && Instant::now() < end {
                        std::thread::sleep(EXAMINE_INTERVAL);
                        self.queue.go_on(&self.counts);
                    }
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.write(false);
            self.queue.go_on(&self.counts);
            self.keep();
        }
    }

    fn take(&mut self, note: Note) {
        let unit = note.unit;
        let logs = self.logs.entry(unit).or_default();
        if note.begin.is_some() {
            logs.push(Log::new(&note, &self.run, &self.config));
        }
        if let Some(log) = logs.last_mut() {
            log.take(note);
        }
    }

    /// Writes what is due. `is_last`: the service ends.
    fn write(&mut self, is_last: bool) {
        let now = Instant::now();
        for log in self.logs.values_mut().flatten() {
            log.write(now, is_last, &self.counts);
        }
        for logs in self.logs.values_mut() {
            for log in logs.iter().filter_map(Log::written) {
                self.queue.push(log.to_owned());
            }
            for log in logs.iter_mut().filter(|log| log.is_done()) {
                log.tell();
            }
            logs.retain(|log| !log.is_done());
        }
        self.logs.retain(|_, logs| !logs.is_empty());
        let open = self.logs.values().map(Vec::len).sum::<usize>();
        self.counts.open.store(open as u64, Relaxed);
    }

    fn keep(&mut self) {
        let now = Instant::now();
        let is_due = |kept| now.saturating_duration_since(kept) >= KEEP_INTERVAL;
        let Some(directory) = self.config.directory.as_ref() else {
            return;
        };
        if self.kept.is_none_or(is_due) {
            self.kept = Some(now);
            let open = self.logs.values().flatten();
            let open = open.filter_map(|log| log.path().map(Path::to_owned));
            let removed = keep::remove_old(
                directory,
                &open.collect(),
                self.config.keep.0,
                self.config.max_size_mib << 20,
            );
            self.counts.removed.fetch_add(removed, Relaxed);
        }
    }
}

impl Writer {
    /// Ends the logs. A thread that does not answer is left. The last notes say whose the logs are: without them, none ends.
    fn end(self, notes: Vec<Note>, now: i64) {
        let end = Instant::now() + END_TIMEOUT;
        for mut message in [Message::Notes(notes), Message::End(now)] {
            while Instant::now() < end {
                match self.sender.try_send(message) {
                    Err(std::sync::mpsc::TrySendError::Full(back)) => message = back,
                    _ => break,
                }
                std::thread::sleep(LOOK_INTERVAL / 10);
            }
        }
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(LOOK_INTERVAL / 10);
        }
        if self.thread.is_finished() {
            let _ = self.thread.join();
        } else {
            ::log::warn!("job logs: the disk does not answer, their ends are not written");
        }
    }
}

#[cfg(test)]
mod tests;
