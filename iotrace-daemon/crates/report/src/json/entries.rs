//! Objects of the JSON report, and the entries that many of them have: counters, failures, text of any bytes.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

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
    counters::{self, Counters, TABLE, Unit, flag, saturating_add},
    errno,
    top::commonest,
};

/// Entries of an object of the JSON report, in their order.
pub trait Entries {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// A key and its value.
pub struct Entry<V>(pub &'static str, pub V);

impl<V: Serialize> Entries for Entry<V> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, &self.1)
    }
}

/// Text of any bytes: as UTF-8, and also in hexadecimal (`KEY_hex`) if it is not UTF-8.
pub struct Text<T>(pub &'static str, pub T);

impl<T: AsRef<[u8]>> Entries for Text<T> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (key, text) = (self.0, self.1.as_ref());
        map.serialize_entry(key, &String::from_utf8_lossy(text))?;
        if std::str::from_utf8(text).is_err() {
            map.serialize_entry(&[key, "_hex"].concat(), &hex(text))?;
        }
        Ok(())
    }
}

impl Entries for () {
    fn write<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

impl<A: Entries, B: Entries> Entries for (A, B) {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.0.write(map)?;
        self.1.write(map)
    }
}

/// Left out if there is none.
impl<E: Entries> Entries for Option<E> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter().try_for_each(|entries| entries.write(map))
    }
}

impl<E: Entries> Entries for Vec<E> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter().try_for_each(|entries| entries.write(map))
    }
}

/// An object of these entries.
pub struct Object<E>(pub E);

impl<E: Entries> Serialize for Object<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.write(&mut map)?;
        map.end()
    }
}

/// Entries one after the other, any number of them.
macro_rules! entries {
    () => { () };
    ($first:expr $(, $rest:expr)* $(,)?) => { ($first, entries!($($rest),*)) };
}
pub(crate) use entries;

/// The path of a file; null if it is not known.
pub fn path_entry(path: impl AsRef<[u8]>) -> impl Entries {
    let is_known = !path.as_ref().is_empty();
    (
        is_known.then_some(Text("path", path)),
        (!is_known).then_some(Entry("path", None::<&str>)),
    )
}

/// The host of a process, if there are several, and its PID.
pub fn process_entries(report: &Report<'_>, process: u32) -> impl Entries {
    let process = &report.model.processes()[process as usize];
    let host = report.host_of(process.node);
    (
        host.map(|host| Entry("host", host)),
        Entry("pid", process.id.pid),
    )
}

/// Bytes as hexadecimal digits.
pub fn hex(text: &[u8]) -> String {
    text.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The counters of one thing by name, with its tables of sizes and strides.
pub struct CounterMap<'a> {
    report: &'a Report<'a>,
    counters: Cow<'a, Counters>,
    sizes: Vec<(u64, u64)>,
    strides: Vec<(u64, u64)>,
}

impl<'a> CounterMap<'a> {
    pub fn of_sum(report: &'a Report<'a>, sum: &'a Sum) -> Self {
        let pairs = |table: &HashMap<u64, u64>| {
            commonest(table.iter().map(|(value, count)| (*value, *count)), 4)
        };
        Self {
            report,
            counters: Cow::Borrowed(&sum.counters),
            sizes: pairs(&sum.sizes),
            strides: pairs(&sum.strides),
        }
    }

    pub fn new(report: &'a Report<'a>, counters: Counters) -> Self {
        let pairs = |table: &[(u64, u64)]| commonest(table.iter().copied(), 4);
        Self {
            report,
            sizes: pairs(counters.sizes.entries()),
            strides: pairs(counters.strides.entries()),
            counters: Cow::Owned(counters),
        }
    }
}

/// Counters that are written as `read_sizes` and `write_sizes`.
fn is_bucket(index: usize) -> bool {
    (counters::READ_SIZE_0_100..=counters::WRITE_SIZE_1G_PLUS).contains(&index)
}

impl Entries for CounterMap<'_> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let counters = &*self.counters;
        if self.report.analysis.knows_cache {
            map.serialize_entry("bytes_cached", &counters.cached())?;
        }
        for (index, (value, descriptor)) in counters.v.iter().zip(&TABLE).enumerate() {
            if is_bucket(index) || (*value == 0 && !descriptor.has(flag::ALWAYS)) {
                continue;
            }
            let key = descriptor.key;
            match descriptor.unit {
                Unit::Calls | Unit::Bytes | Unit::Mode => map.serialize_entry(key, value)?,
                Unit::Nanoseconds => map.serialize_entry(key, &seconds(*value))?,
                Unit::Moment => map.serialize_entry(key, &self.report.at(*value))?,
            }
        }
        for (name, first) in [
            ("read_sizes", counters::READ_SIZE_0_100),
            ("write_sizes", counters::WRITE_SIZE_0_100),
        ] {
            let calls = &counters.v[first..first + bucket::SIZES];
            if calls.iter().any(|calls| *calls != 0) {
                map.serialize_entry(name, &Buckets(calls))?;
            }
        }
        for (name, key, pairs) in [
            ("access_sizes", "size", &self.sizes),
            ("strides", "stride", &self.strides),
        ] {
            if !pairs.is_empty() {
                let pairs = pairs.iter();
                let pairs =
                    pairs.map(|(value, count)| Object((Entry(key, value), Entry("count", count))));
                map.serialize_entry(name, &pairs.collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }
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

pub fn flat((key, count): (&FailureKey, FailureCount)) -> (u32, u32, FailureCount) {
    (key.op, key.errno, count)
}

/// `errors` by errno, and if asked for `errors_by_operation`.
pub fn failure_entries(
    failures: impl Iterator<Item = (u32, u32, FailureCount)>,
    by_operation: bool,
) -> impl Entries {
    let mut errors: BTreeMap<_, u64> = BTreeMap::new();
    let mut operations: BTreeMap<&str, BTreeMap<_, u64>> = BTreeMap::new();
    for (op, errno, count) in failures {
        let name = errno::name(errno);
        let operation = op::NAMES.get(op as usize).copied().unwrap_or("unknown");
        let of_operation = operations.entry(operation).or_default();
        saturating_add(of_operation.entry(name.clone()).or_default(), count.calls);
        saturating_add(errors.entry(name).or_default(), count.calls);
    }
    let by_operation = by_operation.then_some(Entry("errors_by_operation", operations));
    (Entry("errors", errors), by_operation)
}

pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub fn moment(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Puts text as [`Text`] does.
pub fn put_text(object: &mut Map<String, Json>, key: &str, text: &[u8]) {
    object.insert(
        key.into(),
        String::from_utf8_lossy(text).into_owned().into(),
    );
    if std::str::from_utf8(text).is_err() {
        object.insert(format!("{key}_hex"), hex(text).into());
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
        let unix = self.run.clock.unix_ns(monotonic);
        unix.saturating_sub(self.run.start_unix_ns) as f64 / 1e9
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
