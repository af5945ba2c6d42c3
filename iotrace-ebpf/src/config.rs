//! What the daemon sets before it loads the programs: options, and where the kernel keeps its fields.
//!
//! All of it is read-only and frozen at load, so the verifier folds each load to a constant and drops the branches
//! that an option turns off. The daemon reads the offsets from the kernel's own BTF.

use core::ptr;

use iotrace_common::{
    ABI_VERSION,
    limits::SYSCALLS,
    op::Call,
    trace::{FILTER_NAMES, FILTER_PIDS, NamePattern},
    uring::OPCODES,
};

/// A read-only global that the daemon sets before load.
///
/// No `UnsafeCell`: that would move it out of `.rodata`, and only frozen data folds to constants.
#[repr(transparent)]
pub struct Const(u64);

impl Const {
    const fn new(value: u64) -> Self {
        Self(value)
    }

    #[inline(always)]
    pub fn load(&self) -> u64 {
        // SAFETY: reads an aligned static; volatile because the value is set behind the compiler's back.
        unsafe { ptr::read_volatile(&raw const self.0) }
    }

    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.load() != 0
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: Const = Const::new($value);)*
    };
}

/// [`ABI_VERSION`] of this object. In a section of its own, where the daemon finds it before it loads anything.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iotrace_abi")]
pub static ABI: u64 = ABI_VERSION;

