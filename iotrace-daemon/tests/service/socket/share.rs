//! Recordings by the programs of the service: exact, each client's own, and without programs of theirs.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::service::{self, OTHER, Service, USER};
use crate::common::turn;
use iotrace_common::op::class;
use iotrace_model::{
    Model,
    counters::{BYTES_WRITTEN, MAX_BYTE_WRITTEN, WRITE_SIZE_0_100, WRITE_SIZE_1G_PLUS, WRITES},
    latencies::{Histogram, Operations},
};
use iotrace_tracer::drain::wire::{Kind, unpack};

/// Bytes that each program writes into each of its files.
const BYTES: u64 = 123_457;
const FILES: usize = 5;

/// A client that is told of processes from now on.
struct Client {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    fn new(service: &Service, uid: u32, pids: &[u32]) -> Self {
        Self::asking(service, uid, &service::share(pids))
    }

    fn asking(service: &Service, uid: u32, request: &str) -> Self {
        let mut stream = service.connect(uid);
        stream.write_all(request.as_bytes()).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut client = Self { stream, reader };
        let begun = client.line();
        assert!(begun["begun"].is_object(), "{begun}");
        client
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Ends it: what it was told, and the last line.
    fn end(mut self) -> (Model, Value) {
        // A service that has ended does not hear it.
        let _ = self.stream.write_all(b"\"stop\"\n");
        let mut model = Model::default();
        loop {
            let line = self.line();
            let Some(batch) = line.get("batch") else {
                return (model, line);
            };
            let mut bytes = vec![0; batch["bytes"].as_u64().unwrap() as usize];
            self.reader.read_exact(&mut bytes).unwrap();
            let kind: Kind = serde_json::from_value(batch["kind"].clone()).unwrap();
            unpack(kind, &bytes).unwrap().apply(&mut model);
        }
    }
}

/// Bytes written by file, where there were any.
fn written(model: &Model) -> BTreeMap<String, u64> {
    let mut files = BTreeMap::new();
    for row in model.dirty_rows() {
        let bytes = row.cell.total().v[BYTES_WRITTEN];
        if bytes > 0 {
            let path = String::from_utf8_lossy(model.file(row.file).path).into_owned();
            *files.entry(path).or_default() += bytes;
        }
    }
    files
}

/// A program of a user's that writes its files, by children, once it may.
fn writer(uid: u32, home: &Path) -> Child {
    let script = format!(
        "read go; for i in $(seq {FILES}); do head -c {BYTES} /dev/zero > {}/of-{uid}-$i; done",
        home.display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::piped());
    command.uid(uid).gid(uid).spawn().unwrap()
}

fn go(mut child: Child) {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn sixteen_clients_are_told_of_their_own_to_the_byte_and_of_nothing_else() {
    turn::alone();
    let service = Service::start(&[]);
    let before = service.descriptors();
    let kernel_objects = |all: &[PathBuf]| {
        let names = all.iter().map(|name| name.to_string_lossy());
        names.filter(|name| name.contains("bpf")).count()
    };
    for round in 0..2 {
        let users = [USER, OTHER];
        let homes = users.map(|uid| service.home(uid));
        let children = [0, 1].map(|index| writer(users[index], homes[index].path()));
        let pids = children.each_ref().map(Child::id);
        let clients: Vec<(u32, Client)> = (0..16)
            .map(|index| {
                let user = index % 2;
                // All of the user, or one process with its children.
                let named = if index < 8 { vec![] } else { vec![pids[user]] };
                (users[user], Client::new(&service, users[user], &named))
            })
            .collect();
        service.until_running(16);
        let during = service.descriptors();
        assert_eq!(
            kernel_objects(&before),
            kernel_objects(&during),
            "no programs or maps are loaded"
        );
        children.into_iter().for_each(go);
        for (uid, client) in clients {
            let (model, end) = client.end();
            assert!(end["end"]["reason"].is_null(), "{end}");
            for reason in ["lost_operations", "lost_bytes", "events_dropped"] {
                let lost = end["end"]["losses"][reason].as_u64().unwrap_or(0);
                assert_eq!(lost, 0, "{reason}: {end}");
            }
            let home = &homes[users.iter().position(|user| *user == uid).unwrap()];
            let files = (1..=FILES)
                .map(|file| (format!("{}/of-{uid}-{file}", home.path().display()), BYTES));
            assert_eq!(
                written(&model),
                files.collect(),
                "round {round}, user {uid}"
            );
        }
    }
    service.until_running(0);
}

#[test]
fn what_was_done_before_is_not_told() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    go(writer(USER, home.path()));
    let client = Client::new(&service, USER, &[]);
    let later = service.home(USER);
    go(writer(USER, later.path()));
    let (model, _) = client.end();
    let paths: Vec<String> = written(&model).into_keys().collect();
    assert_eq!(paths.len(), FILES, "{paths:?}");
    let later = later.path().to_str().unwrap();
    assert!(
        paths.iter().all(|path| path.starts_with(later)),
        "{paths:?}"
    );
}

#[test]
fn a_service_that_ends_tells_the_rest_and_why() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    let client = Client::new(&service, USER, &[]);
    go(writer(USER, home.path()));
    service.daemon.signal(libc::SIGTERM);
    let (model, end) = client.end();
    assert_eq!(end["end"]["reason"], "the service ends", "{end}");
    assert_eq!(written(&model).values().sum::<u64>(), FILES as u64 * BYTES);
}

