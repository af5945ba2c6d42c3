//! Timelines: a table of hostile bytes is refused or read; threads that no kernel could have recorded are refused or replayed.
#![no_main]

use std::{fs, io, panic, path::PathBuf, sync::OnceLock};

use iotrace_analysis::whatif::{Change, Program, Speed, WhatIf};
use iotrace_common::key::FileId;
use iotrace_model::{
    Model, host,
    input::ProcessId,
    run::Target,
    timeline::{Cause, Segment},
};
use iotrace_recording::{Recorder, timeline};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// Threads and files of made timelines.
const THREADS: u8 = 6;
const FILES: u8 = 3;
const MAIN: u32 = 10;
/// Bytes of a made segment.
const SEGMENT_BYTES: usize = 8;

/// A recording with a timeline.
struct Sample {
    _directory: tempfile::TempDir,
    recording: PathBuf,
    table: PathBuf,
    intact: Vec<u8>,
}

impl Sample {
    fn new() -> io::Result<Self> {
        // The reader catches panics of the Parquet library, which libFuzzer's hook would end the process for.
        let _ = panic::take_hook();
        let directory = tempfile::tempdir()?;
        let recording = directory.path().join("recording");
        let run = host::run("1", Target::All(true), "btf", "full")?;
        let mut model = Model::default();
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        model.timeline_mut().add(segments(&bytes));
        let mut recorder = Recorder::create(&recording, &run).map_err(io::Error::other)?;
        recorder.flush(&mut model, &run).map_err(io::Error::other)?;
        recorder
            .finish(&mut model, &run)
            .map_err(io::Error::other)?;
        let part = recording.join("part-000001");
        // They would find each change.
        fs::remove_file(part.join("checksums"))?;
        let table = part.join("timeline.parquet");
        let found = timeline::read(&recording).map_err(io::Error::other)?;
        assert_eq!(found.len(), bytes.len() / SEGMENT_BYTES);
        Ok(Self {
            _directory: directory,
            intact: fs::read(&table)?,
            recording,
            table,
        })
    }
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| Sample::new().expect("a directory for temporary files"))
}

/// Segments of any threads at any times.
fn segments(bytes: &[u8]) -> Vec<Segment> {
    let made = |bytes: &[u8]| {
        let [who, by, cause, shift, low, high, waited, queued] = *bytes else {
            return None;
        };
        let tid = MAIN + u32::from(who % THREADS);
        let scaled = |value: u64| value << (shift % 48);
        let off = scaled(u64::from(u16::from_le_bytes([low, high])));
        let woken = off.saturating_add(scaled(waited.into()));
        Some(Segment {
            process: ProcessId {
                pid: if who < 128 { tid } else { MAIN },
                start: 1,
            },
            tid,
            off,
            woken,
            on: woken.saturating_add(scaled(queued.into())),
            cause: Cause::ALL[usize::from(cause) % Cause::ALL.len()],
            by: (by < 128).then(|| MAIN + u32::from(by % THREADS)),
            file: (by >= 128).then(|| file(by % FILES)),
            phase: 0,
        })
    };
    bytes.chunks(SEGMENT_BYTES).filter_map(made).collect()
}

fn file(number: u8) -> FileId {
    FileId {
        device: 1,
        inode: number.into(),
        generation: 0,
    }
}

fn replay(segments: Vec<Segment>) {
    let mains = [MAIN, MAIN + 1].map(|pid| ProcessId { pid, start: 1 });
    let Ok(whatif) = WhatIf::new(Program::new(segments, &mains, 2), 2) else {
        return;
    };
    let changes = [
        Change {
            storage: 0.25,
            ..Change::default()
        },
        Change {
            storage: f64::INFINITY,
            workers: Some(3),
            ..Change::default()
        },
        Change {
            files: [(file(0), Speed::Typical), (file(1), Speed::Times(0.5))].into(),
            cpus: Some(1),
            ..Change::default()
        },
    ];
    for change in changes {
        if let Ok(found) = whatif.predict(&change) {
            let range = found.low..=found.high;
            assert!(range.contains(&found.replayed.ns), "{found:?}");
        }
    }
}

/// Reads a table that has these bytes.
fn read(table: &[u8]) -> Option<Vec<Segment>> {
    let sample = sample();
    fs::write(&sample.table, table).expect("room for a small file");
    timeline::read(&sample.recording).ok()
}

// The first byte says whether the rest is a table or a few bytes for each segment.
fuzz_target!(|data: &[u8]| {
    match data {
        [kind, table @ ..] if kind % 2 == 1 => {
            if let Some(segments) = read(table) {
                replay(segments);
            }
        }
        [_, made @ ..] => replay(segments(made)),
        [] => {}
    }
});

// An input that is next to nothing becomes an intact table, which what follows damages.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if size > 1 || seed.is_multiple_of(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let intact = &sample().intact;
    let room = max_size.min(data.len());
    let length = intact.len().min(room - 1);
    data[0] = 1;
    data[1..=length].copy_from_slice(&intact[..length]);
    1 + length
});
