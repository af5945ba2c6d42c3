//! Marks that a program sets itself, and what all traced processes have done when it does: so what is done during a range is
//! exact, without an event per operation.
//!
//! Writes `PROGRESS` (per CPU) and `MAPPED`; sends `MARK` events, and `MAPPED` for a file that is mapped as code, which may be a
//! library that is waited for.

use core::{ffi::c_void, ptr};

use aya_ebpf::{btf_maps::PerCpuArray, helpers::generated, macros::btf_map};
use iotrace_common::{
    diag,
    event::{self, Header, Mapped, Mark},
    library::{MARK_BYTES, POP, Progress},
    op,
};

use crate::{
    core::{
        config::{CPUS, FUNCTION_ARG0, MARKS, UPROBES},
        diagnose::{self, add_to_own},
        maps::EVENTS,
        memory::{Address, load, now, pid_tgid},
        thread::Thread,
    },
    features::uprobe::diagnose,
    platform::{current, running::start_of},
};

/// `PROT_EXEC`.
const EXECUTABLE: u64 = 4;
/// CPUs that are looked at.
const MOST_CPUS: u32 = 1024;

/// What all traced processes have done. Per CPU: the end of every call adds to it.
#[btf_map]
static PROGRESS: PerCpuArray<Progress, 1> = PerCpuArray::new();

maps! {
    MAPPED;
}

/// Adds a call of the thread's that succeeded.
#[inline(always)]
pub fn progress(thread: &Thread) {
    if !MARKS.is_set() {
        return;
    }
    if let Some(progress) = PROGRESS.get_ptr_mut(0) {
        // SAFETY: aligned words of this CPU's own value.
        unsafe {
            add_to_own(&raw mut (*progress).operations, 1);
            add_to_own(&raw mut (*progress).ns, thread.ns());
        }
    }
}

/// Adds the bytes of one.
#[inline(always)]
pub fn progress_bytes(op: usize, bytes: u64) {
    if !MARKS.is_set() {
        return;
    }
    if let Some(progress) = PROGRESS.get_ptr_mut(0) {
        // SAFETY: as above.
        unsafe {
            if op::is_read(op) {
                add_to_own(&raw mut (*progress).bytes_read, bytes);
            } else {
                add_to_own(&raw mut (*progress).bytes_written, bytes);
            }
        }
    }
}

/// Sends a mark of the running thread.
#[inline(always)]
pub fn marked(function: u16, registers: Address) {
    #[repr(C)]
    struct Record {
        mark: Mark,
        name: [u8; MARK_BYTES],
    }
    // The clock first: what follows takes its time.
    let time = now();
    let (tgid, tid) = pid_tgid();
    let progress = sum();
    // SAFETY: the reservation is submitted below whatever happens; the name's room is as long as said; the registers are
    // those of the running task.
    unsafe {
        let ring = (&raw const EVENTS).cast_mut().cast();
        let record: *mut Record =
            generated::bpf_ringbuf_reserve(ring, size_of::<Record>() as u64, 0).cast();
        if record.is_null() {
            return diagnose(diag::LIBRARY_NAMES_DROPPED);
        }
        let mut length = 0;
        if function != POP {
            let name: u64 = load(registers, &FUNCTION_ARG0);
            length = generated::bpf_probe_read_user_str(
                (&raw mut (*record).name).cast(),
                MARK_BYTES as u32,
                name as *const c_void,
            );
        }
        (*record).mark = Mark {
            header: Header {
                kind: event::MARK,
                payload: if length > 0 { length as u32 } else { 0 },
                time,
                tgid,
                tid,
                start: start_of(current()),
            },
            progress,
            function: u32::from(function),
            pad: 0,
        };
        generated::bpf_ringbuf_submit(record.cast(), 0);
    }
}

/// What was done until now, over all CPUs.
#[inline(always)]
fn sum() -> Progress {
    let mut sum = Progress::default();
    for cpu in 0..MOST_CPUS {
        if u64::from(cpu) >= CPUS.load() {
            break;
        }
        let key = 0_u32;
        // SAFETY: the map is one per CPU of `Progress`; the key lives on this stack.
        let progress = unsafe {
            generated::bpf_map_lookup_percpu_elem(
                (&raw const PROGRESS).cast_mut().cast(),
                (&raw const key).cast(),
                cpu,
            )
            .cast::<Progress>()
        };
        if progress.is_null() {
            break;
        }
        // SAFETY: checked above; volatile because other CPUs write it.
        let of_cpu = unsafe { ptr::read_volatile(progress) };
        sum.operations += of_cpu.operations;
        sum.bytes_read += of_cpu.bytes_read;
        sum.bytes_written += of_cpu.bytes_written;
        sum.ns += of_cpu.ns;
    }
    sum
}

/// Tells of the thread's call, if it has mapped a file as code for the first time.
#[inline(always)]
pub fn mapped(thread: &Thread) {
    if !UPROBES.is_set() || thread.op() != op::MMAP || thread.args[2] & EXECUTABLE == 0 {
        return;
    }
    let file = thread.key.io.file;
    // SAFETY: the value is not kept.
    if file.is_none() || unsafe { MAPPED.get(file) }.is_some() {
        return;
    }
    let (tgid, tid) = pid_tgid();
    let event = Mapped {
        header: Header {
            kind: event::MAPPED,
            payload: 0,
            time: now(),
            tgid,
            tid,
            start: start_of(current()),
        },
        file,
    };
    // SAFETY: the event is as long as said. The ring is waken for it.
    let failed = unsafe {
        generated::bpf_ringbuf_output(
            (&raw const EVENTS).cast_mut().cast(),
            ptr::from_ref(&event).cast_mut().cast(),
            size_of::<Mapped>() as u64,
            FORCE_WAKEUP,
        )
    };
    if failed != 0 {
        // Told of when it is mapped again.
        diagnose::count(diag::EVENTS_DROPPED);
        return;
    }
    // An LRU map takes every insert.
    let _ = MAPPED.insert(file, 1, 0);
}

/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: u64 = 2;
