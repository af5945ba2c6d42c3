//! The head of the text report: what ran, where, how and for how long.

use std::io;

use super::{
    escape::{escape, shorten},
    table::{Page, Style},
    units::duration,
};
use crate::Report;
use iotrace_model::{
    About, Process,
    run::{MergedTime, Run, Target, rfc3339},
};

/// What was traced.
pub fn target(run: &Run) -> String {
    match &run.target {
        Target::Command(command) => command.join(" "),
        Target::Pids(pids) if pids.len() == 1 => format!("process {}", pids[0]),
        Target::Pids(pids) => {
            format!(
                "processes {}",
                pids.iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        Target::All(_) => "all processes".to_owned(),
        Target::Unit(unit) => unit.clone(),
    }
}

/// How long it ran, when, where, and how it ended.
pub fn facts(run: &Run) -> String {
    let start = rfc3339(run.start_unix_ns);
    let start = start.get(..19).unwrap_or(&start).replace('T', " ");
    let mut facts = vec![
        duration(run.duration_ns),
        format!("from {start} UTC"),
        format!("on {}", run.host),
    ];
    facts.insert(
        1,
        run.exit_code
            .map(|code| format!("exit code {code}"))
            .unwrap_or_default(),
    );
    facts.retain(|fact| !fact.is_empty());
    facts.join(", ")
}

/// What ran, where, how and for how long, and which part of it the report is of.
pub fn head(report: &Report<'_>, page: &mut Page<'_>) -> io::Result<()> {
    let run = report.run;
    let what = target(run);
    page.line(Style::Title, &shorten(what.as_bytes(), page.width()))?;
    page.line(Style::Plain, &shorten(facts(run).as_bytes(), page.width()))?;
    let mut how = format!(
        "iotrace {}, Linux {}, {} hooks, detail {}",
        run.iotrace_version, run.kernel, run.hook, run.detail
    );
    if run.merged_time == MergedTime::Exact {
        how += ", merged time exact";
    }
    page.line(Style::Dim, &shorten(how.as_bytes(), page.width()))?;
    match &report.selection {
        Some(selection) => page.prose(Style::Warning, &escape(selection.text().as_bytes())),
        None => Ok(()),
    }
}

/// The command line if it is known, else the program, else its short name.
pub fn words(about: &About) -> Vec<&[u8]> {
    match (about.args.is_empty(), about.exe.is_empty()) {
        (false, _) => about.args.iter().map(Vec::as_slice).collect(),
        (true, false) => vec![&about.exe],
        (true, true) => vec![&about.comm],
    }
}

/// The same as one text.
pub fn command(process: &Process) -> Vec<u8> {
    words(&process.about).join(&b' ')
}
