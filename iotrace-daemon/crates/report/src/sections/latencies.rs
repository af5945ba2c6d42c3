//! How long operations took.

use std::{cmp::Reverse, collections::BTreeMap, io};

use iotrace_common::op::class;
use iotrace_model::{counters::saturating_add, latencies::Histogram};
use iotrace_phases::phase::Phase;
use serde_json::{Map, Value as Json, json};

use crate::{
    Report,
    html::{Cell, PageSection, PageTable, Part},
    json::entries::{object, put_text, seconds},
    text::{
        escape::{escape, shorten},
        table::{Page, Style, Table},
        units::{count, duration},
    },
};

/// Rows of the text; further ones are counted.
const MAX_ROWS: usize = 16;
/// Percentiles that are shown.
const PERCENTS: [u64; 3] = [50, 95, 99];
/// Said of them wherever they are.
const NOTE: &str = "Half, 95 % and 99 % of the operations took at most so long. These times are upper bounds, at most an \
                    eighth above the true ones; the longest is exact. The phase is that at the time of use.";

/// Operations of one phase on one mount.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    class: usize,
    /// `None` for operations that name no open file.
    phase: Option<Phase>,
    /// Empty where it is not known.
    mount_point: &'a [u8],
}

/// All of a recording, those with the most time first.
fn rows<'a>(report: &Report<'a>) -> Vec<(Key<'a>, Histogram)> {
    let model = report.model;
    let mut sums: BTreeMap<Key<'_>, Histogram> = BTreeMap::new();
    for (process, of, histogram) in model.latencies().all() {
        let node = model.processes()[process as usize].node;
        let key = Key {
            class: of.class.into(),
            phase: (of.phase != 0).then(|| Phase::from_code(of.phase)),
            mount_point: model.mount_point_of(node, of.device),
        };
        sums.entry(key).or_default().absorb(histogram);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(key, histogram)| (Reverse(histogram.time()), *key));
    rows
}

/// Over all phases and mounts, by class.
fn by_class(rows: &[(Key<'_>, Histogram)]) -> Vec<(usize, Histogram)> {
    let mut sums: BTreeMap<usize, Histogram> = BTreeMap::new();
    for (key, histogram) in rows {
        sums.entry(key.class).or_default().absorb(histogram);
    }
    sums.into_iter().collect()
}

fn phase_name(phase: Option<Phase>) -> &'static str {
    phase.map_or("by path", Phase::name)
}

/// Number of operations and their percentiles, as cells.
fn cells(histogram: &Histogram) -> impl Iterator<Item = String> {
    let times = PERCENTS.map(|percent| histogram.percentile(percent));
    let times = times.into_iter().chain([histogram.longest()]);
    [count(histogram.calls())]
        .into_iter()
        .chain(times.map(duration))
}

/// Phases that have another number of operations elsewhere in the report, where files have the phase that the whole run
/// shows; as a sentence.
fn moved(report: &Report<'_>, rows: &[(Key<'_>, Histogram)]) -> Option<String> {
    let mut phases: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, histogram) in rows {
        if let Some(phase) = key.phase {
            saturating_add(phases.entry(phase.name()).or_default(), histogram.calls());
        }
    }
    let differing = phases.into_iter().filter_map(|(name, here)| {
        let sum = report.phases.named(name).map(|(sum, _)| sum);
        let elsewhere = sum.map_or(0, |sum| sum.counters.operations());
        (here != elsewhere).then(|| format!("{name}: {} (here {})", count(elsewhere), count(here)))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| {
        let all = differing.join(", ");
        format!("The rest of the report sorts files by the whole run, and counts other operations as {all}.")
    })
}

/// Percentiles by operation, phase and mount.
pub fn text(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let rows = rows(report);
    if rows.is_empty() {
        return Ok(());
    }
    page.section("Latencies")?;
    let mut table = Table::new(&[
        "<OPERATION",
        "<PHASE",
        "CALLS",
        "50 %",
        "95 %",
        "99 %",
        "LONGEST",
    ]);
    let shown = &rows[..rows.len().min(MAX_ROWS)];
    for (key, histogram) in shown {
        let names = [class::NAMES[key.class], phase_name(key.phase)].map(str::to_owned);
        table.row(names.into_iter().chain(cells(histogram)).collect());
    }
    table.push_column(page, "MOUNT POINT", |row, room| {
        match shown[row].0.mount_point {
            [] => String::new(),
            mount_point => shorten(mount_point, room),
        }
    });
    page.table(table)?;
    match (rows.len() - shown.len()) as u64 {
        0 => {}
        more => page.line(Style::Dim, &format!("  and {} more", count(more)))?,
    }
    page.prose(Style::Dim, NOTE)?;
    match moved(report, &rows) {
        Some(moved) => page.prose(Style::Dim, &moved),
        None => Ok(()),
    }
}

