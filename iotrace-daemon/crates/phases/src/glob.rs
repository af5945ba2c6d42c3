//! Globs as gitignore's users know them, translated to regular expressions over bytes.
//!
//! ```text
//! /usr/lib/**     absolute: everything beneath /usr/lib
//! *.pt            no slash: the base name, in any directory
//! wandb/          everything beneath any directory of that name, as is **/wandb/**
//! data/*.bin      not absolute: at any depth, as is **/data/*.bin
//! a/**/b          any number of directories between, none included
//! ```
//!
//! `*` and `?` stop at `/`, `?` is one byte, `[a-z]` and `[!a-z]` are one byte that is not `/`, `{a,b}` is either,
//! and a backslash takes the next character as it is. Directories are matched as paths that end in `/`.

/// Deepest nesting of braces.
const MAX_DEPTH: usize = 32;

/// Why a text is no glob, with the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("the glob is empty: write ** for every path")]
    Empty,
    #[error(
        "a glob cannot be negated: put a rule with another phase before this one, choose files with --exclude, or write \\! for a \
         name that starts with !"
    )]
    Negated,
    #[error("~ is not expanded: write the directory out, or /home/* for everyone's")]
    Home,
    #[error("paths have no {0:?}: leave it out")]
    Component(&'static str),
    #[error("[ is not closed: add ], or write \\[ for the character")]
    OpenClass,
    #[error("the range {0}-{1} is empty: swap its ends")]
    Range(char, char),
    #[error("[...] matches one byte, and {0:?} is not one: write {{a,b}} for longer characters")]
    NotAByte(char),
    #[error("[...] matches no character: a glob's [...] never matches /")]
    EmptyClass,
    #[error("{{ is not closed: add }}, or write \\{{ for the character")]
    OpenBrace,
    #[error("** within {{...}} is not understood: write two globs")]
    StarsInBrace,
    #[error("braces are nested more than {MAX_DEPTH} deep: write several globs")]
    DeepBraces,
    #[error("the glob ends in a backslash: write \\\\ for the character")]
    Backslash,
}

/// One glob, as a regular expression in parts, so that globs of the same form share theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    form: Form,
    /// The regular expression between what `form` says.
    core: String,
}

/// What surrounds the core of a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form {
    /// Any directories before.
    pub anywhere: bool,
    /// Any path beneath.
    pub beneath: bool,
    /// `**` within: such globs are compiled one by one, or their automata multiply.
    pub crosses: bool,
}

impl Form {
    /// The regular expression of globs of this form, by their cores.
    pub fn regex(self, cores: &[&str]) -> String {
        let before = if self.anywhere { "(?:.*/)?" } else { "" };
        let after = if self.beneath { "/.*" } else { "" };
        format!("{before}(?:{}){after}", cores.join("|"))
    }
}

