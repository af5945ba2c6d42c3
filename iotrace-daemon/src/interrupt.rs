//! SIGINT and SIGTERM to `record`: before tracing begins they end it with a message, after that they end the trace.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
const MESSAGE: &[u8] = b"iotrace: interrupted before tracing began: nothing was run or recorded\n";

static TRACING_BEGINS: AtomicBool = AtomicBool::new(false);

/// Signals that end a trace.
pub struct Signals {
    pub interrupt: Signal,
    pub terminate: Signal,
}

/// Lets a signal end iotrace at once and say so, while it loads its kernel programs. A signal that is ignored already,
/// as by nohup, stays ignored.
pub fn end_before_tracing() {
    let handler = end as extern "C" fn(libc::c_int);
    for number in SIGNALS {
        // SAFETY: the handler makes only async-signal-safe calls.
        unsafe {
            if libc::signal(number, handler as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(number, libc::SIG_IGN);
            }
        }
    }
}

/// From here on signals are received by the trace.
pub fn tracing_begins() -> io::Result<Signals> {
    let signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    };
    // Not before: tokio's handler calls the one that was there, and in between no signal may be lost.
    TRACING_BEGINS.store(true, Ordering::SeqCst);
    Ok(signals)
}

extern "C" fn end(number: libc::c_int) {
    if TRACING_BEGINS.load(Ordering::SeqCst) {
        return;
    }
    // SAFETY: both calls are async-signal-safe, and the message is static.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(128 + number);
    }
}
