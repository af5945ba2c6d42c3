//! What a page draws of many operations, bounded however many there are: a lane for each of the files, and of the threads,
//! with the most time; the longest operations of these lanes one by one; all others of them summed in bins.
//!
//! The operations are visited twice, and never held.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use iotrace_common::op::{self, class};
use iotrace_model::{IoTotals, counters::saturating_add};

/// Lanes of a view.
pub const MAX_LANES: usize = 24;
/// Operations that are drawn one by one.
const MAX_SINGLE: usize = 8_000;
/// Sums by view, lane, bin and kind. At least 32 bins fit in any case.
const MAX_CELLS: usize = 10_000;
/// Bins before they are joined.
const FIRST_BINS: u64 = 1 << 10;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    /// Nanoseconds since the start of the run.
    pub start: i64,
    /// Its duration, nanoseconds.
    pub ns: u64,
    /// Class ([`op`]).
    pub op: u32,
    /// Bytes, or a negative error number.
    pub result: i64,
    /// The number of its file, and of its thread.
    pub keys: [u32; VIEWS],
}

/// Lanes are files, or threads.
pub const VIEWS: usize = 2;

impl Operation {
    /// Bytes that it moved.
    pub fn bytes(&self) -> u64 {
        match op::moves_bytes(self.op as usize) {
            true => u64::try_from(self.result).unwrap_or(0),
            false => 0,
        }
    }

    fn sum(&self) -> IoTotals {
        let is_read = op::is_read(self.op as usize);
        let (bytes_read, bytes_written) = match is_read {
            true => (self.bytes(), 0),
            false => (0, self.bytes()),
        };
        IoTotals {
            operations: 1,
            bytes_read,
            bytes_written,
            ns: self.ns,
            merged_ns: 0,
        }
    }

    fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.ns)
    }
}

/// By which an operation is coloured: its place among the kinds of the page.
pub const fn kind(op: usize) -> u8 {
    match op::class_of(op) {
        class::READ => 0,
        class::WRITE => 1,
        class::SYNC => 2,
        _ => 3,
    }
}

/// What is drawn.
pub struct Drawn {
    /// Of all operations.
    pub whole: IoTotals,
    pub views: [View; VIEWS],
    /// By their start.
    pub single: Vec<Operation>,
    /// The longest of those that are summed in bins, nanoseconds; none where all are drawn one by one.
    pub longest_binned_ns: Option<u64>,
    pub bins: Bins,
}

/// Lanes by file, or by thread.
#[derive(Default)]
pub struct View {
    /// The number of the file or thread, and its sum, the most time first.
    pub lanes: Vec<(u32, IoTotals)>,
    /// Files or threads that have no lane.
    pub others: u64,
    /// What was done in these.
    pub rest: IoTotals,
    /// The lane of each file or thread.
    lane_of: BTreeMap<u32, u8>,
}

/// View, lane, bin, kind.
type Place = (u8, u8, u64, u8);

/// What is not drawn one by one.
pub struct Bins {
    /// Where the first one begins, nanoseconds since the start of the run.
    pub start: i64,
    /// Nanoseconds.
    pub width: u64,
    pub cells: BTreeMap<Place, Cell>,
}

/// Operations and bytes are in the bin in which an operation began; its time is in each bin that it lasted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub operations: u64,
    pub bytes: u64,
    pub ns: u64,
}

/// Visits every operation, in the same order each time.
pub trait Each {
    type Error;
    fn each(&mut self, visit: &mut dyn FnMut(Operation)) -> Result<(), Self::Error>;
}

impl Drawn {
    pub fn new<E: Each>(operations: &mut E) -> Result<Self, E::Error> {
        let mut whole = IoTotals::default();
        let mut sums: [Vec<IoTotals>; VIEWS] = Default::default();
        let (mut start, mut end) = (i64::MAX, i64::MIN);
        operations.each(&mut |one| {
            let sum = one.sum();
            whole.add(&sum);
            for (sums, key) in sums.iter_mut().zip(one.keys) {
                let key = key as usize;
                if sums.len() <= key {
                    sums.resize(key + 1, IoTotals::default());
                }
                sums[key].add(&sum);
            }
            start = start.min(one.start);
            end = end.max(one.end());
        })?;
        let mut drawn = Self {
            whole,
            views: sums.map(View::new),
            single: Vec::new(),
            longest_binned_ns: None,
            bins: Bins::new(start, end),
        };
        // The shortest is on top; of two that last as long the one that came later.
        let mut longest = BinaryHeap::with_capacity(MAX_SINGLE + 1);
        let mut number = 0_u64;
        operations.each(&mut |one| {
            number += 1;
            if drawn.places(&one).next().is_none() {
                return;
            }
            longest.push(Reverse((one.ns, Reverse(number), one)));
            if longest.len() > MAX_SINGLE
                && let Some(Reverse((_, _, shortest))) = longest.pop()
            {
                drawn.add_to_bins(&shortest);
            }
        })?;
        let mut single: Vec<Operation> =
            longest.into_iter().map(|Reverse((.., one))| one).collect();
        single.sort_unstable();
        drawn.single = single;
        drawn.bins.join();
        Ok(drawn)
    }

