//! How long logs are kept: by age, and by the size of all; and logs of a service that was killed.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use iotrace_recording::directory::effective_user;
use rustix::{
    fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, openat2},
    thread::{CapabilitySet, capabilities},
};

use super::{about::About, examine::format_files, name};

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

/// Room of a file on disk, bytes; 0 if it is not there.
fn room(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |about| about.blocks() * 512)
}

/// A log on disk.
struct Kept {
    path: PathBuf,
    /// Of the directory.
    owner: u32,
    modified: SystemTime,
    bytes: u64,
}

impl Kept {
    fn of(path: PathBuf) -> Option<Self> {
        let about = fs::symlink_metadata(&path).ok()?;
        Some(Self {
            owner: about.uid(),
            modified: about.modified().ok()?,
            bytes: size(&path, 1)
                + format_files(&path)
                    .iter()
                    .map(|path| room(path))
                    .sum::<u64>(),
            path,
        })
    }
}

/// Removes the logs older than `age`. If the others take more than `max_bytes`, the oldest log of the user whose logs take most
/// goes, and again until they do not: a user can write to logs that have ended, and so loses none but their own. Never removes
/// one in `open`. Returns how many were removed.
pub fn remove_old(directory: &Path, open: &HashSet<PathBuf>, age: Duration, max_bytes: u64) -> u64 {
    let now = SystemTime::now();
    let is_old = |log: &Kept| now.duration_since(log.modified).is_ok_and(|old| old >= age);
    // A user may empty a log, and not remove it.
    let is_empty = |log: &Kept| fs::read_dir(&log.path).is_ok_and(|mut all| all.next().is_none());
    let all = logs(directory).into_iter().filter_map(Kept::of);
    let mut by_owner: BTreeMap<u32, u64> = BTreeMap::new();
    let mut old = Vec::new();
    let mut kept = Vec::new();
    for log in all {
        match !open.contains(&log.path) && (is_old(&log) || is_empty(&log)) {
            true => old.push(log.path),
            false => {
                *by_owner.entry(log.owner).or_default() += log.bytes;
                kept.push(log);
            }
        }
    }
    let mut removed: u64 = old.iter().map(|path| u64::from(remove(path))).sum();
    // The oldest is the last.
    kept.retain(|log| !open.contains(&log.path));
    kept.sort_by(|one, other| (other.modified, &other.path).cmp(&(one.modified, &one.path)));
    while by_owner.values().sum::<u64>() > max_bytes {
        let has_log = |owner: &u32| kept.iter().any(|log| log.owner == *owner);
        let owners = by_owner.iter().filter(|(owner, _)| has_log(owner));
        let Some((owner, _)) = owners.max_by_key(|(_, bytes)| **bytes) else {
            break;
        };
        let owner = *owner;
        let Some(place) = kept.iter().rposition(|log| log.owner == owner) else {
            break;
        };
        let log = kept.remove(place);
        removed += u64::from(remove(&log.path));
        if let Some(bytes) = by_owner.get_mut(&owner) {
            *bytes = bytes.saturating_sub(log.bytes);
        }
    }
    removed
}

/// What a log says of itself, as far as its user cannot have made it up; `None` where it is damaged, or says that it is of another
/// unit than its name does.
pub fn about(directory: &Path, log: &Path) -> Option<About> {
    let owner = |path: &Path| Some(fs::symlink_metadata(path).ok()?.uid());
    let mut about = About::read(log).filter(|about| name::is_of(log, about))?;
    let (service, owner) = (owner(directory)?, owner(log)?);
    // Who writes to a log that is not the service's any more says whose it is.
    if owner != service && owner != 0 {
        about.user = Some(owner);
    }
    Some(about)
}

/// A log by the directory that it is in, held open: whoever may write to a directory of a date could put a link in its place.
pub struct Held {
    day: OwnedFd,
    name: PathBuf,
}

impl Held {
    /// Opens the directory of a log that is in a directory of logs. No link below that is followed.
    pub fn new(log: &Path) -> io::Result<Self> {
        let parts = || {
            Some((
                log.parent()?,
                log.parent()?.ancestors().nth(3)?,
                log.file_name()?,
            ))
        };
        let (day, base, name) = parts().ok_or(io::ErrorKind::InvalidInput)?;
        let below = day.strip_prefix(base).map_err(io::Error::other)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(base, flags, Mode::empty())?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(Self {
            day: openat2(&base, below, flags, Mode::empty(), resolve)?,
            name: name.into(),
        })
    }

    /// A path of the log that leads to no other one.
    pub fn path(&self) -> PathBuf {
        let day = format!("/proc/self/fd/{}", self.day.as_raw_fd());
        Path::new(&day).join(&self.name)
    }
}

/// Removes a log; whether that was possible.
fn remove(log: &Path) -> bool {
    let removed = Held::new(log).and_then(|held| {
        for path in format_files(&held.path()) {
            // Most are not there.
            let _ = fs::remove_file(path);
        }
        // It follows no link.
        fs::remove_dir_all(held.path())
    });
    if let Err(error) = removed {
        log::warn!("job logs: {} is not removed: {error}", log.display());
        return false;
    }
    // Directories of dates, once they are empty.
    for parent in log.ancestors().skip(1).take(3) {
        if fs::remove_dir(parent).is_err() {
            break;
        }
    }
    true
}

