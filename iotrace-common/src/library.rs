//! Functions of libraries that are seen by uprobes: which there are, and what their arguments and results mean.
//!
//! A function's entry travels to the programs as the cookie of its probe, so the kernel side has no table. All symbols are
//! public ones of the library's documented interface, but for those of [`bytes::POINTS`] and [`bytes::ELEMENT`], which
//! HDF5 exports for its own use.

use core::mem::size_of;

use crate::{bucket::SIZES, key::FileId};

/// Libraries.
pub const STDIO: u8 = 0;
pub const CUFILE: u8 = 1;
pub const HDF5: u8 = 2;
pub const MARKER: u8 = 3;
pub const MPIIO: u8 = 4;
/// Number of libraries.
pub const COUNT: usize = 5;
/// Their names, by number.
pub const NAMES: [&str; COUNT] = ["stdio", "cufile", "hdf5", "marker", "mpiio"];

/// What a function is for.
pub mod class {
    pub const OPEN: u8 = 0;
    pub const CLOSE: u8 = 1;
    pub const READ: u8 = 2;
    pub const WRITE: u8 = 3;
    pub const SEEK: u8 = 4;
    pub const FLUSH: u8 = 5;
    /// The second half of a read or a write.
    pub const WAIT: u8 = 6;
    /// Where in a file the program's data lies.
    pub const VIEW: u8 = 7;
    /// Called by one of the others, and counted with it.
    pub const INNER: u8 = 8;
    /// A mark of the program's own.
    pub const MARK: u8 = 9;
    /// Names, by number.
    pub const NAMES: [&str; 8] = [
        "open", "close", "read", "write", "seek", "flush", "wait", "view",
    ];
}

/// What a function works on.
pub mod subject {
    /// The stream that is argument `argument`.
    pub const STREAM: u8 = 0;
    /// The stream that it returns.
    pub const NEW_STREAM: u8 = 1;
    /// Standard output.
    pub const OUTPUT: u8 = 2;
    /// The handle that is argument `argument`.
    pub const HANDLE: u8 = 3;
    /// The handle that it writes to where argument 0 points, of the descriptor in the struct that argument 1 points to.
    pub const REGISTERED: u8 = 4;
    /// The handle that it returns, of the name that is argument `argument` ; a file.
    pub const NEW_FILE: u8 = 5;
    /// The same, of an object below the handle that is argument 0.
    pub const NEW_OBJECT: u8 = 6;
    /// The entries of a batch.
    pub const BATCH: u8 = 7;
    /// Nothing.
    pub const NONE: u8 = 8;
    /// The handle that it writes to where argument 4 points, of the name that is argument `argument`; a file.
    pub const NEW_FILE_AT: u8 = 9;
    /// The handle that argument `argument` points to.
    pub const HANDLE_AT: u8 = 10;
}

/// How many bytes a call moved.
pub mod bytes {
    /// None.
    pub const NONE: u8 = 0;
    /// As many as it returned.
    pub const RESULT: u8 = 1;
    /// As many items of the size in argument 1 as it returned.
    pub const ITEMS: u8 = 2;
    /// One, unless it returned -1.
    pub const ONE: u8 = 3;
    /// As far as the stream's position moved.
    pub const POSITION: u8 = 4;
    /// The length of the string that is argument 0.
    pub const STRING: u8 = 5;
    /// The same and a newline.
    pub const LINE: u8 = 6;
    /// What argument 2 points to: the bytes that were asked for.
    pub const ASKED: u8 = 7;
    /// Argument 4.
    pub const FIFTH: u8 = 8;
    /// Elements by the size of one, which inner calls return.
    pub const ELEMENTS: u8 = 9;
    /// An inner call that returns the number of elements.
    pub const POINTS: u8 = 10;
    /// An inner call that returns the size of an element.
    pub const ELEMENT: u8 = 11;
    /// As many items of the size in argument 2 as it returned.
    pub const ITEMS_CHECKED: u8 = 12;
    /// As many as argument 2, an `int`, of the datatype in argument 3.
    pub const DATATYPE: u8 = 13;
    /// As many as argument 3, an `int`, of the datatype in argument 4.
    pub const DATATYPE_AT: u8 = 14;
    /// An inner call that writes the size of the datatype in argument 0, an `int`, to where argument 1 points.
    pub const SIZE: u8 = 15;
    /// Set in these three where the number is an `MPI_Count`, of 64 bits.
    pub const LARGE: u8 = 0x80;
    pub const LARGE_SIZE: u8 = SIZE | LARGE;
}

