//! How a report leaves: as text, JSON or a page, to standard output or into a file.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use rustix::{fs::FileType, termios::tcgetwinsize};

use iotrace_recording::directory::{self, Directory};
use iotrace_report::{self, Extent, Layout, Report, SECTIONS};

/// Links that are followed from a file that is to be written, as the kernel follows at most.
const MAX_LINKS: usize = 40;

/// How what has no page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TextOrJson {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// How a comparison of runs is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TextJsonOrHtml {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// A page for a browser.
    Html,
}

impl From<TextJsonOrHtml> for Format {
    fn from(format: TextJsonOrHtml) -> Self {
        match format {
            TextJsonOrHtml::Text => Self::Text,
            TextJsonOrHtml::Json => Self::Json,
            TextJsonOrHtml::Html => Self::Html,
        }
    }
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// The same without the lists of processes, files and intervals.
    JsonSummary,
    /// A page for a browser, with all that it needs in it.
    Html,
}

impl Format {
    /// The one that was given, or that the name of the report's file tells.
    pub fn of(given: Option<Self>, file: Option<&Path>) -> Self {
        given
            .or_else(|| file.and_then(Self::of_name))
            .unwrap_or(Self::Text)
    }

    /// The one that the name of a file tells; `None` for a name that is of no report.
    pub fn of_name(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "html" | "htm" => Some(Self::Html),
            "json" => Some(Self::Json),
            "txt" => Some(Self::Text),
            _ => None,
        }
    }

    /// Refuses a place that the format is not for; `option` names another.
    pub fn check(
        self,
        text: &TextOptions,
        place: &Place,
        option: &'static str,
    ) -> anyhow::Result<()> {
        if self == Self::Html && *place == Place::Stdout && io::stdout().is_terminal() {
            bail!("name a file with {option} FILE: a page is for a browser and not for a terminal");
        }
        if self != Self::Text && text.are_given() {
            bail!(
                "leave out --full and --section, or write --format text: other formats have all sections"
            );
        }
        Ok(())
    }
}

/// How much of a text report is written.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TextOptions {
    /// The whole report, and not only its first screen.
    #[arg(long)]
    full: bool,
    /// Only this section of the whole report; may be given several times.
    #[arg(
        long = "section",
        value_name = "NAME",
        value_delimiter = ',',
        conflicts_with = "full"
    )]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(SECTIONS.iter().map(|section| section.name)))]
    sections: Vec<String>,
}

impl TextOptions {
    pub fn extent(&self) -> Extent {
        match (self.full, self.sections.is_empty()) {
            (true, _) => Extent::Full,
            (false, true) => Extent::Summary,
            (false, false) => Extent::Sections(self.sections.clone()),
        }
    }

    /// Whether more or less than the first screen is asked for.
    pub fn are_given(&self) -> bool {
        self.extent() != Extent::Summary
    }
}

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Stdout,
    Stderr,
    File(PathBuf),
}

impl Place {
    /// As `--report` names it.
    pub fn of(name: &Path) -> Self {
        match name.to_str() {
            Some("-" | "stdout") => Self::Stdout,
            Some("stderr") => Self::Stderr,
            _ => Self::File(name.to_owned()),
        }
    }

    /// Writes a report there.
    pub fn write(
        &self,
        extent: &Extent,
        write: impl Fn(Layout, &mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let to = |layout, mut out: BufWriter<&mut dyn Write>| {
            write(layout, &mut out)?;
            out.flush()
        };
        match self {
            Self::Stdout => {
                let layout = layout(&io::stdout(), extent);
                to(layout, BufWriter::new(&mut io::stdout().lock()))?;
            }
            Self::Stderr => {
                let layout = layout(&io::stderr(), extent);
                to(layout, BufWriter::new(&mut io::stderr().lock()))?;
            }
            Self::File(path) => save(path, |file| write(Layout::plain(columns(extent)), file))?,
        }
        Ok(())
    }
}

/// Writes a report in a format.
pub fn write(
    report: &Report<'_>,
    format: Format,
    extent: &Extent,
    is_complete: bool,
    layout: Layout,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Text => iotrace_report::text(report, extent, layout, out),
        Format::Json => iotrace_report::json(report, out),
        Format::JsonSummary => iotrace_report::summary_json(report, out),
        Format::Html => iotrace_report::html(report, is_complete, out),
    }
}

/// How text looks on a stream: coloured and as wide as a terminal, if it is one.
pub fn layout(stream: &(impl AsFd + IsTerminal), extent: &Extent) -> Layout {
    if !stream.is_terminal() {
        return Layout::plain(columns(extent));
    }
    let width = terminal_columns(stream).unwrap_or_else(|| columns(extent));
    Layout {
        color: std::env::var_os("NO_COLOR").is_none() && !is_dumb(),
        ..Layout::plain(width)
    }
}

