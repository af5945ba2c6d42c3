//! Source text of lines of programs, as it was when they ran.

use std::{collections::BTreeMap, sync::Arc};

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// As the interpreter names it.
    pub file: Arc<str>,
    pub line: u32,
    /// None where the file may not be what a program ran.
    pub text: Option<Arc<str>>,
}

/// Lines by file.
#[derive(Debug, Default)]
pub struct Sources {
    all: BTreeMap<Arc<str>, BTreeMap<u32, Option<Arc<str>>>>,
    /// Those since the last flush.
    news: Vec<SourceLine>,
}

impl Sources {
    /// Takes a line. One that has another text already has none from now on: programs of one name ran different files.
    pub fn add(&mut self, line: SourceLine) {
        self.keep(&line);
        self.news.push(line);
    }

    fn keep(&mut self, line: &SourceLine) {
        let lines = self.all.entry(line.file.clone()).or_default();
        let known = lines.entry(line.line).or_insert_with(|| line.text.clone());
        if *known != line.text {
            *known = None;
        }
    }

    /// A line and those next to it that are known, each with its number; empty where the line itself is not known.
    pub fn around(&self, file: &str, line: u32) -> Vec<(u32, &str)> {
        let text = |number: u32| {
            let text = self.all.get(file)?.get(&number)?.as_deref()?;
            Some((number, text))
        };
        let Some(own) = text(line) else {
            return Vec::new();
        };
        let before = line.checked_sub(1).and_then(text);
        let after = line.checked_add(1).and_then(text);
        before.into_iter().chain([own]).chain(after).collect()
    }

    /// Since the last [`Sources::settle`].
    pub fn interval(&self) -> &[SourceLine] {
        &self.news
    }

    /// Ends the interval.
    pub(super) fn settle(&mut self) {
        self.news.clear();
    }

    /// Adds those of another node.
    pub(super) fn append(&mut self, other: &Self) {
        for (file, lines) in &other.all {
            for (line, text) in lines {
                self.keep(&SourceLine {
                    file: file.clone(),
                    line: *line,
                    text: text.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, line: u32, text: &str) -> SourceLine {
        SourceLine {
            file: file.into(),
            line,
            text: Some(text.into()),
        }
    }

    #[test]
    fn a_line_has_its_neighbours_and_is_not_shown_by_them_alone() {
        let mut sources = Sources::default();
        for (number, text) in [(1, "import os"), (2, ""), (3, "os.open(x)"), (5, "end")] {
            sources.add(line("/a.py", number, text));
        }
        assert_eq!(sources.around("/a.py", 3), [(2, ""), (3, "os.open(x)")]);
        assert_eq!(sources.around("/a.py", 1), [(1, "import os"), (2, "")]);
        assert_eq!(sources.around("/a.py", 4), []);
        assert_eq!(sources.around("/a.py", 0), []);
        assert_eq!(sources.around("/b.py", 3), []);
    }

    #[test]
    fn of_two_texts_neither_is_believed() {
        let mut sources = Sources::default();
        sources.add(line("/a.py", 1, "one"));
        sources.add(line("/a.py", 1, "one"));
        assert_eq!(sources.around("/a.py", 1), [(1, "one")]);
        let mut other = Sources::default();
        other.add(line("/a.py", 1, "two"));
        sources.append(&other);
        assert_eq!(sources.around("/a.py", 1), []);
        // What comes later does not make it true again.
        sources.add(line("/a.py", 1, "one"));
        assert_eq!(sources.around("/a.py", 1), []);
        assert_eq!(sources.interval().len(), 3);
        sources.settle();
        assert_eq!(sources.interval(), []);
    }
}
