//! The globals of the kernel programs, which the daemon sets before it loads them: options, numbers, and the offsets of
//! the kernel's fields.
//!
//! All of them are read-only and frozen at load, so the verifier folds each load to a constant and drops the branches
//! that an option turns off. The daemon reads the offsets from the kernel's own BTF.

use super::{Field, Flag, Global, Number, Offset, Table, Type};
use crate::{
    limits::SYSCALLS,
    op::Call,
    trace::{FILTER_NAMES, FILTER_PIDS, NamePattern},
    uring::OPCODES,
};

/// Hands the table of all globals to the macro `$expand`.
#[macro_export]
macro_rules! kernel_globals {
    ($expand:ident) => {
        $expand! {
            settings {
                /// Some processes may be kept at detail full: `IoFull` beside `Io`.
                FULL: Flag;
                /// Children of a target become targets.
                FOLLOW: Flag = 1;
                /// Send the environment of a process that calls exec.
                ENVIRONMENT: Flag;
                /// Send the control group of a process that calls exec.
                CGROUP: Flag;
                /// Keep histograms of durations and sizes.
                COUNT_HISTOGRAMS: Flag;
                /// Latencies of the operations of some processes may be kept.
                COUNT_LATENCIES: Flag;
                /// The CPU time of some processes may be asked for.
                COUNT_CPU: Flag;
                /// Keep merged time over all processes.
                MERGE_ALL: Flag;
                /// Look-ups of some processes that found nothing may be counted, by directory.
                COUNT_MISSING: Flag;
                /// Phases that have spans, a bit for each.
                SPAN_PHASES: Number;
                /// The daemon's own process id, which is traced only if it is a target.
                SELF_TGID: Number;
                /// Cells of a generation: of those with `Io`, and of those with `IoFull`.
                CELLS_EACH: Number = 1;
                FULL_CELLS_EACH: Number = 1;
                /// Cells of a generation of latencies.
                LATENCY_CELLS_EACH: Number = 1;
                /// Number of sets that cells are found by, a power of two, less one.
                SET_MASK: Number;
                /// Walk paths with `bpf_loop`.
                HAS_LOOP: Flag = 1;
                /// System call programs can be preempted, and are skipped on a CPU where they run already (Linux 7.2).
                PREEMPTIBLE: Flag;
                /// The kernel has `bpf_rdonly_cast`, and the object's markers are calls of it.
                HAS_CAST: Flag;

                /// Keep every operation.
                TRACE: Flag;
                /// Records of one ring, a power of two.
                TRACE_RECORDS: Number = 1;
                /// Phases that are traced, a bit for each; 0: all, and calls that name no open file.
                TRACE_PHASES: Number;
                /// Shortest operation that is traced, nanoseconds.
                TRACE_SHORTEST: Number;
                /// Trace only files that the second table of rules marks.
                TRACE_PATHS: Flag;
                /// 1: trace only processes by these ids; 2: only those by these names; 3: both must match.
                TRACE_WHO: Number;
                /// Keep waits of threads.
                WAITS: Flag;
                /// Records of one ring of waits, a power of two.
                WAIT_RECORDS_EACH: Number = 1;
                /// `sched_switch` has the state of the task that leaves (Linux 5.18); else it is read from the task.
                HAS_PREVIOUS_STATE: Flag;
                /// Count by what opened a file: lines of Python programs, and stacks of native ones if `STACKS` is set.
                LINES: Flag;
                STACKS: Flag;
                /// This machine may show one CPU's writes to another in another order.
                WEAKLY_ORDERED: Flag;

                /// There are uprobes.
                UPROBES: Flag;
                /// Programs may set marks.
                MARKS: Flag;
                /// Number of possible CPUs.
                CPUS: Number;

                /// `struct pt_regs`: the arguments of a system call, its number, and the code segment.
                REGS_ARG0: Offset;
                REGS_ARG1: Offset;
                REGS_ARG2: Offset;
                REGS_ARG3: Offset;
                REGS_ARG4: Offset;
                REGS_ARG5: Offset;
                REGS_NR: Offset;
                REGS_SEGMENT: Offset;
                /// Of a function: the arguments that differ from those of a system call, the result, the stack pointer.
                FUNCTION_ARG0: Offset;
                FUNCTION_ARG3: Offset;
                REGS_RESULT: Offset;
                REGS_STACK: Offset;
                /// Where a call continues, and the bytes of `struct pt_regs`.
                REGS_INSTRUCTION: Offset;
                REGS_BYTES: Number = 8;
                /// Bytes that a return takes off the stack.
                RETURN_POPS: Number;
                /// The word of `task_struct.thread_info` that marks a 32-bit call, and the bit; 0: there are no such calls.
                TASK_STATUS: Offset;
                TASK_COMPAT_MASK: Number;
                /// The identity of a file stands in the first `COMPACT_INODE_BYTES` of its inode.
                INODE_IS_COMPACT: Flag;
                /// The mapping at an address can be found.
                FINDS_MAPPINGS: Flag;
                /// Of a task's `css_set`: its state in the memory hierarchy of version 1; 0: there is none.
                SET_MEMORY: Offset;
                /// Of the record of the tracepoint `task_newtask`.
                NEWTASK_PID: Offset;
                NEWTASK_FLAGS: Offset;

                /// Of `struct io_kiocb`: the task, or its `struct io_uring_task`.
                REQUEST_TASK: Offset;
                /// `REQUEST_TASK` is a `struct io_uring_task` (Linux 6.7).
                TASK_IS_BEHIND: Flag;
                /// `io_uring_complete` has a `struct io_uring_cqe`; else result and flags.
                COMPLETE_HAS_CQE: Flag;

                /// Bit of a folio's flags that says that it is large.
                FOLIO_IS_LARGE: Number;
                /// Bytes of a page, as a power of two.
                PAGE_SHIFT: Number = 12;
                /// The flag of an open file that bypasses the page cache, which differs by machine.
                O_DIRECT: Number;
                /// The programs on the page cache are attached.
                PAGE_CACHE: Flag;
                /// No tracepoint shows the start of a page fault on a file; a fetch in one does.
                FAULTS_BY_FETCH: Flag;
                /// Numbers of system calls that are not traced, and in which page cache fills are not those of mappings.
                NR_IO_URING_ENTER: Number;
                NR_IO_SUBMIT: Number;
                NR_READAHEAD: Number;
                NR_FADVISE: Number;

                /// Number of the operation that appends to a zone; 0: there is none.
                OP_ZONE_APPEND: Number;
                /// Address of the function that ends the bios of direct I/O, whose private data is a `struct iomap_dio`; 0:
                /// not known.
                DIRECT_END: Number;
            }
            types {
                /// Structs that addresses are cast to, in every kernel that can cast.
                CAST_TYPES {
                    TYPE_FILE: "file";
                    TYPE_INODE: "inode";
                    TYPE_SUPER_BLOCK: "super_block";
                    TYPE_LIST_HEAD: "list_head";
                }
                /// Structs that not every such kernel has.
                OPTIONAL_CAST_TYPES {
                    TYPE_TASK: "task_struct";
                    TYPE_REQUEST: "io_kiocb";
                    TYPE_URING_TASK: "io_uring_task";
                }
            }
            fields {
                /// Fields that every kernel has by these names.
                REQUIRED_FIELDS {
                    TASK_FILES: "task_struct", "files";
                    TASK_FS: "task_struct", "fs";
                    TASK_MM: "task_struct", "mm";
                    TASK_TGID: "task_struct", "tgid";
                    TASK_PID: "task_struct", "pid";
                    TASK_GROUP_LEADER: "task_struct", "group_leader";
                    TASK_REAL_PARENT: "task_struct", "real_parent";
                    TASK_SIGNAL: "task_struct", "signal";
                    TASK_START: "task_struct", "start_boottime";
                    TASK_COMM: "task_struct", "comm";
                    TASK_EXIT_CODE: "task_struct", "exit_code";
                    /// The one that ptrace(2) compares, not one that the kernel puts on for a moment.
                    TASK_CRED: "task_struct", "real_cred";
                    CRED_UID: "cred", "uid.val";
                    CRED_EUID: "cred", "euid.val";
                    CRED_SUID: "cred", "suid.val";
                    CRED_GID: "cred", "gid.val";
                    CRED_EGID: "cred", "egid.val";
                    CRED_SGID: "cred", "sgid.val";
                    CRED_PERMITTED: "cred", "cap_permitted";
                    CRED_NAMESPACE: "cred", "user_ns";
                    NAMESPACE_PARENT: "user_namespace", "parent";
                    NAMESPACE_MAKER: "user_namespace", "owner.val";
                    NAMESPACE_NUMBER: "user_namespace", "ns.inum";
                    SIGNAL_LIVE: "signal_struct", "live.counter";
                    SIGNAL_THREADS: "signal_struct", "nr_threads";
                    SIGNAL_EXIT_CODE: "signal_struct", "group_exit_code";
                    MM_EXE_FILE: "mm_struct", "exe_file";
                    /// Its lowest two bits say whether its user may look into a process.
                    MM_FLAGS: "mm_struct", "flags";
                    MM_ARG_START: "mm_struct", "arg_start";
                    MM_ARG_END: "mm_struct", "arg_end";
                    MM_ENV_START: "mm_struct", "env_start";
                    MM_ENV_END: "mm_struct", "env_end";
                    FS_ROOT: "fs_struct", "root";
                    FS_PWD: "fs_struct", "pwd";
                    FILES_FDT: "files_struct", "fdt";
                    FDT_FD: "fdtable", "fd";
                    FDT_MAX: "fdtable", "max_fds";
                    FILE_INODE: "file", "f_inode";
                    FILE_PATH: "file", "f_path";
                    FILE_POS: "file", "f_pos";
                    FILE_MODE: "file", "f_mode";
                    FILE_FLAGS: "file", "f_flags";
                    INODE_MODE: "inode", "i_mode";
                    INODE_INO: "inode", "i_ino";
                    /// Of a device, its number.
                    INODE_DEVICE: "inode", "i_rdev";
                    INODE_GENERATION: "inode", "i_generation";
                    INODE_SB: "inode", "i_sb";
                    INODE_SIZE: "inode", "i_size";
                    SB_DEV: "super_block", "s_dev";
                    SB_BLOCK_SIZE: "super_block", "s_blocksize";
                    SB_MAGIC: "super_block", "s_magic";
                    /// `d_name.hash_len` and `d_name.name` follow it at once, which the daemon checks.
                    DENTRY_PARENT: "dentry", "d_parent";
                    DENTRY_INODE: "dentry", "d_inode";
                    /// Null once the name is gone.
                    DENTRY_HASHED: "dentry", "d_hash.pprev";
                    VFSMOUNT_ROOT: "vfsmount", "mnt_root";
                    MOUNT_VFSMOUNT: "mount", "mnt";
                    /// `mnt_mountpoint` follows it at once, which the daemon checks.
                    MOUNT_PARENT: "mount", "mnt_parent";
                }
                /// From a task to the names of its control group.
                CGROUP_FIELDS {
                    TASK_CGROUPS: "task_struct", "cgroups";
                    SET_GROUP: "css_set", "dfl_cgrp";
                    GROUP_NODE: "cgroup", "kn";
                    NODE_NAME: "kernfs_node", "name";
                    /// The second name from Linux 6.15 on.
                    NODE_PARENT: "kernfs_node", "parent" | "__parent";
                }
                /// From its state in the memory hierarchy of version 1 to the group.
                CGROUP_1_FIELDS {
                    STATE_GROUP: "cgroup_subsys_state", "cgroup";
                }
                /// Of several optional hooks.
                TASK_FLAGS_FIELDS {
                    TASK_FLAGS: "task_struct", "flags";
                }
                /// CPU time of threads.
                CPU_FIELDS {
                    TASK_RUNTIME: "task_struct", "se.sum_exec_runtime";
                    TASK_ON_CPU: "task_struct", "on_cpu";
                }
                /// Waits of threads.
                WAIT_FIELDS {
                    /// Null if a task has no task storage.
                    TASK_STORAGE: "task_struct", "bpf_storage";
                    /// The second name from Linux 5.14 on.
                    TASK_STATE: "task_struct", "state" | "__state";
                }
                /// What identifies a thread to its own program: its thread pointer, by machine.
                LINE_FIELDS {
                    TASK_THREAD_POINTER: "task_struct", "thread.fsbase" | "thread.uw.tp_value";
                }
                /// How often a process called exec, and where the code of its executable begins and ends.
                STACK_FIELDS {
                    TASK_EXECS: "task_struct", "self_exec_id";
                    MM_CODE_START: "mm_struct", "start_code";
                    MM_CODE_END: "mm_struct", "end_code";
                }
                /// The file of a mapping.
                MAPPING_FIELDS {
                    VMA_FILE: "vm_area_struct", "vm_file";
                    SB_FLAGS: "super_block", "s_flags";
                }
                /// Requests of io_uring, and what their operations keep in them.
                URING_FIELDS {
                    REQUEST_OPCODE: "io_kiocb", "opcode";
                    REQUEST_FLAGS: "io_kiocb", "flags";
                    REQUEST_FILE: "io_kiocb", "file";
                    REQUEST_FD: "io_kiocb", "cqe.fd";
                    RW_POSITION: "io_rw", "kiocb.ki_pos";
                    RW_BUFFER: "io_rw", "addr";
                    RW_LENGTH: "io_rw", "len";
                    OPEN_SLOT: "io_open", "file_slot";
                    CLOSE_FD: "io_close", "fd";
                    CLOSE_SLOT: "io_close", "file_slot";
                    SYNC_FLAGS: "io_sync", "flags";
                    SYNC_OFFSET: "io_sync", "off";
                    SYNC_LENGTH: "io_sync", "len";
                    UNLINK_FLAGS: "io_unlink", "flags";
                    CQE_RESULT: "io_uring_cqe", "res";
                    CQE_FLAGS: "io_uring_cqe", "flags";
                }
                /// Requests of io_uring, by release.
                OPTIONAL_URING_FIELDS {
                    /// Before Linux 6.9 no request truncates a file.
                    TRUNCATE_LENGTH: "io_ftrunc", "len";
                    URING_TASK_TASK: "io_uring_task", "task";
                }
                /// The page cache: a folio, the mapping of its file, and how an open file bypasses it.
                PAGE_FIELDS {
                    FOLIO_FLAGS: "folio", "flags";
                    FOLIO_MAPPING: "folio", "mapping";
                    FOLIO_INDEX: "folio", "index";
                    MAPPING_HOST: "address_space", "host";
                    TASK_MINOR_FAULTS: "task_struct", "min_flt";
                    TASK_MAJOR_FAULTS: "task_struct", "maj_flt";
                    FILE_PRIVATE: "file", "private_data";
                    INODE_DENTRY: "inode", "i_dentry.first";
                    VFSMOUNT_SB: "vfsmount", "mnt_sb";
                    /// Of a large folio: a byte, the logarithm of its number of pages. The second name from Linux 6.6 on.
                    FOLIO_ORDER: "folio", "_folio_order" | "_flags_1";
                    /// Where a name is linked to the others of its inode. The second name in some release after Linux 7.0.
                    DENTRY_ALIAS: "dentry", "d_u.d_alias" | "d_alias";
                }
                /// The block layer: requests and their disks.
                BLOCK_FIELDS {
                    BLOCK_QUEUE: "request", "q";
                    QUEUE_DISK: "request_queue", "disk";
                    BLOCK_OPERATION: "request", "cmd_flags";
                    BLOCK_LEFT: "request", "__data_len";
                    DISK_MAJOR: "gendisk", "major";
                    DISK_MINOR: "gendisk", "first_minor";
                }
                /// Bios, and what they lead to.
                BIO_FIELDS {
                    BIO_DEVICE: "bio", "bi_bdev";
                    BIO_OPERATION: "bio", "bi_opf";
                    BIO_FLAGS: "bio", "bi_flags";
                    BIO_SIZE: "bio", "bi_iter.bi_size";
                    BIO_INDEX: "bio", "bi_iter.bi_idx";
                    BIO_VECTORS: "bio", "bi_io_vec";
                    BIO_END: "bio", "bi_end_io";
                    BIO_PRIVATE: "bio", "bi_private";
                    VECTOR_PAGE: "bio_vec", "bv_page";
                    DEVICE_DISK: "block_device", "bd_disk";
                    SB_DEVICE: "super_block", "s_bdev";
                    INODE_MAPPING: "inode", "i_mapping";
                    TASK_BIOS: "task_struct", "bio_list";
                    /// Of a page: the folio that it is a part of. The second name from Linux 7.1 on.
                    PAGE_HEAD: "page", "compound_head" | "compound_info";
                }
                /// From the private data of a bio of direct I/O to its file.
                DIRECT_FIELDS {
                    DIRECT_IOCB: "iomap_dio", "iocb";
                    IOCB_FILE: "kiocb", "ki_filp";
                }
            }
            tables {
                /// The gate table: what each native system call number is.
                CALLS: [Call; SYSCALLS] = [Call::UNTRACED; SYSCALLS];
                /// 1 for each number that the 32-bit interface gives to a call that would be traced.
                COMPAT_TRACED: [u8; SYSCALLS] = [0; SYSCALLS];
                /// What each system call does to descriptors, where files are found by following them.
                ACTIONS: [u8; SYSCALLS] = [0; SYSCALLS];
                /// What each io_uring opcode is.
                URING_REQUESTS: [Call; OPCODES] = [Call::UNTRACED; OPCODES];
                /// Processes that the operation trace's filter names by id.
                TRACE_PIDS: [u32; FILTER_PIDS] = [0; FILTER_PIDS];
                /// Processes that the operation trace's filter names by name.
                TRACE_NAMES: [NamePattern; FILTER_NAMES] = [NamePattern::NOTHING; FILTER_NAMES];
            }
        }
    };
}

