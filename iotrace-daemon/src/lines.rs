//! Lines of a recording that a service makes. This process finds the interpreters of the recorded processes, with the rights of its
//! user, and tells the service; and it interprets what the kernel programs tell of stacks, which the service hands on.

use std::{
    collections::{HashMap, HashSet},
    os::unix::net::UnixStream,
};

use iotrace_model::input::Event;
use iotrace_service::socket::protocol::{Interpreter, Numbered, Wish, line};
use iotrace_tracer::{
    drain::{Batch, Lines, Program},
    kernel::WantedLines,
};
use rustix::net::{SendFlags, send};

/// The lines of a recording.
pub struct RemoteLines {
    lines: Lines,
    stream: UnixStream,
    /// The interpreters that were found, by pid.
    found: HashMap<u32, Program>,
    /// Processes whose interpreter the service was told of and has not answered, and those that it did not take.
    asked: HashSet<u32>,
    refused: HashSet<u32>,
}

impl RemoteLines {
    /// Of a recording that has begun; the service listens at `stream`.
    pub fn new(wanted: WantedLines, stream: UnixStream) -> Self {
        Self {
            lines: Lines::new(wanted),
            stream,
            found: HashMap::new(),
            asked: HashSet::new(),
            refused: HashSet::new(),
        }
    }

    /// Looks for the interpreter of a process, and tells the service of it.
    pub fn look(&mut self, pid: u32) {
        let Some(program) = self.lines.find(pid) else {
            self.found.remove(&pid);
            return;
        };
        let (pid, start) = program.process();
        let python = program.python();
        let wish = line(&Wish::Python(Interpreter { pid, start, python }));
        // The thread that reads must not wait for the service, which may wait for it. So short a line is sent as a whole or not.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.stream, &wish, flags) {
            Ok(_) => {
                self.found.insert(pid, program);
                self.asked.insert(pid);
            }
            Err(_) => self.refuse(pid),
        }
    }

    /// Whether the service has not answered for some process.
    pub fn are_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Takes what the service says of the interpreter of a process.
    pub fn number(&mut self, numbered: Numbered) {
        let Numbered {
            pid,
            number,
            replaces,
        } = numbered;
        self.asked.remove(&pid);
        let Some(number) = number else {
            return self.refuse(pid);
        };
        self.refused.remove(&pid);
        // A process that was forked is known by what its parent runs.
        let before = replaces.and_then(|number| self.lines.known(number));
        if let Some(program) = self.found.get(&pid).copied().or(before) {
            self.lines.know(number, program);
        }
    }

    /// What a batch of the service's is to this recording.
    pub fn take(&mut self, batch: Batch) -> impl Iterator<Item = Batch> {
        let (mut batches, mut is_counted) = (None, false);
        match batch {
            Batch::LineRecords(records) => records.iter().for_each(|record| self.record(record)),
            Batch::LineCounts(counts) => {
                self.lines.count(counts);
                is_counted = true;
            }
            batch => {
                self.look_at_new(&batch);
                batches = Some(batch);
            }
        }
        let news = is_counted.then(|| self.news(false));
        batches.into_iter().chain(news.into_iter().flatten())
    }

    /// What was counted by line since the last call; `last`: nothing more comes.
    pub fn news(&mut self, last: bool) -> impl Iterator<Item = Batch> + use<> {
        let lines = Batch::Lines(self.lines.sums(last));
        [lines, Batch::Sources(self.lines.take_sources(last))].into_iter()
    }

    /// Looks at processes that run another program.
    fn look_at_new(&mut self, batch: &Batch) {
        let Batch::Events(events) = batch else {
            return;
        };
        for event in events {
            if let Event::Exec { process, .. } = event {
                self.refused.remove(&process.pid);
                self.look(process.pid);
            }
        }
    }

    fn record(&mut self, record: &[u8]) {
        if let Some(pid) = self.lines.record(record)
            && !self.asked.contains(&pid)
            && !self.refused.contains(&pid)
        {
            self.look(pid);
        }
    }

    fn refuse(&mut self, pid: u32) {
        self.refused.insert(pid);
        self.lines
            .say("the service does not find the lines of some processes".into());
    }
}
