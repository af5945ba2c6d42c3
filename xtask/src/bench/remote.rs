//! The worker as the measuring process sees it.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, anyhow};

use super::unless_brief;
use super::worker::Answer;

/// Where files in memory go.
const MEMORY: &str = "/dev/shm";

/// The directories that workers use. They make them, and remove what they made.
pub struct Places {
    memory: PathBuf,
    disk: PathBuf,
}

impl Places {
    pub fn new(disk: &Path) -> Self {
        let memory = Path::new(MEMORY).join(format!("iotrace-bench-{}", process::id()));
        Self {
            memory,
            disk: disk.to_owned(),
        }
    }
}

/// A running worker. It ends when this is dropped.
pub struct Worker {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a worker with these variables in its environment.
    pub fn start(places: &Places, variables: &[(String, String)]) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command
            .args(["bench", "worker"])
            .args([&places.memory, &places.disk]);
        command.args(unless_brief(None, Some("--brief")));
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        // A group of its own: Ctrl-C is for us, and our end makes it remove its files.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().context("cannot start a worker")?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("a worker without output")?);
        Ok(Self {
            child,
            questions,
            answers,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Puts a question.
    pub fn ask(&mut self, question: &str) -> Result<()> {
        let questions = self.questions.as_mut().context("a worker without input")?;
        writeln!(questions, "{question}").context("the worker has ended")
    }

    /// The answer to the first question that was put and not answered.
    pub fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers: Vec<_> = line
            .split(' ')
            .filter_map(|word| word.trim().parse().ok())
            .collect();
        numbers
            .try_into()
            .map_err(|_| anyhow!("the worker answered `{}`", line.trim_end()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.questions = None;
        // How it ended does not matter any more.
        let _ = self.child.wait();
    }
}
