//! The page cache: what is fetched from storage into it, and files that are used as memory.
//!
//! Reached from the BTF raw tracepoints `mm_filemap_add_to_page_cache`, `mm_filemap_fault`, `mm_filemap_map_pages` and
//! `writeback_dirty_folio`, all of which run on the thread whose call or page fault it is. Writes `OVERLAID`, and through
//! `account` the counters.
//!
//! A folio that is added within a call on its file belongs to that call; in a call that writes it is none that is
//! fetched. Any other belongs to the file by its inode: a page fault, io_uring's reads, readahead(2). An overlay
//! filesystem has no pages of its own, so its real files are remembered by those that the processes have open.
//!
//! The kernel may try a page fault again after it waited for the storage. All of its attempts show the same number of
//! faults that the thread has completed, by which one fault is counted once.

pub mod faults;

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    btf_maps::LruHashMap,
    macros::{btf_map, btf_tracepoint},
    programs::BtfTracePointContext,
};
use iotrace_common::{
    diag,
    key::FileId,
    limits, op,
    phases::{self, direction},
    value::Io,
};

use crate::{
    core::{
        account,
        config::{
            DENTRY_ALIAS, DENTRY_INODE, FAULTS_BY_FETCH, FILE_FLAGS, FILE_INODE, FILE_PATH,
            FILE_PRIVATE, FOLIO_FLAGS, FOLIO_INDEX, FOLIO_IS_LARGE, FOLIO_MAPPING, FOLIO_ORDER,
            FS_PWD, FS_ROOT, INODE_DENTRY, INODE_SB, MAPPING_HOST, MM_EXE_FILE, NR_FADVISE,
            NR_IO_SUBMIT, NR_IO_URING_ENTER, NR_READAHEAD, O_DIRECT, PAGE_CACHE, PAGE_SHIFT,
            REGS_NR, SB_MAGIC, SELF_TGID, TASK_FLAGS, TASK_FS, TASK_MAJOR_FAULTS,
            TASK_MINOR_FAULTS, TASK_MM, TYPE_FILE, TYPE_INODE, TYPE_SUPER_BLOCK, VFSMOUNT_SB,
        },
        diagnose,
        maps::{NAMED, scratch},
        memory::{Address, field, load, now, probe, probe_at},
        thread::{Thread, in_scope, state},
    },
    platform::{current, identity::identify_inode, path, registers_of, threads},
};
use faults::Timed;

const PF_EXITING: u32 = 0x4;
/// A thread that the kernel made for io_uring, of the process that it works for.
const PF_IO_WORKER: u32 = 0x10;
pub const PF_KTHREAD: u32 = 0x20_0000;
const OVERLAY: u64 = 0x794c_7630;
pub const TMPFS: u64 = 0x0102_1994;

/// Files behind those of an overlay filesystem, which has a page cache of none: by the real file, the one that is open
/// (an LRU: a forgotten one is learned again at its next read or mmap).
#[btf_map]
pub static OVERLAID: LruHashMap<FileId, FileId, { limits::OVERLAID_ENTRIES as usize }> =
    LruHashMap::new();

/// What is known of a thread's last page fault.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Faulted {
    /// One more than the page faults that the thread had completed; 0: none is known.
    pub serial: u64,
    /// When it began, and what is to be counted to.
    pub timed: Timed,
    /// The mapping and the page.
    mapping: u64,
    index: u64,
    /// Bytes that fault-around was counted with, as long as nothing says that they were not what was wanted.
    window: u64,
    /// Not 0: `mapping` and `index` are set. 2: that page was fetched, and the fault counted as a major one.
    known: u64,
    /// Folio that was last added by a request that may be one that writes.
    added: u64,
}

/// The running thread, if its process is traced, and not the daemon.
#[inline(always)]
pub fn running(task: Address) -> Option<&'static mut Thread> {
    // SAFETY: the running task; its flags are 32 bits.
    let flags: u32 = unsafe { load(task, &TASK_FLAGS) };
    if !PAGE_CACHE.is_set() || flags & (PF_KTHREAD | PF_EXITING) != 0 {
        return None;
    }
    let thread = threads::of(registers_of(task), true)?;
    // The daemon's own pages would take room among the few known operations of the self-test.
    if in_scope(thread) && u64::from(thread.key.io.tgid) != SELF_TGID.load() {
        Some(thread)
    } else {
        None
    }
}

