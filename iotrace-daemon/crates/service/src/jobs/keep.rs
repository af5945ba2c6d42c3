//! How long logs are kept: by age, and by the size of all; and logs of a service that was killed.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use super::about::About;

/// All logs in a directory: what is four levels deep and ends in `.d`. Links are not followed.
pub fn logs(directory: &Path) -> Vec<PathBuf> {
    let mut level = vec![directory.to_owned()];
    for _ in 0..4 {
        let entries = level.iter().filter_map(|path| fs::read_dir(path).ok());
        let entries = entries.flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        level = directories.map(|entry| entry.path()).collect();
    }
    level.retain(|path| path.extension().is_some_and(|ending| ending == "d"));
    level
}

/// Room of a log on disk, bytes.
fn size(path: &Path, depth: usize) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let about = entry.metadata().ok()?;
        let beneath = match about.is_dir() && depth > 0 {
            true => size(&entry.path(), depth - 1),
            false => 0,
        };
        Some(about.blocks() * 512 + beneath)
    });
    sizes.sum()
}

/// Removes the logs older than `age`, and the oldest until all take `max_bytes` at most; never one in `open`. Returns how
/// many were removed.
pub fn remove_old(directory: &Path, open: &HashSet<PathBuf>, age: Duration, max_bytes: u64) -> u64 {
    let now = SystemTime::now();
    let mut all: Vec<(SystemTime, PathBuf, u64)> = logs(directory)
        .into_iter()
        .filter_map(|path| {
            let modified = fs::symlink_metadata(&path).ok()?.modified().ok()?;
            let bytes = size(&path, 1);
            Some((modified, path, bytes))
        })
        .collect();
    all.sort_unstable();
    let mut bytes: u64 = all.iter().map(|(.., bytes)| bytes).sum();
    let mut removed = 0;
    for (modified, path, of_log) in all {
        let is_old = now.duration_since(modified).is_ok_and(|old| old >= age);
        if open.contains(&path) || !is_old && bytes <= max_bytes {
            continue;
        }
        // It follows no link.
        match fs::remove_dir_all(&path) {
            Ok(()) => {
                removed += 1;
                bytes = bytes.saturating_sub(of_log);
            }
            Err(error) => log::warn!("job logs: {} is not removed: {error}", path.display()),
        }
        // Directories of dates, once they are empty.
        for parent in path.ancestors().skip(1).take(3) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    removed
}

/// Gives the logs of a service that was killed to their users.
pub fn give_to_users(directory: &Path) {
    let own = iotrace_recording::directory::effective_user();
    for path in logs(directory) {
        let is_own = fs::symlink_metadata(&path).is_ok_and(|about| about.uid() == own);
        let user = About::read(&path).and_then(|about| about.user);
        if let Some(user) = user.filter(|user| is_own && *user != own)
            && let Err(error) = give(&path, user)
        {
            log::warn!("job logs: {} stays the service's: {error}", path.display());
        }
    }
}

/// Makes a log the user's. What is in it comes first: as long as the directory is not the user's, nobody else can put
/// anything there.
pub fn give(path: &Path, user: u32) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    give_content(&directory, user, 1)?;
    rustix::fs::fchown(&directory, Some(Uid::from_raw(user)), None::<Gid>)
}

fn give_content(
    directory: &impl std::os::fd::AsFd,
    user: u32,
    depth: usize,
) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if depth > 0 && entry.file_type() == FileType::Directory {
            let beneath = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            give_content(&beneath, user, depth - 1)?;
        }
        let user = Some(Uid::from_raw(user));
        rustix::fs::chownat(directory, name, user, None, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}
