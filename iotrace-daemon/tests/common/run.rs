//! Runs iotrace and takes in its JSON report.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    fs,
    io::{self, Read as _},
    ops::{Deref, DerefMut},
    os::unix::{
        fs::{MetadataExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use super::compare;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A call of `iotrace record` that reports as JSON, into a recording of its own.
pub struct Iotrace {
    command: Command,
    /// Values of `--flush` and `--map-entries`; none: iotrace's own.
    flush: Option<String>,
    entries: Option<String>,
    recording: PathBuf,
    dir: TempDir,
}

/// The report's file in a run's directory.
const REPORT: &str = "report.json";

/// A run of iotrace that has ended.
pub struct Finished {
    pub status: ExitStatus,
    /// What the traced program wrote to standard output, and after it the report.
    pub stdout: String,
    pub stderr: String,
    pub recording: PathBuf,
    /// Keeps the recording.
    dir: TempDir,
}

/// A run of iotrace that goes on; dropped before its end, it is killed with all that it started.
pub struct Running {
    pub child: Recorder,
    recording: PathBuf,
    dir: TempDir,
}

impl Iotrace {
    /// `iotrace record` with small kernel maps, so that many tests can run at one time, and a flush that never comes.
    pub fn record() -> Self {
        Self::bare().entries("4096").flush("1h")
    }

    /// `iotrace record` with its own defaults.
    pub fn bare() -> Self {
        super::need_root();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let recording = dir.path().join("recording");
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
        take_interrupts(&mut command);
        command.arg("record");
        command.arg("--report").arg(dir.path().join(REPORT));
        command.stdin(Stdio::null());
        Self {
            command,
            flush: None,
            entries: None,
            recording,
            dir,
        }
    }

    /// `iotrace record` by a user without privileges, whose home is a directory of their own, through the service at
    /// `socket`.
    pub fn of_user(program: &Path, uid: u32, socket: &Path) -> Self {
        super::need_root();
        let dir = tempfile::tempdir().expect("a temporary directory");
        chown(dir.path(), Some(uid), Some(uid)).expect("the user's directory");
        let recording = dir.path().join("recording");
        let mut command = Command::new(program);
        take_interrupts(&mut command);
        command.arg("record");
        command.arg("--report").arg(dir.path().join(REPORT));
        command.arg("--socket").arg(socket);
        command.stdin(Stdio::null()).current_dir(dir.path());
        command.uid(uid).gid(uid);
        Self {
            command,
            flush: Some("1h".into()),
            entries: None,
            recording,
            dir,
        }
    }

    /// The directory that the recording is made in.
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Records into this directory, which stays.
    pub fn recording(mut self, recording: &Path) -> Self {
        self.recording = recording.into();
        self
    }

    pub fn flush(mut self, flush: &str) -> Self {
        self.flush = Some(flush.into());
        self
    }

    pub fn entries(mut self, entries: &str) -> Self {
        self.entries = Some(entries.into());
        self
    }

    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub fn hook(self, hook: &str) -> Self {
        if hook == "tracepoint" {
            super::need_tracefs();
        }
        self.args(["--hook", hook])
    }

    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    /// In a mount namespace where the kernel shows no type information.
    pub fn without_btf(mut self) -> Self {
        let hide = || {
            let mount = |at: &CStr, kind: Option<&CStr>, flags| {
                // SAFETY: strings that live for the call, and null pointers where none are needed.
                let result = unsafe {
                    libc::mount(
                        c"none".as_ptr(),
                        at.as_ptr(),
                        kind.map_or(std::ptr::null(), CStr::as_ptr),
                        flags,
                        std::ptr::null(),
                    )
                };
                (result == 0)
                    .then_some(())
                    .ok_or_else(io::Error::last_os_error)
            };
            // SAFETY: a plain call.
            if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
                return Err(io::Error::last_os_error());
            }
            mount(c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
            mount(c"/sys/kernel/btf", Some(c"tmpfs"), 0)
        };
        // SAFETY: between fork and exec it makes system calls alone.
        unsafe { self.command.pre_exec(hide) };
        self
    }

    /// On a host of this name that has no mounts but its root and the kernel's, with nothing in its environment.
    pub fn on_host(mut self, name: &'static CStr) -> Self {
        self.command.env_clear().env("PATH", "/usr/bin:/bin");
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let is_other = |point: &&str| {
            let kernels = ["/proc", "/sys", "/dev"].iter();
            *point != "/" && !kernels.clone().any(|at| point.starts_with(at))
        };
        let others: Vec<CString> = points
            .filter(is_other)
            .filter_map(|point| CString::new(point).ok())
            .collect();
        let leave = move || {
            // SAFETY: plain calls, with strings that live for the call and null pointers where none are needed.
            let is_left = unsafe {
                libc::unshare(libc::CLONE_NEWUTS | libc::CLONE_NEWNS) == 0
                    && libc::sethostname(name.as_ptr(), name.count_bytes()) == 0
                    && libc::mount(
                        std::ptr::null(),
                        c"/".as_ptr(),
                        std::ptr::null(),
                        libc::MS_REC | libc::MS_PRIVATE,
                        std::ptr::null(),
                    ) == 0
            };
            for point in &others {
                // SAFETY: a string; one below another is gone with it.
                unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) };
            }
            is_left.then_some(()).ok_or_else(io::Error::last_os_error)
        };
        // SAFETY: between fork and exec it makes system calls alone.
        unsafe { self.command.pre_exec(leave) };
        self
    }

    pub fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// In a process group of its own, which a test can signal as a terminal would.
    pub fn own_group(mut self) -> Self {
        self.command.process_group(0);
        self
    }

    /// As nohup starts it.
    pub fn ignoring_hangups(mut self) -> Self {
        let ignore = || {
            // SAFETY: a plain call.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls alone.
        unsafe { self.command.pre_exec(ignore) };
        self
    }

    /// Traces the counting program.
    pub fn workload<S: Into<OsString>>(self, args: impl IntoIterator<Item = S>) -> Finished {
        let args = args.into_iter().map(Into::into);
        let all: Vec<OsString> = [super::workload().into_os_string()]
            .into_iter()
            .chain(args)
            .collect();
        self.command(all)
    }

    /// Traces a command to its end.
    pub fn command<S: AsRef<OsStr>>(self, command: impl IntoIterator<Item = S>) -> Finished {
        let command: Vec<OsString> = command.into_iter().map(|arg| arg.as_ref().into()).collect();
        self.start_command(command).wait()
    }

    /// Runs iotrace to its end.
    pub fn run(self) -> Finished {
        self.start().wait()
    }

    /// Starts it on a command.
    pub fn start_command<S: AsRef<OsStr>>(self, command: impl IntoIterator<Item = S>) -> Running {
        let mut all = vec![OsString::from("--")];
        all.extend(command.into_iter().map(|arg| arg.as_ref().into()));
        self.launch(&all)
    }

    /// Starts it.
    pub fn start(self) -> Running {
        self.launch(&[])
    }

    fn launch(mut self, command: &[OsString]) -> Running {
        for (option, value) in [("--flush", &self.flush), ("--map-entries", &self.entries)] {
            if let Some(value) = value {
                self.command.args([option, value]);
            }
        }
        self.command.arg("--output").arg(&self.recording);
        self.command.args(command);
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.command.spawn().expect("iotrace starts");
        Running {
            child: Recorder(child),
            recording: self.recording,
            dir: self.dir,
        }
    }
}

/// The process of a run: a test that fails must not leave a busy program beside those that come after it.
pub struct Recorder(Child);

impl Deref for Recorder {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Recorder {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

/// A process that is killed when the test ends.
pub struct Background(pub Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.try_wait(), Ok(Some(_))) {
            return;
        }
        children(self.id()).for_each(kill);
        let _ = self.kill();
        let _ = self.wait();
    }
}

/// Processes that this one started and that have not ended.
fn children(parent: u32) -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").expect("the processes");
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(move |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line.is_some_and(|of| of.trim().parse() == Ok(parent))
    })
}

