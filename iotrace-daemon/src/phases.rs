//! `iotrace phases`: the rules that sort files into phases, what they say of a path, and whether a file of them is good.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io::{self, Write},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Subcommand, ValueEnum};

use super::config;
use iotrace_phases::{
    Classifier, check,
    dfa::TooLarge,
    phase::Direction,
    rules::{Problem, Rule, RuleSet, RulesError},
};
use iotrace_report::escape;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List all rules in the order in which they are tried.
    List {
        /// Rules that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Say which phase files belong to, which rule says so, and which others match.
    Explain {
        /// Paths as in reports: absolute, with links resolved; a directory with a trailing /.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<OsString>,
        /// Only when read, or only when written.
        #[arg(long, value_enum)]
        direction: Option<Used>,
        /// Type of the filesystem that the paths are on, e.g. nfs.
        #[arg(long, value_name = "TYPE", default_value = "")]
        fs_type: String,
        /// Rules that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    /// Check a file of rules: what cannot be read, and rules that can never win.
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Used {
    Read,
    Write,
}

/// Runs `iotrace phases`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match &args.command {
        Command::List { rules } => list(&read(rules.as_deref())?, &mut out)?,
        Command::Explain {
            paths,
            direction,
            fs_type,
            rules,
        } => {
            let classifier = compile(rules.as_deref())?;
            let directions = match direction {
                None => Direction::ALL.to_vec(),
                Some(Used::Read) => vec![Direction::Read],
                Some(Used::Write) => vec![Direction::Write],
            };
            for path in paths {
                explain(&classifier, path.as_bytes(), fs_type, &directions, &mut out)?;
            }
        }
        Command::Check { file } => return check_file(file, &mut out),
    }
    Ok(ExitCode::SUCCESS)
}

/// The rules of the user's file where there is one, and the built-in ones behind them.
fn read(file: Option<&Path>) -> Result<RuleSet, RulesError> {
    match config::file(file) {
        Some(file) => RuleSet::read(&file)?.with_builtin(),
        None => RuleSet::builtin(),
    }
}

/// The same, compiled.
pub fn compile(file: Option<&Path>) -> Result<Classifier, RulesError> {
    Classifier::new(read(file)?)
}

fn list(rules: &RuleSet, out: &mut impl Write) -> io::Result<()> {
    for (index, rule) in rules.all().iter().enumerate() {
        let name = escape(rule.name.as_bytes());
        let phase = rule.phase.to_string();
        let used = match rule.direction_name() {
            "any" => "read or written",
            "read" => "read",
            _ => "written",
        };
        writeln!(
            out,
            "{:3}  {name:28} {phase:16} {used}, {}",
            index + 1,
            place(rule)
        )?;
        if !rule.fs_types.is_empty() {
            writeln!(out, "       on {}", rule.fs_types.join(", "))?;
        }
        for glob in &rule.globs {
            writeln!(out, "       {}", escape(glob.text().as_bytes()))?;
        }
    }
    Ok(())
}

/// Where a rule is defined.
fn place(rule: &Rule) -> String {
    if rule.origin.is_builtin {
        rule.origin.file.clone()
    } else {
        format!(
            "{}:{}",
            escape(rule.origin.file.as_bytes()),
            rule.origin.line
        )
    }
}

fn explain(
    classifier: &Classifier,
    path: &[u8],
    fs_type: &str,
    directions: &[Direction],
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}", escape(path))?;
    let (path, is_directory) = match path.strip_suffix(b"/") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let verdict = classifier.verdict(path, is_directory, fs_type);
    let matches = classifier.matches(path, is_directory, fs_type);
    for direction in directions {
        let used = match direction {
            Direction::Read => "read",
            Direction::Write => "written",
        };
        let phase = verdict.phase(*direction);
        writeln!(out, "  {used}: {phase}")?;
        let mut concerned = matches
            .iter()
            .filter(|found| classifier.rules().all()[found.rule].directions[direction.index()]);
        match concerned.next() {
            Some(found) => writeln!(out, "    by {}", named(classifier, found.rule, found.glob))?,
            None => writeln!(out, "    no rule matches")?,
        }
        for found in concerned {
            let would = classifier.rules().all()[found.rule].phase.used(*direction);
            let name = named(classifier, found.rule, found.glob);
            writeln!(out, "    also {name}: {would}")?;
        }
    }
    Ok(())
}

fn named(classifier: &Classifier, rule: usize, glob: &str) -> String {
    let rule = &classifier.rules().all()[rule];
    format!(
        "{} ({}) by {}",
        escape(rule.name.as_bytes()),
        place(rule),
        escape(glob.as_bytes())
    )
}

fn check_file(file: &Path, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let problems = match RuleSet::read(file) {
        Ok(rules) => problems(&rules)?,
        Err(RulesError::Wrong(problems)) => problems,
        Err(error) => return Err(error.into()),
    };
    for problem in &problems {
        writeln!(out, "{}", escape(problem.to_string().as_bytes()))?;
    }
    if problems.is_empty() {
        writeln!(out, "{}: all rules are good", file.display())?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// What is wrong with rules that can be read.
fn problems(rules: &RuleSet) -> Result<Vec<Problem>, RulesError> {
    let all = rules.all();
    // The rules must fit beside the built-in ones too.
    Classifier::new(rules.clone().with_builtin()?)?;
    let shadowed = match check::unreachable(all) {
        Err(TooLarge::Time) => {
            log::warn!("whether each rule can win takes too long to find out: check fewer of them");
            Vec::new()
        }
        shadowed => shadowed?,
    };
    let problem = |found: &check::Unreachable| {
        let rule = &all[found.rule];
        let by: BTreeSet<String> = found
            .by
            .iter()
            .map(|by| format!("{:?} in line {}", all[*by].name, all[*by].origin.line))
            .collect();
        let by: Vec<String> = by.into_iter().collect();
        Problem {
            file: rule.origin.file.clone(),
            line: rule.origin.line,
            text: format!(
                "rule {:?} never wins: every path that it matches has an earlier rule, {}; put it before, or \
                 take it out",
                rule.name,
                by.join(" and ")
            ),
        }
    };
    Ok(shadowed.iter().map(problem).collect())
}
