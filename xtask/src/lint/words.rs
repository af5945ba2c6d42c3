//! The word list: phrases that documentation, help and messages avoid, each with its plain replacement.
//!
//! A simple scan by line. Code in Markdown, generated tables, and Rust other than doc comments and string literals are
//! not checked. To widen the check, add a row to [`SCANNED`]; to forbid a phrase, add a row to [`PHRASES`].

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context as _, Result, bail};

use crate::cmd;

/// Phrases in lower case, with what to write instead. They match whole words in any case.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "again"),
    ("are told", "are known, are detected"),
    ("as it lies", "directly"),
    ("as they lie", "directly"),
    ("at hand", "available"),
    ("behind it", "after it"),
    ("behind the other", "after the other"),
    ("behind which", "after which"),
    ("beside", "next to, in addition to, compared with"),
    ("can be had", "is available"),
    ("cannot be had", "is not available"),
    ("comes behind", "follows"),
    ("commonest", "most common"),
    ("could be had", "was available"),
    ("dear", "expensive"),
    ("dearer", "more expensive"),
    ("for want of", "for lack of"),
    ("foretold", "predicted"),
    ("give back", "return"),
    ("gives back", "returns"),
    ("in the midst of", "during"),
    ("in the place of", "in place of, instead of"),
    ("in vain", "without success"),
    ("is told", "is known, is detected"),
    ("kin", "similar"),
    ("known one by one", "tracked individually"),
    ("lately", "recently"),
    ("let pass", "ignored"),
    ("looked at", "checked, sampled, evaluated"),
    ("pass by", "skip"),
    ("passed by", "skipped"),
    ("passes by", "skips"),
    ("right behind", "directly after"),
    ("stand at", "be at"),
    ("stand for", "mean, represent"),
    ("stand in", "be in"),
    ("stand on", "be on"),
    ("stands", "is"),
    ("stood", "was"),
    ("tell apart", "distinguish"),
    ("tells apart", "distinguishes"),
    ("that is there", "that exists"),
    ("the mend", "the fix"),
    ("told apart", "distinguished"),
    ("told by", "detected by"),
    ("what came of", "the result of"),
    ("what comes of", "the result of"),
    ("where it is there", "if it exists"),
];

/// What of a file is text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Everything but code and generated parts.
    Markdown,
    /// Doc comments, which are the help of a command line, and string literals that end on their line. JavaScript has the same
    /// literals.
    Rust,
}

/// What is checked: files below a folder with an extension.
const SCANNED: &[(&str, &str, Format)] = &[
    ("", "md", Format::Markdown),
    ("iotrace-daemon/src", "rs", Format::Rust),
    (
        "iotrace-daemon/crates/report/src/html/page",
        "js",
        Format::Rust,
    ),
];

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", "vendor", "vmcache", "shared"];

/// A phrase in a file.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    line: usize,
    phrase: &'static str,
    instead: &'static str,
}

/// Checks all of [`SCANNED`] and lists every hit.
pub fn check() -> Result<()> {
    let mut hits = 0;
    for (folder, extension, format) in SCANNED {
        let folder = cmd::root().join(folder);
        let files = files(&folder, extension);
        for path in files.with_context(|| format!("cannot list {}", folder.display()))? {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(cmd::root()).unwrap_or(&path).display();
            for Hit {
                line,
                phrase,
                instead,
            } in find(&text, *format)
            {
                eprintln!("{name}:{line}: \"{phrase}\": write \"{instead}\"");
                hits += 1;
            }
        }
    }
    if hits > 0 {
        bail!("use plain English in {hits} places: see xtask/src/lint/words.rs");
    }
    Ok(())
}

