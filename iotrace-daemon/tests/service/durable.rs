//! Bytes of checkpoints that nobody synced, against what the programs wrote.

use std::process::Command;

use crate::common::{
    self,
    daemon::{Daemon, Sample, command, sum},
    python,
};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/durable.py");
const SAVES: &str = "iotrace_checkpoints_total";
const UNSYNCED: &str = "iotrace_checkpoint_unsynced_bytes_total";
/// What each variant of the program writes, bytes.
const WRITTEN: f64 = (2 << 20) as f64;

/// Variants of the program, and whether a crash may destroy what they saved. As in reports, `sync_file_range` makes nothing
/// durable, and of a program that was killed it is not known what it would have done.
const VARIANTS: [(&str, bool); 9] = [
    ("nothing", true),
    ("ranges", true),
    ("renamed-only", true),
    ("synced", false),
    ("o-sync", false),
    ("syncfs", false),
    ("sync", false),
    ("by-another", false),
    ("killed", false),
];

fn unit(index: usize) -> String {
    format!("slurm:{}", 7400 + index)
}

fn of(samples: &[Sample], metric: &str, index: usize) -> f64 {
    sum(samples, metric, &[("unit", &unit(index))])
}

#[test]
fn bytes_that_nobody_synced_are_those_that_were_written() {
    common::need_root();
    let daemon = Daemon::start(&mut command());
    let mut directories = Vec::new();
    for (index, (variant, _)) in VARIANTS.iter().enumerate() {
        let top = tempfile::Builder::new()
            .prefix("ckpt-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap();
        let status = Command::new(python())
            .args([PROGRAM, variant])
            .arg(top.path())
            .env("SLURM_JOB_ID", unit(index).trim_start_matches("slurm:"))
            .status();
        assert!(status.unwrap().success(), "{variant}");
        directories.push(top);
    }
    let samples = daemon.until("saves of all", |samples| {
        let mut all = 0..VARIANTS.len();
        all.all(|index| of(samples, SAVES, index) == 1.0)
            .then(|| samples.to_vec())
    });
    for (index, (variant, is_unsynced)) in VARIANTS.into_iter().enumerate() {
        let expected = if is_unsynced { WRITTEN } else { 0.0 };
        let found = of(&samples, UNSYNCED, index);
        assert_eq!(found, expected, "{variant}");
        let written = of(&samples, "iotrace_checkpoint_bytes_total", index);
        assert_eq!(written, WRITTEN, "{variant}");
    }
}
