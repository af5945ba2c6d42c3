//! Conclusions against the program's own clock: saves, loads, copies and epochs of programs that say themselves what they
//! did. Each program runs once, at a flush interval chosen by its place; `IOTRACE_TEST_FLUSHES=all` runs it at all.
//! `IOTRACE_TEST_SCORES=FILE` appends how much was right, a line of JSON a run: `cargo xtask scoreboard` sums them up.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
    process::Command,
};

use crate::common::{Iotrace, directory, python};
use serde_json::{Value, json};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/corpus");
/// Flush intervals: none may change a conclusion.
const FLUSHES: [&str; 3] = ["250ms", "1s", "5s"];
/// How far a time may be from the program's own, seconds, and as a share of it. The machine may be busy.
const NEAR_SECONDS: f64 = 0.05;
const NEAR_SHARE: f64 = 0.05;

/// How much of one conclusion is right.
#[derive(Debug, Default, PartialEq)]
struct Score {
    /// As often as the program says, as the report says, and as both say.
    told: usize,
    found: usize,
    right: usize,
    /// Largest difference of a start or a length, seconds, where the program says them.
    largest_error: Option<f64>,
}

impl Score {
    /// Of numbers alone.
    fn of(told: usize, found: usize) -> Self {
        Self {
            told,
            found,
            right: told.min(found),
            largest_error: None,
        }
    }

    /// Of events: right is one at the time that the program says, in their order. The clocks are set by the pair with which
    /// the most are right.
    fn of_events(told: &[Value], found: &[Value]) -> Self {
        let mut score = Self {
            right: 0,
            ..Self::of(told.len(), found.len())
        };
        let timed: Vec<(f64, f64)> = told.iter().filter_map(told_times).collect();
        let found: Vec<(f64, f64)> = found.iter().map(found_times).collect();
        for anchor in &timed {
            for found_anchor in &found {
                let (mut right, mut largest_error) = (0, 0.0_f64);
                let mut left = found.iter();
                for told in &timed {
                    let near = left.clone().position(|found| {
                        let errors = errors(told, found, anchor.0, found_anchor.0);
                        errors.iter().all(|(_, told, found)| is_near(*told, *found))
                    });
                    let Some(found) = near.and_then(|near| left.nth(near)) else {
                        continue;
                    };
                    right += 1;
                    for (_, told, found) in errors(told, found, anchor.0, found_anchor.0) {
                        largest_error = largest_error.max((told - found).abs());
                    }
                }
                if right > score.right {
                    (score.right, score.largest_error) = (right, Some(largest_error));
                }
            }
        }
        // Of those without a time the number alone is known.
        let untimed = told.len() - timed.len();
        score.right += untimed.min(found.len() - score.right);
        score
    }
}

