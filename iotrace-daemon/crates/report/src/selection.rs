//! A report of a part of the files: those that globs choose.
//!
//! All sections are of the chosen files ([`Part`]). Verdict and findings are left out: that a job waits for nothing else, or
//! that nothing synced a checkpoint, cannot be said of a part.

use serde_json::{Value as Json, json};

use super::{Report, merged::Merged, text::units::count};
use iotrace_analysis::{findings::LOOKED_AT, part::Part};
use iotrace_model::{Model, counters::saturating_sum, run::Run};
use iotrace_phases::{
    Classifier,
    path_glob::{FileChoice, PathGlob},
};

/// What [`Selection::new`] has left of a recording.
pub struct Selection {
    pub(super) about: Selected,
    pub(super) part: Part,
}

/// What was chosen.
pub(super) struct Selected {
    include: Vec<String>,
    exclude: Vec<String>,
    /// Regular files that are chosen, and that were used at all.
    files: u64,
    recorded_files: u64,
    /// Operations that are of no file's counters: calls by path and overflow.
    no_file_operations: u64,
}

impl Selection {
    /// Takes out of a recording what was not done to the files that `choice` has.
    pub fn new(
        choice: &FileChoice,
        model: &mut Model,
        run: &mut Run,
        classifier: &Classifier,
    ) -> Self {
        let recorded_files = used_files(model);
        let processes = model.processes().iter();
        let no_file = processes.flat_map(|process| [&process.path_only, &process.overflow]);
        let no_file_operations = saturating_sum(no_file.map(|cell| cell.total().operations()));
        let part = Part::new(choice, model, run, classifier);
        let texts = |globs: &[PathGlob]| globs.iter().map(|glob| glob.text().to_owned()).collect();
        let about = Selected {
            include: texts(&choice.include),
            exclude: texts(&choice.exclude),
            files: used_files(model),
            recorded_files,
            no_file_operations,
        };
        Self { about, part }
    }
}

/// Regular files that anything was done to.
fn used_files(model: &Model) -> u64 {
    let mut files: Vec<u32> = model.rows().iter().map(|row| row.file).collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| !model.file(*file).is_directory());
    files.len() as u64
}

impl Selected {
    /// What the report is of, and what it lacks.
    pub(super) fn text(&self) -> String {
        let number = match self.files {
            0 => "None".to_owned(),
            files => format!("Only {}", count(files)),
        };
        let options = [("--include", &self.include), ("--exclude", &self.exclude)];
        let options = options
            .into_iter()
            .flat_map(|(option, globs)| globs.iter().map(move |glob| format!(" {option} {glob}")));
        format!(
            "{number} of {} files:{}. Left out: {} operations of no file, CPU time, waits, verdict, findings.",
            count(self.recorded_files),
            options.collect::<String>(),
            count(self.no_file_operations),
        )
    }

    /// The key `selection`.
    pub(super) fn json(&self) -> Json {
        json!({
            "text": self.text(),
            "include": self.include,
            "exclude": self.exclude,
            "files": self.files,
            "recorded_files": self.recorded_files,
            "operations_of_no_file": self.no_file_operations,
        })
    }
}

impl Report<'_> {
    /// Whether it is of a part of the files.
    pub(super) fn is_selection(&self) -> bool {
        self.selection.is_some()
    }

    /// What findings can rest on; nothing where none are made.
    pub(super) fn looked_at(&self) -> &'static [&'static str] {
        match self.is_selection() {
            true => &[],
            false => &LOOKED_AT,
        }
    }

    /// Merged time with its upper bound. What is known of a file is the part that ended with its calls, and a call on a file
    /// that is not chosen may have overlapped it: then the bound is the time in calls.
    pub(super) fn bounded(&self, known: Merged) -> Merged {
        match self.is_selection() {
            true => Merged {
                at_most: known.in_calls.min(self.run.duration_ns).max(known.at_least),
                ..known
            },
            false => known,
        }
    }
}
