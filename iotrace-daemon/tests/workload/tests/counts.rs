//! The program counts what it did. With this test, `cargo test` builds the program that other packages' tests run.

use std::process::Command;

use serde_json::Value;

#[test]
fn a_mode_prints_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_workload"))
        .arg("many")
        .arg(dir.path())
        .arg("12")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let truth: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let [process] = &truth["processes"].as_array().expect("processes")[..] else {
        panic!("one process: {truth}");
    };
    assert_eq!(
        process["begun"], process["counted"],
        "every call that began"
    );
    let files = process["files"].as_object().expect("files").values();
    let sum = |name: &str| -> u64 {
        let counts = files.clone().filter_map(|file| file[name].as_u64());
        counts.sum()
    };
    // File N has N + 1 bytes, and is read once to its bytes and once to its end.
    let done = ["opens", "closes", "reads", "zero_reads"].map(sum);
    assert_eq!(done, [24, 24, 24, 12]);
    assert_eq!([sum("bytes_written"), sum("bytes_read")], [78, 78]);
}