/// The key `latencies`; null where they were not recorded.
pub fn json(report: &Report<'_>, is_whole: bool) -> Json {
    let rows = rows(report);
    if rows.is_empty() {
        return Json::Null;
    }
    let by_operation = by_class(&rows).into_iter().map(|(class, histogram)| {
        let mut of = object(json!({"operation": class::NAMES[class]}));
        put(&mut of, &histogram, true);
        of
    });
    let each = rows.iter().map(|(key, histogram)| {
        let mut of = object(json!({
            "operation": class::NAMES[key.class],
            "phase": key.phase.map(Phase::name),
        }));
        put_text(&mut of, "mount_point", key.mount_point);
        put(&mut of, histogram, is_whole);
        of
    });
    json!({
        "by_operation": by_operation.collect::<Vec<_>>(),
        "by_phase_and_mount": each.collect::<Vec<_>>(),
    })
}

fn put(of: &mut Map<String, Json>, histogram: &Histogram, with_buckets: bool) {
    of.insert("calls".into(), histogram.calls().into());
    for percent in PERCENTS {
        let time = seconds(histogram.percentile(percent));
        of.insert(format!("p{percent}_at_most_seconds"), time.into());
    }
    of.insert(
        "longest_seconds".into(),
        seconds(histogram.longest()).into(),
    );
    if with_buckets {
        let buckets = histogram.buckets();
        let buckets = buckets.map(|(bound, calls)| json!([bound.map(seconds), calls]));
        of.insert("buckets".into(), buckets.collect());
    }
}

/// On the page: percentiles, and how the times of each operation are distributed.
pub fn page(report: &Report<'_>) -> Option<PageSection> {
    let rows = rows(report);
    if rows.is_empty() {
        return None;
    }
    let headings = [
        "<Operation",
        "<Phase",
        "Calls",
        "50 %",
        "95 %",
        "99 %",
        "Longest",
        "<Mount point",
    ];
    let mut table = PageTable::new("Percentiles", &headings);
    for (key, histogram) in &rows {
        let names = [class::NAMES[key.class], phase_name(key.phase)].map(str::to_owned);
        let all = names.into_iter().chain(cells(histogram));
        table.row(all.chain([escape(key.mount_point)]).map(Cell::from));
    }
    let mut parts = vec![Part::Note(NOTE.into())];
    parts.extend(moved(report, &rows).map(Part::Note));
    parts.push(Part::Table(table));
    let by_class = by_class(&rows);
    parts.extend(
        by_class
            .iter()
            .map(|(class, histogram)| Part::Table(distribution(*class, histogram))),
    );
    Some(PageSection {
        id: "latencies".into(),
        title: "Latencies".into(),
        parts,
    })
}

/// Operations of a class by time, a row for each power of two.
fn distribution(class: usize, histogram: &Histogram) -> PageTable {
    let mut powers: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for (bound, calls) in histogram.buckets() {
        // The bounds within a power of two are those above it, up to the next one.
        let power = bound.map_or(Some(u32::MAX), |bound| bound.checked_ilog2());
        saturating_add(powers.entry(power).or_default(), calls);
    }
    let most = powers.values().copied().max().unwrap_or(0);
    let title = format!("Time of operations: {}", class::NAMES[class]);
    let mut table = PageTable::new(title, &["<Below", "Operations", "<Share"]);
    for (power, calls) in powers {
        let below = match power {
            Some(power) if power < 36 => duration(2_u64 << power),
            _ => "longer".to_owned(),
        };
        let bar = Cell::Bar {
            part: calls,
            whole: most,
        };
        table.row([Cell::from(below), Cell::from(count(calls)), bar]);
    }
    table
}
