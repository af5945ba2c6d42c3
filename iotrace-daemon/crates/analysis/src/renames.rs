//! Renames of checkpoints: those that end a save, and those that set a file aside before the next one takes its name.

use std::collections::{BTreeMap, HashMap};

use super::{
    naming::{is_unfinished, without_aside_mark},
    uses::Touch,
};
use iotrace_model::{Model, paths::name};
use iotrace_phases::context::Sorted;

/// A rename that sets a file aside is this much nearer to another save than to the save of the file.
const MIN_DISTANCE_RATIO: i64 = 4;

/// A rename: file, process, and when, nanoseconds since the start of the run.
pub type Rename = (u32, u32, i64);

/// What the renames of saved files mean.
#[derive(Default)]
pub struct Renames {
    /// Those that end a save.
    pub ends: Vec<Rename>,
    /// By file: the path under which it was saved, if it was set aside since.
    pub saved_as: HashMap<u32, Vec<u8>>,
}

impl Renames {
    /// Judges the renames of files that were saved.
    pub fn new(model: &Model, sorted: &[Sorted], saved: &[Touch], mut all: Vec<Rename>) -> Self {
        all.sort_unstable_by_key(|(file, _, at)| (*file, *at));
        let saves = Saves::new(saved);
        let mut renames = Self::default();
        // Files that were set aside, and the name that others have which were written under the same name at first.
        let mut aside: Vec<u32> = Vec::new();
        let mut final_names: HashMap<&[u8], &[u8]> = HashMap::new();
        for of_file in all.chunk_by(|one, other| one.0 == other.0) {
            let index = of_file[0].0;
            let (file, sorted) = (model.file(index), &sorted[index as usize]);
            let first = file.opened_as.unwrap_or(file.path);
            let is_final = sorted.is_saved_as_first && !is_unfinished(name(first));
            let ends = renames.ends.len();
            if !sorted.is_by_first_name {
                renames.ends.extend(saves.ends(of_file, is_final));
            }
            let has_ends = renames.ends.len() > ends;
            if sorted.is_by_first_name || is_final && !has_ends {
                renames.saved_as.insert(index, first.to_vec());
            } else if renames.ends.len() - ends < of_file.len() {
                match without_aside_mark(file.path) {
                    Some(path) => drop(renames.saved_as.insert(index, path)),
                    None => aside.push(index),
                }
            } else if is_unfinished(name(first)) {
                final_names.insert(first, file.path);
            }
        }
        for index in aside {
            let first = model.file(index).opened_as;
            let saved_as = first.and_then(|first| final_names.get(first));
            renames
                .saved_as
                .extend(saved_as.map(|path| (index, path.to_vec())));
        }
        renames.ends.sort_unstable_by_key(|(_, _, at)| *at);
        renames
    }
}

/// Writes of checkpoints.
struct Saves<'a> {
    of_file: BTreeMap<u32, Vec<&'a Touch>>,
    /// All, by their start.
    all: Vec<&'a Touch>,
}

impl<'a> Saves<'a> {
    fn new(saved: &'a [Touch]) -> Self {
        let mut all: Vec<&Touch> = saved.iter().filter(|touch| touch.bytes > 0).collect();
        all.sort_unstable_by_key(|touch| (touch.start, touch.file));
        let mut of_file: BTreeMap<u32, Vec<&Touch>> = BTreeMap::new();
        for touch in &all {
            of_file.entry(touch.file).or_default().push(touch);
        }
        Self { of_file, all }
    }

    /// Of the renames of one file, in order, those that end a save: the first one after each, unless the file had the name of a
    /// checkpoint already and the rename is part of the next save.
    fn ends(&self, renames: &[Rename], is_final: bool) -> Vec<Rename> {
        let mut ended = None;
        let is_end = |rename: &&Rename| {
            let (file, _, at) = **rename;
            let saves = self.of_file.get(&file).map_or(&[][..], |saves| saves);
            let before = saves.partition_point(|touch| touch.start <= at);
            let Some(own) = before.checked_sub(1).map(|last| saves[last]) else {
                return !is_final;
            };
            let is_first = ended.replace(own.start) != Some(own.start);
            is_first && !(is_final && self.is_of_another(own, at))
        };
        renames.iter().filter(is_end).copied().collect()
    }

    /// Whether a moment is far nearer to a later save of another file than to the end of this one.
    fn is_of_another(&self, own: &Touch, at: i64) -> bool {
        let next = self.all.partition_point(|touch| touch.start <= at);
        let is_other = |touch: &&&Touch| touch.file != own.file;
        let before = self.all[..next].iter().rev().find(is_other);
        let before = before.filter(|touch| touch.start > own.start);
        let after = self.all[next..].iter().find(is_other);
        let distances = [
            before.map(|touch| (at - touch.end).max(0)),
            after.map(|touch| touch.start - at),
        ];
        let nearest = distances.into_iter().flatten().min();
        nearest.is_some_and(|nearest| nearest.saturating_mul(MIN_DISTANCE_RATIO) < at - own.end)
    }
}
