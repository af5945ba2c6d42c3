//! From when on a finding is one: all numbers in one table, each of which `[thresholds]` of `iotrace.toml` can set.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use iotrace_phases::rules::Problem;

/// One threshold, described.
#[derive(Debug)]
pub struct Threshold {
    pub name: &'static str,
    pub default: f64,
    pub meaning: &'static str,
}

macro_rules! thresholds {
    ($($konst:ident $name:literal $default:literal $meaning:literal;)*) => {
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "numbers the constants below")]
        enum Index { $($konst),* }
        $(#[doc = $meaning] pub const $konst: usize = Index::$konst as usize;)*
        /// The thresholds, by index.
        pub const TABLE: [Threshold; [$($name),*].len()] = [$(Threshold {
            name: $name, default: $default, meaning: $meaning,
        }),*];
    };
}

thresholds! {
    TINY_CALLS "tiny_calls" 1000.0 "Reads, or writes, of at most 10 KiB from which on they are many (Drishti: 1,000 small requests).";
    TINY_SHARE "tiny_share" 0.5 "Their share of all reads, or writes, of the phase.";
    SMALL_FILES "small_files" 1000.0 "Training files in one epoch from which on they are many.";
    SMALL_FILE_BYTES "small_file_bytes" 1048576.0 "Mean size up to which files are small (Drishti: requests under 1 MiB).";
    NOT_FOUND "not_found" 1000.0 "Look-ups of files that are not there from which on they are many.";
    NOT_FOUND_SHARE "not_found_share" 0.2 "Their share of all look-ups of startup: themselves, and opens of files of that phase.";
    NOT_FOUND_SECONDS "not_found_seconds" 0.5 "Time in these look-ups below which they cost nothing.";
    NOT_FOUND_RUN_SHARE "not_found_run_share" 0.01 "Share of the run in these look-ups below which they cost nothing.";
    SAMPLE_OPENS "sample_opens" 1000.0 "Opens of training files, each followed by a small part of the file only, from which on they are many.";
    SAMPLE_OPENS_PER_FILE "sample_opens_per_file" 16.0 "Such opens of one file by one process.";
    FSYNC_SHARE "fsync_share" 0.5 "Share of the time of all saves that went into syncs.";
    SAVE_SECONDS "save_seconds" 1.0 "Time of all saves below which they are not looked at.";
    WRITER_SHARE "writer_share" 0.9 "Share of a checkpoint's bytes that one process wrote, of several ranks.";
    WRITER_BUSY "writer_busy" 0.5 "Share of the time of the saves that it spent in calls.";
    INPUT_SHARE "input_share" 0.3 "Share of the run in reads of training data from which on it is bound by them.";
    WORKERS_SHARE "workers_share" 0.8 "The same where loader workers alone read: the share of their time, too.";
    MAPPED_SHARE "mapped_share" 0.1 "Share of the run in page faults on mapped data that waited.";
    STALL_SHARE "stall_share" 0.05 "Share of the run in which training reads stood still during saves.";
    IMBALANCE "imbalance" 0.3 "How far the worker, or rank, with the most bytes is above the mean (Drishti: 30 % of size).";
    BALANCE_BYTES "balance_bytes" 16777216.0 "Bytes of a group of workers, or of all ranks, below which it is not looked at.";
    FASTER "faster" 2.0 "How much faster another mount must be for staging to be worth it.";
    MEASURED_BYTES "measured_bytes" 16777216.0 "Bytes on a mount below which its bandwidth is not compared.";
    STAGE_SECONDS "stage_seconds" 5.0 "Time in reads that staging must save.";
    MEMORY_SHARE "memory_share" 0.5 "Share of the memory up to which a data set fits.";
    CACHED_RATE "cached_rate" 500000000.0 "Bytes per second inside reads below which they were not served from memory.";
    REREAD_SECONDS "reread_seconds" 5.0 "Time in reads of the epochs behind the first below which they are not looked at.";
    SLOW_FACTOR "slow_factor" 5.0 "How much slower than the median of its kind a file, or than the others a mount, is slow.";
    SLOW_SHARE "slow_share" 0.1 "Share of the time in reads of its phase that a slow file takes, of all time in calls that a slow mount does.";
    HANG_SECONDS "hang_seconds" 5.0 "Time in a call that has not returned from which on it hangs.";
    WAITED_SHARE "waited_share" 0.1 "Share of their time that main threads waited for one kind of thing from which on it holds the job up.";
    AUDITED_FILES "audited_files" 64.0 "Files of an epoch below which its order says nothing.";
    COLD_FACTOR "cold_factor" 3.0 "How many times longer than the later ones a first epoch reads that is cold.";
    COLD_SECONDS "cold_seconds" 5.0 "Time in its reads beyond theirs.";
    AMPLIFICATION "amplification" 2.0 "How many times the bytes of a file are read in one open of it, from which on it is read again.";
    SLOW_SECONDS "slow_seconds" 1.0 "Time in its reads below which a file or mount is not looked at.";
}