/// How a call's result says that it failed.
pub mod failure {
    /// It does not.
    pub const NEVER: u8 = 0;
    /// It is null.
    pub const NULL: u8 = 1;
    /// It is not 0, as an `int`.
    pub const STATUS: u8 = 2;
    /// It is below 0, as an `int`.
    pub const NEGATIVE_INT: u8 = 3;
    /// It is below 0, as a `long`.
    pub const NEGATIVE: u8 = 4;
}

/// A function as the programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its place in [`FUNCTIONS`].
    pub index: u16,
    pub library: u8,
    /// One of [`class`].
    pub class: u8,
    /// One of [`subject`].
    pub subject: u8,
    /// Number of the argument that the subject is.
    pub argument: u8,
    /// One of [`bytes`].
    pub bytes: u8,
    /// One of [`failure`].
    pub failure: u8,
    /// Where the library's datatypes are structs: which of their 64-bit words has the size. It is known of a library's file
    /// alone, and 0 in [`FUNCTIONS`].
    pub size_word: u8,
}

impl Function {
    /// As the cookie of its probes.
    pub const fn cookie(self) -> u64 {
        let index = self.index.to_le_bytes();
        u64::from_le_bytes([
            index[0],
            index[1],
            self.library,
            self.class,
            self.subject,
            self.argument << 4 | self.failure,
            self.bytes,
            self.size_word,
        ])
    }

    /// Undoes [`Function::cookie`].
    #[inline(always)]
    pub const fn of_cookie(cookie: u64) -> Self {
        let b = cookie.to_le_bytes();
        Self {
            index: u16::from_le_bytes([b[0], b[1]]),
            library: b[2],
            class: b[3],
            subject: b[4],
            argument: b[5] >> 4,
            bytes: b[6],
            failure: b[5] & 15,
            size_word: b[7],
        }
    }
}

macro_rules! functions {
    ($($library:ident $symbol:literal $class:ident $subject:ident $argument:literal $bytes:ident $failure:ident;)*) => {
        /// All functions: symbol, and what it is.
        pub const FUNCTIONS: &[(&str, Function)] = &{
            let mut functions = [$(($symbol, Function {
                index: 0,
                library: $library,
                class: class::$class,
                subject: subject::$subject,
                argument: $argument,
                bytes: bytes::$bytes,
                failure: failure::$failure,
                size_word: 0,
            })),*];
            let mut index = 0;
            while index < functions.len() {
                functions[index].1.index = index as u16;
                index += 1;
            }
            functions
        };
    };
}

