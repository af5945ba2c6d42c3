//! The block layer: requests to devices, and which process and which file's bytes they move.
//!
//! Hooks: the BTF raw tracepoints `block_rq_issue` and `block_rq_complete`, which run on any thread and in interrupts,
//! for the devices; and `block_bio_queue`, which runs on the thread that asks, for processes and files. Writes
//! `BLOCK_REQUESTS`, `BLOCK_DEPTH`, `BLOCK_DEVICES` and `BLOCK_FILES`. None of it is attached unless it is asked for.
//!
//! A request counts from its issue to the driver. `block_io_start` and `block_io_done` would give the numbers of
//! /proc/diskstats to the letter, but came with Linux 6.5, and count the time in the I/O scheduler as the device's.
//!
//! A bio belongs to the file whose page cache its first page is of, or that it is direct I/O on. It counts at the device
//! that the file's filesystem stands on: what the drivers of stacked devices (dm, md, loop) make of it is seen here
//! again, but is for another device than the filesystem's.

use core::{ffi::c_void, ptr};

use aya_ebpf::{btf_maps::HashMap, macros::btf_tracepoint, programs::BtfTracePointContext};
use iotrace_common::{
    block::{DeviceKey, Requests, TransferKey, Transfers, class},
    diag,
    histogram::duration_bucket,
    key::FileId,
    limits,
};

use crate::{
    core::{
        cells,
        config::{
            BIO_DEVICE, BIO_END, BIO_FLAGS, BIO_INDEX, BIO_OPERATION, BIO_PRIVATE, BIO_SIZE,
            BIO_VECTORS, BLOCK_LEFT, BLOCK_OPERATION, BLOCK_QUEUE, DEVICE_DISK, DIRECT_END,
            DIRECT_IOCB, DISK_MAJOR, DISK_MINOR, FILE_INODE, FOLIO_MAPPING, INODE_MAPPING,
            INODE_SB, IOCB_FILE, MAPPING_HOST, OP_ZONE_APPEND, PAGE_HEAD, QUEUE_DISK, SB_DEVICE,
            SB_MAGIC, TASK_BIOS, TASK_FLAGS, TYPE_FILE, VECTOR_PAGE,
        },
        maps::{BPF_NOEXIST, DIAGNOSTICS, NAMED},
        memory::{Address, cpu, field, load, now, probe},
        thread::{Thread, state},
    },
    features::pages::{self, OVERLAID, PF_KTHREAD, TMPFS},
    platform::{current, fetch_add, identity::identify_inode},
};

// Operations as include/linux/blk_types.h numbers them, since Linux 4.10: an odd number changes what a device holds.
const OPERATION: u32 = 0xff;
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
/// From here on they are commands of drivers' own, which /proc/diskstats does not count either.
const COMMANDS: u32 = 32;
/// Bit of a bio's flags: a copy, which a filesystem or a stacked device made of another one.
const CLONED: u16 = 1 << 1;
/// What a page of a large folio says of it is a mask of its own address from here on (since Linux 7.1), and below its
/// folio's address and 1.
const MASKS: u64 = 0xffff_ffff_f000_0000;
/// Bytes of a `struct bio_vec`.
const VECTOR: u64 = 16;
/// Lowest bits of a folio's mapping: memory that is no file.
const NO_FILE: u64 = 3;
const HUGETLBFS: u64 = 0x9584_58f6;

/// A request in flight.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// When it was issued, `CLOCK_MONOTONIC` nanoseconds.
    since: u64,
    device: u32,
    class: u32,
}

opaque_map! {
    /// Requests to block devices in flight, by their address.
    static BLOCK_REQUESTS: HashMap<
        u64,
        Request,
        { limits::BLOCK_REQUEST_ENTRIES as usize },
    > = HashMap::new();
}

maps! {
    BLOCK_DEPTH;
    BLOCK_DEVICES;
    BLOCK_DEVICES_A;
    BLOCK_DEVICES_B;
    BLOCK_FILES;
    BLOCK_FILES_A;
    BLOCK_FILES_B;
}