/// Starts since the first event, and lengths, as they are told and as they were found; seconds.
fn errors(
    told: &(f64, f64),
    found: &(f64, f64),
    first: f64,
    found_first: f64,
) -> [(&'static str, f64, f64); 2] {
    [
        ("start", told.0 - first, found.0 - found_first),
        ("length", told.1 - told.0, found.1 - found.0),
    ]
}

fn is_near(told: f64, found: f64) -> bool {
    (told - found).abs() <= NEAR_SECONDS.max(told.abs() * NEAR_SHARE)
}

/// Start and end, where the program says them, seconds.
fn told_times(event: &Value) -> Option<(f64, f64)> {
    Some((event[0].as_f64()?, event[1].as_f64()?))
}

fn found_times(event: &Value) -> (f64, f64) {
    let at = |key: &str| event[key].as_f64().unwrap();
    (at("start"), at("end"))
}

/// Appends what is right in one run to the file that the environment names.
fn keep(program: &str, flush: &str, scores: &[(&str, Score)]) {
    let Some(path) = env::var_os("IOTRACE_TEST_SCORES") else {
        return;
    };
    let scores = scores.iter().map(|(conclusion, score)| {
        let score = json!({
            "told": score.told,
            "found": score.found,
            "right": score.right,
            "largest_error_seconds": score.largest_error,
        });
        ((*conclusion).to_owned(), score)
    });
    let scores = Value::Object(scores.collect());
    let line = json!({"program": program, "flush": flush, "scores": scores});
    let file = OpenOptions::new().append(true).create(true).open(path);
    writeln!(file.unwrap(), "{line}").unwrap();
}

/// Runs a program at a flush interval, and compares the report with its truth; what differs.
fn differences(script: &str, program: &str, flush: &str) -> Vec<String> {
    let (_keep, dir) = directory();
    let truth = dir.join("truth.json");
    let (python, script) = (python(), format!("{PROGRAMS}/{script}.py"));
    let mut before = Command::new(&python);
    before
        .args([&script, "--prepare", program])
        .current_dir(&dir);
    assert!(before.status().unwrap().success(), "{program}");
    let finished = Iotrace::record()
        .entries("32768")
        .flush(flush)
        .current_dir(&dir)
        .env("TRUTH", truth.to_str().unwrap())
        .command([python.to_str().unwrap(), &script, program]);
    assert_eq!(finished.code(), 0, "{program}: {}", finished.stderr);
    let truth: Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    let report = finished.report();
    let mut differences = Vec::new();
    let mut scores = Vec::new();
    for (key, section) in [("saves", "checkpoints"), ("loads", "restores")] {
        let (told, found) = (array(&truth, key), array(&report, section));
        scores.push((key, Score::of_events(told, found)));
        if told.len() != found.len() {
            let found: Vec<_> = found.iter().map(brief).collect();
            differences.push(format!("{} {key}, but found {found:#?}", told.len()));
            continue;
        }
        differences.extend(times(key, told, found));
    }
    let copies = array(&report, "copies").len();
    let told = truth["copies"].as_u64().unwrap() as usize;
    scores.push(("copies", Score::of(told, copies)));
    if told != copies {
        differences.push(format!("{told} copies, but found {copies}"));
    }
    let epochs = array(&report, "epochs");
    let untold = &report["training_data"]["epochs_untold"];
    let told = truth["epochs"].as_u64().map(|told| told as usize);
    // None is what is right where passes cannot be known.
    let to_find = told.or_else(|| is_untold(program).then_some(0));
    let score = to_find.map(|told| Score::of(told, epochs.len()));
    scores.push(("epochs", score.unwrap_or_default()));
    keep(program, flush, &scores);
    let agrees = match told {
        Some(told) => told == epochs.len(),
        // The program does not say, or it cannot be known.
        None => !is_untold(program) || !untold.is_null() && epochs.is_empty(),
    };
    if !agrees {
        let told = &truth["epochs"];
        differences.push(format!("{told} epochs, but found {epochs:?}, {untold}"));
    }
    differences
        .into_iter()
        .map(|difference| format!("{program} at {flush}: {difference}"))
        .collect()
}

/// Whether passes cannot be known.
fn is_untold(program: &str) -> bool {
    program.starts_with("mapped") || program.starts_with("unknown")
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], |array| array)
}

fn brief(event: &Value) -> String {
    let of = |key: &str| event[key].to_string();
    format!(
        "{} {}..{} {}",
        of("name"),
        of("start"),
        of("end"),
        of("bytes_written")
    )
}

/// Compares how long each event took and when it began after the first, where the program says so.
fn times(key: &str, told: &[Value], found: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut origin: Option<(f64, f64)> = None;
    for (index, (told, found)) in told.iter().zip(found).enumerate() {
        let Some(told) = told_times(told) else {
            continue;
        };
        let times = found_times(found);
        let (first, found_first) = *origin.get_or_insert((told.0, times.0));
        for (what, told, found) in errors(&told, &times, first, found_first) {
            if !is_near(told, found) {
                differences.push(format!(
                    "{what} of {key} {index} is {told:.3} s, not {found:.3} s"
                ));
            }
        }
        // What is read through a mapping makes no call.
        let is_exact = found["mapped_file_bytes"].as_u64().unwrap_or(0) == 0;
        if found["exact"] != is_exact {
            differences.push(format!("{key} {index}: exact is not {is_exact}"));
        }
    }
    differences
}

