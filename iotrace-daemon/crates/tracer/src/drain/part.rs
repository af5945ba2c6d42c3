//! The part of a batch that is of some processes, for those who asked for these alone.

use iotrace_common::{
    key::{FailureKey, FileId, IoKey, LookKey},
    lines::LineKey,
    value::Io,
};
use iotrace_model::input::{Event, ProcessId};

use super::{Batch, batch::Entries, events::header};
use crate::kernel::recordings::Kept;

/// A key that says whose counters these are.
pub(super) trait Key: Copy {
    fn process(&self) -> ProcessId;

    fn file(&self) -> FileId {
        FileId::NONE
    }
}

impl Key for IoKey {
    fn process(&self) -> ProcessId {
        self.into()
    }

    fn file(&self) -> FileId {
        self.file
    }
}

impl Key for FailureKey {
    fn process(&self) -> ProcessId {
        self.io.process()
    }

    fn file(&self) -> FileId {
        self.io.file
    }
}

impl Key for LookKey {
    fn process(&self) -> ProcessId {
        self.into()
    }
}

impl Key for LineKey {
    fn process(&self) -> ProcessId {
        self.into()
    }
}

impl Batch {
    /// The counters of processes and files that `is_wanted` accepts; `None` if there are none. Counters of the whole machine
    /// are no process's, and events are divided by who knows what each means.
    pub fn part(&self, mut is_wanted: impl FnMut(ProcessId, FileId) -> bool) -> Option<Self> {
        let wanted = &mut is_wanted;
        Some(match self {
            Self::Basic(entries) => Self::Basic(part(entries, wanted)?),
            Self::Full(entries) => Self::Full(part(entries, wanted)?),
            Self::BasicOverflow(entries) => Self::BasicOverflow(part(entries, wanted)?),
            Self::FullOverflow(entries) => Self::FullOverflow(part(entries, wanted)?),
            Self::Latencies(entries) => Self::Latencies(part(entries, wanted)?),
            Self::Failures(entries) => Self::Failures(part(entries, wanted)?),
            Self::NegativeLookups(entries) => Self::NegativeLookups(part(entries, wanted)?),
            Self::Threads(look) => {
                Self::Threads(look.part(|process| wanted(process, FileId::NONE)))
            }
            Self::Operations(traced) => {
                let part = traced.part(wanted);
                Self::Operations((!part.is_empty()).then_some(part)?)
            }
            Self::LineRecords(records) => {
                let is_wanted = |record: &&Vec<u8>| {
                    header(record).is_some_and(|header| wanted((&header).into(), FileId::NONE))
                };
                let part: Vec<_> = records.iter().filter(is_wanted).cloned().collect();
                Self::LineRecords((!part.is_empty()).then_some(part)?)
            }
            Self::LineCounts(entries) => Self::LineCounts(part(entries, wanted)?),
            _ => return None,
        })
    }

    /// What it has of all processes, where `kept` is kept of them; `None` for what is kept of those of recordings alone.
    pub fn of_all(self, kept: Kept) -> Option<Self> {
        let is_name = |event: &Event| matches!(event, Event::NegativeLookup { .. });
        match self {
            Self::Events(mut events) => {
                events.retain(|event| !is_name(event));
                Some(Self::Events(events))
            }
            counters => counters.is_of(kept).then_some(counters),
        }
    }

    /// Whether it has something at all for who wants no more than this.
    pub fn is_of(&self, kept: Kept) -> bool {
        match self {
            Self::Full(_) | Self::FullOverflow(_) => kept.full,
            Self::NegativeLookups(_) => kept.negative_lookups,
            Self::Threads(_) => kept.cpu,
            Self::Latencies(_) => kept.latencies,
            Self::WaitRecords(_) => kept.waits,
            Self::Operations(_) => kept.trace,
            Self::LineRecords(_) | Self::LineCounts(_) => kept.lines.are_some(),
            _ => true,
        }
    }

    /// Bytes in memory, about; 0 for what is never handed on.
    pub fn size(&self) -> usize {
        /// Of an event: its names are short.
        const EVENT_BYTES: usize = 256;
        match self {
            Self::Events(events) => events.len() * EVENT_BYTES,
            Self::Basic(entries) | Self::BasicOverflow(entries) => bytes(entries),
            Self::Full(entries) | Self::FullOverflow(entries) => bytes(entries),
            Self::Latencies(entries) => bytes(entries),
            Self::Failures(entries) => bytes(entries),
            Self::NegativeLookups(entries) => bytes(entries),
            Self::Threads(look) => size_of_val(&look.threads[..]),
            Self::WaitRecords(records) => size_of_val(&records.waits[..]),
            Self::Operations(traced) => {
                size_of_val(&traced.operations[..]) + size_of_val(&traced.missing[..])
            }
            Self::LineRecords(records) => records.iter().map(Vec::len).sum(),
            Self::LineCounts(entries) => bytes(entries),
            _ => 0,
        }
    }

    /// Successful operations in it, and the bytes that they moved.
    pub fn operations(&self) -> (u64, u64) {
        match self {
            Self::Basic((_, values)) | Self::BasicOverflow((_, values)) => sum(values),
            _ => (0, 0),
        }
    }
}

fn part<K: Key, V: Copy>(
    (keys, values): &Entries<K, V>,
    is_wanted: &mut impl FnMut(ProcessId, FileId) -> bool,
) -> Option<Entries<K, V>> {
    let both = keys.iter().zip(values);
    let wanted = both.filter(|(key, _)| is_wanted(key.process(), key.file()));
    let part: Entries<K, V> = wanted.map(|(key, value)| (*key, *value)).unzip();
    (!part.0.is_empty()).then_some(part)
}

fn bytes<K, V>((keys, values): &Entries<K, V>) -> usize {
    size_of_val(&keys[..]) + size_of_val(&values[..])
}

fn sum(values: &[Io]) -> (u64, u64) {
    values.iter().fold((0, 0), |(calls, bytes), io| {
        let add = |sum: u64, calls: &_| sum.saturating_add(u64::from(*calls));
        let moved = io.bytes_read.saturating_add(io.bytes_written);
        (
            io.calls.iter().fold(calls, add),
            bytes.saturating_add(moved),
        )
    })
}