macro_rules! constants {
    (
        settings { $($(#[$doc:meta])* $name:ident: $kind:ident $(= $value:literal)?;)* }
        types { $($(#[$types_doc:meta])* $types:ident {
            $($type:ident: $type_structure:literal;)*
        })* }
        fields { $($(#[$fields_doc:meta])* $fields:ident {
            $($(#[$field_doc:meta])* $field:ident: $structure:literal, $($path:literal)|+;)*
        })* }
        tables { $($(#[$table_doc:meta])* $table:ident: $table_type:ty = $table_value:expr;)* }
    ) => {
        $($(#[$doc])* pub const $name: Global<$kind> = Global::new(stringify!($name));)*
        $(
            $(pub const $type: Type = Type {
                global: Global::new(stringify!($type)),
                structure: $type_structure,
            };)*
            $(#[$types_doc])*
            pub const $types: &[Type] = &[$($type),*];
        )*
        $(
            $($(#[$field_doc])* pub const $field: Field = Field {
                global: Global::new(stringify!($field)),
                structure: $structure,
                paths: &[$($path),+],
            };)*
            $(#[$fields_doc])*
            pub const $fields: &[Field] = &[$($field),*];
        )*
        $($(#[$table_doc])* pub const $table: Table<$table_type> = Table::new(stringify!($table));)*
        /// Names of all globals.
        pub const NAMES: &[&str] = &[
            $(stringify!($name),)* $($(stringify!($type),)*)* $($(stringify!($field),)*)* $(stringify!($table),)*
        ];
    };
}

kernel_globals!(constants);
