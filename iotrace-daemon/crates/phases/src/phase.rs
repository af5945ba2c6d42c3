//! Phases of a training job, and the directions that distinguish a save from a load.

use std::fmt;

/// Whether a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Read,
    Write,
}

impl Direction {
    /// Both, in the order of [`Direction::index`].
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// Its place in a pair.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As rules write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What I/O is done for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Program text, libraries and packages.
    Startup,
    /// The data that is trained on.
    Training,
    /// A save.
    Checkpoint,
    /// A load of a checkpoint or a model.
    Restore,
    /// Everything else, by class where a rule names one.
    Other(Option<Class>),
}

/// Kinds of [`Phase::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Cache,
    Log,
    System,
    Ipc,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cache, Self::Log, Self::System, Self::Ipc];

    /// As rules and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Log => "log",
            Self::System => "system",
            Self::Ipc => "ipc",
        }
    }
}

impl Phase {
    /// All of them, classes included, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Startup,
        Self::Training,
        Self::Checkpoint,
        Self::Restore,
        Self::Other(None),
        Self::Other(Some(Class::Cache)),
        Self::Other(Some(Class::Log)),
        Self::Other(Some(Class::System)),
        Self::Other(Some(Class::Ipc)),
    ];
    /// What no rule matches.
    pub const UNMATCHED: Self = Self::Other(None);

    /// As rules and reports write it, without the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Training => "training",
            Self::Checkpoint => "checkpoint",
            Self::Restore => "restore",
            Self::Other(_) => "other",
        }
    }

    /// The class of [`Phase::Other`].
    pub const fn class(self) -> Option<Class> {
        match self {
            Self::Other(class) => class,
            _ => None,
        }
    }

    /// Its number in the table and in the kernel's keys: 1 to 9; 0 is "not sorted".
    pub const fn code(self) -> u16 {
        match self {
            Self::Startup => 1,
            Self::Training => 2,
            Self::Checkpoint => 3,
            Self::Restore => 4,
            Self::Other(None) => 5,
            Self::Other(Some(class)) => 6 + class as u16,
        }
    }

    /// Undoes [`Phase::code`]; any other number is no phase of ours.
    pub fn from_code(code: u16) -> Self {
        let known = usize::from(code).checked_sub(1);
        known
            .and_then(|index| Self::ALL.get(index).copied())
            .unwrap_or(Self::UNMATCHED)
    }

    /// The phase that a rule of this one gives to files used in `direction`: checkpoints and restores are two sides
    /// of the same files, a save writes them and a load reads them.
    pub const fn used(self, direction: Direction) -> Self {
        match (self, direction) {
            (Self::Checkpoint | Self::Restore, Direction::Read) => Self::Restore,
            (Self::Checkpoint | Self::Restore, Direction::Write) => Self::Checkpoint,
            _ => self,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self.class() {
            Some(class) => write!(f, " ({})", class.name()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_common::phases::code;

    #[test]
    fn codes_are_the_order_of_all() {
        for (index, phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(usize::from(phase.code()), index + 1);
            assert_eq!(Phase::from_code(phase.code()), *phase);
        }
        for (phase, number) in [
            (Phase::Startup, code::STARTUP),
            (Phase::Training, code::TRAINING),
            (Phase::Checkpoint, code::CHECKPOINT),
            (Phase::UNMATCHED, code::UNMATCHED),
        ] {
            assert_eq!(u32::from(phase.code()), number, "{phase}");
        }
        assert_eq!(Phase::from_code(0), Phase::UNMATCHED);
        assert_eq!(Phase::from_code(10), Phase::UNMATCHED);
    }
}
