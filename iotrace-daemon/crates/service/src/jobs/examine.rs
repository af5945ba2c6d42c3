//! What is made of a log that has ended: its verdict and findings, and the formats next to it.
//!
//! Analysing a log takes memory and time as its job decides, and reads what users can write to. So a child process does it, as
//! the log's user and without privileges, one at a time and limited. Its user may stop it or slow it down: that costs no other user
//! more than one [`TIMEOUT`].

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use iotrace_recording::directory::effective_user;
use rustix::process::{Pid, Resource, WaitId, WaitIdOptions, nice, waitid};

use super::Counts;
use crate::{config::JobFormat, front::confine};

/// The hidden subcommand that examines one log.
pub const COMMAND: &str = "examine-log";
/// How long one log may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Logs that wait. Beyond, a log stays as it is until the next start.
const MAX_WAITING: usize = 10_000;
/// Children that do not end although they were killed, at most: as many may wait for a filesystem that does not answer.
const MAX_KILLED: usize = 4;
/// Limits of the child: no core; CPU time, seconds; memory that it may write to, stacks excluded, bytes; size of a file, bytes.
const LIMITS: [(Resource, u64); 4] = [
    (Resource::Core, 0),
    (Resource::Cpu, 240),
    (Resource::Data, 512 << 20),
    (Resource::Fsize, 1 << 30),
];
/// Memory that a recording may take in the child; the rest is kept on disk.
pub const MEMORY_BYTES: u64 = 128 << 20;
/// Most that is said of a failure, bytes.
const MAX_SAID: u64 = 1000;
/// How the names of unfinished files end.
const UNFINISHED: &str = "unfinished";

/// The files of formats next to a log that may be there, finished or not.
pub fn format_files(log: &Path) -> Vec<PathBuf> {
    let both = |format: JobFormat| [log.with_extension(format.name()), unfinished(log, format)];
    JobFormat::FILES.into_iter().flat_map(both).collect()
}

fn unfinished(log: &Path, format: JobFormat) -> PathBuf {
    log.with_extension(format!("{}.{UNFINISHED}", format.name()))
}

/// The logs that are to be examined.
pub struct Queue {
    formats: Vec<JobFormat>,
    rules: Option<PathBuf>,
    /// By their users.
    waiting: VecDeque<(u32, PathBuf)>,
    /// Whose log was examined last.
    last_user: Option<u32>,
    current: Option<Current>,
    /// Children that were killed and have not ended yet.
    killed: Vec<Child>,
}

/// The log that is being examined.
struct Current {
    log: PathBuf,
    user: u32,
    formats: Vec<JobFormat>,
    child: Child,
    begun: Instant,
}

impl Queue {
    pub fn new(formats: &[JobFormat], rules: Option<PathBuf>) -> Self {
        Self {
            formats: formats.to_vec(),
            rules,
            waiting: VecDeque::new(),
            last_user: None,
            current: None,
            killed: Vec::new(),
        }
    }

    /// Takes a log that has ended.
    pub fn push(&mut self, log: PathBuf) {
        if self.waiting.len() < MAX_WAITING
            && let Ok(about) = fs::symlink_metadata(&log)
        {
            self.waiting.push_back((about.uid(), log));
        }
    }

    /// The oldest log of another user than the last one's, if there is one: a user's logs hold up those of others one by one.
    fn next(&mut self) -> Option<PathBuf> {
        let is_others = |(user, _): &(u32, PathBuf)| Some(*user) != self.last_user;
        let index = self.waiting.iter().position(is_others).unwrap_or(0);
        let (user, log) = self.waiting.remove(index)?;
        self.last_user = Some(user);
        Some(log)
    }

    /// Whether a child runs.
    pub fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Takes what has ended, and begins the next one.
    pub(super) fn go_on(&mut self, counts: &Counts) {
        self.killed
            .retain_mut(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
        loop {
            match self.current.as_mut().map(Current::look) {
                Some(None) => return,
                Some(Some(outcome)) => {
                    if let (Some(current), Err(why)) = (self.current.take(), outcome) {
                        failed(&current.log, &why, counts);
                        self.killed.push(current.child);
                    }
                }
                None => {}
            }
            if self.killed.len() > MAX_KILLED {
                return;
            }
            let Some(log) = self.next() else {
                return;
            };
            match self.start(log.clone()) {
                Ok(current) => self.current = Some(current),
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !log.exists() => {}
                Err(error) => failed(&log, &error.to_string(), counts),
            }
        }
    }

    fn start(&self, log: PathBuf) -> io::Result<Current> {
        let user = fs::symlink_metadata(&log)?.uid();
        let formats = self.formats.iter().copied();
        let formats: Vec<JobFormat> = formats
            .filter(|format| JobFormat::FILES.contains(format))
            .collect();
        let mut command = Command::new("/proc/self/exe");
        command.arg0("iotrace").arg(COMMAND);
        if let Some(rules) = &self.rules {
            command.arg("--rules").arg(rules);
        }
        if !self.formats.contains(&JobFormat::Recording) {
            command.arg("--no-recording");
        }
        for format in &formats {
            let path = unfinished(&log, *format);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
            command.arg("--format").arg(format.name());
        }
        let child = command
            .arg("--user")
            .arg(user.to_string())
            .arg(&log)
            .env_clear()
            .env("RUST_LOG", "error")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Current {
            log,
            user,
            formats,
            child,
            begun: Instant::now(),
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(current) = &mut self.current {
            // It may have ended.
            let _ = current.child.kill();
            current.discard();
        }
    }
}

fn failed(log: &Path, why: &str, counts: &Counts) {
    counts.not_examined.fetch_add(1, Relaxed);
    let why = why.trim().replace('\n', "; ");
    log::warn!("job logs: {} is not examined: {why}", log.display());
}

/// Whether a signal has stopped a child, as that of any process of its user can.
fn is_stopped(child: &Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), options).is_ok_and(|status| status.is_some())
}

