//! Sections of the page that are notes and tables: they need no script.

use std::borrow::Cow;

use serde::Serialize;

/// A section with its heading.
#[derive(Serialize)]
pub struct PageSection {
    /// The anchor.
    pub id: Cow<'static, str>,
    pub title: Cow<'static, str>,
    pub parts: Vec<Part>,
}

/// A piece of a section.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Note(String),
    Table(PageTable),
}

/// A table; the first cell of a row is its heading.
#[derive(Serialize)]
pub struct PageTable {
    caption: Cow<'static, str>,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Serialize)]
struct Column {
    title: &'static str,
    /// Aligned right.
    number: bool,
}

/// What is in a cell.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Cell {
    Text(String),
    /// A bar as long as the part of the whole.
    Bar {
        part: u64,
        whole: u64,
    },
    /// A line of a program, with its source text and that next to it, by line number; without any where that is not known.
    Source {
        name: String,
        line: u32,
        source: Vec<(u32, String)>,
    },
}

impl PageTable {
    /// A table with these headings; those that start with `<` are aligned left, all others right.
    pub fn new(caption: impl Into<Cow<'static, str>>, headings: &[&'static str]) -> Self {
        let column = |heading: &&'static str| Column {
            title: heading.trim_start_matches('<'),
            number: !heading.starts_with('<'),
        };
        Self {
            caption: caption.into(),
            columns: headings.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
