//! The modules STDIO, MPI-IO, H5F and H5D, of what uprobes saw.
//!
//! Darshan counts a byte in STDIO or in POSIX, since it does not see the C library's own system calls. Here both are there:
//! what the program asked its library for, and what came of it.

use std::collections::BTreeMap;

use iotrace_common::library::{Calls, FUNCTIONS, Function, HDF5, MPIIO, STDIO, class};

use super::{hash, printable, ranks::Ranks, records};
use crate::Export;
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    library::{Key, add},
};

/// Sizes of the records, bytes.
const STDIO_SIZE: usize = 248;
const MPIIO_SIZE: usize = 560;
const H5F_SIZE: usize = 80;
const H5D_SIZE: usize = 912;

/// What stands between the names of a file and of a data set in it.
const DELIMITER: &str = ":";

/// Calls by class, and by how they opened.
#[derive(Default)]
struct Sums {
    classes: [Calls; class::NAMES.len()],
    /// Of the opens, those of a descriptor.
    of_descriptors: u64,
    /// Whether one of the functions is for data sets alone.
    is_data_set: bool,
    /// Reads and writes of MPI's by form.
    forms: [Forms; 2],
}

/// Calls of MPI's, as Darshan tells them apart.
#[derive(Default)]
struct Forms {
    independent: u64,
    collective: u64,
    split: u64,
    nonblocking: u64,
}

impl Forms {
    /// The sum that calls of this function belong to.
    fn of(&mut self, symbol: &str) -> &mut u64 {
        if symbol.ends_with("_begin") {
            &mut self.split
        } else if symbol.starts_with("MPI_File_i") {
            &mut self.nonblocking
        } else if symbol.ends_with("_all") || symbol.ends_with("_ordered") {
            &mut self.collective
        } else {
            &mut self.independent
        }
    }
}

/// By rank and name.
type Subjects = BTreeMap<(usize, String), Sums>;

/// The regions of the modules, empty where there is nothing, and the names of their records.
#[derive(Default)]
pub struct Regions {
    pub stdio: Vec<u8>,
    pub mpiio: Vec<u8>,
    pub files: Vec<u8>,
    pub data_sets: Vec<u8>,
    pub names: Vec<String>,
}

impl Regions {
    /// The records of an export. Where phases are selected there are none: a library's calls have no phase.
    pub fn new(export: &Export<'_>, ranks: &Ranks) -> Self {
        let mut regions = Self::default();
        if export.is_by_phase() {
            return regions;
        }
        let [mut streams, mut shared, mut files] = [const { Subjects::new() }; 3];
        let mut data_sets: BTreeMap<(usize, String, String), Sums> = BTreeMap::new();
        let places = export.places();
        for (key, calls) in export.model.libraries().all() {
            let rank = places[key.process as usize].and_then(|place| ranks.of_place(place));
            let Some(rank) = rank else { continue };
            let (_, function) = key.function();
            let (file, object) = names(export, key);
            // A call that failed to open a file has none.
            if file.is_empty() {
                continue;
            }
            let sums = match function.library {
                STDIO => streams.entry((rank, file)).or_default(),
                MPIIO => shared.entry((rank, file)).or_default(),
                HDF5 if object.is_empty() => files.entry((rank, file)).or_default(),
                HDF5 => data_sets.entry((rank, file, object)).or_default(),
                _ => continue,
            };
            sums.add(key, &function, calls);
        }
        for ((rank, name), sums) in streams {
            let mut record = Record::new(export, &name, rank);
            sums.put_stream(&mut record);
            regions.stdio.extend(record.end(STDIO_SIZE));
            regions.names.push(name);
        }
        for ((rank, name), sums) in shared {
            let mut record = Record::new(export, &name, rank);
            sums.put_mpi_file(&mut record);
            regions.mpiio.extend(record.end(MPIIO_SIZE));
            regions.names.push(name);
        }
        for ((rank, name), sums) in files {
            let mut record = Record::new(export, &name, rank);
            sums.put_file(&mut record);
            regions.files.extend(record.end(H5F_SIZE));
            regions.names.push(name);
        }
        for ((rank, file, object), sums) in data_sets {
            if sums.is_data_set {
                let name = [file.as_str(), DELIMITER, &object].concat();
                let mut record = Record::new(export, &name, rank);
                let id = hash::record_id(file.as_bytes());
                record.bytes.extend(id.to_le_bytes());
                sums.put_data_set(&mut record);
                regions.data_sets.extend(record.end(H5D_SIZE));
                regions.names.extend([file, name]);
            }
        }
        regions
    }
}

/// The names of a call's file and of the object in it, as records have them.
fn names(export: &Export<'_>, key: &Key) -> (String, String) {
    let (given, object) = export.model.libraries().names(key);
    let file = match key.file {
        Some(file) => records::name(export, &export.model.file(file)),
        None => printable(&export.names.path(&given)),
    };
    (file, printable(&export.names.path(&object)))
}

impl Sums {
    fn add(&mut self, key: &Key, function: &Function, calls: &Calls) {
        let (symbol, _) = FUNCTIONS[usize::from(key.function)];
        if let Some(sum) = self.classes.get_mut(usize::from(function.class)) {
            add(sum, calls);
        }
        if symbol == "fdopen" {
            saturating_add(&mut self.of_descriptors, calls.calls);
        }
        self.is_data_set |= symbol.starts_with("H5D");
        let [reads, writes] = &mut self.forms;
        match function.class {
            class::READ => saturating_add(reads.of(symbol), calls.calls),
            class::WRITE => saturating_add(writes.of(symbol), calls.calls),
            _ => {}
        }
    }

