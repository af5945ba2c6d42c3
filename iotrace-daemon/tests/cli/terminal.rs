//! `iotrace record` as a job of a shell in a terminal.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::Value;

use crate::common::{self, compare, directory, run::Background, text};

const PATIENCE: Duration = Duration::from_secs(120);
/// Ctrl-Z.
const SUSPEND: &str = "\x1a";

/// A shell with job control in a terminal of its own, which is closed when the test ends.
struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    _shell: Background,
}

impl Terminal {
    /// Runs a script with `record` as its first argument: a command line up to the program's.
    fn run(script: &str, dir: &Path) -> Self {
        common::need_root();
        let (mut master, mut slave) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: the descriptors live for the call, and null pointers ask for nothing.
        let opened = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                none,
                none.cast(),
                none.cast(),
            )
        };
        assert_eq!(opened, 0, "{}", io::Error::last_os_error());
        // SAFETY: openpty made them, and nothing else owns them.
        let (keyboard, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        // Whoever else had the keyboard would keep the terminal open.
        for end in [keyboard.as_fd(), slave.as_fd()] {
            fcntl_setfd(end, FdFlags::CLOEXEC).unwrap();
        }
        let stream = || Stdio::from(slave.try_clone().unwrap());
        let record = format!(
            "record() {{ {} record --standalone --map-entries 4096 -o recording --report report.json -- \"$@\"; }}; set -m; ",
            env!("CARGO_BIN_EXE_iotrace")
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &(record + script)]).current_dir(dir);
        shell.stdin(stream()).stdout(stream()).stderr(stream());
        let lead = || {
            // SAFETY: plain calls.
            let leads = unsafe {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                libc::setsid() > 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0
            };
            leads.then_some(()).ok_or_else(io::Error::last_os_error)
        };
        // SAFETY: between fork and exec it makes system calls alone.
        unsafe { shell.pre_exec(lead) };
        let child = shell.spawn().expect("sh");
        let mut master = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once nobody has the terminal open.
            while let Ok(count @ 1..) = master.read(&mut bytes) {
                let _ = sender.send(bytes[..count].to_vec());
            }
        });
        Self {
            keyboard,
            screen,
            seen: String::new(),
            _shell: Background(child),
        }
    }

    fn write(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown this.
    #[track_caller]
    fn until(&mut self, words: &str) {
        while !self.seen.contains(words) {
            match self.screen.recv_timeout(PATIENCE) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("no {words:?} ({error}):\n{}", self.seen),
            }
        }
    }
}

/// The writes to a file that a report has.
#[track_caller]
fn writes(dir: &Path, file: &str) -> u64 {
    let report = fs::read(dir.join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    compare::nothing_lost(&report);
    compare::conserved(&report);
    let rows = report["files"].as_array().unwrap();
    let row = rows.iter().find(|row| text(row, "path").ends_with(file));
    let row = row.unwrap_or_else(|| panic!("no {file}: {rows:#?}"));
    row["writes"].as_u64().unwrap()
}

#[test]
fn the_shell_keeps_its_terminal_while_record_runs_in_the_background() {
    let (_keep, dir) = directory();
    let program = "sh -c 'echo RUNS; read word; echo \"got $word\"'";
    let script =
        format!("record {program} & read line; echo \"line: $line\"; fg; echo \"ended: $?\"");
    let mut terminal = Terminal::run(&script, &dir);
    terminal.until("RUNS");
    terminal.write("one\n");
    terminal.until("line: one");
    // In the foreground the program may read.
    terminal.write("two\n");
    terminal.until("got two");
    terminal.until("ended: 0");
}

#[test]
fn record_stops_with_the_program_and_goes_on_with_it() {
    const WRITE: &str = "dd if=/dev/zero bs=1 count=1000 status=none";
    let goes_on = [
        // `read` needs the terminal.
        ("fg", "echo RUNS; read word"),
        // Not `sleep` alone: what vforks cannot stop until its child has begun its program, and that stops before.
        ("bg; wait", "sleep 1 & echo RUNS; wait"),
        ("bg; sleep 1; fg", "echo RUNS; read word"),
    ];
    for (goes_on, between) in goes_on {
        let (_keep, dir) = directory();
        let program = format!("sh -c '{WRITE} of=before; {between}; {WRITE} of=after; exit 7'");
        let script =
            format!("record {program}; echo \"stopped: $?\"; {goes_on}; echo \"ended: $?\"");
        let mut terminal = Terminal::run(&script, &dir);
        terminal.until("RUNS");
        terminal.write(SUSPEND);
        terminal.until(&format!("stopped: {}", 128 + libc::SIGTSTP));
        terminal.write("word\n");
        terminal.until("ended: ");
        if goes_on.ends_with("fg") {
            terminal.until("ended: 7");
        }
        assert_eq!(
            (writes(&dir, "/before"), writes(&dir, "/after")),
            (1000, 1000)
        );
    }
}

#[test]
fn record_stops_more_than_once() {
    let (_keep, dir) = directory();
    let script = "record sh -c 'echo RUNS; read a; echo \"a $a\"; read b; echo \"b $b\"'; echo \"first: $?\"; fg; \
                  echo \"second: $?\"; fg; echo \"ended: $?\"";
    let mut terminal = Terminal::run(script, &dir);
    terminal.until("RUNS");
    terminal.write(SUSPEND);
    terminal.until("first: 148");
    terminal.write("one\n");
    terminal.until("a one");
    terminal.write(SUSPEND);
    terminal.until("second: 148");
    terminal.write("two\n");
    terminal.until("b two");
    terminal.until("ended: 0");
}