impl Glob {
    /// Reads a glob.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let (rest, anywhere) = strip_front(text)?;
        let (rest, beneath) = strip_back(rest, anywhere);
        if rest.is_empty() {
            return Ok(Self::everything(text, anywhere, beneath));
        }
        check_components(rest)?;
        let mut parser = Parser {
            rest,
            out: String::new(),
            crosses: false,
        };
        parser.sequence(0)?;
        let (core, crosses) = (parser.out, parser.crosses);
        Ok(Self {
            text: text.to_owned(),
            form: Form {
                anywhere,
                beneath,
                crosses,
            },
            core,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What surrounds its core.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The regular expression within its form.
    pub fn core(&self) -> &str {
        &self.core
    }

    /// `**`, which matches every path, and `/**`, which matches every absolute one.
    fn everything(text: &str, anywhere: bool, beneath: bool) -> Self {
        let core = if anywhere { ".*" } else { "" };
        Self {
            text: text.to_owned(),
            form: Form {
                anywhere: false,
                beneath: beneath && !anywhere,
                crosses: true,
            },
            core: core.to_owned(),
        }
    }
}

/// What follows the leading `**/`, and whether the glob matches at any depth.
fn strip_front(text: &str) -> Result<(&str, bool), GlobError> {
    match text.as_bytes() {
        [] => return Err(GlobError::Empty),
        [b'!', ..] => return Err(GlobError::Negated),
        b"~" | [b'~', b'/', ..] => return Err(GlobError::Home),
        _ => {}
    }
    let mut rest = text;
    let mut anywhere = !text.starts_with('/');
    loop {
        if rest == "**" || rest == "/**" && anywhere {
            return Ok(("", anywhere));
        }
        match rest
            .strip_prefix("**/")
            .or_else(|| rest.strip_prefix("/**/"))
        {
            Some("") => return Ok(("", true)),
            Some(next) => (rest, anywhere) = (next, true),
            None => return Ok((rest, anywhere)),
        }
    }
}

/// The text before the trailing `/` or `/**`, and whether there was one.
fn strip_back(text: &str, anywhere: bool) -> (&str, bool) {
    let mut rest = text;
    let mut beneath = false;
    while let Some(next) = rest.strip_suffix("/**").or_else(|| {
        rest.strip_suffix('/')
            .filter(|next| !next.ends_with('\\') && !next.ends_with('/'))
    }) {
        (rest, beneath) = (next, true);
        if rest.is_empty() && !anywhere {
            break;
        }
    }
    (rest, beneath)
}

fn check_components(text: &str) -> Result<(), GlobError> {
    for (index, component) in text.split('/').enumerate() {
        match component {
            "" if index > 0 => return Err(GlobError::Component("//")),
            "." => return Err(GlobError::Component(".")),
            ".." => return Err(GlobError::Component("..")),
            _ => {}
        }
    }
    Ok(())
}

struct Parser<'a> {
    rest: &'a str,
    out: String,
    crosses: bool,
}

impl Parser<'_> {
    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        Some(next)
    }

    /// A sequence up to the end of the text or, within braces, to what ends this alternative, which is left.
    fn sequence(&mut self, depth: usize) -> Result<(), GlobError> {
        loop {
            if depth > 0 && self.rest.starts_with([',', '}']) {
                return Ok(());
            }
            let Some(c) = self.take() else {
                return if depth == 0 {
                    Ok(())
                } else {
                    Err(GlobError::OpenBrace)
                };
            };
            match c {
                '*' => self.stars(depth)?,
                '?' => self.out.push_str("[^/]"),
                '[' => self.class()?,
                '{' => self.brace(depth)?,
                '\\' => {
                    let next = self.take().ok_or(GlobError::Backslash)?;
                    self.literal(next);
                }
                c => self.literal(c),
            }
        }
    }

    /// The first star is taken. `**` between slashes is any number of directories; other stars are one star.
    fn stars(&mut self, depth: usize) -> Result<(), GlobError> {
        let more = self.rest.trim_start_matches('*');
        let two = self.rest.len() - more.len() == 1;
        self.rest = more;
        if two && depth > 0 {
            return Err(GlobError::StarsInBrace);
        }
        if two && self.out.ends_with('/') && more.starts_with('/') {
            let mut more = more;
            while let Some(next) = more
                .strip_prefix("/**")
                .filter(|next| next.starts_with('/'))
            {
                more = next; // any number of directories, twice
            }
            self.rest = &more[1..];
            self.out.push_str("(?:.*/)?");
            self.crosses = true;
        } else {
            self.out.push_str("[^/]*");
        }
        Ok(())
    }

    fn brace(&mut self, depth: usize) -> Result<(), GlobError> {
        if depth == MAX_DEPTH {
            return Err(GlobError::DeepBraces);
        }
        self.out.push_str("(?:");
        loop {
            self.sequence(depth + 1)?;
            match self.take() {
                Some(',') => self.out.push('|'),
                Some(_) => break,
                None => return Err(GlobError::OpenBrace),
            }
        }
        self.out.push(')');
        Ok(())
    }

    fn class(&mut self) -> Result<(), GlobError> {
        let negated = self.rest.starts_with(['!', '^']);
        if negated {
            self.take();
        }
        let mut set = [false; 128];
        let mut first = true;
        loop {
            let low = match self.take().ok_or(GlobError::OpenClass)? {
                ']' if !first => break,
                '\\' => self.take().ok_or(GlobError::OpenClass)?,
                c => c,
            };
            first = false;
            let mut high = low;
            let mut ahead = self.rest.chars();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                self.take();
                high = match self.take().ok_or(GlobError::OpenClass)? {
                    '\\' => self.take().ok_or(GlobError::OpenClass)?,
                    c => c,
                };
            }
            add_range(&mut set, low, high)?;
        }
        self.push_class(&set, negated)
    }

    fn push_class(&mut self, set: &[bool; 128], negated: bool) -> Result<(), GlobError> {
        let named = set
            .iter()
            .enumerate()
            .filter(|(byte, is_in)| **is_in && *byte != usize::from(b'/'));
        let named: String = named.map(|(byte, _)| format!("\\x{byte:02x}")).collect();
        match (negated, named.is_empty()) {
            (false, true) => return Err(GlobError::EmptyClass),
            (false, false) => self.out.push_str(&format!("[{named}]")),
            (true, _) => self.out.push_str(&format!("[^/{named}]")),
        }
        Ok(())
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || matches!(c, '/' | '_') || !c.is_ascii() {
            self.out.push(c);
        } else {
            self.out.push_str(&format!("\\x{:02x}", u32::from(c)));
        }
    }
}

fn add_range(set: &mut [bool; 128], low: char, high: char) -> Result<(), GlobError> {
    if let Some(c) = [low, high].into_iter().find(|c| !c.is_ascii()) {
        return Err(GlobError::NotAByte(c));
    }
    if low > high {
        return Err(GlobError::Range(low, high));
    }
    set[low as usize..=high as usize].fill(true);
    Ok(())
}
