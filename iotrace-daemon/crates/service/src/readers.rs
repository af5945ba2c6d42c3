//! Reads the memory of other processes in a thread of its own, which is given up when the kernel does not answer.
//!
//! The kernel waits for the process's mmap_lock, which a process can hold for as long as it wants: by a page fault on a
//! FUSE filesystem of its own, or on a network filesystem that hangs. So nobody who has something else to do reads here.

use std::{
    collections::{HashSet, VecDeque},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::environment;
use iotrace_model::{environ::Job, input::ProcessId};

/// How long one read may take.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// Threads that were given up and have not ended, at most; nothing is read as long as there are so many.
const MAX_GIVEN_UP: usize = 8;
/// Processes that wait to be read, at most; further ones are not read.
const MAX_WAITING: usize = 65_536;

/// What a process's environment says.
#[derive(Debug)]
pub struct Found {
    pub process: ProcessId,
    /// The job that it names; an error if it cannot be read.
    pub job: io::Result<Option<Job>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<ProcessId>,
    /// What is being read, and since when.
    current: Option<(ProcessId, Instant)>,
    /// Number of the thread that reads; another one ends.
    generation: u64,
}

#[derive(Debug, Default)]
struct Common {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Read = fn(u32) -> io::Result<Option<Job>>;

/// The thread that reads, and those that were given up.
#[derive(Debug)]
pub struct Readers {
    common: Arc<Common>,
    read: Read,
    results: (mpsc::Sender<Found>, mpsc::Receiver<Found>),
    worker: Option<JoinHandle<()>>,
    given_up: Vec<JoinHandle<()>>,
    /// Processes that are not read again.
    stuck: HashSet<ProcessId>,
    /// Since the start of the service.
    total_given_up: u64,
    /// Requests without an answer.
    pending: usize,
}

impl Default for Readers {
    fn default() -> Self {
        Self::new(environment::job)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.common.lock().generation += 1;
        self.common.changed.notify_all();
    }
}

impl Readers {
    fn new(read: Read) -> Self {
        Self {
            common: Arc::default(),
            read,
            results: mpsc::channel(),
            worker: None,
            given_up: Vec::new(),
            stuck: HashSet::new(),
            total_given_up: 0,
            pending: 0,
        }
    }

    /// Reads that were given up since the start of the service.
    pub fn total_given_up(&self) -> u64 {
        self.total_given_up
    }

    /// Processes that are not read again, because a read of them was given up.
    pub fn stuck(&self) -> usize {
        self.stuck.len()
    }

    /// Asks for the job that the environment of a process names; `false` if it will not be read.
    pub fn ask(&mut self, process: ProcessId) -> bool {
        let mut queue = self.common.lock();
        if self.stuck.contains(&process) || queue.waiting.len() >= MAX_WAITING {
            return false;
        }
        queue.waiting.push_back(process);
        drop(queue);
        self.pending += 1;
        self.keep_reading();
        true
    }

    /// Forgets processes that are gone.
    pub fn retain(&mut self, is_there: impl Fn(ProcessId) -> bool) {
        self.stuck.retain(|process| is_there(*process));
    }

    /// What has been read; waits for what is missing, but no longer than `limit`.
    pub fn wait(&mut self, limit: Duration) -> Vec<Found> {
        let end = Instant::now() + limit;
        let mut found: Vec<Found> = Vec::new();
        while self.pending > found.len() {
            let left = end.saturating_duration_since(Instant::now());
            match self.results.1.recv_timeout(left) {
                Ok(one) => found.push(one),
                Err(_) => break,
            }
        }
        self.pending = self.pending.saturating_sub(found.len());
        self.give_up(Instant::now());
        self.keep_reading();
        found
    }

    /// Gives a read up that takes too long.
    fn give_up(&mut self, now: Instant) {
        let mut queue = self.common.lock();
        let late = queue
            .current
            .filter(|(_, since)| now.saturating_duration_since(*since) >= READ_TIMEOUT);
        let Some((process, _)) = late else { return };
        queue.current = None;
        queue.generation += 1;
        drop(queue);
        log::warn!(
            "the environment of process {} cannot be read within {READ_TIMEOUT:?}: it is counted by its control group alone",
            process.pid
        );
        self.stuck.insert(process);
        self.total_given_up += 1;
        self.pending = self.pending.saturating_sub(1);
        self.given_up.extend(self.worker.take());
    }

    /// Starts a thread if there is something to read and none that reads.
    fn keep_reading(&mut self) {
        self.given_up.retain(|thread| !thread.is_finished());
        let queue = self.common.lock();
        let is_needed = !queue.waiting.is_empty() && self.worker.is_none();
        let generation = queue.generation;
        drop(queue);
        if is_needed && self.given_up.len() < MAX_GIVEN_UP {
            let (common, read, results) =
                (Arc::clone(&self.common), self.read, self.results.0.clone());
            let thread = std::thread::Builder::new().name("iotrace-reader".into());
            match thread.spawn(move || work(&common, generation, read, &results)) {
                Ok(thread) => self.worker = Some(thread),
                Err(error) => log::warn!("no thread to read environments: {error}"),
            }
        } else {
            self.common.changed.notify_all();
        }
    }
}

/// Reads until another thread is to.
fn work(common: &Common, generation: u64, read: Read, results: &mpsc::Sender<Found>) {
    let mut queue = common.lock();
    while queue.generation == generation {
        let Some(process) = queue.waiting.pop_front() else {
            queue = common
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        queue.current = Some((process, Instant::now()));
        drop(queue);
        let job = read(process.pid);
        queue = common.lock();
        // An answer that comes late is of a process that may be gone.
        if queue.generation == generation {
            queue.current = None;
            if results.send(Found { process, job }).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel for a process whose mmap_lock is held.
    fn read(pid: u32) -> io::Result<Option<Job>> {
        if pid >= 1000 {
            std::thread::sleep(Duration::from_secs(3));
        }
        Ok(None)
    }

    const fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start: 1 }
    }

    #[test]
    fn a_read_that_hangs_is_given_up_and_not_tried_again() {
        let mut readers = Readers::new(read);
        assert!([1, 1000, 2].map(|pid| readers.ask(process(pid))) == [true; 3]);
        let started = Instant::now();
        let mut found = Vec::new();
        while found.len() < 2 {
            found.extend(
                readers
                    .wait(Duration::from_millis(100))
                    .into_iter()
                    .map(|found| found.process.pid),
            );
            assert!(started.elapsed() < Duration::from_secs(2), "{found:?}");
        }
        assert_eq!(found, [1, 2]);
        assert_eq!(
            (readers.total_given_up(), readers.stuck(), readers.pending),
            (1, 1, 0)
        );
        assert!(!readers.ask(process(1000)));
        readers.retain(|_| false);
        assert!(
            readers.ask(process(1000)),
            "another process may have the number"
        );
    }

    #[test]
    fn threads_that_hang_are_bounded() {
        let mut readers = Readers::new(read);
        (0..40).for_each(|pid| assert!(readers.ask(process(1000 + pid))));
        // As if time went by.
        for _ in 0..40 {
            std::thread::sleep(Duration::from_millis(5));
            readers.give_up(Instant::now() + READ_TIMEOUT);
            readers.keep_reading();
        }
        assert_eq!(readers.given_up.len(), MAX_GIVEN_UP);
        assert_eq!(readers.total_given_up(), MAX_GIVEN_UP as u64);
        assert!(readers.wait(Duration::ZERO).is_empty());
    }
}
