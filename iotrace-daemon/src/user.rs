//! Users of this host: the one that a traced program runs as (`record --user`), and names by number.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt as _,
};

use anyhow::{Context as _, bail};

use iotrace_recording::directory::effective_user;

/// Room for the texts of one entry of the user database, bytes.
const ENTRY_BYTES: usize = 64 << 10;
/// Most groups of a user, as the kernel allows.
const MAX_GROUPS: usize = 65_536;

/// A user of this host.
pub struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
    /// HOME, USER, LOGNAME and SHELL.
    pub environment: [(&'static str, OsString); 4],
}

/// Reads an entry of the user database, /etc/passwd or wherever the host has it; `None` if there is none. `find` is
/// getpwnam_r(3) or getpwuid_r(3) with all arguments but the first.
fn entry<T>(
    find: impl FnOnce(
        *mut libc::passwd,
        *mut libc::c_char,
        libc::size_t,
        *mut *mut libc::passwd,
    ) -> libc::c_int,
    read: impl FnOnce(&libc::passwd) -> T,
) -> io::Result<Option<T>> {
    // SAFETY: all zeros are a valid passwd, which has integers and pointers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    let mut texts = vec![0; ENTRY_BYTES];
    let (room, at) = (texts.len(), texts.as_mut_ptr());
    match find(&raw mut entry, at, room, &raw mut found) {
        0 if found.is_null() => Ok(None),
        0 => Ok(Some(read(&entry))),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A text of an entry.
///
/// # Safety
///
/// It must be one of the entry that `entry` reads, and the entry must be alive.
unsafe fn text(text: *const libc::c_char) -> OsString {
    // SAFETY: the texts of an entry that was found end with NUL and live as long as the entry.
    OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).to_owned()
}

/// Looks a user up by name, and reads the entry by `read`.
fn look_up<T>(name: &str, read: impl FnOnce(&libc::passwd) -> T) -> anyhow::Result<T> {
    let c_name = CString::new(name).context("--user")?;
    let found = entry(
        // SAFETY: the pointers are to values that live for the call, and the length is that of the buffer.
        |entry, texts, room, found| unsafe {
            libc::getpwnam_r(c_name.as_ptr(), entry, texts, room, found)
        },
        read,
    );
    found
        .with_context(|| format!("--user {name:?} cannot be looked up"))?
        .with_context(|| format!("--user {name:?}: there is no such user"))
}

/// The name of a user; `None` if the host has none for this number, or cannot look it up.
pub fn name_of(uid: u32) -> Option<String> {
    let found = entry(
        // SAFETY: the pointers are to values that live for the call, and the length is that of the buffer.
        |entry, texts, room, found| unsafe { libc::getpwuid_r(uid, entry, texts, room, found) },
        // SAFETY: the entry was found.
        |entry| unsafe { text(entry.pw_name) },
    );
    Some(found.ok()??.to_string_lossy().into_owned())
}

/// The number of a user who is given by number or name.
pub fn number_of(user: &str) -> anyhow::Result<u32> {
    match user.parse() {
        Ok(number) => Ok(number),
        Err(_) => look_up(user, |entry| entry.pw_uid),
    }
}

impl User {
    /// Looks a user up by name.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        if effective_user() != 0 {
            bail!("--user {name:?}: only root can run a command as another user");
        }
        let (uid, gid, home, shell) = look_up(name, |entry| {
            // SAFETY: the entry was found.
            let (home, shell) = unsafe { (text(entry.pw_dir), text(entry.pw_shell)) };
            (entry.pw_uid, entry.pw_gid, home, shell)
        })?;
        let c_name = CString::new(name).context("--user")?;
        let mut groups = vec![0; MAX_GROUPS];
        let mut count = MAX_GROUPS as libc::c_int;
        // SAFETY: the count is the length of the vector.
        let listed = unsafe {
            libc::getgrouplist(c_name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count)
        };
        if listed < 0 {
            bail!("--user {name:?} is in more than {MAX_GROUPS} groups");
        }
        groups.truncate(usize::try_from(count)?);
        Ok(Self {
            uid,
            gid,
            groups,
            environment: [
                ("HOME", home),
                ("USER", name.into()),
                ("LOGNAME", name.into()),
                ("SHELL", shell),
            ],
        })
    }

    /// Makes this process one of the user's; async-signal-safe.
    pub fn assume(&self) -> io::Result<()> {
        // SAFETY: plain calls; the pointer and the length are those of one vector.
        let is_done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        };
        if is_done {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
