//! Reads rules from TOML. Everything that is wrong is found in one go, each with its line.

use std::collections::HashMap;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{MAX_RULES, Origin, Problem, Rule};
use crate::{
    glob::Glob,
    phase::{Class, Direction, Phase},
};
use iotrace_model::mounts;

type Value<'a> = Spanned<DeValue<'a>>;

const KEYS: [&str; 7] = [
    "name",
    "phase",
    "class",
    "glob",
    "direction",
    "fs_type",
    "ignore_case",
];

/// Tables of `iotrace.toml` that others read.
const OTHER_TABLES: [&str; 7] = [
    "thresholds",
    "trace",
    "http",
    "metrics",
    "memory",
    "recordings",
    "jobs",
];

/// Longest glob, bytes, as the longest path; and of all globs together.
const MAX_GLOB_BYTES: usize = 4_096;
const MAX_GLOBS_BYTES: usize = 1 << 20;

/// Reads the rules in `text`, which is that of `file`.
pub fn parse(file: &str, text: &str, is_builtin: bool) -> Result<Vec<Rule>, Vec<Problem>> {
    let mut reader = Reader {
        file,
        line_ends: text.match_indices('\n').map(|(at, _)| at).collect(),
        is_builtin,
        glob_bytes: 0,
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let start = error.span().map_or(0, |span| span.start);
        reader.problem(start, error.message().trim().replace('\n', "; "));
    }
    if !errors.is_empty() {
        return Err(reader.problems);
    }
    let rules = reader.file(table.get_ref());
    reader.names(&rules);
    if reader.problems.is_empty() {
        Ok(rules)
    } else {
        reader.problems.sort_by_key(|problem| problem.line);
        Err(reader.problems)
    }
}

