//! What is made of a log that has ended: its verdict and findings, and the formats next to it.
//!
//! Analysing a log takes memory and time as its job decides, and reads what users can write to. So a child process does it, as
//! the log's user and without privileges, one at a time and limited.

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
use rustix::process::{Resource, nice};

use super::Counts;
use crate::{config::JobFormat, front::confine};

/// The hidden subcommand that examines one log.
pub const COMMAND: &str = "examine-log";
/// How long one log may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Logs that wait. Beyond, a log stays as it is until the next start.
const MAX_WAITING: usize = 10_000;
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
    waiting: VecDeque<PathBuf>,
    current: Option<Current>,
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
            current: None,
        }
    }

    /// Takes a log that has ended.
    pub fn push(&mut self, log: PathBuf) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(log);
        }
    }

    /// Whether a child runs.
    pub fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Takes what has ended, and begins the next one.
    pub(super) fn go_on(&mut self, counts: &Counts) {
        loop {
            match self.current.as_mut().map(Current::look) {
                Some(None) => return,
                Some(Some(outcome)) => {
                    if let (Some(current), Err(why)) = (self.current.take(), outcome) {
                        failed(&current.log, &why, counts);
                    }
                }
                None => {}
            }
            let Some(log) = self.waiting.pop_front() else {
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
            let _ = current.child.wait();
            current.discard();
        }
    }
}

fn failed(log: &Path, why: &str, counts: &Counts) {
    counts.not_examined.fetch_add(1, Relaxed);
    let why = why.trim().replace('\n', "; ");
    log::warn!("job logs: {} is not examined: {why}", log.display());
}

impl Current {
    /// Why it failed, once it has ended.
    fn look(&mut self) -> Option<Result<(), String>> {
        let status = match self.child.try_wait() {
            Ok(None) if self.begun.elapsed() < TIMEOUT => return None,
            Ok(None) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                self.discard();
                return Some(Err(format!("it takes more than {TIMEOUT:?}")));
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
