//! A training run that says itself what it did: its epochs and checkpoints are those of the report, live and from the
//! recording.

use std::{fs, path::Path};

use crate::common::{Iotrace, directory, export::report_of, number, python, text};
use serde_json::Value;

fn train() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/train.py");
    path.canonicalize()
        .expect("the example")
        .to_string_lossy()
        .into_owned()
}

/// Runs the example with these options, and gives what it said, the report, and the report of the recording.
fn traced(options: &[&str], flush: &str) -> (Value, Value, Value) {
    let (_keep, dir) = directory();
    let counts = dir.join("counts.json");
    let (script, python) = (train(), python());
    let data = dir.join("data");
    let mut command = vec![
        python.to_str().unwrap(),
        &script,
        "--count-file",
        counts.to_str().unwrap(),
        "--data",
        data.to_str().unwrap(),
    ];
    command.extend(options);
    let finished = Iotrace::record()
        .entries("32768")
        .flush(flush)
        .command(command);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (_, report) = finished.truth_and_report();
    let truth = serde_json::from_slice(&fs::read(counts).unwrap()).unwrap();
    let again = report_of(&[&finished.recording]);
    (truth, report, again)
}

fn agrees(truth: &Value, report: &Value) {
    let (epochs, saves) = (
        report["epochs"].as_array().unwrap(),
        report["checkpoints"].as_array().unwrap(),
    );
    assert_eq!(epochs.len() as u64, number(truth, "epochs"), "{epochs:#?}");
    assert_eq!(
        saves.len() as u64,
        number(truth, "checkpoints"),
        "{saves:#?}"
    );
    let of = |category: &str, counter: &str| number(&truth["categories"][category], counter);
    let sum =
        |values: &[Value], key: &str| values.iter().map(|value| number(value, key)).sum::<u64>();
    assert_eq!(
        sum(saves, "bytes_written"),
        of("checkpoint", "bytes_written")
    );
    assert_eq!(sum(epochs, "bytes_read"), of("training", "bytes_read"));
    let phase = |name: &str, counter: &str| number(&report["phases"][name], counter);
    for (name, category) in [("training", "training"), ("checkpoint", "checkpoint")] {
        for counter in ["reads", "bytes_read", "bytes_written"] {
            assert_eq!(
                phase(name, counter),
                of(category, counter),
                "{name} {counter}"
            );
        }
    }
    assert_eq!(
        number(
            &report["phases"]["other"]["classes"]["cache"],
            "bytes_written"
        ),
        of("dataset", "bytes_written")
    );
    for (index, save) in saves.iter().enumerate() {
        assert!(
            text(save, "name").ends_with(&format!("model-epoch-{index:03}.pt")),
            "{save}"
        );
        assert_eq!(save["files"], 1);
        assert_eq!(save["processes"], Value::from(vec![number(truth, "pid")]));
        assert_eq!(
            save["training_stopped"], true,
            "the workers have ended before: {save}"
        );
        assert_eq!(save["exact"], true);
    }
    for (epoch, save) in epochs.iter().zip(saves) {
        assert_eq!(epoch["complete"], true);
        assert_eq!(epoch["exact"], true);
        assert!(
            epoch["end"].as_f64() <= save["start"].as_f64(),
            "{epoch} behind {save}"
        );
    }
}

#[test]
fn epochs_and_checkpoints_are_those_that_the_program_printed() {
    let small = [
        "--epochs",
        "3",
        "--workers",
        "3",
        "--samples",
        "32",
        "--checkpoint-bytes",
        "1048576",
    ];
    let (truth, live, read) = traced(&small, "1h");
    agrees(&truth, &live);
    agrees(&truth, &read);
    assert_eq!(live["training_data"]["files"], 16);
    // Where waits are known, what the main thread waited for while workers computed is the loader's.
    for waiter in live["waits"].as_array().into_iter().flatten() {
        let leaf = |name: &str| waiter["leaves"][name].as_f64().expect("seconds");
        let [loader, other] = ["loader_cpu", "other"].map(leaf);
        assert!(loader > other, "{waiter:#}");
    }
    for key in [
        "checkpoints",
        "restores",
        "epochs",
        "training_data",
        "balance",
        "startup",
        "findings",
        "time_series",
    ] {
        assert_eq!(live[key], read[key], "{key}");
    }
    // Every process has one thread: its calls never overlap, so the merged time is that of the calls.
    for process in live["processes"].as_array().unwrap() {
        for phase in process["phases"].as_object().unwrap().values() {
            assert_eq!(phase["merged_exact"], true);
            // A phase may have page faults alone.
            if let Some(concurrency) = phase["concurrency"].as_f64() {
                let is_one = (0.99..1.01).contains(&concurrency);
                assert!(is_one, "{concurrency} in {phase}");
            } else {
                assert_eq!(phase["merged_seconds"], 0.0, "{phase}");
            }
        }
    }
    let breakdown = &live["breakdown"];
    let share = |name: &str| breakdown[name]["share_of_run"].as_f64().unwrap();
    assert!(
        share("read") > 0.0 && share("checkpoint") > 0.0 && share("rest") > 0.0,
        "{breakdown}"
    );
    let checkpoint = &live["phases"]["checkpoint"];
    assert_eq!(checkpoint["merged_exact"], true, "one process writes them");
    for workers in live["balance"]["workers"].as_array().unwrap() {
        let readers = workers["processes"].as_array().unwrap().len();
        assert!(
            (2..=3).contains(&readers),
            "those of one epoch read at one time: {workers}"
        );
    }
}

#[test]
fn they_are_the_same_when_the_run_is_cut_into_many_intervals() {
    let (truth, live, read) = traced(&["--epochs", "4", "--checkpoint-bytes", "8388608"], "50ms");
    agrees(&truth, &live);
    agrees(&truth, &read);
    let slices = live["time_series"].as_array().unwrap();
    assert!(slices.len() > 2, "{}", slices.len());
    let bytes: u64 = slices
        .iter()
        .map(|slice| number(&slice["phases"]["training"], "bytes_read"))
        .sum();
    assert_eq!(
        bytes,
        number(&truth["categories"]["training"], "bytes_read")
    );
    assert_eq!(live["epochs"], read["epochs"]);
    assert_eq!(live["time_series"], read["time_series"]);
}