struct Reader<'a> {
    file: &'a str,
    /// Where lines end.
    line_ends: Vec<usize>,
    is_builtin: bool,
    /// Of the globs so far.
    glob_bytes: usize,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, offset: usize, text: impl Into<String>) {
        let line = self.line(offset);
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line,
            text: text.into(),
        });
    }

    fn line(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }

    fn file(&mut self, table: &DeTable<'_>) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                // Before any work: what follows takes longer the more there are.
                ("rule", DeValue::Array(entries)) if entries.len() > MAX_RULES => {
                    let text = format!(
                        "there are {} rules, and at most {MAX_RULES} can be used: give fewer rules more globs",
                        entries.len()
                    );
                    self.problem(value.span().start, text);
                }
                ("rule", DeValue::Array(entries)) => {
                    for entry in entries.iter() {
                        rules.extend(self.entry(entry));
                    }
                }
                ("rule", _) => self.problem(value.span().start, "write [[rule]] before each rule"),
                (known, _) if OTHER_TABLES.contains(&known) => {}
                (key_text, _) => {
                    let text =
                        format!("unknown key {key_text:?}: the file has [[rule]] and [thresholds]");
                    self.problem(key.span().start, text);
                }
            }
        }
        rules
    }

    fn entry(&mut self, entry: &Value<'_>) -> Option<Rule> {
        let start = entry.span().start;
        let DeValue::Table(table) = entry.get_ref() else {
            self.problem(start, "write [[rule]] before each rule");
            return None;
        };
        for key in table
            .keys()
            .filter(|key| !KEYS.contains(&key.get_ref().as_ref()))
        {
            let text = format!(
                "unknown key {:?}: a rule has {}",
                key.get_ref(),
                KEYS.join(", ")
            );
            self.problem(key.span().start, text);
        }
        for key in ["name", "phase", "glob"] {
            if !table.contains_key(key) {
                self.problem(
                    start,
                    format!("the rule has no {key}: a rule has at least name, phase and glob"),
                );
            }
        }
        // All of it is looked at before the rule is given up, so that all that is wrong is said.
        let name = self.name(table);
        let phase = self.phase(table);
        let globs = table.get("glob").map(|value| self.globs(value));
        let directions = self.directions(table.get("direction"));
        let fs_types = self.fs_types(table.get("fs_type"));
        let ignore_case = self.flag(table.get("ignore_case"));
        Some(Rule {
            name: name?,
            phase: phase?,
            globs: globs?,
            directions,
            fs_types,
            ignore_case,
            origin: Origin {
                file: self.file.to_owned(),
                line: self.line(start),
                is_builtin: self.is_builtin,
            },
        })
    }

    fn string<'v>(&mut self, value: &'v Value<'_>) -> Option<&'v str> {
        let string = value.get_ref().as_str();
        if string.is_none() {
            self.problem(value.span().start, "write this as a text in quotes");
        }
        string
    }

    /// A text, or a list of them that is not empty.
    fn strings<'v, 'i>(&mut self, value: &'v Value<'i>) -> Vec<(&'v str, &'v Value<'i>)> {
        let values = match value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![value],
        };
        if values.is_empty() {
            self.problem(value.span().start, "the list is empty: name at least one");
        }
        let mut strings = Vec::new();
        for value in values {
            strings.extend(self.string(value).map(|string| (string, value)));
        }
        strings
    }

    fn name(&mut self, table: &DeTable<'_>) -> Option<String> {
        let value = table.get("name")?;
        let name = self.string(value)?;
        if name.trim().is_empty() {
            self.problem(value.span().start, "the name is empty: reports show it");
        }
        Some(name.to_owned())
    }

    fn phase(&mut self, table: &DeTable<'_>) -> Option<Phase> {
        let value = table.get("phase")?;
        let name = self.string(value)?;
        let known = Phase::ALL.into_iter().find(|phase| phase.name() == name);
        let Some(phase) = known else {
            let text = format!(
                "unknown phase {name:?}: write startup, training, checkpoint, restore or other"
            );
            self.problem(value.span().start, text);
            return None;
        };
        let Some(value) = table.get("class") else {
            return Some(phase);
        };
        let name = self.string(value)?;
        let class = Class::ALL.into_iter().find(|class| class.name() == name);
        if phase != Phase::UNMATCHED {
            let text =
                format!("only phase other has classes, {phase} has none: leave the class out");
            self.problem(value.span().start, text);
        } else if class.is_none() {
            let text = format!("unknown class {name:?}: write cache, log, system or ipc");
            self.problem(value.span().start, text);
        }
        Some(class.map_or(phase, |class| Phase::Other(Some(class))))
    }

    fn globs(&mut self, value: &Value<'_>) -> Vec<Glob> {
        let mut globs = Vec::new();
        for (text, value) in self.strings(value) {
            self.glob_bytes += text.len();
            if text.len() > MAX_GLOB_BYTES {
                let text = format!(
                    "the glob has {} bytes, and at most {MAX_GLOB_BYTES} can be used: no path is longer",
                    text.len()
                );
                self.problem(value.span().start, text);
                continue;
            }
            if self.glob_bytes > MAX_GLOBS_BYTES {
                let text =
                    format!("the globs have more than {MAX_GLOBS_BYTES} bytes: leave some out");
                self.problem(value.span().start, text);
                break;
            }
            match Glob::new(text) {
                Ok(glob) => globs.push(glob),
                Err(error) => {
                    self.problem(value.span().start, format!("bad glob {text:?}: {error}"));
                }
            }
        }
        globs
    }

    fn directions(&mut self, value: Option<&Value<'_>>) -> [bool; 2] {
        let Some(value) = value else {
            return [true; 2];
        };
        let Some(name) = self.string(value) else {
            return [true; 2];
        };
        if !matches!(name, "read" | "write" | "any") {
            let text = format!("unknown direction {name:?}: write read, write or any");
            self.problem(value.span().start, text);
        }
        Direction::ALL.map(|direction| name == "any" || name == direction.name())
    }

    fn fs_types(&mut self, value: Option<&Value<'_>>) -> Vec<String> {
        let mut fs_types = Vec::new();
        for (name, value) in value.map_or_else(Vec::new, |value| self.strings(value)) {
            let known = mounts::family(name);
            if !mounts::families().any(|family| family == known) {
                let all: Vec<_> = mounts::families().collect();
                let text = format!(
                    "unknown filesystem type {name:?}: write one of {}",
                    all.join(", ")
                );
                self.problem(value.span().start, text);
            }
            fs_types.push(known.to_owned());
        }
        fs_types
    }

    fn flag(&mut self, value: Option<&Value<'_>>) -> bool {
        match value.map(|value| (value.get_ref(), value)) {
            None => false,
            Some((DeValue::Boolean(flag), _)) => *flag,
            Some((_, value)) => {
                self.problem(value.span().start, "write true or false");
                false
            }
        }
    }

    fn names(&mut self, rules: &[Rule]) {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for rule in rules {
            let first = *seen.entry(&rule.name).or_insert(rule.origin.line);
            if first != rule.origin.line {
                self.problems.push(Problem {
                    file: self.file.to_owned(),
                    line: rule.origin.line,
                    text: format!(
                        "the name {:?} is that of the rule in line {first} too: rename one of them",
                        rule.name
                    ),
                });
            }
        }
    }
}