/// Runs the programs, and fails with all differences.
fn check(script: &str, programs: &[&str]) {
    let all = env::var("IOTRACE_TEST_FLUSHES").is_ok_and(|value| value == "all");
    let source = fs::read_to_string(Path::new(PROGRAMS).join(format!("{script}.py"))).unwrap();
    let mut differences = Vec::new();
    for (index, program) in programs.iter().enumerate() {
        assert!(
            source.contains(&format!("def {program}(truth)")),
            "{program}"
        );
        let flushes = FLUSHES.iter().enumerate();
        for (_, flush) in flushes.filter(|(flush, _)| all || *flush == index % FLUSHES.len()) {
            differences.extend(self::differences(script, program, flush));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_file_that_is_overwritten_is_saved_each_time() {
    check(
        "saves",
        &[
            "overwrite",
            "two_files",
            "renamed",
            "renamed_from_any_name",
            "set_aside",
            "kept_open",
            "opened_long_before",
        ],
    );
}

#[test]
fn what_is_set_aside_was_saved_under_its_name() {
    check(
        "saves",
        &[
            "rotated",
            "rotated_from_any_name",
            "backed_up_from_any_name",
            "last_three",
            "last_three_from_any_name",
            "renamed_long_after",
            "renamed_from_the_name_of_a_checkpoint",
        ],
    );
}

#[test]
fn the_files_of_a_step_are_one_save() {
    check(
        "saves",
        &[
            "step_directories",
            "renamed_directory",
            "index_and_shards",
            "deepspeed",
            "final_beside_the_last",
            "ocdbt_of_any_name",
            "exported_at_the_end",
            "averaged_too",
            "adapter_beside_a_base",
            "scheduler_beside_a_model",
            "numbered_by_epoch_and_batch",
            "numbered_by_fold_and_seed",
            "numbered_by_step_and_rank",
            "numbered_state_beside_a_model",
            "shards_of_an_epoch",
            "verified_shards",
            "numbered_in_a_row",
            "array_store",
            "named_by_moment",
            "final_under_the_name_in_a_step",
            "averaged_at_the_end",
            "averaged_after_one_name",
        ],
    );
}

#[test]
fn ranks_and_threads_save_together() {
    check(
        "saves",
        &[
            "ranks",
            "ranks_overwrite",
            "in_the_background",
            "killed",
            "killed_and_made_again",
        ],
    );
}

#[test]
fn formats_write_their_files_more_than_once() {
    check(
        "saves",
        &[
            "manifest_again",
            "tensorflow",
            "saved_model",
            "saved_model_by_parts",
            "state_while_samples_are_fetched",
            "stored_by_mapping",
            "header_patched",
            "hdf5_in_one_open",
            "compressed",
            "appended",
        ],
    );
}

#[test]
fn pauses_and_syncs_are_part_of_a_save() {
    check(
        "saves",
        &[
            "slow_parts",
            "computed_before_the_first_write",
            "synced",
            "beside_a_database",
            "in_the_directory_of_a_database",
            "removed_at_the_end",
        ],
    );
}

#[test]
fn a_copy_is_no_save_and_no_load() {
    check(
        "saves",
        &[
            "best_by_copy",
            "best_by_read_and_write",
            "best_by_link",
            "tiers",
            "sent_through_a_pipe",
            "read_while_another_writes",
            "uploaded_by_a_fork",
            "staged_in_memory",
            "verified",
        ],
    );
}

#[test]
fn what_is_no_checkpoint_is_no_save() {
    check(
        "saves",
        &[
            "logs_only",
            "events_only",
            "tensors_through_memory",
            "results_only",
            "results_of_each_step",
            "data_of_its_own",
            "named_nearly_like_data",
        ],
    );
}

#[test]
fn loads_are_those_of_what_others_saved() {
    check(
        "loads",
        &[
            "resumed",
            "resumed_and_saved",
            "resumed_and_saved_over",
            "loaded_then_saved_over",
            "shards",
            "mapped",
            "mapped_back",
            "mapped_by_another",
            "loaded_again_and_again",
            "evaluated_by_another",
            "evaluated_twice_by_others",
            "loaded_by_ranks",
            "loaded_by_an_earlier_fork",
            "handed_to_tools",
            "saved_over_by_another",
            "config_only",
            "newest_of_several",
        ],
    );
}

#[test]
fn epochs_are_passes_over_the_data() {
    check(
        "epochs",
        &[
            "shuffled",
            "checked_before",
            "one_file",
            "mapped_with_small_index",
            "staged",
            "staged_by_its_maker",
            "staged_by_read_and_write",
            "workers",
            "with_validation",
            "with_saves",
            "best_and_last",
            "saved_during_passes",
            "tried_before",
            "tried_several_times",
            "validated_by_a_part",
            "streamed_tables",
            "broken_off",
            "stopped_early",
            "one_epoch",
            "unknown_kept_in_memory",
            "unknown_kept_in_memory_and_saved_once",
            "averaged_between_steps",
            "saved_by_layers",
            "in_a_place_of_weights",
            "unknown_two_trainings",
            "stages",
            "unknown_tested_twice",
            "unknown_parts",
            "halves",
            "clips",
            "clips_after_a_look",
            "next_rows_in_turns",
            "records_in_random_order",
            "indexed_then_in_random_order",
            "indexed_then_in_order",
            "unknown_indexed_with_small_members",
            "unknown_read_more_than_asked",
            "closed_later",
            "row_groups",
            "tested_after_the_last_save",
        ],
    );
}

#[test]
fn frameworks_save_and_load() {
    check(
        "frameworks",
        &[
            "mmengine",
            "nnunet",
            "stable_baselines",
            "espnet",
            "best_and_last_at_once",
            "parts_of_the_best_with_pauses",
            "validated_during_a_save",
            "detectron2",
            "stylegan",
            "in_numbered_directories",
            "sentence_transformers",
            "spacy",
            "diffusers",
            "torchtune",
            "boosted_trees",
            "archived",
            "saved_as_tar",
            "averaged",
            "evaluated_as_saved",
        ],
    );
}

#[test]
fn data_of_frameworks_are_no_checkpoints() {
    check(
        "frameworks",
        &[
            "replay_shards",
            "graphs",
            "unknown_members_of_an_archive",
            "archive_read_again",
            "archive_read_once",
            "graphs_of_any_place",
            "latents",
            "few_shards",
            "weights_in_shards",
        ],
    );
}

#[test]
fn data_are_made_before_the_first_epoch() {
    check(
        "epochs",
        &[
            "tokenized",
            "tokenized_in_workers",
            "tokenized_by_another",
            "encoded_under_any_name",
            "mapped_under_any_name",
            "arrays_of_any_name",
            "unpacked",
            "unpacked_for_one_epoch",
            "unknown_shuffled_into_new_files",
            "unknown_cached_by_the_first_pass",
            "unknown_cached_in_order",
            "unknown_cached_as_tensors",
            "arrays_made_by_another",
            "arrays_made_of_each",
            "unknown_cached_by_tensorflow",
            "unknown_trained_before_the_data_were_made",
        ],
    );
}

#[test]
fn scores_count_what_is_right() {
    let told = |starts: &[f64]| -> Vec<Value> {
        let events = starts.iter().map(|start| json!([start, start + 0.5]));
        events.collect()
    };
    let found = |starts: &[f64]| -> Vec<Value> {
        let events = starts
            .iter()
            .map(|start| json!({"start": start, "end": start + 0.51}));
        events.collect()
    };
    let score = |told: &[Value], starts: &[f64]| {
        let score = Score::of_events(told, &found(starts));
        let error = score.largest_error.map(|error| (error * 1e3).round());
        (score.told, score.found, score.right, error)
    };
    let all = told(&[100.0, 102.0, 105.0]);
    assert_eq!(score(&all, &[1.0, 3.0, 6.0]), (3, 3, 3, Some(10.0)));
    assert_eq!(score(&all, &[1.0, 3.02, 6.0]), (3, 3, 3, Some(20.0)));
    // One too many at the start, one not found, one at another time, and none.
    assert_eq!(score(&all, &[0.0, 1.0, 3.0, 6.0]), (3, 4, 3, Some(10.0)));
    assert_eq!(score(&all, &[3.0, 6.0]), (3, 2, 2, Some(10.0)));
    assert_eq!(score(&all, &[1.0, 3.6, 6.0]), (3, 3, 2, Some(10.0)));
    assert_eq!(score(&all, &[]), (3, 0, 0, None));
    assert_eq!(score(&[], &[1.0]), (0, 1, 0, None));
    // Without times the number is known.
    let untimed = [json!(null), json!(null)];
    assert_eq!(score(&untimed, &[1.0]), (2, 1, 1, None));
    assert_eq!(score(&untimed, &[1.0, 2.0, 3.0]), (2, 3, 2, None));
    assert_eq!(
        Score::of(4, 3),
        Score {
            told: 4,
            found: 3,
            right: 3,
            largest_error: None
        }
    );
}
