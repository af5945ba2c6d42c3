//! What was done on files: by unit, phase and mount, and the histograms by phase.

use std::{collections::BTreeMap, fmt};

use iotrace_common::{
    bucket::SIZE_BOUNDS,
    histogram::{DURATION_BOUNDS, Histograms},
    op::{self, class},
};
use prometheus_client::{
    encoding::{EncodeCounterValue, NoLabelSet},
    metrics::MetricType,
    registry::Unit,
};

use super::out::{Label, Out, label, mount_labels, phase_name, seconds, unit_labels};
use crate::totals::{Cell, ERRNO_OTHER, Key, Totals, Value};
use iotrace_model::{
    counters::{
        Unit as Measure, saturating_sum,
        shown::{METRICS, Metric, Source},
    },
    errno,
};
use iotrace_phases::phase::Phase;
use iotrace_tracer::kernel::ByPhase;

impl Out<'_> {
    pub fn io(&mut self, totals: &Totals) -> fmt::Result {
        for metric in &METRICS {
            let series: Vec<_> = match metric.source {
                Source::Counters(series) => (series.iter())
                    .map(|one| (one.operation, Value::Counter(one.counter)))
                    .collect(),
                Source::MergedTime => vec![("", Value::MergedTime)],
                Source::FilesSeen => vec![("", Value::FilesSeen)],
                Source::Errors => {
                    self.errors(totals, metric)?;
                    continue;
                }
            };
            let named = |unit| (metric.name, unit, metric.help);
            match metric.unit {
                Measure::Nanoseconds => {
                    self.cells(totals, named(Some(&Unit::Seconds)), &series, seconds)?
                }
                Measure::Bytes => self.cells(totals, named(Some(&Unit::Bytes)), &series, |n| n)?,
                _ => self.cells(totals, named(None), &series, |n| n)?,
            }
        }
        Ok(())
    }

    fn errors(&mut self, totals: &Totals, metric: &Metric) -> fmt::Result {
        let of_cell = |(key, cell): (&Key, &Cell)| {
            let key = *key;
            let errors: Vec<_> = cell.errors().collect();
            errors.into_iter().map(move |((op, errno), count)| {
                let mut labels = cell_labels(totals, key);
                let operation = op::NAMES.get(op as usize).copied().unwrap_or("unknown");
                labels.push(label("operation", operation));
                labels.push(match errno {
                    ERRNO_OTHER => label("errno", "other"),
                    errno => label("errno", errno::name(errno)),
                });
                (labels, count)
            })
        };
        let rows = totals.cells().iter().flat_map(of_cell);
        self.counters(metric.name, None, metric.help, rows)
    }

    /// One counter of every cell, `names` labelled by what it counts.
    fn cells<N: EncodeCounterValue>(
        &mut self,
        totals: &Totals,
        (name, unit, help): (&str, Option<&Unit>, &str),
        names: &[(&'static str, Value)],
        value: impl Fn(u64) -> N,
    ) -> fmt::Result {
        let rows = totals.cells().iter().flat_map(|(key, cell)| {
            let counted = names.iter().map(|(name, value)| (*name, cell.get(*value)));
            counted
                .filter(|(_, count)| *count != 0)
                .map(|(operation, count)| {
                    let mut labels = cell_labels(totals, *key);
                    if !operation.is_empty() {
                        labels.push(label("operation", operation));
                    }
                    (labels, value(count))
                })
        });
        self.counters(name, unit, help, rows)
    }

    pub fn histograms(&mut self, by_kernel: &ByPhase) -> fmt::Result {
        let mut by_phase: BTreeMap<Phase, Histograms> = BTreeMap::new();
        for (code, histograms) in (0..).zip(by_kernel) {
            let phase = by_phase.entry(Phase::from_code(code)).or_default();
            phase.add(histograms);
        }
        let (name, help) = ("iotrace_operation_duration", "Time of operations.");
        let bounds = DURATION_BOUNDS.map(seconds);
        let rows = by_phase.iter().flat_map(|(phase, histograms)| {
            let classes = class::NAMES.into_iter().zip(&histograms.durations);
            classes.map(|(class, durations)| {
                (*phase, class, seconds(durations.ns), &durations.calls[..])
            })
        });
        self.histogram(name, Unit::Seconds, help, &bounds, rows)?;
        let name = "iotrace_operation_size";
        let help = "Bytes moved by reads, those of no bytes left out, and by writes.";
        let bounds = SIZE_BOUNDS.map(|bytes| bytes as f64);
        let rows = by_phase.iter().flat_map(|(phase, histograms)| {
            let classes = ["read", "write"].into_iter().zip(&histograms.sizes);
            classes.map(|(class, sizes)| (*phase, class, sizes.bytes as f64, &sizes.calls[..]))
        });
        self.histogram(name, Unit::Bytes, help, &bounds, rows)
    }

    /// One histogram by phase and class of operation: of each, the sum and the counts by bucket.
    fn histogram<'a>(
        &mut self,
        name: &str,
        unit: Unit,
        help: &str,
        bounds: &[f64],
        rows: impl Iterator<Item = (Phase, &'static str, f64, &'a [u64])>,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut metric = self.0.encode_descriptor(name, help, Some(&unit), kind)?;
        for (phase, class, sum, calls) in rows {
            let count = saturating_sum(calls.iter().copied());
            if count == 0 {
                continue;
            }
            let bounds = bounds.iter().copied().chain([f64::MAX]);
            let buckets: Vec<(f64, u64)> = bounds.zip(calls.iter().copied()).collect();
            let labels = [label("phase", phase_name(phase)), label("operation", class)];
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

fn cell_labels(totals: &Totals, key: Key) -> Vec<Label<'_>> {
    let unit = totals.units().get(key.unit);
    let mut labels = unit_labels(unit);
    labels.push(label("phase", phase_name(key.phase)));
    labels.extend(mount_labels(totals, key.mount));
    labels
}