/// In place of a system call's number: the thread is in a page fault, and in no call.
const NO_CALL: u32 = u32::MAX;

/// Number of the system call that the thread is in, or [`NO_CALL`].
#[inline(always)]
fn number(task: Address) -> u32 {
    // SAFETY: the running task's registers; a number is 32 bits.
    unsafe { load(registers_of(task), &REGS_NR) }
}

/// Whether the thread works on requests whose kind does not show.
#[inline(always)]
fn is_request(task: Address) -> bool {
    // SAFETY: as in `running`.
    let flags: u32 = unsafe { load(task, &TASK_FLAGS) };
    let number = u64::from(number(task));
    flags & PF_IO_WORKER != 0 || number == NR_IO_URING_ENTER.load() || number == NR_IO_SUBMIT.load()
}

/// Page faults that the thread has completed, and one.
#[inline(always)]
pub fn serial(task: Address) -> u64 {
    // SAFETY: as in `running`; both are of 64 bits.
    unsafe { load::<u64>(task, &TASK_MINOR_FAULTS) + load::<u64>(task, &TASK_MAJOR_FAULTS) + 1 }
}

/// Bytes of a folio.
#[inline(always)]
fn size(folio: Address) -> u64 {
    let flags: u64 = probe(folio, &FOLIO_FLAGS);
    let mut order = 0;
    if flags >> (FOLIO_IS_LARGE.load() & 63) & 1 != 0 {
        order = u64::from(probe::<u8>(folio, &FOLIO_ORDER)) & 31;
    }
    1 << (PAGE_SHIFT.load() + order)
}

/// Whose the bytes are.
#[derive(Clone, Copy)]
pub struct Subject {
    pub id: FileId,
    pub phase: u32,
    /// The thread is in a call on this file.
    pub in_call: bool,
}

/// The file of `mapping`, for a thread in a call or a page fault that uses it as `used`; `None`: memory that is no file.
#[inline(always)]
fn subject(thread: &mut Thread, mapping: Address, used: u8, copy: u32) -> Option<Subject> {
    let inode: u64 = probe(mapping, &MAPPING_HOST);
    let Some(real) = identify_inode(inode) else {
        // A block device: what a filesystem keeps about its files.
        return Some(Subject {
            id: FileId::NONE,
            phase: 0,
            in_call: false,
        });
    };
    let in_call = thread.state == state::RUNNING;
    if in_call && (thread.key.io.file == real || is_behind(thread, inode, &real)) {
        return Some(Subject {
            id: thread.key.io.file,
            phase: thread.key.io.phase,
            in_call: true,
        });
    }
    // SAFETY: the value is not kept.
    let id = unsafe { OVERLAID.get(real) }.map_or(real, |over| *over);
    // SAFETY: as above.
    let sorted = match unsafe { NAMED.get(id) } {
        Some(named) => named.sorted,
        None => name(inode, &id, copy)?,
    };
    Some(Subject {
        id,
        phase: phases::phase(sorted, used),
        in_call: false,
    })
}

/// The counters of the subject.
#[inline(always)]
pub fn counters(thread: &mut Thread, subject: &Subject, copy: u32) -> *mut Io {
    thread.copy = copy;
    if subject.in_call {
        return account::entry::<true>(thread);
    }
    let key = &mut thread.key.io;
    let (file, phase, cell, open) = (key.file, key.phase, thread.cell, thread.file);
    (key.file, key.phase, thread.file) = (subject.id, subject.phase, 0);
    let io = account::entry::<true>(thread);
    let key = &mut thread.key.io;
    (key.file, key.phase, thread.cell, thread.file) = (file, phase, cell, open);
    io
}

