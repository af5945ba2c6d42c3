//! `iotrace export`: a recording in the format of another tool.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail};

use super::{
    meter::Meter,
    newest,
    output::{check_outside, is_special, save},
    phases,
    report::warn_incomplete,
    sizes::parse_size,
};
use iotrace_analysis::part::Part;
use iotrace_export::{
    Export, Names, Selection, chrome, darshan,
    table::{self, By, Encoding},
    tensorboard,
};
use iotrace_phases::{
    Classifier,
    path_glob::{FileChoice, PathGlob},
};
use iotrace_recording::memory::disk;
use iotrace_recording::{self, Job};
use iotrace_report::escape::escape;

/// Formats of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A log that Darshan's tools and PyDarshan read; the recording must have detail full.
    Darshan,
    /// Trace events, gzipped, for Perfetto and TensorBoard's trace viewer.
    Chrome,
    /// Event files for TensorBoard: curves of bandwidth, merged time and checkpoints, and histograms of access sizes.
    Tensorboard,
    /// Comma-separated values, with a line of names.
    Csv,
    /// One JSON object with a list of rows.
    Json,
}

impl Format {
    fn is_binary(self) -> bool {
        matches!(self, Self::Darshan | Self::Chrome | Self::Tensorboard)
    }
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording's directory; those of several nodes make one job [default: the newest recording here]
    #[arg(value_name = "DIR")]
    recordings: Vec<PathBuf>,
    /// What to write.
    #[arg(short, long, value_enum)]
    format: Format,
    /// Write to this file [default: standard output]. Of tensorboard it may be a directory, which is made where it is not
    /// there.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    force: bool,
    /// What one row of csv and json is of [default: file]
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Most records of files in a darshan log: readers get slow with many. The files with the fewest bytes beyond are
    /// folded by directory.
    #[arg(long, value_name = "NUMBER", default_value_t = darshan::MOST_RECORDS, value_parser = most_records)]
    max_records: usize,
    /// Only these phases, or classes of `other`: training, checkpoint, log...; may be given more than once.
    #[arg(long = "phase", value_name = "PHASE")]
    phases: Vec<String>,
    /// Only these processes; may be given more than once.
    #[arg(long = "process", value_name = "PID")]
    pids: Vec<u32>,
    /// Only files whose whole path this glob matches, as in `iotrace report`; may be given several times.
    #[arg(long, value_name = "GLOB")]
    include: Vec<PathGlob>,
    /// Without files whose whole path this glob matches, even if --include does; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<PathGlob>,
    /// Replace paths, hosts, program names and command lines by a hash, under a key that is thrown away.
    #[arg(long)]
    anonymize: bool,
    /// Most memory that a recording may take, e.g. 500M: the rest is kept in a file on disk, in TMPDIR or /var/tmp
    /// [default: half of what is available]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Rules that come before the built-in ones [default: iotrace.toml here, or in /etc/iotrace]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

fn most_records(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| "it is no number".to_owned())?;
    if number < 2 {
        return Err("it must be 2 or more".into());
    }
    Ok(number)
}

