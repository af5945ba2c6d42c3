//! SIGINT, SIGTERM and SIGHUP to `record`: before tracing begins they end it with a message, after that they end the trace.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const MESSAGE: &[u8] = b"iotrace: interrupted before tracing began: nothing was run or recorded\n";

static TRACING_BEGINS: AtomicBool = AtomicBool::new(false);
static FILE_LIMIT_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Signals that end a trace.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as nohup has it.
    hangup: Option<Signal>,
}

impl Signals {
    /// Waits for one, and tells its number.
    pub async fn next(&mut self) -> libc::c_int {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => libc::SIGINT,
            _ = self.terminate.recv() => libc::SIGTERM,
            _ = hangup => libc::SIGHUP,
        }
    }
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

/// Makes a write beyond the limit of a file's size (`ulimit -f`) an error that iotrace reports, and not its end.
pub fn fail_at_file_limit() {
    // SAFETY: plain calls.
    unsafe {
        if libc::signal(libc::SIGXFSZ, libc::SIG_IGN) == libc::SIG_IGN {
            FILE_LIMIT_WAS_IGNORED.store(true, Ordering::SeqCst);
        }
    }
}

/// In a program's process, before its exec: what [`fail_at_file_limit`] did is not for the program. Async-signal-safe.
pub fn end_at_file_limit() {
    if !FILE_LIMIT_WAS_IGNORED.load(Ordering::SeqCst) {
        // SAFETY: a plain call.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
    }
}

/// From here on signals are received by the trace.
pub fn tracing_begins() -> io::Result<Signals> {
    let hangup = match is_ignored(libc::SIGHUP)? {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hangup,
    };
    // Not before: tokio's handler calls the one that was there, and in between no signal may be lost.
    TRACING_BEGINS.store(true, Ordering::SeqCst);
    Ok(signals)
}

fn is_ignored(number: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeros are a valid action, and a null pointer sets none.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(number, std::ptr::null(), &raw mut action) {
            0 => Ok(action.sa_sigaction == libc::SIG_IGN),
            _ => Err(io::Error::last_os_error()),
        }
    }
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
