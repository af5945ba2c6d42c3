//! `iotrace report --scale`: ranks that each read their own share at a speed that is set, 1, 2 and 4 of them.

use std::{path::PathBuf, process::Command, time::Duration};

use crate::common::{
    Iotrace, directory, number, python,
    run::Finished,
    slow::{Slow, Speed},
    turn,
};
use serde_json::Value;

/// MiB that each rank reads, and milliseconds for each.
const SHARE: u64 = 12;
const MS: u64 = 80;
/// Starts one rank for each file, which reads it, and waits for all.
const JOB: &str = r#"
import subprocess, sys
rank = '''
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while os.read(fd, 1 << 20):
    pass
'''
files = sys.argv[1:]
ranks = [subprocess.Popen([sys.executable, "-S", "-c", rank, file]) for file in files]
sys.exit(max(rank.wait() for rank in ranks))
"#;

fn scale(runs: &[Finished], format: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command.args(["report", "--scale", "--format", format]);
    // The largest first: the table puts them in order.
    command.args(runs.iter().rev().map(|run| &run.recording));
    let out = command.output().expect("iotrace starts");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("UTF-8")
}

#[test]
fn ranks_that_do_not_hold_each_other_up_are_on_the_ideal_line() {
    turn::alone();
    let (_keep, dir) = directory();
    let speed = Speed {
        read: Duration::from_millis(MS),
        ..Speed::default()
    };
    let names = ["shard-0.tar", "shard-1.tar", "shard-2.tar", "shard-3.tar"];
    let files = names.map(|name| (name, SHARE << 20, speed));
    let data = dir.join("data");
    let _mounted = Slow::mount(&data, &files, Speed::default());
    let run = |ranks: usize| {
        let paths: Vec<PathBuf> = names
            .iter()
            .take(ranks)
            .map(|name| data.join(name))
            .collect();
        let mut command = vec![
            python().into_os_string(),
            "-S".into(),
            "-c".into(),
            JOB.into(),
        ];
        command.extend(paths.into_iter().map(Into::into));
        let finished = Iotrace::record().command(&command);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        finished
    };
    let runs = [run(1), run(2), run(4)];
    let rows: Value = serde_json::from_str(&scale(&runs, "json")).expect("JSON");
    let rows = rows.as_array().expect("rows");
    let of = |key: &str| -> Vec<f64> {
        let values = rows.iter().map(|row| row[key].as_f64().expect(key));
        values.collect()
    };
    assert_eq!(of("ranks"), [1.0, 2.0, 4.0]);
    for (row, ranks) in rows.iter().zip([1, 2, 4]) {
        assert_eq!(number(row, "bytes_read"), (ranks * SHARE) << 20);
        // One MiB at a time, each as slow as was set.
        let bandwidth = row["bandwidth_per_rank_bytes_per_second"].as_f64().unwrap();
        let set = 1_048_576_000.0 / MS as f64;
        assert!(
            (bandwidth / set - 1.0).abs() < 0.1,
            "{bandwidth} of {set}: {row}"
        );
    }
    let efficiency = of("efficiency");
    assert_eq!(efficiency[0], 1.0);
    assert!(
        efficiency.iter().all(|one| (0.8..1.2).contains(one)),
        "{efficiency:?}"
    );
    let shares = of("read_share");
    assert!(shares.iter().all(|share| *share > 0.6), "{shares:?}");
    let text = scale(&runs, "text");
    let header = text.lines().next().unwrap_or_default();
    for word in ["RANKS", "PER RANK", "EFFICIENCY", "RUN"] {
        assert!(header.contains(word), "{text}");
    }
}
