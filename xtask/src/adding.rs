//! `cargo xtask adding`: adds something of each kind to a copy of the tree, and tests that the copy is complete.
//!
//! `kinds` has for each kind of thing all lines that a person writes to add one, and how many files these may be in. What is
//! generated from them is not there: the copy's own tests write it and then compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cmd;
use crate::run::target_dir;

mod kinds;
use kinds::{KINDS, Kind};

/// An insertion into a file.
struct Edit {
    file: &'static str,
    /// The text before it, which the file has once; empty: the file is new.
    after: &'static str,
    text: &'static str,
}

impl Kind {
    /// The files that a person edits.
    fn files(&self) -> BTreeSet<&'static str> {
        self.edits.iter().map(|edit| edit.file).collect()
    }
}

/// The files that have one of each kind, with their new texts.
fn added() -> Result<BTreeMap<&'static str, String>> {
    if let Some(kind) = KINDS.iter().find(|kind| kind.files().len() > kind.most) {
        bail!("{} takes more than {} files", kind.name, kind.most);
    }
    let mut texts = BTreeMap::new();
    for Edit { file, after, text } in KINDS.iter().flat_map(|kind| kind.edits) {
        let path = cmd::root().join(file);
        if after.is_empty() {
            ensure!(!path.exists(), "{file} is not new");
            texts.insert(*file, (*text).to_owned());
            continue;
        }
        if !texts.contains_key(file) {
            let old = fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
            texts.insert(*file, old);
        }
        let Some(old) = texts.get_mut(file) else {
            continue;
        };
        let count = old.matches(after).count();
        ensure!(count == 1, "{file} has this text {count} times: {after}");
        *old = old.replace(after, &format!("{after}{text}"));
    }
    Ok(texts)
}

/// Copies the tree, adds one of each kind, writes what is generated, and tests the copy.
pub fn task() -> Result<()> {
    let copy = target_dir()?.join("adding");
    let mut git = cmd::command("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut texts = BTreeMap::new();
    for file in cmd::stdout_of(&mut git)?.lines() {
        let text = fs::read(cmd::root().join(file));
        texts.insert(
            file.to_owned(),
            text.with_context(|| format!("cannot read {file}"))?,
        );
    }
    let added = added()?.into_iter();
    texts.extend(added.map(|(file, text)| (file.to_owned(), text.into_bytes())));
    for (file, text) in texts {
        let to = copy.join(&file);
        // Cargo builds what is written, so nothing is that is there already.
        if !fs::read(&to).is_ok_and(|old| old == text) {
            fs::create_dir_all(to.parent().context("a file is in a directory")?)?;
            fs::write(to, text).with_context(|| format!("cannot write {file}"))?;
        }
    }
    let test = |args: &str, variables: &[(&str, &str)]| {
        let mut cargo = cmd::cargo();
        // A separate target directory: cargo would take what it built from the copy for the tree's.
        cargo
            .current_dir(&copy)
            .env("CARGO_TARGET_DIR", copy.join("target"));
        cargo.args(["test", "--locked", "--no-fail-fast"]);
        cmd::run(cargo.args(args.split(' ')).envs(variables.iter().copied()))
    };
    // Some tests of this pass fail: they were compiled with the documents that others of it write.
    let _ = test("--lib --bin iotrace", &[("IOTRACE_WRITE_DOCS", "1")]);
    test("--lib --bin iotrace", &[])?;
    test("--test service metrics::", &[("IOTRACE_BLESS", "1")])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the lines are right, and that nothing else is needed, only the task shows.
    #[test]
    fn each_kind_is_added_in_as_few_files_as_contributing_says() {
        added().unwrap();
        let page = fs::read_to_string(cmd::root().join("CONTRIBUTING.md")).unwrap();
        for kind in KINDS {
            let count = kind.files().len();
            let row = format!("\n| {} | {count} |", kind.name);
            assert!(page.contains(&row), "CONTRIBUTING.md has no row {row}");
        }
    }
}
