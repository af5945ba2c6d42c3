//! The operation trace while it is recorded: rings -> a thread that reads them -> a thread that writes parts. Where a service
//! reads the rings, it tells of the operations as of everything else, and they come through [`Operations::take`].

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context as _;
use iotrace_common::trace::{Missing, Operation};

use iotrace_model::{
    Model, host,
    input::ProcessId,
    run::{Run, TraceRun},
};
use iotrace_recording::{Directory, trace::TraceWriter};
use iotrace_tracer::drain::{
    Traced, rings,
    tracer::{Control, PIECE, Piece, Tracer, WAITING_PIECES},
};
use iotrace_tracer::kernel::{KernelError, trace::Filter};

/// Operations that wait until the writer takes a piece; what comes then is lost, and counted.
const MAX_WAITING_OPERATIONS: usize = 4 * PIECE;

/// The thread that writes, and what it gets operations from.
pub struct Operations {
    feed: Feed,
    writer: JoinHandle<Duration>,
    /// What was written, as of the last part.
    summary: Arc<Mutex<TraceRun>>,
    filter: Vec<String>,
}

/// Where operations come from.
enum Feed {
    /// The rings of this process's programs, which know the filter.
    Rings(Tracer),
    /// A service.
    Service(Box<Told>),
}

/// What a service tells.
struct Told {
    pieces: SyncSender<Piece>,
    filter: Filter,
    operations: Vec<Operation>,
    /// So far, by process.
    missing: BTreeMap<ProcessId, Missing>,
}

impl Told {
    fn take(&mut self, traced: Traced, model: &Model) {
        for (process, more) in traced.missing {
            self.missing.entry(process).or_default().add(more);
        }
        let filter = &self.filter;
        for operation in traced.operations {
            let process = ProcessId::from(&operation.key);
            let file = operation.key.file;
            let path = || model.find_file(file).map(|file| file.path);
            let path = (filter.table().is_some() && !file.is_none()).then(path);
            let name = || model.about(process).map(|about| about.comm.as_slice());
            let name = filter.is_by_name().then(name);
            if !filter.lets_through(&operation, name.flatten(), path.flatten()) {
                continue;
            }
            if self.operations.len() < MAX_WAITING_OPERATIONS {
                self.operations.push(operation);
            } else {
                self.missing.entry(process).or_default().lost += 1;
            }
        }
        if self.operations.len() >= PIECE {
            self.cut();
        }
    }

    fn piece(&mut self) -> Piece {
        let missing = &self.missing;
        Piece {
            operations: std::mem::take(&mut self.operations),
            missing: missing
                .iter()
                .map(|(id, missing)| (*id, *missing))
                .collect(),
        }
    }

    /// Hands on what there is, unless the writer is behind.
    fn cut(&mut self) {
        let piece = self.piece();
        // A writer that has ended says so at the end.
        if let Err(TrySendError::Full(piece)) = self.pieces.try_send(piece) {
            self.operations = piece.operations;
        }
    }
}

impl Operations {
    /// Starts to write what is in these rings, or what a service tells. `most_bytes`: what the parts in `directory` may take.
    pub fn start(
        rings: Option<rings::Operations>,
        directory: &Directory,
        run: &Run,
        most_bytes: Option<u64>,
        filter: &[String],
    ) -> anyhow::Result<Self> {
        let (feed, pieces) = match rings {
            Some(rings) => {
                let (tracer, pieces) = Tracer::start(rings)?;
                (Feed::Rings(tracer), pieces)
            }
            None => {
                let (sender, pieces) = sync_channel(WAITING_PIECES);
                let told = Told {
                    pieces: sender,
                    filter: Filter::new(filter).context("--trace-filter")?,
                    operations: Vec::new(),
                    missing: BTreeMap::new(),
                };
                (Feed::Service(Box::new(told)), pieces)
            }
        };
        let writer = TraceWriter::new(directory, run.clock, most_bytes);
        let summary = Arc::new(Mutex::new(writer.summary()));
        let control = match &feed {
            Feed::Rings(tracer) => Some(tracer.control()),
            Feed::Service(_) => None,
        };
        let shared = Arc::clone(&summary);
        let writer = std::thread::Builder::new()
            .name("iotrace-parts".into())
            .spawn(move || write(writer, &pieces, control.as_ref(), &shared))
            .map_err(failed)?;
        Ok(Self {
            feed,
            writer,
            summary,
            filter: filter.to_vec(),
        })
    }

    /// Takes what a service tells; the model has the names of its files and processes.
    pub fn take(&mut self, traced: Traced, model: &Model) {
        if let Feed::Service(told) = &mut self.feed {
            told.take(traced, model);
        }
    }

    /// Has all that was done until now written.
    pub fn cut(&mut self) {
        match &mut self.feed {
            Feed::Rings(tracer) => tracer.control().cut(),
            Feed::Service(told) => told.cut(),
        }
    }

    /// What was written, and what is missing.
    pub fn summary(&self) -> TraceRun {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        TraceRun {
            filter: self.filter.clone(),
            ..summary.clone()
        }
    }

    /// Writes what is left, when nothing more comes.
    pub fn finish(self) -> Result<TraceRun, KernelError> {
        let summary = Arc::clone(&self.summary);
        let read = match self.feed {
            Feed::Rings(tracer) => tracer.stop(),
            Feed::Service(mut told) => {
                // A writer that has ended says so below.
                let rest = told.piece();
                let _ = told.pieces.send(rest);
                Ok(Duration::ZERO)
            }
        };
        let written = self.writer.join();
        let read = read?;
        let written = written.map_err(|_| failed(io::Error::other("it panicked")))?;
        let summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        log::info!(
            "{} operations were traced: {} us of CPU time to read them, {} us of CPU time to write them",
            summary.operations,
            read.as_micros(),
            written.as_micros()
        );
        if summary.operations == 0 && !self.filter.is_empty() {
            let filter = self.filter.join(" ");
            log::warn!(
                "the operation trace is empty: no operation matched --trace-filter {filter}"
            );
        }
        Ok(TraceRun {
            filter: self.filter,
            ..summary.clone()
        })
    }
}

/// Writes what comes; the CPU time that the thread has taken for it.
fn write(
    mut writer: TraceWriter,
    pieces: &Receiver<Piece>,
    control: Option<&Control>,
    summary: &Mutex<TraceRun>,
) -> Duration {
    let mut is_closed = false;
    while let Ok(piece) = pieces.recv() {
        if let Err(error) = writer.write(piece.operations, piece.missing) {
            log::error!("{error}; the operations of this part are counted as lost in the trace");
        }
        if writer.is_closed() && !is_closed {
            log::warn!("the operation trace has reached its size; what comes now is counted only");
            if let Some(control) = control {
                control.close();
            }
            is_closed = true;
        }
        *summary.lock().unwrap_or_else(PoisonError::into_inner) = writer.summary();
    }
    host::thread_cpu()
}

fn failed(source: io::Error) -> KernelError {
    KernelError::Io {
        what: "the thread that writes the operation trace".into(),
        source,
    }
}