functions! {
    // FILE *fopen(path, mode), fdopen(fd, mode), freopen(path, mode, stream), tmpfile(void)
    STDIO "fopen" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "fopen64" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "fdopen" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "freopen" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "freopen64" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "tmpfile" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "tmpfile64" OPEN NEW_STREAM 0 NONE NULL;
    STDIO "fclose" CLOSE STREAM 0 NONE STATUS;
    // size_t fread(buffer, size, items, stream)
    STDIO "fread" READ STREAM 3 ITEMS NEVER;
    STDIO "fread_unlocked" READ STREAM 3 ITEMS NEVER;
    STDIO "__fread_chk" READ STREAM 4 ITEMS_CHECKED NEVER;
    STDIO "__fread_unlocked_chk" READ STREAM 4 ITEMS_CHECKED NEVER;
    STDIO "fwrite" WRITE STREAM 3 ITEMS NEVER;
    STDIO "fwrite_unlocked" WRITE STREAM 3 ITEMS NEVER;
    // char *fgets(buffer, size, stream)
    STDIO "fgets" READ STREAM 2 POSITION NEVER;
    STDIO "fgets_unlocked" READ STREAM 2 POSITION NEVER;
    STDIO "__fgets_chk" READ STREAM 3 POSITION NEVER;
    STDIO "__fgets_unlocked_chk" READ STREAM 3 POSITION NEVER;
    // ssize_t getline(line, size, stream), getdelim(line, size, delimiter, stream)
    STDIO "getline" READ STREAM 2 POSITION NEVER;
    STDIO "getdelim" READ STREAM 3 POSITION NEVER;
    STDIO "__getdelim" READ STREAM 3 POSITION NEVER;
    STDIO "fgetc" READ STREAM 0 ONE NEVER;
    STDIO "getc" READ STREAM 0 ONE NEVER;
    STDIO "fgetc_unlocked" READ STREAM 0 ONE NEVER;
    STDIO "getc_unlocked" READ STREAM 0 ONE NEVER;
    STDIO "getw" READ STREAM 0 POSITION NEVER;
    // int fscanf(stream, format, ...)
    STDIO "fscanf" READ STREAM 0 POSITION NEVER;
    STDIO "vfscanf" READ STREAM 0 POSITION NEVER;
    STDIO "__isoc99_fscanf" READ STREAM 0 POSITION NEVER;
    STDIO "__isoc99_vfscanf" READ STREAM 0 POSITION NEVER;
    STDIO "__isoc23_fscanf" READ STREAM 0 POSITION NEVER;
    STDIO "__isoc23_vfscanf" READ STREAM 0 POSITION NEVER;
    // int fputs(string, stream), fputc(character, stream)
    STDIO "fputs" WRITE STREAM 1 STRING NEGATIVE_INT;
    STDIO "fputs_unlocked" WRITE STREAM 1 STRING NEGATIVE_INT;
    STDIO "fputc" WRITE STREAM 1 ONE NEGATIVE_INT;
    STDIO "putc" WRITE STREAM 1 ONE NEGATIVE_INT;
    STDIO "fputc_unlocked" WRITE STREAM 1 ONE NEGATIVE_INT;
    STDIO "putc_unlocked" WRITE STREAM 1 ONE NEGATIVE_INT;
    // int fprintf(stream, format, ...), __fprintf_chk(stream, flag, format, ...)
    STDIO "fprintf" WRITE STREAM 0 RESULT NEGATIVE_INT;
    STDIO "vfprintf" WRITE STREAM 0 RESULT NEGATIVE_INT;
    STDIO "__fprintf_chk" WRITE STREAM 0 RESULT NEGATIVE_INT;
    STDIO "__vfprintf_chk" WRITE STREAM 0 RESULT NEGATIVE_INT;
    // Those that write to standard output.
    STDIO "printf" WRITE OUTPUT 0 RESULT NEGATIVE_INT;
    STDIO "vprintf" WRITE OUTPUT 0 RESULT NEGATIVE_INT;
    STDIO "__printf_chk" WRITE OUTPUT 0 RESULT NEGATIVE_INT;
    STDIO "__vprintf_chk" WRITE OUTPUT 0 RESULT NEGATIVE_INT;
    STDIO "puts" WRITE OUTPUT 0 LINE NEGATIVE_INT;
    STDIO "putchar" WRITE OUTPUT 0 ONE NEGATIVE_INT;
    // int fseek(stream, offset, whence), fsetpos(stream, position), void rewind(stream)
    STDIO "fseek" SEEK STREAM 0 NONE STATUS;
    STDIO "fseeko" SEEK STREAM 0 NONE STATUS;
    STDIO "fseeko64" SEEK STREAM 0 NONE STATUS;
    STDIO "fsetpos" SEEK STREAM 0 NONE STATUS;
    STDIO "fsetpos64" SEEK STREAM 0 NONE STATUS;
    STDIO "rewind" SEEK STREAM 0 NONE NEVER;
    STDIO "fflush" FLUSH STREAM 0 NONE STATUS;
    STDIO "fflush_unlocked" FLUSH STREAM 0 NONE STATUS;

    // CUfileError_t cuFileHandleRegister(CUfileHandle_t *handle, CUfileDescr_t *descriptor)
    CUFILE "cuFileHandleRegister" OPEN REGISTERED 0 NONE STATUS;
    // void cuFileHandleDeregister(CUfileHandle_t handle)
    CUFILE "cuFileHandleDeregister" CLOSE HANDLE 0 NONE NEVER;
    // ssize_t cuFileRead(CUfileHandle_t, void *buffer, size_t size, off_t file_offset, off_t buffer_offset)
    CUFILE "cuFileRead" READ HANDLE 0 RESULT NEGATIVE;
    CUFILE "cuFileWrite" WRITE HANDLE 0 RESULT NEGATIVE;
    // CUfileError_t cuFileReadAsync(CUfileHandle_t, void *buffer, size_t *size, off_t *file_offset, off_t *buffer_offset,
    // ssize_t *bytes_read, CUstream)
    CUFILE "cuFileReadAsync" READ HANDLE 0 ASKED STATUS;
    CUFILE "cuFileWriteAsync" WRITE HANDLE 0 ASKED STATUS;
    // CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t, unsigned entries, CUfileIOParams_t *parameters, unsigned flags)
    CUFILE "cuFileBatchIOSubmit" READ BATCH 0 NONE STATUS;
    // The writes among its entries: no function of their own.
    CUFILE "cuFileBatchIOSubmit:write" WRITE BATCH 0 NONE STATUS;

    // hid_t H5Fopen(name, flags, fapl), H5Fcreate(name, flags, fcpl, fapl)
    HDF5 "H5Fopen" OPEN NEW_FILE 0 NONE NEGATIVE;
    HDF5 "H5Fcreate" OPEN NEW_FILE 0 NONE NEGATIVE;
    HDF5 "H5Fflush" FLUSH HANDLE 0 NONE NEGATIVE_INT;
    HDF5 "H5Fclose" CLOSE HANDLE 0 NONE NEGATIVE_INT;
    // hid_t H5Dopen2(location, name, dapl), H5Dcreate2(location, name, type, space, lcpl, dcpl, dapl)
    HDF5 "H5Dopen1" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Dopen2" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Dcreate1" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Dcreate2" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    // hid_t H5Dcreate_anon(location, type, space, dcpl, dapl): it has no name, and the type is no address of one.
    HDF5 "H5Dcreate_anon" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Gopen2" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Gcreate2" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Oopen" OPEN NEW_OBJECT 1 NONE NEGATIVE;
    HDF5 "H5Dclose" CLOSE HANDLE 0 NONE NEGATIVE_INT;
    HDF5 "H5Dflush" FLUSH HANDLE 0 NONE NEGATIVE_INT;
    // herr_t H5Dread(set, memory type, memory space, file space, plist, buffer)
    HDF5 "H5Dread" READ HANDLE 0 ELEMENTS NEGATIVE_INT;
    HDF5 "H5Dwrite" WRITE HANDLE 0 ELEMENTS NEGATIVE_INT;
    // herr_t H5Dwrite_chunk(set, plist, filters, offset, size, buffer)
    HDF5 "H5Dwrite_chunk" WRITE HANDLE 0 FIFTH NEGATIVE_INT;
    // hsize_t H5S_get_select_npoints(space), size_t H5T_get_size(type): called by H5Dread and H5Dwrite.
    HDF5 "H5S_get_select_npoints" INNER NONE 0 POINTS NEVER;
    HDF5 "H5T_get_size" INNER NONE 0 ELEMENT NEVER;

    // void iotrace_range_push(const char *name), iotrace_range_pop(void), iotrace_mark(const char *name)
    MARKER "iotrace_range_push" MARK NONE 0 NONE NEVER;
    MARKER "iotrace_range_pop" MARK NONE 0 NONE NEVER;
    MARKER "iotrace_mark" MARK NONE 0 NONE NEVER;

    // int MPI_File_open(communicator, name, mode, info, MPI_File *file), MPI_File_close(MPI_File *file)
    MPIIO "MPI_File_open" OPEN NEW_FILE_AT 1 NONE STATUS;
    MPIIO "MPI_File_close" CLOSE HANDLE_AT 0 NONE STATUS;
    // int MPI_File_read(file, buffer, count, datatype, status), MPI_File_read_at(file, offset, buffer, count, datatype, status).
    // Those that take an MPI_Count end in _c, and count as those without.
    MPIIO "MPI_File_read" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_read_at" READ HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_read_all" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_read_at_all" READ HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_read_shared" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_read_ordered" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iread" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iread_at" READ HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_iread_all" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iread_at_all" READ HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_iread_shared" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_read_all_begin" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_read_at_all_begin" READ HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_read_ordered_begin" READ HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write_at" WRITE HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_write_all" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write_at_all" WRITE HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_write_shared" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write_ordered" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iwrite" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iwrite_at" WRITE HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_iwrite_all" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_iwrite_at_all" WRITE HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_iwrite_shared" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write_all_begin" WRITE HANDLE 0 DATATYPE STATUS;
    MPIIO "MPI_File_write_at_all_begin" WRITE HANDLE 0 DATATYPE_AT STATUS;
    MPIIO "MPI_File_write_ordered_begin" WRITE HANDLE 0 DATATYPE STATUS;
    // int MPI_File_read_all_end(file, buffer, status)
    MPIIO "MPI_File_read_all_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_read_at_all_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_read_ordered_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_write_all_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_write_at_all_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_write_ordered_end" WAIT HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_seek" SEEK HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_seek_shared" SEEK HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_set_view" VIEW HANDLE 0 NONE STATUS;
    MPIIO "MPI_File_sync" FLUSH HANDLE 0 NONE STATUS;
    // int MPI_Type_size(datatype, int *size), MPI_Type_size_x(datatype, MPI_Count *size): called by those that read and write.
    MPIIO "MPI_Type_size" INNER NONE 0 SIZE NEVER;
    MPIIO "MPI_Type_size_x" INNER NONE 0 LARGE_SIZE NEVER;
}

