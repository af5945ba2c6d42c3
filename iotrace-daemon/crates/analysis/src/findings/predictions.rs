//! Predictions that findings quote: how long the run would take with the change that they advise, by a replay of its timeline.

use iotrace_model::{Model, run::Run, timeline::Segment};

use super::Finding;
use crate::{
    waits::Waits,
    whatif::{CannotTell, Prediction, Program, Single, WhatIf, replayable},
};

/// Segments of a timeline that is replayed for a report, at most: about 2 s and 100 MB if all findings ask for predictions.
pub const MAX_SEGMENTS: u64 = 400_000;

/// What the predictions of a finding are; empty if it asks for none or the recording has no timeline.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    /// From the start of the main thread to its end as recorded, nanoseconds; 0 without quotes.
    pub recorded_ns: u64,
    pub quotes: Vec<Quote>,
    /// Why there are no others.
    pub missing: Vec<NotPredicted>,
}

/// How long the run would take with one change.
#[derive(Clone, Debug)]
pub struct Quote {
    pub change: Single,
    pub prediction: Prediction,
}

/// Why a recording with a timeline gives no prediction.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotPredicted {
    #[error(transparent)]
    CannotTell(#[from] CannotTell),
    #[error("the timeline has {0} waits, too many to replay for a report: run `iotrace whatif`")]
    TooLong(u64),
    #[error("several main threads are judged: run `iotrace whatif` for the longest of them")]
    SeveralMains,
    #[error("the replay of the unchanged timeline differs too much from the recorded time")]
    NotTrusted,
    #[error("{0} is not predictable from this recording: run `iotrace whatif` for the range")]
    NotPredictable(Single),
}

/// A change in relation to the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// All storage is faster by this factor.
    Storage(f64),
    TwiceTheWorkers,
    TwiceTheCpus,
}

impl Asked {
    /// What a finding of this code quotes.
    fn by(code: &str) -> &'static [Self] {
        match code {
            "storage-bound" => &[Self::Storage(2.0), Self::Storage(f64::INFINITY)],
            "decode-bound" => &[Self::TwiceTheWorkers],
            "too-few-cpus" => &[Self::TwiceTheCpus],
            _ => &[],
        }
    }

    fn predict(self, whatif: &WhatIf) -> Result<Quote, NotPredicted> {
        let change = match self {
            Self::Storage(factor) => Single::Storage(factor),
            Self::TwiceTheWorkers => Single::Workers(whatif.workers()?.saturating_mul(2)),
            Self::TwiceTheCpus => Single::Cpus(whatif.cpus().saturating_mul(2)),
        };
        let prediction = whatif.predict(&change.into())?;
        if !prediction.is_predictable {
            return Err(NotPredicted::NotPredictable(change));
        }
        Ok(Quote { change, prediction })
    }
}

/// Adds predictions to findings, also to those that explain a finding which asks for them. The timeline is only read if there
/// is one, a finding asks, and a replay can be right and is short.
pub(crate) fn add<E>(
    findings: &mut [Finding],
    (model, run): (&Model, &Run),
    waits: &Waits,
    read: impl FnOnce() -> Result<Vec<Segment>, E>,
) -> Result<(), E> {
    if run.timeline.is_none() {
        return Ok(());
    }
    let asked = |finding: &Finding| -> Vec<Asked> {
        let codes = std::iter::once(&finding.code).chain(&finding.also);
        codes.flat_map(|code| Asked::by(code)).copied().collect()
    };
    let mut asking: Vec<(&mut Predictions, Vec<Asked>)> = findings
        .iter_mut()
        .map(|finding| (asked(finding), &mut finding.saving.predictions))
        .filter_map(|(asked, of)| (!asked.is_empty()).then_some((of, asked)))
        .collect();
    if asking.is_empty() {
        return Ok(());
    }
    let whatif = match cpus(run, waits) {
        Ok(cpus) => replayed(read()?, model, waits, cpus),
        Err(reason) => Err(reason),
    };
    for (predictions, asked) in &mut asking {
        match &whatif {
            Ok(whatif) => predictions.fill(whatif, asked),
            Err(reason) => predictions.missing.push(*reason),
        }
    }
    Ok(())
}

impl Predictions {
    fn fill(&mut self, whatif: &WhatIf, asked: &[Asked]) {
        for asked in asked {
            match asked.predict(whatif) {
                Ok(quote) => {
                    self.recorded_ns = whatif.recorded_ns;
                    self.quotes.push(quote);
                }
                Err(reason) => self.missing.push(reason),
            }
        }
    }
}

/// CPUs of a run whose replay tells how long it would take, and does not take long itself.
fn cpus(run: &Run, waits: &Waits) -> Result<u32, NotPredicted> {
    let cpus = replayable(run)?;
    let segments = run.timeline.map_or(0, |timeline| timeline.segments);
    if segments > MAX_SEGMENTS {
        return Err(NotPredicted::TooLong(segments));
    }
    match waits.judged().len() {
        0 | 1 => Ok(cpus),
        _ => Err(NotPredicted::SeveralMains),
    }
}

fn replayed(
    segments: Vec<Segment>,
    model: &Model,
    waits: &Waits,
    cpus: u32,
) -> Result<WhatIf, NotPredicted> {
    let program = Program::of_run(model, segments, &waits.mains(model), cpus);
    let whatif = WhatIf::new(program, cpus)?;
    match whatif.is_trusted() {
        true => Ok(whatif),
        false => Err(NotPredicted::NotTrusted),
    }
}