/// A folio came into the page cache.
#[inline(always)]
pub fn added(folio: Address) {
    let mapping = probe::<u64>(folio, &FOLIO_MAPPING) as Address;
    let bytes = size(folio);
    let task = current();
    let Some(thread) = running(task) else {
        return by_kernel(task, mapping, bytes);
    };
    let Some(subject) = subject(thread, mapping, direction::READ, scratch::ADDED) else {
        return;
    };
    if subject.in_call && (op::fills_cache(thread.op()) || is_direct(thread)) {
        return;
    }
    if thread.state == state::RUNNING
        && thread.op() == op::TRANSFER_READ
        && thread.target == subject.id
    {
        return;
    }
    let io = counters(thread, &subject, scratch::ADDED);
    if io.is_null() {
        return account::lost_bytes(bytes);
    }
    if FAULTS_BY_FETCH.is_set() && number(task) == NO_CALL {
        faults::fetched(thread, task, &subject);
    }
    let faulted = &mut thread.faulted;
    let is_fault = faulted.serial == serial(task) && faulted.mapping == mapping as u64;
    let first: u64 = probe(folio, &FOLIO_INDEX);
    let pages = bytes >> PAGE_SHIFT.load();
    let is_wanted = is_fault && faulted.known == 1 && faulted.index.wrapping_sub(first) < pages;
    faulted.added = 0;
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).bytes_fetched += bytes;
        if is_wanted {
            faulted.known = 2;
            (*io).major_faults += 1;
        }
        if is_fault || is_mapped(thread, &subject, task) {
            (*io).mapped_bytes_fetched += bytes;
        } else if !subject.in_call && is_request(task) {
            thread.faulted.added = folio as u64;
        }
    }
}

/// Whether what is fetched is to be used as memory: by a page fault, or by a call other than those that read files.
#[inline(always)]
fn is_mapped(thread: &Thread, subject: &Subject, task: Address) -> bool {
    if subject.in_call {
        return thread.op() == op::MMAP;
    }
    // Of no file that a process could map.
    if subject.id.is_none() {
        return false;
    }
    let number = u64::from(number(task));
    !is_request(task) && number != NR_READAHEAD.load() && number != NR_FADVISE.load()
}

/// What a thread of the kernel fetched, if a traced process uses the file.
#[inline(always)]
fn by_kernel(task: Address, mapping: Address, bytes: u64) {
    // SAFETY: as in `running`.
    let flags: u32 = unsafe { load(task, &TASK_FLAGS) };
    if flags & PF_KTHREAD == 0 {
        return;
    }
    let Some(id) = identify_inode(probe(mapping, &MAPPING_HOST)) else {
        return;
    };
    // SAFETY: the values are not kept.
    if unsafe { NAMED.get(id).is_some() || OVERLAID.get(id).is_some() } {
        diagnose::add(diag::FETCHED_BY_KERNEL, bytes);
    }
}

/// A page fault that no fault-around could serve, on page `index`.
#[inline(always)]
pub fn fault(mapping: Address, index: u64) {
    let task = current();
    let Some(thread) = running(task) else { return };
    let serial = serial(task);
    let again = thread.faulted.serial == serial && thread.faulted.mapping == mapping as u64;
    if again && thread.faulted.known != 0 {
        return;
    }
    let window = if again { thread.faulted.window } else { 0 };
    let began = now();
    let Some(subject) = subject(thread, mapping, direction::READ, scratch::FAULT) else {
        return;
    };
    if !FAULTS_BY_FETCH.is_set() {
        faults::began(thread, task, &subject, began);
    }
    let io = counters(thread, &subject, scratch::FAULT);
    thread.faulted = Faulted {
        serial,
        timed: thread.faulted.timed,
        mapping: mapping as u64,
        index,
        window: 0,
        known: 1,
        added: 0,
    };
    if io.is_null() {
        return;
    }
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        if window == 0 {
            (*io).faults += 1;
        } else if (*io).mapped_bytes >= window {
            // What fault-around found was not the page that was wanted, and may have been mapped before.
            (*io).mapped_bytes -= window;
        }
        (*io).mapped_bytes += 1 << PAGE_SHIFT.load();
    }
}

/// Fault-around: pages `first` to `last` that are in the page cache were mapped.
#[inline(always)]
pub fn around(mapping: Address, first: u64, last: u64) {
    let task = current();
    let Some(thread) = running(task) else { return };
    let serial = serial(task);
    if thread.faulted.serial == serial && thread.faulted.mapping == mapping as u64 {
        return;
    }
    let bytes = (last.wrapping_sub(first) + 1) << PAGE_SHIFT.load();
    let Some(subject) = subject(thread, mapping, direction::READ, scratch::MAPPED) else {
        return;
    };
    let io = counters(thread, &subject, scratch::MAPPED);
    thread.faulted = Faulted {
        serial,
        timed: thread.faulted.timed,
        mapping: mapping as u64,
        index: 0,
        window: bytes,
        known: 0,
        added: 0,
    };
    if io.is_null() {
        return;
    }
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        (*io).faults += 1;
        (*io).mapped_bytes += bytes;
    }
}