/// Place of the function with this symbol, of this library.
pub const fn index_of(library: u8, symbol: &str) -> Option<u16> {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        let (name, function) = FUNCTIONS[index];
        if function.library == library && is_same(name.as_bytes(), symbol.as_bytes()) {
            return Some(index as u16);
        }
        index += 1;
    }
    None
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

const fn place(library: u8, symbol: &str) -> u16 {
    match index_of(library, symbol) {
        Some(index) => index,
        None => panic!("no such function"),
    }
}

const _: () = {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        let function = FUNCTIONS[index].1;
        assert!(function.argument < 16 && function.failure < 16);
        index += 1;
    }
};

/// Functions that are told apart by their place.
pub const BATCH_READ: u16 = place(CUFILE, "cuFileBatchIOSubmit");
pub const BATCH_WRITE: u16 = place(CUFILE, "cuFileBatchIOSubmit:write");
pub const PUSH: u16 = place(MARKER, "iotrace_range_push");
pub const POP: u16 = place(MARKER, "iotrace_range_pop");

/// Key of the counters: one thread, so that an entry has one writer at a time and needs no atomics.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// The file that it was on; [`FileId::NONE`] where that is not known.
    pub file: FileId,
    /// Number of the object in the file that it was on, or of the file as the library knows it; 0: none.
    pub object: u64,
    pub tgid: u32,
    pub tid: u32,
    /// [`crate::key::start_key`] of the process.
    pub start: u32,
    /// Place in [`FUNCTIONS`].
    pub function: u32,
}