constants! {
    /// 1: keep `IoFull`, 0: keep `Io`.
    FULL = 0;
    /// 1: children of a target become targets.
    FOLLOW = 1;
    /// 1: the environment of what calls exec is sent.
    ENVIRONMENT = 0;
    /// 1: the control group of what calls exec is sent.
    CGROUP = 0;
    /// 1: histograms of durations and sizes are kept.
    COUNT_HISTOGRAMS = 0;
    /// 1: CPU time of threads is told ([`crate::cpu`]).
    COUNT_CPU = 0;
    /// 1: merged time over all processes is kept ([`crate::together`]).
    MERGE_ALL = 0;
    /// 1: the directories are counted that files were looked for in vain in.
    COUNT_MISSING = 0;
    /// Phases whose uses of files are counted apart, a bit for each ([`crate::spans`]).
    SPAN_PHASES = 0;
    /// The daemon's own process id, which is traced only where it is a target.
    SELF_TGID = 0;
    /// Cells of a generation.
    CELLS_EACH = 1;
    /// Number of sets that cells are found by, a power of two, less one.
    SET_MASK = 0;
    /// Cells given out of a generation at which the daemon is told to drain early.
    FILL_NOTICE = 0;
    /// 1: walk paths with `bpf_loop`.
    HAS_LOOP = 1;
    /// 1: programs on system calls can be preempted, and are skipped where they run already on their CPU (Linux 7.2).
    PREEMPTIBLE = 0;

    /// 1: the kernel has `bpf_rdonly_cast`, and the object's markers are calls of it.
    HAS_CAST = 0;

    // BTF ids of the structs that addresses are cast to.
    TYPE_FILE = 0;
    TYPE_INODE = 0;
    TYPE_SUPER_BLOCK = 0;
    TYPE_LIST_HEAD = 0;
    TYPE_TASK = 0;
    TYPE_REQUEST = 0;
    TYPE_URING_TASK = 0;

    /// 1: keep every operation ([`crate::trace`]).
    TRACE = 0;
    /// Records of one ring, a power of two.
    TRACE_RECORDS = 1;
    /// Phases that are traced, a bit for each; 0: all, and calls that name no open file.
    TRACE_PHASES = 0;
    /// Shortest operation that is traced, nanoseconds.
    TRACE_SHORTEST = 0;
    /// 1: only files that the second table of rules marks are traced.
    TRACE_PATHS = 0;
    /// 1: only processes by these ids are traced; 2: only those by these names; 3: both must be.
    TRACE_WHO = 0;
    /// 1: waits of threads are kept ([`crate::variant::waits`]).
    WAITS = 0;
    /// Records of one of their rings, a power of two.
    WAIT_RECORDS_EACH = 1;
    /// 1: `sched_switch` says the state of the task that leaves (Linux 5.18), 0: it is read from the task.
    HAS_PREVIOUS_STATE = 0;
    TASK_STATE = 0;
    /// `task_struct.bpf_storage`: null where a task has no task storage.
    TASK_STORAGE = 0;
    /// 1: this machine may show another CPU one's writes in another order.
    WEAKLY_ORDERED = 0;

    /// 1: there are uprobes ([`crate::uprobe`]).
    UPROBES = 0;
    /// 1: programs may set marks ([`crate::uprobe_mark`]).
    MARKS = 0;
    /// CPUs that there may be.
    CPUS = 0;

    // Field offsets, bytes. `struct pt_regs`: the six arguments and the system call number.
    REGS_ARG0 = 0;
    REGS_ARG1 = 0;
    REGS_ARG2 = 0;
    REGS_ARG3 = 0;
    REGS_ARG4 = 0;
    REGS_ARG5 = 0;
    REGS_NR = 0;
    /// Of a function, where they stand elsewhere than of a system call: arguments, the result, the stack pointer.
    FUNCTION_ARG0 = 0;
    FUNCTION_ARG3 = 0;
    REGS_RESULT = 0;
    REGS_STACK = 0;
    /// Bytes that a return takes off the stack.
    RETURN_POPS = 0;
    /// `task_struct.thread_info.status` and the bit in it that marks a 32-bit call; mask 0 where there is none.
    TASK_STATUS = 0;
    TASK_COMPAT_MASK = 0;
    TASK_FILES = 0;
    TASK_FS = 0;
    TASK_MM = 0;
    TASK_TGID = 0;
    TASK_PID = 0;
    TASK_GROUP_LEADER = 0;
    TASK_REAL_PARENT = 0;
    TASK_SIGNAL = 0;
    TASK_START = 0;
    TASK_COMM = 0;
    TASK_EXIT_CODE = 0;
    TASK_CRED = 0;
    CRED_UID = 0;
    CRED_EUID = 0;
    CRED_SUID = 0;
    SIGNAL_LIVE = 0;
    SIGNAL_THREADS = 0;
    SIGNAL_EXIT_CODE = 0;
    MM_EXE_FILE = 0;
    /// 1: the mapping at an address can be found ([`crate::mappings`]).
    FINDS_MAPPINGS = 0;
    VMA_FILE = 0;
    SB_FLAGS = 0;
    /// `mm_struct.flags`, whose lowest two bits say whether its user may look into a process.
    MM_FLAGS = 0;
    MM_ARG_START = 0;
    MM_ARG_END = 0;
    MM_ENV_START = 0;
    MM_ENV_END = 0;
    TASK_CGROUPS = 0;
    /// Of a task's `css_set`: its group of version 2, and its state in the memory hierarchy of version 1.
    SET_GROUP = 0;
    SET_MEMORY = 0;
    STATE_GROUP = 0;
    GROUP_NODE = 0;
    NODE_PARENT = 0;
    NODE_NAME = 0;
    FS_ROOT = 0;
    FS_PWD = 0;
    FILES_FDT = 0;
    FDT_FD = 0;
    FDT_MAX = 0;
    FILE_INODE = 0;
    FILE_PATH = 0;
    FILE_POS = 0;
    FILE_MODE = 0;
    INODE_MODE = 0;
    INODE_INO = 0;
    /// `inode.i_rdev`: of a device, its number.
    INODE_DEVICE = 0;
    INODE_GENERATION = 0;
    INODE_SB = 0;
    /// 1: the four fields above stand in the first `COMPACT_INODE_BYTES` of the inode.
    INODE_IS_COMPACT = 0;
    INODE_SIZE = 0;
    SB_DEV = 0;
    SB_BLOCK_SIZE = 0;
    SB_MAGIC = 0;
    /// `dentry.d_parent`; `d_name.hash_len` and `d_name.name` follow it at once, which the daemon checks.
    DENTRY_PARENT = 0;
    DENTRY_INODE = 0;
    /// `dentry.d_hash.pprev`: null once the name is gone.
    DENTRY_HASHED = 0;
    VFSMOUNT_ROOT = 0;
    /// `mount.mnt`, `mount.mnt_parent` (`mnt_mountpoint` follows it at once, which the daemon checks).
    MOUNT_VFSMOUNT = 0;
    // `struct io_kiocb`: a request. Its task stands in `io_uring_task`, or (before Linux 6.7) in the request itself.
    REQUEST_OPCODE = 0;
    REQUEST_FLAGS = 0;
    REQUEST_FILE = 0;
    REQUEST_FD = 0;
    REQUEST_TASK = 0;
    URING_TASK_TASK = 0;
    // What the operations keep in it.
    RW_POSITION = 0;
    RW_BUFFER = 0;
    RW_LENGTH = 0;
    OPEN_SLOT = 0;
    CLOSE_FD = 0;
    CLOSE_SLOT = 0;
    SYNC_FLAGS = 0;
    SYNC_OFFSET = 0;
    SYNC_LENGTH = 0;
    TRUNCATE_LENGTH = 0;
    UNLINK_FLAGS = 0;
    CQE_RESULT = 0;
    CQE_FLAGS = 0;
    /// 1: `REQUEST_TASK` is a `struct io_uring_task`, 0: the task.
    TASK_IS_BEHIND = 0;
    // The page cache: a folio, the mapping of its file, and what tells an open file's way around it.
    FOLIO_FLAGS = 0;
    FOLIO_MAPPING = 0;
    FOLIO_INDEX = 0;
    /// Of a large folio: a byte whose value is the logarithm of its number of pages.
    FOLIO_ORDER = 0;
    /// Bit of the flags that says that a folio is large.
    FOLIO_IS_LARGE = 0;
    MAPPING_HOST = 0;
    TASK_FLAGS = 0;
    /// `task_struct.se.sum_exec_runtime` and `.on_cpu`.
    TASK_RUNTIME = 0;
    TASK_ON_CPU = 0;
    TASK_MINOR_FAULTS = 0;
    TASK_MAJOR_FAULTS = 0;
    FILE_FLAGS = 0;
    FILE_PRIVATE = 0;
    INODE_DENTRY = 0;
    DENTRY_ALIAS = 0;
    VFSMOUNT_SB = 0;
    /// Bytes of a page, as a power of two.
    PAGE_SHIFT = 12;
    /// The flag of an open file that goes around the page cache, which differs by machine.
    O_DIRECT = 0;
    /// 1: the programs on the page cache are attached.
    PAGE_CACHE = 0;
    /// 1: no tracepoint shows the start of a page fault on a file; what is fetched in one does.
    FAULTS_BY_FETCH = 0;
    // The block layer: `struct request`, its disk, and `struct bio`.
    BLOCK_QUEUE = 0;
    BLOCK_OPERATION = 0;
    BLOCK_LEFT = 0;
    QUEUE_DISK = 0;
    DISK_MAJOR = 0;
    DISK_MINOR = 0;
    BIO_DEVICE = 0;
    BIO_OPERATION = 0;
    BIO_FLAGS = 0;
    BIO_SIZE = 0;
    BIO_INDEX = 0;
    BIO_VECTORS = 0;
    BIO_END = 0;
    BIO_PRIVATE = 0;
    VECTOR_PAGE = 0;
    DEVICE_DISK = 0;
    SB_DEVICE = 0;
    INODE_MAPPING = 0;
    TASK_BIOS = 0;
    /// Of a page: the folio that it is a part of.
    PAGE_HEAD = 0;
    /// Number of the operation that appends to a zone; 0: there is none.
    OP_ZONE_APPEND = 0;
    /// Address of the function that ends the bios of direct I/O; 0: not known. Their private data is a
    /// `struct iomap_dio`.
    DIRECT_END = 0;
    DIRECT_IOCB = 0;
    IOCB_FILE = 0;
    // Numbers of system calls that are not traced, and in which page cache fills are none of mapped memory.
    NR_IO_URING_ENTER = 0;
    NR_IO_SUBMIT = 0;
    NR_READAHEAD = 0;
    NR_FADVISE = 0;
    /// 1: `io_uring_complete` has a `struct io_uring_cqe`, 0: result and flags.
    COMPLETE_HAS_CQE = 0;
    MOUNT_PARENT = 0;
}

