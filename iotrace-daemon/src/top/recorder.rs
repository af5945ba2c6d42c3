//! Records the selected process, by a child that runs `iotrace record`. The child's output goes to a log next to the
//! recording.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::{
        fs::OpenOptionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use iotrace_model::host;
use iotrace_report::{escape, units};

use super::Signals;

/// Between two looks whether the last recording has ended.
const END_INTERVAL: Duration = Duration::from_millis(50);
/// Most bytes of the end of a log that are read for its last line.
const MAX_SAID: usize = 4 << 10;

/// Begins and ends recordings, one at a time.
pub struct Recorder {
    /// Arguments that every recording is made with.
    options: Vec<OsString>,
    running: Option<Recording>,
    /// What is to be said while none runs.
    outcome: Option<String>,
    /// What has become of each that has ended.
    ended: Vec<String>,
}

struct Recording {
    child: Child,
    pid: u32,
    directory: PathBuf,
    log: PathBuf,
    started: Instant,
    is_ending: bool,
}

impl Recorder {
    /// One whose recordings are made with these options of `iotrace record`.
    pub fn new(options: Vec<OsString>) -> Self {
        Self {
            options,
            running: None,
            outcome: None,
            ended: Vec::new(),
        }
    }

    /// Lets a recording of process `pid` begin, or the one that runs end.
    pub fn toggle(&mut self, pid: Option<u32>) {
        self.poll();
        self.outcome = match (&mut self.running, pid) {
            (Some(recording), _) => {
                recording.end();
                None
            }
            (None, None) => Some("select the process to record: ↓ ↑ or a click".into()),
            (None, Some(pid)) => match Recording::begin(pid, &self.options) {
                Ok(recording) => {
                    self.running = Some(recording);
                    None
                }
                Err(error) => Some(format!("{pid} is not recorded: {error:#}")),
            },
        };
    }

    /// Finds out whether the recording has ended.
    pub fn poll(&mut self) {
        let Some(recording) = &mut self.running else {
            return;
        };
        let outcome = match recording.child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => recording.outcome(status),
            Err(error) => format!(
                "how the recording of {} ended is unknown: {error}",
                recording.pid
            ),
        };
        self.ended.push(outcome.clone());
        self.outcome = Some(outcome);
        self.running = None;
    }

    /// What is to be said on the screen.
    pub fn notice(&self) -> Option<String> {
        self.running
            .as_ref()
            .map(Recording::notice)
            .or_else(|| self.outcome.clone())
    }

    /// Ends the recording that runs, waits for it, and says on standard error what became of all. A signal gives it up.
    pub async fn finish(&mut self, signals: &mut Signals) {
        self.poll();
        if let Some(recording) = &mut self.running {
            recording.end();
            say(&recording.notice());
        }
        while let Some(recording) = &mut self.running {
            tokio::select! {
                () = tokio::time::sleep(END_INTERVAL) => {}
                () = signals.next() => {
                    // It fails only if the process has ended.
                    let _ = recording.child.kill();
                }
            }
            self.poll();
        }
        self.ended.iter().for_each(|outcome| say(outcome));
    }
}

impl Recording {
    fn begin(pid: u32, options: &[OsString]) -> anyhow::Result<Self> {
        let directory = host::directory(host::realtime()?, pid);
        let log = directory.with_extension("log");
        let said = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&log)
            .with_context(|| format!("cannot make {} here", log.display()))?;
        // The same file as this process, even if another one has its name by now.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("iotrace")
            .args(["record", "--pid", &pid.to_string(), "--output"])
            .arg(&directory)
            .args(options)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            // What the terminal sends to its processes is not for it.
            .process_group(0);
        // SAFETY: prctl(2) is async-signal-safe, and this option reads no memory.
        unsafe {
            command.pre_exec(|| {
                // It ends the recording also if this process is killed.
                match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().context("cannot start iotrace record")?;
        Ok(Self {
            child,
            pid,
            directory,
            log,
            started: Instant::now(),
            is_ending: false,
        })
    }

    fn end(&mut self) {
        self.is_ending = true;
        // SAFETY: a plain call; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGINT) };
    }

    fn notice(&self) -> String {
        let (pid, directory) = (self.pid, self.directory.display());
        match self.is_ending {
            true => format!("the recording of {pid} in {directory} is ending"),
            false => {
                let elapsed = units::duration(self.started.elapsed().as_nanos() as u64);
                format!("recording {pid} for {elapsed} into {directory}, r: end")
            }
        }
    }

    /// What became of it.
    fn outcome(&self, status: ExitStatus) -> String {
        let pid = self.pid;
        if status.success() {
            return format!("recorded {pid} into {}", self.directory.display());
        }
        let said = fs::read(&self.log).unwrap_or_default();
        let reason = match (last_line(&said), status.signal()) {
            (_, Some(signal)) => format!("signal {signal} ended the recorder"),
            (Some(line), None) => line,
            (None, None) => status.to_string(),
        };
        format!(
            "{pid} is not recorded: {reason}, see {}",
            self.log.display()
        )
    }
}

/// The last line of what a program said that is not empty.
fn last_line(said: &[u8]) -> Option<String> {
    let said = &said[said.len().saturating_sub(MAX_SAID)..];
    let mut lines = said.rsplit(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.is_empty())?;
    Some(escape(line.strip_prefix(b"iotrace: ").unwrap_or(line)))
}

/// On standard error, which may be a terminal that is gone.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "iotrace: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_last_line_of_what_was_said() {
        let said = b"warning\niotrace: no \x1b[2J service\n\n";
        assert_eq!(last_line(said).as_deref(), Some("no \\x1b[2J service"));
        assert_eq!(last_line(b"\n\n"), None);
    }

    #[test]
    fn nothing_is_recorded_without_a_selection() {
        let mut recorder = Recorder::new(Vec::new());
        recorder.toggle(None);
        assert!(recorder.notice().unwrap().contains("select"));
        assert!(recorder.ended.is_empty());
    }
}
