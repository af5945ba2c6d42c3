//! The traced program: made and held before its exec until the hooks are on, then let go.
//!
//! It gets a process group of its own, in the terminal's foreground, so that Ctrl-C reaches it and not iotrace. Ctrl-Z
//! reaches it, too, and iotrace stops with it: the shell waits for iotrace alone.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    path::Path,
    process::{Child, Command, ExitStatus},
    thread::JoinHandle,
};

use rustix::{
    process::{Pid, getpgrp},
    termios::{tcgetpgrp, tcsetpgrp},
};
use tokio::sync::mpsc;

use super::{interrupt::end_at_file_limit, user::User};

/// The program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot run {}: {source}{}", command.display(), hint(command, source))]
pub struct NotStarted {
    command: OsString,
    source: io::Error,
}

impl NotStarted {
    /// As a shell's: 127 where there is no such command, 126 where it cannot run.
    pub fn exit_code(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound {
            127
        } else {
            126
        }
    }
}

fn hint(command: &OsStr, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound if Path::new(command).exists() => {
            "\ninstall the interpreter that its first line names, or the loader of a program for another system: the file \
             itself is there"
        }
        io::ErrorKind::NotFound => "\nname a program in PATH, or give its path",
        io::ErrorKind::PermissionDenied => "\nthe file must be executable",
        _ => "",
    }
}

/// A program that waits before its exec.
pub struct Held {
    pid: u32,
    command: OsString,
    gate: io::PipeWriter,
    spawn: JoinHandle<io::Result<Child>>,
}

/// A program that runs.
pub struct Running {
    pid: u32,
    /// Each of its stops, and its end.
    statuses: mpsc::UnboundedReceiver<io::Result<ExitStatus>>,
    is_stopped: bool,
}

impl Held {
    /// Makes the process. It waits until [`Held::release`]; dropped instead, it ends without running anything.
    /// `stdout_to_stderr`: what it writes to its standard output goes to standard error.
    pub fn new(
        command: &[OsString],
        user: Option<User>,
        stdout_to_stderr: bool,
    ) -> io::Result<Self> {
        let (mut pid_reader, pid_writer) = io::pipe()?;
        let (gate_reader, gate) = io::pipe()?;
        let mut child = Command::new(&command[0]);
        child.args(&command[1..]).process_group(0);
        if stdout_to_stderr {
            child.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        }
        if let Some(user) = user {
            child.envs(user.environment.clone());
            // SAFETY: between fork and exec it makes system calls alone.
            unsafe { child.pre_exec(move || user.assume()) };
        }
        let (pid_fd, gate_fd) = (OwnedFd::from(pid_writer), OwnedFd::from(gate_reader));
        let parents = [pid_reader.as_raw_fd(), gate.as_raw_fd()];
        // SAFETY: between fork and exec only async-signal-safe calls are made: signal, close, getpid, write, read.
        unsafe { child.pre_exec(move || hold(parents, &pid_fd, &gate_fd)) };
        // `spawn` returns only after the exec, which waits: hence the thread.
        let spawn = std::thread::spawn(move || child.spawn());
        let mut pid = [0; 4];
        if pid_reader.read_exact(&mut pid).is_err() {
            return Err(match spawn.join() {
                Ok(Err(error)) => error,
                _ => io::Error::other("the process for the command was not made"),
            });
        }
        let pid = u32::from_ne_bytes(pid);
        Ok(Self {
            pid,
            command: command[0].clone(),
            gate,
            spawn,
        })
    }

    /// Its process id, which stays the same over the exec.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it go on to its exec.
    pub fn release(mut self) -> Result<Running, NotStarted> {
        let failed = |source| NotStarted {
            command: self.command.clone(),
            source,
        };
        give_terminal(self.pid);
        self.gate.write_all(b"!").map_err(failed)?;
        let spawned = self
            .spawn
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the spawning thread panicked")));
        spawned.map_err(|source| {
            take_terminal(self.pid);
            NotStarted {
                command: self.command.clone(),
                source,
            }
        })?;
        let (sender, statuses) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            loop {
                let status = next_status(self.pid);
                let has_stopped =
                    matches!(&status, Ok(status) if status.stopped_signal().is_some());
                // Nobody listens any more if iotrace ends before the program does.
                if sender.send(status).is_err() || !has_stopped {
                    return;
                }
            }
        });
        Ok(Running {
            pid: self.pid,
            statuses,
            is_stopped: false,
        })
    }
}

