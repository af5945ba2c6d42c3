//! How a process used a file: which direction what it did counts as.

use super::{
    context::Sorted,
    phase::{Direction, Phase},
};
use iotrace_common::op;
use iotrace_model::counters::*;

/// How one process used one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// What it counts as: written, where any byte was, by a call or by a store to a mapping.
    pub main: Direction,
    /// Whether its reads are of another phase.
    pub reads_apart: bool,
}

impl Used {
    /// How a file was used, by its counters.
    pub fn new(counters: &Counters, file: &Sorted) -> Self {
        let v = &counters.v;
        let read = counters.calls(op::is_read) > 0;
        // By calls, or by stores to a mapping.
        let written = counters.calls(op::is_write) > 0 || v[MAPPED_BYTES_DIRTIED] > 0;
        let changed = counters.calls(op::changes) > 0;
        // Opened for writing, without a write: what its other calls took is with writes.
        let opened = v[UNION_READ_NS] == 0 && v[UNION_WRITE_NS] > 0;
        let is_written = written || (!read && v[MMAPS] == 0 && (changed || opened));
        let apart = file.phase(Direction::Read) != file.phase(Direction::Write);
        Self {
            main: if is_written {
                Direction::Write
            } else {
                Direction::Read
            },
            reads_apart: is_written && read && apart,
        }
    }

    /// Whether what counts in this direction has the reads.
    pub fn has_reads(&self, direction: Direction) -> bool {
        direction == Direction::Read || !self.reads_apart
    }

    /// The phases that what was done belongs to, each with its direction: one, or two where reads are apart.
    pub fn phases(
        &self,
        file: &Sorted,
    ) -> impl Iterator<Item = (Phase, Direction)> + Clone + use<> {
        let main = (file.phase(self.main), self.main);
        let read = (file.phase(Direction::Read), Direction::Read);
        let apart = self.reads_apart;
        [main, read].into_iter().take(1 + usize::from(apart))
    }
}