    fn of(&self, class: u8) -> &Calls {
        &self.classes[usize::from(class)]
    }

    fn put_stream(&self, record: &mut Record<'_, '_>) {
        let [open, close, read, write, seek, flush] =
            [0, 1, 2, 3, 4, 5].map(|class| self.of(class));
        record.integers([
            open.calls,
            self.of_descriptors,
            read.calls,
            write.calls,
            seek.calls,
            flush.calls,
            write.bytes,
            read.bytes,
            read.max_byte,
            write.max_byte,
        ]);
        record.integers([0; 4]); // of shared records only
        record.seconds([
            saturating_sum([open.ns, close.ns, seek.ns]),
            write.ns.saturating_add(flush.ns),
            read.ns,
        ]);
        record.moments([open.first, close.first, write.first, read.first]);
        record.moments([open.last, close.last, write.last, read.last]);
        record.seconds([0; 4]); // of shared records only
    }

    fn put_mpi_file(&self, record: &mut Record<'_, '_>) {
        let [open, close, read, write, _, flush, _, view] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(|class| self.of(class));
        let [reads, writes] = &self.forms;
        record.integers([
            0, // independent opens: the communicator is not seen
            open.calls,
            reads.independent,
            writes.independent,
            reads.collective,
            writes.collective,
            reads.split,
            writes.split,
            reads.nonblocking,
            writes.nonblocking,
            flush.calls,
            0, // hints: not seen
            view.calls,
            0, // mode: not seen
            read.bytes,
            write.bytes,
            0, // switches: not seen
        ]);
        record.integers([read.slowest_bytes, write.slowest_bytes]);
        record.integers(read.sizes);
        record.integers(write.sizes);
        record.integers([0; 4 + 4 + 4]); // common accesses: not seen; ranks: of shared records only
        record.moments([open.first, read.first, write.first, close.first]);
        record.moments([open.last, read.last, write.last, close.last]);
        record.seconds([
            read.ns,
            write.ns.saturating_add(flush.ns),
            saturating_sum([open.ns, close.ns, view.ns]),
        ]);
        record.seconds([read.slowest_ns, write.slowest_ns]);
        record.seconds([0; 4]); // of shared records only
    }

    fn put_file(&self, record: &mut Record<'_, '_>) {
        let [open, close, flush] = [class::OPEN, class::CLOSE, class::FLUSH].map(|c| self.of(c));
        record.integers([open.calls, flush.calls, 0]); // USE_MPIIO: not seen
        record.moments([open.first, close.first, open.last, close.last]);
        record.seconds([saturating_sum([open.ns, close.ns, flush.ns])]);
    }

    fn put_data_set(&self, record: &mut Record<'_, '_>) {
        let [open, close, read, write, _, flush] = [0, 1, 2, 3, 4, 5].map(|class| self.of(class));
        record.integers([
            open.calls,
            read.calls,
            write.calls,
            flush.calls,
            read.bytes,
            write.bytes,
        ]);
        record.integers([0; 4]); // switches and selections: not seen
        record.integers([read.slowest_bytes, write.slowest_bytes]);
        record.integers(read.sizes);
        record.integers(write.sizes);
        // Common accesses, the shape of the data set, collective use: not seen; ranks: of shared records only.
        record.integers([0; 4 + 40 + 4 + 3 + 5 + 2 + 4]);
        record.moments([open.first, read.first, write.first, close.first]);
        record.moments([open.last, read.last, write.last, close.last]);
        record.seconds([
            read.ns,
            write.ns,
            saturating_sum([open.ns, close.ns, flush.ns]),
        ]);
        record.seconds([read.slowest_ns, write.slowest_ns]);
        record.seconds([0; 4]); // of shared records only
    }
}

/// A record that is being written: its id and its rank, and what follows.
struct Record<'a, 'b> {
    export: &'a Export<'b>,
    bytes: Vec<u8>,
}

impl<'a, 'b> Record<'a, 'b> {
    fn new(export: &'a Export<'b>, name: &str, rank: usize) -> Self {
        let mut bytes = hash::record_id(name.as_bytes()).to_le_bytes().to_vec();
        bytes.extend((rank as i64).to_le_bytes());
        Self { export, bytes }
    }

    fn integers<const N: usize>(&mut self, values: [u64; N]) {
        for value in values {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    fn seconds<const N: usize>(&mut self, ns: [u64; N]) {
        for ns in ns {
            self.bytes.extend((ns as f64 / 1e9).to_le_bytes());
        }
    }

    /// Moments since the start of the run; 0 means never.
    fn moments<const N: usize>(&mut self, moments: [u64; N]) {
        for moment in moments {
            let seconds = match moment {
                0 => 0.0,
                at => (self.export.moment(at) as f64 / 1e9).max(1e-9),
            };
            self.bytes.extend(seconds.to_le_bytes());
        }
    }

    fn end(self, size: usize) -> Vec<u8> {
        debug_assert_eq!(self.bytes.len(), size);
        self.bytes
    }
}
