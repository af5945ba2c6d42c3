//! Whose a log is.
//!
//! A log is a user's only if this user could have looked into every process that it holds, by the rule of ptrace(2). What
//! counts are the rights that the kernel side reports of each fork and exec: a process that lives for a millisecond decides
//! as much as one that lives for a day. Any other process makes the log root's, for good.
//!
//! Root's processes begin the programs of users: a service's, a container's, a batch job's, a login's. One that goes on as a
//! program of the user's is the user's, as /proc has it. One that does not makes the log of a service or container root's.
//! The logs of batch jobs, claimed jobs and user units leave it out: `slurmstepd` lives as long as its step.

use iotrace_common::rights::Rights;

use crate::{
    attribution::{Kind, Unit},
    totals::UnitId,
};

/// What a process has been since it came into its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Root's. It may yet begin a program of a user's.
    Root,
    /// Open to this user, with this group, in every program that it has run.
    Of { user: u32, group: u32 },
    /// It had the rights of several users, or other rights than its user's.
    Mixed,
}

impl State {
    /// That of a process which begins with these rights.
    fn new(rights: &Rights) -> Self {
        let (user, group) = (rights.uid, rights.gid);
        match user {
            0 => Self::Root,
            _ if are_open_to(rights, user) => Self::Of { user, group },
            _ => Self::Mixed,
        }
    }

    /// The state after an exec that ended with these rights.
    fn then(self, rights: &Rights) -> Self {
        let next = Self::new(rights);
        match self {
            Self::Root => next,
            _ if self == next => self,
            _ => Self::Mixed,
        }
    }
}

/// What is known of one process.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    pub unit: UnitId,
    pub state: State,
    rights: Rights,
    /// Whether /proc said it, and no event yet.
    is_sampled: bool,
    /// Intervals that have ended since the last event.
    age: u8,
    /// Whether one that is root's is taken to stay so.
    is_settled: bool,
}

impl Standing {
    /// `is_sampled`: by /proc.
    pub fn new(unit: UnitId, rights: Rights, is_sampled: bool) -> Self {
        Self {
            unit,
            state: State::new(&rights),
            rights,
            is_sampled,
            age: 0,
            is_settled: false,
        }
    }

    /// After an event that says which rights it has now. An event may be older than what /proc said before it.
    pub fn then(self, unit: UnitId, rights: Rights) -> Self {
        if self.is_sampled || self.unit != unit {
            return Self::new(unit, rights, false);
        }
        Self {
            state: self.state.then(&rights),
            ..Self::new(unit, rights, false)
        }
    }

    /// The same process when it has come into another unit.
    pub fn moved(self, unit: UnitId) -> Self {
        Self::new(unit, self.rights, self.is_sampled)
    }

    /// After the end of an interval. One that is still root's a whole interval after its last event stays so.
    pub fn aged(self) -> Self {
        Self {
            age: self.age.saturating_add(1),
            is_settled: self.is_settled || self.age > 0,
            ..self
        }
    }

    /// Of a process that begins no other program any more, or has not for long.
    pub fn settled(self) -> Self {
        Self {
            is_settled: true,
            ..self
        }
    }
}

/// Whose one log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Of the unit: of a claimed job, of a user unit.
    of_unit: Option<u32>,
    is_batch: bool,
    /// User and group of all processes that decided.
    seen: Option<(u32, u32)>,
    is_root: bool,
}

impl Owner {
    pub fn new(unit: &Unit) -> Self {
        use Kind::{Flux, Lsf, Pbs, Slurm};
        Self {
            of_unit: unit.owner,
            is_batch: matches!(unit.kind, Slurm | Pbs | Lsf | Flux),
            seen: None,
            is_root: unit.owner == Some(0),
        }
    }

    /// Takes a process of the unit.
    pub fn take(&mut self, standing: &Standing) {
        match standing.state {
            State::Root => self.is_root |= standing.is_settled && !self.leaves_root_out(),
            State::Of { user, group } => {
                let is_of_unit = self.of_unit.is_none_or(|owner| owner == user);
                let is_of_others = self.seen.is_none_or(|seen| seen == (user, group));
                self.is_root |= !is_of_unit || !is_of_others;
                self.seen = self.seen.or(Some((user, group)));
            }
            State::Mixed => self.is_root = true,
        }
    }

    /// Makes it root's.
    pub fn give_to_root(&mut self) {
        self.is_root = true;
    }

    /// Makes it root's if it is a batch job of which only root's processes are known: this one is of the job itself.
    pub fn take_root_of_batch_job(&mut self) {
        self.is_root |= self.is_batch && self.user().is_none();
    }

    /// The user, if one is known and the log is not root's.
    pub fn user(&self) -> Option<u32> {
        let user = self.seen.map(|(user, _)| user).or(self.of_unit);
        user.filter(|_| !self.is_root)
    }

    /// Whether the log has nothing of processes that are root's.
    pub fn leaves_root_out(&self) -> bool {
        !self.is_root && (self.of_unit.is_some() || self.is_batch)
    }

    /// Whether it is still to be seen whose this process is.
    pub fn awaits(&self, standing: &Standing) -> bool {
        standing.state == State::Root && !self.is_root && !self.leaves_root_out()
    }

    /// Whether the log may say which files a process uses.
    pub fn may_name(&self, state: State) -> bool {
        self.is_root || matches!(state, State::Of { user, .. } if self.user() == Some(user))
    }

    /// The same of what a process did while it had these rights.
    pub fn may_name_with(&self, rights: &Rights) -> bool {
        self.is_root || self.user().is_some_and(|user| are_open_to(rights, user))
    }
}

