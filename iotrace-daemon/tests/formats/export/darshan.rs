//! Darshan logs against the report of the same recording, as PyDarshan reads them.

use crate::common::{
    compare, directory,
    export::{by_pydarshan, derived_metrics, export, exported, refused, summary},
    golden, number, text,
};

/// A counter of the report and what Darshan calls it, where it is the same.
const SAME: [(&str, &str); 20] = [
    ("dups", "POSIX_DUPS"),
    ("reads", "POSIX_READS"),
    ("writes", "POSIX_WRITES"),
    ("seeks", "POSIX_SEEKS"),
    ("stats", "POSIX_STATS"),
    ("mmaps", "POSIX_MMAPS"),
    ("fsyncs", "POSIX_FSYNCS"),
    ("fdatasyncs", "POSIX_FDSYNCS"),
    ("create_mode", "POSIX_MODE"),
    ("bytes_read", "POSIX_BYTES_READ"),
    ("bytes_written", "POSIX_BYTES_WRITTEN"),
    ("max_byte_read", "POSIX_MAX_BYTE_READ"),
    ("max_byte_written", "POSIX_MAX_BYTE_WRITTEN"),
    ("consecutive_reads", "POSIX_CONSEC_READS"),
    ("consecutive_writes", "POSIX_CONSEC_WRITES"),
    ("sequential_reads", "POSIX_SEQ_READS"),
    ("sequential_writes", "POSIX_SEQ_WRITES"),
    ("read_write_switches", "POSIX_RW_SWITCHES"),
    ("file_unaligned", "POSIX_FILE_NOT_ALIGNED"),
    ("slowest_read_bytes", "POSIX_MAX_READ_TIME_SIZE"),
];

const SAME_TIMES: [(&str, &str); 9] = [
    ("merged_read_seconds", "POSIX_F_READ_TIME"),
    ("merged_write_seconds", "POSIX_F_WRITE_TIME"),
    ("merged_meta_seconds", "POSIX_F_META_TIME"),
    ("slowest_read_seconds", "POSIX_F_MAX_READ_TIME"),
    ("first_open_at", "POSIX_F_OPEN_START_TIMESTAMP"),
    ("first_write_at", "POSIX_F_WRITE_START_TIMESTAMP"),
    ("last_open_at", "POSIX_F_OPEN_END_TIMESTAMP"),
    ("last_read_at", "POSIX_F_READ_END_TIMESTAMP"),
    ("last_close_at", "POSIX_F_CLOSE_END_TIMESTAMP"),
];

#[test]
fn file_counts_are_those_of_darshans_accumulator() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &["-f", "darshan", "-o", log.to_str().unwrap()],
    );
    let derived = derived_metrics(&log);
    let counts = &report["file_counts"];
    let categories = derived["categories"].as_array().expect("categories");
    // As darshan-util numbers them.
    for (name, of_darshan) in ["all", "read_only", "write_only", "read_write"]
        .iter()
        .zip(categories)
    {
        let own = &counts[*name];
        assert_eq!(own["files"], of_darshan["count"], "{name}");
        assert_eq!(
            own["bytes_read"], of_darshan["total_read_volume_bytes"],
            "{name}"
        );
        assert_eq!(
            own["bytes_written"], of_darshan["total_write_volume_bytes"],
            "{name}"
        );
        let last = number(of_darshan, "max_offset_bytes");
        assert_eq!(
            number(own, "largest_bytes"),
            if last > 0 { last + 1 } else { 0 },
            "{name}"
        );
        // Darshan has the offset of the last byte, and takes a file of which none was used for one of one byte.
        if *name != "all" {
            let sizes = number(of_darshan, "total_max_offset_bytes") + number(of_darshan, "count");
            assert_eq!(number(own, "bytes"), sizes, "{name}");
            assert!(number(own, "files") > 0, "no file {name}");
        }
    }
    let seconds = derived["agg_time_by_slowest"].as_f64().expect("seconds");
    let own = counts["slowest_seconds"].as_f64().expect("seconds");
    assert!((own - seconds).abs() < 1e-6, "{own} and {seconds}");
    let bandwidth = derived["agg_perf_by_slowest"].as_f64().expect("MiB/s") * 1_048_576.0;
    let own = counts["bandwidth_by_slowest"].as_f64().expect("bytes/s");
    assert!(
        (own / bandwidth - 1.0).abs() < 1e-6,
        "{own} and {bandwidth}"
    );
    let shared = counts["shared_files"].as_array().expect("shared files");
    for file in shared {
        let rows = compare::list(&report, "files").iter();
        let rows: Vec<_> = rows.filter(|row| row["path"] == file["path"]).collect();
        assert_eq!(number(file, "processes"), rows.len() as u64, "{file}");
        let moved = |pid: &serde_json::Value| {
            let row = rows.iter().find(|row| &row["pid"] == pid).expect("its row");
            number(row, "bytes_read") + number(row, "bytes_written")
        };
        for one in [&file["slowest"], &file["fastest"]] {
            assert_eq!(number(one, "bytes"), moved(&one["pid"]), "{file}");
        }
    }
    assert!(!shared.is_empty(), "no shared file");
}