/// A folio became dirty.
#[inline(always)]
pub fn dirtied(folio: Address) {
    let task = current();
    let Some(thread) = running(task) else { return };
    if thread.state == state::RUNNING && !op::stores_result(thread.op()) {
        return;
    }
    let request = is_request(task);
    if request && thread.faulted.added != folio as u64 {
        return;
    }
    let mapping = probe::<u64>(folio, &FOLIO_MAPPING) as Address;
    // What is taken back was counted as read.
    let used = if request {
        direction::READ
    } else {
        direction::WRITE
    };
    let Some(subject) = subject(thread, mapping, used, scratch::DIRTIED) else {
        return;
    };
    if subject.in_call || subject.id.is_none() {
        return;
    }
    let io = counters(thread, &subject, scratch::DIRTIED);
    if io.is_null() {
        return;
    }
    let bytes = size(folio);
    // SAFETY: a map value, whose one writer is this thread.
    unsafe {
        if request {
            // It was added to be written.
            thread.faulted.added = 0;
            if (*io).bytes_fetched >= bytes {
                (*io).bytes_fetched -= bytes;
            }
        } else {
            (*io).mapped_bytes_dirtied += bytes;
        }
    }
}

/// Adds what a read returned, if it went around the page cache.
#[inline(always)]
pub fn returned(io: *mut Io, thread: &Thread, bytes: u64) {
    if PAGE_CACHE.is_set() && op::is_read(thread.op()) && is_direct(thread) {
        // SAFETY: as in `added`.
        unsafe { (*io).bytes_fetched += bytes };
    }
}

/// Counts an open that goes around the page cache.
#[inline(always)]
pub fn opened(io: *mut Io, thread: &Thread) {
    if PAGE_CACHE.is_set() && !io.is_null() && is_direct(thread) {
        // SAFETY: as in `added`.
        unsafe { (*io).direct_opens += 1 };
    }
}

/// Whether the thread's file is open to go around the page cache.
#[inline(always)]
pub fn is_direct(thread: &Thread) -> bool {
    if thread.file == 0 {
        return false;
    }
    let flags: u32 = field(thread.file, &TYPE_FILE, &FILE_FLAGS);
    u64::from(flags) & O_DIRECT.load() != 0 && magic(thread.file) != TMPFS
}

/// Magic number of the filesystem of an open file.
#[inline(always)]
fn magic(file: u64) -> u64 {
    let inode: u64 = field(file, &TYPE_FILE, &FILE_INODE);
    let superblock: u64 = field(inode, &TYPE_INODE, &INODE_SB);
    field(superblock, &TYPE_SUPER_BLOCK, &SB_MAGIC)
}

/// Whether the inode at `inode`, which is `real`, is what stands behind the file of the thread's call. Remembers it.
#[inline(always)]
fn is_behind(thread: &Thread, inode: u64, real: &FileId) -> bool {
    if thread.file == 0 || magic(thread.file) != OVERLAY {
        return false;
    }
    for nth in 0..BEHIND {
        if behind(thread.file, nth) == inode {
            let _ = OVERLAID.insert(real, thread.key.io.file, 0);
            return true;
        }
    }
    false
}

/// Places where an overlay filesystem may keep the open file behind its own.
const BEHIND: u32 = 3;

/// Inode of the `nth` file behind one of an overlay filesystem; 0 if that is none.
///
/// What `file.private_data` is differs: up to Linux 6.12 that file, later two pointers, to it and to a copy that was
/// made of it since it was opened. An address is that of a file if its inode and its name's are one, or if it has the
/// name of the file before it (up to Linux 6.4).
#[inline(always)]
fn behind(file: u64, nth: u32) -> u64 {
    let private: u64 = field(file, &TYPE_FILE, &FILE_PRIVATE);
    let real = match nth {
        0 => private,
        1 => probe_at(private as Address),
        _ => probe_at((private + 8) as Address),
    };
    if real == 0 {
        return 0;
    }
    let inode: u64 = probe(real as Address, &FILE_INODE);
    let path: path::Path = probe(real as Address, &FILE_PATH);
    let own: path::Path = probe(file as Address, &FILE_PATH);
    if path[1] == own[1] || probe::<u64>(path[1] as Address, &DENTRY_INODE) == inode {
        inode
    } else {
        0
    }
}

