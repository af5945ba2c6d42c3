//! `sources.parquet`: source text of lines.

use std::{borrow::Cow, sync::Arc};

use iotrace_model::{history::Bounds, sources::SourceLine};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, row};

row! {
    pub struct Row<'a> in "sources" {
        /// the interval in which it was read
        interval: Bounds,
        /// the host
        host: Derived<&'a str>,
        /// source file, as in `lines.parquet`
        file: Cow<'a, str>,
        /// the line
        line: u32,
        /// its text, at most 200 characters; null if the file changed after the program began, or could not be read
        text: Option<Cow<'a, str>>,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let lines = part.model.sources().interval().iter();
    lines.map(move |line| Row {
        interval: part.interval,
        host: Derived(&part.run.host),
        file: Cow::Borrowed(&line.file),
        line: line.line,
        text: line.text.as_deref().map(Cow::Borrowed),
    })
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    into.model.sources_mut().add(SourceLine {
        file: (*row.file).into(),
        line: row.line,
        text: row.text.map(|text| Arc::from(&*text)),
    });
    into.cover(row.interval);
    Ok(())
}