/// All files with an extension below a folder, in order.
pub fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_ref()) {
                found.extend(files(&path, extension)?);
            }
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The phrases in a text, by line.
fn find(text: &str, format: Format) -> Vec<Hit> {
    let lines = match format {
        Format::Markdown => markdown(text),
        Format::Rust => rust(text),
    };
    let words: Vec<Vec<String>> = lines.iter().map(|line| words(line)).collect();
    let mut hits = Vec::new();
    for (index, own) in words.iter().enumerate() {
        // A phrase may go on in the next line.
        let next = words.get(index + 1).map_or(&[][..], Vec::as_slice);
        let both: Vec<&str> = own.iter().chain(next).map(String::as_str).collect();
        for (phrase, instead) in PHRASES {
            let wanted: Vec<&str> = phrase.split(' ').collect();
            let found = both.windows(wanted.len()).take(own.len());
            for _ in found.filter(|window| **window == wanted[..]) {
                hits.push(Hit {
                    line: index + 1,
                    phrase,
                    instead,
                });
            }
        }
    }
    hits
}

/// The words of a line, in lower case; what separates sentences and table cells is a word that no phrase has.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for piece in line.to_lowercase().split_whitespace() {
        let is_part = |c: char| c.is_alphanumeric() || "-_'".contains(c);
        for word in piece.split_inclusive(|c| !is_part(c)) {
            let bare = word.trim_end_matches(|c| !is_part(c));
            if !bare.is_empty() {
                words.push(bare.to_owned());
            }
            if bare.len() != word.len() && !word.ends_with(['*', '"']) {
                words.push(".".to_owned());
            }
        }
    }
    words
}

/// Lines of Markdown without code and without generated parts.
pub fn markdown(text: &str) -> Vec<String> {
    let (mut is_code, mut is_generated) = (false, false);
    let mut lines = Vec::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        is_generated = (is_generated || line.starts_with("<!-- begin")) && line != "<!-- end -->";
        let is_prose = !(is_code || is_fence || is_generated);
        lines.push(if is_prose {
            without_code(line)
        } else {
            String::new()
        });
    }
    lines
}

/// Lines of Rust: what its doc comments and its string literals say.
fn rust(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            let line = line.trim_start();
            match line.strip_prefix("///").or(line.strip_prefix("//!")) {
                Some(doc) => without_code(doc),
                // Every other piece between quotation marks is in a literal.
                None => without_code(
                    &line
                        .split('"')
                        .skip(1)
                        .step_by(2)
                        .collect::<Vec<_>>()
                        .join(" . "),
                ),
            }
        })
        .collect()
}

/// A line with a full stop in place of each piece between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" . ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(text: &str, format: Format) -> Vec<(usize, &'static str)> {
        let hits = find(text, format).into_iter();
        hits.map(|hit| (hit.line, hit.phrase)).collect()
    }

    #[test]
    fn phrases_are_found_as_whole_words_in_any_case() {
        let text = "Beside it.\nBesides, kinds of\n*anew*, \"stands\"";
        assert_eq!(
            phrases(text, Format::Markdown),
            [(1, "beside"), (3, "anew"), (3, "stands")]
        );
    }

    #[test]
    fn a_phrase_may_go_on_in_the_next_line_and_in_no_other_sentence() {
        assert_eq!(
            phrases("read in\nvain, in. Vain\n", Format::Markdown),
            [(1, "in vain")]
        );
        assert_eq!(phrases("in\n\nvain | in | vain", Format::Markdown), []);
    }

    #[test]
    fn code_and_generated_parts_of_markdown_are_not_checked() {
        let text =
            "a `beside` b\n```sh\nbeside\n```\n<!-- begin: x -->\nbeside\n<!-- end -->\nbeside\n";
        assert_eq!(phrases(text, Format::Markdown), [(8, "beside")]);
        assert_eq!(phrases("in `x` vain", Format::Markdown), []);
    }

    #[test]
    fn doc_comments_and_literals_of_rust_are_checked() {
        let text = "/// One beside `anew`.\nlet beside = 1; // beside\nbail!(\"in vain\", beside, \"anew\");\n";
        assert_eq!(
            phrases(text, Format::Rust),
            [(1, "beside"), (3, "anew"), (3, "in vain")]
        );
    }

    #[test]
    fn the_list_is_in_order_and_in_lower_case() {
        for (phrase, instead) in PHRASES {
            assert_eq!(*phrase, phrase.to_lowercase());
            assert_eq!(find(instead, Format::Markdown), [], "{phrase}");
        }
        let mut sorted = PHRASES.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, PHRASES);
    }
}
