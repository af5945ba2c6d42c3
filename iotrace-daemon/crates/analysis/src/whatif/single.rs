//! One change by itself, and how changes are written.

use std::fmt;

use super::{Change, Speed};

/// One change by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Single {
    /// All storage is faster by this factor.
    Storage(f64),
    Workers(u32),
    Cpus(u32),
}

impl From<Single> for Change {
    fn from(single: Single) -> Self {
        let mut change = Self::default();
        match single {
            Single::Storage(factor) => change.storage = factor,
            Single::Workers(count) => change.workers = Some(count),
            Single::Cpus(count) => change.cpus = Some(count),
        }
        change
    }
}

impl fmt::Display for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(factor) => write!(f, "storage {}", Speed::Times(*factor)),
            Self::Workers(count) => write!(f, "workers {count}"),
            Self::Cpus(count) => write!(f, "CPUs {count}"),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(factor) if factor.is_finite() => write!(f, "{factor}x"),
            Self::Times(_) => f.write_str("infinite"),
            Self::Typical => f.write_str("fast"),
        }
    }
}
