//! Phases of a run like a small training job: what each has, and that nothing is lost or counted twice.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{as_json, as_text, training::*};
use crate::{Report, json};
use iotrace_model::{Model, counters::*};
use iotrace_phases::{Classifier, rules::RuleSet};

/// Numbers of an object and of the objects in it, by their path. Moments and extremes do not sum up.
fn numbers(value: &Value, prefix: &str, into: &mut BTreeMap<String, f64>) {
    for (key, value) in value.as_object().unwrap() {
        let path = format!("{prefix}/{key}");
        let is_sum = !key.ends_with("_at")
            && !key.starts_with("max_")
            && !key.starts_with("slowest_")
            && ![
                "files",
                "directories",
                "processes",
                "classes",
                "errors",
                "errors_by_operation",
                "bytes_by_access",
            ]
            .contains(&key.as_str())
            && !key.starts_with("merged_seconds")
            && !["bandwidth_bytes_per_second", "share_of_run", "concurrency"]
                .contains(&key.as_str());
        match value {
            Value::Number(number) if is_sum => {
                *into.entry(path).or_default() += number.as_f64().unwrap();
            }
            Value::Object(_) if is_sum => numbers(value, &path, into),
            _ => {}
        }
    }
}

fn assert_conserved(totals: &Value, parts: &[&Value]) {
    let (mut whole, mut sum) = (BTreeMap::new(), BTreeMap::new());
    numbers(totals, "", &mut whole);
    parts.iter().for_each(|part| numbers(part, "", &mut sum));
    whole.retain(|_, value| *value != 0.0);
    sum.retain(|_, value| *value != 0.0);
    for key in whole.keys().chain(sum.keys()) {
        let (a, b) = (whole.get(key), sum.get(key));
        let near = (a.unwrap_or(&0.0) - b.unwrap_or(&0.0)).abs() < 1e-6;
        assert!(near, "{key}: {a:?} in totals, {b:?} in parts");
    }
}

/// A model that is saved, and read back to be exported.
fn saved_and_read() -> Model {
    let mut model = training();
    model.event(name(600, b"/ckpt/run.h5", 0o100_644));
    let counters = counted(&[
        (OPENS, 2),
        (CLOSES, 2),
        (READS, 3),
        (WRITES, 5),
        (BYTES_READ, 300),
        (BYTES_WRITTEN, 500),
        (READ_NS, 3_000),
        (WRITE_NS, 5_000),
        (META_NS, 7_000),
        (UNION_READ_NS, 3_000),
        (UNION_WRITE_NS, 12_000),
        (READ_SIZE_100_1K, 3),
        (WRITE_SIZE_0_100, 5),
    ]);
    model.add(process(4242), place(600), &counters);
    model
}

#[test]
fn phases_by_name_and_overflow_sum_up_to_totals() {
    let json = as_json(&saved_and_read(), &run());
    let mut parts: Vec<&Value> = json["phases"].as_object().unwrap().values().collect();
    for process in json["processes"].as_array().unwrap() {
        let phases = process["phases"].as_object().unwrap().values();
        let mut of_process: Vec<&Value> = phases.collect();
        of_process.extend([&process["by_name"], &process["overflow"]]);
        assert_conserved(&process["totals"], &of_process);
        parts.extend([&process["by_name"], &process["overflow"]]);
    }
    assert_conserved(&json["totals"], &parts);
}

