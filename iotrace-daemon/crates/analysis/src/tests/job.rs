//! A job that is made up: processes, files, and what was done when.

use std::collections::BTreeMap;

use iotrace_common::key::FileId;

use crate::{
    Analysis,
    findings::{Finding, thresholds::Thresholds},
};
use iotrace_model::{
    IoTotals, Model,
    computing::CpuTime,
    counters::*,
    history::Bounds,
    input::{Event, FileName, Place, ProcessId},
    run::{Clock, Run, Target},
};
use iotrace_phases::{Classifier, context::sort, copies::Copies, phase::Phase};

/// Nanoseconds of a millisecond.
const MS: u64 = 1_000_000;
/// When the run starts, by the monotonic clock and since the epoch, nanoseconds.
const START: u64 = 1_000 * MS;
pub const START_NS: u64 = START;

/// A job whose times are milliseconds since its start.
pub struct Job {
    pub model: Model,
    pub run: Run,
    files: BTreeMap<String, FileId>,
    inodes: u64,
    flushed: u64,
    pub thresholds: Thresholds,
}

/// One use of a file, from when to when.
#[derive(Clone, Copy)]
pub struct Use<'a> {
    pub pid: u32,
    pub path: &'a str,
    pub from: u64,
    pub to: u64,
}

/// A use of a file by a process, in milliseconds since the start.
pub fn used(pid: u32, path: &str, from: u64, to: u64) -> Use<'_> {
    Use {
        pid,
        path,
        from,
        to,
    }
}

impl Job {
    /// A job of so many milliseconds on a local disk and a network filesystem, `/lustre`.
    pub fn new(duration: u64) -> Self {
        Self::of(Model::with_history(), duration)
    }

    /// The same, whose uses of files are known one by one.
    pub fn with_spans(duration: u64) -> Self {
        Self::of(Model::with_spans(), duration)
    }

    /// The same in a model that is given.
    pub fn of(mut model: Model, duration: u64) -> Self {
        model.update_mounts(
            b"1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:40 / /lustre rw - lustre mgs:/fs rw\n\
              3 1 0:50 / /dev/shm rw - tmpfs tmpfs rw\n",
        );
        let run = Run {
            iotrace_version: "0".into(),
            host: "n1".into(),
            kernel: "6".into(),
            boot_id: "b".into(),
            hook: "btf".into(),
            detail: "full".into(),
            target: Target::Command(vec!["train".into()]),
            exit_code: None,
            start_unix_ns: START as i64,
            duration_ns: duration * MS,
            clock: Clock::default(),
            clock_step_ns: 0,
            merged_time: iotrace_model::run::MergedTime::default(),
            block: false,
            memory_bytes: 16 << 30,
            room_bytes: [("/".to_owned(), 1 << 40)].into(),
            in_flight: Vec::new(),
            losses: BTreeMap::new(),
            trace: None,
            timeline: None,
            uprobes: Vec::new(),
        };
        Self {
            model,
            run,
            files: BTreeMap::new(),
            inodes: 0,
            flushed: 0,
            thresholds: Thresholds::default(),
        }
    }

    /// A process that runs a program of its own.
    pub fn program(&mut self, pid: u32, parent: u32) {
        self.program_at(pid, parent, u64::from(pid));
    }

    /// A process that starts at this time since boot, nanoseconds.
    fn program_at(&mut self, pid: u32, parent: u32, start_boottime: u64) {
        self.exec(pid, parent, start_boottime, &["train.py"]);
    }

    fn exec(&mut self, pid: u32, parent: u32, start_boottime: u64, args: &[&str]) {
        self.model.event(Event::Exec {
            process: id(pid),
            start_boottime,
            parent,
            rights: iotrace_common::rights::Rights::of_user(0),
            comm: b"python3".to_vec(),
            args: args.iter().map(|arg| (*arg).into()).collect(),
        });
    }

    /// A process that runs a script.
    pub fn script(&mut self, pid: u32, script: &str) {
        self.exec(pid, 0, u64::from(pid), &["python3", "-u", script]);
        self.runs(pid, "/usr/bin/python3");
    }

