//! `cargo xtask frameworks`: trains small models by the frameworks that the Python package has callbacks for, under iotrace, to
//! their end and until they stop or fail. The ranges and saves must be those that the programs say (`trainings.py`).

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::setup::{self, Purpose};
use crate::{cmd, run};

const FRAMEWORKS: [&str; 3] = ["lightning", "transformers", "keras"];
/// What the callbacks call a save.
const SAVE: &str = "save";

/// Trains, and fails at the first difference.
pub fn task() -> Result<()> {
    setup::ensure(&[Purpose::Build, Purpose::Frameworks])?;
    cmd::run(cmd::cargo().args(["build", "--locked", "--package", "iotrace-daemon"]))?;
    let scratch = run::target_dir()?.join("frameworks");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir(&scratch)?;
    let marker = scratch.join("libiotrace-marker.so");
    let mut compile = cmd::command("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&marker);
    cmd::run(compile.arg("deploy/marker/iotrace.c"))?;
    for framework in FRAMEWORKS {
        let directory = scratch.join(framework);
        fs::create_dir(&directory)?;
        let (report, said) = record(framework, &marker, &directory)?;
        let done = Done::of_program(&said)
            .with_context(|| format!("{framework} ended in no object: {said}"))?;
        let traced = Done::of_report(&report).context("unexpected report")?;
        done.compare(&traced)
            .with_context(|| format!("{framework}: {}", directory.display()))?;
        let (ranges, saves) = (done.ranges.len(), done.saves.iter().sum::<usize>());
        println!("{framework}: {ranges} ranges and {saves} saves are those of the program");
    }
    println!("with {}", setup::FRAMEWORK_PACKAGES.join(", "));
    Ok(())
}

/// The report of a program that trains, and what it printed.
fn record(framework: &str, marker: &Path, directory: &Path) -> Result<(Value, String)> {
    let file = directory.join("report.json");
    let iotrace = run::target_dir()?.join("debug/iotrace");
    let mut record = cmd::as_root(iotrace.to_str().context("no UTF-8")?)?;
    record.args(["record", "--uprobe"]);
    record.arg(format!("marker:{}", marker.display()));
    record.arg("--output").arg(directory.join("recording"));
    record.arg("--report").arg(&file);
    // sudo drops variables.
    record.args(["--", "env", "PYTHONDONTWRITEBYTECODE=1"]);
    record.arg(format!("IOTRACE_MARKER={}", marker.display()));
    record.arg(format!(
        "PYTHONPATH={}",
        cmd::root().join("python/src").display()
    ));
    record.arg(setup::interpreter("frameworks")?);
    record.arg("xtask/src/frameworks/trainings.py");
    record.arg(framework).arg(directory);
    let (said, ended) = cmd::run_and_keep(&mut record)?;
    ended?;
    let report = fs::read_to_string(&file).context("iotrace wrote no report")?;
    Ok((serde_json::from_str(&report)?, said))
}

/// What was done, of the program or of iotrace.
#[derive(Deserialize, Debug, PartialEq)]
struct Done {
    /// By their begin, each with how many are around it.
    ranges: Vec<(String, u64)>,
    /// Of each training.
    saves: Vec<usize>,
}

impl Done {
    /// The last line that the program printed.
    fn of_program(said: &str) -> Result<Self> {
        Ok(serde_json::from_str(
            said.lines().last().unwrap_or_default(),
        )?)
    }

    /// The ranges and marks of a report, which have all ended. The program marks the end of each training by another name than a
    /// save's.
    fn of_report(report: &Value) -> Result<Self> {
        let marked = &report["uprobes"];
        ensure!(marked["unmatched_ends"] == 0, "ends without a range");
        let list = |name: &str| {
            marked[name]
                .as_array()
                .with_context(|| format!("no {name}"))
        };
        let mut ranges = Vec::new();
        for range in list("ranges")? {
            let name = range["name"].as_str().context("no name")?;
            ensure!(!range["end"].is_null(), "{name} is open: {range}");
            ranges.push((
                name.to_owned(),
                range["depth"].as_u64().context("no depth")?,
            ));
        }
        let marks = list("marks")?;
        let trainings = marks.split_inclusive(|mark| mark["name"] != SAVE);
        let saves = trainings.map(|marks| marks.len() - 1).collect();
        Ok(Self { ranges, saves })
    }

    /// Fails with the first range that differs.
    fn compare(&self, traced: &Self) -> Result<()> {
        let ranges = self.ranges.iter().zip(&traced.ranges);
        for (number, (one, other)) in ranges.enumerate() {
            ensure!(
                one == other,
                "range {number} is {one:?}, in iotrace {other:?}"
            );
        }
        let (one, other) = (self.ranges.len(), traced.ranges.len());
        ensure!(one == other, "{one} ranges, in iotrace {other}");
        let (one, other) = (&self.saves, &traced.saves);
        ensure!(one == other, "saves {one:?}, in iotrace {other:?}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_found() {
        let range = |name: &str, depth: u64, end: Option<f64>| json!({"name": name, "depth": depth, "end": end});
        let report = |ranges: &[Value], marks: &[&str]| {
            let marks: Vec<_> = marks.iter().map(|name| json!({"name": name})).collect();
            let uprobes = json!({"ranges": ranges, "marks": marks, "unmatched_ends": 0});
            Done::of_report(&json!({"uprobes": uprobes}))
        };
        let said = "a line\n{\"ranges\": [[\"fit\", 0], [\"epoch\", 1]], \"saves\": [2, 0]}\n";
        let done = Done::of_program(said).unwrap();
        let (fit, epoch) = (range("fit", 0, Some(1.0)), range("epoch", 1, Some(1.0)));
        let both = [fit.clone(), epoch];
        let marks = ["save", "save", "fit", "fit"];
        let same = report(&both, &marks).unwrap();
        assert!(done.compare(&same).is_ok());
        for (ranges, marks, expected) in [
            (&both[..1], &marks[..], "2 ranges, in iotrace 1"),
            (&both[..], &marks[1..], "saves [2, 0], in iotrace [1, 0]"),
            (
                &[fit.clone(), range("epoch", 0, Some(1.0))],
                &marks,
                "range 1 is (\"epoch\", 1), in iotrace (\"epoch\", 0)",
            ),
        ] {
            let fault = done.compare(&report(ranges, marks).unwrap()).unwrap_err();
            assert_eq!(fault.to_string(), expected);
        }
        let open = report(&[fit, range("epoch", 1, None)], &marks).unwrap_err();
        assert!(open.to_string().starts_with("epoch is open"), "{open}");
    }

    /// The versions are written down once.
    #[test]
    fn the_package_says_what_it_was_tested_with() {
        let readme = fs::read_to_string(cmd::root().join("python/README.md")).unwrap();
        for package in setup::FRAMEWORK_PACKAGES {
            let version = package.replace("==", " ");
            assert!(
                readme.contains(&version),
                "{version} is not in python/README.md"
            );
        }
    }
}
