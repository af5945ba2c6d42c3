//! Command lines in the documentation, which must be command lines of the program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Where documentation is, from the top of the workspace.
const DOCUMENTED_PATHS: [&str; 5] = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "deploy",
];

/// A line of a block of shell, or a piece of code in a sentence.
pub struct Code {
    pub page: PathBuf,
    pub text: String,
    pub is_line: bool,
}

/// What is wrong with the command lines of a program, which begin with these words; and how many there are.
pub fn faults(program: &[&str], command: &Command) -> (Vec<String>, usize) {
    let (mut faults, mut count) = (Vec::new(), 0);
    for Code {
        page,
        text,
        is_line,
    } in code()
    {
        for arguments in invocations(&text, program) {
            let is_meant = arguments.first().is_some_and(|first| {
                first.starts_with('-') || command.find_subcommand(first).is_some()
            });
            // In a sentence also messages begin with the program's name.
            if !is_line && !is_meant {
                continue;
            }
            count += 1;
            if let Some(fault) = fault(command, &arguments, is_line) {
                faults.push(format!("{}: {text}: {fault}", page.display()));
            }
        }
    }
    (faults, count)
}

/// All code in the documentation.
pub fn code() -> Vec<Code> {
    let mut code = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        code.extend(lines(&text).into_iter().map(|(is_line, text)| Code {
            page: page.clone(),
            text,
            is_line,
        }));
    }
    code
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages = Vec::new();
    let mut places: Vec<PathBuf> = DOCUMENTED_PATHS
        .iter()
        .map(|place| root.join(place))
        .collect();
    while let Some(place) = places.pop() {
        if place.is_dir() {
            let entries = fs::read_dir(&place).expect("a folder");
            places.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if place.extension().is_some_and(|extension| extension == "md") {
            pages.push(place);
        }
    }
    assert!(
        pages.len() > DOCUMENTED_PATHS.len(),
        "no pages in {}",
        root.display()
    );
    pages.sort();
    pages
}

/// Lines of blocks of shell, and pieces of code in sentences, with whether it is a line of a block.
fn lines(page: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut sentences = String::new();
    let mut block: Option<&str> = None;
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language),
            (None, Some("sh")) => found.push((true, line.to_owned())),
            (None, Some(_)) => {}
            (None, None) => {
                // A piece of code goes on in the next line, not in the next paragraph.
                let is_next = line.is_empty() || line.starts_with(['|', '-', '#']);
                sentences.push(if is_next { '\n' } else { ' ' });
                sentences.push_str(line);
            }
        }
    }
    for paragraph in sentences.lines() {
        let codes = paragraph.split('`').skip(1).step_by(2);
        // Brackets are around what may be left out; a table's columns are escaped.
        let plain = codes.map(|code| code.replace("\\|", "|").replace(['[', ']'], ""));
        found.extend(plain.map(|code| (false, code)));
    }
    found
}

/// The arguments of each call of the program in a line of shell.
pub fn invocations(line: &str, program: &[&str]) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut words = words(line).into_iter().peekable();
    while words.peek().is_some() {
        let simple: Vec<String> = words
            .by_ref()
            .take_while(|word| !["|", "||", "&&", ";", "&"].contains(&word.as_str()))
            .collect();
        let begins = simple
            .windows(program.len())
            .position(|window| window == program);
        // Only the environment, or what gives rights, may be before it.
        let Some(at) = begins.filter(|at| {
            let before = simple[..*at].iter();
            before
                .clone()
                .all(|word| word == "sudo" || word.contains('='))
        }) else {
            continue;
        };
        let until = simple.iter().position(|word| word.starts_with(['>', '<']));
        let arguments = &simple[at + program.len()..until.unwrap_or(simple.len())];
        found.extend(alternatives(arguments));
    }
    found
}

/// The words of a line of shell: quotes are taken away, a comment is left out.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for character in line.chars() {
        match (character, quote) {
            ('#', None) if word.is_none() => break,
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (_, Some(end)) if end == character => quote = None,
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Each of the command lines that one with `one|other` means.
fn alternatives(arguments: &[String]) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for argument in arguments {
        let mut longer = Vec::new();
        for one in argument.split('|') {
            longer.extend(all.iter().map(|before: &Vec<String>| {
                let mut line = before.clone();
                line.push(one.to_owned());
                line
            }));
        }
        all = longer;
    }
    all
}

/// Why these are no arguments of the program. In a sentence arguments and values may be missing; a value in capitals is any,
/// and a path is one of the reader's machine.
fn fault(command: &Command, arguments: &[String], is_line: bool) -> Option<String> {
    let name = command.get_name().to_owned();
    let words = std::iter::once(&name).chain(arguments);
    let error = command.clone().try_get_matches_from(words).err()?;
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if value.is_empty() => !is_line,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            value.contains('/') || !value.contains(|c: char| c.is_ascii_lowercase())
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !is_line,
        _ => false,
    };
    (!is_fine).then(|| error.to_string())
}
