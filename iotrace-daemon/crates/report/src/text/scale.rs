//! Runs at different sizes, as a table.

use std::io::{self, Write};

use super::{
    escape::shorten,
    table::{Layout, Page, Style, Table},
    units::{bytes, count, duration, some_rate},
};
use crate::scale::ScaleRow;

/// Writes one row a run.
pub fn scale_text(rows: &[ScaleRow], layout: Layout, out: impl Write) -> io::Result<()> {
    let mut page = Page::new(out, layout);
    let mut table = Table::new(&[
        "RANKS",
        "TIME",
        "EPOCH",
        "READ",
        "READ / TIME",
        "PER RANK",
        "READS",
        "SAVES",
        "EFFICIENCY",
    ])
    .dispensable(&["READ"]);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let time = |seconds: f64| duration((seconds * 1e9) as u64);
    for row in rows {
        table.row(vec![
            count(row.ranks),
            time(row.seconds),
            row.epoch_seconds.map(time).unwrap_or_default(),
            bytes(row.bytes_read),
            some_rate(Some(row.throughput_bytes_per_second)),
            some_rate(row.bandwidth_per_rank_bytes_per_second),
            percent(row.read_share),
            percent(row.checkpoint_share),
            percent(row.efficiency),
        ]);
    }
    table.push_column(&page, "RUN", |row, room| {
        shorten(rows[row].name.as_bytes(), room)
    });
    page.table(table)?;
    page.prose(
        Style::Dim,
        "READ / TIME is bytes of training data by the length of the run. PER RANK is the mean over the ranks of their bytes by \
         their time in reads. READS and SAVES are shares of the run, at most. EFFICIENCY is READ / TIME as a share of the first \
         run's times the ratio of the ranks: 100 % is the ideal line.",
    )?;
    page.flush()
}
