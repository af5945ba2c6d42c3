//! Records of Darshan's DXT_POSIX module, version 1: each read and write, where the recording has a trace.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use iotrace_common::op;

use super::{
    hash::record_id,
    job::Metadata,
    printable,
    records::{Records, name},
};
use crate::{
    Export,
    operations::{Missing, Operation},
};
use iotrace_model::Process;

/// Most segments: PyDarshan's heat map takes 10 GB of memory for 800,000, and more than 20 GB for 3 million.
const MOST_SEGMENTS: usize = 500_000;
/// Bytes of one segment, and of a host's name.
const SEGMENT: usize = 32;
const HOST: usize = 64;

/// Reads and writes of one process on one file, as the log has them.
#[derive(Default)]
struct Record {
    place: usize,
    writes: Vec<u8>,
    reads: Vec<u8>,
}

/// The module.
#[derive(Default)]
pub struct Dxt {
    /// The records; none without a trace.
    pub records: Vec<u8>,
    /// Reads and writes that have no segment.
    left_out: u64,
    missing: Missing,
}

impl Dxt {
    /// The first segments of the reads and writes of files that have a record.
    pub fn new(export: &Export<'_>, records: &Records) -> Result<Self, iotrace_recording::Error> {
        let mut dxt = Self::default();
        let most = MOST_SEGMENTS / export.nodes.len().max(1);
        let mut segments = vec![0; export.nodes.len()];
        let processes: Vec<&Process> = export.processes().collect();
        // By process and file, the key of its record: rank and id.
        let mut keys: HashMap<(usize, u32), Option<(usize, u64)>> = HashMap::new();
        let mut all: BTreeMap<(usize, u64), Record> = BTreeMap::new();
        let missing = export.each_operation(|operation| {
            let kind = operation.traced.op as usize;
            if !matches!(kind, op::READ | op::WRITE) || operation.traced.result < 0 {
                return;
            }
            let key = operation.row.and_then(|row| {
                *keys.entry((operation.place, row.file)).or_insert_with(|| {
                    let rank = records.ranks.of_place(operation.place)?;
                    let key = (rank, name(export, &export.model.file(row.file)));
                    let is_there = records.all.contains_key(&key);
                    is_there.then(|| (rank, record_id(key.1.as_bytes())))
                })
            });
            let count = &mut segments[processes[operation.place].node as usize];
            let segment = segment(&operation, export.run.duration_ns);
            let (Some(key), Some(segment), true) = (key, segment, *count < most) else {
                dxt.left_out += 1;
                return;
            };
            *count += 1;
            let record = all.entry(key).or_default();
            record.place = operation.place;
            match kind {
                op::WRITE => &mut record.writes,
                _ => &mut record.reads,
            }
            .extend(segment);
        })?;
        dxt.missing = missing.unwrap_or_default();
        for ((rank, id), record) in all {
            let host = printable(export.host(processes[record.place]).as_bytes());
            record.put(id, rank, &host, &mut dxt.records);
        }
        Ok(dxt)
    }

    /// Whether something that was to be traced is missing.
    pub fn is_partial(&self) -> bool {
        self.left_out + self.missing.operations > 0
    }

    /// What the module has not.
    pub fn metadata(&self) -> Metadata {
        let counts = [
            ("dxt_left_out", self.left_out),
            ("dxt_operations_not_traced", self.missing.operations),
            ("dxt_filtered", u64::from(self.missing.filtered)),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts
            .map(|(key, count)| (key, count.to_string()))
            .collect()
    }
}

impl Record {
    fn put(&self, id: u64, rank: usize, host: &str, out: &mut Vec<u8>) {
        out.extend(id.to_le_bytes());
        out.extend((rank as i64).to_le_bytes());
        out.extend([0; 8]); // a flag that nothing uses
        let host = &host[..host.floor_char_boundary(HOST - 1)];
        out.extend(host.as_bytes());
        out.extend(vec![0; HOST - host.len()]);
        for segments in [&self.writes, &self.reads] {
            out.extend((segments.len() as u64 / SEGMENT as u64).to_le_bytes());
        }
        out.extend(&self.writes);
        out.extend(&self.reads);
    }
}

/// Offset, bytes, and start and end in seconds, within the run; none where the offset is not known.
fn segment(operation: &Operation<'_>, run: u64) -> Option<[u8; SEGMENT]> {
    let run = i64::try_from(run.max(1)).unwrap_or(i64::MAX);
    let seconds = |ns: i64| (ns.clamp(0, run) as f64 / 1e9).to_le_bytes();
    let end = operation.start.saturating_add(operation.traced.duration);
    let words = [
        operation.traced.offset?.to_le_bytes(),
        operation.traced.result.to_le_bytes(),
        seconds(operation.start),
        seconds(end),
    ];
    let mut segment = [0; SEGMENT];
    segment.copy_from_slice(words.as_flattened());
    Some(segment)
}
