//! Where people see a counter: metrics, the page, the text report. Parquet, JSON and CSV have all of [`TABLE`].

use iotrace_common::op;

use super::*;

/// A metric of the service: a count by job, phase and mount.
#[derive(Debug)]
pub struct Metric {
    /// Name without its unit and the suffix of counters.
    pub name: &'static str,
    pub unit: Unit,
    pub help: &'static str,
    pub source: Source,
}

/// What a metric counts.
#[derive(Debug)]
pub enum Source {
    /// Counters of [`TABLE`].
    Counters(&'static [Series]),
    /// Merged time of processes, by phase.
    MergedTime,
    /// Files that a job uses for the first time.
    FilesSeen,
    /// Operations that failed, by operation and error.
    Errors,
}

/// One series of a metric.
#[derive(Debug)]
pub struct Series {
    /// Value of the label `operation`; empty: no such label.
    pub operation: &'static str,
    /// Index of the counter.
    pub counter: usize,
    /// A counter that is a part of it, and has a series of its own.
    pub less: Option<usize>,
}

impl Series {
    const fn of(operation: &'static str, counter: usize) -> Self {
        Self {
            operation,
            counter,
            less: None,
        }
    }

    const fn less(self, counter: usize) -> Self {
        Self {
            less: Some(counter),
            ..self
        }
    }

    /// What these counters hold of it.
    pub fn value(&self, counters: &Counters) -> u64 {
        let less = self.less.map_or(0, |index| counters.v[index]);
        counters.v[self.counter].saturating_sub(less)
    }
}

/// One series for each class of operations.
const OPERATIONS: [Series; op::COUNT] = {
    let mut series = [const { Series::of("", 0) }; op::COUNT];
    let mut op = 0;
    while op < op::COUNT {
        series[op] = Series::of(op::NAMES[op], op);
        op += 1;
    }
    series
};

macro_rules! metrics {
    ($($name:literal $unit:ident $help:literal $source:expr;)*) => {
        /// The metrics of what was done on files, in the order in which they are exported.
        pub const METRICS: [Metric; [$($name),*].len()] = [$(Metric {
            name: $name, unit: Unit::$unit, help: $help, source: $source,
        }),*];
    };
}

use Source::{Counters as Of, Errors, FilesSeen, MergedTime};

metrics! {
    "iotrace_operations" Calls "Operations on files that succeeded." Of(&OPERATIONS);
    "iotrace" Bytes "Bytes read from and written to files, by sendfile and similar calls, too."
        Of(&[Series::of("read", BYTES_READ), Series::of("write", BYTES_WRITTEN)]);
    "iotrace_fetched" Bytes "Bytes fetched from storage, readahead included, by reads and by page faults."
        Of(&[Series::of("read", BYTES_FETCHED).less(MAPPED_BYTES_FETCHED), Series::of("fault", MAPPED_BYTES_FETCHED)]);
    "iotrace_mapped" Bytes "Bytes of mapped files that page faults mapped, a lower bound; in no other metric." Of(&[Series::of("", MAPPED_BYTES)]);
    "iotrace_page_faults" Calls "Page faults on mapped files; the page of a major one was not in the page cache."
        Of(&[Series::of("minor", FAULTS).less(MAJOR_FAULTS), Series::of("major", MAJOR_FAULTS)]);
    "iotrace_major_fault" Nanoseconds "Time inside page faults on mapped files that waited for storage; in no other metric."
        Of(&[Series::of("", MAJOR_FAULT_NS)]);
    "iotrace_timed_major_faults" Calls "Page faults whose time is in iotrace_major_fault_seconds_total."
        Of(&[Series::of("", TIMED_MAJOR_FAULTS)]);
    "iotrace_io" Nanoseconds "Time inside operations, summed over threads."
        Of(&[
            Series::of("read", READ_NS), Series::of("write", WRITE_NS), Series::of("metadata", META_NS),
            Series::of("sync", SYNC_NS), Series::of("failed", FAILED_NS),
        ]);
    "iotrace_merged_io" Nanoseconds
        "Time in which a process had an operation of the phase in flight, overlap counted once; summed over the processes of the unit." MergedTime;
    "iotrace_zero_length_reads" Calls "Reads that returned no bytes (end of file); also counted as operations."
        Of(&[Series::of("", ZERO_READS)]);
    "iotrace_files_seen" Calls "Files that the unit used for the first time; a file that was forgotten in between counts again." FilesSeen;
    "iotrace_errors" Calls "Operations that failed, by operation and errno (ENOENT)." Errors;
}

/// A counter that has a column on the page, in tables of which some row has it.
#[derive(Debug)]
pub struct Column {
    pub counter: usize,
    pub title: &'static str,
    /// Whether the lists of files, directories and processes have it; the table by phase has them all.
    pub in_lists: bool,
}

macro_rules! columns {
    ($($counter:ident $title:literal $in_lists:literal;)*) => {
        /// The columns, in order.
        pub const COLUMNS: [Column; [$($title),*].len()] = [$(Column {
            counter: $counter, title: $title, in_lists: $in_lists,
        }),*];
    };
}

columns! {
    BYTES_FETCHED "From storage" true;
    MAPPED_BYTES_FETCHED "for mapped files" false;
    FAULTS "Page faults" true;
    MAJOR_FAULTS "Major" true;
    TIMED_MAJOR_FAULTS "Waited" false;
    MAJOR_FAULT_NS "Time in faults" true;
    MAPPED_BYTES "Mapped" true;
    MAPPED_BYTES_DIRTIED "Dirtied" true;
}

/// Lines below the operations in the text report, for counters that are not 0; `{}` is the value.
pub const LINES: &[(usize, &str)] = &[(
    ZERO_READS,
    "{} reads returned 0 bytes: the end of the file.",
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_the_metrics_as_they_are() {
        let rows = METRICS.iter().map(|metric| {
            let unit = match metric.unit {
                Unit::Bytes => "_bytes",
                Unit::Nanoseconds => "_seconds",
                _ => "",
            };
            let series = match &metric.source {
                Source::Counters(series) => *series,
                _ => &[],
            };
            let operations: Vec<_> = series
                .iter()
                .map(|series| series.operation)
                .filter(|operation| !operation.is_empty())
                .map(|operation| format!("`{operation}`"))
                .collect();
            let by = match operations.is_empty() {
                true => String::new(),
                false => format!(" `operation`: {}.", operations.join(", ")),
            };
            format!("| `{}{unit}_total` | {}{by} |\n", metric.name, metric.help)
        });
        let table = "| metric | meaning |\n|---|---|\n".to_owned() + &rows.collect::<String>();
        iotrace_pages::check("docs/reference/metrics.md", |page| {
            iotrace_pages::replace(page, "metrics of files", &table)
        });
    }
}
