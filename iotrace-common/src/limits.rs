//! Every bound of the kernel side, once.

/// Entries of one generation of the per-(thread, file) counters at detail `basic`.
pub const IO_ENTRIES_BASIC: u32 = 131_072;
/// Entries of one generation of the per-(thread, file) counters at detail `full`.
pub const IO_ENTRIES_FULL: u32 = 65_536;
/// Entries of one generation of latencies, by thread, device, phase and class of operation.
pub const LATENCY_ENTRIES: u32 = 4_096;
/// Places of a set of the table that finds the counters of a thread and file. As many sets as half of the entries of a
/// generation: a quarter of the places is taken when a generation is full.
pub const SET_WAYS: usize = 8;
/// Entries of one generation of the per-(thread, errno) failure counters.
pub const FAILURE_ENTRIES: u32 = 8_192;
/// Entries of one generation of the per-(process, directory) counters of look-ups that found nothing.
pub const MISSING_ENTRIES: u32 = 16_384;
/// Entries of one generation of the per-(thread, function, file) counters of library calls.
pub const LIBRARY_ENTRIES: u32 = 65_536;
/// Handles of libraries of which it is known what they are (an LRU).
pub const HANDLE_ENTRIES: u32 = 65_536;
/// Entries of a batch of cuFile's that are looked at; cuFile takes at most 128.
pub const BATCH_ENTRIES: u32 = 256;
/// Files mapped as code that were told of (an LRU: one that was forgotten is told of again).
pub const MAPPED_ENTRIES: u32 = 8_192;
/// Entries of one generation of the per-thread overflow counters.
pub const OVERFLOW_ENTRIES: u32 = 4_096;
/// Files remembered as already named (an LRU: an evicted file is named again).
pub const NAMED_ENTRIES: u32 = 131_072;
/// Sets of open files whose last access and span are remembered; a power of two.
pub const OPEN_FILE_SETS: u32 = 16_384;
/// Open files of a set.
pub const OPEN_FILE_WAYS: usize = 4;
/// Time without a call on an open file after which its next call begins another span, nanoseconds.
pub const SPAN_GAP_NS: u64 = 50_000_000;
/// Files of processes with several threads whose last calls' ends are remembered at detail `full` (an LRU).
pub const LAST_END_ENTRIES: u32 = 32_768;
/// Threads whose state stands in a table; a power of two. A thread whose place is taken has its state in task storage.
pub const THREAD_SLOTS: u32 = 32_768;
/// Threads whose state is kept where the kernel has no task storage.
pub const COMPAT_THREADS: u32 = 262_144;
/// Processes with several threads whose calls in flight are counted; a power of two.
pub const FLIGHT_SLOTS: u32 = 4_096;
/// Requests of io_uring that are timed at one time.
pub const REQUEST_ENTRIES: u32 = 65_536;
/// Requests of libaio that are followed at one time.
pub const AIO_REQUEST_ENTRIES: u32 = 65_536;
/// Contexts of libaio that are followed at one time.
pub const AIO_CONTEXT_ENTRIES: u32 = 16_384;
/// Files of overlay filesystems whose real file is remembered (an LRU).
pub const OVERLAID_ENTRIES: u32 = 16_384;
/// Devices whose mappings are told apart.
pub const DEVICE_ENTRIES: u32 = 256;
/// Requests to block devices in flight that are timed.
pub const BLOCK_REQUEST_ENTRIES: u32 = 65_536;
/// Entries of one generation of the counters of block devices, by class and CPU.
pub const BLOCK_DEVICE_ENTRIES: u32 = 8_192;
/// Block devices whose requests in flight are counted.
pub const BLOCK_DEPTH_ENTRIES: u32 = 1_024;
/// Entries of one generation of the counters of what is moved between devices and files.
pub const BLOCK_FILE_ENTRIES: u32 = 65_536;
/// Stacks of Python programs, and their code objects, that are known to have been sent.
pub const STACK_ENTRIES: u32 = 65_536;
/// Open files whose line is known.
pub const LINED_FILE_ENTRIES: u32 = 65_536;
/// Entries of one generation of the counters of lines.
pub const LINE_ENTRIES: u32 = 65_536;
/// Processes that can be followed at one time.
pub const TARGET_ENTRIES: u32 = 65_536;
/// Copies of the pair of programs on system calls, of which a later one acts where those before it were skipped.
pub const COPIES: usize = 3;
/// Processes by which operations missing in the trace are counted.
pub const UNTRACED_ENTRIES: u32 = 16_384;
/// Size of the event ring buffer, bytes.
pub const EVENT_RING_BYTES: u32 = 8 << 20;

/// System call numbers that the gate's table covers; every call at or above it is not traced.
pub const SYSCALLS: usize = 512;
/// Longest path that is sent, bytes (`PATH_MAX`).
pub const PATH_BYTES: usize = 4096;
/// Longest single name in a path (`NAME_MAX`).
pub const NAME_BYTES: usize = 255;
/// Deepest path that is walked where the kernel has `bpf_loop`.
pub const PATH_COMPONENTS: u32 = 512;
/// Command line bytes kept of an exec.
pub const ARGS_BYTES: usize = 1024;
/// Environment bytes of an exec that an event takes, where they are wanted, and the most events of one environment: what is
/// longer than all of them is read from /proc, where the process is still there.
pub const ENVIRONMENT_PIECE_BYTES: usize = 24 << 10;
pub const ENVIRONMENT_PIECES: usize = 8;
/// Most levels that are told of the control group of a program, innermost first.
pub const CGROUP_LEVELS: usize = 16;
/// Most bytes of the names of those levels, with room for one more name of the longest kind.
pub const CGROUP_BYTES: usize = 4 << 10;
/// Vectors of a vectored call whose buffers are looked at for alignment.
pub const ALIGN_VECTORS: usize = 8;
/// Bytes of a `struct inode` that hold all fields of a file's identity on kernels since 6.12.
pub const COMPACT_INODE_BYTES: usize = 128;
