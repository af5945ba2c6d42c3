//! The service against the real kernel: what it counts, and how it starts, reloads and ends.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::common::{
    self,
    compare::Counts,
    daemon::{self, Answer, Daemon, Mounted, Sample, Unprivileged, sum},
    tool, truth, turn,
};
use serde_json::Value;

/// Runs the counting program as a Slurm job, and returns its counts of files.
fn work(mode: &[&str], dir: &Path, job: &str) -> Counts {
    let mut command = Command::new(common::workload());
    let mut args = mode.iter();
    command.args(args.next()).arg(dir).args(args);
    let out = command
        .env("SLURM_JOB_ID", job)
        .output()
        .expect("the counting program");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let report: Value = serde_json::from_slice(&out.stdout).expect("its counts");
    let mut counts = Counts::default();
    for process in truth::processes(&report) {
        process.files().values().for_each(|file| counts.merge(file));
    }
    counts
}

/// Operations whose name in the metrics is not their counter without its last letter.
fn counter_of(operation: &str) -> String {
    match operation {
        "access" => "accesses".into(),
        "getdents" => "getdents".into(),
        name => format!("{name}s"),
    }
}

/// What the metrics say of a unit on a mount.
fn counted(samples: &[Sample], unit: &str, mount: &str) -> Counts {
    let mut counts = Counts::default();
    let ours = samples
        .iter()
        .filter(|sample| sample.label("unit") == unit && sample.label("mountpoint") == mount);
    for sample in ours {
        let value = sample.value as u64;
        let operation = sample.label("operation");
        match sample.name.as_str() {
            "iotrace_operations_total" => counts.add(&counter_of(operation), value),
            "iotrace_bytes_total" if operation == "read" => counts.add("bytes_read", value),
            "iotrace_bytes_total" => counts.add("bytes_written", value),
            "iotrace_zero_length_reads_total" => counts.add("zero_reads", value),
            "iotrace_errors_total" => {
                (0..value).for_each(|_| counts.add_error(operation, sample.label("errno"), 1));
                counts.add("failures", value);
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn counts_what_jobs_did_exactly() {
    let mounted = Mounted::new();
    let daemon = Daemon::start(&mut daemon::command());
    let many = work(&["many", "300"], &mounted.path, "4242");
    let dir = mounted.path.join("threads");
    fs::create_dir(&dir).unwrap();
    let threads = work(&["threads-on-many"], &dir, "77");
    for (unit, truth) in [("slurm:4242", &many), ("slurm:77", &threads)] {
        let done = daemon.until("counts of the job", |samples| {
            let counts = counted(samples, unit, mounted.name());
            (counts.get("closes") >= truth.get("closes")).then_some(counts)
        });
        assert_eq!(&done, truth, "{unit}");
    }
    let samples = daemon.scrape();
    let files = [("unit", "slurm:4242"), ("mountpoint", mounted.name())];
    assert_eq!(sum(&samples, "iotrace_files_seen_total", &files), 300.0);
    let job = [("unit", "slurm:4242")];
    let inside = sum(&samples, "iotrace_io_seconds_total", &job);
    let merged = sum(&samples, "iotrace_merged_io_seconds_total", &job);
    // One process after the other, each of one thread: nothing overlaps.
    assert!(
        merged > 0.0 && merged <= inside * 1.001,
        "{merged} of {inside}"
    );
    let info: Vec<_> = samples
        .iter()
        .filter(|sample| sample.name == "iotrace_unit_info" && sample.label("unit") == "slurm:4242")
        .collect();
    assert_eq!(info.len(), 1);
    assert_eq!(info[0].label("hpc_job"), "4242");
    assert_eq!(
        sum(&samples, "iotrace_unaccounted_total", &[("kind", "lost")]),
        0.0
    );
    // A job that goes on where one was: its counters grow by what it does.
    let again = work(&["many", "300"], &fresh(&mounted.path, "again"), "4242");
    let mut both = many.clone();
    both.merge(&again);
    let done = daemon.until("counts of both", |samples| {
        let counts = counted(samples, "slurm:4242", mounted.name());
        (counts.get("closes") >= both.get("closes")).then_some(counts)
    });
    assert_eq!(done, both);
}

fn fresh(dir: &Path, name: &str) -> PathBuf {
    let dir = dir.join(name);
    fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn attributes_processes_that_live_for_milliseconds() {
    let mounted = Mounted::new();
    let daemon = Daemon::start(&mut daemon::command());
    let jobs: Vec<String> = (9000..9050).map(|job| job.to_string()).collect();
    for job in &jobs {
        let file = mounted.path.join(job);
        let status = Command::new(tool("dd"))
            .args(["if=/dev/zero", "bs=100", "count=3", "status=none"])
            .arg(format!("of={}", file.display()))
            .env("SLURM_JOB_ID", job)
            .status();
        assert!(status.unwrap().success());
    }
    let written = |samples: &[Sample], labels: &[(&str, &str)]| {
        let labels = [
            labels,
            &[("operation", "write"), ("mountpoint", mounted.name())],
        ]
        .concat();
        sum(samples, "iotrace_bytes_total", &labels)
    };
    let samples = daemon.until("bytes of all jobs", |samples| {
        (written(samples, &[]) >= 15_000.0).then(|| samples.to_vec())
    });
    for job in &jobs {
        let unit = format!("slurm:{job}");
        assert_eq!(written(&samples, &[("unit", &unit)]), 300.0, "{unit}");
    }
}

#[test]
fn a_checkpoint_is_counted_when_it_is_complete() {
    let mounted = Mounted::new();
    let daemon = Daemon::start(&mut daemon::command());
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(tool(program));
        command.args(args).env("SLURM_JOB_ID", "88");
        assert!(command.status().unwrap().success());
    };
    let write = |name: &str, bytes: usize| {
        let (to, size) = (
            format!("of={}/{name}", mounted.name()),
            format!("bs={bytes}"),
        );
        run(
            "dd",
            &["if=/dev/zero", &size, "count=1", "status=none", &to],
        );
    };
    write("epoch=1.ckpt", 5000);
    // As Lightning does it: written under another name, seen so, and renamed.
    write("tmpq8x_7k", 7000);
    let labels = [("unit", "slurm:88"), ("operation", "write")];
    daemon.until("all bytes", |samples| {
        (sum(samples, "iotrace_bytes_total", &labels) == 12_000.0).then_some(())
    });
    let (from, to) = (
        format!("{}/tmpq8x_7k", mounted.name()),
        format!("{}/last.ckpt", mounted.name()),
    );
    run("mv", &[&from, &to]);
    let job = [("unit", "slurm:88")];
    let samples = daemon.until("a checkpoint", |samples| {
        (sum(samples, "iotrace_checkpoints_total", &job) > 0.0).then(|| samples.to_vec())
    });
    assert_eq!(sum(&samples, "iotrace_checkpoints_total", &job), 1.0);
    assert_eq!(
        sum(&samples, "iotrace_checkpoint_bytes_total", &job),
        12_000.0
    );
    assert_eq!(
        sum(&samples, "iotrace_checkpoint_duration_seconds_count", &job),
        1.0
    );
    let last = sum(
        &samples,
        "iotrace_checkpoint_last_completed_timestamp_seconds",
        &job,
    );
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let age = now.unwrap().as_secs_f64() - last;
    assert!((8.0..60.0).contains(&age), "{age} s ago");
}

#[test]
fn needs_the_capabilities_of_its_unit_and_names_those_that_are_missing() {
    let all = daemon::capabilities("iotrace.service");
    let program = Unprivileged::new();
    let with = |capabilities: &[&String]| {
        let mut command = program.command(capabilities);
        command.args(["--listen", "127.0.0.1:0", "--map-entries", "4096"]);
        command
    };
    let without = |name: &str| with(&all.iter().filter(|kept| *kept != name).collect::<Vec<_>>());
    // Root's, of a job, and there before the service: it starts no program that the service could see.
    let mounted = Mounted::new();
    let script = "while echo x; do read -t 0.2 <>\"$1\"; done >\"$2\"";
    let fifo = mounted.path.join("fifo");
    assert!(
        Command::new(tool("mkfifo"))
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut before = Command::new(tool("bash"))
        .args(["-c", script, "bash"])
        .args([&fifo, &mounted.path.join("lines")])
        .env("SLURM_JOB_ID", "31337")
        .spawn()
        .unwrap();
    let daemon = Daemon::start(&mut with(&all.iter().collect::<Vec<_>>()));
    daemon.until("bytes of the job that was there", |samples| {
        let job = [("unit", "slurm:31337"), ("operation", "write")];
        (sum(samples, "iotrace_bytes_total", &job) > 0.0).then_some(())
    });
    before.kill().unwrap();
    before.wait().unwrap();
    let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
    assert!(
        status["hooks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|hook| hook["attached"] == true)
    );
    assert!(!status["warnings"].to_string().contains("CAP_"), "{status}");
    drop(daemon);
    for required in ["bpf", "perfmon"] {
        let out = without(required).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(77), "{said}");
        let name = format!("it lacks CAP_{}; ", required.to_uppercase());
        assert!(said.contains(&name), "{said}");
    }
    for optional in ["sys_ptrace", "sys_nice"] {
        let daemon = Daemon::start(&mut without(optional));
        let name = format!("CAP_{}", optional.to_uppercase());
        let others = all.iter().filter(|other| *other != optional);
        let others: Vec<_> = others
            .map(|other| format!("CAP_{}", other.to_uppercase()))
            .collect();
        daemon.until("a warning of this and no other", |_| {
            let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
            let warnings = status["warnings"].to_string();
            assert!(
                !others.iter().any(|other| warnings.contains(other)),
                "{warnings}"
            );
            warnings.contains(&name).then_some(())
        });
    }
}

#[test]
fn too_many_jobs_are_counted_together() {
    turn::alone();
    let mounted = Mounted::new();
    let mut command = daemon::command();
    command.args(["--max-series", "100"]);
    let daemon = Daemon::start(&mut command);
    for job in 0..40 {
        let file = mounted.path.join(job.to_string());
        let status = Command::new(tool("dd"))
            .args(["if=/dev/zero", "bs=1000", "count=1", "status=none"])
            .arg(format!("of={}", file.display()))
            .env("SLURM_JOB_ID", job.to_string())
            .status();
        assert!(status.unwrap().success());
    }
    // What finds no room loses its mount too, so all writes of the machine are looked at.
    let samples = daemon.until("bytes of all jobs", |samples| {
        let all = sum(samples, "iotrace_bytes_total", &[("operation", "write")]);
        (all >= 40_000.0).then(|| samples.to_vec())
    });
    assert!(sum(&samples, "iotrace_series", &[]) <= 100.0);
    assert!(sum(&samples, "iotrace_series_folds_total", &[]) > 0.0);
    assert!(sum(&samples, "iotrace_operations_total", &[("unit", "other")]) > 0.0);
}

#[test]
fn forgets_files_and_counts_them_exactly() {
    turn::alone();
    let mounted = Mounted::new();
    let mut command = daemon::command();
    command.args(["--max-files", "1000"]);
    let daemon = Daemon::start(&mut command);
    let mut truth = Counts::default();
    let mut forgotten = 0.0;
    for round in 0..3 {
        let dir = fresh(&mounted.path, &round.to_string());
        truth.merge(&work(&["many", "2000"], &dir, "31"));
        forgotten = daemon.until("files forgotten", |samples| {
            let now = sum(samples, "iotrace_forgotten_files_total", &[]);
            (now > forgotten).then_some(now)
        });
    }
    // Files that were forgotten are named again: their mount is known.
    let read = Command::new(tool("cat"))
        .args((0..100).map(|file| mounted.path.join(format!("0/0/{file}"))))
        .env("SLURM_JOB_ID", "32")
        .output();
    let bytes = read.unwrap().stdout.len() as f64;
    let labels = [("unit", "slurm:32"), ("mountpoint", mounted.name())];
    daemon.until("bytes of forgotten files", |samples| {
        (sum(samples, "iotrace_bytes_total", &labels) == bytes).then_some(())
    });
    daemon.until("all counts", |samples| {
        (counted(samples, "slurm:31", mounted.name()) == truth).then_some(())
    });
    // The whole system's are among them, until they are forgotten in their turn.
    daemon.until("few files known", |samples| {
        (sum(samples, "iotrace_known_files", &[]) < 4000.0).then_some(())
    });
}

#[test]
fn pages_say_what_they_are() {
    let daemon = Daemon::start(&mut daemon::command());
    let index = daemon.get("/");
    assert_eq!(index.status, 200);
    for link in ["/metrics", "/status", "/healthz"] {
        assert!(
            index.body.contains(&format!("href=\"{link}\"")),
            "{}",
            index.body
        );
    }
    assert_eq!(daemon.get("/healthz").body, "ok\n");
    assert_eq!(daemon.get("/nowhere").status, 404);
    let post = daemon
        .ask("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post.status, 405);
    let status: Value = serde_json::from_str(&daemon.get("/status").body).unwrap();
    let hooks = status["hooks"].as_array().unwrap();
    let names: Vec<&str> = hooks
        .iter()
        .map(|hook| hook["name"].as_str().unwrap())
        .collect();
    let process = ["fork", "exec", "exit"].map(|name| format!("sched_process_{name}"));
    assert_eq!(names[..3], process);
    assert_eq!(
        names[3..],
        [
            "io_uring",
            "page_cache",
            "mmap",
            "fault_time",
            "sys_enter",
            "sys_exit"
        ]
    );
    assert!(
        hooks.iter().all(|hook| hook["attached"] == true),
        "{hooks:?}"
    );
    assert_eq!(status["unaccounted"]["lost_operations"], 0);
    let open = daemon.ask(
        "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n",
    );
    assert!(
        open.head
            .contains("content-type: application/openmetrics-text"),
        "{}",
        open.head
    );
    assert!(open.body.ends_with("# EOF\n"));
    let text = daemon.get("/metrics");
    assert!(
        text.head
            .contains("content-type: text/plain; version=0.0.4"),
        "{}",
        text.head
    );
}

#[test]
fn promtool_finds_no_fault_in_what_is_served() {
    let daemon = Daemon::start(&mut daemon::command());
    daemon.until("any operation", |samples| {
        (sum(samples, "iotrace_operations_total", &[]) > 0.0).then_some(())
    });
    daemon::promtool_finds_no_fault(&daemon.get("/metrics").body);
}

#[test]
fn only_who_knows_a_password_may_ask() {
    let (_dir, path) = common::directory();
    let config = path.join("iotrace.toml");
    let hash = bcrypt::hash("s3cret", 4).unwrap();
    fs::write(&config, format!("[http.users]\nada = \"{hash}\"\n")).unwrap();
    let mut command = daemon::command();
    command.arg("--config").arg(&config);
    let mut daemon = Daemon::start(&mut command);
    let with = |daemon: &Daemon, path: &str, pair: &str| {
        let header = format!("Authorization: Basic {pair}\r\n");
        daemon.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\n\r\n"
        ))
    };
    let refused = daemon.get("/metrics");
    assert_eq!(refused.status, 401);
    assert!(
        refused.head.contains("www-authenticate: basic"),
        "{}",
        refused.head
    );
    assert_eq!(with(&daemon, "/metrics", "YWRhOnMzY3JldA==").status, 200);
    assert_eq!(with(&daemon, "/status", "YWRhOndyb25n").status, 401);
    assert!(
        !with(&daemon, "/status", "YWRhOnMzY3JldA==")
            .body
            .contains(&hash)
    );
    assert_eq!(daemon.get("/healthz").status, 200);
    // Without users everybody may.
    fs::write(&config, "").unwrap();
    daemon.signal(libc::SIGHUP);
    assert!(daemon.says().contains("reloaded"));
    assert_eq!(daemon.get("/metrics").status, 200);
}

#[test]
fn speaks_tls() {
    let (_dir, path) = common::directory();
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let (certificate, key) = (path.join("tls.crt"), path.join("tls.key"));
    fs::write(&certificate, issued.cert.pem()).unwrap();
    fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
    let mut command = daemon::command();
    command
        .arg("--tls-certificate")
        .arg(&certificate)
        .arg("--tls-key")
        .arg(&key);
    let daemon = Daemon::start(&mut command);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let provider = rustls::crypto::ring::default_provider().into();
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut socket = TcpStream::connect(daemon.address).unwrap();
    let mut stream = rustls::Stream::new(&mut client, &mut socket);
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    assert_eq!(Answer::parse(&text).body, "ok\n");
    // Plain HTTP is not understood.
    let mut plain = TcpStream::connect(daemon.address).unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = Vec::new();
    let _ = plain.read_to_end(&mut text);
    assert!(
        !text.starts_with(b"HTTP/"),
        "{}",
        String::from_utf8_lossy(&text)
    );
}

#[test]
fn reloads_what_can_be_and_says_what_cannot() {
    let (_dir, path) = common::directory();
    let config = path.join("iotrace.toml");
    fs::write(&config, "[metrics]\nmax_series = 5000\n").unwrap();
    let mut command = daemon::command();
    command.arg("--config").arg(&config);
    let mut daemon = Daemon::start(&mut command);
    assert_eq!(sum(&daemon.scrape(), "iotrace_series_limit", &[]), 5000.0);
    fs::write(
        &config,
        "[metrics]\nmax_series = 7000\n[trace]\ndetail = \"full\"\n",
    )
    .unwrap();
    daemon.signal(libc::SIGHUP);
    let said = daemon.says();
    assert!(
        said.contains("takes effect at the next start: trace.detail"),
        "{said}"
    );
    assert!(daemon.says().contains("reloaded"));
    assert_eq!(sum(&daemon.scrape(), "iotrace_series_limit", &[]), 7000.0);
    fs::write(&config, "[metrics]\n\nmax_serie = 1\n").unwrap();
    daemon.signal(libc::SIGHUP);
    let said = daemon.says();
    assert!(
        said.contains("iotrace.toml:3: unknown field `max_serie`"),
        "{said}"
    );
    assert_eq!(sum(&daemon.scrape(), "iotrace_series_limit", &[]), 7000.0);
}

#[test]
fn tells_systemd_how_it_is() {
    let (_dir, path) = common::directory();
    let socket = UnixDatagram::bind(path.join("notify")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let hears = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let until = |start: &str| {
        for _ in 0..100 {
            let message = hears();
            if message.starts_with(start) {
                return message;
            }
        }
        panic!("no {start}");
    };
    let mut command = daemon::command();
    command
        .env("NOTIFY_SOCKET", path.join("notify"))
        .env("WATCHDOG_USEC", "400000");
    let daemon = Daemon::start(&mut command);
    let ready = until("READY=1");
    assert!(ready.contains("\nSTATUS=9 of 9 hooks attached"), "{ready}");
    until("WATCHDOG=1");
    daemon.signal(libc::SIGHUP);
    assert!(until("RELOADING=1").contains("\nMONOTONIC_USEC="));
    until("READY=1");
    let (status, _) = daemon.end(libc::SIGTERM);
    until("STOPPING=1");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_configuration_that_is_wrong_is_refused() {
    let (_dir, path) = common::directory();
    let config = path.join("iotrace.toml");
    fs::write(&config, "[http]\n\nlisten = \"nowhere\"\n").unwrap();
    let run = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_iotrace"))
            .arg("daemon")
            .args(args)
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, said) = run(&["--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("iotrace.toml:3: invalid socket address"),
        "{said}"
    );
    let (code, said) = run(&["--config", "/nowhere.toml", "--check-config"]);
    assert_eq!(code, Some(1));
    assert!(said.contains("/nowhere.toml cannot be read"), "{said}");
    fs::write(&config, "[metrics]\nlinger = \"1m\"\n").unwrap();
    assert_eq!(
        run(&["--config", config.to_str().unwrap(), "--check-config"]).0,
        Some(0)
    );
    // What it names is opened.
    let named = [
        ("[trace]\nrules = \"/nowhere.rules\"\n", "/nowhere.rules"),
        ("[trace]\nbtf = \"/nowhere.btf\"\n", "/nowhere.btf"),
        (
            "[http]\ntls_certificate = \"/nowhere.pem\"\ntls_key = \"/nowhere.key\"\n",
            "/nowhere.pem",
        ),
        ("[recordings]\ngroup = \"nobody-s\"\n", "no group nobody-s"),
        (
            "[jobs]\ndirectory = \"/etc/passwd\"\n",
            "/etc/passwd is no directory of the service's user",
        ),
    ];
    for (text, word) in named {
        fs::write(&config, text).unwrap();
        let (code, said) = run(&["--config", config.to_str().unwrap(), "--check-config"]);
        assert_eq!(code, Some(1), "{text}: {said}");
        assert!(said.contains(word), "{text}: {said}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = run(&["--listen", &address, "--map-entries", "100"]);
    assert_eq!(code, Some(1));
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
}
