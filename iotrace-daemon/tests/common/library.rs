//! What uprobes saw of the libraries that programs use.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use serde_json::Value;

use super::{number, text};

/// Calls and bytes by function.
pub type Counts = BTreeMap<String, (u64, u64)>;

/// The argument of `--uprobe` for one file of a library.
pub fn probe(library: &str, file: &Path) -> OsString {
    let mut probe = OsString::from(library);
    probe.push(":");
    probe.push(file);
    probe
}

/// What uprobes saw of one file (or of none), and its object, over all processes.
pub fn calls(report: &Value, path: Option<&Path>, object: &str) -> Counts {
    let rows = report["uprobes"]["calls"].as_array().expect("calls");
    let path = path.map(|path| path.to_str().expect("text"));
    let mut calls = Counts::new();
    for row in rows {
        if row["path"].as_str() == path && text(row, "object") == object {
            let sum = calls.entry(text(row, "function").to_owned()).or_default();
            sum.0 += number(row, "calls");
            sum.1 += number(row, "bytes");
        }
    }
    calls
}

/// What a program says that it called.
pub fn said(truth: &Value) -> Counts {
    let truth = truth.as_object().expect("an object").iter();
    truth
        .map(|(name, count)| {
            let count = |index: usize| count[index].as_u64().expect("a number");
            (name.clone(), (count(0), count(1)))
        })
        .collect()
}
