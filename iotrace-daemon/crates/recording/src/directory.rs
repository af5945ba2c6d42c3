//! Directories that output is written to by descriptor: neither a symbolic link nor a directory that is renamed away
//! redirects what is written.

use std::{
    ffi::OsStr,
    fs::{DirBuilder, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid},
    io::Errno,
};

const DIRECTORY_MODE: Mode = Mode::RWXU;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const GROUP_OR_OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);

/// A directory that files are made in.
#[derive(Clone)]
pub struct Directory {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
    /// Who gets what is made here, if not the user that iotrace runs as.
    heir: Option<(Uid, Gid)>,
}

impl Directory {
    /// Opens a directory, whoever owns it, to make or replace files in it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self::new(fs::open(path, flags, Mode::empty())?, path))
    }

    /// Makes a directory that nobody else can write to, with its parents; or takes one that is there, if it is empty,
    /// belongs to this user and nobody else can write to it.
    pub fn claim(path: &Path) -> io::Result<Self> {
        let Some((parent, name)) = split(path) else {
            return Self::check(Self::open_at(fs::CWD, path.as_os_str(), path)?);
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE.as_raw_mode());
        builder.create(parent)?;
        let parent = Self::open(parent)?;
        let is_made = match fs::mkdirat(&parent.descriptor, name, DIRECTORY_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let opened = Self::open_at(&parent.descriptor, name, path);
        let directory = Self::check(opened.map_err(|error| match parent.entry(name) {
            Ok(Some(entry)) if kind(&entry) == FileType::Symlink => {
                io::Error::other("it is a symbolic link; name another directory")
            }
            _ => error,
        })?)?;
        if let (true, Some((uid, gid))) = (is_made, parent.heir) {
            fs::fchown(&directory.descriptor, Some(uid), Some(gid))?;
            return Ok(Self {
                heir: parent.heir,
                ..directory
            });
        }
        Ok(directory)
    }

    /// Makes a directory in this one.
    pub fn make(&self, name: &str) -> io::Result<Self> {
        fs::mkdirat(&self.descriptor, name, DIRECTORY_MODE)?;
        let made = Self::open_at(&self.descriptor, name.as_ref(), &self.path.join(name))?;
        let made = Self::check(made)?;
        if let Some((uid, gid)) = self.heir {
            fs::fchown(&made.descriptor, Some(uid), Some(gid))?;
        }
        Ok(Self {
            heir: self.heir,
            ..made
        })
    }

    /// Makes a file that is not there yet.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        self.create_by(name.as_ref(), flags)
    }

    /// Makes a file without a name: if its writer is killed, nothing is left. Not every filesystem can.
    pub fn create_nameless(&self) -> io::Result<File> {
        self.create_by(OsStr::new("."), OFlags::TMPFILE)
    }

    fn create_by(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = fs::openat(&self.descriptor, name, flags, FILE_MODE)?;
        if let Some((uid, gid)) = self.heir {
            fs::fchown(&file, Some(uid), Some(gid))?;
        }
        Ok(file.into())
    }

    /// Opens a file to read it; a link is an error.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(fs::openat(&self.descriptor, name, flags, Mode::empty())?.into())
    }

    /// Gives a nameless file a name that is not there yet.
    pub fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(fs::linkat(fs::CWD, own, &self.descriptor, name, flags)?)
    }

    /// Opens a device or a pipe to write to it.
    pub fn open_special(&self, name: &OsStr, may_follow: bool) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        if !may_follow {
            flags |= OFlags::NOFOLLOW;
        }
        let file = fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        if kind(&fs::fstat(&file)?) == FileType::RegularFile {
            return Err(io::Error::other("it was replaced by a file just now"));
        }
        Ok(file.into())
    }

    /// What has this name, itself and not what a link leads to.
    pub fn entry(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(entry) => Ok(Some(entry)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where a link leads; an error if the link is another user's.
    pub fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Its owner and its target are those of one link, whatever is renamed meanwhile.
        let link = fs::openat(&self.descriptor, name, flags, Mode::empty())?;
        let owner = fs::fstat(&link)?.st_uid;
        if owner != 0 && owner != effective_user() {
            return Err(io::Error::other(format!(
                "it is a symbolic link of another user (uid {owner}): remove it, or name another file"
            )));
        }
        let target = fs::readlinkat(&link, "", Vec::new())?;
        let target = std::ffi::OsString::from_vec(target.into_bytes());
        Ok(self.path.join(target))
    }

    /// Renames within this directory; what has the new name is replaced, and not followed.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        Ok(fs::renameat(&self.descriptor, from, &self.descriptor, to)?)
    }

    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(fs::unlinkat(
            &self.descriptor,
            name.as_ref(),
            AtFlags::empty(),
        )?)
    }

    /// Removes a directory that was made here, with the files in it.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let directory = Self::open_at(&self.descriptor, name.as_ref(), &self.path.join(name))?;
        for entry in directory.names()? {
            directory.remove_file(entry)?;
        }
        Ok(fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    /// The size of the files in it, together.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for name in self.names()? {
            let size = self.entry(&name)?.map_or(0, |entry| entry.st_size);
            bytes += u64::try_from(size).unwrap_or(0);
        }
        Ok(bytes)
    }

    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.names()?.is_empty())
    }

    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.descriptor)?)
    }

    /// The path that it had when it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of what is in it.
    pub fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn open_at(parent: impl std::os::fd::AsFd, name: &OsStr, path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::openat(parent, name, flags, Mode::empty())?;
        Ok(Self::new(descriptor, path))
    }

    fn new(descriptor: OwnedFd, path: &Path) -> Self {
        Self {
            heir: heir(&descriptor),
            descriptor: Arc::new(descriptor),
            path: path.into(),
        }
    }

    /// Refuses a directory that another user could put links into, or has put in the place of the one just made.
    fn check(self) -> io::Result<Self> {
        let about = fs::fstat(self.descriptor.as_fd())?;
        if about.st_uid != effective_user() {
            return Err(io::Error::other(format!(
                "it belongs to another user (uid {}); name a directory that is not there yet",
                about.st_uid
            )));
        }
        if Mode::from_raw_mode(about.st_mode).intersects(GROUP_OR_OTHERS_WRITE) {
            return Err(io::Error::other(
                "its group or others can write to it; name a directory that is not there yet, or chmod go-w it",
            ));
        }
        Ok(self)
    }
}

/// The user that called sudo, if the directory is theirs: they own what root makes in it.
fn heir(directory: &OwnedFd) -> Option<(Uid, Gid)> {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if effective_user() != 0 {
        return None;
    }
    let (uid, gid) = (id("SUDO_UID")?, id("SUDO_GID")?);
    let owner = fs::fstat(directory).ok()?.st_uid;
    (owner == uid).then(|| (Uid::from_raw(uid), Gid::from_raw(gid)))
}

/// The directory of a path and its name there; none if it ends in no name.
pub fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    let name = path.file_name()?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Some((parent, name)),
        _ => Some((Path::new("."), name)),
    }
}

pub fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

pub fn effective_user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}
