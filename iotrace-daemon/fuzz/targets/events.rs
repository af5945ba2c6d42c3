//! What the kernel programs write, hostile: events and counters, as a recording through the service receives them, and what
//! other maps and rings have.
//!
//! All of it goes into a model, of which a recording is made, and into another one as the service's, which sums it by unit.
#![no_main]

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Instant,
};

use iotrace_common::{
    block::{Requests, TransferKey, Transfers},
    global_merged::Time,
    key::FileId,
    library::{CallKey, Calls, FUNCTIONS, class},
};
use iotrace_model::{
    Model,
    block::Device,
    history::Bounds,
    host,
    input::ProcessId,
    lines::{Counts, Lined, Place},
    run::{Run, Target},
    timeline::{Cause, Segment},
    waits::{Leaf, Waited},
};
use iotrace_phases::Classifier;
use iotrace_recording::Recorder;
use iotrace_service::{findings::Looks, intake::Intake, totals::Totals};
use iotrace_tracer::drain::{
    Batch,
    wire::{Kind, unpack},
};
use libfuzzer_sys::fuzz_target;

/// What a piece of the input is.
#[derive(Clone, Copy)]
enum Piece {
    Wire(Kind),
    Library,
    Transfers,
    Devices,
    GlobalMerged,
    Waits,
    Timeline,
    Lines,
    /// The end of a step, or of an interval.
    Step,
    Flush,
}

const PIECE_KINDS: [Piece; 18] = [
    Piece::Wire(Kind::Events),
    Piece::Wire(Kind::Basic),
    Piece::Wire(Kind::Full),
    Piece::Wire(Kind::BasicOverflow),
    Piece::Wire(Kind::FullOverflow),
    Piece::Wire(Kind::Latencies),
    Piece::Wire(Kind::Failures),
    Piece::Wire(Kind::NegativeLookups),
    Piece::Wire(Kind::Threads),
    Piece::Library,
    Piece::Transfers,
    Piece::Devices,
    Piece::GlobalMerged,
    Piece::Waits,
    Piece::Timeline,
    Piece::Lines,
    Piece::Step,
    Piece::Flush,
];

/// Numbers of an input; 0 beyond its end.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    /// A number of any size: a byte says by how much the next one is shifted, and whether all bits below it are set.
    fn next(&mut self) -> u64 {
        let [shift, value, rest @ ..] = self.0 else {
            self.0 = &[];
            return 0;
        };
        self.0 = rest;
        let value = u64::from(*value) << (shift & 63);
        if shift & 64 == 0 {
            value
        } else {
            value.wrapping_sub(1)
        }
    }

    fn process(&mut self) -> ProcessId {
        ProcessId {
            pid: self.next() as u32,
            start: 1,
        }
    }

    fn file(&mut self) -> FileId {
        FileId {
            device: 1,
            generation: 0,
            inode: self.next(),
        }
    }

    /// As many values as the input has.
    fn all<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut values = Vec::new();
        while !self.0.is_empty() {
            values.push(one(self));
        }
        values
    }
}

/// The batch that a piece is; none for one that is cut, or no batch.
fn batch(piece: Piece, bytes: &[u8]) -> Option<Batch> {
    let mut words = Words(bytes);
    Some(match piece {
        Piece::Wire(kind) => return unpack(kind, bytes),
        Piece::Library => Batch::Library(words.all(called).into_iter().unzip()),
        Piece::Transfers => Batch::Transfers(words.all(transferred).into_iter().unzip()),
        Piece::Devices => Batch::Devices(words.all(|words| {
            let number = words.next() as u32;
            let device = Device {
                number,
                name: "sda".into(),
            };
            (device, std::array::from_fn(|_| requests(words)))
        })),
        Piece::GlobalMerged => Batch::GlobalMerged(std::array::from_fn(|_| Time {
            ns: words.next(),
            uncertain_ns: words.next(),
        })),
        Piece::Waits => Batch::Waits(words.all(|words| Waited {
            process: words.process(),
            leaf: Leaf::ALL[words.next() as usize % Leaf::ALL.len()],
            by: Some(words.process()),
            file: Some(words.file()),
            phase: words.next() as u16,
            ns: words.next(),
        })),
        Piece::Timeline => Batch::Timeline(words.all(segment)),
        Piece::Lines => Batch::Lines(words.all(lined)),
        Piece::Step | Piece::Flush => return None,
    })
}

fn called(words: &mut Words<'_>) -> (CallKey, Calls) {
    let process = words.process();
    // Markers are events: their calls are not counted.
    let mut counted = FUNCTIONS.to_vec();
    counted.retain(|(_, function)| usize::from(function.class) < class::NAMES.len());
    let key = CallKey {
        file: words.file(),
        object: words.next(),
        tgid: process.pid,
        tid: process.pid,
        start: process.start,
        function: counted[words.next() as usize % counted.len()]
            .1
            .index
            .into(),
    };
    let calls = Calls {
        calls: words.next(),
        failures: words.next(),
        bytes: words.next(),
        ns: words.next(),
        slowest_ns: words.next(),
        slowest_bytes: words.next(),
        first: words.next(),
        last: words.next(),
        max_byte: words.next(),
        sizes: std::array::from_fn(|_| words.next()),
    };
    (key, calls)
}