/// In the child: tells its pid, then waits for one byte. End of file instead means that iotrace gave up.
/// `parents` are its copies of the parent's ends: while it has them open itself, no end of file comes.
fn hold(parents: [RawFd; 2], pid: &OwnedFd, gate: &OwnedFd) -> io::Result<()> {
    end_at_file_limit();
    // SAFETY: nothing in this process owns the parent's ends; the buffers live on this stack.
    unsafe {
        for fd in parents {
            libc::close(fd);
        }
        let own = libc::getpid().to_ne_bytes();
        if libc::write(pid.as_raw_fd(), own.as_ptr().cast(), own.len()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut byte = 0_u8;
        loop {
            match libc::read(gate.as_raw_fd(), (&raw mut byte).cast(), 1) {
                1 => return Ok(()),
                0 => libc::_exit(127),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// Waits until a child stops or ends.
fn next_status(pid: u32) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: the status lives for the call.
        if unsafe { libc::waitpid(pid.cast_signed(), &raw mut status, libc::WUNTRACED) } >= 0 {
            return Ok(ExitStatus::from_raw(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

impl Running {
    /// Waits for its end, and takes the terminal back. Stops with it meanwhile.
    pub async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            let status = self
                .statuses
                .recv()
                .await
                .unwrap_or_else(|| Err(io::Error::other("the waiting thread panicked")));
            let stopped_by = status.as_ref().ok().and_then(ExitStatus::stopped_signal);
            self.is_stopped = stopped_by.is_some();
            match stopped_by {
                None => {
                    take_terminal(self.pid);
                    return status;
                }
                // It wanted the terminal, and may have it by now.
                Some(libc::SIGTTIN | libc::SIGTTOU) => self.look(),
                Some(_) => self.stop_too(),
            }
        }
    }

    /// Stops iotrace's own process group, as Ctrl-Z would without the program's, until the shell lets it go on. Only where the
    /// program had the terminal: else it was stopped by somebody who will let it go on, too.
    fn stop_too(&mut self) {
        if !take_terminal(self.pid) {
            return;
        }
        // SAFETY: a plain call. It returns when the shell lets iotrace go on, or at once where no shell could: there the
        // kernel ignores the signal.
        unsafe { libc::kill(0, libc::SIGTSTP) };
        give_terminal(self.pid);
        self.go_on();
    }

    /// Gives it the terminal if the shell has put iotrace into the foreground meanwhile.
    pub fn look(&mut self) {
        if give_terminal(self.pid) && self.is_stopped {
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        self.is_stopped = false;
        self.signal(libc::SIGCONT);
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the group's leader has not been waited for, or the signal finds no group, which is no harm.
        unsafe { libc::kill(-(self.pid as i32), signal) };
    }
}

/// Exit code of a status: 128 + the signal that ended the program.
pub fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Passes the terminal's foreground from one process group to another, and tells whether that has it then. Does nothing where
/// `from` does not have it, or standard input is not the terminal: who runs in the background must not take the terminal
/// from the shell.
fn pass_foreground(from: Option<Pid>, to: Option<Pid>) -> bool {
    let (Some(from), Some(to)) = (from, to) else {
        return false;
    };
    let stdin = io::stdin();
    match tcgetpgrp(&stdin) {
        Ok(has) if has == from => {}
        has => return has == Ok(to),
    }
    // A group that is not in front would be stopped for this: hence the block.
    // SAFETY: the signal set is initialized by sigemptyset before use, and the old mask is put back.
    unsafe {
        let mut block: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut block);
        libc::sigaddset(&raw mut block, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const block, &raw mut old);
        let passed = tcsetpgrp(&stdin, to);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
        passed.is_ok()
    }
}

/// Gives the terminal to the program's process group, if iotrace's has it.
fn give_terminal(pid: u32) -> bool {
    pass_foreground(Some(getpgrp()), Pid::from_raw(pid.cast_signed()))
}

/// Takes the terminal back, if the program's process group has it.
fn take_terminal(pid: u32) -> bool {
    pass_foreground(Pid::from_raw(pid.cast_signed()), Some(getpgrp()))
}