    /// The views in which an operation has a lane, with the lane.
    fn places(&self, one: &Operation) -> impl Iterator<Item = (u8, u8)> {
        let views = (0..).zip(&self.views).zip(one.keys);
        views.filter_map(|((view, lanes), key)| Some((view, *lanes.lane_of.get(&key)?)))
    }

    fn add_to_bins(&mut self, one: &Operation) {
        self.longest_binned_ns = self.longest_binned_ns.max(Some(one.ns));
        let places: Vec<(u8, u8)> = self.places(one).collect();
        for (view, lane) in places {
            self.bins.add(view, lane, one);
        }
    }
}

impl View {
    /// Gives lanes to those with the most time.
    fn new(sums: Vec<IoTotals>) -> Self {
        let mut order: Vec<(u32, IoTotals)> = (0..).zip(sums).collect();
        order.retain(|(_, sum)| sum.operations > 0);
        order.sort_unstable_by_key(|(key, sum)| (Reverse((sum.ns, sum.operations)), *key));
        let mut view = Self::default();
        for (_, sum) in order.drain(MAX_LANES.min(order.len())..) {
            view.others += 1;
            view.rest.add(&sum);
        }
        let keys = order.iter().map(|(key, _)| *key);
        view.lane_of = keys.zip(0..).collect();
        view.lanes = order;
        view
    }
}

impl Bins {
    /// Bins from the first start to the last end.
    fn new(start: i64, end: i64) -> Self {
        let length = u64::try_from(end.saturating_sub(start)).unwrap_or(0);
        Self {
            start,
            width: length.div_ceil(FIRST_BINS).max(1),
            cells: BTreeMap::new(),
        }
    }

    fn add(&mut self, view: u8, lane: u8, one: &Operation) {
        let from = one.start.abs_diff(self.start);
        let (first, end) = (from / self.width, from.saturating_add(one.ns));
        let kind = kind(one.op as usize);
        let mut at = from;
        for bin in first.. {
            let until = end.min((bin + 1).saturating_mul(self.width));
            let cell = self.cells.entry((view, lane, bin, kind)).or_default();
            saturating_add(&mut cell.ns, until - at);
            if bin == first {
                saturating_add(&mut cell.operations, 1);
                saturating_add(&mut cell.bytes, one.bytes());
            }
            at = until;
            if at == end {
                break;
            }
        }
    }

