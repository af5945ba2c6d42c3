//! Runs of one job at different sizes: how the bandwidth and the time of each component grow with the ranks.

use serde::Serialize;

use super::{Report, merged::share};
use iotrace_analysis::epochs::Epoch;
use iotrace_model::counters::{BYTES_READ, BYTES_WRITTEN, READ_NS};
use iotrace_phases::phase::Phase;

/// One run of a table.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleRow {
    pub name: String,
    /// Processes that read training data, each with its workers; at least 1.
    pub ranks: u64,
    pub seconds: f64,
    /// Complete epochs, and the median time of those whose times are known.
    pub epochs: u64,
    pub epoch_seconds: Option<f64>,
    /// Bytes of training data that were read, and of checkpoints that were written.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Bytes of training data read, by the length of the run.
    pub throughput_bytes_per_second: f64,
    /// Mean over the ranks of their bytes by their time in reads, summed over their workers; `None` without reads.
    pub bandwidth_per_rank_bytes_per_second: Option<f64>,
    /// Shares of the run in reads of training data and in checkpoints, at most, of 1.
    pub read_share: f64,
    pub checkpoint_share: f64,
    /// Throughput as a share of the first run's, times the ratio of the ranks: 1 is the ideal line. `None` where one of the two
    /// read no training data.
    pub efficiency: Option<f64>,
}

impl Report<'_> {
    /// The run as a row, not compared with others yet.
    pub fn scale_row(&self, name: String) -> ScaleRow {
        let ranks = &self.analysis.balance.ranks;
        let seconds = self.run.duration_ns as f64 / 1e9;
        let of = |phase: Phase, counter: usize| {
            let sum = self.phases.get(phase);
            sum.map_or(0, |sum| sum.sum.counters.v[counter])
        };
        let bytes_read = of(Phase::Training, BYTES_READ);
        let bandwidths: Vec<f64> = match ranks {
            Some(ranks) => {
                let shares = ranks.shares.iter().filter(|share| share.read_ns > 0);
                shares
                    .map(|share| share.bytes as f64 * 1e9 / share.read_ns as f64)
                    .collect()
            }
            None => match of(Phase::Training, READ_NS) {
                0 => Vec::new(),
                ns => vec![bytes_read as f64 * 1e9 / ns as f64],
            },
        };
        let epochs = self.analysis.epochs.epochs.iter();
        let complete: Vec<&Epoch> = epochs.filter(|epoch| epoch.is_complete()).collect();
        let known = complete.iter().filter(|epoch| epoch.is_exact);
        let mut times: Vec<i64> = known.map(|epoch| epoch.end - epoch.start).collect();
        times.sort_unstable();
        let share_of = |phase: Phase| {
            let time = self.file_time(|one| one == phase);
            share(time.at_most, self.run.duration_ns)
        };
        ScaleRow {
            name,
            ranks: ranks.as_ref().map_or(1, |ranks| ranks.shares.len() as u64),
            seconds,
            epochs: complete.len() as u64,
            epoch_seconds: times.get(times.len() / 2).map(|ns| *ns as f64 / 1e9),
            bytes_read,
            bytes_written: of(Phase::Checkpoint, BYTES_WRITTEN),
            throughput_bytes_per_second: bytes_read as f64 / seconds.max(f64::MIN_POSITIVE),
            bandwidth_per_rank_bytes_per_second: (!bandwidths.is_empty())
                .then(|| bandwidths.iter().sum::<f64>() / bandwidths.len() as f64),
            read_share: share_of(Phase::Training),
            checkpoint_share: share_of(Phase::Checkpoint),
            efficiency: None,
        }
    }
}

/// Puts runs in order of their ranks, and compares each with the first.
pub fn compare(rows: &mut [ScaleRow]) {
    rows.sort_by(|a, b| a.ranks.cmp(&b.ranks).then_with(|| a.name.cmp(&b.name)));
    let Some(first) = rows.first().cloned() else {
        return;
    };
    for row in rows {
        let growth = row.ranks as f64 / first.ranks as f64;
        let ideal = first.throughput_bytes_per_second * growth;
        let is_known = first.bytes_read > 0 && row.bytes_read > 0;
        row.efficiency = is_known.then(|| row.throughput_bytes_per_second / ideal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ranks: u64, bytes_read: u64) -> ScaleRow {
        ScaleRow {
            name: name.into(),
            ranks,
            seconds: 10.0,
            epochs: 0,
            epoch_seconds: None,
            bytes_read,
            bytes_written: 0,
            throughput_bytes_per_second: bytes_read as f64 / 10.0,
            bandwidth_per_rank_bytes_per_second: None,
            read_share: 0.0,
            checkpoint_share: 0.0,
            efficiency: None,
        }
    }

    #[test]
    fn a_run_that_read_no_training_data_has_no_efficiency() {
        let mut rows = [row("b", 2, 150), row("a", 1, 100), row("c", 4, 0)];
        compare(&mut rows);
        assert_eq!(
            rows.each_ref().map(|row| row.efficiency),
            [Some(1.0), Some(0.75), None]
        );
        let mut rows = [row("a", 1, 0), row("b", 2, 150)];
        compare(&mut rows);
        assert_eq!(rows.each_ref().map(|row| row.efficiency), [None; 2]);
    }
}
