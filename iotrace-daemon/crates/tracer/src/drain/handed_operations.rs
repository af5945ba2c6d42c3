//! The operation trace of recordings through a service: what the rings hold, and what found no room in them, for whoever wants
//! it.

use std::{collections::HashMap, mem, time::Duration};

use iotrace_common::{
    key::FileId,
    trace::{Missing, MissingByGeneration, Operation},
};

use super::{
    Batch,
    rings::{LOOK_INTERVAL, MANY_RECORDS, Operations},
};
use crate::kernel::KernelError;
use iotrace_model::input::ProcessId;

/// Operations one by one, on their way to a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Those of one CPU are in the order of their ends.
    pub operations: Vec<Operation>,
    /// What is missing, by process, beyond what was told before.
    pub missing: Vec<(ProcessId, Missing)>,
}

impl Traced {
    /// Whether it has nothing.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.missing.is_empty()
    }

    /// Those of processes and files that `is_wanted` accepts.
    pub fn part(&self, mut is_wanted: impl FnMut(ProcessId, FileId) -> bool) -> Self {
        let wanted = |operation: &&Operation| {
            let process = ProcessId::from(&operation.key);
            is_wanted(process, operation.key.file)
        };
        let operations = self.operations.iter().filter(wanted).copied().collect();
        let wanted = |(process, _): &&(ProcessId, Missing)| is_wanted(*process, FileId::NONE);
        let missing = self.missing.iter().filter(wanted).copied().collect();
        Self {
            operations,
            missing,
        }
    }

    /// The same with the operations counted as lost.
    pub fn lost(self) -> Self {
        let mut missing: HashMap<ProcessId, Missing> = self.missing.into_iter().collect();
        for operation in &self.operations {
            let process = ProcessId::from(&operation.key);
            missing.entry(process).or_default().lost += 1;
        }
        Self {
            operations: Vec::new(),
            missing: missing.into_iter().collect(),
        }
    }

    /// Adds what is missing in another one.
    pub fn add_missing(&mut self, other: Self) {
        let mut missing: HashMap<ProcessId, Missing> = self.missing.drain(..).collect();
        for (process, more) in other.missing {
            missing.entry(process).or_default().add(more);
        }
        self.missing.extend(missing);
    }
}

/// The rings of a service.
pub struct HandedOperations {
    source: Operations,
    read: Vec<Operation>,
    /// What is missing by process, as it was last told.
    told: HashMap<ProcessId, MissingByGeneration>,
    /// Whether somebody wants them.
    are_wanted: bool,
}

impl HandedOperations {
    pub fn new(source: Operations) -> Self {
        Self {
            source,
            read: Vec::new(),
            told: HashMap::new(),
            are_wanted: false,
        }
    }

    /// Whether operations are handed on from now on.
    pub fn want(&mut self, are_wanted: bool) -> Result<(), KernelError> {
        if are_wanted && !self.are_wanted {
            self.source.skip()?;
            self.told.clear();
        }
        if !are_wanted {
            self.read = Vec::new();
        }
        self.are_wanted = are_wanted;
        Ok(())
    }

    /// How long nobody need look at the rings; none where nobody wants what they hold.
    pub fn interval(&self) -> Option<Duration> {
        self.are_wanted.then_some(LOOK_INTERVAL)
    }

    /// Reads what there is.
    pub fn look(&mut self) {
        if self.are_wanted {
            self.source.rings.read(usize::MAX, &mut self.read);
        }
    }

    /// The operations that are to be handed on, where they are many.
    pub fn many(&mut self) -> Option<Batch> {
        let are_many = self.read.len() >= MANY_RECORDS;
        are_many.then(|| {
            Batch::Operations(Traced {
                operations: mem::take(&mut self.read),
                missing: Vec::new(),
            })
        })
    }

    /// The operations that were counted before generation `current` began, all where there is none, and what is missing since
    /// the last call. The kernel side looks at the generation just before it counts, so one of a thread may be taken for the
    /// one before.
    pub fn batch(&mut self, current: Option<u64>) -> Result<Option<Batch>, KernelError> {
        if !self.are_wanted {
            return Ok(None);
        }
        self.look();
        let is_later =
            |operation: &mut Operation| Some(operation.epoch) == current.map(|it| it as u32);
        let later: Vec<Operation> = self.read.extract_if(.., is_later).collect();
        let operations = mem::replace(&mut self.read, later);
        let missing = self.missing(current)?;
        let traced = Traced {
            operations,
            missing,
        };
        Ok((!traced.is_empty()).then_some(Batch::Operations(traced)))
    }

    /// As for [`HandedOperations::batch`]. Generations take turns, so all that is missing in those of the other kind is of
    /// before the current one.
    fn missing(&mut self, current: Option<u64>) -> Result<Vec<(ProcessId, Missing)>, KernelError> {
        let is_over = |kind: usize| current.is_none_or(|current| current % 2 != kind as u64);
        let mut all = Vec::new();
        for (process, now) in self.source.missing()? {
            let told = self.told.entry(process).or_default();
            let mut more = Missing::default();
            for kind in (0..told.len()).filter(|kind| is_over(*kind)) {
                let before = mem::replace(&mut told[kind], now[kind]);
                more.add(Missing {
                    lost: now[kind].lost.saturating_sub(before.lost),
                    left_out: now[kind].left_out.saturating_sub(before.left_out),
                });
            }
            if more != Missing::default() {
                all.push((process, more));
            }
        }
        Ok(all)
    }
}
