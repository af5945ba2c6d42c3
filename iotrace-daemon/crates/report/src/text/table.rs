//! Aligned columns that fit the page, and the colours.

use std::io::{self, BufWriter, Write};

use super::escape::width;

const INDENT: usize = 2;
const COLUMN_GAP: usize = 2;
/// Least width of the last column: other columns are dropped for it.
const MIN_LAST_COLUMN: usize = 24;

/// How a report looks: the caller knows where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub color: bool,
    /// Columns of the page, from [`Layout::MIN_WIDTH`] to [`Layout::MAX_WIDTH`].
    pub width: usize,
}

impl Layout {
    pub const MIN_WIDTH: usize = 80;
    pub const MAX_WIDTH: usize = 200;
    /// Width of the whole report where no terminal says otherwise.
    pub const FULL_WIDTH: usize = 100;

    /// Without colour, of this width or the nearest one that can be had.
    pub fn plain(width: usize) -> Self {
        Self {
            color: false,
            width: width.clamp(Self::MIN_WIDTH, Self::MAX_WIDTH),
        }
    }
}

/// How a text looks; nothing without colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// Section titles.
    Title,
    /// Column headings and what matters less.
    Dim,
    /// What needs attention.
    Warning,
    /// What is as expected.
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
pub struct Page<'a> {
    out: BufWriter<Box<dyn Write + 'a>>,
    layout: Layout,
    lines: usize,
}

impl<'a> Page<'a> {
    pub fn new(out: impl Write + 'a, layout: Layout) -> Self {
        Self {
            out: BufWriter::new(Box::new(out)),
            layout,
            lines: 0,
        }
    }

    /// Columns of the page.
    pub fn width(&self) -> usize {
        self.layout.width
    }

    /// Lines that were written.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// One line. It is not cut at the edge of the page: callers keep it short.
    pub fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = self.styled(style, text);
        self.lines += 1;
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
            if width(&line) + 1 + width(word) > self.layout.width {
                self.line(style, &line)?;
                line = " ".repeat(rest - 1);
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(style, &line)
    }

    /// An empty line and a title.
    pub fn section(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.line(Style::Title, title)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A table with the widths that its cells need, without columns for which the page has no room.
    pub fn table(&mut self, mut table: Table) -> io::Result<()> {
        table.fit(self.layout.width);
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
        if self.layout.color && style != Style::Plain {
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
    /// Headings of columns that are dropped first if the page is narrow.
    dispensable: &'static [&'static str],
    /// Whether the last column was made to fit.
    has_last: bool,
}

impl Table {
    /// A table with these headings; columns that start with `<` are aligned left, all others right.
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
            dispensable: &[],
            has_last: false,
        }
    }

    /// Drops these columns first, in this order, if the page is too narrow; then the others, from the right.
    pub fn dispensable(mut self, headings: &'static [&'static str]) -> Self {
        self.dispensable = headings;
        self
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.styled_row(Style::Plain, cells);
    }

    pub fn styled_row(&mut self, style: Style, cells: Vec<String>) {
        self.rows.push((style, cells));
    }

    /// Columns that the table takes, with a gap after the last one.
    fn used(&self) -> usize {
        let columns: usize = self.widths().iter().map(|width| width + COLUMN_GAP).sum();
        INDENT + columns
    }

    /// Drops columns until the table fits.
    fn fit(&mut self, page_width: usize) {
        while self.used() > page_width + COLUMN_GAP && self.columns.len() > 2 {
            let last = self.columns.len() - 1 - usize::from(self.has_last);
            let mut dispensable = self.dispensable.iter();
            let index = dispensable
                .find_map(|heading| self.columns.iter().position(|one| one.heading == *heading))
                .unwrap_or(last);
            self.columns.remove(index);
            for (_, row) in &mut self.rows {
                if index < row.len() {
                    row.remove(index);
                }
            }
        }
    }

    /// Adds the last column: texts that know how wide they may be.
    pub fn push_column(
        &mut self,
        page: &Page<'_>,
        heading: &'static str,
        cell: impl Fn(usize, usize) -> String,
    ) {
        self.fit(page.width() - MIN_LAST_COLUMN - COLUMN_GAP);
        self.has_last = true;
        let room = page.width().saturating_sub(self.used());
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
            line.push_str(&" ".repeat(COLUMN_GAP));
        }
        line.truncate(line.trim_end().len());
        line
    }
}
