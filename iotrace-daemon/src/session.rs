//! What one run of `record` keeps: the model, the recording on disk, and what the report will say of the run.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use iotrace_common::in_flight::Head;
use tokio::task::JoinHandle;

use super::{
    config::Sorting,
    ending::Ending,
    output::{self, Place},
    quote::quote,
    record::{Args, Waits},
    report::next_steps,
    status_line::StatusLine,
};
use iotrace_model::host;
use iotrace_model::targets;
use iotrace_model::{
    About, Model, Process,
    run::{RAW, Run, Target, TimelineRun},
};
use iotrace_recording::{self, Directory, Node, Recorder, memory::disk};
use iotrace_report::{Report, units};
use iotrace_tracer::in_flight::{self, Earlier};

/// What is kept while recording, and after the hooks are off.
pub struct Session {
    pub args: Args,
    pub model: Model,
    pub run: Run,
    /// What the kernel side sorts by, and the report too.
    sorting: Sorting,
    recorder: Option<Recorder>,
    /// A part that a thread writes, which has the model and the recorder meanwhile.
    writing: Option<JoinHandle<Written>>,
    pub directory: PathBuf,
    pub started: Instant,
    pub status_line: StatusLine,
    /// Processes given by pid and their descendants, as they were at the start: they may be gone when first asked for.
    pub known: HashMap<u32, About>,
    /// Calls that had begun before.
    pub earlier: Earlier,
    /// Why what came last is missing.
    pub lost: Option<anyhow::Error>,
    /// Whether the service ended the recording before what it is of.
    pub is_cut: bool,
    pub ending: Ending,
}

/// What comes back from writing a part.
type Written = (Model, Recorder, Result<(), iotrace_recording::Error>);

impl Session {
    pub fn new(args: Args, sorting: Sorting, hook: &str) -> anyhow::Result<Self> {
        let target = if args.all {
            Target::All(true)
        } else if args.command.is_empty() {
            Target::Pids(args.pid.clone())
        } else {
            Target::Command(
                args.command
                    .iter()
                    .map(|arg| arg.to_string_lossy().into_owned())
                    .collect(),
            )
        };
        let mut run = host::run(env!("IOTRACE_VERSION"), target, hook, args.detail.name())?;
        run.merged_time = args.merged_time;
        run.block = args.block;
        let default = || host::directory(run.start_unix_ns, std::process::id());
        let directory = args.output.clone().unwrap_or_else(default);
        let recorder = Recorder::create(&directory, &run)?;
        Ok(Self {
            args,
            model: Model::with_history(),
            run,
            sorting,
            recorder: Some(recorder),
            writing: None,
            directory,
            started: Instant::now(),
            status_line: StatusLine::new(),
            known: HashMap::new(),
            earlier: Earlier::default(),
            lost: None,
            is_cut: false,
            ending: Ending::default(),
        })
    }

    /// The directory of the recording, while it is written.
    pub fn output(&self) -> Option<&Directory> {
        self.recorder.as_ref().map(Recorder::directory)
    }

