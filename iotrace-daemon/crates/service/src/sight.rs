//! Which names of files a user may learn. The service has a name from whoever used the file first: a hard link or a bind mount
//! in somebody else's directory names the user's file, too. So a user gets a name only if they could search its directories.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

use iotrace_model::paths::parent;

/// Directories whose answer is remembered.
const MAX_DIRECTORIES: usize = 10_000;
const OWNER_SEARCH: u32 = 0o100;
const GROUP_SEARCH: u32 = 0o010;
const OTHERS_SEARCH: u32 = 0o001;

/// What one user may see.
pub struct Sight {
    user: u32,
    groups: Vec<u32>,
    directories: HashMap<Vec<u8>, bool>,
}

impl Sight {
    /// Of a user, who is in the groups of process `pid`.
    pub fn of(user: u32, group: u32, pid: u32) -> Self {
        let mut groups = groups(pid);
        groups.push(group);
        Self::new(user, groups)
    }

    pub fn new(user: u32, groups: Vec<u32>) -> Self {
        Self {
            user,
            groups,
            directories: HashMap::new(),
        }
    }

    /// Whether the user may learn this path. Looks at directories, which can take long if they are on a server that does not
    /// answer.
    pub fn may_learn(&mut self, path: &[u8]) -> bool {
        let directory = parent(path);
        if let Some(known) = self.directories.get(directory) {
            return *known;
        }
        let may = self.may_search(Path::new(OsStr::from_bytes(directory)));
        if self.directories.len() >= MAX_DIRECTORIES {
            self.directories.clear();
        }
        self.directories.insert(directory.to_vec(), may);
        may
    }

    /// Whether the user could get to what is in a directory, by the modes of all directories on the way. What is below a
    /// directory of the user's own is the user's to see.
    fn may_search(&self, directory: &Path) -> bool {
        let mut on_the_way: Vec<&Path> = directory.ancestors().collect();
        on_the_way.reverse();
        for directory in on_the_way {
            if directory.as_os_str().is_empty() {
                continue;
            }
            let Ok(about) = fs::symlink_metadata(directory) else {
                // Gone, or below one that the user may search and the service may not.
                return true;
            };
            let mode = about.mode();
            if about.uid() == self.user {
                return mode & OWNER_SEARCH != 0;
            }
            let needed = match self.groups.contains(&about.gid()) {
                true => GROUP_SEARCH,
                false => OTHERS_SEARCH,
            };
            if mode & needed == 0 {
                return false;
            }
        }
        true
    }
}

/// The supplementary groups of a process; none if it is gone.
pub fn groups(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let listed = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let listed = listed.unwrap_or_default().split_whitespace();
    listed.filter_map(|group| group.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    const USER: u32 = 61_001;
    const GROUP: u32 = 61_003;

    #[test]
    fn names_below_directories_that_a_user_may_search() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(base.path(), 0o755);
        let make = |name: &str, owner: u32, group: u32, bits: u32| {
            let path = base.path().join(name);
            fs::create_dir_all(path.join("deep")).unwrap();
            chown(&path, Some(owner), Some(group)).unwrap();
            mode(&path, bits);
        };
        make("public", 0, 0, 0o755);
        make("private", 0, 0, 0o700);
        make("own", USER, 0, 0o700);
        make("shared", 0, GROUP, 0o770);
        make("of-another-group", 0, 0, 0o770);
        let mut sight = Sight::new(USER, vec![USER, GROUP]);
        for (name, may) in [
            ("public/file", true),
            ("public/deep/file", true),
            ("public/gone/file", true),
            ("private/file", false),
            ("private/deep/file", false),
            ("private/gone/file", false),
            ("own/deep/file", true),
            ("shared/deep/file", true),
            ("of-another-group/file", false),
        ] {
            let path = base.path().join(name);
            for _ in 0..2 {
                assert_eq!(sight.may_learn(path.as_os_str().as_bytes()), may, "{name}");
            }
        }
        assert!(sight.may_learn(b"/file"));
    }
}