/// Whether a user may look into a process, by the rule of ptrace(2).
fn are_open_to(rights: &Rights, user: u32) -> bool {
    // Of whichever of the user's groups the process is; all processes of one log have the same.
    rights.are_open_to(&Rights {
        gid: rights.gid,
        ..Rights::of_user(user)
    })
}

#[cfg(test)]
mod tests {
    use iotrace_common::rights::flags;

    use super::*;
    use crate::attribution;

    const UNIT: UnitId = 7;

    fn user(uid: u32) -> Rights {
        Rights::of_user(uid)
    }

    /// A set-user-ID program of root's that user 7 has begun.
    fn elevated() -> Rights {
        Rights {
            flags: 0,
            capabilities: u64::MAX,
            ..user(7)
        }
    }

    /// A process that had these rights one after the other.
    fn process(all: &[Rights]) -> Standing {
        let first = Standing::new(UNIT, all[0], false);
        let later = all[1..].iter();
        later.fold(first, |standing, rights| standing.then(UNIT, *rights))
    }

    fn container() -> Owner {
        Owner::new(&attribution::unit(
            &[],
            "0::/system.slice/some.service",
            false,
        ))
    }

    fn batch() -> Owner {
        let group = "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0";
        Owner::new(&attribution::unit(&[], group, false))
    }

    fn claimed(user: u32) -> Owner {
        Owner {
            of_unit: Some(user),
            is_root: user == 0,
            ..batch()
        }
    }

    fn owner(mut owner: Owner, seen: &[Standing]) -> Option<u32> {
        for standing in seen {
            owner.take(standing);
        }
        owner.user()
    }

    #[test]
    fn a_log_is_a_users_only_if_all_processes_are() {
        let own = process(&[user(7)]);
        let begun_by_root = process(&[user(0), user(0), user(7)]);
        let other_group = Rights { gid: 8, ..user(7) };
        let undumpable = Rights {
            flags: flags::ONE_USER,
            ..user(7)
        };
        for begin in [container(), batch(), claimed(7)] {
            assert_eq!(owner(begin, &[own, begun_by_root, own]), Some(7));
            for stranger in [
                &[user(8)][..],
                &[elevated()],
                // It is so for good, whatever it does later.
                &[user(7), elevated(), user(7)],
                &[user(7), user(0)],
                &[user(7), user(8), user(7)],
                &[user(0), user(8)],
                &[user(0), elevated(), user(7)],
                &[other_group],
                &[undumpable],
                &[Rights::UNKNOWN],
                // As kernels without type information report it.
                &[Rights {
                    uid: 7,
                    ..Rights::UNKNOWN
                }],
            ] {
                let seen = [own, process(stranger), own];
                assert_eq!(owner(begin, &seen), None, "{begin:?} {stranger:?}");
                let mut begin = begin;
                begin.take(&seen[0]);
                begin.take(&seen[1]);
                assert!(begin.is_root, "{begin:?} {stranger:?}");
            }
        }
        assert_eq!(owner(claimed(0), &[own]), None);
        assert!(claimed(0).is_root);
    }

    #[test]
    fn roots_processes_make_a_services_log_roots_and_are_left_out_of_a_jobs() {
        let (own, root) = (process(&[user(7)]), process(&[user(0), user(0)]).settled());
        assert_eq!(owner(container(), &[own, root]), None);
        assert_eq!(owner(batch(), &[root, own]), Some(7));
        assert_eq!(owner(claimed(7), &[root, own]), Some(7));
        // As long as it may begin a program of a user's, nothing is decided.
        let unsettled = process(&[user(0)]);
        assert_eq!(owner(container(), &[own, unsettled]), Some(7));
        assert_eq!(owner(container(), &[own, unsettled.aged()]), Some(7));
        assert_eq!(owner(container(), &[own, unsettled.aged().aged()]), None);
        assert!(container().awaits(&unsettled) && !batch().awaits(&unsettled));
        assert!(batch().leaves_root_out() && claimed(7).leaves_root_out());
        assert!(!container().leaves_root_out() && !claimed(0).leaves_root_out());
        let mut job = batch();
        job.take_root_of_batch_job();
        assert!(job.is_root && !job.leaves_root_out());
        let mut job = batch();
        job.take(&own);
        job.take_root_of_batch_job();
        assert_eq!(job.user(), Some(7));
    }

    #[test]
    fn only_what_the_user_may_see_is_named() {
        let mut of_user = container();
        let (own, root) = (process(&[user(7)]), process(&[user(0)]));
        assert!(!of_user.may_name(own.state) && !of_user.may_name_with(&user(7)));
        of_user.take(&own);
        assert!(of_user.may_name(own.state) && of_user.may_name_with(&user(7)));
        assert!(!of_user.may_name(root.state) && !of_user.may_name(State::Mixed));
        for rights in [user(0), user(8), elevated(), Rights::UNKNOWN] {
            assert!(!of_user.may_name_with(&rights), "{rights:?}");
        }
        of_user.give_to_root();
        assert!(of_user.may_name(root.state) && of_user.may_name_with(&elevated()));
    }

    #[test]
    fn an_event_says_more_than_proc() {
        // /proc was asked after the exec whose event comes later.
        let sampled = Standing::new(UNIT, user(7), true);
        let told = sampled.then(UNIT, user(0)).then(UNIT, user(7));
        assert_eq!(told.state, process(&[user(7)]).state);
        assert_eq!(sampled.then(UNIT, elevated()).state, State::Mixed);
        // In another unit it is judged by what it is there.
        let moved = process(&[user(0), user(7)]).moved(UNIT + 1);
        assert_eq!(moved.state, process(&[user(7)]).state);
        let moved = process(&[elevated()]).moved(UNIT + 1);
        assert_eq!((moved.state, moved.unit), (State::Mixed, UNIT + 1));
    }
}
