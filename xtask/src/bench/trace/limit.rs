//! How many operations a second the trace keeps without a loss, and what sets that limit.

use std::path::Path;

use anyhow::Result;

use super::program::{Done, Work};
use super::tracers::Tracer;
use super::{Costs, cells};
use crate::bench::stats::Spread;
use crate::bench::table;
use crate::bench::unless_brief;
use crate::bench::worker::cpus;

/// Rates that two threads together are held to; 0: as many as they can.
const RATES: [u64; 5] = [500_000, 750_000, 1_000_000, 1_250_000, 0];

/// Figures of each rate, over the rounds.
#[derive(Default)]
pub struct Rates([Rate; RATES.len()]);

#[derive(Default)]
struct Rate {
    /// Operations a second that were done, and the share that the trace has not, percent.
    reached: Vec<f64>,
    missing: Vec<f64>,
}

impl Rates {
    /// Holds each rate for so long.
    pub fn measure(&mut self, seconds: u64, scratch: &Path) -> Result<()> {
        let rates = RATES.iter().zip(&mut self.0);
        for (rate, figures) in rates.take(unless_brief(RATES.len(), 1)) {
            let traced = Tracer::TraceBasic.run(Work::rate(*rate, seconds), scratch)?;
            let Done { calls, seconds, .. } = traced.done;
            let missing = calls.saturating_sub(traced.operations);
            figures.reached.push(calls as f64 / seconds);
            figures.missing.push(missing as f64 / calls as f64 * 100.0);
        }
        Ok(())
    }

    /// Prints what was reached, and what is missing of it.
    pub fn print(&self) {
        println!("\ntwo threads, one to a CPU, random reads: of what they did, the trace has not");
        let mut rows = vec![table::words(
            "operations a second|reached|quartiles|missing|quartiles",
        )];
        for (rate, figures) in RATES.iter().zip(&self.0) {
            let mut row = vec![match rate {
                0 => "as many as they can".to_owned(),
                rate => rate.to_string(),
            }];
            row.extend(cells(&figures.reached, 0, ""));
            row.extend(cells(&figures.missing, 3, " %"));
            rows.push(row);
        }
        table::print(&rows);
    }

    /// The most operations a second, of which none was missing in any round.
    pub fn whole(&self) -> f64 {
        let whole = self.0.iter();
        let whole = whole.filter(|rate| rate.missing.iter().all(|missing| *missing == 0.0));
        let medians = whole.filter_map(|rate| Some(Spread::of(&rate.reached)?.median));
        medians.fold(0.0, f64::max)
    }
}

/// Prints what the CPUs can bear, by the costs of a random read untraced, counted, and kept in the trace; and which of
/// its parts sets that.
pub fn explain([plain, basic, trace]: [&Costs; 3]) {
    let median = |figures: &[f64]| Spread::of(figures).map(|spread| spread.median);
    let Some(own) = median(&plain.ns) else { return };
    let between = |costs: &Costs, before: &Costs| {
        let rounds = costs.ns.iter().zip(&before.ns);
        let more: Vec<f64> = rounds.map(|(more, less)| more - less).collect();
        median(&more).unwrap_or(0.0)
    };
    let (read, written) = (
        median(&trace.read).unwrap_or(0.0),
        median(&trace.written).unwrap_or(0.0),
    );
    let parts = [
        ("the call itself", own),
        ("counting it", between(basic, plain)),
        ("keeping it in the trace", between(trace, basic)),
        ("reading it from the ring", read),
        ("sorting, encoding and writing it", written),
    ];
    let sum: f64 = parts.iter().map(|(_, ns)| ns).sum();
    let cpus = cpus::own().len() as f64;
    println!("\nwhere the CPU time of a random read goes that is kept, ns");
    let mut rows: Vec<Vec<String>> = parts
        .iter()
        .map(|(what, ns)| vec![format!("  {what}"), format!("{ns:.0}")])
        .collect();
    rows.push(vec!["  together".into(), format!("{sum:.0}")]);
    table::print(&rows);
    let limits = [
        (
            format!("the CPU time of {cpus} CPUs, {sum:.0} ns an operation"),
            cpus * 1e9 / sum,
        ),
        ("the one thread that reads the rings".into(), 1e9 / read),
        (
            "the one thread that sorts, encodes and writes".into(),
            1e9 / written,
        ),
    ];
    println!("\noperations a second that each of them bears");
    let rows = limits
        .iter()
        .map(|(what, most)| vec![format!("  {what}"), format!("{most:.0}")]);
    table::print(&rows.collect::<Vec<_>>());
    let least = limits.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((what, most)) = least {
        println!("the limit is about {most:.0} a second, set by {what}");
    }
}
