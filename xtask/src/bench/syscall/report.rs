//! A table for each call, and the targets.

use super::results::Results;
use crate::bench::call::Call;
use crate::bench::stats::Spread;
use crate::bench::table;
use crate::bench::tracer::Tracer;

/// What iotrace may cost: a name, what is added, to what it is compared, and the limit.
struct Target {
    name: &'static str,
    over: (Tracer, Call),
    under: (Tracer, Call),
    limit: f64,
}

const FLOOR: (Tracer, Call) = (Tracer::Floor, Call::Pread);

const TARGETS: [Target; 5] = [
    Target {
        name: "basic, on a 1-byte read / timed floor",
        over: (Tracer::Basic, Call::Pread),
        under: FLOOR,
        limit: 1.35,
    },
    Target {
        name: "full, on a 1-byte read / timed floor",
        over: (Tracer::Full, Call::Pread),
        under: FLOOR,
        limit: 1.8,
    },
    Target {
        name: "basic, on a call that is no file I/O / bare hooks",
        over: (Tracer::Basic, Call::Getppid),
        under: (Tracer::Bare, Call::Getppid),
        limit: 1.1,
    },
    Target {
        name: "basic, two threads on one file / one thread",
        over: (Tracer::Basic, Call::TwoThreads),
        under: (Tracer::Basic, Call::Pread),
        limit: 1.3,
    },
    Target {
        name: "full, two threads on one file / one thread",
        over: (Tracer::Full, Call::TwoThreads),
        under: (Tracer::Full, Call::Pread),
        limit: 1.3,
    },
];

/// Prints all tables, what was not measured, and the targets.
pub fn print(results: &Results, tracers: &[Tracer]) {
    for call in Call::ALL {
        println!("\n{}", call.title());
        table::print(&rows(results, tracers, call));
    }
    println!();
    for tracer in Tracer::ALL {
        if let Some(lack) = tracer.lack() {
            println!("{} was not measured: {lack}", tracer.title());
        }
    }
    let mut rows = vec![table::words(
        "target: added / added|limit|measured|quartiles|",
    )];
    rows.extend(TARGETS.iter().filter_map(|target| target.row(results)));
    table::print(&rows);
}

fn rows(results: &Results, tracers: &[Tracer], call: Call) -> Vec<Vec<String>> {
    let mut rows = vec![table::words("|ns|quartiles|added|quartiles|x floor")];
    for tracer in tracers {
        let Some(ns) = results.ns(*tracer, call) else {
            continue;
        };
        let mut row = vec![format!("  {}", tracer.title())];
        row.extend(cells(ns, 1));
        if *tracer != Tracer::Untraced {
            row.extend(
                results
                    .added(*tracer, call)
                    .into_iter()
                    .flat_map(|added| cells(added, 1)),
            );
            let ratio = results.ratio((*tracer, call), (Tracer::Floor, call));
            row.extend(ratio.map(|ratio| format!("{:.2}", ratio.median)));
        }
        rows.push(row);
    }
    rows
}

impl Target {
    fn row(&self, results: &Results) -> Option<Vec<String>> {
        let ratio = results.ratio(self.over, self.under)?;
        let mut row = vec![self.name.to_owned(), format!("{:.2}", self.limit)];
        row.extend(cells(ratio, 2));
        row.push(table::verdict(ratio.median <= self.limit).to_owned());
        Some(row)
    }
}

/// The median and the quartiles.
fn cells(spread: Spread, digits: usize) -> [String; 2] {
    let Spread { low, median, high } = spread;
    [
        format!("{median:.digits$}"),
        format!("{low:.digits$} - {high:.digits$}"),
    ]
}
