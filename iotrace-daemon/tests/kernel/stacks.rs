//! Functions of native programs, and their lines, against what the programs say themselves.

use std::{fs, path::Path};

use serde_json::Value;

use crate::common::{
    Iotrace, compiled, directory,
    export::report_of,
    number,
    stacks::{LINK_OPTIONS, Opens, found, truth},
    workload,
};

/// Ways to compile the program: what is known of its frames and of its lines differs.
const WAYS: [&[&str]; 5] = [
    &["-O0", "-g"],
    &["-O2", "-g", "-fomit-frame-pointer"],
    &["-O2", "-g", "-fno-omit-frame-pointer", "-static"],
    &["-O3", "-g", "-no-pie"],
    &["-O2", "-g", "-fcf-protection=full", "-Wl,-z,now"],
];
/// Records the program with `options`; what it printed, and the report.
fn record(program: &Path, dir: &Path, more: &[&str]) -> (Opens, Value) {
    let file = dir.join("data");
    fs::write(&file, "some data\n").unwrap();
    let mut command = vec![program.to_str().unwrap(), file.to_str().unwrap()];
    command.extend(more);
    let finished = Iotrace::record()
        .flush("250ms")
        .args(["--stacks"])
        .command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    (truth(&finished.stdout), report_of(&[&finished.recording]))
}

#[test]
fn functions_and_lines_are_those_of_the_program() {
    for way in WAYS {
        let (_keep, dir) = directory();
        let args = [way, &LINK_OPTIONS].concat();
        let program = compiled("stacks.c", &dir, &args);
        let (opens, report) = record(&program, &dir, &[]);
        let found = found(&report, "/stacks.c");
        assert_eq!(found, opens, "{way:?}: {:#}", report["lines"]);
    }
}

#[test]
fn without_debugging_information_functions_are_known() {
    let (_keep, dir) = directory();
    let program = compiled("stacks.c", &dir, &[&["-O0"][..], &LINK_OPTIONS].concat());
    let (opens, report) = record(&program, &dir, &[]);
    let mut by_function = Opens::new();
    for ((function, _), opens) in opens {
        // Its code is in the function that calls it.
        let function = function.replace("inlined", "has_inlined");
        *by_function.entry((function, 0)).or_default() += opens;
    }
    let name = program.file_name().unwrap().to_str().unwrap();
    let mut found = found(&report, &format!("/{name}"));
    // What starts a program opens nothing by itself.
    found.retain(|_, opens| *opens > 0);
    assert_eq!(found, by_function, "{:#}", report["lines"]);
}

#[test]
fn a_program_that_a_process_runs_later_is_another() {
    let (_keep, dir) = directory();
    let args = [&["-O0", "-g", "-no-pie"][..], &LINK_OPTIONS].concat();
    let first = compiled("stacks.c", &dir, &args);
    let (_keep, elsewhere) = directory();
    let args = [&["-O2", "-g", "-no-pie"][..], &LINK_OPTIONS].concat();
    let second = compiled("stacks.c", &elsewhere, &args);
    let (opens, report) = record(&first, &dir, &[second.to_str().unwrap()]);
    assert_eq!(found(&report, "/stacks.c"), opens, "{:#}", report["lines"]);
}

#[test]
fn every_open_counts_for_a_function_or_for_none() {
    const FILES: u64 = 3_000;
    let (_keep, dir) = directory();
    let (workload, files) = (workload(), FILES.to_string());
    let finished = Iotrace::record()
        .flush("250ms")
        .args(["--stacks"])
        .command([
            workload.to_str().unwrap(),
            "many",
            dir.to_str().unwrap(),
            &files,
        ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let report = report_of(&[&finished.recording]);
    let lines = report["lines"]["lines"].as_array().expect("lines").iter();
    let known: u64 = lines.map(|line| number(line, "opens")).sum();
    let all = known + number(&report["lines"], "opens_without_line");
    assert_eq!(
        all,
        number(&report["totals"], "opens"),
        "{:#}",
        report["lines"]
    );
    assert!(known >= FILES, "{known} of {all}");
}

#[test]
fn stacks_are_recorded_on_request_alone() {
    let finished = Iotrace::record().command(["true"]);
    assert_eq!(finished.report()["lines"], Value::Null);
}
