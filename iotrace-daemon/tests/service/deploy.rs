//! What is shipped beside the program: rules, alerts and the dashboard, by Prometheus itself; the unit, by systemd.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    self,
    compare::Counts,
    daemon::{self, Answer, Daemon, Mounted},
    number, tool, truth,
};
use serde_json::Value;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(file)
}

fn succeeds(command: &mut Command) {
    let out = command.output().expect("it starts");
    let said = [out.stdout, out.stderr].concat();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn rules_and_alerts_do_what_they_say() {
    let rules = [
        deploy("prometheus/rules.yml"),
        deploy("prometheus/alerts.yml"),
    ];
    succeeds(
        Command::new(tool("promtool"))
            .args(["check", "rules"])
            .args(rules),
    );
    let tests = deploy("prometheus/tests.yml");
    succeeds(
        Command::new(tool("promtool"))
            .args(["test", "rules"])
            .arg(tests),
    );
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    let (_dir, path) = common::directory();
    // The program and its manual are not installed here.
    let unit = fs::read_to_string(deploy("systemd/iotrace.service")).unwrap();
    let unit = unit.replace("/usr/bin/iotrace", env!("CARGO_BIN_EXE_iotrace"));
    let copy = path.join("iotrace.service");
    fs::write(&copy, unit).unwrap();
    let out = Command::new(tool("systemd-analyze"))
        .args(["verify", "--man=no"])
        .arg(&copy)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!said.contains("iotrace.service:"), "{said}");
}

#[test]
fn shellcheck_finds_no_fault_in_the_scripts() {
    let scripts = [
        "iotrace/preinst",
        "iotrace-daemon/postinst",
        "iotrace-daemon/postrm",
        "iotrace-daemon/prerm",
    ];
    let scripts = scripts.map(|name| deploy(&format!("debian/{name}")));
    let slurm = ["prolog", "epilog"].map(|name| deploy(&format!("slurm/{name}")));
    let booted = deploy("../xtask/src/vm/service.sh");
    let mut check = Command::new(tool("shellcheck"));
    succeeds(check.args(scripts).args(slurm).arg(booted));
}

