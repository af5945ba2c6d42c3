//! `timeline.parquet`: when threads were off the CPU, one row for each time, by thread and time.
//!
//! It is a table of the parts, but [`crate::read`] skips it: only [`read`] needs it, and it may be long.

use std::path::Path;

use iotrace_common::key::FileId;
use iotrace_model::{
    input::ProcessId,
    timeline::{Cause, MAX_SEGMENTS, Segment},
};

use crate::{
    Error,
    columns::{Moment, PhaseCode, row},
    directory::Directory,
    meta::Meta,
    parts,
    table::{properties, read_table, write_table},
    tables::{Description, Part},
};

/// Rows of a row group: with fewer, their dictionaries are stored again too often.
const GROUP_ROWS: usize = 1 << 16;

row! {
    pub struct Row in "timeline" {
        /// the process
        process: ProcessId,
        /// the thread
        tid: u32,
        /// when it left the CPU; until then it ran, since its row before
        off_unix_ns: Moment as Differences,
        /// nanoseconds from then until it was ready to run
        waited_ns: u64 as Differences,
        /// nanoseconds from then until it ran
        queued_ns: u64 as Differences,
        /// why it left the CPU: `born` (its first row; without `by_tid`, it ran before), `preempted` (without any length: it ended), `thread` (`by_tid` woke it),
        /// `storage`, `page_fault`, `sleep`, `network`, `other`, `unresolved`
        cause: Cause,
        /// the thread that woke it, or made it
        by_tid: Option<u32>,
        /// for storage: identity of the file, if the operation has one
        file: Option<FileId>,
        /// phase of that file as the kernel side assigned it; `none` without a file
        phase: PhaseCode,
    }
}

/// The table for the reference page.
pub fn description() -> Description {
    Description::of::<Row>("timeline")
}

/// Writes the table of a part.
pub fn write(part: &Part<'_>, directory: &Directory) -> Result<(), Error> {
    let mut segments: Vec<&Segment> = part.model.timeline().interval().iter().collect();
    // The values of one thread are near each other.
    segments.sort_by_key(|segment| (segment.process, segment.tid, segment.off));
    let rows = segments.into_iter().map(Row::from);
    write_table(directory, &part.run.clock, properties, GROUP_ROWS, rows).map(drop)
}

/// Reads the timeline of a recording; in each part by thread and time.
pub fn read(directory: &Path) -> Result<Vec<Segment>, Error> {
    let meta = Meta::read(directory)?;
    let mut segments = Vec::new();
    parts::each(directory, &meta, |part| {
        read_table::<Row>(part, meta.format_minor_version, |store| {
            if segments.len() as u64 >= MAX_SEGMENTS {
                return Err("it has more rows than a recorder writes");
            }
            let row = <Row as crate::columns::Row>::load(store, &meta.run.clock)?;
            segments.push(row.into());
            Ok(())
        })?;
        Ok(true)
    })?;
    Ok(segments)
}

impl From<&Segment> for Row {
    fn from(segment: &Segment) -> Self {
        Self {
            process: segment.process,
            tid: segment.tid,
            off_unix_ns: Moment(segment.off),
            waited_ns: segment.woken - segment.off,
            queued_ns: segment.on - segment.woken,
            cause: segment.cause,
            by_tid: segment.by,
            file: segment.file,
            phase: PhaseCode(segment.phase),
        }
    }
}

impl From<Row> for Segment {
    fn from(row: Row) -> Self {
        let woken = row.off_unix_ns.0.saturating_add(row.waited_ns);
        Self {
            process: row.process,
            tid: row.tid,
            off: row.off_unix_ns.0,
            woken,
            on: woken.saturating_add(row.queued_ns),
            cause: row.cause,
            by: row.by_tid,
            file: row.file,
            phase: row.phase.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recorder;
    use iotrace_model::{Model, host};

    /// Bytes of a segment on disk, at most.
    const MAX_BYTES: u64 = 12;

    /// A DataLoader of four workers, whose times scatter.
    fn segments() -> Vec<Segment> {
        let mut random = 1u64;
        let mut scattered = |mean: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            mean / 2 + (random >> 33) % mean
        };
        let mut at = [1_000_000_000u64; 5];
        let one = |index: u64| {
            let thread = (index % 5) as usize;
            let process = ProcessId {
                pid: 4_000 + thread as u32,
                start: 77,
            };
            let off = at[thread] + scattered(300_000);
            let woken = off + scattered(2_000_000);
            let on = woken + scattered(20_000);
            at[thread] = on;
            let is_main = thread == 0;
            let file = FileId {
                device: 9,
                inode: 100 + index / 10,
                generation: 1,
            };
            Segment {
                process,
                tid: process.pid,
                off,
                woken,
                on,
                cause: if is_main {
                    Cause::Thread
                } else {
                    Cause::Storage
                },
                by: is_main.then_some(4_001 + (index / 5 % 4) as u32),
                file: (!is_main).then_some(file),
                phase: if is_main { 0 } else { 1 },
            }
        };
        (0..50_000).map(one).collect()
    }

    #[test]
    fn a_timeline_comes_back_and_is_small() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("recording");
        let target = iotrace_model::run::Target::All(true);
        let run = host::run("1", target, "btf", "full").unwrap();
        let mut recorder = Recorder::create(&directory, &run).unwrap();
        let mut model = Model::default();
        let mut expected = segments();
        for part in expected.chunks(30_000) {
            model.timeline_mut().add(part.to_vec());
            recorder.flush(&mut model, &run).unwrap();
        }
        recorder.finish(&mut model, &run).unwrap();
        let size = |part: &str| {
            let file = directory.join(part).join("timeline.parquet");
            file.metadata().unwrap().len()
        };
        let bytes = size("part-000001") + size("part-000002");
        let each = bytes / expected.len() as u64;
        println!("{bytes} bytes, {each} a segment");
        assert!(each <= MAX_BYTES, "{each} bytes");
        let mut found = read(&directory).unwrap();
        let key = |segment: &Segment| (segment.tid, segment.off);
        found.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(found, expected);
        assert_eq!(
            crate::read(&directory).unwrap().model.timeline().counts(),
            (0, 0)
        );
    }
}