    /// Makes two bins one until there are few enough cells.
    fn join(&mut self) {
        while self.cells.len() > MAX_CELLS {
            self.width *= 2;
            for ((view, lane, bin, kind), cell) in std::mem::take(&mut self.cells) {
                let joined = self.cells.entry((view, lane, bin / 2, kind)).or_default();
                saturating_add(&mut joined.operations, cell.operations);
                saturating_add(&mut joined.bytes, cell.bytes);
                saturating_add(&mut joined.ns, cell.ns);
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::convert::Infallible;

    use super::*;

    const ENOSPC: i64 = 28;

    /// As many operations as wanted, of any shape.
    pub struct Made<F>(pub u64, pub F);

    impl<F: Fn(u64) -> Operation> Each for Made<F> {
        type Error = Infallible;
        fn each(&mut self, visit: &mut dyn FnMut(Operation)) -> Result<(), Infallible> {
            (0..self.0).for_each(|number| visit((self.1)(number)));
            Ok(())
        }
    }

    /// Operations of all kinds and lengths, by hundreds of threads on thousands of files.
    pub fn made(number: u64) -> Operation {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let op = [op::READ, op::WRITE, op::FSYNC, op::OPEN, op::TRANSFER_READ][number as usize % 5];
        Operation {
            start: -500 + number as i64 * 1_000,
            ns: mixed % 1_000 * (mixed % 7) * (1 + mixed % 3 * 1_000),
            op: op as u32,
            result: match mixed % 11 {
                0 => -ENOSPC,
                _ => (mixed % (1 << 20)) as i64,
            },
            keys: [((mixed >> 8) % 3_000) as u32, ((mixed >> 20) % 400) as u32],
        }
    }

    fn drawn(count: u64, one: impl Fn(u64) -> Operation) -> Drawn {
        let Ok(drawn) = Drawn::new(&mut Made(count, one));
        drawn
    }

    /// Operations, bytes and nanoseconds of each lane of a view.
    fn sums_by_lane(drawn: &Drawn, view: u8) -> Vec<[u64; 3]> {
        let lanes = &drawn.views[usize::from(view)];
        let mut sums = vec![[0; 3]; lanes.lanes.len()];
        for one in &drawn.single {
            let places = drawn.places(one).filter(|(of, _)| *of == view);
            for (_, lane) in places {
                let sum = &mut sums[usize::from(lane)];
                *sum = [sum[0] + 1, sum[1] + one.bytes(), sum[2] + one.ns];
            }
        }
        for ((_, lane, ..), cell) in drawn.bins.cells.iter().filter(|(place, _)| place.0 == view) {
            let sum = &mut sums[usize::from(*lane)];
            *sum = [
                sum[0] + cell.operations,
                sum[1] + cell.bytes,
                sum[2] + cell.ns,
            ];
        }
        sums
    }

    #[test]
    fn nothing_is_lost_between_lanes_bins_and_the_rest() {
        let drawn = drawn(1_000_000, made);
        assert_eq!(drawn.whole.operations, 1_000_000);
        assert_eq!(drawn.single.len(), MAX_SINGLE);
        assert!(
            drawn.bins.cells.len() <= MAX_CELLS,
            "{}",
            drawn.bins.cells.len()
        );
        let limit = drawn.longest_binned_ns.expect("some are in bins");
        let is_longest = drawn.single.iter().all(|one| one.ns >= limit);
        assert!(
            is_longest,
            "an operation in a bin is longer than one that is drawn"
        );
        for (number, view) in (0..).zip(&drawn.views) {
            assert_eq!(view.lanes.len(), MAX_LANES);
            let mut whole = view.rest;
            for ((_, sum), shown) in view.lanes.iter().zip(sums_by_lane(&drawn, number)) {
                assert_eq!(shown, [sum.operations, sum.bytes(), sum.ns]);
                whole.add(sum);
            }
            assert_eq!(whole, drawn.whole);
            let least = view.lanes.last().map(|(_, sum)| sum.ns);
            assert!(view.lanes.is_sorted_by_key(|(_, sum)| Reverse(sum.ns)));
            assert!(
                least > Some(view.rest.ns / view.others),
                "the rest has more time"
            );
        }
    }

    #[test]
    fn few_operations_are_all_drawn_one_by_one() {
        let few = drawn(MAX_SINGLE as u64, |number| Operation {
            keys: [0, number as u32 % 2],
            ..made(number)
        });
        assert_eq!(few.single.len(), MAX_SINGLE);
        assert!(few.bins.cells.is_empty() && few.longest_binned_ns.is_none());
        // One more, and the shortest of them is in a bin.
        let more = drawn(MAX_SINGLE as u64 + 1, |number| Operation {
            keys: [0, 0],
            ns: 100 + number,
            ..made(number)
        });
        assert_eq!(more.longest_binned_ns, Some(100));
        let of_files = more.bins.cells.iter().filter(|(place, _)| place.0 == 0);
        let sum: u64 = of_files.map(|(_, cell)| cell.operations).sum();
        assert_eq!(sum, 1);
    }

    #[test]
    fn time_is_in_each_bin_that_an_operation_lasted_in() {
        let mut bins = Bins {
            start: 100,
            width: 10,
            cells: BTreeMap::new(),
        };
        let one = Operation {
            start: 115,
            ns: 20,
            op: op::READ as u32,
            result: 7,
            keys: [0, 0],
        };
        bins.add(0, 3, &one);
        let cells: Vec<_> = bins
            .cells
            .iter()
            .map(|(place, cell)| (place.2, cell.operations, cell.bytes, cell.ns))
            .collect();
        assert_eq!(cells, [(1, 1, 7, 5), (2, 0, 0, 10), (3, 0, 0, 5)]);
        // What takes no time is in a bin, too.
        bins.add(1, 0, &Operation { ns: 0, ..one });
        assert_eq!(bins.cells[&(1, 0, 1, 0)].operations, 1);
    }

    #[test]
    fn a_trace_of_nothing_has_no_lanes() {
        let none = drawn(0, made);
        assert_eq!(none.whole, IoTotals::default());
        assert!(none.views.iter().all(|view| view.lanes.is_empty()));
    }
}
