//! `iotrace top` in a real terminal of 80 columns and 24 lines: tmux's.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::service::{Process, Service, USER};
use crate::common::{self, turn};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(100);

/// A terminal, which ends with it.
struct Terminal {
    tmux: PathBuf,
    _dir: TempDir,
    socket: PathBuf,
    uid: u32,
}

impl Terminal {
    /// One in which `command` runs as `uid`.
    fn new(uid: u32, service: &Service, command: &[&str]) -> Self {
        let dir = service.home(uid);
        let terminal = Self {
            tmux: common::tool("tmux"),
            socket: dir.path().join("tmux"),
            _dir: dir,
            uid,
        };
        let mut all = vec![
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
        ];
        all.extend(command);
        terminal.tmux(&all);
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = Command::new(&self.tmux)
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .stdin(Stdio::null())
            .uid(self.uid)
            .gid(self.uid)
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Presses the left button of the mouse at a cell, counted from 0, as a terminal sends it.
    fn click(&self, x: usize, y: usize) {
        let sent = format!("\x1b[<0;{};{}M", x + 1, y + 1);
        self.tmux(&["send-keys", "-l", &sent]);
    }

    /// Whether what runs in it has taken the mouse.
    fn has_mouse(&self) -> bool {
        let flag = self.tmux(&["display-message", "-p", "#{mouse_any_flag}"]);
        flag.trim() == "1"
    }

    /// Waits for a screen that is as wanted.
    #[track_caller]
    fn until(&self, what: &str, is_it: impl Fn(&[&str]) -> bool) -> String {
        let started = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is_it(&screen.lines().collect::<Vec<_>>()) {
                return screen;
            }
            assert!(started.elapsed() < PATIENCE, "no {what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until what runs in it has ended.
    #[track_caller]
    fn until_ended(&self) {
        let started = Instant::now();
        while !self.tmux(&["list-panes"]).is_empty() {
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn has(lines: &[&str], words: &[&str]) -> bool {
    lines
        .iter()
        .any(|line| words.iter().all(|word| line.contains(word)))
}

#[test]
fn shows_a_users_processes_and_files_by_phase() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    // So few processes and such large files that both phases stand above everything else, by the time that they take.
    let script = "mkdir dataset checkpoints; head -c 10000000 /dev/zero > dataset/train-00000.tfrecord; \
                  while :; do cat dataset/train-00000.tfrecord > checkpoints/model-final.ckpt; sleep 0.5; done";
    let busy = Process::shell(USER, home.path(), script);
    let (iotrace, socket) = (
        service.iotrace.to_str().unwrap(),
        service.socket.to_str().unwrap(),
    );
    let terminal = Terminal::new(USER, &service, &[iotrace, "top", "--socket", socket]);
    let screen = terminal.until("processes", |lines| {
        has(lines, &["training"]) && has(lines, &["cat dataset"])
    });
    assert!(
        screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    assert!(screen.starts_with("iotrace top: processes"), "{screen}");
    assert!(
        !screen.contains("iotrace daemon"),
        "another user's:\n{screen}"
    );
    terminal.press("p");
    terminal.until("phases", |lines| has(lines, &["training", "cat dataset"]));
    terminal.press("?");
    terminal.until("help", |lines| has(lines, &["? ", "any key closes"]));
    terminal.press("Tab");
    terminal.until("no help", |lines| {
        lines[0].starts_with("iotrace top: processes by phase") && !has(lines, &["any key closes"])
    });
    terminal.press("Tab");
    terminal.until("files", |lines| {
        has(lines, &["checkpoint", "model-final.ckpt"])
            && has(lines, &["training", "00000.tfrecord"])
    });
    for key in ["/", "t", "f", "r", "e", "c", "Enter"] {
        terminal.press(key);
    }
    terminal.until("filter", |lines| {
        lines[0].contains("with \"tfrec\"")
            && has(lines, &["00000.tfrecord"])
            && !has(lines, &["model-final"])
    });
    terminal.press("t");
    terminal.until("totals", |lines| lines[0].contains("totals of"));
    terminal.press("s");
    terminal.until("sorted by name", |lines| has(lines, &["FILE▲"]));
    terminal.press("R");
    terminal.until("the other way", |lines| has(lines, &["FILE▼"]));
    terminal.press("q");
    terminal.until_ended();
    service.until_running(0);
    drop(busy);
}

#[test]
fn the_service_counts_how_long_calls_of_a_user_took() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let script = "while :; do cat /etc/passwd > copy; sleep 0.05; done";
    let busy = Process::shell(USER, home.path(), script);
    let iotrace = service.iotrace.to_str().unwrap();
    let socket = service.socket.to_str().unwrap();
    let top = [iotrace, "top", "--socket", socket, "--latencies"];
    let terminal = Terminal::new(USER, &service, &top);
    terminal.until("latencies", |lines| {
        let commands = ["ns", "µs", "ms"].map(|unit| format!("{unit} cat /etc"));
        has(lines, &["P99 COMMAND"]) && commands.iter().any(|text| has(lines, &[text]))
    });
    terminal.press("q");
    terminal.until_ended();
    drop(busy);
}

#[test]
fn root_sees_every_process() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let script = "while :; do cat /etc/passwd > of-a-user; sleep 0.05; done";
    let busy = Process::shell(USER, home.path(), script);
    let iotrace = service.iotrace.to_str().unwrap();
    let terminal = Terminal::new(
        0,
        &service,
        &[iotrace, "top", "--files", "--filter", "of-a-user"],
    );
    terminal.until("the file", |lines| has(lines, &["of-a-user"]));
    terminal.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    terminal.until("a smaller screen", |lines| {
        lines.len() <= 12 && has(lines, &["of-a-user"]) && lines[11].starts_with("Tab")
    });
    terminal.press("C-c");
    terminal.until_ended();
    drop(busy);
    let out = Command::new(iotrace)
        .arg("top")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&out.stderr).contains("top needs a terminal"));
}

#[test]
fn says_that_a_process_has_ended() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let script = "cat /etc/passwd > copy; sleep 300";
    let process = Process::shell(USER, home.path(), script);
    let (iotrace, pid) = (service.iotrace.to_str().unwrap(), process.pid().to_string());
    let terminal = Terminal::new(0, &service, &[iotrace, "top", "--pid", &pid]);
    terminal.until("screen", |lines| lines[0].starts_with("iotrace top"));
    drop(process);
    let end = format!("process {pid} has ended");
    terminal.until("end", |lines| lines[0].contains(&end));
    terminal.press("q");
    terminal.until_ended();
}

/// Where the first line with this text is, and where in it the text begins.
fn place(screen: &str, text: &str) -> (usize, usize) {
    let lines = screen.lines().enumerate();
    let mut found =
        lines.filter_map(|(y, line)| Some((line.split_once(text)?.0.chars().count(), y)));
    found
        .next()
        .unwrap_or_else(|| panic!("no {text}:\n{screen}"))
}

/// The recordings in a directory.
fn recordings(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "d"))
        .collect();
    found.sort();
    found
}

