//! Read-only SQL over recordings, by SQLite.
//!
//! A statement is compiled over empty tables first. That says which tables it reads, and which columns; these are taken from
//! the Parquet files, into a database in memory, which the statement then runs over. Whatever it says, it can do no more than
//! read these tables: everything else is refused when it is compiled, and it is stopped by its time and its memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use iotrace_recording::rows::{self, Cell, Table};
use rusqlite::{
    Connection, ErrorCode, Statement,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::{Null, ToSqlOutput, Value as Owned, ValueRef},
};
use serde_json::{Value, json};

/// How long a statement may run, without the reading of its tables.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Memory that the tables and the statement may take, bytes.
const MOST_MEMORY: i64 = 1 << 30;
/// Longest statement, and longest value that one makes, bytes.
const LONGEST_STATEMENT: i32 = 64 << 10;
const LONGEST_VALUE: i32 = 16 << 20;
/// Steps of SQLite's machine between two looks at the clock.
const STEPS: i32 = 10_000;

/// The result of a statement.
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Value>,
    /// Whether there are more rows.
    pub has_more: bool,
}

/// What a statement reads: columns by table.
type Used = BTreeMap<String, BTreeSet<String>>;

/// Runs one statement over the tables of recordings; gives its first rows.
pub fn query(directories: &[PathBuf], sql: &str, limit: usize) -> anyhow::Result<Answer> {
    let tables = rows::tables();
    let mut database = Connection::open_in_memory().context("cannot make a database")?;
    prepare_database(&database, &tables)?;
    let used = used_by(&mut database, sql, &tables).map_err(|error| explained(error, &tables))?;
    for (name, columns) in &used {
        let columns: Vec<&str> = columns.iter().map(|column| &**column).collect();
        for directory in directories {
            fill(&database, directory, name, &columns)?;
        }
    }
    database.authorizer(Some(allow))?;
    let end = Instant::now() + MOST_TIME;
    database.progress_handler(STEPS, Some(move || Instant::now() > end))?;
    run(&database, sql, limit).map_err(|error| explained(error, &tables))
}

/// Makes the tables, empty, and sets the limits.
fn prepare_database(database: &Connection, tables: &[Table]) -> anyhow::Result<()> {
    for table in tables {
        let columns: Vec<String> = table.columns.iter().map(|one| quoted(&one.name)).collect();
        let make = format!(
            "CREATE TABLE {} ({})",
            quoted(table.name),
            columns.join(", ")
        );
        database.execute_batch(&make)?;
    }
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    database.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT)?;
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
    database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    database.pragma_update(None, "temp_store", "memory")?;
    database.pragma_update(None, "hard_heap_limit", MOST_MEMORY)?;
    Ok(())
}

/// The columns that a statement reads, and perhaps more of the same tables.
fn used_by(database: &mut Connection, sql: &str, tables: &[Table]) -> rusqlite::Result<Used> {
    let used = Arc::new(Mutex::new(Used::new()));
    let seen = Arc::clone(&used);
    database.authorizer(Some(move |context: AuthContext<'_>| {
        if let AuthAction::Read {
            table_name,
            column_name,
        } = context.action
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let columns = seen.entry(table_name.to_owned()).or_default();
            columns.insert(column_name.to_owned());
        }
        allow(context)
    }))?;
    database.prepare(sql)?;
    database.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    let seen = used.lock().unwrap_or_else(PoisonError::into_inner);
    // SQLite does not tell of columns that tables are joined by, nor of tables of which it reads nothing else. They are named in
    // the text, but for columns of NATURAL.
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words: BTreeSet<String> = sql.split(word).map(str::to_ascii_lowercase).collect();
    let is_natural = words.contains("natural");
    let used = tables.iter().filter_map(|table| {
        let seen = seen.get(table.name);
        if seen.is_none() && !words.contains(table.name) {
            return None;
        }
        let is_seen = |name: &String| seen.is_some_and(|seen| seen.contains(name));
        let is_used = |name: &String| is_natural || is_seen(name) || words.contains(name);
        let names = table.columns.iter().map(|column| column.name.clone());
        Some((table.name.to_owned(), names.filter(is_used).collect()))
    });
    Ok(used.collect())
}

