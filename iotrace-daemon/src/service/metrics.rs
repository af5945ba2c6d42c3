//! The totals and the state of the service as OpenMetrics, or as Prometheus's older text format.
//!
//! The only file that names prometheus-client. `docs/metrics.md` describes every metric.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::{self, Write as _},
    sync::Arc,
};

use iotrace_common::{
    bucket::SIZE_BOUNDS,
    diag,
    histogram::{DURATION_BOUNDS, Histograms, class},
    op,
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelValue,
        LabelValueEncoder, NoLabelSet, text,
    },
    metrics::MetricType,
    registry::{Registry, Unit},
};

use super::{
    own::Usage,
    shared::{Service, Shared, State},
    totals::{BOUNDS, Cell, ERRNO_OTHER, Key, NO_MOUNT, Sums, Totals, Value},
};
use crate::{
    classify::phase::Phase,
    kernel::{ByPhase, ProgramRuns},
    model::errno,
};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, version 0.0.4.
    Text,
}

impl Format {
    /// Value of the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes the metrics of a service.
pub struct Exporter {
    registry: Registry,
}

impl Exporter {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self::with_usage(shared, Usage::now)
    }

    /// With what `usage` says of the resources that the service uses.
    pub fn with_usage(shared: Arc<Shared>, usage: fn() -> Usage) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exposition { shared, usage }));
        Self { registry }
    }

    /// Writes all metrics as they are now.
    pub fn encode(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(256 << 10);
        text::encode(&mut text, &self.registry)?;
        Ok(match format {
            Format::OpenMetrics => text,
            Format::Text => as_text(&text),
        })
    }
}

/// OpenMetrics as the older format: there the name of a counter or an info has its suffix in every line, there are no
/// units, and an info is a gauge.
fn as_text(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + open.len() / 16);
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        let Some(help) = line.strip_prefix("# HELP ") else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let kind = lines
            .next_if(|line| line.starts_with("# TYPE "))
            .and_then(|line| line.rsplit(' ').next());
        let (suffix, kind) = match kind {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            kind => ("", kind.unwrap_or("untyped")),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}"
        );
    }
    text
}

struct Exposition {
    shared: Arc<Shared>,
    usage: fn() -> Usage,
}

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exposition")
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = (self.usage)();
        let mut out = Out(encoder);
        self.shared.with(|state| {
            out.io(&state.totals)?;
            if let Some(histograms) = &state.histograms {
                out.histograms(histograms)?;
            }
            out.saves(state)?;
            out.units(&state.totals)?;
            out.beside(state)?;
            out.directories(&state.totals)?;
            out.processes(&state.totals)?;
            out.bounds(state)?;
            out.service(&state.service)?;
            out.usage(&usage)
        })
    }
}

/// A label's value: a user may have written it.
struct Text<'a>(Cow<'a, str>);

impl EncodeLabelValue for Text<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => encoder.write_str("\\\\")?,
                '"' => encoder.write_str("\\\"")?,
                '\n' => encoder.write_str("\\n")?,
                c => encoder.write_char(c)?,
            }
        }
        Ok(())
    }
}

type Label<'a> = (&'static str, Text<'a>);

fn label<'a>(name: &'static str, value: impl Into<Cow<'a, str>>) -> Label<'a> {
    (name, Text(value.into()))
}

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A phase as the label has it: a class of `other` is a phase of its own.
fn phase_name(phase: Phase) -> &'static str {
    phase.class().map_or(phase.name(), |class| class.name())
}

struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counters<'l, N: EncodeCounterValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        rows: impl IntoIterator<Item = (Vec<Label<'l>>, N)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in rows {
            let labels = labels.as_slice();
            let mut family = metric.encode_family(&labels)?;
            family.encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges<'l, N: EncodeGaugeValue>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        rows: impl IntoIterator<Item = (Vec<Label<'l>>, N)>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in rows {
            let labels = labels.as_slice();
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn infos<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = Vec<Label<'l>>>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Info)?;
        for labels in rows {
            metric.encode_info(&labels.as_slice())?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, unit: Option<&Unit>, help: &str, value: u64) -> fmt::Result {
        self.counters(name, unit, help, [(vec![], value)])
    }

    fn gauge(&mut self, name: &str, unit: Option<&Unit>, help: &str, value: u64) -> fmt::Result {
        self.gauges(name, unit, help, [(vec![], value as f64)])
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

    fn io(&mut self, totals: &Totals) -> fmt::Result {
        let calls: Vec<_> = (op::NAMES.into_iter().zip(0..))
            .map(|(name, op)| (name, Value::Calls(op)))
            .collect();
        let times: Vec<_> = (Value::GROUPS.into_iter().zip(0..))
            .map(|(name, group)| (name, Value::Time(group)))
            .collect();
        let bytes = [("read", Value::BytesRead), ("write", Value::BytesWritten)];
        let plain = |value| [("", value)];
        let help = "Operations on files that succeeded.";
        self.cells(totals, ("iotrace_operations", None, help), &calls, |n| n)?;
        let help = "Bytes read from and written to files.";
        self.cells(totals, ("iotrace", Some(&Unit::Bytes), help), &bytes, |n| n)?;
        self.pages(totals)?;
        let help = "Time inside operations, summed over threads.";
        let name = ("iotrace_io", Some(&Unit::Seconds), help);
        self.cells(totals, name, &times, seconds)?;
        let help = "Time in which a process had an operation of the phase under way, overlap counted once; summed over processes.";
        let name = ("iotrace_merged_io", Some(&Unit::Seconds), help);
        self.cells(totals, name, &plain(Value::Merged), seconds)?;
        let help = "Reads that returned no bytes, which end files; in the operations as well.";
        let name = ("iotrace_zero_length_reads", None, help);
        self.cells(totals, name, &plain(Value::ZeroReads), |n| n)?;
        let help = "Files that the unit used for the first time.";
        let name = ("iotrace_files_seen", None, help);
        self.cells(totals, name, &plain(Value::Files), |n| n)?;
        self.errors(totals)
    }

    /// What came from storage, and files used as memory.
    fn pages(&mut self, totals: &Totals) -> fmt::Result {
        let fetched = [("read", Value::Fetched), ("fault", Value::FetchedMapped)];
        let faults = [("minor", Value::MinorFaults), ("major", Value::MajorFaults)];
        let help = "Bytes fetched from storage, readahead included, by reads and by page faults.";
        let name = ("iotrace_fetched", Some(&Unit::Bytes), help);
        self.cells(totals, name, &fetched, |n| n)?;
        let help = "Bytes of mapped files that page faults mapped, at least.";
        let name = ("iotrace_mapped", Some(&Unit::Bytes), help);
        self.cells(totals, name, &[("", Value::Mapped)], |n| n)?;
        let help = "Page faults on mapped files; major ones waited for storage.";
        self.cells(totals, ("iotrace_page_faults", None, help), &faults, |n| n)
    }

    fn errors(&mut self, totals: &Totals) -> fmt::Result {
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
        let help = "Operations that failed, by error.";
        self.counters("iotrace_errors", None, help, rows)
    }

    fn histograms(&mut self, by_kernel: &ByPhase) -> fmt::Result {
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
            let count = calls.iter().sum();
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

    fn saves(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let all = || {
            totals.saves().complete().iter().map(|(id, saves)| {
                let unit = totals.units().get(*id);
                let name = unit.map_or("other", |unit| &unit.name);
                (vec![label("unit", name)], saves)
            })
        };
        let help = "Checkpoints that are complete.";
        let rows = all().map(|(labels, saves)| (labels, saves.count));
        self.counters("iotrace_checkpoints", None, help, rows)?;
        let help = "Bytes written to checkpoints that are complete.";
        let rows = all().map(|(labels, saves)| (labels, saves.bytes));
        self.counters("iotrace_checkpoint", Some(&Unit::Bytes), help, rows)?;
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

    fn units(&mut self, totals: &Totals) -> fmt::Result {
        let units = || totals.units().all();
        let rows = units().map(|(_, unit, _)| {
            vec![
                label("unit", &unit.name),
                label("kind", unit.kind.name()),
                label("hpc_job", &unit.job),
                label("slurm_step", &unit.step),
                label("uid", &unit.pod_uid),
                label("container_id", &unit.container_id),
            ]
        });
        let help = "What a unit is: names that other exporters have, too.";
        self.infos("iotrace_unit", help, rows)?;
        let rows =
            units().map(|(_, unit, processes)| (vec![label("unit", &unit.name)], processes as f64));
        let help =
            "Processes of the unit that are known; one that ended is known for some seconds more.";
        self.gauges("iotrace_unit_processes", None, help, rows)
    }

    fn beside(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let all = || {
            totals.beside().iter().filter_map(|(id, beside)| {
                let unit = totals.units().get(*id)?;
                Some((vec![label("unit", &unit.name)], beside))
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
                    let mut labels = vec![label("unit", labels[0].1.0.clone())];
                    labels.extend([label("code", *code), label("severity", *severity)]);
                    (labels, *count as f64)
                })
        });
        self.gauges("iotrace_findings", None, help, rows)
    }

    fn directories(&mut self, totals: &Totals) -> fmt::Result {
        let top = &totals.directories;
        if !top.is_on() {
            return Ok(());
        }
        let members = top.members().map(|((unit, phase, directory), sums)| {
            let unit = totals.units().get(*unit);
            let labels = vec![
                label("unit", unit.map_or("other", |unit| &unit.name)),
                label("phase", phase_name(*phase)),
                label("directory", directory),
            ];
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

    fn processes(&mut self, totals: &Totals) -> fmt::Result {
        let top = &totals.processes;
        if !top.is_on() {
            return Ok(());
        }
        let members = top.members().map(|((unit, pid), sums)| {
            let unit = totals.units().get(*unit);
            let labels = vec![
                label("unit", unit.map_or("other", |unit| &unit.name)),
                label("pid", pid.to_string()),
            ];
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
        rows: &[(Vec<Label<'_>>, Sums)],
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

    fn bounds(&mut self, state: &State) -> fmt::Result {
        let totals = &state.totals;
        let help = "Series of units, without those of the unit other.";
        self.gauge("iotrace_series", None, help, totals.series() as u64)?;
        let help = "The most series of units that there may be.";
        self.gauge("iotrace_series_limit", None, help, totals.limit() as u64)?;
        let help = "Counts that went to the unit other, because there were too many series.";
        self.counter("iotrace_series_folds", None, help, totals.folds())?;
        let help =
            "Directories and processes with series of their own that had to leave for others.";
        let replaced = [
            ("directory", totals.directories.replaced()),
            ("process", totals.processes.replaced()),
        ];
        let rows = replaced.map(|(series, count)| (vec![label("series", series)], count));
        self.counters("iotrace_top_replacements", None, help, rows)?;
        let memory = &state.service.memory;
        let help = "Units that were not looked at for findings, because they have too many files.";
        let name = "iotrace_findings_skipped_looks";
        self.counter(name, None, help, memory.findings_skipped)?;
        let help = "Files known one by one.";
        self.gauge("iotrace_known_files", None, help, memory.files)?;
        let help = "Processes known one by one.";
        self.gauge("iotrace_known_processes", None, help, memory.processes)?;
        let help = "Files that were forgotten to bound the memory; what was counted stays counted.";
        self.counter(
            "iotrace_forgotten_files",
            None,
            help,
            memory.forgotten_files,
        )
    }

    fn service(&mut self, service: &Service) -> fmt::Result {
        let build = vec![
            label("version", service.version),
            label("hook", &service.hook),
            label("detail", &service.detail),
            label("kernel", &service.kernel),
        ];
        self.infos("iotrace_build", "This iotrace, and how it traces.", [build])?;
        let hooks = service.hooks.iter().map(|hook| {
            let required = if hook.required { "true" } else { "false" };
            let labels = vec![label("hook", &hook.name), label("required", required)];
            (labels, f64::from(u8::from(hook.attached)))
        });
        let help = "Whether a kernel hook is attached.";
        self.gauges("iotrace_hook_attached", None, help, hooks)?;
        let is_count = |(reason, _): &(&String, _)| {
            *reason != diag::NAMES[diag::LOST_BYTES as usize]
                && *reason != diag::NAMES[diag::UNSURE_NS as usize]
        };
        let reasons = service.unaccounted.iter().filter(is_count);
        let reasons = reasons.map(|(reason, count)| {
            let index = diag::NAMES.iter().position(|name| name == reason);
            let is_loss = index.is_none_or(|index| diag::IS_LOSS[index]);
            let kind = if is_loss { "lost" } else { "incomplete" };
            (vec![label("reason", reason), label("kind", kind)], *count)
        });
        let help =
            "What was not accounted (kind lost), or not in full (kind incomplete), by reason.";
        self.counters("iotrace_unaccounted", None, help, reasons)?;
        let loss = |index: u32| {
            let loss = service.unaccounted.get(diag::NAMES[index as usize]);
            loss.copied().unwrap_or(0)
        };
        let help = "Bytes of operations that no counter holds.";
        let bytes = loss(diag::LOST_BYTES);
        self.counter("iotrace_lost", Some(&Unit::Bytes), help, bytes)?;
        let help = "How much merged times may be off.";
        let rows = [(vec![], seconds(loss(diag::UNSURE_NS)))];
        self.counters("iotrace_merged_uncertain", Some(&Unit::Seconds), help, rows)?;
        let drain = &service.drain;
        let help = "Drains of the kernel's counters.";
        self.counter("iotrace_drains", None, help, drain.drains)?;
        let help = "Entries taken out of the kernel's counters.";
        self.counter("iotrace_drained_entries", None, help, drain.entries)?;
        let (name, help) = ("iotrace_drain", "Time spent in drains.");
        let rows = [(vec![], drain.seconds)];
        self.counters(name, Some(&Unit::Seconds), help, rows)?;
        let (name, help) = ("iotrace_longest_drain", "The longest drain.");
        let rows = [(vec![], drain.longest_seconds)];
        self.gauges(name, Some(&Unit::Seconds), help, rows)?;
        let help = "Entries that the last drain found.";
        self.gauge("iotrace_map_entries", None, help, drain.map_entries)?;
        let help = "Entries that the kernel's counters have room for between two drains.";
        self.gauge(
            "iotrace_map_entries_limit",
            None,
            help,
            drain.map_entries_limit,
        )?;
        let help = "Kernel memory of the maps.";
        self.gauge("iotrace_map", Some(&Unit::Bytes), help, drain.map_bytes)?;
        self.programs(&service.programs)
    }

    fn programs(&mut self, programs: &[ProgramRuns]) -> fmt::Result {
        if programs.is_empty() {
            return Ok(());
        }
        let labels = |program: &ProgramRuns| vec![label("program", program.name.clone())];
        let help = "Runs of a kernel program since it was loaded.";
        let rows = programs.iter().map(|p| (labels(p), p.runs));
        self.counters("iotrace_program_runs", None, help, rows)?;
        let help = "Time of these runs.";
        let rows = programs.iter().map(|p| (labels(p), p.time.as_secs_f64()));
        self.counters("iotrace_program_run", Some(&Unit::Seconds), help, rows)
    }

    /// By the names that all exporters use.
    fn usage(&mut self, usage: &Usage) -> fmt::Result {
        let help = "CPU time of this service, user and system.";
        let rows = [(vec![], usage.cpu_seconds)];
        self.counters("process_cpu", Some(&Unit::Seconds), help, rows)?;
        let bytes = Some(&Unit::Bytes);
        let help = "Resident memory of this service.";
        self.gauge("process_resident_memory", bytes, help, usage.resident_bytes)?;
        let help = "Virtual memory of this service.";
        self.gauge("process_virtual_memory", bytes, help, usage.virtual_bytes)?;
        let help = "Open file descriptors of this service.";
        self.gauge("process_open_fds", None, help, usage.open_descriptors)?;
        let help = "The most file descriptors that this service may open.";
        self.gauge("process_max_fds", None, help, usage.max_descriptors)
    }
}

fn cell_labels(totals: &Totals, key: Key) -> Vec<Label<'_>> {
    let unit = totals.units().get(key.unit);
    let mut labels = vec![
        label("unit", unit.map_or("other", |unit| &unit.name)),
        label("phase", phase_name(key.phase)),
    ];
    if key.mount != NO_MOUNT {
        let mount = totals.mount(key.mount);
        labels.push(label("mountpoint", &mount.mountpoint));
        labels.push(label("fstype", &mount.fstype));
    }
    labels
}