#[test]
fn records_the_process_that_is_selected() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    let script = "while :; do read -r line < /etc/passwd; echo \"$line\" > copy; sleep 0.05; done";
    let busy = Process::shell(USER, home.path(), script);
    let line = format!(
        "cd {}; {} top --socket {}; echo it is over; exec sleep 300",
        home.path().display(),
        service.iotrace.display(),
        service.socket.display()
    );
    let terminal = Terminal::new(USER, &service, &["sh", "-c", &line]);
    let pid = busy.pid().to_string();
    let screen = terminal.until("the process", |lines| has(lines, &[&pid, "bash -c"]));
    assert!(terminal.has_mouse());
    terminal.press("r");
    terminal.until("a hint", |lines| has(lines, &["select the process"]));
    // The hint moved the table down by a line.
    let (x, y) = place(&screen, &pid);
    terminal.click(x, y + 1);
    terminal.press("r");
    let recording = format!("recording {pid} for");
    terminal.until("recording", |lines| has(lines, &[&recording, "r: end"]));
    service.until_running(2);
    terminal.press("r");
    let recorded = format!("recorded {pid} into");
    terminal.until("the end", |lines| has(lines, &[&recorded]));
    let made = recordings(home.path());
    assert_eq!(made.len(), 1, "{made:?}");
    let log = fs::read_to_string(made[0].with_extension("log")).unwrap();
    let name = made[0].file_name().unwrap().to_str().unwrap();
    assert!(log.contains(&format!("Recording: {name}")), "{log}");
    let report = || {
        let mut report = service.command(USER);
        report.args(["report", "--format", "json"]);
        report
    };
    let out = report().arg(&made[0]).output().unwrap();
    let report_of: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report_of["pids"][0].to_string(), pid);
    // One that runs when the user quits is ended, and read whole.
    terminal.press("r");
    terminal.until("another recording", |_| recordings(home.path()).len() == 2);
    terminal.press("q");
    let screen = terminal.until("quit", |lines| has(lines, &["it is over"]));
    assert!(screen.matches(&recorded).count() == 2, "{screen}");
    assert!(!terminal.has_mouse());
    service.until_running(0);
    let made = recordings(home.path());
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(report().arg(&made[1]).output().unwrap().status.success());
    drop(busy);
}

#[test]
fn the_mouse_sorts_and_is_released_by_signals() {
    let service = Service::start(&[]);
    let (iotrace, home) = (service.iotrace.display(), service.home(0));
    for signal in ["TERM", "HUP", "QUIT"] {
        let line = format!(
            "sh -c 'echo $$ > {}/pid; exec {iotrace} top'; echo it is over; exec sleep 300",
            home.path().display()
        );
        let terminal = Terminal::new(0, &service, &["sh", "-c", &line]);
        let screen = terminal.until("titles", |lines| has(lines, &["PID", "COMMAND"]));
        assert!(terminal.has_mouse());
        let (x, y) = place(&screen, "COMMAND");
        terminal.click(x + 1, y);
        terminal.until("sorted by name", |lines| has(lines, &["COMMAND▲"]));
        let pid = fs::read_to_string(home.path().join("pid")).unwrap();
        let killed = Command::new("kill")
            .args(["-s", signal, pid.trim()])
            .status();
        assert!(killed.unwrap().success());
        terminal.until("the shell", |lines| has(lines, &["it is over"]));
        assert!(!terminal.has_mouse(), "{signal}");
    }
}