/// What the service needs to give a log to its user, to examine it as that user, and to remove it: those of `job-logs.conf`.
const NEEDED_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Whether this process may give a log to its user.
pub fn may_give() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(NEEDED_CAPABILITIES))
}

/// Gives the logs to their users that a service ended and did not come to give, because it was killed. Those that it was
/// writing stay root's: their last counts may be of a process that would have made them root's.
pub fn give_to_users(directory: &Path) {
    if !may_give() {
        return;
    }
    let own = effective_user();
    for path in logs(directory) {
        let is_own = fs::symlink_metadata(&path).is_ok_and(|about| about.uid() == own);
        let about = About::read(&path).filter(|about| about.complete);
        let user = about.and_then(|about| about.user);
        if let Some(user) = user.filter(|user| is_own && *user != own)
            && let Err(error) = give(&path, user)
        {
            log::warn!("job logs: {} stays the service's: {error}", path.display());
        }
    }
}

/// Logs that have ended and were not examined.
pub fn unexamined(directory: &Path) -> Vec<PathBuf> {
    let mut logs = logs(directory);
    logs.retain(|log| {
        let about = About::read(log);
        about.is_some_and(|about| about.complete && about.verdict.is_empty())
    });
    logs
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    const FOREVER: Duration = Duration::from_secs(1 << 40);

    /// Makes a log of `kib` KiB that was last changed `seconds_ago`.
    fn log(directory: &Path, name: &str, kib: usize, seconds_ago: u64) -> PathBuf {
        let log = directory.join("2026/01/02").join(format!("{name}.d"));
        fs::create_dir_all(&log).unwrap();
        fs::write(log.join("meta.json"), vec![b'x'; kib << 10]).unwrap();
        let time = SystemTime::now() - Duration::from_secs(seconds_ago);
        fs::File::open(&log).unwrap().set_modified(time).unwrap();
        log
    }

    #[test]
    fn the_oldest_go_first_and_never_one_that_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let [oldest, old, new] = [("oldest", 30), ("old", 20), ("new", 10)]
            .map(|(name, ago)| log(directory.path(), name, 100, ago));
        let none = HashSet::new();
        assert_eq!(remove_old(directory.path(), &none, FOREVER, 1 << 20), 0);
        let open = HashSet::from([oldest.clone()]);
        assert_eq!(remove_old(directory.path(), &open, FOREVER, 250 << 10), 1);
        assert!(oldest.exists() && !old.exists() && new.exists());
        let age = Duration::from_secs(5);
        assert_eq!(remove_old(directory.path(), &open, age, 1 << 20), 1);
        assert!(oldest.exists() && !new.exists());
    }

    #[test]
    fn who_fills_logs_loses_own_ones_alone() {
        let directory = tempfile::tempdir().unwrap();
        let others = log(directory.path(), "others", 50, 30);
        let filled = ["one", "two"].map(|name| log(directory.path(), name, 400, 10));
        let own = effective_user();
        if own != 0 {
            panic!("run as root: directories of two users are needed");
        }
        for path in &filled {
            chown(path, Some(61_001), None).unwrap();
        }
        assert_eq!(
            remove_old(directory.path(), &HashSet::new(), FOREVER, 500 << 10),
            1
        );
        assert!(others.exists(), "the oldest one is not of who has the most");
    }

    #[test]
    fn a_link_in_place_of_a_day_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(directory.path(), "log", 1, 10);
        let day = log.parent().unwrap();
        let another = directory.path().join("another");
        fs::create_dir_all(another.join("log.d")).unwrap();
        fs::rename(day, directory.path().join("aside")).unwrap();
        std::os::unix::fs::symlink(&another, day).unwrap();
        assert!(!remove(&log));
        assert!(another.join("log.d").exists());
        fs::remove_file(day).unwrap();
        fs::rename(directory.path().join("aside"), day).unwrap();
        assert!(remove(&log) && !log.exists());
    }

    #[test]
    fn a_log_is_of_the_user_that_its_directory_has() {
        let directory = tempfile::tempdir().unwrap();
        let mut written = About {
            unit: "slurm:1".into(),
            host: "n1".into(),
            user: Some(61_001),
            start_unix_ns: 1_763_682_780_000_000_000,
            ..About::default()
        };
        let (date, name) = name::path(&written);
        let log = directory.path().join(date.join("/")).join(name);
        fs::create_dir_all(&log).unwrap();
        let says = |about: &About| {
            let opened = iotrace_recording::Directory::open(&log).unwrap();
            about.write(&opened).unwrap();
            super::about(directory.path(), &log).map(|about| about.user)
        };
        // Not given to its user yet.
        assert_eq!(says(&written), Some(Some(61_001)));
        if effective_user() != 0 {
            panic!("run as root: directories of two users are needed");
        }
        chown(&log, Some(61_002), None).unwrap();
        assert_eq!(says(&written), Some(Some(61_002)));
        written.unit = "slurm:2".into();
        assert_eq!(says(&written), None);
    }
}