/// Columns of a terminal that tells them.
pub fn terminal_columns(stream: &impl AsFd) -> Option<usize> {
    let columns = tcgetwinsize(stream).ok()?.ws_col;
    (columns > 0).then(|| usize::from(columns))
}

/// Whether a terminal shows escape sequences instead of doing what they say.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Columns of a page that is for no terminal: as COLUMNS says.
fn columns(extent: &Extent) -> usize {
    let set = std::env::var("COLUMNS").ok();
    set.and_then(|text| text.parse().ok())
        .unwrap_or(match extent {
            Extent::Summary => Layout::MIN_WIDTH,
            Extent::Full | Extent::Sections(_) => Layout::FULL_WIDTH,
        })
}

/// Writes a file, which others see only when it is complete; an existing one is replaced then.
pub fn save(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> anyhow::Result<()> {
    try_save(path, write).with_context(|| format!("cannot write {}", path.display()))
}

fn try_save(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let (parent, name) = directory::split(&path).ok_or(io::ErrorKind::InvalidFilename)?;
        let directory = Directory::open(parent)?;
        match directory.entry(name)?.map(|entry| directory::kind(&entry)) {
            None | Some(FileType::RegularFile) => return replace(&directory, name, write),
            Some(FileType::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            // A link stays, and what it leads to is replaced: a link that this user or root made, and no other.
            Some(FileType::Symlink) => {
                let target = directory.read_link(name)?;
                if is_special(&path) {
                    return write(&mut directory.open_special(name, true)?);
                }
                path = target;
            }
            // A device or a pipe: never to be replaced.
            Some(_) => return write(&mut directory.open_special(name, false)?),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Refuses a file in a recording that is read: the file may replace a part of the recording.
pub fn check_outside(output: &Path, recordings: &[PathBuf]) -> anyhow::Result<()> {
    let parent = || directory::split(output).and_then(|(parent, _)| parent.canonicalize().ok());
    // What is not there is nowhere: reading or writing it will say so.
    let Some(output_is) = output.canonicalize().ok().or_else(parent) else {
        return Ok(());
    };
    let is_around = |recording: &&PathBuf| {
        let real = recording.canonicalize();
        real.is_ok_and(|real| output_is.starts_with(real))
    };
    match recordings.iter().find(is_around) {
        Some(recording) => bail!(
            "name a file outside the recording {}: {} may replace a part of it",
            recording.display(),
            output.display()
        ),
        None => Ok(()),
    }
}

/// Whether a path leads to a device or a pipe.
pub fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Writes a file under another name, or none, and renames it over this one.
fn replace(
    directory: &Directory,
    name: &OsStr,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(format!(".{}.tmp", std::process::id()));
    let nameless = directory.create_nameless();
    let has_name = nameless.is_err();
    let mut file = nameless.or_else(|_| directory.create(&unfinished))?;
    let written = write(&mut file).and_then(|()| {
        file.sync_all()?;
        if !has_name {
            directory.link(&file, &unfinished)?;
        }
        directory.rename(&unfinished, name)
    });
    written.inspect_err(|_| {
        // Half of it is of no use.
        let _ = directory.remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_in_a_recording_that_is_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (recording, other) = (dir.path().join("a.d"), dir.path().join("a.d.html"));
        fs::create_dir(&recording).unwrap();
        fs::write(recording.join("meta.json"), "{}").unwrap();
        let link = dir.path().join("link");
        symlink(recording.join("meta.json"), &link).unwrap();
        let recordings = [recording.clone()];
        for file in [
            &recording.join("meta.json"),
            &recording.join("new"),
            &link,
            &recording,
        ] {
            let error = check_outside(file, &recordings).unwrap_err().to_string();
            assert!(error.contains("outside the recording"), "{error}");
        }
        for file in [
            other.as_path(),
            Path::new("/dev/null"),
            Path::new("/no/such/file"),
        ] {
            check_outside(file, &recordings).unwrap();
        }
    }

    #[test]
    fn a_file_is_replaced_only_by_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.html");
        save(&path, |file| file.write_all(b"one")).unwrap();
        let half = |file: &mut File| {
            file.write_all(b"tw")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = save(&path, half).unwrap_err();
        assert!(error.to_string().contains("report.html"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let link = dir.path().join("link");
        symlink(&path, &link).unwrap();
        save(&link, |file| file.write_all(b"three")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left behind"
        );
        assert!(save(dir.path(), |_| Ok(())).is_err());
        save(Path::new("/dev/null"), |file| file.write_all(b"gone")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