#[cfg(feature = "untyped")]
constants! {
    /// `cs` of `struct pt_regs`.
    REGS_SEGMENT = 0;
    // Of the record of the tracepoint task_newtask.
    NEWTASK_PID = 0;
    NEWTASK_FLAGS = 0;
}

/// What each system call does to descriptors ([`iotrace_common::untyped::action`]).
#[cfg(feature = "untyped")]
#[unsafe(no_mangle)]
pub static ACTIONS: [u8; SYSCALLS] = [0; SYSCALLS];

/// What system call `nr` does to descriptors.
#[cfg(feature = "untyped")]
#[inline(always)]
pub fn action(nr: u64) -> u8 {
    if nr >= SYSCALLS as u64 {
        return 0;
    }
    // SAFETY: as in `call`.
    unsafe { ptr::read_volatile(ACTIONS.as_ptr().add(nr as usize)) }
}

/// Processes that a trace's filter names.
#[unsafe(no_mangle)]
pub static TRACE_PIDS: [u32; FILTER_PIDS] = [0; FILTER_PIDS];

/// Names of processes that a trace's filter has.
#[unsafe(no_mangle)]
pub static TRACE_NAMES: [NamePattern; FILTER_NAMES] = [NamePattern::NOTHING; FILTER_NAMES];