    /// A process that runs a program of its own, and starts `ms` milliseconds after the run.
    pub fn program_later(&mut self, pid: u32, parent: u32, ms: u64) {
        self.program_at(pid, parent, START + ms * MS);
    }

    /// The process ends `ms` milliseconds after the start of the run.
    pub fn ends(&mut self, pid: u32, ms: u64) {
        self.ends_by(pid, ms, 0);
    }

    /// The same by a signal; 0: by itself.
    pub fn ends_by(&mut self, pid: u32, ms: u64, signal: u32) {
        self.model.event(Event::Exit {
            process: id(pid),
            time: START + ms * MS,
            status: signal,
        });
    }

    /// The process runs this executable.
    pub fn runs(&mut self, pid: u32, exe: &str) {
        self.model.event(Event::Exe {
            process: id(pid),
            path: exe.as_bytes().to_vec(),
        });
    }

    /// The process uses a CPU for `ms` milliseconds.
    pub fn computes(&mut self, pid: u32, ms: u64) {
        let time = CpuTime {
            cpu_ns: ms * MS,
            ..CpuTime::default()
        };
        self.model.add_cpu(id(pid), &time);
    }

    /// A worker that is forked.
    pub fn worker(&mut self, pid: u32, parent: u32) {
        self.worker_at(pid, parent, u64::from(pid));
    }

    /// A worker that is forked `ms` milliseconds after the start of the run.
    pub fn worker_later(&mut self, pid: u32, parent: u32, ms: u64) {
        self.worker_at(pid, parent, START + ms * MS);
    }

    fn worker_at(&mut self, pid: u32, parent: u32, child_start_boottime: u64) {
        self.model.event(Event::Fork {
            parent: id(parent),
            child: id(pid),
            child_start_boottime,
            rights: iotrace_common::rights::Rights::of_user(0),
            comm: b"python3".to_vec(),
        });
    }

    /// Makes a file known with its size.
    pub fn file(&mut self, path: &str, size: u64) -> FileId {
        self.file_that(path, size, false)
    }

    /// The same of one that was there before it was opened.
    pub fn existing_file(&mut self, path: &str, size: u64) -> FileId {
        self.file_that(path, size, true)
    }

    fn file_that(&mut self, path: &str, size: u64, existed: bool) -> FileId {
        self.inodes += 1;
        let device = if path.starts_with("/lustre") {
            40
        } else if path.starts_with("/dev/shm") {
            50
        } else {
            8 << 20 | 1
        };
        let file = FileId {
            device,
            generation: 1,
            inode: self.inodes,
        };
        self.model.event(Event::File(FileName {
            file,
            path: path.as_bytes().to_vec(),
            size,
            mode: 0o100_644,
            magic: 0xef53,
            block_size: 4096,
            truncated: false,
            deleted: false,
            existed,
        }));
        self.files.insert(path.into(), file);
        file
    }

    /// Counters of a use: `values`, and the moments of an open, of a close, and, as `first` and `last`, of what lies between.
    pub fn add(&mut self, used: Use<'_>, values: &[(usize, u64)], first: usize, last: usize) {
        let file = self.files.get(used.path).copied();
        let file = file.unwrap_or_else(|| self.file(used.path, 0));
        let mut counters = Counters::ZERO;
        values
            .iter()
            .for_each(|(index, value)| counters.v[*index] = *value);
        let (from, to) = (START + used.from * MS, START + used.to * MS);
        if counters.v[OPENS] > 0 {
            (counters.v[FIRST_OPEN], counters.v[LAST_OPEN]) = (from, from + 1);
        }
        (counters.v[first], counters.v[last]) = (from + 2, to - 2);
        if counters.v[CLOSES] > 0 {
            (counters.v[FIRST_CLOSE], counters.v[LAST_CLOSE]) = (to - 1, to);
        }
        (counters.v[FIRST_OPERATION], counters.v[LAST_OPERATION]) = (from, to);
        self.model.add(id(used.pid), Place::File(file), &counters);
    }