fn transferred(words: &mut Words<'_>) -> (TransferKey, Transfers) {
    let process = words.process();
    let key = TransferKey {
        file: words.file(),
        tgid: process.pid,
        start: process.start,
    };
    let transfers = Transfers {
        reads: words.next(),
        writes: words.next(),
        bytes_read: words.next(),
        bytes_written: words.next(),
    };
    (key, transfers)
}

fn requests(words: &mut Words<'_>) -> Requests {
    Requests {
        requests: words.next(),
        bytes: words.next(),
        failures: words.next(),
        ns: words.next(),
        deepest: words.next(),
        durations: std::array::from_fn(|_| words.next()),
    }
}

/// Its times are in order, as the thread that drains puts them.
fn segment(words: &mut Words<'_>) -> Segment {
    let process = words.process();
    let off = words.next();
    let woken = off.saturating_add(words.next());
    Segment {
        process,
        tid: process.pid,
        off,
        woken,
        on: woken.saturating_add(words.next()),
        cause: Cause::ALL[words.next() as usize % Cause::ALL.len()],
        by: Some(words.next() as u32),
        file: Some(words.file()),
        phase: 0,
    }
}

fn lined(words: &mut Words<'_>) -> Lined {
    let line = |line| {
        Arc::new(Place {
            file: "train.py".into(),
            line,
            function: "main".into(),
        })
    };
    Lined {
        process: words.process(),
        own: Some(line(words.next() as u32)),
        via: Some(line(words.next() as u32)),
        phase: words.next() as u16,
        counts: Counts {
            opens: words.next(),
            reads: words.next(),
            writes: words.next(),
            others: words.next(),
            bytes_read: words.next(),
            bytes_written: words.next(),
            ns: words.next(),
            slow: words.next(),
            slow_ns: words.next(),
        },
    }
}

/// What is the same for all inputs: the rules, what is known of this host, and a directory for recordings.
struct Given {
    classifier: Arc<Classifier>,
    run: Run,
    directory: tempfile::TempDir,
}

impl Given {
    fn new() -> io::Result<Self> {
        let classifier = Classifier::new(Default::default()).map_err(io::Error::other)?;
        Ok(Self {
            classifier: Arc::new(classifier),
            run: host::run("1", Target::All(true), "btf", "full")?,
            directory: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?,
        })
    }
}

fn given() -> &'static Given {
    static GIVEN: OnceLock<Given> = OnceLock::new();
    GIVEN.get_or_init(|| Given::new().expect("rules, a host and a directory"))
}

/// Ends a step, or an interval, a moment after the last.
fn end(model: &mut Model, run: &mut Run, is_step: bool) {
    let start = run.end_unix_ns();
    run.duration_ns += 1_000_000;
    let end = run.end_unix_ns();
    let bounds = Bounds { start, end };
    if is_step {
        model.end_step(bounds);
    } else {
        model.settle(bounds);
    }
}

/// Writes what a model has as a recording.
fn record(model: &mut Model, run: &Run) -> Result<(), iotrace_recording::Error> {
    let directory = given().directory.path().join("recording");
    let recorder = Recorder::create(&directory, run)?;
    let written = recorder.finish(model, run);
    std::fs::remove_dir_all(&directory).expect("the recording");
    written
}

// The first byte says whether a recording is written, which takes longest. Pieces follow: a byte for the kind, two for the
// length.
fuzz_target!(|data: &[u8]| {
    let [what, data @ ..] = data else { return };
    let given = given();
    let mut run = given.run.clone();
    let (mut model, mut services) = (Model::with_history(), Model::with_spans());
    let looks = Looks::new(
        Arc::clone(&given.classifier),
        Default::default(),
        run.clone(),
    );
    let mut intake = Intake::new(Arc::clone(&given.classifier), false, looks, run.clone());
    let mut totals = Totals::new(2_000);
    let mut rest = data;
    while let [kind, low, high, bytes @ ..] = rest {
        let piece = PIECE_KINDS[usize::from(*kind) % PIECE_KINDS.len()];
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(bytes.len());
        let (own, after) = bytes.split_at(length);
        match piece {
            Piece::Step => end(&mut model, &mut run, true),
            Piece::Flush => {
                end(&mut model, &mut run, false);
                intake.take(&mut services, &mut totals, Instant::now());
            }
            _ => {
                for model in [&mut model, &mut services] {
                    if let Some(batch) = batch(piece, own) {
                        intake.see(&batch, &mut totals);
                        batch.apply(model);
                    }
                }
            }
        }
        rest = after;
    }
    intake.take(&mut services, &mut totals, Instant::now());
    if what % 4 == 0 {
        record(&mut model, &run).expect("room for a small recording");
    }
});
