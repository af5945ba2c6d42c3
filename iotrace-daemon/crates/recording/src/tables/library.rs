//! `library.parquet`: calls of libraries, one row per process, function, file and object.

use iotrace_common::{
    bucket::SIZES,
    key::FileId,
    library::{self, Calls, FUNCTIONS, class},
};
use iotrace_model::{history::Bounds, input::ProcessId};

use super::{Part, Restored};
use crate::columns::{Buckets, Damage, Derived, Moment, Name, row};

row! {
    pub struct Row<'a> in "library" {
        /// the interval
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// `stdio`, `cufile`, `hdf5` or `mpiio`
        library: &'a str,
        /// the symbol; `cuFileBatchIOSubmit:write` are the writes of a batch
        function: &'a str,
        /// `open`, `close`, `read`, `write`, `seek`, `flush`, `wait` (the second half of a split call) or `view`
        class: Derived<&'a str>,
        /// path of the file
        path: Derived<Name<'a>>,
        /// the file, if known
        file: Option<FileId>,
        /// the file name passed to HDF5 or MPI
        opened_name: Name<'a>,
        /// the data set or group in the file; null for the file itself
        object: Name<'a>,
        /// calls that succeeded
        calls: u64,
        /// calls that failed
        failures: u64,
        /// bytes moved, [as defined for each library](../guide/libraries.md)
        bytes: u64,
        /// time inside calls, failed ones included
        ns: u64,
        /// time of the longest successful call
        slowest_ns: u64,
        /// its bytes
        slowest_bytes: u64,
        /// highest offset read or written; 0 for what is not a stream
        max_byte: u64,
        /// start of the first call
        first_call_unix_ns: Option<Moment>,
        /// end of the last call
        last_call_unix_ns: Option<Moment>,
        /// calls by bytes moved, in the buckets of `read_size_*`, from 0
        call_sizes: Buckets<SIZES>,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let libraries = part.model.libraries();
    libraries.interval().map(move |(key, calls)| {
        let (symbol, function) = key.function();
        let file = key.file.map(|file| part.model.file(file));
        let (name, object) = libraries.names(key);
        Row {
            interval: part.interval,
            host: Derived(&part.run.host),
            process: part.process(key.process),
            library: library::NAMES[usize::from(function.library)],
            function: symbol,
            class: Derived(class::NAMES[usize::from(function.class)]),
            path: Derived(Name::of(file.as_ref())),
            file: file.map(|file| file.id),
            opened_name: Name::unless_empty(name),
            object: Name::unless_empty(object),
            calls: calls.calls,
            failures: calls.failures,
            bytes: calls.bytes,
            ns: calls.ns,
            slowest_ns: calls.slowest_ns,
            slowest_bytes: calls.slowest_bytes,
            max_byte: calls.max_byte,
            first_call_unix_ns: Moment::unless_zero(calls.first),
            last_call_unix_ns: Moment::unless_zero(calls.last),
            call_sizes: Buckets(calls.sizes),
        }
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let function = FUNCTIONS.iter().find(|(symbol, function)| {
        let library = library::NAMES[usize::from(function.library)];
        (library, *symbol) == (row.library, row.function)
    });
    let (_, function) = function.ok_or("it names a function that this iotrace does not know")?;
    let calls = Calls {
        calls: row.calls,
        failures: row.failures,
        bytes: row.bytes,
        ns: row.ns,
        slowest_ns: row.slowest_ns,
        slowest_bytes: row.slowest_bytes,
        first: row.first_call_unix_ns.unwrap_or_default().0,
        last: row.last_call_unix_ns.unwrap_or_default().0,
        max_byte: row.max_byte,
        sizes: row.call_sizes.0,
    };
    let names = (row.opened_name.into_bytes(), row.object.into_bytes());
    into.model
        .restore_library_calls(row.process, function.index, row.file, names, &calls);
    Ok(())
}