const UNTRACED: Call = Call {
    shape: 0,
    op: 0,
    source: 0,
    direction: 0,
};

/// The gate table: what each native system call number is.
#[unsafe(no_mangle)]
pub static CALLS: [Call; SYSCALLS] = [UNTRACED; SYSCALLS];

/// 1 for each number that the 32-bit interface gives to a call that would be traced.
#[unsafe(no_mangle)]
pub static COMPAT_TRACED: [u8; SYSCALLS] = [0; SYSCALLS];

/// What each io_uring opcode is.
#[unsafe(no_mangle)]
pub static URING_REQUESTS: [Call; OPCODES] = [UNTRACED; OPCODES];

/// The entry of io_uring opcode `opcode`.
#[inline(always)]
pub fn request(opcode: u8) -> Call {
    // SAFETY: the table has an entry for each; volatile as in `call`.
    entry(unsafe {
        ptr::read_volatile(
            URING_REQUESTS
                .as_ptr()
                .add(usize::from(opcode))
                .cast::<u32>(),
        )
    })
}

/// The gate table's entry for system call `nr`.
#[inline(always)]
pub fn call(nr: u64) -> Call {
    if nr >= SYSCALLS as u64 {
        return UNTRACED;
    }
    // SAFETY: nr is below the table's length and an entry is four aligned bytes; volatile because the daemon sets
    // the table before load, and one load of 32 bits instead of four.
    entry(unsafe { ptr::read_volatile(CALLS.as_ptr().add(nr as usize).cast::<u32>()) })
}

#[inline(always)]
fn entry(word: u32) -> Call {
    let bytes = word.to_ne_bytes();
    Call {
        shape: bytes[0],
        op: bytes[1],
        source: bytes[2],
        direction: bytes[3],
    }
}

/// Whether the 32-bit system call `nr` would be traced if it were a native one.
#[inline(always)]
pub fn compat_traced(nr: u64) -> bool {
    if nr >= SYSCALLS as u64 {
        return false;
    }
    // SAFETY: as in `call`.
    unsafe { ptr::read_volatile(COMPAT_TRACED.as_ptr().add(nr as usize)) != 0 }
}