#[test]
fn names_in_directories_of_others_stay_theirs() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    let secret = service.home(OTHER);
    let own = home.path().join(format!("of-{USER}-1"));
    std::fs::write(&own, "x").unwrap();
    chown(&own, Some(USER), Some(USER)).unwrap();
    let link = secret.path().join("a-secret-name");
    std::fs::hard_link(&own, &link).unwrap();
    // The service has the name by the other user's way.
    let mut reader = Command::new("cat");
    assert!(
        reader
            .arg(&link)
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let client = Client::new(&service, USER, &[]);
    let all = Client::new(&service, 0, &[]);
    go(writer(USER, home.path()));
    let (model, _) = client.end();
    let names = written(&model);
    assert_eq!(names.values().sum::<u64>(), FILES as u64 * BYTES);
    let is_secret = |name: &String| name.contains("a-secret-name");
    assert!(!names.keys().any(is_secret), "{names:?}");
    let (model, _) = all.end();
    let names = written(&model);
    assert!(
        names.values().sum::<u64>() >= FILES as u64 * BYTES,
        "{names:?}"
    );
}

/// Of each file that was written to: the bytes, the writes, those that were sorted by size, and the highest byte.
fn details(model: &Model) -> BTreeMap<String, [u64; 4]> {
    let mut files = BTreeMap::new();
    for row in model.dirty_rows() {
        let counters = row.cell.total().v;
        if counters[WRITES] > 0 {
            let path = String::from_utf8_lossy(model.file(row.file).path);
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let sorted = counters[WRITE_SIZE_0_100..=WRITE_SIZE_1G_PLUS].iter().sum();
            let all = [
                counters[BYTES_WRITTEN],
                counters[WRITES],
                sorted,
                counters[MAX_BYTE_WRITTEN],
            ];
            files.insert(name, all);
        }
    }
    files
}

/// A parent that is recorded at detail basic, its child at detail full, another process at basic, all at once.
#[test]
fn detail_full_is_of_its_recording_alone() {
    turn::alone();
    detail_is_by_recording(&[]);
}

/// With the programs for kernels before 5.15, which newer ones run as well.
#[test]
fn detail_full_is_of_its_recording_alone_in_older_kernels() {
    turn::alone();
    detail_is_by_recording(&[("IOTRACE_TEST_PROGRAMS", "compat_510")]);
}

fn detail_is_by_recording(environment: &[(&str, &str)]) {
    let service = Service::start_with(&[], environment);
    let before = service.descriptors().len();
    for uid in [USER, 0] {
        let home = service.home(uid);
        let dir = home.path().display();
        let child = format!(
            "echo $$; read go; for i in 1 2 3; do printf %3000s > {dir}/child-$i; done; cat {dir}/none/x"
        );
        let script =
            format!("bash -c '{child}'; for i in 1 2; do printf %3000s > {dir}/parent-$i; done");
        let mut parent = Command::new("bash");
        let parent = parent.args(["-c", &script]).uid(uid).gid(uid);
        let mut parent = parent
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(parent.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let outside = writer(uid, home.path());
        let basic = Client::new(&service, uid, &[parent.id()]);
        let full = Client::asking(&service, uid, &service::share_full(&[child]));
        let beside = Client::new(&service, uid, &[outside.id()]);
        let during = service.descriptors().len();
        assert!(
            during < before + 10,
            "no programs are loaded: {before}, then {during}"
        );
        go(parent);
        go(outside);
        let ([basic, full, beside], [_, end, _]) = {
            let [basic, full, beside] = [basic, full, beside].map(Client::end);
            (
                [&basic.0, &full.0, &beside.0].map(details),
                [basic.1, full.1, beside.1],
            )
        };
        let of_child = |detail: [u64; 2]| {
            (1..=3).map(move |file| {
                let [sorted, highest] = detail;
                (format!("child-{file}"), [3000, 1, sorted, highest])
            })
        };
        let of_parent = (1..=2).map(|file| (format!("parent-{file}"), [3000, 1, 0, 0]));
        assert_eq!(basic, of_child([0, 0]).chain(of_parent).collect(), "{uid}");
        assert_eq!(full, of_child([1, 2999]).collect(), "{uid}");
        assert_eq!(beside.len(), FILES, "{beside:?}");
        for (file, [bytes, writes, sorted, highest]) in beside {
            assert_eq!(bytes, BYTES, "{file}");
            assert!(writes > 0 && sorted + highest == 0, "{file} at detail full");
        }
        assert_eq!(end["end"]["losses"]["lost_details"], 0, "{end}");
    }
    service.until_running(0);
}

#[test]
fn latencies_are_of_their_recording_alone() {
    let service = Service::start(&[]);
    let homes = [USER, OTHER].map(|uid| service.home(uid));
    let children = [0, 1].map(|index| writer([USER, OTHER][index], homes[index].path()));
    let pids = children.each_ref().map(Child::id);
    let with = Client::asking(&service, USER, &service::share_latencies(&pids[..1]));
    let without = Client::new(&service, OTHER, &pids[1..]);
    children.into_iter().for_each(go);
    let (model, _) = with.end();
    let all: Vec<_> = model.latencies().all().collect();
    let calls = |is_counted: &dyn Fn(&(u32, Operations, &Histogram)) -> bool| -> u64 {
        let counted = all.iter().filter(|of| is_counted(of));
        counted.map(|(_, _, histogram)| histogram.calls()).sum()
    };
    let writes: u64 = model
        .dirty_rows()
        .map(|row| row.cell.total().v[WRITES])
        .sum();
    assert!(writes >= FILES as u64);
    assert_eq!(
        calls(&|(_, of, _)| usize::from(of.class) == class::WRITE),
        writes
    );
    assert!(calls(&|(_, of, _)| usize::from(of.class) == class::OPEN) >= FILES as u64);
    assert_eq!(calls(&|_| true), model.io_totals().operations);
    let (model, _) = without.end();
    assert_eq!(model.latencies().all().count(), 0, "nobody asked");
    assert_eq!(written(&model).len(), FILES);
}
