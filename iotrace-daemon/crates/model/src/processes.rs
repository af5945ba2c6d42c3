//! Processes: who they are, and what they did that no file's counters hold.

use std::collections::HashMap;

use iotrace_common::{
    phases::{COUNT, code},
    rights::Rights,
    waits::DATA_BYTES,
};

use super::{
    counters::saturating_sum, environ::Role, forget::Moved, input::ProcessId, phases::ByPhase,
    rows::Cell,
};

/// What is known of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Nanoseconds since boot; 0 if unknown.
    pub start_boottime: u64,
    /// Process id of the parent when this one was made; 0 if unknown.
    pub parent: u32,
    /// Real user id.
    pub uid: Option<u32>,
    /// Who may look into it, since the last exec; `None` if unknown.
    pub rights: Option<Rights>,
    /// `task_struct.comm` after the last exec, any bytes.
    pub comm: Vec<u8>,
    /// Path of the program after the last exec, any bytes.
    pub exe: Vec<u8>,
    /// Command line of the last exec.
    pub args: Vec<Vec<u8>>,
    /// Its rank and its job, by the environment of the last exec.
    pub role: Role,
    /// Programs executed while traced.
    pub execs: u32,
    /// When it ended, `CLOCK_MONOTONIC` nanoseconds.
    pub end: Option<u64>,
    /// As wait(2): exit code << 8 | signal.
    pub status: Option<u32>,
}

impl About {
    /// Whether a signal ended it.
    pub fn is_killed(&self) -> bool {
        self.status.is_some_and(|status| status & 0x7f != 0)
    }

    /// Exit code as a shell gives it: 128 + the signal that ended it.
    pub fn exit_code(&self) -> Option<u32> {
        let status = self.status?;
        let signal = status & 0x7f;
        Some(if signal == 0 {
            status >> 8 & 0xff
        } else {
            128 + signal
        })
    }
}

/// One process.
#[derive(Debug)]
pub struct Process {
    pub id: ProcessId,
    /// Of several recordings in one model, the one that it comes from; 0 otherwise.
    pub node: u32,
    pub about: About,
    /// Calls that named no open file.
    pub path_only: Cell,
    /// Operations whose own counter had no room in the kernel.
    pub overflow: Cell,
    /// What it did by phase.
    pub phases: ByPhase,
    /// Whether a fork, an exec or /proc described it.
    pub(super) described: bool,
    pub(super) changed: bool,
}

impl Process {
    /// Whether it saved, by the names of files.
    pub fn saves(&self) -> bool {
        self.phases.total(code::CHECKPOINT as u16).bytes_written > 0
    }

    /// Whether it used what is named as training data.
    pub fn uses_samples(&self) -> bool {
        self.phases.total(code::TRAINING as u16).operations > 0
    }

    /// Whether it read data. By its name alone, a file of data may be of any phase but that of programs and libraries.
    pub fn reads_data(&self) -> bool {
        let read = (0..COUNT as u16)
            .filter(|phase| *phase != code::STARTUP as u16)
            .map(|phase| self.phases.total(phase).bytes_read);
        self.uses_samples() || saturating_sum(read) >= DATA_BYTES.into()
    }

    /// Whether something about it changed since the last flush.
    pub fn is_changed(&self) -> bool {
        self.changed
    }
}

/// All processes.
#[derive(Debug, Default)]
pub struct Processes {
    all: Vec<Process>,
    by_id: HashMap<ProcessId, u32>,
}

impl Processes {
    /// All processes, in order of first appearance.
    pub fn all(&self) -> &[Process] {
        &self.all
    }

    /// The process of this identity.
    pub fn find(&self, id: ProcessId) -> Option<&Process> {
        self.all.get(self.index(id)? as usize)
    }