/// A Prometheus of the test's own; ended when it is dropped.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Scrapes every second what listens at `target`.
    fn start(dir: &Path, target: &str) -> Self {
        Self::with_alerts(dir, target, &deploy("prometheus/alerts.yml"))
    }

    /// The same with other alerts.
    fn with_alerts(dir: &Path, target: &str, alerts: &Path) -> Self {
        let rules = deploy("prometheus/rules.yml");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}', '{}']\n\
             scrape_configs: [{{job_name: iotrace, static_configs: [{{targets: ['{target}']}}]}}]\n",
            rules.display(),
            alerts.display()
        );
        let file = dir.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        // Free a moment ago: nothing else here asks for a port of its choice.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let child = Command::new(tool("prometheus"))
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// The result of a query; `None` while Prometheus does not answer.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let request = format!("GET /api/v1/query?query={escaped} HTTP/1.0\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).ok()?;
        let answer = Answer::parse(&text);
        let body: Value = serde_json::from_str(&answer.body).ok()?;
        assert_eq!(body["status"], "success", "{query}: {body}");
        body["data"]["result"].as_array().cloned()
    }

    /// Asks until there is a result that `is_enough`.
    fn until(&self, query: &str, is_enough: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let started = Instant::now();
        loop {
            let result = self.query(query);
            if let Some(result) = result.as_ref().filter(|result| is_enough(result)) {
                return result.clone();
            }
            assert!(
                started.elapsed() < Duration::from_secs(90),
                "{query}: {result:?}"
            );
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn value(result: &[Value]) -> f64 {
    let text = result
        .first()
        .and_then(|sample| sample["value"][1].as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

#[test]
fn prometheus_knows_what_the_job_did() {
    let (_dir, path) = common::directory();
    let daemon = Daemon::start(daemon::command().args(["--waits", "slurm"]));
    let prometheus = Prometheus::start(&path, &daemon.address.to_string());
    let work = path.join("work");
    fs::create_dir(&work).unwrap();
    // Before and after the job's first scrape: a rate needs two.
    let run = |count: &str| {
        let dir = work.join(count);
        fs::create_dir(&dir).unwrap();
        let out = Command::new(common::workload())
            .arg("many")
            .arg(&dir)
            .arg(count)
            .env("SLURM_JOB_ID", "555")
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&out.stdout).expect("its counts");
        let mut counts = Counts::default();
        for process in truth::processes(&report) {
            process.files().values().for_each(|file| counts.merge(file));
        }
        counts
    };
    let mut truth = run("100");
    let written = r#"sum(iotrace_bytes_total{unit="slurm:555",operation="write",mountpoint!=""})"#;
    let all = |truth: &Counts| truth.get("bytes_written") as f64;
    // The program's loader and its report to standard output write to no file.
    prometheus.until(written, |result| value(result) >= all(&truth));
    truth.merge(&run("200"));
    let result = prometheus.until(written, |result| value(result) >= all(&truth));
    assert_eq!(value(&result), all(&truth));
    prometheus.until(r#"up{job="iotrace"}"#, |result| value(result) == 1.0);
    prometheus.until(
        r#"unit_phase:iotrace_written_bytes:rate5m{unit="slurm:555"}"#,
        |result| value(result) > 0.0,
    );
    every_query_of_the_dashboard_is_answered(&prometheus);
}

/// Waits for sums over a unit's files on a mount, and compares them: labels, and the value that Prometheus must have.
fn has_exactly(prometheus: &Prometheus, unit: &str, mount: &str, sums: &[(&str, &str, u64)]) {
    for (metric, labels, expected) in sums {
        let query =
            format!(r#"sum({metric}{{unit="{unit}",mountpoint="{mount}",{labels}}}) or vector(0)"#);
        let expected = *expected as f64;
        let result = prometheus.until(&query, |result| value(result) >= expected);
        assert_eq!(value(&result), expected, "{query}");
    }
}

#[test]
fn prometheus_knows_what_fio_and_a_training_say_that_they_did() {
    const CALLS: &str = "iotrace_operations_total";
    const BYTES: &str = "iotrace_bytes_total";
    const READ: &str = r#"operation="read""#;
    const WRITE: &str = r#"operation="write""#;
    let (_dir, path) = common::directory();
    let mounted = Mounted::new();
    let daemon = Daemon::start(&mut daemon::command());
    let prometheus = Prometheus::start(&path, &daemon.address.to_string());

    // What it reads is there by then, so that nothing is laid out.
    for (unit, pattern) in [("556", "write"), ("557", "randread")] {
        let out = Command::new(tool("fio"))
            .args(["--name=job", "--numjobs=2", "--size=2m", "--bs=4k"])
            .args([
                "--fallocate=none",
                "--ioengine=psync",
                "--output-format=json",
            ])
            .arg(format!("--rw={pattern}"))
            .arg(format!("--directory={}", mounted.name()))
            .env("SLURM_JOB_ID", unit)
            .current_dir(&path)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        let own: Value = serde_json::from_slice(&out.stdout).expect("fio's JSON");
        let sum = |direction: &str, key: &str| -> u64 {
            let jobs = own["jobs"].as_array().unwrap();
            jobs.iter().map(|job| number(&job[direction], key)).sum()
        };
        assert!(sum("read", "total_ios") + sum("write", "total_ios") == 1024);
        let sums = [
            (CALLS, READ, sum("read", "total_ios")),
            (BYTES, READ, sum("read", "io_bytes")),
            (CALLS, WRITE, sum("write", "total_ios")),
            (BYTES, WRITE, sum("write", "io_bytes")),
        ];
        has_exactly(&prometheus, &format!("slurm:{unit}"), mounted.name(), &sums);
    }

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/train.py");
    let train = |unit: &str| -> Value {
        let out = Command::new(common::python())
            .arg(&script)
            .args(["--epochs=2", "--shards=4", "--samples=16"])
            .arg("--checkpoint-bytes=3000000")
            .arg(format!("--data={}/train", mounted.name()))
            .env("SLURM_JOB_ID", unit)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        serde_json::from_slice(&out.stdout).expect("its counts")
    };
    // The first makes the data set, by names that a checkpoint may have, too.
    for unit in ["558", "559"] {
        let own = train(unit);
        let total = |key| number(&own["total"], key);
        let of = |category: &str, key| number(&own["categories"][category], key);
        let mut sums = vec![
            (CALLS, READ, total("reads")),
            (BYTES, READ, total("bytes_read")),
            (CALLS, WRITE, total("writes")),
            (BYTES, WRITE, total("bytes_written")),
            (CALLS, r#"operation="fsync""#, total("fsyncs")),
            (CALLS, r#"operation="rename""#, total("renames")),
        ];
        if of("dataset", "writes") == 0 {
            let training = r#"operation="read",phase="training""#;
            let checkpoint = r#"operation="write",phase="checkpoint""#;
            sums.extend([
                (CALLS, training, of("training", "reads")),
                (BYTES, training, of("training", "bytes_read")),
                (CALLS, checkpoint, of("checkpoint", "writes")),
                (BYTES, checkpoint, of("checkpoint", "bytes_written")),
            ]);
        }
        has_exactly(&prometheus, &format!("slurm:{unit}"), mounted.name(), &sums);
        assert_eq!(sums.len(), if unit == "559" { 10 } else { 6 });
    }
    // A checkpoint is complete when its job has been quiet on it for a while.
    let saves = r#"sum(iotrace_checkpoints_total{unit="slurm:559"})"#;
    prometheus.until(saves, |result| value(result) > 0.0);
}

fn every_query_of_the_dashboard_is_answered(prometheus: &Prometheus) {
    let dashboard = fs::read_to_string(deploy("grafana/iotrace.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let is_row = |panel: &&Value| panel["type"] == "row";
    assert!(panels.iter().filter(is_row).count() > 5);
    for panel in panels.iter().filter(|panel| !is_row(panel)) {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1m")
                .replace("$instance", ".*")
                .replace("$unit", ".*");
            assert!(!query.contains('$'), "{query}");
            // No data set is read here, nothing hangs, devices are not traced, and a machine where no operation fails has no
            // series of errors. Prometheus answers these queries all the same.
            let may_be_empty = [
                "phase=\"training\"",
                "checkpoint",
                "device",
                "errors",
                "in_flight",
                "epochs",
                "findings",
                "training_last_read",
            ]
            .iter()
            .any(|word| query.contains(word));
            prometheus.until(&query, |result| may_be_empty || !result.is_empty());
        }
    }
}

#[test]
fn the_dashboards_panels_do_not_overlap_and_lead_to_each_other() {
    let dashboard = fs::read_to_string(deploy("grafana/iotrace.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| number(&panel["gridPos"], key));
        assert!(x + w <= 24, "{panel}");
        for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
            assert!(taken.insert(cell), "{} overlaps", panel["title"]);
        }
        // A link leads to this dashboard, with variables that it has.
        let links = panel["fieldConfig"]["defaults"]["links"].as_array();
        for link in links.into_iter().flatten() {
            let url = link["url"].as_str().unwrap();
            let own = format!("/d/{}?", dashboard["uid"].as_str().unwrap());
            assert!(url.starts_with(&own), "{url}");
            let variables = dashboard["templating"]["list"].as_array().unwrap();
            let is_known = |name: &str| variables.iter().any(|one| one["name"] == name);
            let set = url.split('&').filter_map(|part| part.strip_prefix("var-"));
            assert!(
                set.map(|part| part.split('=').next().unwrap())
                    .all(is_known),
                "{url}"
            );
        }
    }
}

#[test]
fn every_alert_has_a_page_that_says_what_to_do() {
    let alerts = fs::read_to_string(deploy("prometheus/alerts.yml")).unwrap();
    let pages = fs::read_to_string(deploy("../docs/guide/alerts.md")).unwrap();
    let values = |key: &str| -> Vec<&str> {
        let lines = alerts.lines().map(str::trim);
        let values = lines.filter_map(|line| line.strip_prefix(key));
        values.map(|value| value.trim_matches([' ', '"'])).collect()
    };
    let (names, urls) = (values("- alert:"), values("runbook_url:"));
    let headings: Vec<&str> = pages
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(names, headings);
    for (name, url) in names.iter().zip(&urls) {
        assert!(
            url.ends_with(&format!("/docs/guide/alerts.md#{}", name.to_lowercase())),
            "{url}"
        );
    }
    assert_eq!(names.len(), urls.len());
}

/// The shipped alert with shorter times: it fires when a job that runs has saved nothing for a while, and clears when
/// it saves again.
#[test]
fn the_alert_that_a_job_stopped_checkpointing_fires_and_clears() {
    let (_dir, path) = common::directory();
    let text = fs::read_to_string(deploy("prometheus/alerts.yml")).unwrap();
    let short = text
        .replace("> 4 * 3600", "> 40")
        .replace("for: 5m", "for: 1s");
    assert!(short.contains("> 40\n") && short.matches("for: 1s").count() > 1);
    let alerts = path.join("alerts.yml");
    fs::write(&alerts, short).unwrap();
    let daemon = Daemon::start(&mut daemon::command());
    let prometheus = Prometheus::with_alerts(&path, &daemon.address.to_string(), &alerts);
    // Of the job, as long as it runs.
    let mut rank = Command::new(tool("sleep"))
        .arg("300")
        .env("SLURM_JOB_ID", "556")
        .spawn()
        .unwrap();
    let save = |name: &str| {
        let status = Command::new(tool("dd"))
            .args(["if=/dev/zero", "bs=1M", "count=1", "status=none"])
            .arg(format!("of={}", path.join(name).display()))
            .env("SLURM_JOB_ID", "556")
            .status();
        assert!(status.unwrap().success());
    };
    let unit = r#"unit="slurm:556""#;
    let firing =
        format!(r#"ALERTS{{alertname="JobStoppedCheckpointing",alertstate="firing",{unit}}}"#);
    // Without a step in its name, a save is over after ten seconds.
    save("model.ckpt");
    let saves = format!("iotrace_checkpoints_total{{{unit}}}");
    prometheus.until(&saves, |result| value(result) == 1.0);
    assert_eq!(prometheus.query(&firing).unwrap().len(), 0);
    prometheus.until(&firing, |result| !result.is_empty());
    save("model.ckpt");
    prometheus.until(&firing, <[Value]>::is_empty);
    assert_eq!(value(&prometheus.query(&saves).unwrap()), 2.0);
    rank.kill().unwrap();
    rank.wait().unwrap();
}
