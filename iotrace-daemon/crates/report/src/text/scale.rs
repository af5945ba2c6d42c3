//! Runs at different sizes, as a table.

use std::io::{self, Write};

use super::{
    escape::shorten,
    table::{Layout, Page, Style, Table},
    units::{bytes, count, duration, some_rate},
};
use crate::scale::ScaleRow;

/// The columns but the name of the run: in text, and on a page.
pub const HEADINGS: [(&str, &str); 9] = [
    ("RANKS", "Ranks"),
    ("TIME", "Time"),
    ("EPOCH", "Epoch"),
    ("READ", "Read"),
    ("READ / TIME", "Read / time"),
    ("PER RANK", "Per rank"),
    ("READS", "Reads"),
    ("SAVES", "Saves"),
    ("EFFICIENCY", "Efficiency"),
];

/// What the columns mean.
pub const EXPLANATION: &str = "Read / time is bytes of training data by the length of the run. Per rank is the mean over the \
    ranks of their bytes by their time in reads. Reads and saves are shares of the run, at most. Efficiency is read / time as \
    a share of the first run's times the ratio of the ranks: 100 % is the ideal line. It is left out where no training data was \
    read.";

/// The cells of a run, in the order of [`HEADINGS`].
pub fn cells(row: &ScaleRow) -> [String; 9] {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let time = |seconds: f64| duration((seconds * 1e9) as u64);
    [
        count(row.ranks),
        time(row.seconds),
        row.epoch_seconds.map(time).unwrap_or_default(),
        bytes(row.bytes_read),
        some_rate(Some(row.throughput_bytes_per_second)),
        some_rate(row.bandwidth_per_rank_bytes_per_second),
        percent(row.read_share),
        percent(row.checkpoint_share),
        row.efficiency.map(percent).unwrap_or_default(),
    ]
}

/// Writes one row a run.
pub fn scale_text(rows: &[ScaleRow], layout: Layout, out: impl Write) -> io::Result<()> {
    let mut page = Page::new(out, layout);
    let mut table = Table::new(&HEADINGS.map(|(heading, _)| heading)).dispensable(&["READ"]);
    for row in rows {
        table.row(cells(row).into());
    }
    table.push_column(&page, "RUN", |row, room| {
        shorten(rows[row].name.as_bytes(), room)
    });
    page.table(table)?;
    page.prose(Style::Dim, EXPLANATION)?;
    page.flush()
}
