//! The thread that reads the rings of the operation trace, and hands what it read on in pieces.
//!
//! The receiver may be slow, for it writes to a disk: then the rings fill up, and the programs count by process what
//! finds them full. So memory is bounded, and nothing is lost in silence.

use std::{
    io,
    sync::mpsc::{
        Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
    },
    thread::JoinHandle,
    time::Duration,
};

use iotrace_common::trace::{Missing, MissingByGeneration, Operation};

use super::{
    collector::hurry,
    rings::{LOOK_INTERVAL, Operations},
};
use crate::kernel::KernelError;
use iotrace_model::host;
use iotrace_model::input::ProcessId;

/// Operations of a piece; a part of the recording has one piece.
pub const PIECE: usize = 1 << 19;
/// Time between two looks at the rings while they fill fast.
const SHORT_LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// Percent of a ring that are many between two looks.
const FAST: u64 = 10;
/// Pieces that wait to be written.
pub const WAITING_PIECES: usize = 2;

/// What comes from the thread.
pub struct Piece {
    /// Those of one CPU are in the order of their ends.
    pub operations: Vec<Operation>,
    /// What is missing so far, by process.
    pub missing: Vec<(ProcessId, Missing)>,
}

enum Order {
    /// Hand on what there is.
    Cut,
    /// Record no more.
    Close,
    /// Hand on all that is left, and end.
    Stop,
}

/// The thread, and how to speak to it.
pub struct Tracer {
    thread: JoinHandle<Result<Duration, KernelError>>,
    orders: Control,
}

/// How to speak to the thread.
#[derive(Clone)]
pub struct Control(Sender<Order>);

impl Control {
    /// Has all that was done until now handed on.
    pub fn cut(&self) {
        // A thread that has ended does not hear it, which `stop` tells of.
        let _ = self.0.send(Order::Cut);
    }

    /// Has no more operations recorded: they are counted as left out.
    pub fn close(&self) {
        let _ = self.0.send(Order::Close);
    }
}

impl Tracer {
    /// Starts to read. What stands in the rings already is passed by.
    pub fn start(mut operations: Operations) -> Result<(Self, Receiver<Piece>), KernelError> {
        operations.skip()?;
        let (orders, ordered) = channel();
        let (pieces, receiver) = sync_channel(WAITING_PIECES);
        let thread = std::thread::Builder::new()
            .name("iotrace-trace".into())
            .spawn(move || read(operations, &ordered, &pieces))
            .map_err(failed)?;
        let orders = Control(orders);
        Ok((Self { thread, orders }, receiver))
    }

    /// How to speak to the thread.
    pub fn control(&self) -> Control {
        self.orders.clone()
    }

    /// Hands on all that is left, when the hooks are off, and ends; the CPU time that the thread has taken.
    pub fn stop(self) -> Result<Duration, KernelError> {
        let _ = self.orders.0.send(Order::Stop);
        let panicked = |_| Err(failed(io::Error::other("it panicked")));
        self.thread.join().unwrap_or_else(panicked)
    }
}

fn read(
    mut source: Operations,
    orders: &Receiver<Order>,
    pieces: &SyncSender<Piece>,
) -> Result<Duration, KernelError> {
    hurry();
    let mut operations = Vec::new();
    let mut cut = false;
    let mut look = LOOK_INTERVAL;
    loop {
        match orders.recv_timeout(look) {
            Ok(Order::Cut) => cut = true,
            Ok(Order::Close) => source.rings.close(),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
        }
        let fullest = source.rings.read(PIECE - operations.len(), &mut operations);
        look = if fullest > FAST {
            SHORT_LOOK_INTERVAL
        } else {
            LOOK_INTERVAL
        };
        if operations.len() == PIECE || cut {
            match pieces.try_send(piece(&source, &mut operations)?) {
                Ok(()) => cut = false,
                Err(TrySendError::Full(unsent)) => operations = unsent.operations,
                // The writer has ended, which its own end will say.
                Err(TrySendError::Disconnected(_)) => return Ok(host::thread_cpu()),
            }
        }
    }
    loop {
        source.rings.read(PIECE - operations.len(), &mut operations);
        let is_last = operations.len() < PIECE;
        if pieces.send(piece(&source, &mut operations)?).is_err() || is_last {
            return Ok(host::thread_cpu());
        }
    }
}

fn piece(source: &Operations, operations: &mut Vec<Operation>) -> Result<Piece, KernelError> {
    let sum = |(process, [mut even, odd]): (ProcessId, MissingByGeneration)| {
        even.add(odd);
        (process, even)
    };
    Ok(Piece {
        operations: std::mem::take(operations),
        missing: source.missing()?.into_iter().map(sum).collect(),
    })
}

fn failed(source: io::Error) -> KernelError {
    KernelError::Io {
        what: "the thread that reads the operation trace".into(),
        source,
    }
}