/// Values of the thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds([f64; TABLE.len()]);

impl Default for Thresholds {
    fn default() -> Self {
        Self(TABLE.map(|threshold| threshold.default))
    }
}

impl std::ops::Index<usize> for Thresholds {
    type Output = f64;

    fn index(&self, index: usize) -> &f64 {
        &self.0[index]
    }
}

impl Thresholds {
    /// The same with one value set.
    pub fn with(mut self, index: usize, value: f64) -> Self {
        self.0[index] = value;
        self
    }

    /// Those that the table `[thresholds]` in `text`, which is that of `file`, sets, and the defaults.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let mut thresholds = Self::default();
        let (table, errors) = DeTable::parse_recoverable(text);
        let problem = |offset: usize, said: String| Problem {
            file: file.to_owned(),
            line: text.get(..offset).unwrap_or(text).matches('\n').count() + 1,
            text: said,
        };
        let mut problems: Vec<Problem> = errors
            .iter()
            .map(|error| {
                problem(
                    error.span().map_or(0, |span| span.start),
                    error.message().trim().to_owned(),
                )
            })
            .collect();
        if let Some(section) = table.get_ref().get("thresholds") {
            match section.get_ref() {
                DeValue::Table(entries) => {
                    for (key, value) in entries {
                        if let Err(said) = thresholds.set(key.get_ref(), value) {
                            problems.push(problem(key.span().start, said));
                        }
                    }
                }
                _ => problems.push(problem(section.span().start, "write [thresholds]".into())),
            }
        }
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() {
            Ok(thresholds)
        } else {
            Err(problems)
        }
    }

    fn set(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<(), String> {
        let Some(index) = TABLE.iter().position(|threshold| threshold.name == name) else {
            let names: Vec<_> = TABLE.iter().map(|threshold| threshold.name).collect();
            return Err(format!(
                "unknown threshold {name:?}: write one of {}",
                names.join(", ")
            ));
        };
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().replace('_', "").parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().replace('_', "").parse::<f64>().ok(),
            _ => None,
        };
        match number {
            Some(number) if number.is_finite() && number >= 0.0 => {
                self.0[index] = number;
                Ok(())
            }
            _ => Err(format!(
                "{name} is no number of at least 0: write one, such as {}",
                TABLE[index].default
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_what_it_names() {
        let set = Thresholds::parse(
            "t",
            "[[rule]]\n[thresholds]\ntiny_share = 0.1\nnot_found = 5_000\n",
        )
        .unwrap();
        assert_eq!(
            (set[TINY_SHARE], set[NOT_FOUND], set[IMBALANCE]),
            (0.1, 5000.0, 0.3)
        );
        let problems = Thresholds::parse(
            "t",
            "[thresholds]\ntiny = 1\nfaster = 'much'\nstall_share = -1\n",
        )
        .unwrap_err();
        assert_eq!(
            problems
                .iter()
                .map(|problem| problem.line)
                .collect::<Vec<_>>(),
            [2, 3, 4]
        );
        assert!(problems[0].text.contains("tiny_share") && problems[1].text.contains("2"));
    }

    #[test]
    fn every_threshold_is_documented() {
        let text = include_str!("../../../../../docs/reference/findings.md");
        for threshold in &TABLE {
            let row = format!("| `{}` | ", threshold.name);
            let end = format!(" | {} |", threshold.meaning);
            assert!(
                text.lines()
                    .any(|line| line.starts_with(&row) && line.ends_with(&end)),
                "{}",
                threshold.name
            );
        }
    }
}
