//! What a run's counts say of the job: saves, loads, epochs, balance, startup, a time series, and findings.
//!
//! ```text
//! model (rows, intervals) + classify (phase of each file)
//!   -> uses       one pass over the intervals: visits of training files, touches of saves and loads, the series
//!   -> saves, epochs, balance, startup -> findings
//! ```
//!
//! [`Analysis::new`] is a pure function, the same of a model that `record` fills and of one read back. `docs/guide/phases.md`
//! defines each result, `docs/reference/findings.md` the findings. A result is left out if the data does not show it.

pub mod balance;
mod clips;
pub mod durable;
pub mod epoch_waits;
pub mod epochs;
pub mod evaluation;
pub mod findings;
pub mod mapped;
pub mod merged;
mod naming;
mod no_samples;
mod once;
pub mod order;
pub mod page_cache;
pub mod part;
mod passes;
pub mod phases;
mod preparation;
mod ranks;
mod renames;
pub mod saves;
pub mod series;
pub mod startup;
pub mod sum;
#[cfg(test)]
mod tests;
mod training;
pub mod uses;
pub mod waits;
pub mod whatif;
pub mod workers;

use std::{
    collections::BTreeSet,
    panic::resume_unwind,
    thread::{self, ScopedJoinHandle},
};

use balance::Balance;
use epochs::Epochs;
use findings::{
    Finding,
    polls::{self, Suspect},
    thresholds::Thresholds,
};
use mapped::{Mapped, mapped_files};
use saves::Event;
use series::Series;
use startup::Startup;
use uses::Uses;
use waits::Waits;

use iotrace_model::{Model, groups::Groups, run::Run, timeline::Segment};
use iotrace_phases::{
    context::Sorted,
    copies::Copies,
    phase::{Direction, Phase},
};

/// What one run says.
#[derive(Debug, Default)]
pub struct Analysis {
    /// Checkpoint events, by their start.
    pub checkpoints: Vec<Event>,
    /// Files of saves that a signal cut off, which are not among them.
    pub cut_off: BTreeSet<u32>,
    /// Loads of models and checkpoints, by their start.
    pub restores: Vec<Event>,
    pub epochs: Epochs,
    /// Whether page-cache hits are known from what was fetched from storage, for all reads.
    pub knows_cache: bool,
    pub balance: Balance,
    pub startup: Startup,
    pub series: Series,
    /// What main threads waited for, where that was kept.
    pub waits: Waits,
    /// The gravest first.
    pub findings: Vec<Finding>,
    /// Files that were copied, by start.
    pub copies: Copies,
    /// Main threads of which the timeline tells whether they poll.
    suspect: Option<Suspect>,
}

/// What a thread has found.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    let found = thread.join();
    found.unwrap_or_else(|panic| resume_unwind(panic))
}

impl Analysis {
    /// Analyses a run whose files are `sorted`, by their index.
    pub fn new(
        model: &Model,
        run: &Run,
        sorted: &[Sorted],
        copies: Copies,
        thresholds: &Thresholds,
    ) -> Self {
        let uses = Uses::new(model, run, sorted, &copies);
        let groups = Groups::new(model);
        let startup = Startup::new(model, &uses, sorted);
        let waits = Waits::new(model, run, sorted, &groups, &startup);
        let (epochs, saves, restores) = thread::scope(|scope| {
            let epochs = scope.spawn(|| epochs::epochs(model, run, sorted, &uses, &groups));
            let (saves, loads) = saves::saves_and_loads(model, &uses);
            (joined(epochs), saves, loads)
        });
        let mut analysis = Self {
            checkpoints: saves.whole,
            cut_off: saves.cut_off,
            restores,
            epochs,
            knows_cache: page_cache::is_known(model),
            balance: balance::balance(model, run, &uses, &groups),
            startup,
            series: Series::default(),
            waits,
            findings: Vec::new(),
            copies,
            suspect: None,
        };
        let saves = &mut analysis.checkpoints;
        durable::judge(model, run, &uses, &analysis.copies, saves);
        let mapped = mapped_files(model, &uses);
        for load in &mut analysis.restores {
            load.set_mapped(&mapped);
        }
        let is_data = |file: &u32| sorted[*file as usize].phase(Direction::Read) == Phase::Training;
        let data = mapped.into_iter().filter(|(file, _)| is_data(file));
        let data = Mapped::of(data.map(|(_, size)| size));
        analysis.epochs.doubt(data, &analysis.checkpoints);
        analysis.waits.split(model, run, &analysis.epochs);
        let data = findings::Data {
            model,
            run,
            sorted,
            uses: &uses,
            analysis: &analysis,
            thresholds,
        };
        let (findings, suspect) = (findings::find(&data), polls::suspect(&data));
        (analysis.findings, analysis.suspect) = (findings, suspect);
        analysis.series = uses.series;
        analysis
    }

    /// Adds what the timeline says: the finding `loader-polls`, and predictions that findings quote. The timeline is only read
    /// if one of them needs it and the run has one that is not too long; `read` may fail, and then nothing is added.
    pub fn quote<E>(
        &mut self,
        model: &Model,
        run: &Run,
        read: impl FnOnce() -> Result<Vec<Segment>, E>,
    ) -> Result<(), E> {
        let Some(suspect) = self.suspect.take() else {
            return findings::predictions::add(&mut self.findings, (model, run), &self.waits, read);
        };
        let mut segments = read()?;
        if let Some(finding) = suspect.find(run, &mut segments) {
            findings::add(&mut self.findings, finding);
        }
        let read = || Ok(segments);
        findings::predictions::add(&mut self.findings, (model, run), &self.waits, read)
    }
}
