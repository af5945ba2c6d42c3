//! A part of the files of a recording: those that globs choose.
//!
//! The model is cut down once, so that whatever is made of it is of the chosen files. What each file is stays as the whole
//! recording says, and what is of no one file is left out: [`Model::select`] lists it.

use super::{Analysis, findings::thresholds::Thresholds, page_cache};
use iotrace_model::{Model, counters::BYTES_READ, run::Run};
use iotrace_phases::{
    Classifier,
    context::{Sorted, sort},
    copies::Copies,
    path_glob::FileChoice,
};

/// The chosen files of a recording.
#[derive(Debug)]
pub struct Part {
    /// By index of the file.
    pub sorted: Vec<Sorted>,
    pub copies: Copies,
    /// Whether page-cache hits of the chosen files are known: the whole recording says whether fetches were counted.
    pub knows_cache: bool,
    /// Whether all files are chosen, and what is of no file is there too.
    pub is_whole: bool,
}

impl Part {
    /// All files.
    pub fn whole(model: &Model, run: &Run, classifier: &Classifier) -> Self {
        let copies = Copies::of(model, run.clock);
        Self {
            sorted: sort(model, classifier, &copies),
            copies,
            knows_cache: page_cache::is_known(model),
            is_whole: true,
        }
    }

    /// Takes out of a recording what was not done to the files that `choice` has.
    pub fn new(
        choice: &FileChoice,
        model: &mut Model,
        run: &mut Run,
        classifier: &Classifier,
    ) -> Self {
        let mut copies = Copies::of(model, run.clock);
        let sorted = sort(model, classifier, &copies);
        let is_told = page_cache::is_told(model);
        let files = (0..model.file_count() as u32).map(|index| model.file(index));
        let is_chosen: Vec<bool> = files
            .map(|file| choice.has(file.path, file.is_directory()))
            .collect();
        let is_chosen = |file: u32| is_chosen[file as usize];
        let spans = model.select(is_chosen);
        copies.select(is_chosen, &spans);
        run.in_flight.retain(|call| {
            let path = call.path.as_deref();
            path.is_some_and(|path| choice.has(path.as_bytes(), false))
        });
        let mut rows = model.rows().iter();
        let knows_cache = is_told
            && rows.all(|row| {
                let is_read = row.cell.total().v[BYTES_READ] > 0;
                !is_read || page_cache::goes_through(model, row.file)
            });
        Self {
            sorted,
            copies,
            knows_cache,
            is_whole: false,
        }
    }

    /// What is said of these files, without findings.
    pub fn analysis(&self, model: &Model, run: &Run) -> Analysis {
        let (copies, thresholds) = (self.copies.clone(), Thresholds::default());
        let mut analysis = Analysis::new(model, run, &self.sorted, copies, &thresholds);
        analysis.findings.clear();
        analysis.knows_cache = self.knows_cache;
        analysis.epochs.knows_cache |= self.knows_cache;
        analysis
    }
}
