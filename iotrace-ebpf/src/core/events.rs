//! Events of processes and of the maps: sent so that the daemon wakes. Names have a way of their own, in `path`.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated;
use iotrace_common::{diag, event::Header};

use crate::core::{diagnose, maps::EVENTS, memory::now};

/// Wakes the daemon with an event that is a header alone.
#[inline(never)]
pub fn notice(kind: u32) {
    let header = Header {
        kind,
        time: now(),
        ..Header::default()
    };
    send(ptr::from_ref(&header).cast(), size_of::<Header>() as u64);
}

/// Sends an event and wakes the daemon.
#[inline(always)]
pub fn send(event: *const c_void, size: u64) {
    // SAFETY: `size` bytes stand at `event`, as the verifier checks.
    let failed = unsafe {
        generated::bpf_ringbuf_output(
            ptr::from_ref(&EVENTS).cast_mut().cast(),
            event.cast_mut(),
            size,
            0,
        )
    };
    if failed != 0 {
        diagnose::count(diag::EVENTS_DROPPED);
    }
}
