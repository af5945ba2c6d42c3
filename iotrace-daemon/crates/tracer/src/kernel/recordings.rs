//! Recordings by programs that trace the whole machine: of their processes more is kept than of the others, which pay nothing
//! for it.
//!
//! Each recording has a bit. A target has those of the recordings that it is in, and its children get them from the kernel
//! side at their fork. The scope says what each bit means. When a recording ends, its bit loses its meaning at once. It is
//! given to another one only after it was taken off all targets, when no program runs any more that saw it.

use iotrace_common::{
    abi::maps::TARGETS,
    scope::{ALL_PROCESSES, Recordings, Scope},
};

use super::{Kernel, KernelError, error::errno_of, lines::WantedLines, map_error};

/// What is kept of the processes of a recording beyond what is kept of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// [`super::Detail::Full`].
    pub full: bool,
    pub negative_lookups: bool,
    pub cpu: bool,
    pub latencies: bool,
    pub waits: bool,
    /// Each operation by itself.
    pub trace: bool,
    /// What opened each file.
    pub lines: WantedLines,
}

impl Kept {
    /// All that proves itself in the self-test: waits need hooks of their own, which are on only as long as they are kept, and
    /// operations go to rings that nobody reads yet. It runs no Python.
    pub const TESTED: Self = Self {
        full: true,
        negative_lookups: true,
        cpu: true,
        latencies: true,
        waits: false,
        trace: false,
        lines: WantedLines {
            python: false,
            native: false,
        },
    };

    /// Whether that is more than of all.
    pub fn is_more(&self) -> bool {
        *self != Self::default()
    }
}

/// A recording whose processes are marked. Ends by [`Kernel::end_recording`].
#[derive(Debug, PartialEq, Eq)]
pub struct Slot(Recordings);

/// Bits of recordings.
#[derive(Debug, Default)]
pub struct Slots {
    taken: Recordings,
    /// Of recordings that have ended since the last [`Kernel::sweep_recordings`], and before it.
    ended: Recordings,
    left: Recordings,
}

/// The sets of a scope, each with whether a recording that keeps this, and perhaps follows children, is in it.
fn sets(scope: &mut Scope, kept: Kept, follow: bool) -> [(&mut Recordings, bool); 9] {
    [
        (&mut scope.full, kept.full),
        (&mut scope.negative_lookups, kept.negative_lookups),
        (&mut scope.cpu, kept.cpu),
        (&mut scope.latencies, kept.latencies),
        (&mut scope.waits, kept.waits),
        (&mut scope.trace, kept.trace),
        (&mut scope.lines, kept.lines.python),
        (&mut scope.stacks, kept.lines.native),
        (&mut scope.follow, follow),
    ]
}

impl Slots {
    /// A bit that no target has.
    fn take(&mut self) -> Option<Recordings> {
        let used = self.taken | self.ended | self.left | ALL_PROCESSES;
        let free = !used & used.wrapping_add(1);
        self.taken |= free;
        (free != 0).then_some(free)
    }

    fn give_back(&mut self, bit: Recordings) {
        self.taken &= !bit;
        self.ended |= bit;
    }

    /// The bits to take off all targets now.
    fn next_sweep(&mut self) -> Recordings {
        let swept = self.left;
        self.left = std::mem::take(&mut self.ended);
        swept
    }
}

impl Kernel {
    /// What is kept of all processes.
    pub fn kept_of_all(&self) -> Kept {
        let is_of_all = |set: Recordings| set & ALL_PROCESSES != 0;
        let scope = &self.scope;
        Kept {
            full: is_of_all(scope.full),
            negative_lookups: is_of_all(scope.negative_lookups),
            cpu: is_of_all(scope.cpu),
            latencies: is_of_all(scope.latencies),
            waits: is_of_all(scope.waits),
            trace: is_of_all(scope.trace),
            lines: WantedLines {
                python: is_of_all(scope.lines),
                native: is_of_all(scope.stacks),
            },
        }
    }