checked_once! {
    /// Remembers the file below an overlay filesystem's file, which the thread's call mapped.
    pub fn iotrace_mapped(thread: &mut Thread) {
        mapped(thread.file, &thread.key.io.file);
    }
}

#[inline(always)]
fn mapped(file: u64, id: &FileId) {
    if !PAGE_CACHE.is_set() || file == 0 || magic(file) != OVERLAY {
        return;
    }
    for nth in 0..BEHIND {
        let inode = behind(file, nth);
        if inode != 0
            && let Some(real) = identify_inode(inode)
        {
            // On the stack: older kernels take no value of a map out of memory that a global function was given.
            // SAFETY: the caller's reference.
            let id = unsafe { ptr::read_volatile(id) };
            let _ = OVERLAID.insert(real, id, 0);
        }
    }
}

/// Names the executable at `file` of the running process, which is about to be mapped.
#[inline(never)]
pub fn executed(file: u64) {
    if !PAGE_CACHE.is_set() {
        return;
    }
    if let Some(id) = identify_inode(field(file, &TYPE_FILE, &FILE_INODE)) {
        let place = u64::from(id.device) << 32 | u64::from(id.generation);
        path::iotrace_meet(file, 0, id.inode, place, scratch::EXEC);
        mapped(file, &id);
    }
}

/// Names a file that no traced process has opened, such as one that was mapped before: by a mount that the process
/// uses. What it was sorted as; `None` if it is memory and no file.
#[inline(always)]
fn name(inode: u64, id: &FileId, copy: u32) -> Option<u32> {
    let alias: u64 = probe(inode as Address, &INODE_DENTRY);
    let superblock: u64 = probe(inode as Address, &INODE_SB);
    let task = current();
    let fs = probe::<u64>(task, &TASK_FS) as Address;
    let mm = probe::<u64>(task, &TASK_MM) as Address;
    let executable = probe::<u64>(mm, &MM_EXE_FILE) as Address;
    let mounts: [u64; 3] = [
        probe(executable, &FILE_PATH),
        probe(fs, &FS_ROOT),
        probe(fs, &FS_PWD),
    ];
    for mount in mounts {
        if alias != 0 && mount != 0 && probe::<u64>(mount as Address, &VFSMOUNT_SB) == superblock {
            let place = u64::from(id.device) << 32 | u64::from(id.generation);
            let dentry = alias - DENTRY_ALIAS.load();
            return Some(path::iotrace_meet(mount, dentry, id.inode, place, copy) as u32);
        }
    }
    // Shared memory is made of files that nobody can open.
    (probe::<u64>(superblock as Address, &SB_MAGIC) != TMPFS).then_some(0)
}

/// TRACE_EVENT mm_filemap_add_to_page_cache: (struct folio *folio)
#[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
pub fn page_added(ctx: BtfTracePointContext) -> i32 {
    added(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT mm_filemap_fault: (struct address_space *mapping, pgoff_t index)
#[btf_tracepoint(function = "mm_filemap_fault")]
pub fn page_fault(ctx: BtfTracePointContext) -> i32 {
    fault(ctx.arg::<*const c_void>(0), ctx.arg(1));
    0
}

/// TRACE_EVENT mm_filemap_map_pages: (struct address_space *mapping, pgoff_t start, pgoff_t end)
#[btf_tracepoint(function = "mm_filemap_map_pages")]
pub fn pages_mapped(ctx: BtfTracePointContext) -> i32 {
    around(ctx.arg::<*const c_void>(0), ctx.arg(1), ctx.arg(2));
    0
}

/// TRACE_EVENT writeback_dirty_folio: (struct folio *folio, struct address_space *mapping)
#[btf_tracepoint(function = "writeback_dirty_folio")]
pub fn page_dirtied(ctx: BtfTracePointContext) -> i32 {
    dirtied(ctx.arg::<*const c_void>(0));
    0
}
