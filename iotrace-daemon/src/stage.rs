//! `iotrace report --stage-to`: which files to put on a fast tier, as a list that `rsync --files-from` takes.

use std::{
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context as _, bail};
use serde_json::json;

use super::{output::Place, sizes::parse_size};
use iotrace_report::{
    Extent, Report,
    staging::Staging,
    units::{bytes, count, duration, share},
};

/// One part in this many of the free room of a directory is left free.
const RESERVE_PARTS: u64 = 20;

/// The fast tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Room, bytes.
    Size(u64),
    Directory(PathBuf),
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_size(text) {
            Ok(size) => Ok(Self::Size(size)),
            Err(_) if Path::new(text).is_dir() => Ok(Self::Directory(text.into())),
            Err(error) => Err(format!(
                "name a directory that exists, or a size (10G): {error}"
            )),
        }
    }
}

/// A directory's device, and the room on it.
fn look(directory: &Path) -> io::Result<(u32, u64)> {
    let stat = std::fs::metadata(directory)?;
    let room = rustix::fs::statvfs(directory)?;
    let room = room.f_bavail.saturating_mul(room.f_frsize);
    // As the kernel has it in itself: the minor number in 20 bits.
    let device = libc::major(stat.dev()) << 20 | libc::minor(stat.dev());
    Ok((device, room - room / RESERVE_PARTS))
}

/// Chooses the files, and writes the list to `place` and what it saves to standard error; as JSON both are one object.
pub fn stage(report: &Report<'_>, tier: &Tier, is_json: bool, place: &Place) -> anyhow::Result<()> {
    let (device, room) = match tier {
        Tier::Size(size) => (None, *size),
        Tier::Directory(directory) => {
            let (device, room) = look(directory)
                .with_context(|| format!("cannot look at {}", directory.display()))?;
            (Some(device), room)
        }
    };
    let Some(staging) = report.stage(room, |on| device == Some(on)) else {
        bail!(
            "record without --no-page-cache, on a kernel for which `iotrace check` names the page cache: this recording does not \
             tell which reads came from storage"
        );
    };
    let extent = Extent::Full;
    if is_json {
        return place.write(&extent, |_, out| write_json(report, &staging, room, out));
    }
    place.write(&extent, |_, out| {
        for staged in &staging.files {
            out.write_all(report.model().file(staged.file).path)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    say(report, &staging, room, tier, place);
    Ok(())
}

fn write_json(
    report: &Report<'_>,
    staging: &Staging,
    room: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let files = staging.files.iter().map(|staged| {
        json!({
            "path": String::from_utf8_lossy(report.model().file(staged.file).path),
            "bytes": staged.bytes,
            "storage_seconds": staged.storage_ns as f64 / 1e9,
        })
    });
    let object = json!({
        "room_bytes": room,
        "bytes": staging.bytes,
        "storage_seconds": staging.storage_ns as f64 / 1e9,
        "all_files": staging.all_files,
        "all_storage_seconds": staging.all_storage_ns as f64 / 1e9,
        "saves_at_most_seconds": staging.saves_ns as f64 / 1e9,
        "own_cache_files": staging.own_cache_files,
        "unlistable_files": staging.unlistable,
        "already_there_files": staging.there_files,
        "files": files.collect::<Vec<_>>(),
    });
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

/// Says what the list saves and how to use it.
fn say(report: &Report<'_>, staging: &Staging, room: u64, tier: &Tier, place: &Place) {
    eprintln!(
        "iotrace: {} of {} files that were read from storage, {} of {} room; they have {} of the time of those reads",
        count(staging.files.len() as u64),
        count(staging.all_files),
        bytes(staging.bytes),
        bytes(room),
        share(staging.storage_ns, staging.all_storage_ns.max(1)),
    );
    eprintln!(
        "  saves at most {} of the run ({}), less by what the fast tier takes itself and by the copy",
        duration(staging.saves_ns),
        share(staging.saves_ns, report.run().duration_ns.max(1)),
    );
    if staging.own_cache_files > 0 {
        eprintln!(
            "  {} of the files lie on filesystems with caches of their own: how many of their reads storage served is not known, \
             so all of them count",
            count(staging.own_cache_files)
        );
    }
    if staging.unlistable > 0 {
        eprintln!(
            "  {} files are not in the list: they have no known path, or one with a line feed",
            count(staging.unlistable)
        );
    }
    if staging.there_files > 0 {
        eprintln!(
            "  {} files that were read from storage are on the file system of the directory already, and not in the list",
            count(staging.there_files)
        );
    }
    let to = match tier {
        Tier::Size(_) => "DIRECTORY".to_owned(),
        Tier::Directory(directory) => directory.display().to_string(),
    };
    let list = match place {
        Place::File(file) => file.display().to_string(),
        Place::Stdout | Place::Stderr => "LIST".to_owned(),
    };
    eprintln!("  copy: rsync -a --files-from={list} / {to}/");
}
