//! Conclusions against the program's own clock: saves, loads, copies and epochs of programs that say themselves what they
//! did. Each program runs once, at a flush interval chosen by its place; `IOTRACE_TEST_FLUSHES=all` runs it at all.

use std::{env, fs, path::Path, process::Command};

use crate::common::{Iotrace, directory, python};
use serde_json::Value;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/corpus");
/// Flush intervals: none may change a conclusion.
const FLUSHES: [&str; 3] = ["250ms", "1s", "5s"];
/// How far a time may be from the program's own, seconds, and as a share of it. The machine may be busy.
const NEAR_SECONDS: f64 = 0.05;
const NEAR_SHARE: f64 = 0.05;

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
    for (key, section) in [("saves", "checkpoints"), ("loads", "restores")] {
        let (told, found) = (array(&truth, key), array(&report, section));
        if told.len() != found.len() {
            let found: Vec<_> = found.iter().map(brief).collect();
            differences.push(format!("{} {key}, but found {found:#?}", told.len()));
            continue;
        }
        differences.extend(times(key, told, found));
    }
    let copies = array(&report, "copies").len() as u64;
    if truth["copies"] != copies {
        differences.push(format!("{} copies, but found {copies}", truth["copies"]));
    }
    let epochs = array(&report, "epochs");
    let untold = &report["training_data"]["epochs_untold"];
    let agrees = match truth["epochs"].as_u64() {
        Some(told) => told == epochs.len() as u64,
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
    program.starts_with("mapped")
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
    let moments = |value: &Value| Some((value[0].as_f64()?, value[1].as_f64()?));
    let mut differences = Vec::new();
    let mut origin: Option<(f64, f64)> = None;
    for (index, (told, found)) in told.iter().zip(found).enumerate() {
        let Some((start, end)) = moments(told) else {
            continue;
        };
        let at = |key: &str| found[key].as_f64().unwrap();
        let (found_start, found_end) = (at("start"), at("end"));
        let (first, found_first) = *origin.get_or_insert((start, found_start));
        let pairs = [
            ("start", start - first, found_start - found_first),
            ("length", end - start, found_end - found_start),
        ];
        for (what, told, found) in pairs {
            if (told - found).abs() > NEAR_SECONDS.max(told.abs() * NEAR_SHARE) {
                differences.push(format!(
                    "{what} of {key} {index} is {told:.3} s, not {found:.3} s"
                ));
            }
        }
        if found["exact"] != true {
            differences.push(format!("{key} {index} is not exact"));
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
            "kept_open",
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
        ],
    );
}

#[test]
fn ranks_and_threads_save_together() {
    check(
        "saves",
        &["ranks", "ranks_overwrite", "in_the_background", "killed"],
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
            "header_patched",
            "hdf5_in_one_open",
        ],
    );
}

#[test]
fn pauses_and_syncs_are_part_of_a_save() {
    check("saves", &["slow_parts", "synced", "removed_at_the_end"]);
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
        ],
    );
}

#[test]
fn loads_are_those_of_what_others_saved() {
    check(
        "loads",
        &[
            "resumed",
            "loaded_then_saved_over",
            "shards",
            "mapped",
            "evaluated_by_another",
            "saved_over_by_another",
            "config_only",
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
            "staged_by_read_and_write",
            "workers",
            "with_validation",
            "with_saves",
        ],
    );
}
