//! The tables of the reference pages `docs/reference/recording-format.md` and `counters.md`, written from the declarations
//! of the rows and the table of counters.

use iotrace_model::counters::{Descriptor, Level, Merge, TABLE, flag};
use iotrace_pages::{check, replace};
use parquet::basic::Type;

use crate::{
    columns::{Field, Meaning, Presence},
    tables::{self, Description},
    timeline, trace,
};

/// Columns of one value that are named; more of them are "all others".
const MAX_NAMED: usize = 8;

/// The section of the page that is after those of all tables of a part.
const LAST_HEADING: &str = "### `operations.parquet`";

/// The page of the recording's format with its tables of columns.
fn render(page: &str) -> String {
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
        if !page.contains(&what) {
            let text = format!(
                "### `{}.parquet`\n\n<!-- begin: {what} -->\n<!-- end -->\n\n{LAST_HEADING}",
                table.name
            );
            page = page.replace(LAST_HEADING, &text);
        }
        page = replace(&page, &what, &columns(table, shared));
    }
    page
}

/// The page of the counters with their table.
fn render_counters(page: &str) -> String {
    let rows: String = TABLE.iter().map(counter).collect();
    let head = "| column | JSON key | merge | detail | meaning |\n|---|---|---|---|---|\n";
    replace(page, "counters", &format!("{head}{rows}"))
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

#[test]
fn the_page_has_the_columns_as_they_are() {
    check("docs/reference/recording-format.md", render);
}

#[test]
fn the_page_has_the_counters_as_they_are() {
    check("docs/reference/counters.md", render_counters);
}