/// A request is given to the driver, perhaps again.
#[inline(always)]
pub fn issued(request: Address) {
    // SAFETY: the tracepoint's argument; each field is of the type that its offset's name says.
    let (operation, device) = unsafe {
        let queue: Address = load(request, &BLOCK_QUEUE);
        let disk: Address = load(queue, &QUEUE_DISK);
        let operation = load::<u32>(request, &BLOCK_OPERATION) & OPERATION;
        let (major, minor): (u32, u32) = (load(disk, &DISK_MAJOR), load(disk, &DISK_MINOR));
        (operation, major << 20 | minor)
    };
    // A queue without a disk is one for commands to a controller.
    if operation >= COMMANDS || device == 0 {
        return;
    }
    let since = now();
    if let Some(flight) = BLOCK_REQUESTS.get_ptr_mut(request as u64) {
        // SAFETY: a map value; the driver has given the request back, so nobody else uses it.
        unsafe { (*flight).since = since };
        return;
    }
    let class = class_of(operation);
    let flight = Request {
        since,
        device,
        class: class.into(),
    };
    if BLOCK_REQUESTS
        .insert(request as u64, flight, BPF_NOEXIST)
        .is_err()
    {
        return add(diag::BLOCK_REQUESTS_LOST, 1);
    }
    let depth = deepen(device, 1) + 1;
    let counts = counts(device, class);
    // SAFETY: a map value that this CPU alone writes this field of.
    if let Some(counts) = unsafe { counts.as_mut() }
        && counts.deepest < depth
    {
        counts.deepest = depth;
    }
}

#[inline(always)]
fn class_of(operation: u32) -> u16 {
    match operation {
        FLUSH => class::FLUSH,
        DISCARD => class::DISCARD,
        _ if operation & 1 != 0 => class::WRITE,
        _ => class::READ,
    }
}

/// A request, or a part of it, has ended. It may be told of once more, when its flush has ended, too.
#[inline(always)]
pub fn completed(request: Address, failed: bool, bytes: u32) {
    let Some(flight) = BLOCK_REQUESTS.get_ptr_mut(request as u64) else {
        return;
    };
    // SAFETY: a map value; a request ends on one CPU at a time.
    let Request {
        since,
        device,
        class,
    } = unsafe { *flight };
    // SAFETY: the tracepoint's argument.
    let left: u32 = unsafe { load(request, &BLOCK_LEFT) };
    let is_whole = bytes >= left;
    if is_whole {
        let _ = BLOCK_REQUESTS.remove(request as u64);
        deepen(device, u64::MAX);
    }
    let counts = counts(device, class as u16);
    if counts.is_null() {
        return add(diag::BLOCK_REQUESTS_LOST, u64::from(is_whole));
    }
    // Atomically: a request may end in an interrupt while another one is counted here.
    // SAFETY: aligned words of a map value; the bucket is below their number.
    unsafe {
        fetch_add(&raw mut (*counts).bytes, bytes.into());
        if failed {
            fetch_add(&raw mut (*counts).failures, 1);
        }
        if is_whole {
            let ns = now().wrapping_sub(since);
            fetch_add(&raw mut (*counts).requests, 1);
            fetch_add(&raw mut (*counts).ns, ns);
            fetch_add(&raw mut (*counts).durations[duration_bucket(ns)], 1);
        }
    }
}

/// Adds to the number of requests in flight at a device; what it was before.
#[inline(always)]
fn deepen(device: u32, amount: u64) -> u64 {
    if let Some(depth) = BLOCK_DEPTH.get_ptr_mut(device) {
        // SAFETY: an aligned word of a map value.
        return unsafe { fetch_add(depth, amount) };
    }
    let _ = BLOCK_DEPTH.insert(device, 0, BPF_NOEXIST);
    match BLOCK_DEPTH.get_ptr_mut(device) {
        // SAFETY: as above.
        Some(depth) => unsafe { fetch_add(depth, amount) },
        None => 0,
    }
}

