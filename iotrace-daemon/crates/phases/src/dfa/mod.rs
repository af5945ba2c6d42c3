//! All rules as one deterministic automaton in one flat table, which the kernel programs walk and user space too.
//!
//! A path is fed backwards, last byte first, because the kernel finds a path leaf first. A directory's path ends with a
//! `/`, which is fed first. Nothing is fed at the end.
//!
//! ```text
//! said = |state| says[base of the file's filesystem type + labels[state]]      // base 0 for all that no rule names
//! state = 0
//! found = said(state).sure
//! for byte in path.reversed() {
//!     entry = next[state * stride + class[byte]]
//!     state = entry >> 1
//!     if entry & 1 { found = first(found, said(state).sure) }
//! }
//! found = first(found, said(state).last)
//! ```
//!
//! `first` takes the smaller of the lower halves and the smaller of the upper halves: a [`Verdict`] has the number of
//! a rule in the upper bits of each half, so that is the first rule for each direction.
//!
//! | part | type | at most | what |
//! |---|---|---|---|
//! | `class` | `[u8; 256]` | 256 bytes | bytes that no rule tells apart have one class |
//! | `stride` | `u32` | | number of classes, 1 to 256: the length of a row |
//! | `next` | `[u16]` | [`MAX_TRANSITIONS`] | rows of transitions, by state: the next state, and in bit 0 whether it is sure of something |
//! | `labels` | `[u16]` | [`MAX_STATES`] | by state: which of the things that there are to say it says |
//! | `says` | `[State]`, two `u32` | [`MAX_SAYS`] | by kind of filesystem and label: rules that match whatever precedes, and those that match where the path ends here |
//! | `bases` | `u16` by filesystem type | one per type that a rule names | place in `says` of its kind's first label |
//!
//! So a rule for some filesystems adds what it has to say once more, and no states: those are the same on all.
//!
//! The filesystem types are those of [`iotrace_model::mounts::family`], so a superblock's magic number tells them.

mod build;
mod cpu_time;
mod machine;
mod minimize;
mod stored;
mod unit;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use iotrace_common::phases;
use serde::{Deserialize, Serialize};

use super::{
    phase::{Direction, Phase},
    rules::MAX_RULES,
};
pub use build::{build, build_within};
pub use cpu_time::CpuTime;
use cpu_time::{MAX_BUILTIN_TIMES, MAX_CPU_TIME};
pub use machine::State;
pub use stored::table as stored;
pub use unit::{Unit, of_glob, of_rule};

pub use iotrace_common::phases::{MAX_SAYS, MAX_STATES, MAX_TRANSITIONS};

/// A rule set whose table would not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    #[error(
        "there are {0} rules, and at most {MAX_RULES} can be used: give fewer rules more globs"
    )]
    Rules(usize),
    #[error(
        "rule {0:?} is too large by itself: split it, or write fewer * and ** within its globs"
    )]
    Rule(String),
    #[error(
        "the rules need more than {MAX_STATES} states or {MAX_TRANSITIONS} transitions, which a table holds: leave out \
         rules, or write fewer * and ** within their globs"
    )]
    Table,
    #[error(
        "the rules take more than {} s of CPU time to compile, and {MAX_BUILTIN_TIMES} times that of the built-in ones: leave out \
         rules, or write fewer * and ** within their globs",
        MAX_CPU_TIME.as_secs()
    )]
    Time,
    #[error(
        "the rules say {labels} different things on each of {kinds} kinds of filesystems, and a table holds {MAX_SAYS} in \
         all: name fewer different sets of fs_type, or give more rules the same one"
    )]
    Says { labels: usize, kinds: usize },
}

/// What a file is when it is read, and when it is written: for each, the phase in 4 bits and the rule in 12.
///
/// Bits 0 to 3: phase of a read ([`Phase::code`]); 4 to 15: its rule, 0xfff for none; 16 to 19 and 20 to 31: the same
/// of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Verdict(u32);

