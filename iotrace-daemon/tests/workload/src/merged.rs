//! Long calls whose overlaps the program knows by its own clock.
//!
//! Every call's start and end go into memory that is shared with the first process, so those of a killed process are
//! there too. The names of the files say their phase: arrays are training data when they are read, `.ckpt` files
//! checkpoints when they are written.

use std::{
    ptr,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    book::{Truth, fork, wait},
    calls::{path, raw},
};

const CALLS: usize = 4096;
const LENGTH: usize = 8 << 20;
const ROUNDS: usize = 12;
const THREADS: usize = 4;

/// Starts and ends of a process's calls, by phase.
#[repr(C)]
struct Times {
    used: AtomicU64,
    calls: [[AtomicU64; 3]; CALLS],
}

#[derive(Clone, Copy)]
enum Phase {
    Training,
    Checkpoint,
}

impl Phase {
    const ALL: [(Self, &str); 2] = [
        (Self::Training, "training"),
        (Self::Checkpoint, "checkpoint"),
    ];
}

impl Times {
    fn shared() -> &'static Self {
        // SAFETY: a new mapping of zeros, which are valid times; never unmapped.
        unsafe {
            let address = libc::mmap(
                ptr::null_mut(),
                size_of::<Self>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(address, libc::MAP_FAILED);
            &*address.cast::<Self>()
        }
    }

    /// Makes a call and takes down when.
    fn call(&self, phase: Phase, nr: i64, args: &[usize]) -> i64 {
        let index = self.used.fetch_add(1, Relaxed) as usize;
        let [of, start, end] = &self.calls[index];
        of.store(phase as u64, Relaxed);
        start.store(now(), Relaxed);
        let result = raw(nr, args);
        end.store(now(), Relaxed);
        assert!(result >= 0, "call {nr}: error {}", -result);
        result
    }

    /// Nanoseconds that were in any call of a phase. Calls that never ended count up to `last`.
    fn union(&self, phase: Phase, last: u64) -> u64 {
        let mut spans: Vec<(u64, u64)> = self.calls[..self.used.load(Relaxed) as usize]
            .iter()
            .filter(|[of, start, _]| of.load(Relaxed) == phase as u64 && start.load(Relaxed) > 0)
            .map(|[_, start, end]| (start.load(Relaxed), end.load(Relaxed)))
            .map(|(start, end)| (start, if end == 0 { last } else { end }))
            .collect();
        spans.sort_unstable();
        let (mut union, mut covered) = (0, 0);
        for (start, end) in spans {
            union += end.saturating_sub(start.max(covered));
            covered = covered.max(end);
        }
        union
    }
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A process's long calls.
struct Work {
    times: &'static Times,
    dir: String,
}

impl Work {
    fn open(&self, phase: Phase, name: &str) -> usize {
        let name = path(format!("{}/{name}", self.dir));
        let flags = match phase {
            Phase::Training => libc::O_RDONLY,
            Phase::Checkpoint => libc::O_WRONLY,
        };
        let args = [
            libc::AT_FDCWD as usize,
            name.as_ptr() as usize,
            flags as usize,
        ];
        self.times.call(phase, libc::SYS_openat, &args) as usize
    }

    /// Reads or writes the whole of a file.
    fn whole(&self, phase: Phase, fd: usize, buffer: &mut [u8]) {
        let nr = match phase {
            Phase::Training => libc::SYS_pread64,
            Phase::Checkpoint => libc::SYS_pwrite64,
        };
        let args = [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0];
        assert_eq!(self.times.call(phase, nr, &args), LENGTH as i64);
    }

    fn rounds(&self, phase: Phase, name: &str, rounds: usize) {
        let mut buffer = vec![1; LENGTH];
        let fd = self.open(phase, name);
        for _ in 0..rounds {
            self.whole(phase, fd, &mut buffer);
        }
        self.times.call(phase, libc::SYS_close, &[fd]);
    }
}

/// What a process does with its time.
type Body = fn(&Work);

/// Processes by what their calls have to do with each other.
const BODIES: [(&str, usize, Body); 5] = [
    ("one thread", 1, |work| {
        work.rounds(Phase::Training, "a.npy", ROUNDS)
    }),
    ("overlapping", THREADS, |work| {
        together(THREADS, &|thread| {
            work.rounds(Phase::Training, ["a.npy", "b.npy"][thread % 2], ROUNDS);
        });
    }),
    ("in turn", THREADS, |work| {
        let turn = Mutex::new(());
        together(THREADS, &|_| {
            for _ in 0..ROUNDS {
                // Opens and closes are in the turn too, so no two calls overlap.
                let _own = turn.lock().expect("no panic");
                work.rounds(Phase::Training, "a.npy", 1);
            }
        });
    }),
    ("two phases", 2, |work| {
        together(2, &|thread| match thread {
            0 => work.rounds(Phase::Training, "a.npy", ROUNDS),
            _ => work.rounds(Phase::Checkpoint, "model.ckpt", ROUNDS),
        });
    }),
    ("with a fork", 1, |work| {
        // A process of its own, whose calls are not this one's.
        let times = Times::shared();
        // SAFETY: one thread; the child makes plain calls and ends at once.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let other = Work {
                times,
                dir: work.dir.clone(),
            };
            other.rounds(Phase::Training, "b.npy", ROUNDS);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        work.rounds(Phase::Training, "a.npy", ROUNDS);
        assert_eq!(wait(pid), 0);
    }),
];

fn together(threads: usize, work: &(dyn Fn(usize) + Sync)) {
    let ready = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let ready = &ready;
            scope.spawn(move || {
                ready.wait();
                work(thread);
            });
        }
    });
}

/// Runs all bodies, each in a process of its own, and one whose threads are killed in their calls.
pub fn run(truth: &mut Truth, dir: &str) {
    for name in ["a.npy", "b.npy", "model.ckpt"] {
        std::fs::write(format!("{dir}/{name}"), vec![0; LENGTH]).expect("a file");
    }
    let mut found = Vec::new();
    for (role, threads, body) in BODIES {
        let (pid, times) = start(truth, dir, body);
        assert_eq!(wait(pid), 0, "{role}");
        found.push(times.json(role, pid, threads));
    }
    let (pid, times) = start(truth, dir, |work| {
        together(THREADS, &|_| {
            work.rounds(Phase::Training, "a.npy", CALLS / THREADS)
        });
    });
    let begun = Instant::now();
    while times.used.load(Relaxed) < 40 {
        assert!(begun.elapsed() < Duration::from_secs(30), "no calls");
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: a child that was not waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert_eq!(wait(pid), libc::SIGKILL);
    found.push(times.json("killed", pid, THREADS));
    truth.more.insert("merged".into(), found.into());
}

fn start(truth: &mut Truth, dir: &str, body: Body) -> (i32, &'static Times) {
    let times = Times::shared();
    let book = truth.book("merged", &[], false);
    let work = Work {
        times,
        dir: dir.to_owned(),
    };
    (fork(book, move |_| body(&work)), times)
}

impl Times {
    fn json(&self, role: &str, pid: i32, threads: usize) -> Value {
        let last = now();
        let unions: serde_json::Map<_, _> = Phase::ALL
            .iter()
            .map(|(phase, name)| ((*name).to_owned(), self.union(*phase, last).into()))
            .collect();
        json!({ "role": role, "pid": pid, "threads": threads, "union_ns": unions })
    }
}
