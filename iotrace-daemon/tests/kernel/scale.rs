//! `iotrace report --scale`: ranks that each read their own share at a speed that is set, 1, 2 and 4 of them.

use std::{path::PathBuf, process::Command, time::Duration};

use crate::common::{
    Iotrace, directory,
    experiment::{
        Number::{Bandwidth, Count},
        compare,
    },
    number, python,
    run::Finished,
    slow::{Slow, Speed},
    turn,
};
use serde_json::Value;

/// MiB that each rank reads, and milliseconds for each.
const SHARE: u64 = 12;
const MS: u64 = 80;
/// Starts one rank for each file, which reads it and prints for how many seconds, and waits for all.
const JOB: &str = r#"
import subprocess, sys
rank = '''
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
began = time.monotonic()
while os.read(fd, 1 << 20):
    pass
# One write, whether output is buffered or not: others write, too.
os.write(1, f"{time.monotonic() - began}\\n".encode())
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
    for ((row, run), ranks) in rows.iter().zip(&runs).zip([1, 2, 4]) {
        // The report is behind what the ranks say.
        let lines = run.stdout.lines().take(ranks as usize);
        let of_ranks = lines.map(|line| {
            let seconds: f64 = line.parse().expect("seconds");
            (SHARE << 20) as f64 / seconds
        });
        let told = of_ranks.sum::<f64>() / ranks as f64;
        let found = row["bandwidth_per_rank_bytes_per_second"].as_f64().unwrap();
        let bytes = number(row, "bytes_read");
        compare(
            "Ranks",
            &ranks.to_string(),
            &[
                Bandwidth("bandwidth of each", told, found),
                Count("MiB of all", ranks * SHARE, bytes >> 20),
            ],
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
