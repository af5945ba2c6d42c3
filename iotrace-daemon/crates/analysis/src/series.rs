//! What went on in each interval, by phase and by process.

use std::collections::BTreeMap;

use iotrace_model::{
    IoTotals,
    counters::{
        BYTES_FETCHED, Counters, FAILED_NS, FAILURES, FIRST_OPERATION, LAST_OPERATION,
        MAPPED_BYTES, META_NS, READ_NS, SYNC_NS, WRITE_NS, saturating_add,
    },
};
use iotrace_phases::phase::{Direction, Phase};

use super::phases::split;

/// Calls, bytes and time in calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Its merged time is exact where this is what one process did in one phase; of several it is at most this.
    pub io: IoTotals,
    /// Calls that failed.
    pub failures: u64,
    /// Bytes fetched from storage.
    pub bytes_fetched: u64,
    /// Bytes that page faults mapped.
    pub mapped_bytes: u64,
    /// Nanoseconds in calls, summed over calls and threads, as all below.
    pub read_ns: u64,
    pub write_ns: u64,
    pub meta_ns: u64,
    pub sync_ns: u64,
    pub failed_ns: u64,
}

impl Flow {
    /// What these counters hold.
    pub fn of(counters: &Counters) -> Self {
        let v = &counters.v;
        Self {
            io: IoTotals::of(counters),
            failures: v[FAILURES],
            bytes_fetched: v[BYTES_FETCHED],
            mapped_bytes: v[MAPPED_BYTES],
            read_ns: v[READ_NS],
            write_ns: v[WRITE_NS],
            meta_ns: v[META_NS],
            sync_ns: v[SYNC_NS],
            failed_ns: v[FAILED_NS],
        }
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.io.add(&other.io);
        saturating_add(&mut self.failures, other.failures);
        saturating_add(&mut self.bytes_fetched, other.bytes_fetched);
        saturating_add(&mut self.mapped_bytes, other.mapped_bytes);
        saturating_add(&mut self.read_ns, other.read_ns);
        saturating_add(&mut self.write_ns, other.write_ns);
        saturating_add(&mut self.meta_ns, other.meta_ns);
        saturating_add(&mut self.sync_ns, other.sync_ns);
        saturating_add(&mut self.failed_ns, other.failed_ns);
    }
}

/// When one process was in calls of one phase, within one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The calls lie between these moments, `CLOCK_MONOTONIC` nanoseconds.
    pub first: u64,
    pub last: u64,
    /// Merged time.
    pub ns: u64,
}

impl Span {
    /// Of some calls.
    fn of(counters: &Counters, ns: u64) -> Self {
        Self {
            first: counters.v[FIRST_OPERATION],
            last: counters.v[LAST_OPERATION],
            ns,
        }
    }

    /// Adds calls of the same process.
    pub fn add(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        saturating_add(&mut self.ns, other.ns);
    }

    /// From when to when the merged time is. The end of a call also accounts for other calls in flight: if one of them
    /// began before the interval, it has been so without a gap.
    pub fn bounds(&self) -> (u64, u64) {
        let end = self.last.max(self.first);
        (self.first.min(end.saturating_sub(self.ns)), end)
    }
}

/// From the start of the first to the end of the last of some calls, `CLOCK_MONOTONIC` nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Nothing was counted.
    #[default]
    Empty,
    Known {
        first: u64,
        last: u64,
    },
    /// Of something that was counted the time is not known.
    Unknown,
}

impl Extent {
    fn of(counters: &Counters) -> Self {
        let (first, last) = (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]);
        if first == 0 || last < first {
            return Self::Unknown;
        }
        Self::Known { first, last }
    }

    /// Adds calls that amount to `flow`.
    fn extend(&mut self, flow: &Flow, counters: &Counters) {
        if !flow.io.is_zero() {
            *self = self.join(Self::of(counters));
        }
    }

    /// Of both.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Empty, one) | (one, Self::Empty) => one,
            (
                Self::Known { first, last },
                Self::Known {
                    first: other_first,
                    last: other_last,
                },
            ) => Self::Known {
                first: first.min(other_first),
                last: last.max(other_last),
            },
            _ => Self::Unknown,
        }
    }
}

/// What one process did in a step, with its calls that opened no file.
#[derive(Clone, Copy, Debug)]
pub struct OfProcess {
    pub process: u32,
    pub flow: Flow,
    /// When it did it.
    pub extent: Extent,
}

/// One step: what was counted between two drains.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Nanoseconds since the start of the run.
    pub start_ns: i64,
    pub end_ns: i64,
    /// By the place of the phase in [`Phase::ALL`]; calls that opened no file are in none.
    pub phases: [Flow; Phase::ALL.len()],
    /// By process and the place of the phase, where there is merged time.
    pub merged: Vec<((u32, usize), Span)>,
    /// In order of their index.
    pub processes: Vec<OfProcess>,
    /// When it was done, by the place of the phase; then of calls that opened no file.
    pub extents: [Extent; Phase::ALL.len() + 1],
}

/// All steps in which something happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub slices: Vec<Slice>,
}

/// A slice that is being filled.
#[derive(Default)]
pub(super) struct Filling {
    bounds: Option<(i64, i64)>,
    phases: [Flow; Phase::ALL.len()],
    processes: BTreeMap<u32, (Flow, Extent)>,
    extents: [Extent; Phase::ALL.len() + 1],
    /// By process and phase.
    merged: BTreeMap<(u32, usize), Span>,
    series: Series,
}

impl Filling {
    /// Adds what one process did between two moments.
    pub fn add(
        &mut self,
        bounds: (i64, i64),
        process: u32,
        phases: &[(Phase, Direction)],
        counters: &Counters,
    ) {
        let flow = Flow::of(counters);
        if self.bounds != Some(bounds) {
            self.close();
            self.bounds = Some(bounds);
        }
        let (of_process, extent) = self.processes.entry(process).or_default();
        of_process.add(&flow);
        extent.extend(&flow, counters);
        if phases.is_empty() {
            self.extents[Phase::ALL.len()].extend(&flow, counters);
        }
        let apart = (phases.len() > 1).then(|| {
            let (reads, rest) = split(counters);
            (Flow::of(&reads), Flow::of(&rest))
        });
        for (phase, direction) in phases {
            let part = match (apart, direction) {
                (None, _) => flow,
                (Some((reads, _)), Direction::Read) => reads,
                (Some((_, rest)), Direction::Write) => rest,
            };
            let phase = usize::from(phase.code()) - 1;
            self.phases[phase].add(&part);
            self.extents[phase].extend(&part, counters);
            let span = Span::of(counters, part.io.merged_ns);
            if span.ns > 0 {
                let entry = self.merged.entry((process, phase));
                entry.and_modify(|known| known.add(&span)).or_insert(span);
            }
        }
    }

    fn close(&mut self) {
        let Some((start_ns, end_ns)) = self.bounds.take() else {
            return;
        };
        self.series.slices.push(Slice {
            start_ns,
            end_ns,
            phases: std::mem::take(&mut self.phases),
            merged: std::mem::take(&mut self.merged).into_iter().collect(),
            processes: std::mem::take(&mut self.processes)
                .into_iter()
                .map(|(process, (flow, extent))| OfProcess {
                    process,
                    flow,
                    extent,
                })
                .collect(),
            extents: std::mem::take(&mut self.extents),
        });
    }

    /// The series.
    pub fn finish(mut self) -> Series {
        self.close();
        self.series
    }
}
