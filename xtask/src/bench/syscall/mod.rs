//! `cargo xtask bench syscall`: nanoseconds that a call takes longer under each tracer.
//!
//! All tracers are measured in turn, round by round, each with a worker of its own that stays on one
//! CPU; a figure is the median of many short pieces of a loop. So what changes slowly on the machine
//! changes for all, and the tables show medians over the rounds with their quartiles.
//!
//! - `results`: the figures, and what follows from them
//! - `report`: tables and targets

mod report;
mod results;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use super::call::Call;
use super::machine;
use super::others::Others;
use super::remote::{Places, Worker};
use super::tracer::Tracer;
use super::{Common, raw, unless_brief};
use results::Results;

/// How often what was disturbed is measured.
const TRIES: u32 = 2;
/// No round begins after this time; a busy machine takes five minutes for one.
const BUDGET: Duration = Duration::from_secs(240);

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let started = Instant::now();
    let tracers: Vec<_> = Tracer::ALL
        .into_iter()
        .filter(|tracer| tracer.lack().is_none())
        .collect();
    let disk = super::scratch()?;
    let places = Places::new(&disk);
    let mut bench = Bench {
        others: Others::look(&places)?,
        places,
        scratch: disk,
        results: Results::default(),
        rounds: 0,
        beside_others: 0,
        not_quiet: 0,
    };
    let rounds = options.common.rounds();
    // The first round is always whole.
    while bench.rounds < rounds && (bench.rounds == 0 || started.elapsed() < BUDGET) {
        eprintln!(
            "round {} of {rounds}, load {}",
            bench.rounds + 1,
            machine::load()
        );
        bench.round(&tracers)?;
    }
    bench.notes();
    report::print(&bench.results, &tracers);
    Ok(())
}

struct Bench {
    places: Places,
    scratch: PathBuf,
    others: Others,
    results: Results,
    /// Rounds that the results are of.
    rounds: u32,
    /// Visits that were taken though another tracer was at work each time.
    beside_others: u32,
    /// Figures that were taken though the CPU core was busy each time.
    not_quiet: u32,
}

impl Bench {
    /// Says what may be wrong with the figures.
    fn notes(&self) {
        if self.beside_others > 0 {
            println!(
                "note:    {} visits were beside another tracer",
                self.beside_others
            );
        }
        if self.not_quiet > 0 {
            println!(
                "note:    {} figures are from a busy CPU core",
                self.not_quiet
            );
        }
    }

    /// Measures all calls under each tracer. All rounds begin anew if one was taken for quiet and was not.
    fn round(&mut self, tracers: &[Tracer]) -> Result<()> {
        let corrections = self.others.corrections();
        for tracer in tracers {
            self.visit(*tracer)?;
            if unless_brief(self.others.corrections(), corrections) != corrections {
                eprintln!("the machine can be quieter than it was so far: the rounds begin anew");
                self.results = Results::default();
                (self.rounds, self.beside_others, self.not_quiet) = (0, 0, 0);
                return Ok(());
            }
        }
        self.rounds += 1;
        Ok(())
    }

    /// Measures all calls under one tracer; again where another one came on meanwhile.
    fn visit(&mut self, tracer: Tracer) -> Result<()> {
        for left in (0..unless_brief(TRIES, 1)).rev() {
            let quiet = self.others.wait()?;
            let (figures, alone) = self.measure(tracer)?;
            let alone = alone && (tracer.lingers() || self.others.idle()?);
            if quiet && alone || left == 0 {
                self.results.add(tracer, &figures);
                self.beside_others += u32::from(!quiet || !alone);
                break;
            }
            eprintln!("{} again: another tracer is at work", tracer.title());
        }
        Ok(())
    }

    /// The figures of one visit, and whether no other tracer came on.
    fn measure(&mut self, tracer: Tracer) -> Result<(Vec<(Call, f64)>, bool)> {
        let mut worker = tracer.worker(&self.places, &self.scratch)?;
        let attached = tracer.attach(&worker, &self.places, &self.scratch)?;
        let programs = raw::loaded();
        let mut alone = true;
        let mut figures = Vec::new();
        let mut reads = 0;
        for call in Call::ALL {
            let (ns, calls) = self.call(&mut worker, call)?;
            if call.is_read() {
                reads += calls;
            }
            figures.push((call, ns));
            // Fewer may be ours: the kernel frees a program some time after its end.
            alone &= raw::loaded() <= programs;
        }
        let outcome = attached.detach()?;
        if let (Some(outcome), Some(counts)) = (outcome, tracer.counts()) {
            let expected = if counts { reads } else { 0 };
            if outcome.reads != expected {
                let title = tracer.title();
                println!(
                    "note:    {title} counted {} of {expected} reads",
                    outcome.reads
                );
            }
        }
        Ok((figures, alone))
    }

    /// Nanoseconds of a call, and how many there were; again while others keep the CPU core busy.
    fn call(&mut self, worker: &mut Worker, call: Call) -> Result<(f64, u64)> {
        let mut all = 0;
        for left in (0..unless_brief(TRIES, 1)).rev() {
            worker.ask(&format!("call {} {}", call.word(), self.others.best()))?;
            let [ns, calls, quiet, best] = worker.answer()?;
            self.others.saw(best);
            all += calls as u64;
            if quiet == 1.0 || left == 0 {
                self.not_quiet += u32::from(quiet != 1.0);
                return Ok((ns, all));
            }
        }
        bail!("a call was not measured")
    }
}
