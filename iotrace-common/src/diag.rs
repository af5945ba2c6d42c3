//! Why something was not counted, or not counted in full: slots of the per-CPU diagnostics array.

macro_rules! diagnostics {
    ($($index:literal $konst:ident $name:literal $loss:literal $doc:literal;)*) => {
        $(#[doc = $doc] pub const $konst: u32 = $index;)*
        /// Number of diagnostics.
        pub const COUNT: usize = [$($index),*].len();
        /// Names, by index, as they appear in reports and metrics.
        pub const NAMES: [&str; COUNT] = [$($name),*];
        /// Whether a diagnostic is a loss: something that the process did and that no counter holds.
        pub const IS_LOSS: [bool; COUNT] = [$($loss),*];
        /// What each means.
        pub const MEANINGS: [&str; COUNT] = [$($doc),*];
        const _: () = {
            let order: [u32; COUNT] = [$($index),*];
            let mut i = 0;
            while i < COUNT { assert!(order[i] == i as u32); i += 1; }
        };
    };
}

diagnostics! {
    0 SKIPPED "skipped" false "Operations on sockets, pipes, terminals, devices and other descriptors that are neither files nor directories.";
    1 LOST_OPERATIONS "lost_operations" true "Operations that found neither a free counter nor a free overflow counter.";
    2 LOST_BYTES "lost_bytes" true "Bytes of those operations.";
    3 NO_STATE "no_thread_state" true "Operations that could not be traced because the kernel had no memory for the thread's state.";
    4 UNTIMED "untimed" false "Operations counted without their time, because they began before the hooks were attached.";
    5 EXIT_MISSED "exit_missed" true "Operations whose end was not seen.";
    6 COMPAT "compat_calls" true "File system calls by the 32-bit interface, which are not accounted.";
    7 NAMES_DROPPED "names_dropped" false "File names that found the event buffer full; they are sent again when the file is used again.";
    8 EVENTS_DROPPED "events_dropped" true "Process and rename notices that found the event buffer full.";
    9 TARGETS_FULL "untraced_processes" true "New processes that were not followed, because too many are followed already.";
    10 STATE_MISSING "unknown_positions" false "Reads and writes left out of the sequential and stride counts, because the file's last access was not known.";
    11 UNREADABLE "unreadable_arguments" false "System call arguments in the program's memory that could not be read.";
    12 FAILURES_UNSORTED "failures_without_errno" false "Failed operations counted as failed, but not by errno: the failure counters were full.";
    13 UNMERGED "unmerged_calls" false "Calls of processes with several threads whose whole time counts as merged time, or none of it, because there was no room for the process or its state changed too often.";
    14 UNSURE_NS "merged_uncertain_ns" false "Nanoseconds by which merged times may be off: opens that turned out to be of another phase than the open before, while other threads used either phase.";
    15 UNLISTED_LOOKS "unlisted_lookups" false "Look-ups that found nothing whose directory is not listed, because too many directories were searched at one time.";
    16 PRIVILEGED "privileged_processes" false "Processes that were not followed any more, because they came to run a program with other rights than those of the user who records.";
    17 TRACE_UNOWNED "trace_unattributed" true "Operations missing in the trace, by no process: there were too many processes to count them by.";
    18 FETCHED_BY_KERNEL "fetched_by_kernel_bytes" false "Bytes that threads of the kernel brought into the page cache, of files that traced processes use: by no process, and in no bytes_fetched.";
    19 LIBRARY_LOST "library_calls_lost" true "Calls of libraries seen by uprobes that found no room for their counters or their state.";
    20 LIBRARY_NAMES_DROPPED "library_names_dropped" true "Objects and marks of libraries whose names found the event buffer full.";
    21 AIO_LOST "aio_requests_lost" true "Requests of libaio that are not counted, because too many were in flight or could not be read.";
    22 AIO_UNREPORTED "aio_requests_unreported" false "Requests of libaio that are not counted, because their process ended before it had their results.";
    23 UNSIZED "library_calls_unsized" true "Calls of libraries that are counted without their bytes, because the size of their datatype was not known.";
    24 FAULTS_UNTIMED "untimed_faults" false "Major page faults on mapped files whose time is not known: the kernel had them done by itself (populating, locking, direct I/O), or their end was not seen.";
    25 MAPPING_UNKNOWN "unplaced_msyncs" false "msync calls that stand by name and not with their file: another thread was changing the process's mappings, or the kernel (before 5.17) cannot tell of which file they are.";
    26 SKIPPED_SOCKETS "skipped_sockets" false "Those on sockets; in skipped as well.";
    27 SKIPPED_PIPES "skipped_pipes" false "Those on pipes and FIFOs; in skipped as well.";
    28 SKIPPED_DEVICES "skipped_devices" false "Those on terminals and other character devices; in skipped as well.";
    29 SKIPPED_BLOCK_DEVICES "skipped_block_devices" false "Those on block devices; in skipped as well.";
    30 AIO_UNSEEN "aio_requests_unseen" true "Requests of libaio that are not counted, because the kernel has no bpf_loop (Linux 5.17).";
    31 DEVICES_UNLISTED "unlisted_device_mappings" false "Mappings of devices that are not told by device, because too many devices were mapped.";
    32 BLOCK_REQUESTS_LOST "block_requests_lost" true "Requests to block devices that are not counted, because too many were in flight, or to too many devices.";
    33 BLOCK_BYTES_LOST "block_bytes_lost" true "Bytes moved between devices and files that are in no device_bytes_read or device_bytes_written, because there was no room for another file.";
    34 WAITS_LOST "waits_lost" false "Waits of threads that are in no account of waits, because their ring was full or the kernel had no memory for the thread: they count as time on a CPU.";
    35 LOST_DETAILS "lost_details" false "Operations that are counted without what detail full adds, because there was no room for it.";
    36 LINES_UNREAD "lines_unread" false "Opens and slow calls of Python programs of no known line, because the interpreter's frames could not be read.";
    37 LINES_LOST "lines_lost" false "Calls that are in no account of lines, because there were too many lines at one time.";
    38 LINES_UNSENT "lines_unsent" false "Stacks of Python programs that found the event buffer full; they are sent again when they are met again.";
    39 LATENCIES_LOST "latencies_lost" false "Operations that are counted, but are in no account of latencies: there were too many threads, devices and phases at one time.";
}

/// Kinds of what is skipped: together with [`SKIPPED`] itself, which holds all others, they are `skipped`.
pub const SKIPPED_KINDS: [u32; 4] = [
    SKIPPED_SOCKETS,
    SKIPPED_PIPES,
    SKIPPED_DEVICES,
    SKIPPED_BLOCK_DEVICES,
];

/// Types of what is skipped, as they stand in a mode (inode(7)).
pub mod file_type {
    pub const PIPE: u64 = 0x1000;
    pub const CHARACTER_DEVICE: u64 = 0x2000;
    pub const BLOCK_DEVICE: u64 = 0x6000;
    pub const SOCKET: u64 = 0xc000;
}

/// The diagnostic that counts an operation on what is neither a file nor a directory, by its type.
#[inline(always)]
pub const fn skipped(file_type: u64) -> u32 {
    match file_type {
        file_type::SOCKET => SKIPPED_SOCKETS,
        file_type::PIPE => SKIPPED_PIPES,
        file_type::CHARACTER_DEVICE => SKIPPED_DEVICES,
        file_type::BLOCK_DEVICE => SKIPPED_BLOCK_DEVICES,
        _ => SKIPPED,
    }
}

/// What stands before a device's name in the name of the count of its mappings, and in that of the bytes of these.
pub const DEVICE_MAPPINGS: &str = "device_mappings:";
pub const DEVICE_MAPPED_BYTES: &str = "device_mapped_bytes:";

/// Where the kernel has no type information: files whose descriptor was closed before it could be looked at. They are known by
/// the path that they were opened by, or by nothing.
pub const FILES_BY_PATH: &str = "files_by_path";
pub const FILES_NAMELESS: &str = "files_nameless";

/// What the kernel counts itself: runs of programs that it skipped because the program was running already on that CPU. By
/// what the programs are for, name and meaning: operations, processes, storage.
pub const MISSES: [(&str, &str); 3] = [
    (
        "recursion_misses",
        "Runs of the programs on operations that the kernel skipped, because the program was running on that CPU \
         already: at most as many operations are missing.",
    ),
    (
        "process_recursion_misses",
        "Runs of the programs on the start and the end of processes that the kernel skipped for that reason: at most as \
         many processes are missing with all that they did, or lack their program or their end.",
    ),
    (
        "storage_recursion_misses",
        "Runs of the programs on the page cache, mapped files and block devices that the kernel skipped for that reason: \
         what these count is less than it was. No operation is missing by that.",
    ),
];

/// Whether a count is a part of another one, or of one device.
#[must_use]
pub fn is_part(name: &str) -> bool {
    name.starts_with("skipped_")
        || name.starts_with(DEVICE_MAPPINGS)
        || name.starts_with(DEVICE_MAPPED_BYTES)
}

/// Whether a count means that something is missing; one that is not known does.
#[must_use]
pub fn is_loss(name: &str) -> bool {
    let known = NAMES.iter().position(|known| *known == name);
    match known {
        Some(index) => IS_LOSS[index],
        None => !is_part(name) && name != FILES_BY_PATH && name != FILES_NAMELESS,
    }
}