#[test]
fn reads_and_writes_of_one_file_may_be_of_two_phases() {
    let json = as_json(&saved_and_read(), &run());
    let files = json["files"].as_array().unwrap();
    let row = files
        .iter()
        .find(|file| file["path"] == "/ckpt/run.h5")
        .unwrap();
    assert_eq!(
        (&row["phase"], &row["rule"]),
        (&"checkpoint".into(), &"checkpoint-directories".into())
    );
    assert_eq!(
        (&row["phase_read"], &row["rule_read"]),
        (&"restore".into(), &"checkpoint-directories".into())
    );
    let restore = &json["phases"]["restore"];
    assert_eq!(
        (&restore["files"], &restore["bytes_read"]),
        (&1.into(), &300.into())
    );
    assert_eq!(restore["bandwidth_bytes_per_second"], 1e8);
    assert_eq!(
        (&restore["merged_seconds"], &restore["merged_exact"]),
        (&3e-6.into(), &true.into())
    );
    assert_eq!(
        (&restore["opens"], &restore["meta_seconds"]),
        (&0.into(), &0.0.into())
    );
    assert_eq!(restore["read_sizes"]["100_1k"], 3);
    let checkpoint = &json["phases"]["checkpoint"];
    assert_eq!(
        (&checkpoint["files"], &checkpoint["reads"]),
        (&2.into(), &0.into())
    );
    assert_eq!(checkpoint["bytes_written"], (64 << 20) + 500);
}

#[test]
fn a_renamed_file_is_sorted_by_its_final_name() {
    let json = as_json(&training(), &run());
    let files = json["files"].as_array().unwrap();
    let row = files
        .iter()
        .find(|file| file["path"] == "/ckpt/model.pt")
        .unwrap();
    assert_eq!(
        (&row["phase"], &row["opened_as"]),
        (&"checkpoint".into(), &"/ckpt/model.pt.tmp".into())
    );
    assert!(row.get("phase_read").is_none());
}

#[test]
fn every_phase_is_in_the_report() {
    let json = as_json(&training(), &run());
    let training_phase = &json["phases"]["training"];
    assert_eq!(
        (&training_phase["files"], &training_phase["bytes_read"]),
        (&30.into(), &(60 * (10 << 20)).into())
    );
    assert_eq!(json["phases"]["restore"]["files"], 0);
    assert_eq!(
        json["phases"]["restore"]["bandwidth_bytes_per_second"],
        Value::Null
    );
    assert_eq!(
        json["phases"]["startup"]["getdents"], 4,
        "a directory counts as what is in it"
    );
    let worker = json["processes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|process| process["pid"] == 4243)
        .unwrap();
    assert_eq!(worker["phases"]["training"]["files"], 30);
    assert!(worker["phases"].get("checkpoint").is_none());
    let evil = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path_hex"].is_string())
        .unwrap();
    assert_eq!(
        (&evil["phase"], &evil["rule"]),
        (&"other".into(), &Value::Null)
    );
}

#[test]
fn other_rules_sort_the_same_run_otherwise() {
    let rules = "[[rule]]\nname = 'staging'\nphase = 'other'\nclass = 'cache'\nglob = '/data/**'\nfs_type = 'lustre'";
    let rules = RuleSet::parse("test", rules)
        .unwrap()
        .with_builtin()
        .unwrap();
    let classifier = Classifier::new(rules).unwrap();
    let (model, run) = (training(), run());
    let mut out = Vec::new();
    json(&Report::with_rules(&model, &run, &classifier), &mut out).unwrap();
    let json: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(json["phases"]["training"]["files"], 0);
    assert_eq!(json["phases"]["other"]["classes"]["cache"]["files"], 30);
    let shard = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["pid"] == 4243)
        .unwrap();
    assert_eq!(
        (&shard["phase"], &shard["class"], &shard["rule"]),
        (&"other".into(), &"cache".into(), &"staging".into())
    );
}

#[test]
fn the_text_has_a_line_for_each_phase() {
    let text = as_text(&saved_and_read(), &run(), false);
    let at = text.find("\nPhases\n").unwrap();
    let section = &text[at..at + text[at + 1..].find("\n\n").unwrap()];
    for wanted in [
        "startup",
        "training",
        "checkpoint",
        "restore",
        "other",
        "no file",
    ] {
        assert!(section.contains(wanted), "{wanted} in {section}");
    }
}