const NO_RULE: u16 = 0xfff;

impl Verdict {
    /// What no rule matches.
    pub const NONE: Self = Self::new([None, None]);

    /// Of the rule and its phase, by direction.
    const fn new(rules: [Option<(u16, Phase)>; 2]) -> Self {
        Self(half(rules[0]) | half(rules[1]) << 16)
    }

    /// For each direction, the verdict whose rule comes first.
    pub fn first(self, other: Self) -> Self {
        Self(phases::first(self.0, other.0))
    }

    /// For each direction, this one if a rule gave it, else the other.
    pub fn or(self, other: Self) -> Self {
        let halves = Direction::ALL.map(|direction| {
            let from = self.rule(direction).map_or(other, |_| self);
            u32::from(from.half(direction)) << (16 * direction.index())
        });
        Self(halves[0] | halves[1])
    }

    /// The bits, as the table has them.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The phase of a file used in `direction`.
    pub fn phase(self, direction: Direction) -> Phase {
        Phase::from_code(self.half(direction) & 0xf)
    }

    /// The rule that gave it: its place in the rule set.
    pub fn rule(self, direction: Direction) -> Option<usize> {
        let rule = self.half(direction) >> 4;
        (rule != NO_RULE).then_some(rule.into())
    }

    fn half(self, direction: Direction) -> u16 {
        (self.0 >> (16 * direction.index())) as u16
    }
}

const fn half(rule: Option<(u16, Phase)>) -> u32 {
    let (rule, phase) = match rule {
        Some(rule) => rule,
        None => (NO_RULE, Phase::UNMATCHED),
    };
    ((rule << 4) | phase.code()) as u32
}

/// The automaton of a rule set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Table {
    #[serde(with = "stored::classes")]
    classes: [u8; 256],
    stride: u32,
    next: Vec<u16>,
    labels: Vec<u16>,
    says: Vec<State>,
    bases: Vec<(String, u16)>,
}

impl Table {
    /// A number that another table does not have.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Class of each byte.
    pub fn classes(&self) -> &[u8; 256] {
        &self.classes
    }

    /// Length of a row of [`Table::next`].
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Transitions, by state and class.
    pub fn next(&self) -> &[u16] {
        &self.next
    }

    /// Label of each state.
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// What states say, by kind of filesystem and label.
    pub fn says(&self) -> &[State] {
        &self.says
    }

    /// Where what is said of files on `fs_type`, a [`iotrace_model::mounts::family`], starts in [`Table::says`].
    pub fn base(&self, fs_type: &str) -> u16 {
        let found = self.bases.iter().find(|(name, _)| name == fs_type);
        found.map_or(0, |(_, base)| *base)
    }

    /// What a state says of files on the filesystems of `base`.
    pub fn said(&self, base: u16, state: u16) -> State {
        let label = self.labels[usize::from(state)];
        self.says[usize::from(base) + usize::from(label)]
    }

    /// What the file at `path` is, on the filesystems of `base`.
    pub fn verdict(&self, path: &[u8], is_directory: bool, base: u16) -> Verdict {
        let mut state = 0;
        let mut found = self.said(base, state).sure;
        let slash = is_directory.then_some(&b'/');
        for byte in slash.into_iter().chain(path.iter().rev()) {
            let speaks;
            (state, speaks) = self.step(state, *byte);
            if speaks {
                found = found.first(self.said(base, state).sure);
            }
        }
        found.first(self.said(base, state).last)
    }

    /// The state after `byte`, and whether it is sure of something.
    pub fn step(&self, state: u16, byte: u8) -> (u16, bool) {
        let class = usize::from(self.classes[usize::from(byte)]);
        let entry = self.next[usize::from(state) * self.stride as usize + class];
        (entry >> 1, entry & 1 != 0)
    }

    /// Bytes of the parts that the kernel has.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.classes)
            + size_of_val(self.next.as_slice())
            + size_of_val(self.labels.as_slice())
            + size_of_val(self.says.as_slice())
    }
}
