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
    TINY_CALLS "tiny_calls" 1000.0 "Minimum number of reads, or writes, of at most 10 KiB (Drishti: 1,000 small requests).";
    TINY_SHARE "tiny_share" 0.5 "Their minimum share of all reads, or writes, of the phase.";
    SYNCS "syncs" 100.0 "Minimum number of syncs of files of phase other after less than 1 MiB each.";
    SYNC_SHARE "sync_share" 0.05 "Minimum share of the run in these syncs.";
    SMALL_FILES "small_files" 1000.0 "Minimum number of training files in one epoch.";
    SMALL_FILE_BYTES "small_file_bytes" 1048576.0 "Maximum mean size of these files (Drishti: requests under 1 MiB).";
    NOT_FOUND "not_found" 1000.0 "Minimum number of negative look-ups.";
    NOT_FOUND_SHARE "not_found_share" 0.2 "Their minimum share of all look-ups of startup (themselves, and opens of startup files).";
    NOT_FOUND_SECONDS "not_found_seconds" 0.5 "Minimum time in negative look-ups.";
    NOT_FOUND_RUN_SHARE "not_found_run_share" 0.01 "Minimum share of the run in negative look-ups.";
    SAMPLE_OPENS "sample_opens" 1000.0 "Minimum number of opens of training files that read less than a quarter of the file.";
    SAMPLE_OPENS_PER_FILE "sample_opens_per_file" 16.0 "Minimum number of such opens of one file by one process.";
    FSYNC_SHARE "fsync_share" 0.5 "Minimum share of the time of all saves that went into syncs.";
    SAVE_SECONDS "save_seconds" 1.0 "Minimum time of all saves.";
    WRITER_SHARE "writer_share" 0.9 "Minimum share of a checkpoint's bytes that one of several ranks wrote.";
    WRITER_BUSY "writer_busy" 0.5 "Minimum share of the time of the saves that it spent in calls.";
    INPUT_SHARE "input_share" 0.3 "Minimum share of the run in reads of training data.";
    WORKERS_SHARE "workers_share" 0.8 "The same if only loader workers read, and the minimum share of their time.";
    MAPPED_SHARE "mapped_share" 0.1 "Minimum share of the run in waits of page faults on mapped data.";
    STALL_SHARE "stall_share" 0.05 "Minimum share of the run in which training reads stopped during saves.";
    IMBALANCE "imbalance" 0.3 "Minimum excess of the largest worker, or rank, over the mean (Drishti: 30 % of size).";
    BALANCE_BYTES "balance_bytes" 16777216.0 "Minimum bytes of a group of workers, or of all ranks.";
    FASTER "faster" 2.0 "Minimum speed-up by another mount for staging.";
    MEASURED_BYTES "measured_bytes" 16777216.0 "Minimum bytes on a mount to compare its bandwidth.";
    STAGE_SECONDS "stage_seconds" 5.0 "Minimum time in reads that staging must save.";
    MEMORY_SHARE "memory_share" 0.5 "Maximum size of a data set that fits in memory, as a share of the memory.";
    CACHED_RATE "cached_rate" 500000000.0 "Bytes per second inside reads from which they count as served from memory.";
    REREAD_SECONDS "reread_seconds" 5.0 "Minimum time in reads of the epochs after the first.";
    SLOW_FACTOR "slow_factor" 5.0 "Minimum factor by which a file is slower than the median of its kind, or a mount than the others.";
    SLOW_SHARE "slow_share" 0.1 "Minimum share of the phase's time in reads (slow file), or of all time in calls (slow mount).";
    HANG_SECONDS "hang_seconds" 5.0 "Minimum time in a call that has not returned.";
    LONG_CALL_SHARE "long_call_share" 0.2 "Minimum share of the run that a single read, write or sync took.";
    LONG_CALL_SECONDS "long_call_seconds" 5.0 "Minimum time of this call.";
    WAITED_SHARE "waited_share" 0.1 "Minimum share of their time that main threads waited for one kind of thing.";
    AUDITED_FILES "audited_files" 64.0 "Minimum number of files in an epoch to judge their order.";
    SHARED_FILES "shared_files" 0.5 "Minimum share of a rank's files in an epoch that any other rank reads too, on average.";
    LEAKED_FILES "leaked_files" 16.0 "Minimum number of validation files that training reads too.";
    COLD_FACTOR "cold_factor" 3.0 "Minimum factor by which the first epoch reads longer than the later ones.";
    COLD_SECONDS "cold_seconds" 5.0 "Minimum additional time in its reads.";
    AMPLIFICATION "amplification" 2.0 "Minimum ratio of bytes read in one open to the file's size.";
    SLOW_SECONDS "slow_seconds" 1.0 "Minimum time in reads of a file or mount.";
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