/// Allows what reads.
fn allow(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => {
            Authorization::Allow
        }
        AuthAction::Function { function_name } if function_name != "load_extension" => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// Puts the rows of a table into the database; columns that are not named stay null.
fn fill(
    database: &Connection,
    directory: &Path,
    table: &str,
    columns: &[&str],
) -> anyhow::Result<()> {
    let put = if columns.is_empty() {
        format!("INSERT INTO {} DEFAULT VALUES", quoted(table))
    } else {
        let names: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
        let places = vec!["?"; columns.len()].join(", ");
        format!(
            "INSERT INTO {} ({}) VALUES ({places})",
            quoted(table),
            names.join(", ")
        )
    };
    let transaction = database.unchecked_transaction()?;
    let mut statement = database.prepare(&put)?;
    let mut failure = None;
    rows::read(directory, table, columns, |cells| {
        failure = put_row(&mut statement, cells).err();
        failure.is_none()
    })?;
    match failure {
        Some(error) if error.sqlite_error_code() == Some(ErrorCode::OutOfMemory) => bail!(
            "name fewer columns, and no `*`: what the statement reads of the table {table} takes more than {} MiB of memory",
            MOST_MEMORY >> 20
        ),
        Some(error) => return Err(error.into()),
        None => {}
    }
    drop(statement);
    transaction.commit()?;
    Ok(())
}

fn put_row(statement: &mut Statement<'_>, cells: &[Cell]) -> rusqlite::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        let value = match cell {
            Cell::Null => ToSqlOutput::Owned(Owned::from(Null)),
            Cell::Integer(value) => ToSqlOutput::from(*value),
            Cell::Real(value) => ToSqlOutput::from(*value),
            Cell::Text(text) => ToSqlOutput::from(&**text),
            Cell::Bytes(bytes) => ToSqlOutput::from(&**bytes),
        };
        statement.raw_bind_parameter(index + 1, value)?;
    }
    statement.raw_execute()?;
    Ok(())
}

fn run(database: &Connection, sql: &str, limit: usize) -> rusqlite::Result<Answer> {
    let mut statement = database.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(ToOwned::to_owned).collect();
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut has_more = false;
    while let Some(row) = found.next()? {
        // More than an answer may have is never held.
        if rows.len() == limit || bytes > super::bound::MOST_BYTES {
            has_more = true;
            break;
        }
        let values = (0..columns.len()).map(|index| row.get_ref(index).map(json_of));
        let values = Value::Array(values.collect::<rusqlite::Result<_>>()?);
        bytes += values.to_string().len();
        rows.push(values);
    }
    Ok(Answer {
        columns,
        rows,
        has_more,
    })
}

fn json_of(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => value.into(),
        ValueRef::Real(value) => value.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!({"bytes": iotrace_report::hex(bytes)}),
    }
}

/// A statement's error, with what to do first.
fn explained(error: rusqlite::Error, tables: &[Table]) -> anyhow::Error {
    let code = error.sqlite_error_code();
    let text = error.to_string();
    match code {
        Some(ErrorCode::OperationInterrupted) => anyhow!(
            "ask for less, by WHERE on one table or by GROUP BY before a join: the statement ran for more than {} s",
            MOST_TIME.as_secs()
        ),
        Some(ErrorCode::OutOfMemory) => anyhow!(
            "ask for less at once: the statement takes more than {} MiB of memory",
            MOST_MEMORY >> 20
        ),
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            anyhow!("write one SELECT: all else is refused ({text})")
        }
        _ if text.contains("no such table") => {
            let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
            anyhow!("name one of the tables {}: {text}", names.join(", "))
        }
        _ if text.contains("no such column") => {
            anyhow!("ask the tool `tables` for the columns of a table: {text}")
        }
        _ => anyhow!("write one SELECT as SQLite takes it: {text}"),
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
