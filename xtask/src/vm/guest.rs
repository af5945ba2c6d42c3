//! What a machine says while it runs: which test began, and how it ended.

use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::plan::Job;
use super::qemu::{Boot, Qemu};

/// How long a kernel may take to the first word, and to end.
const BOOT_LIMIT: Duration = Duration::from_secs(120);

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    /// It began, and then nothing was heard.
    Died,
    NotBegun,
    /// It could not: the package lists have the kernel's image, and its modules no more.
    NoModule,
}

/// What became of a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: String,
    pub verdict: Verdict,
    /// What it measured, as words.
    pub measured: Vec<String>,
}

impl Outcome {
    /// Of a job that needs a module of a kernel that has none.
    pub fn without_module(job: &Job) -> Self {
        Self {
            name: job.name.clone(),
            verdict: Verdict::NoModule,
            measured: vec![],
        }
    }
}

/// Boots the machine and listens until it is off, or silent for longer than its test may take.
pub fn run(qemu: &Qemu, boot: &Boot<'_>, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let mut command = qemu.command(boot);
    let mut child = command.spawn().context("cannot start QEMU")?;
    let lines = listen(&mut child)?;
    let mut report = Report::new(boot.label(), jobs);
    while let Ok(line) = lines.recv_timeout(report.patience(jobs)) {
        report.hear(&line);
        if report.finished {
            break;
        }
    }
    // It is off, or hangs, or is about to turn itself off with nothing left to say.
    child.kill().context("cannot end QEMU")?;
    child.wait().context("cannot end QEMU")?;
    if !report.finished {
        let console = boot.console.display();
        eprintln!("vm: the machine ended or hung before it was done: see {console}");
    }
    Ok(report.outcomes)
}

/// The machine's lines, read by a thread so that waiting for them can end.
fn listen(child: &mut Child) -> Result<Receiver<String>> {
    let output = BufReader::new(child.stdout.take().context("QEMU has no output")?);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in output.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(receiver)
}

/// What was heard so far.
struct Report {
    /// The machine's name, before each line: several may run at a time.
    label: String,
    outcomes: Vec<Outcome>,
    /// The job that runs, by its index.
    current: Option<usize>,
    finished: bool,
}

impl Report {
    fn new(label: String, jobs: &[Job]) -> Self {
        let outcome = |job: &Job| Outcome {
            name: job.name.clone(),
            verdict: Verdict::NotBegun,
            measured: vec![],
        };
        Self {
            label,
            outcomes: jobs.iter().map(outcome).collect(),
            current: None,
            finished: false,
        }
    }

    /// How long the next line may take.
    fn patience(&self, jobs: &[Job]) -> Duration {
        let limit = self.current.map_or(0, |index| jobs[index].limit);
        BOOT_LIMIT + Duration::from_secs(limit.into())
    }

    /// Takes in a line of `init.sh`, and shows it.
    fn hear(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "begin" => {
                self.current = self
                    .outcomes
                    .iter()
                    .position(|outcome| outcome.name == rest);
                self.conclude(Verdict::Died);
            }
            "measured" => {
                println!("{}:        {rest}", self.label);
                if let Some(index) = self.current {
                    self.outcomes[index].measured.push(rest.to_owned());
                }
            }
            "end" => self.end(rest),
            "finished" => self.finished = true,
            "kernel" => println!("{}: {line}", self.label),
            "trouble" => println!("{}: {rest}", self.label),
            _ => println!("{}:        | {rest}", self.label),
        }
    }

    /// `SECONDS RESULT NAME`
    fn end(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (seconds, result) = (words.next().unwrap_or("?"), words.next().unwrap_or("?"));
        let name = words.next().unwrap_or("?");
        println!("{}: {result:>6} {name} ({seconds} s)", self.label);
        self.conclude(if result == "ok" {
            Verdict::Passed
        } else {
            Verdict::Failed
        });
        self.current = None;
    }

    fn conclude(&mut self, verdict: Verdict) {
        if let Some(index) = self.current {
            self.outcomes[index].verdict = verdict;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[&str]) -> Vec<Verdict> {
        let job = |name: &str| Job {
            name: name.to_owned(),
            limit: 1,
            is_test: true,
            exit_code: 0,
            command: String::new(),
        };
        let mut report = Report::new(String::new(), &["a", "b", "c"].map(job));
        lines.iter().for_each(|line| report.hear(line));
        report
            .outcomes
            .iter()
            .map(|outcome| outcome.verdict)
            .collect()
    }

    #[test]
    fn what_did_not_end_has_not_passed() {
        let lines = [
            "begin a",
            "out panicked",
            "end 1 failed a",
            "begin b",
            "measured 1",
        ];
        assert_eq!(
            heard(&lines),
            [Verdict::Failed, Verdict::Died, Verdict::NotBegun]
        );
        assert_eq!(heard(&[]), [Verdict::NotBegun; 3]);
        assert_eq!(heard(&["begin a", "end 1 ok a"])[0], Verdict::Passed);
        assert_eq!(heard(&["begin z", "end 1 ok z"]), [Verdict::NotBegun; 3]);
    }
}