/// The counters of requests to `device` on this CPU; null where there is no room.
#[inline(always)]
fn counts(device: u32, class: u16) -> *mut Requests {
    let key = DeviceKey {
        device,
        class,
        cpu: cpu() as u16,
    };
    let Some(map) = BLOCK_DEVICES.get(cells::current_half()) else {
        return ptr::null_mut();
    };
    if let Some(found) = map.get_ptr_mut(key) {
        return found;
    }
    let _ = map.insert(key, Requests::default(), BPF_NOEXIST);
    map.get_ptr_mut(key).unwrap_or(ptr::null_mut())
}

/// A filesystem, or whoever else, asks a device for something.
#[inline(always)]
pub fn queued(bio: Address) {
    // SAFETY: the tracepoint's argument; both fields are 32 bits.
    let (operation, bytes): (u32, u32) = unsafe {
        (
            load::<u32>(bio, &BIO_OPERATION) & OPERATION,
            load(bio, &BIO_SIZE),
        )
    };
    let is_write = operation == WRITE
        || OP_ZONE_APPEND.is_set() && u64::from(operation) == OP_ZONE_APPEND.load();
    if bytes == 0 || operation != READ && !is_write {
        return;
    }
    let task = current();
    let thread = pages::running(task);
    // The memory of direct I/O may be another file's.
    let is_direct = DIRECT_END.is_set() && probe::<u64>(bio, &BIO_END) == DIRECT_END.load();
    let cached = if is_direct { 0 } else { inode_of_cache(bio) };
    let inode = match cached {
        0 if is_direct => inode_of_iocb(bio),
        0 => inode_of_call(thread.as_deref()),
        _ => cached,
    };
    if is_of_lower_device(bio, inode, task) {
        return;
    }
    let known = known(inode);
    let mut key = TransferKey {
        file: known.unwrap_or(FileId::NONE),
        ..TransferKey::default()
    };
    match thread {
        Some(thread) => (key.tgid, key.start) = (thread.key.io.tgid, thread.key.io.start),
        None => {
            // What a thread of the kernel writes back, or any process that syncs; but not what others read.
            // SAFETY: the running task; its flags are 32 bits.
            let flags: u32 = unsafe { load(task, &TASK_FLAGS) };
            let is_kernel = flags & PF_KTHREAD != 0;
            if known.is_none() || !(is_kernel || cached != 0 && is_write) {
                return;
            }
        }
    }
    transfer(&key, is_write, bytes.into());
}

/// The inode of a file on a device whose page cache the bio's first page is of; 0: none.
#[inline(always)]
fn inode_of_cache(bio: Address) -> u64 {
    let vectors: u64 = probe(bio, &BIO_VECTORS);
    if vectors == 0 {
        return 0;
    }
    let index: u32 = probe(bio, &BIO_INDEX);
    let vector = (vectors + u64::from(index) * VECTOR) as Address;
    let page: u64 = probe(vector, &VECTOR_PAGE);
    let head: u64 = probe(page as Address, &PAGE_HEAD);
    let folio = match head {
        _ if head & 1 == 0 => page,
        MASKS.. => page & head,
        _ => head - 1,
    };
    let mapping: u64 = probe(folio as Address, &FOLIO_MAPPING);
    if mapping == 0 || mapping & NO_FILE != 0 {
        return 0;
    }
    // What is no folio may have anything there.
    let inode: u64 = probe(mapping as Address, &MAPPING_HOST);
    if inode == 0 || probe::<u64>(inode as Address, &INODE_MAPPING) != mapping {
        return 0;
    }
    // Shared memory is no file on a device, but the memory of somebody's direct I/O.
    let superblock: u64 = probe(inode as Address, &INODE_SB);
    match probe::<u64>(superblock as Address, &SB_MAGIC) {
        TMPFS | HUGETLBFS => 0,
        _ => inode,
    }
}

/// The inode of the file that the bio is direct I/O on, as it says itself.
#[inline(always)]
fn inode_of_iocb(bio: Address) -> u64 {
    let direct: u64 = probe(bio, &BIO_PRIVATE);
    let iocb: u64 = probe(direct as Address, &DIRECT_IOCB);
    let file: u64 = probe(iocb as Address, &IOCB_FILE);
    probe(file as Address, &FILE_INODE)
}

