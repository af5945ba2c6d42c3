//! Subordinate user ids (subuid(5)): whose they are. A user may have thousands, and is one user with all of them.

use std::fs;

use serde::{Deserialize, Serialize};

/// Ranges of ids, with their owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subordinates(Vec<(std::ops::Range<u64>, u32)>);

impl Subordinates {
    /// Of this machine, as they are now.
    pub fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Self::of(&text("/etc/subuid"), &text("/etc/passwd"))
    }

    /// Lines of `user:first:count`, where the user is a name or a number.
    fn of(subuid: &str, passwd: &str) -> Self {
        let number = |name: &str| {
            let line = passwd
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split(':').nth(1)?.parse().ok())
        };
        let range = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let first: u32 = fields.next()?.trim().parse().ok()?;
            let count: u32 = fields.next()?.trim().parse().ok()?;
            // The name of a user whom only a directory service knows: the ids of one range are one user's all the same.
            let owner = name.parse().ok().or_else(|| number(name)).unwrap_or(first);
            let first = u64::from(first);
            Some((first..first + u64::from(count), owner))
        };
        Self(subuid.lines().filter_map(range).collect())
    }

    /// The user whose id this is.
    pub fn owner(&self, uid: u32) -> u32 {
        let range = self.0.iter().find(|(ids, _)| ids.contains(&u64::from(uid)));
        range.map_or(uid, |(_, owner)| *owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_range_are_its_owners() {
        let subuid = "alice:100000:65536\n1001:200000:10\nldap:300000:10\nbroken\n";
        let all = Subordinates::of(subuid, "root:x:0:0::/:\nalice:x:1000:1000::/:\n");
        let owners = [0, 1000, 99_999, 100_000, 165_535, 165_536, 200_009, 300_005];
        let owners = owners.map(|uid| all.owner(uid));
        assert_eq!(
            owners,
            [0, 1000, 99_999, 1000, 1000, 165_536, 1001, 300_000]
        );
    }
}
