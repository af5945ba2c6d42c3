//! What a path alone does not tell and the whole run does: whether files that may be weights or data were data.
//!
//! Only the built-in rules that are named here are second-guessed, and only for reads. `docs/phases.md` has the
//! framework behind each case, and what cannot be told.

use std::collections::{HashMap, HashSet};

use super::{
    Classifier,
    dfa::Verdict,
    phase::{Direction, Phase},
};
use crate::model::{
    Model, Row,
    counters::{BYTES_READ, BYTES_WRITTEN},
};

/// Rules that take a read for a load of weights.
const TAKEN_FOR_WEIGHTS: [&str; 1] = ["weights-loaded"];
/// Rules that take a read for one of data.
const TAKEN_FOR_DATA: [&str; 2] = ["hdf5-netcdf-root", "numpy"];
/// Files of one kind in one directory from which on they are data; weights in so many parts have names of their own.
const FAMILY: usize = 16;

/// Why a read is sorted otherwise than by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One process read it at least twice over, as epochs do.
    ReadAgain,
    /// Many of its kind in its directory were read: a sample per file.
    Family,
    /// Its index (`.idx` for `.bin`) was used too.
    Index,
    /// It was saved in this run.
    SavedHere,
}

impl Reason {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAgain => "read_again",
            Self::Family => "family",
            Self::Index => "index",
            Self::SavedHere => "saved_here",
        }
    }

    const fn phase(self) -> Phase {
        match self {
            Self::ReadAgain | Self::Family | Self::Index => Phase::Training,
            Self::SavedHere => Phase::Restore,
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorted {
    pub verdict: Verdict,
    /// Why reads of it are another phase than the verdict's.
    pub reason: Option<Reason>,
}

impl Sorted {
    /// The phase of the file used in `direction`.
    pub fn phase(&self, direction: Direction) -> Phase {
        match (self.reason, direction) {
            (Some(reason), Direction::Read) => reason.phase(),
            _ => self.verdict.phase(direction),
        }
    }
}

/// Sorts all files of a run, by their index in the model. A renamed file is sorted by its newest name.
pub fn sort(model: &Model, classifier: &Classifier) -> Vec<Sorted> {
    let by_path = |index| {
        let file = model.file(index);
        let verdict = if file.path.is_empty() {
            Verdict::NONE
        } else {
            let (_, fs_type) = model.mount_of(&file);
            classifier.verdict(file.path, file.is_directory(), fs_type)
        };
        Sorted {
            verdict,
            reason: None,
        }
    };
    let mut sorted: Vec<Sorted> = (0..model.file_count() as u32).map(by_path).collect();
    let found = Ambiguous::of(&sorted, classifier).reasons(model);
    for (file, reason) in found {
        sorted[file as usize].reason = Some(reason);
    }
    sorted
}

/// Files whose reads may be of another phase.
struct Ambiguous {
    /// By index: taken for weights.
    weights: HashSet<u32>,
    /// By index: taken for data, and a checkpoint where written.
    data: HashSet<u32>,
}

impl Ambiguous {
    fn of(sorted: &[Sorted], classifier: &Classifier) -> Self {
        let rules = classifier.rules().all();
        let is_by = |sorted: &Sorted, names: &[&str]| {
            let rule = sorted
                .verdict
                .rule(Direction::Read)
                .map(|rule| &rules[rule]);
            rule.is_some_and(|rule| rule.origin.is_builtin && names.contains(&rule.name.as_str()))
        };
        let chosen = |names: &[&str]| {
            let files = sorted.iter().enumerate();
            files
                .filter(|(_, sorted)| is_by(sorted, names))
                .map(|(index, _)| index as u32)
                .collect()
        };
        let mut data: HashSet<u32> = chosen(&TAKEN_FOR_DATA);
        data.retain(|file| {
            sorted[*file as usize].verdict.phase(Direction::Write) == Phase::Checkpoint
        });
        Self {
            weights: chosen(&TAKEN_FOR_WEIGHTS),
            data,
        }
    }

    fn reasons(&self, model: &Model) -> HashMap<u32, Reason> {
        let mut reasons = HashMap::new();
        let mut read: HashSet<u32> = HashSet::new();
        for row in model.rows() {
            if self.data.contains(&row.file) && row.cell.total().v[BYTES_WRITTEN] > 0 {
                reasons.insert(row.file, Reason::SavedHere);
            }
            if self.weights.contains(&row.file) {
                match bytes_read(row) {
                    0 => {}
                    bytes if is_again(model, row.file, bytes) => {
                        reasons.insert(row.file, Reason::ReadAgain);
                    }
                    _ => {
                        read.insert(row.file);
                    }
                }
            }
        }
        self.families(model, &read, &mut reasons);
        self.indexed(model, &read, &mut reasons);
        reasons
    }

    fn families(&self, model: &Model, read: &HashSet<u32>, reasons: &mut HashMap<u32, Reason>) {
        let mut families: HashMap<(&[u8], &[u8]), Vec<u32>> = HashMap::new();
        for file in read {
            let (directory, extension) = family(model.file(*file).path);
            families
                .entry((directory, extension))
                .or_default()
                .push(*file);
        }
        for members in families.values().filter(|members| members.len() >= FAMILY) {
            for file in members {
                reasons.entry(*file).or_insert(Reason::Family);
            }
        }
    }

    /// Data with an index beside it, as Megatron's.
    fn indexed(&self, model: &Model, read: &HashSet<u32>, reasons: &mut HashMap<u32, Reason>) {
        let stem = |path: &'_ [u8], ending: &[u8]| path.strip_suffix(ending).map(<[u8]>::to_vec);
        let wanted: HashMap<Vec<u8>, u32> = read
            .iter()
            .filter_map(|file| Some((stem(model.file(*file).path, b".bin")?, *file)))
            .collect();
        if wanted.is_empty() {
            return;
        }
        for index in 0..model.file_count() as u32 {
            let stem = stem(model.file(index).path, b".idx");
            if let Some(file) = stem.and_then(|stem| wanted.get(&stem)) {
                reasons.entry(*file).or_insert(Reason::Index);
            }
        }
    }
}

fn bytes_read(row: &Row) -> u64 {
    row.cell.total().v[BYTES_READ]
}

/// Whether so many bytes are the file twice over.
fn is_again(model: &Model, file: u32, bytes: u64) -> bool {
    let size = model.file(file).size;
    size > 0 && bytes >= size.saturating_mul(2)
}

/// Directory and extension of a path.
fn family(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let (directory, name) = path.split_at(slash);
    let dot = name.iter().rposition(|byte| *byte == b'.');
    (directory, &name[dot.unwrap_or(name.len())..])
}
