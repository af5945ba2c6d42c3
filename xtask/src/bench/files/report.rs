//! Tables of the epochs and of iotrace itself, and the targets.

use std::collections::HashMap;

use super::drains::Drains;
use super::visit::{Detail, Run, Visit};
use super::{FEW, WORKERS};
use crate::bench::iotrace::Outcome;
use crate::bench::stats::Spread;
use crate::bench::table::{self, verdict, words};

/// Bytes of iotrace's memory a file, at most.
const BYTES_PER_FILE: f64 = 400.0;
/// MiB of kernel maps, at most.
const MAP_MIB: u64 = 128;

/// Nanoseconds that sorting adds to a new file, at most.
const SORTING_NS: f64 = 1000.0;

/// A figure of a visit.
type Part = fn(&Visit) -> f64;

/// All visits, in the order of the rounds.
pub struct Results {
    files: u64,
    epochs: u32,
    many: HashMap<(Detail, u64), Vec<Visit>>,
    few: HashMap<Detail, Vec<Visit>>,
}

impl Results {
    pub fn new(files: u64, epochs: u32) -> Self {
        Self {
            files,
            epochs,
            many: HashMap::new(),
            few: HashMap::new(),
        }
    }

    /// Adds a visit with all files.
    pub fn many(&mut self, run: Run, visit: Visit) {
        self.many
            .entry((run.detail, run.workers))
            .or_default()
            .push(visit);
    }

    /// Adds a visit with few files.
    pub fn few(&mut self, run: Run, visit: Visit) {
        self.few.entry(run.detail).or_default().push(visit);
    }

    /// Prints all tables and the targets.
    pub fn print(&self) {
        for workers in WORKERS {
            println!(
                "\nseconds an epoch over {} files, {workers} worker(s)",
                self.files
            );
            self.print_epochs(workers);
        }
        println!(
            "\niotrace itself, over {} epochs, its start and its report included",
            self.epochs
        );
        self.print_own();
        println!();
        for detail in [Detail::Basic, Detail::Full] {
            self.print_targets(detail);
        }
        self.print_sorting();
    }

    fn print_epochs(&self, workers: u64) {
        let parts: [(&str, Part); 4] = [
            ("first epoch", |visit| visit.first),
            ("later epochs", |visit| visit.later),
            ("CPU, first epoch", |visit| visit.first_cpu),
            ("CPU, later epochs", |visit| visit.later_cpu),
        ];
        let mut rows = vec![words("|untraced|basic|x|quartiles|full|x|quartiles")];
        for (title, part) in parts {
            let of =
                |detail| -> Vec<f64> { self.visits(detail, workers).iter().map(part).collect() };
            let untraced = of(Detail::Untraced);
            let mut row = vec![format!("  {title}"), seconds(&untraced)];
            for detail in [Detail::Basic, Detail::Full] {
                let traced = of(detail);
                row.push(seconds(&traced));
                let ratios: Vec<_> = traced
                    .iter()
                    .zip(&untraced)
                    .map(|(over, under)| over / under)
                    .collect();
                row.extend(Spread::of(&ratios).into_iter().flat_map(|ratio| {
                    [
                        format!("{:.2}", ratio.median),
                        format!("{:.2} - {:.2}", ratio.low, ratio.high),
                    ]
                }));
            }
            rows.push(row);
        }
        table::print(&rows);
    }

    fn print_own(&self) {
        let mut rows = vec![words(
            "|CPU s|end MiB|peak MiB|drains|each ms|slowest ms|entries",
        )];
        for detail in [Detail::Basic, Detail::Full] {
            let few = self.few.get(&detail).map_or(&[][..], Vec::as_slice);
            rows.push(own(&format!("  {}, {FEW} files", detail.name()), few));
            for workers in WORKERS {
                let title = format!("  {}, {workers} worker(s)", detail.name());
                rows.push(own(&title, self.visits(detail, workers)));
            }
        }
        table::print(&rows);
    }

