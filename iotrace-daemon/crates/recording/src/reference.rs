//! The tables of the reference page (`docs/reference/recording-format.md`), written from the declarations of the rows.

use parquet::basic::Type;

use crate::{
    columns::{Field, Meaning, Presence},
    tables::{self, Description},
    trace,
};

/// Columns of one value that are named; more of them are "all others".
const MAX_NAMED: usize = 8;

/// The page with its tables of columns written anew, each between `<!-- begin: columns of TABLE -->` and `<!-- end -->`. Errs with
/// what is missing in the page.
pub fn render(page: &str) -> Result<String, String> {
    let mut page = page.to_owned();
    let tables = tables::descriptions();
    let files = tables.iter().find(|table| table.name == "files");
    let shared = files.map_or(&[][..], |files| &files.columns);
    for table in tables.iter().chain(&trace::descriptions()) {
        let begin = format!("<!-- begin: columns of {} -->\n", table.name);
        let (before, rest) = page
            .split_once(&begin)
            .ok_or_else(|| format!("add these lines to the page: {begin}<!-- end -->"))?;
        let (_, after) = rest
            .split_once("<!-- end -->")
            .ok_or_else(|| format!("end the columns of {} with <!-- end -->", table.name))?;
        let shared = if table.name == "files" {
            &[][..]
        } else {
            shared
        };
        page = format!(
            "{before}{begin}{}<!-- end -->{after}",
            columns(table, shared)
        );
    }
    Ok(page)
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

    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/reference/recording-format.md"
    );

    /// With `IOTRACE_WRITE_DOCS` in the environment the page is written instead of compared.
    #[test]
    fn the_page_has_the_columns_as_they_are() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let rendered = render(&page).unwrap();
        if std::env::var_os("IOTRACE_WRITE_DOCS").is_some() {
            std::fs::write(PAGE, rendered).unwrap();
            return;
        }
        for (found, expected) in page.lines().zip(rendered.lines()) {
            assert_eq!(found, expected, "write the page with IOTRACE_WRITE_DOCS=1");
        }
        assert_eq!(page.len(), rendered.len());
    }
}
