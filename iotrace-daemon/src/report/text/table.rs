//! Aligned columns that fit the page, and the colours.

use std::io::{self, Write};

use super::escape::width;

/// Columns of the page.
pub const PAGE: usize = 100;
const INDENT: usize = 2;
const GAP: usize = 2;

/// How a text looks; nothing without colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// Section titles.
    Title,
    /// Column headings and what matters less.
    Dim,
    /// What needs a look.
    Warning,
    /// What is as it should be.
    Good,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Title => "\x1b[1;36m",
            Self::Dim => "\x1b[2m",
            Self::Warning => "\x1b[33m",
            Self::Good => "\x1b[32m",
        }
    }
}

/// A page that is written line by line.
pub struct Page<W> {
    out: W,
    color: bool,
}

impl<W: Write> Page<W> {
    pub fn new(out: W, color: bool) -> Self {
        Self { out, color }
    }

    /// A line of its own, cut at the edge of the page by nobody: callers keep it short.
    pub fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = self.styled(style, text);
        writeln!(self.out, "{}", text.trim_end())
    }

    /// Words, broken at the edge of the page.
    pub fn prose(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.words(style, text, INDENT, 2 * INDENT)
    }

    /// As [`Self::prose`], further in.
    pub fn indented(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.words(style, text, 2 * INDENT, 2 * INDENT)
    }

    /// Words, the first line and all others at their columns.
    fn words(&mut self, style: Style, text: &str, first: usize, rest: usize) -> io::Result<()> {
        let mut line = " ".repeat(first - 1);
        for word in text.split_whitespace() {
            if width(&line) + 1 + width(word) > PAGE {
                self.line(style, &line)?;
                line = " ".repeat(rest - 1);
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(style, &line)
    }

    /// A title behind an empty line.
    pub fn section(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.line(Style::Title, title)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A table with the widths that its cells need. Cells of the last column stand left and are as wide as they are.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        let widths = table.widths();
        if table.has_headings() {
            let headings: Vec<String> = table
                .columns
                .iter()
                .map(|column| column.heading.to_owned())
                .collect();
            let line = table.lay_out(&widths, &headings);
            self.line(Style::Dim, &line)?;
        }
        for (style, row) in &table.rows {
            self.line(*style, &table.lay_out(&widths, row))?;
        }
        Ok(())
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if self.color && style != Style::Plain {
            format!("{}{}\x1b[0m", style.code(), text.trim_end())
        } else {
            text.to_owned()
        }
    }
}

#[derive(Clone, Copy)]
struct Column {
    heading: &'static str,
    right: bool,
}

/// Rows of cells.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<(Style, Vec<String>)>,
}

impl Table {
    /// A table with these headings; those that start with `<` stand left, all others right.
    pub fn new(headings: &[&'static str]) -> Self {
        let column = |heading: &&'static str| match heading.strip_prefix('<') {
            Some(heading) => Column {
                heading,
                right: false,
            },
            None => Column {
                heading,
                right: true,
            },
        };
        Self {
            columns: headings.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.styled_row(Style::Plain, cells);
    }

    pub fn styled_row(&mut self, style: Style, cells: Vec<String>) {
        self.rows.push((style, cells));
    }

    /// Columns of the page that are left for one more column, of text.
    pub fn room(&self) -> usize {
        let used: usize = self.widths().iter().map(|width| width + GAP).sum();
        PAGE.saturating_sub(INDENT + used)
    }

    /// Adds the last column: texts that know how wide they may be.
    pub fn push_column(&mut self, heading: &'static str, cell: impl Fn(usize, usize) -> String) {
        let room = self.room();
        for (index, (_, row)) in self.rows.iter_mut().enumerate() {
            row.push(cell(index, room));
        }
        self.columns.push(Column {
            heading,
            right: false,
        });
    }

    fn has_headings(&self) -> bool {
        self.columns.iter().any(|column| !column.heading.is_empty())
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize| {
            let cells = self.rows.iter().filter_map(|(_, row)| row.get(index));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        };
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(index, column)| widest(index).max(width(column.heading)))
            .collect()
    }

    fn lay_out(&self, widths: &[usize], cells: &[String]) -> String {
        let mut line = " ".repeat(INDENT);
        for ((column, wanted), cell) in self.columns.iter().zip(widths).zip(cells) {
            let padding = " ".repeat(wanted.saturating_sub(width(cell)));
            if column.right {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&padding);
            }
            line.push_str(&" ".repeat(GAP));
        }
        line.truncate(line.trim_end().len());
        line
    }
}
