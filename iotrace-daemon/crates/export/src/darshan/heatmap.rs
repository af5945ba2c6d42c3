//! Records of Darshan's HEATMAP module, version 1: bytes by time and rank.

use super::{hash::record_id, ranks::Ranks};
use crate::Export;
use iotrace_model::counters::saturating_add;

/// The name that readers know the record of POSIX by.
pub const NAME: &str = "heatmap:POSIX";
/// As Darshan has them: most bins, and the width of one at first, nanoseconds.
const BINS: u64 = 200;
const FIRST_BIN_NS: u64 = 100_000_000;

/// One record for each rank; nothing where no byte moved. What was moved in one interval of the recording is spread
/// evenly from its first operation there to its last.
pub fn heatmap(export: &Export<'_>, ranks: &Ranks) -> Vec<u8> {
    let run = export.run.duration_ns.max(1);
    let mut width = FIRST_BIN_NS;
    while run.div_ceil(width) > BINS {
        width *= 2;
    }
    let bins = run.div_ceil(width) as usize;
    // Written first, then read.
    let mut bytes = vec![[vec![0_u64; bins], vec![0_u64; bins]]; ranks.count()];
    let mut any = false;
    for interval in export.intervals() {
        for ((place, phase), activity) in &interval.activities {
            let Some(rank) = ranks.of_place(*place) else {
                continue;
            };
            if *phase == 0 {
                continue; // of no file
            }
            let flow = &activity.flow;
            for (bins, moved) in bytes[rank]
                .iter_mut()
                .zip([flow.io.bytes_written, flow.io.bytes_read])
            {
                any |= moved > 0;
                spread(bins, width, (activity.first, activity.last), moved);
            }
        }
    }
    let mut out = Vec::new();
    if !any {
        return out;
    }
    for (rank, bins_of) in bytes.iter().enumerate() {
        out.extend(record_id(NAME.as_bytes()).to_le_bytes());
        out.extend((rank as i64).to_le_bytes());
        out.extend((width as f64 / 1e9).to_le_bytes());
        out.extend((bins as i64).to_le_bytes());
        out.extend([0; 16]);
        for value in bins_of.iter().flatten() {
            out.extend(i64::try_from(*value).unwrap_or(i64::MAX).to_le_bytes());
        }
    }
    out
}

/// Adds `bytes` evenly between two moments, to the byte.
fn spread(bins: &mut [u64], width: u64, (first, last): (i64, i64), bytes: u64) {
    let end = bins.len() as u64 * width;
    let first = (first.max(0) as u64).min(end - 1);
    let last = (last.max(0) as u64).clamp(first + 1, end);
    let share = |at: u64| {
        let (part, whole) = (u128::from(at - first), u128::from(last - first));
        (u128::from(bytes) * part / whole) as u64
    };
    for bin in first / width..last.div_ceil(width) {
        let (from, to) = ((bin * width).max(first), ((bin + 1) * width).min(last));
        saturating_add(&mut bins[bin as usize], share(to) - share(from));
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn bytes_are_spread_and_none_is_lost() {
        let mut bins = [0; 4];
        spread(&mut bins, 10, (5, 25), 1001);
        assert_eq!(bins.iter().sum::<u64>(), 1001);
        assert_eq!((bins[1], bins[3]), (500, 0));
        let mut bins = [0; 2];
        spread(&mut bins, 10, (-5, 3), 7);
        spread(&mut bins, 10, (90, 99), 8);
        spread(&mut bins, 10, (10, 10), 1);
        assert_eq!(bins, [7, 9]);
    }
}