    /// What sorting into phases adds to a file that is new and to one that was seen, CPU time of the workers.
    fn print_sorting(&self) {
        for (what, part, limit) in [
            (
                "a new file",
                (|visit| visit.first_cpu) as Part,
                Some(SORTING_NS),
            ),
            ("a file seen before", |visit| visit.later_cpu, None),
        ] {
            let of = |detail| self.visits(detail, 1).iter().map(part);
            let added: Vec<_> = of(Detail::Basic)
                .zip(of(Detail::Unsorted))
                .map(|(sorted, unsorted)| (sorted - unsorted) / self.files as f64 * 1e9)
                .collect();
            let Some(Spread { low, median, high }) = Spread::of(&added) else {
                continue;
            };
            let target = limit.map_or(String::new(), |limit| {
                format!(", target {limit:.0}: {}", verdict(median <= limit))
            });
            println!("sorting adds {median:.0} ns to {what} ({low:.0} - {high:.0}){target}");
        }
    }

    fn print_targets(&self, detail: Detail) {
        let many = self.visits(detail, 1);
        let few = self.few.get(&detail).map_or(&[][..], Vec::as_slice);
        let name = detail.name();
        // Against the memory of the other at its end, not against its peak, which is that of the
        // start: so it is not less than what a file takes.
        let grown = |of: fn(&Outcome) -> u64| {
            let each = outcomes(many).zip(outcomes(few));
            let each = each.map(|(many, few)| {
                (of(many) as f64 - few.end_bytes as f64) / (self.files - FEW) as f64
            });
            Spread::of(&each.collect::<Vec<_>>())
        };
        let (held, peak) = (
            grown(|outcome| outcome.end_bytes),
            grown(|outcome| outcome.peak_bytes),
        );
        if let Some((Spread { low, median, high }, peak)) = held.zip(peak) {
            let word = verdict(median <= BYTES_PER_FILE);
            println!(
                "{name}: {median:.0} bytes of memory a file at the end ({low:.0} - {high:.0}), \
                 target {BYTES_PER_FILE}: {word}; {:.0} at its peak",
                peak.median
            );
        }
        let maps = outcomes(many).find_map(|outcome| outcome.number_before(" MiB of kernel maps"));
        if let Some(maps) = maps {
            let word = verdict(maps <= MAP_MIB);
            println!("{name}: {maps} MiB of kernel maps, target {MAP_MIB}: {word}");
        }
    }

    fn visits(&self, detail: Detail, workers: u64) -> &[Visit] {
        self.many.get(&(detail, workers)).map_or(&[], Vec::as_slice)
    }
}

fn outcomes(visits: &[Visit]) -> impl Iterator<Item = &Outcome> {
    visits.iter().filter_map(|visit| visit.outcome.as_ref())
}

/// Medians of what iotrace took, and of what it said of its drains.
fn own(title: &str, visits: &[Visit]) -> Vec<String> {
    let middle = |of: &dyn Fn(&Outcome) -> Option<f64>, digits: usize| {
        let figures: Vec<_> = outcomes(visits).filter_map(of).collect();
        Spread::of(&figures).map_or("?".into(), |spread| format!("{:.digits$}", spread.median))
    };
    vec![
        title.to_owned(),
        middle(&|outcome| Some(outcome.cpu_seconds), 2),
        middle(&|outcome| Some(mib(outcome.end_bytes)), 1),
        middle(&|outcome| Some(mib(outcome.peak_bytes)), 1),
        middle(&|outcome| Some(Drains::of(outcome)?.count), 0),
        middle(
            &|outcome| Drains::of(outcome).map(|drains| drains.total_ms / drains.count),
            1,
        ),
        middle(&|outcome| Some(Drains::of(outcome)?.slowest_ms), 1),
        middle(&|outcome| Some(Drains::of(outcome)?.entries), 0),
    ]
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn seconds(figures: &[f64]) -> String {
    Spread::of(figures).map_or("?".into(), |spread| format!("{:.3}", spread.median))
}
