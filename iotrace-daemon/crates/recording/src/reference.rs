//! The tables of the reference pages `docs/reference/recording-format.md` and `counters.md`, written from the declarations
//! of the rows and the table of counters.

use iotrace_model::counters::{Descriptor, Level, Merge, TABLE, flag};
use parquet::basic::Type;

use crate::{
    columns::{Field, Meaning, Presence},
    tables::{self, Description},
    timeline, trace,
};

/// Columns of one value that are named; more of them are "all others".
const MAX_NAMED: usize = 8;

/// The page of the recording's format with its tables of columns, each between `<!-- begin: columns of TABLE -->` and
/// `<!-- end -->`. Errs with what is missing in the page.
pub fn render(page: &str) -> Result<String, String> {
    let mut page = page.to_owned();
    let tables = tables::descriptions();
    let files = tables.iter().find(|table| table.name == "files");
    let shared = files.map_or(&[][..], |files| &files.columns);
    let others = trace::descriptions()
        .into_iter()
        .chain([timeline::description()]);
    for table in tables.iter().chain(&others.collect::<Vec<_>>()) {
        let shared = if table.name == "files" {
            &[][..]
        } else {
            shared
        };
        let what = format!("columns of {}", table.name);
        page = replace(&page, &what, &columns(table, shared))?;
    }
    Ok(page)
}

/// The page of the counters with their table, between `<!-- begin: counters -->` and `<!-- end -->`.
pub fn render_counters(page: &str) -> Result<String, String> {
    let rows: String = TABLE.iter().map(counter).collect();
    let head = "| column | JSON key | merge | detail | meaning |\n|---|---|---|---|---|\n";
    replace(page, "counters", &format!("{head}{rows}"))
}

/// The page with this text between the two comments.
fn replace(page: &str, what: &str, text: &str) -> Result<String, String> {
    let begin = format!("<!-- begin: {what} -->\n");
    let (before, rest) = page
        .split_once(&begin)
        .ok_or_else(|| format!("add these lines to the page: {begin}<!-- end -->"))?;
    let (_, after) = rest
        .split_once("<!-- end -->")
        .ok_or_else(|| format!("end the {what} with <!-- end -->"))?;
    Ok(format!("{before}{begin}{text}<!-- end -->{after}"))
}

fn counter(descriptor: &Descriptor) -> String {
    let (column, doc) = (descriptor.column, descriptor.doc);
    // JSON has one object for all sizes.
    let key = match descriptor.key.split_once("_size_") {
        Some((direction, _)) => format!("`{direction}_sizes`"),
        None => format!("`{}`", descriptor.key),
    };
    let always = if descriptor.has(flag::ALWAYS) {
        " *"
    } else {
        ""
    };
    let merge = match descriptor.merge {
        Merge::Sum => "sum",
        Merge::Max | Merge::Peak => "max",
        Merge::Earliest => "min",
        Merge::Newest => "last that is not 0",
        Merge::OfPeak => "with the one before",
    };
    let level = match descriptor.level {
        Level::Basic => "basic",
        Level::Full => "full",
    };
    format!("| `{column}` | {key}{always} | {merge} | {level} | {doc} |\n")
}

/// The columns of a table. Those that are as in `shared` have one row.
fn columns(table: &Description, shared: &[(Vec<Field>, String)]) -> String {
    let is_shared = |column: &(Vec<Field>, String)| {
        let names = |column: &(Vec<Field>, String)| (names(&column.0), column.1.clone());
        shared.iter().any(|other| names(other) == names(column))
    };
    let (same, own): (Vec<_>, Vec<_>) = table.columns.iter().partition(|column| is_shared(column));
    let mut text = "| column | type | meaning |\n|---|---|---|\n".to_owned();
    let same: Vec<Field> = same
        .into_iter()
        .flat_map(|(fields, _)| fields.clone())
        .collect();
    if !same.is_empty() {
        text += &format!("| {} | | as in `files.parquet` |\n", names(&same));
    }
    for (fields, meaning) in own {
        text += &match fields.len() {
            ..=MAX_NAMED => format!("| {} | {} | {meaning} |\n", names(fields), types(fields)),
            _ => format!("| all others | | {meaning} |\n"),
        };
    }
    text
}

fn names(fields: &[Field]) -> String {
    let names = fields.iter().map(|field| format!("`{}`", field.name));
    names.collect::<Vec<_>>().join(", ")
}

fn types(fields: &[Field]) -> String {
    let mut types: Vec<String> = fields.iter().map(type_of).collect();
    types.dedup();
    types.join(", ")
}

fn type_of(field: &Field) -> String {
    let name = match (field.meaning, field.physical) {
        (Meaning::Pairs([first, second]), _) => return format!("list of `{first}`, `{second}`"),
        (Meaning::Unsigned, _) => "uint64",
        (Meaning::Timestamp, _) => "timestamp",
        (Meaning::Text, _) => "string",
        (Meaning::Plain, Type::INT64) => "int64",
        (Meaning::Plain, Type::BOOLEAN) => "boolean",
        (Meaning::Plain, _) => "binary",
    };
    match field.presence {
        Presence::Optional => format!("{name}?"),
        Presence::Required | Presence::List => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `IOTRACE_WRITE_DOCS` in the environment the page is written instead of compared.
    fn check(name: &str, render: impl Fn(&str) -> Result<String, String>) {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference");
        let path = format!("{pages}/{name}");
        let page = std::fs::read_to_string(&path).unwrap();
        let rendered = render(&page).unwrap();
        if std::env::var_os("IOTRACE_WRITE_DOCS").is_some() {
            std::fs::write(path, rendered).unwrap();
            return;
        }
        for (found, expected) in page.lines().zip(rendered.lines()) {
            assert_eq!(found, expected, "write the page with IOTRACE_WRITE_DOCS=1");
        }
        assert_eq!(page.len(), rendered.len());
    }

    #[test]
    fn the_page_has_the_columns_as_they_are() {
        check("recording-format.md", render);
    }

    #[test]
    fn the_page_has_the_counters_as_they_are() {
        check("counters.md", render_counters);
    }
}