/// The inode of the file of the thread's call, if that is direct I/O; 0: it is not.
#[inline(always)]
fn inode_of_call(thread: Option<&Thread>) -> u64 {
    match thread {
        Some(thread) if thread.state == state::RUNNING && pages::is_direct(thread) => {
            field(thread.file, &TYPE_FILE, &FILE_INODE)
        }
        _ => 0,
    }
}

/// Whether the bio is for another device than the one that the filesystem of `inode` stands on; without such, whether it
/// is a copy, or made while its thread was already asking for something.
#[inline(always)]
fn is_of_lower_device(bio: Address, inode: u64, task: Address) -> bool {
    let superblock: u64 = probe(inode as Address, &INODE_SB);
    let device: u64 = probe(superblock as Address, &SB_DEVICE);
    if inode != 0 && device != 0 {
        let of_bio: u64 = probe(bio, &BIO_DEVICE);
        return probe::<u64>(device as Address, &DEVICE_DISK)
            != probe::<u64>(of_bio as Address, &DEVICE_DISK);
    }
    probe::<u16>(bio, &BIO_FLAGS) & CLONED != 0 || probe::<u64>(task, &TASK_BIOS) != 0
}

/// The file that traced processes know the inode by; `None`: they do not.
#[inline(always)]
fn known(inode: u64) -> Option<FileId> {
    if inode == 0 {
        return None;
    }
    let real = identify_inode(inode)?;
    // SAFETY: the values are not kept.
    unsafe {
        let id = OVERLAID.get(real).map_or(real, |over| *over);
        NAMED.get(id).map(|_| id)
    }
}

/// Counts what is moved between a device and a file.
#[inline(always)]
fn transfer(key: &TransferKey, is_write: bool, bytes: u64) {
    let Some(map) = BLOCK_FILES.get(cells::current_half()) else {
        return;
    };
    let found = match map.get_ptr_mut(key) {
        Some(found) => Some(found),
        None => {
            let _ = map.insert(key, Transfers::default(), BPF_NOEXIST);
            map.get_ptr_mut(key)
        }
    };
    let Some(transfers) = found else {
        return add(diag::BLOCK_BYTES_LOST, bytes);
    };
    // SAFETY: aligned words of a map value.
    unsafe {
        if is_write {
            fetch_add(&raw mut (*transfers).writes, 1);
            fetch_add(&raw mut (*transfers).bytes_written, bytes);
        } else {
            fetch_add(&raw mut (*transfers).reads, 1);
            fetch_add(&raw mut (*transfers).bytes_read, bytes);
        }
    }
}

/// As `diagnose::add`, atomically: an interrupt may come between.
#[inline(always)]
fn add(reason: u32, amount: u64) {
    if let Some(slot) = DIAGNOSTICS.get_ptr_mut(reason) {
        // SAFETY: an aligned word of a map value.
        unsafe { fetch_add(slot, amount) };
    }
}

/// TRACE_EVENT block_rq_issue: (struct request *rq)
#[btf_tracepoint(function = "block_rq_issue")]
pub fn request_issued(ctx: BtfTracePointContext) -> i32 {
    issued(ctx.arg::<*const c_void>(0));
    0
}

/// TRACE_EVENT block_rq_complete: (struct request *rq, blk_status_t error, unsigned int nr_bytes)
#[btf_tracepoint(function = "block_rq_complete")]
pub fn request_completed(ctx: BtfTracePointContext) -> i32 {
    let request: Address = ctx.arg::<*const c_void>(0);
    let failed = ctx.arg::<u64>(1) as u8 != 0;
    completed(request, failed, ctx.arg::<u64>(2) as u32);
    0
}

/// TRACE_EVENT block_bio_queue: (struct bio *bio)
#[btf_tracepoint(function = "block_bio_queue")]
pub fn bio_queued(ctx: BtfTracePointContext) -> i32 {
    queued(ctx.arg::<*const c_void>(0));
    0
}