    /// Has more kept of the processes that `find` finds, this one left out, from now on, with `follow` also of their children. `None`:
    /// there are as many recordings as can be, or the programs were loaded without them.
    pub fn begin_recording(
        &mut self,
        kept: Kept,
        find: impl Fn() -> Vec<u32>,
        follow: bool,
    ) -> Result<Option<Slot>, KernelError> {
        let Some(bit) = self.recordings.as_mut().and_then(Slots::take) else {
            return Ok(None);
        };
        let slot = Slot(bit);
        for (set, is_in) in sets(&mut self.scope, kept, follow) {
            if is_in {
                *set |= bit;
            }
        }
        let begun = self
            .attach_waits_if_kept()
            .and_then(|()| self.mark_all(bit, find));
        if let Err(error) = begun {
            self.end_recording(slot)?;
            return Err(error);
        }
        Ok(Some(slot))
    }

    /// Has the stacks of native programs sent again, to a recording that has them from here on.
    pub fn send_stacks_again(&mut self) -> Result<(), KernelError> {
        self.scope.stacks_round += 1;
        self.publish_scope()
    }

    fn mark_all(
        &mut self,
        bit: Recordings,
        find: impl Fn() -> Vec<u32>,
    ) -> Result<(), KernelError> {
        // Before the processes: a child gets what its parent's recordings follow.
        self.publish_scope()?;
        // Twice: a child made between the first look and its parent's being marked is not.
        for pid in find().into_iter().chain(find()) {
            if pid != std::process::id() {
                self.mark(bit, pid)?;
            }
        }
        self.publish_scope()
    }

    fn mark(&mut self, bit: Recordings, pid: u32) -> Result<(), KernelError> {
        let recordings = self.targets.get(&pid, 0).unwrap_or(0);
        self.set_recordings(pid, recordings | bit)
    }

    /// Has all kept of this process that may be kept of some, for the self-test.
    pub(super) fn record_itself(&mut self) -> Result<Option<Slot>, KernelError> {
        let slot = self.begin_recording(Kept::TESTED, Vec::new, false)?;
        if let Some(Slot(bit)) = slot {
            self.mark(bit, std::process::id())?;
            self.publish_scope()?;
        }
        Ok(slot)
    }

    /// Keeps no more of a recording's processes than of the others.
    pub fn end_recording(&mut self, Slot(bit): Slot) -> Result<(), KernelError> {
        for (set, _) in sets(&mut self.scope, Kept::default(), false) {
            *set &= !bit;
        }
        if let Some(slots) = &mut self.recordings {
            slots.give_back(bit);
        }
        self.publish_scope()?;
        self.detach_waits_unless_kept();
        Ok(())
    }

    /// Takes recordings that have ended off their processes. Between two calls there is a drain, which waits for the programs
    /// that saw them last.
    pub fn sweep_recordings(&mut self) -> Result<(), KernelError> {
        let swept = self.recordings.as_mut().map_or(0, Slots::next_sweep);
        if swept == 0 {
            return Ok(());
        }
        let marked: Vec<(u32, Recordings)> = self.targets.iter().filter_map(Result::ok).collect();
        for (pid, recordings) in marked {
            match recordings & !swept {
                0 => self.forget_target(pid)?,
                left if left != recordings => self.replace_recordings(pid, left)?,
                _ => {}
            }
        }
        self.sweep_pythons()
    }

    /// A process that has ended meanwhile stays gone.
    fn replace_recordings(&mut self, pid: u32, recordings: Recordings) -> Result<(), KernelError> {
        /// `BPF_EXIST`.
        const ONLY_IF_THERE: u64 = 2;
        match self.targets.insert(pid, recordings, ONLY_IF_THERE) {
            Err(error) if errno_of(&error) != Some(libc::ENOENT) => {
                Err(map_error(TARGETS.name, "update", &error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_is_free_again_after_two_sweeps() {
        let mut slots = Slots::default();
        let bits: Vec<Recordings> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(bits.len(), 63, "the last one stands for all processes");
        assert_eq!(bits.iter().fold(0, |all, bit| all | bit), !ALL_PROCESSES);
        slots.give_back(bits[7]);
        assert_eq!(slots.take(), None);
        assert_eq!(slots.next_sweep(), 0, "programs may have seen it");
        assert_eq!(slots.take(), None);
        assert_eq!(slots.next_sweep(), bits[7]);
        assert_eq!(slots.take(), Some(bits[7]));
    }
}
