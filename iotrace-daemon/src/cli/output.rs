//! How a report leaves: as text, JSON or a page, to standard output or into a file.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Write},
    os::{
        fd::AsRawFd as _,
        unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::report::{self, Report};

/// How `record` writes its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Writes a report to standard output.
pub fn print(report: &Report<'_>, format: Format) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let color = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut out = BufWriter::new(stdout.lock());
    match format {
        Format::Text => report::text(report, color, &mut out)?,
        Format::Json => report::json(report, &mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// Writes a file, which others see only when it is whole; one that is there is replaced then.
pub fn save(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> anyhow::Result<()> {
    try_save(path, write).with_context(|| format!("cannot write {}", path.display()))
}

fn try_save(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let there = fs::metadata(path);
    if there.as_ref().is_ok_and(|there| there.is_dir()) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if there.is_ok_and(|there| !there.is_file()) {
        return write(&mut File::options().write(true).open(path)?); // a device or a pipe: never to be replaced
    }
    // A link stays, and what it leads to is replaced.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = beside(&place)?;
    let mut unfinished = nameless(&place).or_else(|_| Unfinished::named(&beside))?;
    write(&mut unfinished.file)?;
    unfinished.file.sync_all()?;
    unfinished.finish(&beside)?;
    fs::rename(&beside, &place).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// A file that is being written, and the name that it has meanwhile, if it has one.
struct Unfinished {
    file: File,
    name: Option<PathBuf>,
}

/// A file without a name in the directory of `place`: however its writer ends, nothing is left behind. Not every
/// filesystem can.
fn nameless(place: &Path) -> io::Result<Unfinished> {
    let directory = match place.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut options = File::options();
    let file = options
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(directory)?;
    Ok(Unfinished { file, name: None })
}

impl Unfinished {
    fn named(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::create_new(path)?,
            name: Some(path.to_owned()),
        })
    }

    /// Gives the whole file this name.
    fn finish(mut self, path: &Path) -> io::Result<()> {
        if self.name.take().is_some() {
            return Ok(());
        }
        let own = CString::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: two strings that end with NUL.
        let linked = unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                own.as_ptr(),
                libc::AT_FDCWD,
                path.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        };
        match linked {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Unfinished {
    /// Half of it is of no use.
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// A name in the same directory that nobody else has.
fn beside(place: &Path) -> io::Result<PathBuf> {
    let name = place.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(place.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

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