fn kill(pid: u32) {
    // SAFETY: a plain call.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

impl Running {
    /// Waits until it records: until it has written to its recording a second time, which `--flush` makes it do soon.
    pub fn until_recording(&mut self) {
        let meta = self.recording.join("meta.json");
        let inode = || fs::metadata(&meta).map(|meta| meta.ino()).ok();
        let started = Instant::now();
        let mut first = None;
        loop {
            let now = inode();
            first = first.or(now);
            if now != first {
                return;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let mut text = String::new();
                let _ = self
                    .child
                    .stderr
                    .take()
                    .map(|mut err| err.read_to_string(&mut text));
                panic!("iotrace ended before it recorded: {status}\n{text}");
            }
            assert!(
                started.elapsed() < PATIENCE,
                "iotrace does not begin to record"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn recording(&self) -> &Path {
        &self.recording
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Kills the recorder and what it traces: it has no time to see that that is gone.
    pub fn kill_all(&self) {
        let traced: Vec<u32> = children(self.child.id()).collect();
        self.signal(libc::SIGKILL);
        traced.into_iter().for_each(kill);
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Finished {
        let (mut stdout, mut stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.as_mut().map(|err| err.read_to_end(&mut text));
            text
        });
        let report = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stdout.as_mut().map(|out| out.read_to_end(&mut text));
            text
        });
        let status = wait_for(&mut self.child, PATIENCE);
        let string = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut output = report.join().expect("the reader");
        output.extend(fs::read(self.dir.path().join(REPORT)).unwrap_or_default());
        Finished {
            status,
            stdout: string(output),
            stderr: string(errors.join().expect("the reader")),
            recording: self.recording,
            dir: self.dir,
        }
    }
}

/// Lets a command be interrupted: a shell starts what it runs in the background with the interrupt ignored, and nohup with
/// hangups, and what that starts inherits it.
pub fn take_interrupts(command: &mut Command) {
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        })
    };
}

