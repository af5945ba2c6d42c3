//! The operation trace while it is recorded: rings -> a thread that reads them -> a thread that writes parts.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::Receiver},
    thread::JoinHandle,
    time::Duration,
};

use iotrace_model::host;
use iotrace_model::run::{Run, TraceRun};
use iotrace_recording::{Directory, trace::TraceWriter};
use iotrace_tracer::drain::{
    rings,
    tracer::{Control, Piece, Tracer},
};
use iotrace_tracer::kernel::KernelError;

/// Both threads.
pub struct Operations {
    tracer: Tracer,
    writer: JoinHandle<Duration>,
    /// What was written, as of the last part.
    summary: Arc<Mutex<TraceRun>>,
    filter: Vec<String>,
}

impl Operations {
    /// Starts both. `most_bytes`: what the parts in `directory` may take.
    pub fn start(
        rings: rings::Operations,
        directory: &Directory,
        run: &Run,
        most_bytes: Option<u64>,
        filter: &[String],
    ) -> Result<Self, KernelError> {
        let (tracer, pieces) = Tracer::start(rings)?;
        let writer = TraceWriter::new(directory, run.clock, most_bytes);
        let summary = Arc::new(Mutex::new(writer.summary()));
        let (control, shared) = (tracer.control(), Arc::clone(&summary));
        let writer = std::thread::Builder::new()
            .name("iotrace-parts".into())
            .spawn(move || write(writer, &pieces, &control, &shared))
            .map_err(failed)?;
        Ok(Self {
            tracer,
            writer,
            summary,
            filter: filter.to_vec(),
        })
    }

    /// Has all that was done until now written.
    pub fn cut(&self) {
        self.tracer.control().cut();
    }

    /// What was written, and what is missing.
    pub fn summary(&self) -> TraceRun {
        let summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
        TraceRun {
            filter: self.filter.clone(),
            ..summary.clone()
        }
    }

    /// Writes what is left, when the hooks are off.
    pub fn finish(self) -> Result<TraceRun, KernelError> {
        let summary = Arc::clone(&self.summary);
        let read = self.tracer.stop();
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
    control: &Control,
    summary: &Mutex<TraceRun>,
) -> Duration {
    let mut is_closed = false;
    while let Ok(piece) = pieces.recv() {
        if let Err(error) = writer.write(piece.operations, piece.missing) {
            log::error!("{error}; the operations of this part are counted as lost in the trace");
        }
        if writer.is_closed() && !is_closed {
            log::warn!("the operation trace has reached its size; what comes now is counted only");
            control.close();
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
