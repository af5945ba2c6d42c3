//! What a wait was for: where one thread woke another, the wait is what the waker did in that very time.
//!
//! Waits come in the order in which they ended. A waker ran when it woke, so all its own waits until then have come before:
//! each wait is resolved once, into pieces with one leaf each, and copied from there.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    mem,
};

use iotrace_common::{
    key::FileId,
    waits::{NO_CALL, Wait, flag},
};

use super::{
    calls,
    retries::{Held, Meaning},
};
use iotrace_model::{
    counters::saturating_add,
    input::ProcessId,
    timeline::{Cause, Segment},
    waits::{Leaf, Waited},
};

/// States of a thread that a debugger or a signal stopped (`__TASK_STOPPED`, `__TASK_TRACED`).
const STOPPED: u32 = 4 | 8;
/// State of a thread that a signal may wake (`TASK_INTERRUPTIBLE`), as one is that waits for the other end of a FIFO.
const INTERRUPTIBLE: u32 = 1;
/// Pieces that are kept of one thread, and of all: about 48 MB. What is older is not known any more.
const THREAD_PIECES: usize = 1 << 16;
const ALL_PIECES: usize = 1 << 21;
/// Pieces of each thread that stay when there are too many.
const KEPT_PIECES: usize = 1 << 10;
/// Threads that are kept, and how long one is that does nothing, nanoseconds, where there are more.
const THREADS: usize = 1 << 16;
const IDLE_NS: u64 = 60_000_000_000;
/// Different sources that are told apart. Those after them have no file.
const SOURCES: usize = 1 << 20;
/// Sources from which on those are forgotten that no piece is of any more.
const MANY_SOURCES: usize = 1 << 16;
/// A thread that reads no data is a loader if a loader ended at least one in so many of its waits: it decodes what that
/// loader read.
const MAX_WAITS_PER_LOADER_WAKE: u64 = 10;
/// Births that are followed back: a chain of threads that make threads while one waits.
const DEEPEST: u32 = 64;

/// What a piece of a wait was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source {
    leaf: Leaf,
    by: Option<ProcessId>,
    file: Option<FileId>,
    phase: u16,
}

impl Source {
    fn of(leaf: Leaf) -> Self {
        Self {
            leaf,
            by: None,
            file: None,
            phase: 0,
        }
    }
}

/// A stretch of time in which a thread did not run, `CLOCK_MONOTONIC` nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    /// Number of its [`Source`].
    source: u32,
}

struct Thread {
    process: ProcessId,
    /// From when on all is known of it.
    known_from: u64,
    /// Where it was born at that time: its parent.
    parent: Option<u32>,
    /// End of its last wait.
    on: u64,
    /// Its waits in order; between them it ran.
    pieces: VecDeque<Piece>,
    /// Those that may be part of a longer wait. They count nowhere yet, and are sleep among the others.
    held: Held,
    /// Whether it has read training data.
    reads_data: bool,
    /// Its waits that other threads ended, and those of them that a loader's thread ended.
    ended: u64,
    ended_by_loader: u64,
}

/// Threads, and what their waits were for.
#[derive(Default)]
pub struct Resolver {
    /// By thread id.
    threads: HashMap<u32, Thread>,
    /// Pieces of all threads.
    piece_count: usize,
    sources: Vec<Source>,
    numbers: HashMap<Source, u32>,
    /// How many there were after some were last forgotten.
    sources_kept: usize,
    /// Of main threads, since it was last taken: by process and number of the source, nanoseconds.
    sums: HashMap<(ProcessId, u32), u64>,
    /// Waits one by one since they were last taken, where they are kept.
    segments: Option<Vec<Segment>>,
}

impl Resolver {
    /// Keeps each wait by itself, too.
    pub fn keep_timeline(&mut self) {
        self.segments = Some(Vec::new());
    }