    /// Lets the run's time begin.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        self.started = Instant::now();
        self.run.start_unix_ns = host::realtime()?;
        Ok(())
    }

    /// Takes down that the service let it begin a moment ago.
    pub fn began(&mut self, start_unix_ns: i64) {
        let ago = self.run.start_unix_ns.saturating_sub(start_unix_ns);
        let ago = Duration::from_nanos(u64::try_from(ago).unwrap_or(0));
        self.run.start_unix_ns = start_unix_ns;
        self.started = self.started.checked_sub(ago).unwrap_or(self.started);
    }

    /// Asks /proc for the processes that no event has told of.
    pub fn describe(&mut self) {
        let unknown: Vec<_> = self.model.undescribed().collect();
        for process in unknown {
            let about =
                targets::describe(process.pid).or_else(|| self.known.get(&process.pid).cloned());
            let is_of = |about: &About| {
                targets::is_of(about, process)
                    || self.run.hook == RAW && targets::is_of_first_sight(about, process)
            };
            if let Some(about) = about.filter(is_of) {
                self.model.describe_process(process, about);
            }
        }
    }

    /// Takes down which calls have not returned.
    pub fn take_in_flight(&mut self, heads: &[Head]) {
        self.run.in_flight = in_flight::describe(heads, &self.earlier, &self.model, &self.run);
    }

    /// Takes down how much of the timeline there is.
    fn take_timeline(&mut self) {
        let (segments, dropped) = self.model.timeline().counts();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        self.run.timeline = (self.args.waits == Some(Waits::Timeline)).then_some(TimelineRun {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            segments,
            dropped,
        });
    }

    /// Takes down how long the run has lasted.
    pub fn tick(&mut self) {
        self.run.duration_ns = self.started.elapsed().as_nanos() as u64;
    }

    /// Ends a step: what the model holds was done before `until`, `CLOCK_MONOTONIC` nanoseconds.
    pub fn end_step(&mut self, until: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end_step(&mut self.model, &self.run.clock, until);
        }
    }

    /// Shows how much was seen so far.
    pub fn show_progress(&mut self) {
        self.status_line.show(|| {
            let tally = self.model.io_totals();
            let seconds = self.started.elapsed().as_secs();
            format!(
                "{:02}:{:02}:{:02}  {} operations  {} files  {} read  {} written",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60,
                tally.operations,
                self.model.file_count(),
                units::bytes(tally.bytes_read),
                units::bytes(tally.bytes_written),
            )
        });
    }

    /// Has a thread write what came since the last flush: the disk may be slow, and must hold up neither a signal nor the
    /// end of the time. Until [`Session::written`] returns, the model is empty.
    pub fn flush(&mut self) {
        self.tick();
        self.take_timeline();
        self.status_line.clear();
        let Some(mut recorder) = self.recorder.take() else {
            return;
        };
        let (mut model, run) = (std::mem::take(&mut self.model), self.run.clone());
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let written = recorder.flush_open(&mut model, &run).map(drop);
            (model, recorder, written)
        }));
    }

    /// Whether a thread writes a part.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Waits until the part is written, if one is. A failure is said and not final: the next flush takes it all.
    pub async fn written(&mut self) -> anyhow::Result<()> {
        let Some(writing) = &mut self.writing else {
            return Ok(());
        };
        let (model, recorder, written) = writing.await.context("the thread that writes parts")?;
        self.writing = None;
        self.model = model;
        self.recorder = Some(recorder);
        if let Err(error) = written {
            log::error!("{error}; what was counted is kept for the next flush");
        }
        Ok(())
    }

    /// What [`Ending`] calls the writing of a part.
    pub fn writing(&self) -> String {
        format!("writing the recording to {}", self.directory.display())
    }

    /// Takes the recording away again.
    pub fn discard(&mut self) {
        if let Some(Err(error)) = self.recorder.take().map(Recorder::discard) {
            log::warn!("{error}");
        }
    }

    /// Writes the last part.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.status_line.clear();
        self.ending.turn(self.writing());
        self.run.room_bytes = host::room(&self.model);
        self.take_timeline();
        if let Some(lost) = self.lost.take() {
            // What there is, and no word that it is complete.
            if let Err(error) = self.write_part() {
                log::error!("{error}");
            }
            return Err(lost).with_context(|| self.incomplete());
        }
        if self.is_cut {
            return self.write_part().with_context(|| self.incomplete());
        }
        match self.recorder.take() {
            Some(recorder) => recorder
                .finish(&mut self.model, &self.run)
                .with_context(|| self.incomplete()),
            None => Ok(()),
        }
    }

    /// Names processes that the program left behind: what they do from here on is in no recording.
    pub fn name_those_left(&self) {
        const MAX_NAMES: usize = 3;
        if self.args.command.is_empty() {
            return;
        }
        // Only of one that has not begun to exit, control groups are known.
        let is_left = |process: &&Process| {
            process.about.end.is_none() && targets::cgroups(process.id).is_some()
        };
        let left: Vec<_> = self.model.processes().iter().filter(is_left).collect();
        if left.is_empty() {
            return;
        }
        let names = left.iter().take(MAX_NAMES);
        let names = names.map(|process| {
            format!(
                "{} {}",
                iotrace_report::escape(&process.about.comm),
                process.id.pid
            )
        });
        let mut names = names.collect::<Vec<_>>().join(", ");
        if left.len() > MAX_NAMES {
            names += ", ...";
        }
        log::warn!(
            "the trace ends with the program, and {} of its processes still run: {names}; have the program wait for them, \
             or record them with --pid",
            left.len()
        );
    }

    fn write_part(&mut self) -> Result<(), iotrace_recording::Error> {
        match &mut self.recorder {
            Some(recorder) => recorder.flush(&mut self.model, &self.run),
            None => Ok(()),
        }
    }

    fn incomplete(&self) -> String {
        format!("the recording {} is incomplete", self.directory.display())
    }

    /// Writes the report, and where the recording is to standard error. `is_complete`: whether all of it could be written.
    pub fn print(&mut self, is_complete: bool) -> anyhow::Result<()> {
        self.ending.turn("making the report");
        if is_complete && self.model.has_coarse_history() {
            // The recording has the steps that were too many to be kept in memory.
            self.model = Model::default();
            disk::begin(None);
            self.model = iotrace_recording::read(&self.directory)?.model;
        }
        let Sorting {
            classifier,
            thresholds,
        } = &self.sorting;
        let mut report = Report::with(&self.model, &self.run, classifier, thresholds);
        // What could not be written to the end is not read back.
        let nodes = [Node {
            directory: self.directory.clone(),
            run: self.run.clone(),
            incomplete: Vec::new(),
        }];
        if is_complete {
            report = report.of_nodes(&nodes);
            quote(&mut report, std::slice::from_ref(&self.directory));
        } else {
            report = report.cut();
        }
        let (format, extent) = (self.args.format(), self.args.text.extent());
        let place = self.args.place();
        place.write(&extent, |layout, out| {
            output::write(&report, format, &extent, is_complete, layout, out)
        })?;
        if let Place::File(file) = &place {
            eprintln!("iotrace: report in {}", file.display());
        }
        next_steps(std::slice::from_ref(&self.directory), &mut io::stderr())?;
        Ok(())
    }
}