    /// Opens a file, reads so many bytes of it in calls of at most 1 MiB, and closes it; all the time is in reads.
    pub fn read(&mut self, used: Use<'_>, bytes: u64) {
        self.read_from_storage(used, bytes, 0);
    }

    /// The same, of which so many bytes are fetched from storage.
    pub fn read_from_storage(&mut self, used: Use<'_>, bytes: u64, fetched: u64) {
        let calls = bytes.div_ceil(1 << 20).max(1);
        let ns = (used.to - used.from) * MS;
        let size = if bytes / calls > 102_400 {
            READ_SIZE_100K_1M
        } else {
            READ_SIZE_10K_100K
        };
        let values = [
            (OPENS, 1),
            (CLOSES, 1),
            (READS, calls),
            (size, calls),
            (BYTES_READ, bytes),
            (READ_NS, ns),
            (META_NS, 1_000),
            (MAX_BYTE_READ, bytes - 1),
            (BYTES_FETCHED, fetched),
        ];
        self.add(used, &values, FIRST_READ, LAST_READ);
    }

    /// Opens a file, writes it whole, syncs it for so many milliseconds if for any, and closes it.
    pub fn write(&mut self, used: Use<'_>, bytes: u64, sync: u64) {
        let calls = bytes.div_ceil(1 << 20);
        let ns = (used.to - used.from - sync) * MS;
        let values = [
            (OPENS, 1),
            (CLOSES, 1),
            (WRITES, calls),
            (BYTES_WRITTEN, bytes),
            (WRITE_NS, ns),
            (FSYNCS, u64::from(sync > 0)),
            (SYNC_NS, sync * MS),
            (LAST_SYNC, u64::from(sync > 0) * (START + used.to * MS - 2)),
            (MAX_BYTE_WRITTEN, bytes - 1),
        ];
        self.add(used, &values, FIRST_WRITE, LAST_WRITE);
    }

    /// Any counters on a file.
    pub fn count(&mut self, used: Use<'_>, values: &[(usize, u64)]) {
        self.add(used, values, FIRST_READ, LAST_READ);
    }

    /// Ends an interval.
    pub fn flush(&mut self, at: u64) {
        let bounds = Bounds {
            start: (START + self.flushed * MS) as i64,
            end: (START + at * MS) as i64,
        };
        self.flushed = at;
        self.model.settle(bounds);
    }

    pub fn analysis(&self) -> Analysis {
        let copies = Copies::of(&self.model, self.run.clock);
        let sorted = sort(&self.model, Classifier::builtin(), &copies);
        Analysis::new(&self.model, &self.run, &sorted, copies, &self.thresholds)
    }

    /// The finding of this code, if it is found.
    pub fn finding(&self, code: &str) -> Option<Finding> {
        self.analysis()
            .findings
            .into_iter()
            .find(|finding| finding.code == code)
    }

    /// Lets a process read bytes of files that the kernel side sorts into a phase.
    pub fn reads(&mut self, pid: u32, phase: Phase, bytes_read: u64) {
        let done = IoTotals {
            operations: 1,
            bytes_read,
            ..IoTotals::default()
        };
        self.model.add_done(id(pid), phase.code().into(), &done);
    }

    /// Fails unless this code is found, with a subject where there are any to name, and advice.
    #[track_caller]
    pub fn finds(&self, code: &str) -> Finding {
        let codes: Vec<_> = self
            .analysis()
            .findings
            .iter()
            .map(|finding| finding.code)
            .collect();
        let finding = self
            .finding(code)
            .unwrap_or_else(|| panic!("{code} is not in {codes:?}"));
        assert!(
            !finding.evidence.is_empty() && !finding.advice.is_empty() && !finding.title.is_empty()
        );
        finding
    }

    /// Fails if this code is found.
    #[track_caller]
    pub fn finds_no(&self, code: &str) {
        assert!(self.finding(code).is_none(), "{:?}", self.finding(code));
    }
}

pub fn id(pid: u32) -> ProcessId {
    ProcessId { pid, start: pid }
}

/// Milliseconds of a moment of the analysis.
pub fn ms(ns: i64) -> i64 {
    ns.div_euclid(MS as i64)
}
