//! Which processes a subscriber is told of: those that were asked for, with their children, as far as the subscriber may look
//! into them ([`Rights::are_open_to`]).
//!
//! What a process may be asked about is decided when it is first seen, and at each exec. Counters that are drained together may
//! be of the program before an exec and of the one after it. So a process that begins a program with other rights leaves at
//! once, and one that comes back waits until its counters are of the new program alone.

use std::collections::{HashMap, HashSet};

use iotrace_common::rights::Rights;

use crate::socket::with_known_namespace;
use iotrace_model::{
    About, Model,
    input::{Event, ProcessId},
    targets,
};

/// An event is seen before the drain that has the counters of the time before it, or before the one after that: this many
/// drains later, nothing more comes of that time.
const DRAINS_UNTIL_SETTLED: u8 = 2;
/// Processes that are remembered because they are not told of.
const MAX_OTHERS: usize = 100_000;

/// Which processes are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Who asks; `None`: root, who may look into all.
    pub client: Option<Rights>,
    /// The process of the client, which records others.
    pub recorder: u32,
    /// The processes; none: all that the client may look into.
    pub pids: Vec<u32>,
    /// Whether their children are, too.
    pub follow: bool,
}

impl Wanted {
    /// The processes that are there now, by their pids.
    pub fn find(&self) -> Vec<u32> {
        targets::wanted(&self.pids, self.follow, self.recorder)
    }
}

/// The processes of one subscriber.
pub struct Scope {
    wanted: Wanted,
    /// Processes that were there at the beginning, by pid, until the kernel's name for them is known.
    expected: HashMap<u32, About>,
    members: HashMap<ProcessId, Member>,
    /// Processes that are not told of, where all of a user's are wanted.
    others: HashSet<ProcessId>,
    left_out: u64,
}

/// A process in the scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Running,
    /// Its counters count from the end of this many drains on.
    Waiting(u8),
    /// It has ended. It is forgotten at the end of this many drains.
    Ended(u8),
}

impl Scope {
    /// The processes that are there now.
    pub fn new(wanted: Wanted) -> Self {
        let expected = wanted
            .find()
            .into_iter()
            .filter_map(|pid| Some((pid, targets::identify(pid)?)))
            .collect();
        Self {
            wanted,
            expected,
            members: HashMap::new(),
            others: HashSet::new(),
            left_out: 0,
        }
    }

    /// Processes that left it because they began a program with other rights.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Takes an event of a process; whether it is told.
    pub fn event(&mut self, event: &Event) -> bool {
        match event {
            Event::Fork {
                parent,
                child,
                rights,
                ..
            } => {
                if self.wants_all() {
                    return self.enter(*child, Some(rights)) && self.knows(*parent);
                }
                let is_followed = self.wanted.follow && self.knows(*parent);
                is_followed && self.enter(*child, Some(rights))
            }
            Event::Exec {
                process, rights, ..
            } => {
                let is_member = self.knows(*process);
                if self.is_open(Some(rights)) {
                    if !is_member && self.wants_all() {
                        self.others.remove(process);
                        self.members
                            .insert(*process, Member::Waiting(DRAINS_UNTIL_SETTLED));
                        return true;
                    }
                    return is_member;
                }
                if is_member {
                    self.leave(*process);
                }
                false
            }
            Event::Exit { process, .. } => {
                self.others.remove(process);
                let is_member = self.knows(*process);
                if let Some(member @ Member::Running) = self.members.get_mut(process) {
                    *member = Member::Ended(DRAINS_UNTIL_SETTLED);
                }
                is_member
            }
            // Nobody in a recording asks for control groups.
            Event::Cgroup { .. } => false,
            event => event.process().is_some_and(|process| self.knows(process)),
        }
    }

    /// The processes that are known to be in it.
    pub fn pids(&self) -> HashSet<u32> {
        let members = self.members.keys().map(|process| process.pid);
        members.chain(self.expected.keys().copied()).collect()
    }

    /// Whether the process with this pid, which /proc says this about, is in it.
    pub fn has_now(&self, pid: u32, about: &About) -> bool {
        let mut members = self.members.keys();
        let is_member = members.any(|one| one.pid == pid && targets::is_of(about, *one));
        let expected = self.expected.get(&pid);
        let is_expected = expected.is_some_and(|one| one.start_boottime == about.start_boottime);
        let rights = about.rights.map(with_known_namespace);
        (is_member || is_expected) && self.is_open(rights.as_ref())
    }

    /// Whether counters of a process are told.
    pub fn has(&mut self, process: ProcessId, model: &Model) -> bool {
        if self.knows(process) {
            return !matches!(self.members.get(&process), Some(Member::Waiting(_)));
        }
        if !self.wants_all() || self.others.contains(&process) {
            return false;
        }
        if self.wanted.client.is_none() {
            return self.enter(process, None);
        }
        // It was there before, and no event told of it.
        let known = model.about(process).and_then(|about| about.rights);
        let rights = known.or_else(|| {
            let about = targets::identify(process.pid)?;
            let rights = about.rights.map(with_known_namespace);
            rights.filter(|_| targets::is_of(&about, process))
        });
        self.enter(process, rights.as_ref())
    }

    /// Forgets those that have ended, and lets those that waited come in.
    pub fn end_of_drain(&mut self) {
        self.members.retain(|_, member| {
            *member = match *member {
                Member::Running | Member::Waiting(1) => Member::Running,
                Member::Waiting(drains) => Member::Waiting(drains - 1),
                Member::Ended(1) => return false,
                Member::Ended(drains) => Member::Ended(drains - 1),
            };
            true
        });
    }

    fn wants_all(&self) -> bool {
        self.wanted.pids.is_empty()
    }

    /// Whether a process is a member, also one that was expected.
    fn knows(&mut self, process: ProcessId) -> bool {
        if self.members.contains_key(&process) {
            return true;
        }
        let expected = self.expected.get(&process.pid);
        let Some(about) = expected.filter(|about| targets::is_of(about, process)) else {
            return false;
        };
        let rights = about.rights.map(with_known_namespace);
        self.expected.remove(&process.pid);
        self.enter(process, rights.as_ref())
    }

    /// Makes a process a member, if it may be.
    fn enter(&mut self, process: ProcessId, rights: Option<&Rights>) -> bool {
        if self.is_open(rights) {
            self.others.remove(&process);
            self.members.insert(process, Member::Running);
            return true;
        }
        if self.wants_all() {
            if self.others.len() >= MAX_OTHERS {
                self.others.clear();
            }
            self.others.insert(process);
        }
        false
    }

    fn leave(&mut self, process: ProcessId) {
        self.left_out += 1;
        self.members.remove(&process);
        self.expected.remove(&process.pid);
        if self.wants_all() {
            self.others.insert(process);
        }
    }

    fn is_open(&self, rights: Option<&Rights>) -> bool {
        match &self.wanted.client {
            None => true,
            Some(client) => rights.is_some_and(|rights| rights.are_open_to(client)),
        }
    }
}
