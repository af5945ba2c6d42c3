//! How a report leaves: as text, JSON or a page, to standard output or into a file.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
};

use anyhow::Context as _;
use rustix::fs::FileType;

use crate::{
    directory::{self, Directory},
    report::{self, Report},
};

/// Links that are followed from a file that is to be written, as the kernel follows at most.
const MAX_LINKS: usize = 40;

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