    pub fn index(&self, id: ProcessId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// All processes, to change.
    pub(super) fn all_mut(&mut self) -> &mut [Process] {
        &mut self.all
    }

    /// The process at `index`, to change.
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Process {
        &mut self.all[index as usize]
    }

    /// Index of the process `id`, which is made known.
    pub(super) fn intern(&mut self, id: ProcessId) -> u32 {
        let all = &mut self.all;
        *self.by_id.entry(id).or_insert_with(|| {
            all.push(Process {
                id,
                node: 0,
                about: About::default(),
                path_only: Cell::default(),
                overflow: Cell::default(),
                phases: ByPhase::default(),
                described: false,
                changed: true,
            });
            all.len() as u32 - 1
        })
    }

    /// Takes out the processes that are forgotten.
    pub(super) fn forget(&mut self, moved: &Moved) {
        moved.retain(&mut self.all);
        self.all.shrink_to_fit();
        self.by_id.retain(|_, index| match moved.get(*index) {
            Some(new) => {
                *index = new;
                true
            }
            None => false,
        });
    }

    /// The processes, without what they are found by.
    pub(super) fn into_all(self) -> Vec<Process> {
        self.all
    }

    /// Adds a process of another model; it is not found by its id.
    pub(super) fn push(&mut self, mut process: Process, node: u32, start: impl Fn(u64) -> u64) {
        process.node = node;
        let known = process.about.start_boottime;
        if known != 0 {
            process.about.start_boottime = start(known);
        }
        self.all.push(process);
    }

    /// Changes what is known of `id`.
    pub(super) fn update(&mut self, id: ProcessId, change: impl FnOnce(&mut About)) {
        let index = self.intern(id);
        let process = self.get_mut(index);
        process.changed = true;
        change(&mut process.about);
    }

    /// Says who `id` is.
    pub(super) fn describe(&mut self, id: ProcessId, change: impl FnOnce(&mut About)) {
        let index = self.intern(id);
        self.get_mut(index).described = true;
        self.update(id, change);
    }

    /// A new process runs its parent's program, until it says otherwise.
    pub(super) fn fork(
        &mut self,
        parent: ProcessId,
        child: ProcessId,
        start: u64,
        rights: Rights,
        comm: Vec<u8>,
    ) {
        let parent_about = self
            .by_id
            .get(&parent)
            .map(|index| self.all[*index as usize].about.clone());
        self.describe(child, |about| {
            about.start_boottime = start;
            about.parent = parent.pid;
            about.uid = about.uid.or(Some(rights.uid));
            about.rights = about.rights.or(Some(rights));
            if about.execs == 0 {
                about.comm = comm;
                let parent_about = parent_about.unwrap_or_default();
                about.exe = parent_about.exe;
                about.args = parent_about.args;
                about.role = parent_about.role;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let about = |status| About {
            status,
            ..About::default()
        };
        assert_eq!(about(None).exit_code(), None);
        assert_eq!(about(Some(3 << 8)).exit_code(), Some(3));
        assert_eq!(about(Some(9)).exit_code(), Some(137));
        assert_eq!(
            about(Some(0x80 | 11)).exit_code(),
            Some(139),
            "with a core dump"
        );
    }

    #[test]
    fn a_child_runs_its_parents_program_until_it_execs() {
        let id = |pid| ProcessId { pid, start: 1 };
        let mut processes = Processes::default();
        processes.update(id(1), |about| {
            about.exe = b"/bin/python3".to_vec();
            about.args = vec![b"python3".to_vec()];
        });
        processes.fork(id(1), id(2), 5, Rights::of_user(1000), b"python3".to_vec());
        let child = &processes.all()[1].about;
        assert_eq!(
            (child.exe.as_slice(), child.parent, child.uid),
            (b"/bin/python3".as_slice(), 1, Some(1000))
        );
        processes.update(id(3), |about| about.execs = 1);
        processes.fork(id(1), id(3), 5, Rights::of_user(0), b"python3".to_vec());
        assert!(
            processes.all()[2].about.exe.is_empty(),
            "its own program is still to come"
        );
    }
}
