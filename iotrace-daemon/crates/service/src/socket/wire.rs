//! The client's end of a recording: what it is sent, and what it says.

use std::{
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use super::{
    protocol::{Answer, MAX_LINE_BYTES, Wish, line},
    recording::Settings,
};
use iotrace_tracer::{
    drain::{Batch, wire},
    kernel::KernelError,
};

/// How long a client may take to read what it asked for.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks at whether a client that does not read is still waited for.
const CLIENT_CHECK_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Why a recording goes on no more.
pub enum Over {
    /// The client has gone, or does not read.
    Gone(io::Error),
    /// The client says what it may not.
    Garbage,
    Kernel(KernelError),
}

impl From<KernelError> for Over {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

impl From<io::Error> for Over {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// How long a recording may last, and how much of it may be sent.
pub struct Limits {
    pub deadline: Instant,
    max_duration: Duration,
    max_bytes: u64,
}

impl Limits {
    /// Of a recording that begins now.
    pub fn from_now(settings: &Settings) -> Self {
        Self {
            deadline: Instant::now() + settings.max_duration,
            max_duration: settings.max_duration,
            max_bytes: settings.max_bytes,
        }
    }
}

/// The client's end of the wire.
pub struct Wire {
    stream: UnixStream,
    /// What was heard of a line whose end has not come.
    heard: Vec<u8>,
    /// Bytes sent.
    sent: u64,
    /// The service ends.
    stop: Arc<AtomicBool>,
}

impl Wire {
    /// `early`: what the client said after its request already.
    pub fn new(stream: UnixStream, early: Vec<u8>, stop: Arc<AtomicBool>) -> Self {
        Self {
            stream,
            heard: early,
            sent: 0,
            stop,
        }
    }

    /// Whether the client said something that was not looked at.
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// What the client wants by now.
    pub fn listen(&mut self) -> Result<Vec<Wish>, Over> {
        let mut bytes = [0; MAX_LINE_BYTES];
        match recv(&self.stream, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok((_, count)) => self.heard.extend_from_slice(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut wishes = Vec::new();
        let mut lines = self.heard.split_inclusive(|byte| *byte == b'\n');
        let mut rest = Vec::new();
        for line in &mut lines {
            if line.ends_with(b"\n") {
                wishes.push(serde_json::from_slice(line).map_err(|_| Over::Garbage)?);
            } else {
                rest = line.to_vec();
            }
        }
        if rest.len() > MAX_LINE_BYTES {
            return Err(Over::Garbage);
        }
        self.heard = rest;
        Ok(wishes)
    }

    /// Why there must be no more of this recording.
    pub fn limit(&self, limits: Option<&Limits>) -> Option<String> {
        if self.stop.load(Relaxed) {
            return Some("the service ends".into());
        }
        let limits = limits?;
        if Instant::now() >= limits.deadline {
            let limit = humantime::format_duration(limits.max_duration);
            return Some(format!(
                "a recording may last {limit}: max_duration in [recordings]"
            ));
        }
        (self.sent >= limits.max_bytes).then(|| {
            format!(
                "a recording may have {} MiB: max_mib in [recordings]",
                limits.max_bytes >> 20
            )
        })
    }

    pub fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        match wire::pack(batch, std::process::id()) {
            Some((kind, bytes)) => self.bytes(kind, &bytes),
            None => Ok(()),
        }
    }

    fn bytes(&mut self, kind: wire::Kind, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let header = Answer::Batch {
            kind,
            bytes: bytes.len() as u32,
        };
        self.say(&header)?;
        self.write(bytes)
    }

    pub fn say(&mut self, answer: &Answer) -> io::Result<()> {
        self.write(&line(answer))
    }

    /// Writes all of it within [`CLIENT_TIMEOUT`], however little the client reads at a time. The front shares the socket's flags
    /// and timeouts, so they have no effect here.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + CLIENT_TIMEOUT;
        while !bytes.is_empty() {
            match send(
                &self.stream,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => {
                    self.sent += count as u64;
                    bytes = &bytes[count..];
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    let mut writable = [PollFd::new(&self.stream, PollFlags::OUT)];
                    match poll(&mut writable, Some(&CLIENT_CHECK_INTERVAL)) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
            let given_up = Instant::now() >= deadline || self.stop.load(Relaxed);
            if given_up && !bytes.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
