//! `iotrace diff` of real recordings, before and after a change to the program.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::common::{compare, directory, export::refused, golden, number, text};
use serde_json::Value;

fn diff(args: &[&str], before: &Path, after: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .arg("diff")
        .args([before, after])
        .args(args)
        .output()
        .unwrap()
}

/// What the reports have, under the names of the comparison.
fn reported(report: &Value, section: &str, name: &str) -> Value {
    let phases = &report["phases"];
    let list = |name: &str| compare::list(report, name).clone();
    let total = |events: &[Value], key: &str| -> f64 {
        events
            .iter()
            .map(|event| event[key].as_f64().unwrap())
            .sum()
    };
    match (section, name) {
        ("run", "duration_seconds") => report[name].clone(),
        ("run", "seconds") => {
            let kinds = [
                "read_seconds",
                "write_seconds",
                "meta_seconds",
                "sync_seconds",
                "failed_seconds",
            ];
            kinds
                .iter()
                .map(|kind| report["totals"][*kind].as_f64().unwrap_or(0.0))
                .sum::<f64>()
                .into()
        }
        ("run", name) => report["totals"][name].clone(),
        ("checkpoints", "number") => list("checkpoints").len().into(),
        ("checkpoints", "bytes") => (total(&list("checkpoints"), "bytes_written") as u64).into(),
        ("checkpoints", "seconds" | "fsync_seconds") => total(&list("checkpoints"), name).into(),
        (phase, name) => phases[phase][name].clone(),
    }
}

#[test]
fn both_runs_stand_side_by_side() {
    let (before, after) = (golden::kept("small-reads"), golden::kept("large-reads"));
    let out = diff(&["--format", "json"], &before.recording, &after.recording);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let diff: Value = serde_json::from_slice(&out.stdout).unwrap();
    let reports = [before.report(), after.report()];
    let mut compared = 0;
    for (section, names) in [
        (
            "run",
            &[
                "duration_seconds",
                "seconds",
                "bytes_read",
                "bytes_written",
                "files",
                "failures",
            ][..],
        ),
        (
            "training",
            &[
                "merged_seconds",
                "share_of_run",
                "bandwidth_bytes_per_second",
                "bytes_read",
                "files",
            ],
        ),
        (
            "checkpoint",
            &[
                "merged_seconds",
                "share_of_run",
                "bandwidth_bytes_per_second",
                "bytes_written",
                "files",
            ],
        ),
        (
            "checkpoints",
            &["number", "bytes", "seconds", "fsync_seconds"],
        ),
    ] {
        for name in names {
            let of_diff = match ["training", "checkpoint"].contains(&section) {
                true => &diff["phases"][section][*name],
                false => &diff[section][*name],
            };
            let [was, is] = reports
                .each_ref()
                .map(|report| reported(report, section, name).as_f64().unwrap_or(0.0));
            for (key, value) in [("before", was), ("after", is)] {
                let found = of_diff[key]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{section} {name} {key}"));
                assert!(
                    (found - value).abs() <= value.abs() * 1e-9,
                    "{section} {name}: {found}, not {value}"
                );
            }
            if was > 0.0 {
                assert!((of_diff["ratio"].as_f64().unwrap() / (is / was) - 1.0).abs() < 1e-6);
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 20);
    // 500 reads of a file became 5.
    let reads = &diff["phases"]["training"]["operations"];
    assert!(
        number(reads, "before") > 1500 && number(reads, "after") < 100,
        "{reads}"
    );
    let codes = |report: &Value| -> Vec<String> {
        let findings = compare::list(report, "findings").iter();
        findings
            .map(|finding| text(finding, "code").to_owned())
            .collect()
    };
    // Those that another finding explains are there, too.
    let all_codes = |report: &Value| -> Vec<String> {
        let findings = compare::list(report, "findings").iter();
        let explained = findings.flat_map(|finding| finding["also"].as_array().cloned());
        let explained = explained.flatten();
        let explained = explained.map(|code| code.as_str().unwrap().to_owned());
        codes(report).into_iter().chain(explained).collect()
    };
    let [was, is] = reports.each_ref().map(codes);
    let [all_was, all_is] = reports.each_ref().map(all_codes);
    let listed = |key: &str| -> Vec<String> {
        let of = compare::list(&diff["findings"], key).iter();
        of.map(|finding| text(finding, "code").to_owned()).collect()
    };
    let only = |these: &[String], those: &[String]| -> Vec<String> {
        these
            .iter()
            .filter(|code| !those.contains(code))
            .cloned()
            .collect()
    };
    assert_eq!(listed("gone"), only(&was, &all_is));
    assert_eq!(listed("new"), only(&is, &all_was));
    assert!(
        listed("kept")
            .iter()
            .all(|code| all_was.contains(code) && is.contains(code))
    );
    assert!(
        listed("gone").contains(&"tiny-reads".to_owned()),
        "{was:?} {is:?}"
    );
    assert_eq!(text(&diff["before"], "host"), text(&reports[0], "host"));

    let out = self::diff(&[], &before.recording, &after.recording);
    let page = String::from_utf8(out.stdout).unwrap();
    for words in [
        "gone [",
        "tiny-reads",
        "Phase training",
        "merged time",
        "BEFORE",
        "x3.0",
    ] {
        assert!(page.contains(words), "{words} is not in:\n{page}");
    }
    assert!(
        page.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let (_keep, dir) = directory();
    let one = golden::kept("small-reads");
    let out = diff(&["-f", "json"], &one.recording, &one.recording);
    let diff: Value = serde_json::from_slice(&out.stdout).unwrap();
    for key in ["gone", "new"] {
        assert!(compare::list(&diff["findings"], key).is_empty());
    }
    for section in diff["phases"]
        .as_object()
        .unwrap()
        .values()
        .chain([&diff["run"]])
    {
        for (name, measure) in section.as_object().unwrap() {
            assert_eq!(measure["before"], measure["after"], "{name}");
            assert!(measure["ratio"].is_null() || measure["ratio"] == 1.0);
        }
    }
    refused(&self::diff(&[], &one.recording, &dir), &["is no recording"]);
    let out = self::diff(&["-f", "yaml"], &one.recording, &one.recording);
    refused(&out, &["yaml", "json"]);
}
