//! Logs of Darshan's format 3.41, which Darshan's own tools and PyDarshan read.
//!
//! A header, then the job, the names of the records, and one region for each module, each compressed by zlib. Each
//! process is a rank, in order of their start. `docs/guide/exports.md` says which counter comes from where.

mod dxt;
mod hash;
mod heatmap;
mod job;
mod library;
mod posix;
mod ranks;
mod records;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write},
    path::PathBuf,
};

use flate2::{Compression, write::ZlibEncoder};
use iotrace_common::diag;

use super::Export;
use dxt::Dxt;
use iotrace_model::{
    Process,
    counters::{Counters, saturating_sum},
};
use ranks::{Ranks, ranges};
use records::Records;

/// Records of files that PyDarshan's summary bears: its time grows with their square.
pub const MOST_RECORDS: usize = 100_000;

const VERSION: &[u8] = b"3.41";
const MAGIC: i64 = 6_567_223;
const HEADER: usize = 1328;
/// Where the header has the map of the names, those of the modules, and their versions.
const NAME_MAP: usize = 32;
const MODULE_MAP: usize = 48;
const MODULE_VERSIONS: usize = 1072;
/// Ids and versions of the modules.
const POSIX: (usize, u32) = (1, 4);
const MPIIO: (usize, u32) = (2, 3);
const H5F: (usize, u32) = (3, 3);
const H5D: (usize, u32) = (4, 2);
const STDIO: (usize, u32) = (9, 2);
const DXT: (usize, u32) = (10, 1);
const HEATMAP: (usize, u32) = (15, 1);

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{recording} has detail {detail}, which has no access sizes, and a Darshan log is made of them: record with \
         --detail full, or export csv or json"
    )]
    Detail { recording: PathBuf, detail: String },
    #[error("no selected process used a file: there is nothing that a Darshan log could hold")]
    Empty,
    #[error(transparent)]
    Trace(#[from] iotrace_recording::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The log, with at most `most` records of files.
pub fn log(export: &Export<'_>, most: usize) -> Result<Vec<u8>, Error> {
    let mut nodes = export.nodes.iter();
    if let Some(node) = nodes.find(|node| node.run.detail != "full") {
        return Err(Error::Detail {
            recording: node.directory.clone(),
            detail: node.run.detail.clone(),
        });
    }
    let records = Records::new(export, most);
    if records.all.is_empty() {
        return Err(Error::Empty);
    }
    let mut names: BTreeMap<u64, &str> = BTreeMap::new();
    let mut posix = Vec::with_capacity(records.all.len() * posix::SIZE);
    for ((rank, name), record) in &records.all {
        let id = hash::record_id(name.as_bytes());
        names.insert(id, name);
        record.put(id, *rank, |at| export.moment(at), &mut posix);
    }
    let dxt = Dxt::new(export, &records)?;
    let heatmap = heatmap::heatmap(export, &records.ranks);
    if !heatmap.is_empty() {
        names.insert(hash::record_id(heatmap::NAME.as_bytes()), heatmap::NAME);
    }
    let libraries = library::Regions::new(export, &records.ranks);
    for name in &libraries.names {
        names.insert(hash::record_id(name.as_bytes()), name);
    }
    let mut name_region = Vec::new();
    for (id, name) in names {
        name_region.extend(id.to_le_bytes());
        name_region.extend(name.as_bytes());
        name_region.push(0);
    }
    let metadata = metadata(export, &records, &dxt);
    let job = job::job(export, records.ranks.count(), &records.mounts, metadata);

    let mut header = [0; HEADER];
    put(&mut header, 0, VERSION);
    put(&mut header, 8, &MAGIC.to_le_bytes());
    let partial = u64::from(is_partial(export)) << POSIX.0;
    let partial = partial | u64::from(dxt.is_partial()) << DXT.0;
    put(&mut header, 24, &partial.to_le_bytes());
    let mut body = compress(&job)?;
    let mut region = |header: &mut [u8; HEADER], at: usize, content: &[u8]| -> io::Result<()> {
        let content = compress(content)?;
        let offset = (HEADER + body.len()) as u64;
        put(header, at, &offset.to_le_bytes());
        put(header, at + 8, &(content.len() as u64).to_le_bytes());
        body.extend(content);
        Ok(())
    };
    region(&mut header, NAME_MAP, &name_region)?;
    let modules = [
        (POSIX, &posix),
        (MPIIO, &libraries.mpiio),
        (H5F, &libraries.files),
        (H5D, &libraries.data_sets),
        (STDIO, &libraries.stdio),
        (DXT, &dxt.records),
        (HEATMAP, &heatmap),
    ];
    for ((id, version), content) in modules {
        if !content.is_empty() {
            region(&mut header, MODULE_MAP + 16 * id, content)?;
            put(
                &mut header,
                MODULE_VERSIONS + 4 * id,
                &version.to_le_bytes(),
            );
        }
    }
    let mut log = header.to_vec();
    log.append(&mut body);
    Ok(log)
}

fn put(header: &mut [u8; HEADER], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

fn compress(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    encoder.finish()
}

/// Whether something is missing: readers then say so.
fn is_partial(export: &Export<'_>) -> bool {
    let mut losses = export.run.losses.iter().filter(|(_, count)| **count > 0);
    !export.complete
        || losses.any(|(name, _)| diag::is_loss(name))
        || operations_without_file(export) > 0
}

/// Operations that found no room for a file of their own.
fn operations_without_file(export: &Export<'_>) -> u64 {
    let overflows = export.processes().map(|process| process.overflow.total());
    saturating_sum(overflows.map(|counters: Counters| counters.operations()))
}

fn metadata(export: &Export<'_>, records: &Records, dxt: &Dxt) -> job::Metadata {
    let writer = format!("iotrace {}", env!("CARGO_PKG_VERSION"));
    let mut metadata = vec![
        ("lib_ver", writer.clone()), // readers ask for it
        ("writer", writer),
        ("hostname", printable(export.hosts().as_bytes())),
    ];
    let mut count = |key, value: u64| {
        if value > 0 {
            metadata.push((key, value.to_string()));
        }
    };
    count("folded_files", records.folded);
    count("operations_without_file", operations_without_file(export));
    count("incomplete_recording", u64::from(!export.complete));
    count("selected_phases_only", u64::from(export.is_by_phase()));
    count("selected_files_only", u64::from(export.is_by_file()));
    let losses = export.run.losses.iter().filter(|(_, count)| **count > 0);
    let losses: Vec<String> = losses
        .map(|(name, count)| format!("{name}:{count}"))
        .collect();
    if !losses.is_empty() {
        metadata.push(("not_counted", losses.join(",")));
    }
    metadata.extend(dxt.metadata());
    metadata.push((
        "heatmap",
        "bytes of an interval spread evenly over it".into(),
    ));
    metadata.extend(about_ranks(export, &records.ranks)); // the last, since it may not fit
    metadata
}

/// Who the ranks are.
fn about_ranks(export: &Export<'_>, ranks: &Ranks) -> job::Metadata {
    let mut metadata = job::Metadata::new();
    let all: Vec<&Process> = export.processes().collect();
    let processes: Vec<&Process> = ranks.places().iter().map(|place| all[*place]).collect();
    let mut jobs = processes
        .iter()
        .filter_map(|process| process.about.role.job.as_deref());
    if let Some(job) = jobs.next() {
        metadata.push(("job", printable(job.as_bytes())));
    }
    if let Some((variable, numbers)) = &ranks.told {
        let numbers = ranges(numbers.iter().copied().map(u64::from));
        metadata.push(("first_ranks", format!("{variable} {numbers}")));
    }
    if export.nodes.len() > 1 {
        let of_node = |node: usize| {
            let ranks = processes.iter().zip(0_u64..);
            ranges(
                ranks
                    .filter(|(process, _)| process.node as usize == node)
                    .map(|(_, rank)| rank),
            )
        };
        let nodes = export.nodes.iter().enumerate();
        let nodes = nodes.map(|(index, node)| {
            let host = export.names.text(&node.run.host);
            format!("{}:{}", printable(host.as_bytes()), of_node(index))
        });
        metadata.push(("ranks_of_hosts", nodes.collect::<Vec<_>>().join(" ")));
    }
    let pids = processes.iter().map(|process| process.id.pid.to_string());
    metadata.push(("pids", pids.collect::<Vec<_>>().join(",")));
    metadata
}

/// Text that every reader takes: bytes that are no UTF-8 and control characters are escaped as in URLs.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(text, "%{byte:02X}");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                escape(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(character);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn names_become_printable() {
        assert_eq!(printable("/data/ä 1%.npy".as_bytes()), "/data/ä 1%.npy");
        assert_eq!(printable(b"/a\xff\n\x7f"), "/a%FF%0A%7F");
    }
}
