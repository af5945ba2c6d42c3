//! The recording has what was asked for. With this test, `cargo test` builds the program that other packages' tests run.

use std::process::Command;

#[test]
fn every_file_is_read_in_every_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("recording");
    let out = Command::new(env!("CARGO_BIN_EXE_made"))
        .arg(&recording)
        .args(["1003", "3"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let recorded = iotrace_recording::read(&recording).unwrap();
    assert_eq!(recorded.model.file_count(), 1003);
    let sizes: u64 = (0..1003).map(|file| recorded.model.file(file).size).sum();
    assert_eq!(recorded.model.io_totals().bytes_read, 3 * sizes);
    assert_eq!(recorded.model.processes().len(), 4);
    assert_eq!(recorded.run.duration_ns, 150_000_000_000);
}
