//! Who a thread is and what it may do, as far as ptrace(2) compares two of them: the one rule of who may be looked into.
//!
//! The kernel programs read it from the kernel's structs, the service from /proc.

/// Number of the initial user namespace, the same on every machine.
pub const INITIAL_NAMESPACE: u32 = 0xefff_fffd;

/// User namespaces around a thread that are searched for the outermost one; more deeply nested threads are left out.
pub const NAMESPACES: u32 = 8;

/// Flags of [`Rights`].
pub mod flags {
    /// Its real, effective and saved user ids are one, and its group ids are one.
    pub const ONE_USER: u32 = 1;
    /// Its user may look into its memory (`SUID_DUMP_USER`): it runs no program with more rights than its user's.
    pub const DUMPABLE: u32 = 2;
}

/// What ptrace(2) compares.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rights {
    /// Permitted capabilities, in its user namespace.
    pub capabilities: u64,
    /// Real ids, as the initial user namespace has them.
    pub uid: u32,
    pub gid: u32,
    /// Number of its user namespace.
    pub namespace: u32,
    /// Who made the outermost user namespace around it below the initial one; `u32::MAX`: it is in the initial one.
    pub maker: u32,
    /// See [`flags`].
    pub flags: u32,
    pub pad: u32,
}

const _: () = assert!(size_of::<Rights>() == 32);

impl Rights {
    /// Open to nobody.
    pub const UNKNOWN: Self = Self {
        capabilities: 0,
        uid: u32::MAX,
        gid: u32::MAX,
        namespace: 0,
        maker: u32::MAX,
        flags: 0,
        pad: 0,
    };

    /// An ordinary process of a user, with a group of the same number.
    pub const fn of_user(uid: u32) -> Self {
        Self {
            capabilities: 0,
            uid,
            gid: uid,
            namespace: INITIAL_NAMESPACE,
            maker: u32::MAX,
            flags: flags::ONE_USER | flags::DUMPABLE,
            pad: 0,
        }
    }

    /// Whether a thread of these rights may be looked into by `client`: all its ids are the client's, it is dumpable, and
    /// it has no capability that the client does not have, or has them in a user namespace that the client's user made.
    #[inline(always)]
    pub const fn are_open_to(&self, client: &Self) -> bool {
        self.flags & flags::DUMPABLE != 0 && self.are_owned_by(client)
    }

    /// The same of a thread that ends, which has no memory any more.
    #[inline(always)]
    pub const fn are_owned_by(&self, client: &Self) -> bool {
        if self.flags & flags::ONE_USER == 0 || self.uid != client.uid || self.gid != client.gid {
            return false;
        }
        if self.namespace == client.namespace {
            return self.capabilities & !client.capabilities == 0;
        }
        client.namespace == INITIAL_NAMESPACE && self.maker == client.uid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_that_of_ptrace() {
        let client = Rights::of_user(7);
        let own = client;
        assert!(own.are_open_to(&client));
        let denied = [
            Rights::of_user(8),
            Rights { gid: 8, ..own },
            Rights {
                capabilities: 1,
                ..own
            },
            Rights {
                flags: flags::DUMPABLE,
                ..own
            },
            Rights {
                flags: flags::ONE_USER,
                ..own
            },
            // In a namespace that somebody else made.
            Rights {
                namespace: 1,
                maker: 8,
                ..own
            },
        ];
        for rights in denied {
            assert!(!rights.are_open_to(&client), "{rights:?}");
        }
        let capable = Rights {
            capabilities: 3,
            ..client
        };
        assert!(
            Rights {
                capabilities: 1,
                ..own
            }
            .are_open_to(&capable)
        );
        // In a namespace that its user made, where it may do everything.
        let inside = Rights {
            capabilities: u64::MAX,
            namespace: 1,
            maker: 7,
            ..own
        };
        assert!(inside.are_open_to(&client));
        assert!(inside.are_open_to(&inside));
        // From there, nothing outside, and nothing that may do more inside.
        let powerless = Rights {
            capabilities: 0,
            ..inside
        };
        assert!(!own.are_open_to(&inside));
        assert!(!inside.are_open_to(&powerless));
        assert!(powerless.are_open_to(&inside));
        assert!(
            !Rights {
                namespace: 2,
                ..inside
            }
            .are_open_to(&inside)
        );
    }
}
