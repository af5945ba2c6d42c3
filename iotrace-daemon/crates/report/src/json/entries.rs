//! Entries that many objects of the JSON report have: counters, tables, failures, text of any bytes.

use std::collections::{BTreeMap, HashMap};

use iotrace_common::{bucket, op};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::{Map, Value as Json};

use crate::Report;
use iotrace_analysis::sum::Sum;
use iotrace_model::{
    FailureCount, FailureKey,
    counters::{self, Counters, TABLE, Unit},
    errno,
    top::commonest,
};

/// Text of any bytes: as UTF-8, and in hexadecimal too where it is not.
pub fn text_entries<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    hex: &'static str,
    text: &[u8],
) -> Result<(), M::Error> {
    map.serialize_entry(key, &String::from_utf8_lossy(text))?;
    if std::str::from_utf8(text).is_err() {
        let digits: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        map.serialize_entry(hex, &digits)?;
    }
    Ok(())
}

pub fn sum_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
    sum: &Sum,
) -> Result<(), M::Error> {
    counter_entries(map, report, &sum.counters)?;
    let pairs = |table: &HashMap<u64, u64>| {
        commonest(table.iter().map(|(value, count)| (*value, *count)), 4)
    };
    table_entries(map, &sum.counters, &pairs(&sum.sizes), &pairs(&sum.strides))
}

/// Counters that stand in every object, also where they are 0.
fn is_always_written(index: usize) -> bool {
    matches!(
        index,
        counters::OPENS
            | counters::READS
            | counters::ZERO_READS
            | counters::WRITES
            | counters::CLOSES
            | counters::SEEKS
            | counters::STATS
            | counters::MMAPS
            | counters::FSYNCS
            | counters::FDATASYNCS
            | counters::RENAMES
            | counters::UNLINKS
            | counters::BYTES_READ
            | counters::BYTES_WRITTEN
            | counters::BYTES_FETCHED
            | counters::READ_NS
            | counters::WRITE_NS
            | counters::META_NS
            | counters::SYNC_NS
    )
}

/// Counters that stand in an object of their own.
fn is_bucket(index: usize) -> bool {
    (counters::READ_SIZE_0_100..=counters::WRITE_SIZE_1G_PLUS).contains(&index)
}

pub fn counter_entries<M: SerializeMap>(
    map: &mut M,
    report: &Report<'_>,
    counters: &Counters,
) -> Result<(), M::Error> {
    if report.analysis.knows_cache {
        map.serialize_entry("bytes_cached", &counters.cached())?;
    }
    for (index, (value, descriptor)) in counters.v.iter().zip(&TABLE).enumerate() {
        if is_bucket(index) || (*value == 0 && !is_always_written(index)) {
            continue;
        }
        match descriptor.unit {
            Unit::Calls | Unit::Bytes | Unit::Mode => {
                map.serialize_entry(descriptor.name, value)?
            }
            Unit::Nanoseconds => {
                map.serialize_entry(&key(descriptor.name, "_seconds"), &seconds(*value))?
            }
            Unit::Moment => {
                map.serialize_entry(&key(descriptor.name, "_at"), &report.at(*value))?
            }
        }
    }
    Ok(())
}

pub fn table_entries<M: SerializeMap>(
    map: &mut M,
    counters: &Counters,
    sizes: &[(u64, u64)],
    strides: &[(u64, u64)],
) -> Result<(), M::Error> {
    for (name, first) in [
        ("read_sizes", counters::READ_SIZE_0_100),
        ("write_sizes", counters::WRITE_SIZE_0_100),
    ] {
        let calls = &counters.v[first..first + bucket::SIZES];
        if calls.iter().any(|calls| *calls != 0) {
            map.serialize_entry(name, &Buckets(calls))?;
        }
    }
    if !sizes.is_empty() {
        let common = commonest(sizes.iter().copied(), 4);
        map.serialize_entry(
            "access_sizes",
            &Seq(|| {
                common.iter().map(|(size, count)| SizeCount {
                    size: *size,
                    count: *count,
                })
            }),
        )?;
    }
    if !strides.is_empty() {
        let common = commonest(strides.iter().copied(), 4);
        map.serialize_entry(
            "strides",
            &Seq(|| {
                common.iter().map(|(stride, count)| StrideCount {
                    stride: *stride,
                    count: *count,
                })
            }),
        )?;
    }
    Ok(())
}

/// Calls by bucket of size, those that are not 0.
struct Buckets<'a>(&'a [u64]);

impl Serialize for Buckets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = bucket::SIZE_NAMES
            .iter()
            .map(|name| name.to_lowercase())
            .zip(self.0);
        serializer.collect_map(named.filter(|(_, calls)| **calls != 0))
    }
}

#[derive(Serialize)]
struct SizeCount {
    size: u64,
    count: u64,
}

#[derive(Serialize)]
struct StrideCount {
    stride: u64,
    count: u64,
}

pub fn flat((key, count): (&FailureKey, FailureCount)) -> (u32, u32, FailureCount) {
    (key.op, key.errno, count)
}

/// `errors` by errno, and where asked `errors_by_operation`.
pub fn failure_entries<M: SerializeMap>(
    map: &mut M,
    failures: impl Iterator<Item = (u32, u32, FailureCount)>,
    by_operation: bool,
) -> Result<(), M::Error> {
    let mut errors: BTreeMap<_, u64> = BTreeMap::new();
    let mut operations: BTreeMap<&str, BTreeMap<_, u64>> = BTreeMap::new();
    for (op, errno, count) in failures {
        let name = errno::name(errno);
        let operation = op::NAMES.get(op as usize).copied().unwrap_or("unknown");
        *operations
            .entry(operation)
            .or_default()
            .entry(name.clone())
            .or_default() += count.calls;
        *errors.entry(name).or_default() += count.calls;
    }
    map.serialize_entry("errors", &errors)?;
    if by_operation {
        map.serialize_entry("errors_by_operation", &operations)?;
    }
    Ok(())
}

fn key(name: &str, suffix: &str) -> String {
    [name, suffix].concat()
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub fn moment(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Text of any bytes under `key`, and in hexadecimal too where it is not UTF-8.
pub fn put_text(object: &mut Map<String, Json>, key: &str, text: &[u8]) {
    object.insert(
        key.into(),
        String::from_utf8_lossy(text).into_owned().into(),
    );
    if std::str::from_utf8(text).is_err() {
        let digits: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
        object.insert(format!("{key}_hex"), digits.into());
    }
}

pub fn object(value: Json) -> Map<String, Json> {
    match value {
        Json::Object(object) => object,
        _ => Map::new(),
    }
}

pub fn pid(report: &Report<'_>, process: u32) -> u32 {
    report.model.processes()[process as usize].id.pid
}

impl Report<'_> {
    /// A moment in seconds since the start of the run.
    pub fn at(&self, monotonic: u64) -> f64 {
        (self.run.clock.unix_ns(monotonic) - self.run.start_unix_ns) as f64 / 1e9
    }
}

/// A sequence that is made while it is written.
pub struct Seq<F>(pub F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Seq<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for item in (self.0)() {
            seq.serialize_element(&item)?;
        }
        seq.end()
    }
}