/// Runs `iotrace export`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.by.is_some() && args.format.is_binary() {
        bail!(
            "leave out --by, or export --format csv or json: it chooses what a row is of, and darshan, chrome and \
             tensorboard have no rows"
        );
    }
    if let Some(output) = &args.output {
        if args.format != Format::Tensorboard {
            check_place(output, args.force)?;
        }
    } else if args.format.is_binary() && io::stdout().is_terminal() {
        bail!("this format is not for a terminal: name a file with --output FILE");
    }
    let selection = Selection::new(&args.pids, &args.phases).map_err(|name| {
        anyhow::anyhow!("there is no phase {name:?}: `iotrace phases list` names them")
    })?;
    let classifier = phases::compile(args.rules.as_deref())?;
    disk::begin(args.memory);
    let mut meter = Meter::new();
    let tell = |done, whole| meter.part("reading", done, whole);
    let recordings = newest::or_newest(&args.recordings)?;
    if let Some(output) = &args.output {
        check_outside(output, &recordings)?;
    }
    let mut job = iotrace_recording::read_job_and_tell(&recordings, tell)?;
    warn_incomplete(&job.nodes, "what is exported is");
    let by = args.by.unwrap_or(By::File);
    if by == By::Operation {
        needs_trace(&job)?;
    }
    let there = job.model.processes();
    for pid in selection.pids() {
        if !there.iter().any(|process| process.id.pid == *pid) {
            bail!("no process {pid} was recorded: `iotrace report` lists those that were");
        }
    }
    let names = if args.anonymize {
        Names::anonymous()
    } else {
        Names::plain()
    };
    let choice = FileChoice {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
    };
    let part = part(&choice, &mut job, &classifier)?;
    let export = Export::of_part(&job, part, &selection, &names);
    // Made before the file is: not every recording can be one.
    let log = match args.format {
        Format::Darshan => darshan::log(&export, args.max_records)?,
        _ => Vec::new(),
    };
    if args.output.is_none() && io::stdout().is_terminal() {
        meter.off(); // what is written goes there
    }
    let mut write = |out: &mut dyn Write| {
        let out = meter.over("writing", out);
        let mut out = BufWriter::with_capacity(1 << 16, out);
        match args.format {
            Format::Darshan => out.write_all(&log)?,
            Format::Chrome => chrome::write(&export, &mut out)?,
            Format::Tensorboard => tensorboard::write(&export, &mut out)?,
            Format::Csv => table::write(&export, by, Encoding::Csv, &mut out)?,
            Format::Json => table::write(&export, by, Encoding::Json, &mut out)?,
        }
        out.flush()
    };
    match &args.output {
        Some(output) if args.format == Format::Tensorboard => {
            let output = event_file(output, &export)?;
            check_place(&output, args.force)?;
            save(&output, |file| write(file))?;
        }
        Some(output) => save(output, |file| write(file))?,
        None if args.format == Format::Csv && io::stdout().is_terminal() => {
            write(&mut Escaped::new(io::stdout().lock()))?;
        }
        None => write(&mut io::stdout().lock())?,
    }
    if let Some((directory, error)) = disk::failure() {
        log::warn!(
            "{} has no room for what was more than --memory allows ({error}): it was kept in memory; name another \
             directory by TMPDIR",
            directory.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines for a terminal: what would control it is escaped, because the traced programs chose the names.
struct Escaped<W> {
    out: W,
    /// The line that has not ended yet.
    line: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            line: Vec::new(),
        }
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.pop_if(|last| *last == b'\n').is_some() {
                writeln!(self.out, "{}", escape(&self.line))?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(escape(&line).as_bytes())?;
        self.out.flush()
    }
}

/// The chosen files of a job, of which there must be some.
fn part(choice: &FileChoice, job: &mut Job, classifier: &Classifier) -> anyhow::Result<Part> {
    if choice.is_everything() {
        return Ok(Part::whole(&job.model, &job.run, classifier));
    }
    let part = Part::new(choice, &mut job.model, &mut job.run, classifier);
    if job.model.rows().is_empty() {
        bail!(
            "write other globs: --include and --exclude choose none of the recorded files. A glob matches a whole path \
             (`/data/**`, `**/train/*`) or, without a slash, a base name (`*.pt`); `iotrace report --by file` lists the files"
        );
    }
    Ok(part)
}

/// Fails where operations are asked for that nobody can have.
fn needs_trace(job: &Job) -> anyhow::Result<()> {
    match job.nodes.iter().find(|node| node.run.trace.is_none()) {
        Some(node) => bail!(
            "{} has no operation trace: `iotrace record --trace` keeps one",
            node.directory.display()
        ),
        None => Ok(()),
    }
}

/// Fails if the export would overwrite something that must not be replaced.
fn check_place(output: &Path, force: bool) -> anyhow::Result<()> {
    if is_special(output) {
        return Ok(());
    }
    match fs::symlink_metadata(output) {
        Ok(there) if there.is_dir() => {
            bail!("{} is a directory: name a file in it", output.display())
        }
        Ok(_) if !force => {
            bail!(
                "{} is there already: name another file, or replace it with --force",
                output.display()
            )
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot write {}", output.display()))
        }
        _ => Ok(()),
    }
}

/// The file that TensorBoard finds: the one that was named, or one in the directory that was.
fn event_file(output: &Path, export: &Export<'_>) -> anyhow::Result<PathBuf> {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    if tensorboard::is_file_name(&name) && !output.is_dir() {
        return Ok(output.to_owned());
    }
    fs::create_dir_all(output).with_context(|| {
        format!(
            "{} cannot be made a directory: name one, or a file with tfevents in its name",
            output.display()
        )
    })?;
    Ok(output.join(tensorboard::file_name(export)))
}
