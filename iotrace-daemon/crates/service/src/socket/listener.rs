//! The socket in the file system. The tracer binds and removes it, because the front has no access to files.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown},
        net,
    },
    path::{Path, PathBuf},
};

use crate::config::{Config, EVERY_GROUP};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the socket {path} cannot be opened: {source}; set `socket` in [recordings]")]
    Open { path: PathBuf, source: io::Error },
    #[error("another iotrace listens at {0} already; set `socket` in [recordings]")]
    Taken(PathBuf),
    #[error(
        "there is no group {0}; set `group` in [recordings] to one, or to \"*\" for every user"
    )]
    NoGroup(String),
    #[error(
        "the socket cannot be given to the group {group}: {source}; add SupplementaryGroups={group} to the unit"
    )]
    Group { group: String, source: io::Error },
}

/// A bound socket. Its name is removed when this is dropped.
pub struct Bound {
    path: PathBuf,
    /// Device and inode: another's socket is not removed.
    identity: (u64, u64),
}

impl Bound {
    /// Binds the socket, which members of the group may connect to. One that nobody listens at is left over and replaced.
    pub fn new(path: &Path, group: Option<&str>) -> Result<(Self, net::UnixListener), SocketError> {
        let failed = |source| SocketError::Open {
            path: path.into(),
            source,
        };
        let listener = bind(path, group)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let metadata = fs::metadata(path).map_err(failed)?;
        let bound = Self {
            path: path.into(),
            identity: (metadata.dev(), metadata.ino()),
        };
        Ok((bound, listener))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let own = fs::metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if own && let Err(error) = fs::remove_file(&self.path) {
            log::debug!("the socket stays behind: {error}");
        }
    }
}

fn bind(path: &Path, group: Option<&str>) -> Result<net::UnixListener, SocketError> {
    let failed = |source| SocketError::Open {
        path: path.into(),
        source,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    if is_socket {
        if net::UnixStream::connect(path).is_ok() {
            return Err(SocketError::Taken(path.into()));
        }
        fs::remove_file(path).map_err(failed)?;
    }
    let members = members(group)?;
    let listener = net::UnixListener::bind(path).map_err(failed)?;
    if members.is_some() {
        chown(path, None, members).map_err(|source| SocketError::Group {
            group: group.unwrap_or_default().into(),
            source,
        })?;
    }
    let mode = if group == Some(EVERY_GROUP) {
        0o666
    } else {
        0o660
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

/// Whether the group that the configuration names is there.
pub fn check(config: &Config) -> Result<(), SocketError> {
    members(config.recordings.group.as_deref()).map(drop)
}

/// The group to give the socket to; none where it is the service's own, or where there is none.
fn members(group: Option<&str>) -> Result<Option<u32>, SocketError> {
    match group {
        None | Some(EVERY_GROUP) => Ok(None),
        Some(group) => match gid_of(group) {
            Some(gid) => Ok(Some(gid)),
            None => Err(SocketError::NoGroup(group.into())),
        },
    }
}

/// The number of a group by its name, or by itself.
fn gid_of(group: &str) -> Option<u32> {
    if let Ok(gid) = group.parse() {
        return Some(gid);
    }
    let name = std::ffi::CString::new(group).ok()?;
    // Members' names may fill it; a group with more is not found.
    let mut buffer = vec![0; 1 << 20];
    // SAFETY: integers and pointers, of which all zeros is a value.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: a string that ends, and places that live through the call with their sizes.
    let error = unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        )
    };
    (error == 0 && !found.is_null()).then_some(entry.gr_gid)
}
