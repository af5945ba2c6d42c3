//! Waits with a timeout that passed, after which the thread waits in the same call again: a reader of a queue looks every few
//! seconds whether its worker lives. All of them are one wait, and what ends the last is what the thread waited for.
//!
//! They are held back until then. If the thread goes on to something else, it slept.

use std::collections::VecDeque;

use iotrace_common::waits::Wait;
use iotrace_model::timeline::Segment;

use super::resolve::Piece;

/// How long a thread runs at most between two waits of one loop, nanoseconds; and the same as a part of the first wait.
const CHECK_NS: u64 = 1_000_000;
const CHECK_PART: u64 = 100;
/// Waits of one loop that are held back, and for how long, nanoseconds. The thread slept in those before them.
const MAX_HELD: usize = 512;
const MAX_HELD_NS: u64 = 600_000_000_000;

/// Waits of one thread that are held back.
#[derive(Default)]
pub struct Held {
    /// The call it waits in.
    nr: i32,
    /// How long the last wait took until its timeout, nanoseconds, and when the thread ran again.
    last_ns: u64,
    on: u64,
    /// For how long it has run since then.
    ran_ns: u64,
    /// From when the thread left the CPU until the timeout: sleep, as far as is known.
    pub pieces: VecDeque<Piece>,
    /// What the timeline has of the thread since the first of them.
    pub segments: VecDeque<Segment>,
}

/// What a wait means for those that are held back before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing yet.
    None,
    /// The thread did something else: they were sleep.
    Slept,
    /// It ends them, too.
    Ends,
}

impl Held {
    /// `ran_ns`: for how long the thread ran before the wait; `is_timeout`: the wait ended by its timeout.
    pub fn meaning(&mut self, wait: &Wait, ran_ns: u64, is_timeout: bool) -> Meaning {
        if self.pieces.is_empty() {
            return Meaning::None;
        }
        self.ran_ns = self.ran_ns.saturating_add(ran_ns);
        let has_ended = wait.state == 0 && wait.off == wait.on;
        if has_ended || self.ran_ns > CHECK_NS.max(self.last_ns / CHECK_PART) {
            return Meaning::Slept;
        }
        let is_repeated = wait.state != 0 && wait.nr == self.nr;
        match (is_repeated, is_timeout) {
            (true, false) => Meaning::Ends,
            (false, true) => Meaning::Slept,
            _ => Meaning::None,
        }
    }

    /// Holds the piece of a wait back that ended by its timeout.
    pub fn hold(&mut self, wait: &Wait, piece: Piece, on: u64) {
        (self.nr, self.last_ns) = (wait.nr, piece.end - piece.start);
        (self.on, self.ran_ns) = (on, 0);
        self.pieces.push_back(piece);
    }

    /// Takes the first pieces, as long as there are too many or they are too old, with their segments.
    pub fn take_over(&mut self) -> Self {
        let mut over = Self::default();
        while let Some(first) = self.pieces.front()
            && (self.pieces.len() > MAX_HELD || self.on.saturating_sub(first.start) > MAX_HELD_NS)
        {
            over.pieces.extend(self.pieces.pop_front());
        }
        if !over.pieces.is_empty() {
            let first = self.pieces.front().map_or(u64::MAX, |piece| piece.start);
            let count = self.segments.partition_point(|segment| segment.off < first);
            over.segments.extend(self.segments.drain(..count));
        }
        over
    }
}