/// Waits for a child's end, and kills one that takes too long.
pub fn wait_for(child: &mut Child, patience: Duration) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("wait") {
            return status;
        }
        if started.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            panic!("process {} did not end within {patience:?}", child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Finished {
    /// Exit code; fails where a signal ended it.
    #[track_caller]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| {
            panic!(
                "iotrace was ended by {}\n{}{}",
                self.status, self.stdout, self.stderr
            )
        })
    }

    /// Fails unless iotrace ended with `code`, said each of `words` on standard error, and reported nothing.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "standard error: {}", self.stderr);
        assert_eq!(self.stdout, "", "a report in spite of the error");
        self.says(words);
    }

    /// Fails unless standard error has each of `words`.
    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        for word in words {
            assert!(
                self.stderr.contains(word),
                "standard error lacks {word:?}: {}",
                self.stderr
            );
        }
    }

    /// The report, checked for what must hold of each: nothing lost, and sums that agree.
    #[track_caller]
    pub fn report(&self) -> Value {
        let report = self.report_with_losses();
        compare::nothing_lost(&report);
        report
    }

    /// As [`Self::report`], where something may be lost.
    #[track_caller]
    pub fn report_with_losses(&self) -> Value {
        let (report, rest) = self.first_object();
        assert_eq!(
            rest.trim(),
            "",
            "something stands behind the report\n{}",
            self.stderr
        );
        compare::conserved(&report);
        report
    }

    /// The report, and what the traced program wrote to the same standard output before it.
    #[track_caller]
    pub fn truth_and_report(&self) -> (Value, Value) {
        let (truth, rest) = self.first_object();
        let report = serde_json::from_str(rest.trim()).unwrap_or_else(|error| {
            panic!(
                "no report behind the program's output: {error}\n{rest}\n{}",
                self.stderr
            )
        });
        compare::conserved(&report);
        (truth, report)
    }

    fn first_object(&self) -> (Value, &str) {
        let mut values = serde_json::Deserializer::from_str(&self.stdout).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let end = values.byte_offset();
                (value, &self.stdout[end..])
            }
            other => panic!(
                "no JSON ({other:?}), {}: {}\n{}",
                self.status, self.stdout, self.stderr
            ),
        }
    }
}
