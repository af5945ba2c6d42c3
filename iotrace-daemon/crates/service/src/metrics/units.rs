//! Who did it: units, their checkpoints, epochs and findings, and the directories and processes that do the most.

use std::fmt;

use prometheus_client::{encoding::NoLabelSet, metrics::MetricType, registry::Unit};

use super::out::{Label, Out, label, mount_labels, phase_name, seconds, unit_labels};
use crate::{
    shared::State,
    totals::{BOUNDS, Totals},
};
use iotrace_common::op::class;
use iotrace_model::IoTotals;

/// A unit's labels, and two more.
fn with<'a>(labels: &[Label<'a>], more: [Label<'a>; 2]) -> Vec<Label<'a>> {
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| label(name, value.0.clone()));
    labels.chain(more).collect()
}

impl Out<'_> {
    pub fn units(&mut self, totals: &Totals) -> fmt::Result {
        let units = || totals.units().all();
        let rows = units().map(|(_, unit, _)| {
            let mut labels = unit_labels(Some(unit));
            labels.extend([
                label("kind", unit.kind.name()),
                label("hpc_job", &unit.job),
                label("slurm_step", &unit.step),
                label("user", &unit.names.user),
                label("account", &unit.names.account),
                label("partition", &unit.names.partition),
                label("job_name", &unit.names.job),
                label("uid", &unit.pod_uid),
                label("container_id", &unit.container_id),
            ]);
            labels
        });
        let help = "What a unit is: names that other exporters have, too.";
        self.infos("iotrace_unit", help, rows)?;
        let rows = units().map(|(_, unit, processes)| (unit_labels(Some(unit)), processes as f64));
        let help =
            "Processes of the unit that are known; one that ended is known for some seconds more.";
        self.gauges("iotrace_unit_processes", None, help, rows)
    }

    pub fn beside(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let all = || {
            totals.beside().iter().filter_map(|(id, beside)| {
                let unit = totals.units().get(*id)?;
                Some((unit_labels(Some(unit)), beside))
            })
        };
        let help = "Passes over the training data that are complete.";
        let rows = all().filter_map(|(labels, beside)| Some((labels, beside.epochs?)));
        self.counters("iotrace_epochs", None, help, rows)?;
        let help = "When training data was last read, since the Unix epoch.";
        let name = "iotrace_training_last_read_timestamp";
        let clock = &state.service.clock;
        let rows = all().filter_map(|(labels, beside)| {
            Some((labels, clock.unix_ns(beside.last_read?) as f64 / 1e9))
        });
        self.gauges(name, Some(&Unit::Seconds), help, rows)?;
        let help = "Descriptors of files that processes of the unit had open when they were last looked at.";
        let rows = all().filter_map(|(labels, beside)| Some((labels, beside.open_files? as f64)));
        self.gauges("iotrace_open_files", None, help, rows)?;
        let help = "What the last look at the unit found wrong: files, processes or mounts of each finding.";
        let rows = all().flat_map(|(labels, beside)| {
            beside
                .findings
                .iter()
                .map(move |((code, severity), count)| {
                    let more = [label("code", *code), label("severity", *severity)];
                    (with(&labels, more), *count as f64)
                })
        });
        self.gauges("iotrace_findings", None, help, rows)?;
        let help = "For how long the oldest call has not returned, of those that have lasted for a second.";
        let rows = all().flat_map(|(labels, beside)| {
            beside
                .in_flight
                .iter()
                .map(move |((operation, mount_point), ns)| {
                    let more = [
                        label("operation", operation),
                        label("mountpoint", mount_point),
                    ];
                    (with(&labels, more), *ns as f64 / 1e9)
                })
        });
        self.gauges("iotrace_in_flight", Some(&Unit::Seconds), help, rows)?;
        let help = "What the main threads of programs waited for, and the phase of the files where that was storage.";
        let rows = all().flat_map(|(labels, beside)| {
            beside.waits.iter().map(move |((leaf, phase), ns)| {
                let more = [label("leaf", *leaf), label("phase", *phase)];
                (with(&labels, more), seconds(*ns))
            })
        });
        self.counters("iotrace_exposed_wait", Some(&Unit::Seconds), help, rows)?;
        let help = "For how long the main threads of programs ran or waited: what iotrace_exposed_wait_seconds is a part of.";
        let rows =
            all().filter_map(|(labels, beside)| Some((labels, seconds(beside.main_threads?))));
        self.counters("iotrace_main_threads", Some(&Unit::Seconds), help, rows)?;
        self.latencies(totals)
    }

    /// Nothing where they are not kept.
    fn latencies(&mut self, totals: &Totals) -> fmt::Result {
        let all = || {
            totals.beside().iter().flat_map(|(unit, beside)| {
                let each = beside.latencies.iter();
                each.map(move |((mount, phase, class), durations)| {
                    let mut labels = unit_labels(totals.units().get(*unit));
                    labels.extend(mount_labels(totals, *mount));
                    labels.push(label("phase", phase_name(*phase)));
                    labels.push(label("operation", class::NAMES[*class]));
                    (labels, durations)
                })
            })
        };
        let mut metric = self.0.encode_descriptor(
            "iotrace_latency",
            "Time of operations of units that the configuration names; the sum is an estimate.",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (labels, durations) in all() {
            let buckets = durations.buckets();
            let buckets: Vec<(f64, u64)> = buckets
                .map(|(bound, calls)| (bound.map_or(f64::MAX, seconds), calls))
                .collect();
            metric
                .encode_family(&labels.as_slice())?
                .encode_histogram::<NoLabelSet>(
                    seconds(durations.ns()),
                    durations.count(),
                    &buckets,
                    None,
                )?;
        }
        let help = "The longest operation so far of units that the configuration names.";
        let rows = all().map(|(labels, durations)| (labels, seconds(durations.longest())));
        self.gauges("iotrace_latency_longest", Some(&Unit::Seconds), help, rows)
    }

    pub fn saves(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let all = || {
            totals.saves().complete().iter().map(|(id, saves)| {
                let unit = totals.units().get(*id);
                (unit_labels(unit), saves)
            })
        };
        let help = "Checkpoints that are complete.";
        let rows = all().map(|(labels, saves)| (labels, saves.count));
        self.counters("iotrace_checkpoints", None, help, rows)?;
        let help = "Bytes written to checkpoints that are complete.";
        let rows = all().map(|(labels, saves)| (labels, saves.bytes));
        self.counters("iotrace_checkpoint", Some(&Unit::Bytes), help, rows)?;
        let help = "Bytes of checkpoints whose files were not synced when they were counted.";
        let rows = all().map(|(labels, saves)| (labels, saves.unsynced_bytes));
        let name = "iotrace_checkpoint_unsynced";
        self.counters(name, Some(&Unit::Bytes), help, rows)?;
        let help = "When the last checkpoint was complete, since the Unix epoch.";
        let name = "iotrace_checkpoint_last_completed_timestamp";
        let rows = all()
            .map(|(labels, saves)| (labels, state.service.clock.unix_ns(saves.last) as f64 / 1e9));
        self.gauges(name, Some(&Unit::Seconds), help, rows)?;
        let mut metric = self.0.encode_descriptor(
            "iotrace_checkpoint_duration",
            "From the first to the last operation on a checkpoint's files.",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (labels, saves) in all() {
            let bounds = BOUNDS.into_iter().chain([f64::MAX]);
            let buckets: Vec<(f64, u64)> = bounds.zip(saves.durations).collect();
            let labels = labels.as_slice();
            metric
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(saves.seconds, saves.count, &buckets, None)?;
        }
        Ok(())
    }

    pub fn directories(&mut self, totals: &Totals) -> fmt::Result {
        let top = &totals.directories;
        if !top.is_on() {
            return Ok(());
        }
        let members = top.members().map(|((unit, phase, directory), sums)| {
            let unit = totals.units().get(*unit);
            let mut labels = unit_labels(unit);
            labels.push(label("phase", phase_name(*phase)));
            labels.push(label("directory", directory));
            (labels, sums)
        });
        let rest = ["unit", "phase", "directory"].map(|name| label(name, "other"));
        let rows: Vec<_> = members.chain([(rest.into(), top.rest())]).collect();
        let who = [
            "on files of the directory",
            "to and from files of the directory",
        ];
        self.top("directory", who, &rows)
    }

    pub fn processes(&mut self, totals: &Totals) -> fmt::Result {
        let top = &totals.processes;
        if !top.is_on() {
            return Ok(());
        }
        let members = top.members().map(|((unit, pid), sums)| {
            let unit = totals.units().get(*unit);
            let mut labels = unit_labels(unit);
            labels.push(label("pid", pid.to_string()));
            (labels, sums)
        });
        let rest = ["unit", "pid"].map(|name| label(name, "other"));
        let rows: Vec<_> = members.chain([(rest.into(), top.rest())]).collect();
        self.top(
            "process",
            ["of the process", "read and written by the process"],
            &rows,
        )
    }

    /// Counters of those that do the most: operations and time `of` them, and bytes `moved`.
    fn top(
        &mut self,
        name: &str,
        [of, moved]: [&str; 2],
        rows: &[(Vec<Label<'_>>, IoTotals)],
    ) -> fmt::Result {
        fn with<'a>(labels: &'a [Label<'a>], operation: Option<&'static str>) -> Vec<Label<'a>> {
            let labels = labels
                .iter()
                .map(|(name, value)| label(name, value.0.as_ref()));
            let operation = operation.map(|operation| label("operation", operation));
            labels.chain(operation).collect()
        }
        let help = format!("Operations {of}, failed ones included.");
        let calls = rows
            .iter()
            .map(|(labels, sums)| (with(labels, None), sums.operations));
        self.counters(&format!("iotrace_{name}_operations"), None, &help, calls)?;
        let help = format!("Bytes {moved}.");
        let bytes = rows.iter().flat_map(|(labels, sums)| {
            let both = [("read", sums.bytes_read), ("write", sums.bytes_written)];
            both.map(|(operation, bytes)| (with(labels, Some(operation)), bytes))
        });
        self.counters(&format!("iotrace_{name}"), Some(&Unit::Bytes), &help, bytes)?;
        let help = format!("Time inside operations {of}.");
        let time = rows
            .iter()
            .map(|(labels, sums)| (with(labels, None), seconds(sums.ns)));
        let name = format!("iotrace_{name}_io");
        self.counters(&name, Some(&Unit::Seconds), &help, time)
    }
}