impl Current {
    /// Why it failed, once it has ended.
    fn look(&mut self) -> Option<Result<(), String>> {
        let status = match self.child.try_wait() {
            Ok(None) if is_stopped(&self.child) => {
                return Some(Err(self.give_up("it was stopped by a signal".into())));
            }
            Ok(None) if self.begun.elapsed() < TIMEOUT => return None,
            Ok(None) => {
                let why = format!("it takes more than {TIMEOUT:?}");
                return Some(Err(self.give_up(why)));
            }
            Ok(Some(status)) => status,
            Err(error) => return Some(Err(error.to_string())),
        };
        let (mut made, mut said) = (String::new(), String::new());
        // What a child says fits in the pipes.
        if let Some(out) = self.child.stdout.take() {
            let _ = out.take(MAX_SAID).read_to_string(&mut made);
        }
        if let Some(out) = self.child.stderr.take() {
            let _ = out.take(MAX_SAID).read_to_string(&mut said);
        }
        for format in &self.formats {
            if made.lines().any(|line| line == format.name())
                && let Err(error) = self.finish(*format)
            {
                said.push_str(&format!("{}: {error}", format.name()));
            }
        }
        self.discard();
        match status.success() && said.is_empty() {
            true => Some(Ok(())),
            false if said.is_empty() => Some(Err(status.to_string())),
            false => Some(Err(said)),
        }
    }

    /// Kills the child, which nothing waits for, and says why.
    fn give_up(&mut self, mut why: String) -> String {
        if let Err(error) = self.child.kill() {
            why.push_str(&format!("; it cannot be killed: {error}"));
        }
        self.discard();
        why
    }

    fn finish(&self, format: JobFormat) -> io::Result<()> {
        let path = unfinished(&self.log, format);
        let is_users = fs::symlink_metadata(&path)?.uid() == self.user;
        if !is_users {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        fs::rename(path, self.log.with_extension(format.name()))
    }

    /// Removes what is unfinished.
    fn discard(&self) {
        for format in &self.formats {
            // Most are not there.
            let _ = fs::remove_file(unfinished(&self.log, *format));
        }
    }
}

/// In the child: makes the file of a format, which is the log's user's.
pub fn create(log: &Path, format: JobFormat, user: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(unfinished(log, format))?;
    if effective_user() != user {
        fchown(&file, Some(user), None)?;
    }
    Ok(file)
}

/// In the child: becomes the log's user, without privileges, limited and of low priority.
pub fn confine(user: u32) -> io::Result<()> {
    // The first to go where memory is short.
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "1000") {
        log::debug!("it is not the first to go where memory is short: {error}");
    }
    nice(19)?;
    confine::become_user(user, &LIMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that examines a log of user 1.
    fn current(log: &Path) -> Current {
        Current {
            log: log.into(),
            user: 1,
            formats: Vec::new(),
            child: Command::new("sleep").arg("600").spawn().unwrap(),
            begun: Instant::now(),
        }
    }

    #[test]
    fn a_child_that_its_user_stops_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut queue = Queue::new(&[], None);
        queue.current = Some(current(directory.path()));
        let counts = Counts::default();
        queue.go_on(&counts);
        assert!(queue.is_busy());
        let child = &queue.current.as_ref().unwrap().child;
        rustix::process::kill_process(Pid::from_child(child), rustix::process::Signal::STOP)
            .unwrap();
        let begun = Instant::now();
        while queue.is_busy() {
            assert!(begun.elapsed() < TIMEOUT / 10);
            queue.go_on(&counts);
        }
        assert_eq!(counts.state().not_examined, 1);
        while !queue.killed.is_empty() {
            assert!(begun.elapsed() < TIMEOUT / 10);
            queue.go_on(&counts);
        }
    }

    #[test]
    fn users_take_turns() {
        let mut queue = Queue::new(&[], None);
        for (user, log) in [(1, "a"), (1, "b"), (2, "c"), (1, "d"), (2, "e")] {
            queue.waiting.push_back((user, log.into()));
        }
        let turns: Vec<PathBuf> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(turns, ["a", "c", "b", "e", "d"].map(PathBuf::from));
    }
}