    /// Takes the waits one by one since the last time.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        self.segments.as_mut().map_or_else(Vec::new, mem::take)
    }

    /// Takes the next wait. They come by [`Wait::on`].
    pub fn add(&mut self, wait: &Wait) {
        let process = ProcessId::from(wait);
        let ran_from = self.meet(wait, process);
        let Some(ran_from) = ran_from else { return };
        // A record that comes too late has its time taken from it by those before.
        let off = wait.off.max(ran_from);
        let woken = wait.woken.clamp(off, wait.on.max(off));
        let on = wait.on.max(woken);
        let leaf = self.leaf(wait);
        let is_timeout = leaf == Some(Leaf::Sleep) && calls::has_timeout(wait.nr) && off < woken;
        let meaning = match self.threads.get_mut(&wait.tid) {
            Some(thread) => thread.held.meaning(wait, off - ran_from, is_timeout),
            None => Meaning::None,
        };
        let segment = Segment {
            off,
            woken,
            on,
            ..segment(wait, leaf)
        };
        self.know(wait, leaf.is_none());
        match meaning {
            Meaning::None => self.segment(wait.tid, segment, is_timeout),
            Meaning::Slept => {
                self.release(wait.tid, mem::take);
                self.segment(wait.tid, segment, is_timeout);
            }
            Meaning::Ends => self.end_held(wait, leaf, segment),
        }
        let mut pieces = Vec::new();
        self.blocked(wait, leaf, off, woken, &mut pieces);
        let held = pieces.first().copied().filter(|_| is_timeout);
        if on > woken {
            let source = self.number(Source::of(Leaf::RunQueue));
            pieces.push(Piece {
                start: woken,
                end: on,
                source,
            });
        }
        if wait.tid == wait.tgid {
            let running = self.number(Source::of(Leaf::Running));
            self.count(process, running, off - ran_from);
            let counted = &pieces[usize::from(held.is_some())..];
            self.count_pieces(process, wait.tid, counted.iter().copied());
            if calls::waits_for_child(wait.nr) {
                let child = self.number(Source::of(Leaf::OfThatForChild));
                self.count(process, child, on - off);
            }
        }
        if let Some(thread) = self.threads.get_mut(&wait.tid) {
            thread.on = on;
            self.piece_count += pieces.len();
            thread.pieces.extend(pieces);
            let over = thread.pieces.len().saturating_sub(THREAD_PIECES);
            self.piece_count -= thread.forget(over);
            if let Some(piece) = held {
                thread.held.hold(wait, piece, on);
                self.release(wait.tid, Held::take_over);
            }
        }
        if self.piece_count > ALL_PIECES {
            for thread in self.threads.values_mut() {
                let over = thread.pieces.len().saturating_sub(KEPT_PIECES);
                self.piece_count -= thread.forget(over);
            }
        }
    }

    /// Adds what a process's main thread waited for, nanoseconds.
    fn count(&mut self, process: ProcessId, source: u32, ns: u64) {
        saturating_add(self.sums.entry((process, source)).or_default(), ns);
    }

    /// Keeps a segment, where they are kept. A thread's come in order: they are held back with its waits.
    fn segment(&mut self, tid: u32, segment: Segment, is_held: bool) {
        let Some(segments) = &mut self.segments else {
            return;
        };
        match self.threads.get_mut(&tid) {
            Some(thread) if is_held || !thread.held.pieces.is_empty() => {
                thread.held.segments.push_back(segment);
            }
            _ => segments.push(segment),
        }
    }

    /// Adds pieces of a thread, if it is a main thread.
    fn count_pieces(
        &mut self,
        process: ProcessId,
        tid: u32,
        pieces: impl IntoIterator<Item = Piece>,
    ) {
        if tid != process.pid {
            return;
        }
        for piece in pieces {
            self.count(process, piece.source, piece.end - piece.start);
        }
    }

    /// Counts what `take` takes of a thread's waits that are held back: it slept.
    fn release(&mut self, tid: u32, take: fn(&mut Held) -> Held) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let (process, held) = (thread.process, take(&mut thread.held));
        self.count_pieces(process, tid, held.pieces);
        if let Some(segments) = &mut self.segments {
            segments.extend(held.segments);
        }
    }

    /// What a thread's waits were that are held back: it waited for what ended this one.
    fn end_held(&mut self, wait: &Wait, leaf: Option<Leaf>, segment: Segment) {
        let Some(thread) = self.threads.get_mut(&wait.tid) else {
            return;
        };
        let process = thread.process;
        let held = mem::take(&mut thread.held);
        let Some(start) = held.pieces.front().map(|piece| piece.start) else {
            return;
        };
        let first = thread.pieces.partition_point(|piece| piece.start < start);
        let tail = thread.pieces.split_off(first);
        let count = tail.len();
        let mut tail = tail.into_iter().peekable();
        let mut pieces = Vec::with_capacity(count);
        for timeout in held.pieces {
            while let Some(other) = tail.next_if(|piece| piece.start < timeout.start) {
                pieces.push(other);
            }
            let is_kept = tail.next_if(|piece| piece.start == timeout.start).is_some();
            let first = pieces.len();
            self.blocked(wait, leaf, timeout.start, timeout.end, &mut pieces);
            self.count_pieces(process, wait.tid, pieces[first..].iter().copied());
            if !is_kept {
                pieces.truncate(first);
            }
        }
        pieces.extend(tail);
        self.piece_count = self.piece_count + pieces.len() - count;
        if let Some(thread) = self.threads.get_mut(&wait.tid) {
            thread.pieces.extend(pieces);
        }
        if let Some(segments) = &mut self.segments {
            segments.push(Segment {
                off: start,
                ..segment
            });
        }
    }

    /// Nothing more comes: what is held back was sleep.
    pub fn end(&mut self) {
        let tids: Vec<u32> = self.threads.keys().copied().collect();
        for tid in tids {
            self.release(tid, mem::take);
        }
    }

    /// Takes the sums since the last time.
    pub fn take(&mut self) -> Vec<Waited> {
        let sums = mem::take(&mut self.sums).into_iter();
        let sums = sums.filter(|(_, ns)| *ns > 0);
        let waited = sums.map(|((process, source), ns)| {
            let Source {
                leaf,
                by,
                file,
                phase,
            } = self.sources[source as usize];
            Waited {
                process,
                leaf,
                by,
                file,
                phase,
                ns,
            }
        });
        let waited = waited.collect();
        if self.sources.len() > MANY_SOURCES.max(2 * self.sources_kept) {
            self.forget_sources();
        }
        waited
    }

    #[cfg(test)]
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// Forgets the sources that no piece is of. No sum may be left.
    fn forget_sources(&mut self) {
        let sources = mem::take(&mut self.sources);
        self.numbers.clear();
        let mut threads = mem::take(&mut self.threads);
        let pieces = threads
            .values_mut()
            .flat_map(|thread| thread.pieces.iter_mut().chain(&mut thread.held.pieces));
        for piece in pieces {
            piece.source = self.number(sources[piece.source as usize]);
        }
        self.threads = threads;
        self.sources_kept = self.sources.len();
    }

    /// The thread of a wait: since when it ran before; none where that was its first record, which says only when it began.
    fn meet(&mut self, wait: &Wait, process: ProcessId) -> Option<u64> {
        let is_born = wait.is_born();
        if self.threads.len() >= THREADS && !self.threads.contains_key(&wait.tid) {
            let oldest = wait.on.saturating_sub(IDLE_NS);
            let is_idle = |thread: &Thread| thread.on <= oldest && !thread.held.pieces.is_empty();
            let idle = self.threads.iter().filter(|(_, thread)| is_idle(thread));
            for tid in idle.map(|(tid, _)| *tid).collect::<Vec<_>>() {
                self.release(tid, mem::take);
            }
            self.threads.retain(|_, thread| {
                let keep = thread.on > oldest;
                self.piece_count -= if keep { 0 } else { thread.pieces.len() };
                keep
            });
        }
        let known = self.threads.get(&wait.tid);
        if known.is_some_and(|known| is_born || known.process != process) {
            self.release(wait.tid, mem::take);
        }
        let new = |from| Thread {
            process,
            known_from: from,
            parent: wait.parent(),
            on: from,
            pieces: VecDeque::new(),
            held: Held::default(),
            reads_data: false,
            ended: 0,
            ended_by_loader: 0,
        };
        match self.threads.entry(wait.tid) {
            Entry::Occupied(known) if !is_born && known.get().process == process => {
                Some(known.get().on)
            }
            // Another thread has its number now, or it leads a process that it was a thread of.
            Entry::Occupied(mut known) => {
                self.piece_count -= known.get().pieces.len();
                known.insert(new(wait.off));
                Some(wait.off)
            }
            Entry::Vacant(place) => {
                place.insert(new(wait.off));
                Some(wait.off)
            }
        }
    }

    /// What a wait tells of its thread and of the one that woke it: whether they are loaders. `is_by_thread`: the other one
    /// ended it.
    fn know(&mut self, wait: &Wait, is_by_thread: bool) {
        let has = |flag| wait.flags & flag != 0;
        let mut is_by_loader = false;
        if self.knows(wait.by_tid, wait.by_tgid)
            && let Some(waker) = self.threads.get_mut(&wait.by_tid)
        {
            waker.reads_data |= has(flag::WAKER_READS_DATA);
            // A main thread that reads by itself hands out other work than data.
            let is_own_main = wait.by_tid == wait.by_tgid && wait.by_tgid == wait.tgid;
            is_by_loader = is_by_thread && !is_own_main && waker.is_loader();
        }
        if let Some(thread) = self.threads.get_mut(&wait.tid) {
            thread.reads_data |= has(flag::READS_DATA);
            thread.ended += u64::from(is_by_thread);
            thread.ended_by_loader += u64::from(is_by_loader);
        }
    }

    /// What a thread waited for until it was woken; none for the thread that woke it.
    fn leaf(&self, wait: &Wait) -> Option<Leaf> {
        let has = |flag| wait.flags & flag != 0;
        Some(if wait.state & STOPPED != 0 {
            Leaf::Other
        } else if is_for_end_of_fifo(wait) && self.is_by_other_thread(wait) {
            return None;
        } else if is_for_end_of_fifo(wait) && calls::opens(wait.by_nr) {
            // By a process that is not recorded.
            Leaf::Other
        } else if has(flag::IN_OPERATION) || calls::is_storage(wait.nr) {
            Leaf::Storage
        } else if wait.nr == NO_CALL {
            Leaf::PageFault
        } else if calls::sleeps(wait.nr) {
            Leaf::Sleep
        } else if has(flag::WAKER_UNSEEN) {
            Leaf::Unresolved
        } else if has(flag::BY_TIMER) {
            Leaf::Sleep
        } else if has(flag::BY_KERNEL) || !calls::can_wake(wait.by_nr) {
            if calls::waits_for_descriptors(wait.nr) {
                Leaf::Network
            } else {
                Leaf::Other
            }
        } else if self.is_by_other_thread(wait) {
            return None;
        } else {
            Leaf::Other
        })
    }

    /// Adds what a thread waited for until it was woken.
    fn blocked(
        &mut self,
        wait: &Wait,
        leaf: Option<Leaf>,
        off: u64,
        woken: u64,
        pieces: &mut Vec<Piece>,
    ) {
        if off >= woken {
            return;
        }
        let Some(leaf) = leaf else {
            return self.copy(wait.by_tid, off, woken, pieces, DEEPEST);
        };
        let source = match leaf {
            Leaf::Storage => Source {
                leaf,
                by: Some(ProcessId::from(wait)),
                file: (!wait.file.is_none()).then_some(wait.file),
                phase: wait.phase,
            },
            _ => Source::of(leaf),
        };
        let source = self.number(source);
        pieces.push(Piece {
            start: off,
            end: woken,
            source,
        });
    }

    /// Whether a known thread woke this one, and not the thread itself.
    fn is_by_other_thread(&self, wait: &Wait) -> bool {
        self.knows(wait.by_tid, wait.by_tgid) && wait.by_tid != wait.tid
    }

    fn knows(&self, tid: u32, tgid: u32) -> bool {
        let thread = self.threads.get(&tid);
        thread.is_some_and(|thread| thread.process.pid == tgid)
    }

    /// What a thread did from `start` to `end`, when it woke another one.
    fn copy(&mut self, tid: u32, start: u64, end: u64, pieces: &mut Vec<Piece>, depth: u32) {
        let unresolved = self.number(Source::of(Leaf::Unresolved));
        let Some(thread) = self.threads.get(&tid).filter(|_| depth > 0) else {
            return put(pieces, start, end, unresolved);
        };
        let (by, known_from) = (thread.process, thread.known_from);
        let computing = match tid == by.pid || thread.is_loader() {
            true => Leaf::Computing,
            false => Leaf::ComputeThreads,
        };
        if start < known_from {
            let until = known_from.min(end);
            match thread.parent.filter(|parent| *parent != tid) {
                // Before it was born, its parent led there.
                Some(parent) => self.copy(parent, start, until, pieces, depth - 1),
                None => put(pieces, start, until, unresolved),
            }
        }
        let from = start.max(known_from);
        let computing = self.number(Source {
            by: Some(by),
            ..Source::of(computing)
        });
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        let mut at = from;
        let first = thread.pieces.partition_point(|piece| piece.end <= from);
        for piece in thread.pieces.range(first..) {
            if piece.start >= end {
                break;
            }
            put(pieces, at, piece.start, computing);
            put(
                pieces,
                piece.start.max(at),
                piece.end.min(end),
                piece.source,
            );
            at = piece.end.max(at);
        }
        put(pieces, at, end, computing);
    }

    fn number(&mut self, source: Source) -> u32 {
        let source = match self.sources.len() >= SOURCES && !self.numbers.contains_key(&source) {
            true => Source {
                file: None,
                by: None,
                ..source
            },
            false => source,
        };
        *self.numbers.entry(source).or_insert_with(|| {
            self.sources.push(source);
            self.sources.len() as u32 - 1
        })
    }
}

