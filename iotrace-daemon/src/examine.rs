//! `iotrace examine-log`: in a child of the service, what is made of a job log that has ended.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

use super::config::Sorting;
use iotrace_export::{Export, Names, Selection, darshan};
use iotrace_recording::{Directory, Job, memory::disk};
use iotrace_report::Report;
use iotrace_service::{
    config::JobFormat,
    jobs::{
        about::{self, About, Found},
        examine,
    },
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The log.
    log: PathBuf,
    /// Whose it is.
    #[arg(long)]
    user: u32,
    /// Also make a file of this format.
    #[arg(long = "format", value_parser = |name: &str| JobFormat::of_name(name).ok_or("no such format"))]
    formats: Vec<JobFormat>,
    /// Remove the recording.
    #[arg(long)]
    no_recording: bool,
    #[arg(long)]
    rules: Option<PathBuf>,
}

/// Runs it: says on standard output which formats it has made.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // What only the service may read and make comes before the log is read.
    let sorting = Sorting::read(args.rules.as_deref())?;
    let mut files = Vec::new();
    for format in args.formats.iter().copied() {
        let file = examine::create(&args.log, format, args.user)
            .with_context(|| format!("cannot make the file of the format {}", format.name()))?;
        files.push((format, file));
    }
    examine::confine(args.user).context("cannot drop privileges")?;
    disk::begin(Some(examine::MEMORY_BYTES));
    let job = iotrace_recording::read_job(std::slice::from_ref(&args.log))?;
    let report = Report::with(
        &job.model,
        &job.run,
        &sorting.classifier,
        &sorting.thresholds,
    );
    let report = report.of_nodes(&job.nodes);
    describe(&args.log, &report)?;
    let mut are_all_made = true;
    for (format, file) in files {
        match write(format, file, &job, &report, &sorting) {
            Ok(()) => println!("{}", format.name()),
            // A job that used no file has no Darshan log.
            Err(error) if matches!(error.downcast_ref(), Some(darshan::Error::Empty)) => {}
            Err(error) => {
                are_all_made = false;
                eprintln!("{}: {error:#}", format.name());
            }
        }
    }
    if are_all_made && args.no_recording {
        remove_recording(&args.log)?;
    }
    Ok(match are_all_made {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn write(
    format: JobFormat,
    file: File,
    job: &Job,
    report: &Report<'_>,
    sorting: &Sorting,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    match format {
        JobFormat::Recording => anyhow::bail!("the recording is the log itself"),
        JobFormat::Darshan => {
            let selection = Selection::new(&[], &[]).map_err(anyhow::Error::msg)?;
            let names = Names::plain();
            let export = Export::new(job, &sorting.classifier, &selection, &names);
            out.write_all(&darshan::log(&export, darshan::MOST_RECORDS)?)?;
        }
        JobFormat::Html => iotrace_report::html(report, true, &mut out)?,
        JobFormat::Json => iotrace_report::summary_json(report, &mut out)?,
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(file.sync_all()?)
}

/// Writes verdict and findings into the log.
fn describe(log: &Path, report: &Report<'_>) -> anyhow::Result<()> {
    let mut about = About::read(log).context("the log has no job.json that can be read")?;
    about.verdict = report.verdict().into();
    let mut findings: Vec<_> = report.analysis().findings.iter().collect();
    let weight = |saving: &iotrace_analysis::findings::Saving| (saving.severity, saving.confidence);
    // Stable: they come with what saves most first.
    findings.sort_by_key(|finding| std::cmp::Reverse(weight(&finding.saving)));
    let mut named = HashSet::new();
    findings.retain(|finding| named.insert(finding.code));
    let found = findings.into_iter().map(|finding| Found {
        code: finding.code.into(),
        severity: finding.saving.severity.name().into(),
        confidence: finding.saving.confidence.name().into(),
    });
    about.findings = found.collect();
    let directory = Directory::open(log)?;
    about.write(&directory).context("cannot write job.json")
}

/// Removes all of a log but what describes it.
fn remove_recording(log: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(log)? {
        let entry = entry?;
        if entry.file_name() == OsStr::new(about::FILE_NAME) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