/// What a thread did by one function on one file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that succeeded.
    pub calls: u64,
    /// Calls that failed; their time is in `ns`.
    pub failures: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Nanoseconds inside the function.
    pub ns: u64,
    /// The longest call, nanoseconds, and its bytes.
    pub slowest_ns: u64,
    pub slowest_bytes: u64,
    /// Start of the first call and end of the last, `CLOCK_MONOTONIC` nanoseconds.
    pub first: u64,
    pub last: u64,
    /// Highest offset read or written; 0 where the function has none.
    pub max_byte: u64,
    /// Calls by bytes moved ([`crate::bucket`]).
    pub sizes: [u64; SIZES],
}

/// What all traced processes have done so far, on one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Calls that succeeded, of all kinds.
    pub operations: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Nanoseconds inside these calls, summed.
    pub ns: u64,
}

/// Longest name of a mark, with its NUL, bytes.
pub const MARK_BYTES: usize = 256;
/// Longest name of an object, with its NUL, bytes.
pub const OBJECT_BYTES: usize = 4096;

const _: () = {
    assert!(size_of::<CallKey>() == 40);
    assert!(size_of::<Calls>() == 72 + 8 * SIZES);
    assert!(size_of::<Progress>() == 32);
};

#[cfg(feature = "user")]
mod pod {
    // SAFETY: `repr(C)`, integers only, no padding (asserted above), every bit pattern valid.
    unsafe impl aya::Pod for super::CallKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for super::Calls {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_functions() {
        for (index, (symbol, function)) in FUNCTIONS.iter().enumerate() {
            assert_eq!(usize::from(function.index), index);
            assert_eq!(Function::of_cookie(function.cookie()), *function);
            assert_eq!(index_of(function.library, symbol), Some(function.index));
        }
    }
}