/// Whether a thread waited in an open for another thread, which was in an operation or an open, too: that opens the other end of a
/// FIFO. Who waits for storage is woken by the kernel, by a filesystem in user space, or cannot be woken by a signal.
fn is_for_end_of_fifo(wait: &Wait) -> bool {
    const BY_NO_THREAD: u32 = flag::BY_KERNEL | flag::BY_TIMER | flag::WAKER_UNSEEN;
    wait.state == INTERRUPTIBLE
        && calls::opens(wait.nr)
        && (wait.by_nr == NO_CALL || calls::opens(wait.by_nr))
        && wait.flags & BY_NO_THREAD == 0
}

/// A wait as the timeline has it.
fn segment(wait: &Wait, leaf: Option<Leaf>) -> Segment {
    let is_born = wait.is_born();
    let cause = match leaf {
        _ if is_born => Cause::Born,
        _ if wait.state == 0 => Cause::Preempted,
        None => Cause::Thread,
        Some(Leaf::Storage) => Cause::Storage,
        Some(Leaf::PageFault) => Cause::PageFault,
        Some(Leaf::Sleep) => Cause::Sleep,
        Some(Leaf::Network) => Cause::Network,
        Some(Leaf::Unresolved) => Cause::Unresolved,
        Some(_) => Cause::Other,
    };
    let file = (cause == Cause::Storage && !wait.file.is_none()).then_some(wait.file);
    Segment {
        process: ProcessId::from(wait),
        tid: wait.tid,
        off: wait.off,
        woken: wait.woken,
        on: wait.on,
        cause,
        by: match cause {
            Cause::Born => wait.parent(),
            Cause::Thread => Some(wait.by_tid),
            _ => None,
        },
        file,
        phase: file.map_or(0, |_| wait.phase),
    }
}

/// Adds a piece, if it has any length.
fn put(pieces: &mut Vec<Piece>, start: u64, end: u64, source: u32) {
    if start < end {
        pieces.push(Piece { start, end, source });
    }
}

impl Thread {
    /// Whether it loads data: it reads them, or works on what threads that read them pass on.
    fn is_loader(&self) -> bool {
        self.reads_data
            || self.ended_by_loader > 0
                && self.ended_by_loader * MAX_WAITS_PER_LOADER_WAKE >= self.ended
    }

    /// Forgets its oldest pieces; how many.
    fn forget(&mut self, count: usize) -> usize {
        if let Some(last) = count.checked_sub(1).and_then(|last| self.pieces.get(last)) {
            (self.known_from, self.parent) = (last.end, None);
        }
        self.pieces.drain(..count).count()
    }
}