#[test]
fn pydarshan_reads_the_recordings_numbers() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &["-f", "darshan", "-o", log.to_str().unwrap()],
    );
    let read = by_pydarshan(&log);
    let records = compare::list(&read, "records");
    let files: Vec<_> = compare::list(&report, "files")
        .iter()
        .filter(|row| text(row, "type") == "regular")
        .collect();
    assert_eq!(records.len(), files.len());
    let mut pids: Vec<u64> = files.iter().map(|row| number(row, "pid")).collect();
    pids.dedup();
    assert_eq!(read["job"]["nprocs"], pids.len());
    assert!(text(&read, "exe").contains("files.py"), "{}", read["exe"]);
    let job = &read["job"]["metadata"];
    assert!(text(job, "lib_ver").starts_with("iotrace "), "{job}");
    let listed: Vec<String> = pids.iter().map(u64::to_string).collect();
    assert_eq!(text(job, "pids"), listed.join(","));
    for row in files {
        let name = text(row, "path")
            .replace('\n', "%0A")
            .replace("\u{fffd}\u{fffd}", "%FF%FE");
        let rank = pids
            .iter()
            .position(|pid| *pid == number(row, "pid"))
            .unwrap();
        let found = records
            .iter()
            .find(|record| text(record, "name") == name && record["rank"] == rank);
        let record = found.unwrap_or_else(|| panic!("no record of {name} and rank {rank}"));
        for (ours, darshans) in SAME {
            assert_eq!(
                number(record, darshans),
                number(row, ours),
                "{darshans} of {name}"
            );
        }
        assert_eq!(
            number(record, "POSIX_OPENS"),
            number(row, "opens") + number(row, "dups")
        );
        for (ours, darshans) in SAME_TIMES {
            assert_eq!(
                record[darshans].as_f64(),
                Some(row[ours].as_f64().unwrap_or(0.0)),
                "{darshans} of {name}"
            );
        }
        for (kind, sizes) in [("READ", "read_sizes"), ("WRITE", "write_sizes")] {
            for (bucket, calls) in row[sizes].as_object().into_iter().flatten() {
                let name = format!("POSIX_SIZE_{kind}_{}", bucket.to_uppercase());
                assert_eq!(&record[&name], calls, "{name}");
            }
        }
        for (rank, size) in row["access_sizes"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            assert_eq!(
                record[format!("POSIX_ACCESS{}_ACCESS", rank + 1)],
                size["size"]
            );
            assert_eq!(
                record[format!("POSIX_ACCESS{}_COUNT", rank + 1)],
                size["count"]
            );
        }
    }
    // All bytes are in the heat map, whatever its bins are.
    assert_eq!(read["heat"]["read"], report["totals"]["bytes_read"]);
    assert_eq!(read["heat"]["write"], report["totals"]["bytes_written"]);
    let summary = summary(&log, &dir, &[]);
    assert!(summary.contains("Heat Map: HEATMAP POSIX"));
}

#[test]
fn records_beyond_the_most_are_folded_by_directory() {
    let (_keep, dir) = directory();
    let finished = golden::kept("files");
    let report = finished.report();
    let log = dir.join("log.darshan");
    exported(
        &finished.recording,
        &[
            "-f",
            "darshan",
            "--max-records",
            "8",
            "-o",
            log.to_str().unwrap(),
        ],
    );
    let read = by_pydarshan(&log);
    let records = compare::list(&read, "records");
    let sum = |name: &str| -> u64 { records.iter().map(|record| number(record, name)).sum() };
    for (ours, darshans) in [
        ("bytes_read", "POSIX_BYTES_READ"),
        ("bytes_written", "POSIX_BYTES_WRITTEN"),
    ] {
        assert_eq!(sum(darshans), number(&report["totals"], ours));
    }
    assert!(records.len() <= 8, "{}", records.len());
    assert!(
        records
            .iter()
            .any(|record| text(record, "name").ends_with("/*"))
    );
    assert!(
        records
            .iter()
            .any(|record| text(record, "name").ends_with("/step_100.pt"))
    );
    let folded: u64 = text(&read["job"]["metadata"], "folded_files")
        .parse()
        .unwrap();
    assert!(folded > 5, "{folded}");
}

#[test]
fn a_darshan_log_needs_detail_full_and_files() {
    let finished = golden::kept("files-basic");
    let out = export(&finished.recording, &["-f", "darshan"]);
    refused(&out, &["detail basic", "--detail full"]);
    assert!(out.stdout.is_empty());
    let finished = golden::kept("files");
    let out = export(&finished.recording, &["-f", "darshan", "--phase", "log"]);
    refused(&out, &["no selected process used a file"]);
}
