//! What a process has done until now, by the program of `examples` and by the command line.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::service::{OTHER, Process, Service, USER};
use crate::common::{self, number};

/// Works as it is told line by line, and says after each step what it has done itself and what the callbacks that the
/// example shows say of it.
const STEPS: &str = r##"
import json, os, statistics, sys, textwrap, time, types
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import iotrace_snapshot
os.mkdir("dataset"), os.mkdir("checkpoints")
fd = os.open("dataset/train-00000.tfrecord", os.O_CREAT | os.O_RDWR)
os.pwrite(fd, bytes(100_000), 0)

# The classes as they stand in the example, on frameworks that have nothing but their base class.
blocks = iotrace_snapshot.__doc__.split("\n\n    class LogIO")[1:]
logged = {}
module = types.SimpleNamespace(log=lambda name, value: logged.update({name: value}))
def framework(block):
    code = textwrap.dedent("    class LogIO" + block.split("\n\nWith ")[0])
    names = {
        "IOTrace": iotrace_snapshot.IOTrace,
        "lightning": types.SimpleNamespace(Callback=object),
        "keras": types.SimpleNamespace(callbacks=types.SimpleNamespace(Callback=object)),
    }
    exec(code, names)
    return names["LogIO"]()
pytorch, keras = map(framework, blocks)

def worker(count):
    for _ in range(count):
        os.pread(fd, 1000, 0)
    os._exit(0)

def step(read, write, save, workers, reads):
    children = []
    for _ in range(workers):
        child = os.fork()
        if child == 0:
            worker(reads)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    for _ in range(read):
        os.pread(fd, 4096, 0)
    for _ in range(write):
        os.pwrite(fd, bytes(10), 0)
    if save:
        out = os.open("checkpoints/model.ckpt", os.O_CREAT | os.O_WRONLY)
        os.write(out, bytes(save))
        os.close(out)
    return {"read": 4096 * read + 1000 * reads * workers, "written": 10 * write + save, "save": save}

io = iotrace_snapshot.IOTrace()
pytorch.on_train_start(None, module)
keras.on_train_begin()
for line in sys.stdin:
    done, logs = step(*json.loads(line)), {}
    started = time.perf_counter()
    said = io.step()
    took = time.perf_counter() - started
    pytorch.on_train_batch_end(None, module, None, None, 0)
    keras.on_train_batch_end(0, logs)
    told = {"done": done, "said": said, "took": took, "pytorch": logged, "keras": logs}
    print(json.dumps({**told, "all": iotrace_snapshot.snapshot()}), flush=True)
"##;

/// The program, and what it says.
struct Training {
    process: Process,
    said: BufReader<ChildStdout>,
}

impl Training {
    fn start(service: &Service, home: &Path) -> Self {
        let module = service.dir().join("module");
        fs::create_dir(&module).unwrap();
        let example = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../examples/iotrace_snapshot.py"
        );
        fs::copy(example, module.join("iotrace_snapshot.py")).unwrap();
        let mut child = Command::new(common::users_python())
            .args(["-c", STEPS])
            .arg(&module)
            .env("IOTRACE_SOCKET", &service.socket)
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(USER)
            .gid(USER)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self {
            process: Process(child),
            said,
        }
    }

    /// Reads and writes of its own, bytes saved, workers, and reads of each.
    fn step(&mut self, work: [u64; 5]) -> Value {
        let stdin = self.process.0.stdin.as_mut().unwrap();
        writeln!(stdin, "{work:?}").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[test]
fn a_training_loop_logs_what_each_step_did() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let mut training = Training::start(&service, home.path());
    let work = [
        [10, 0, 0, 0, 0],
        [0, 3, 5000, 0, 0],
        [1, 1, 0, 4, 25],
        [0, 0, 0, 0, 0],
    ];
    let mut last = Value::Null;
    for work in work {
        let step = training.step(work);
        let (done, said) = (&step["done"], &step["said"]);
        let read = number(done, "read");
        assert_eq!(number(&said["total"], "bytes_read"), read, "{step}");
        assert_eq!(
            number(&said["total"], "bytes_written"),
            number(done, "written"),
            "{step}"
        );
        let phases = &said["phases"];
        assert_eq!(number(&phases["training"], "bytes_read"), read, "{step}");
        assert_eq!(
            number(&phases["checkpoint"], "bytes_written"),
            number(done, "save"),
            "{step}"
        );
        assert_eq!(number(&step["keras"], "io_bytes_read"), read, "{step}");
        assert_eq!(step["pytorch"]["io/bytes_read"], read as f64, "{step}");
        last = step;
    }
    let nothing = serde_json::json!({});
    assert_eq!(last["said"]["phases"], nothing, "nothing was done");
    let took: Vec<Value> = (0..30)
        .map(|_| training.step([0; 5])["took"].clone())
        .collect();
    println!("seconds that snapshots took: {took:?}");
    by_command_line(&service, training.process.pid(), &last["all"]);
}

#[test]
fn what_forgotten_processes_did_still_counts() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let mut training = Training::start(&service, home.path());
    let before = training.step([0; 5])["all"].clone();
    let processes = |service: &Service| service.status()["memory"]["processes"].as_u64().unwrap();
    for _ in 0..30 {
        training.step([0, 0, 0, 50, 1]);
    }
    let started = Instant::now();
    while processes(&service) > 1500 {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "none is forgotten"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    let all = training.step([1, 0, 0, 0, 0])["all"].clone();
    let read = |all: &Value| number(&all["total"], "bytes_read");
    assert_eq!(read(&all) - read(&before), 30 * 50 * 1000 + 4096);
    assert_eq!(number(&all, "processes"), 1501);
}

/// The same of the process by the command line, which others may not ask for.
fn by_command_line(service: &Service, pid: u32, all: &Value) {
    let last = service.home(USER);
    let file = last.path().join("last.json");
    let ask = |uid, more: &[&str]| {
        let out = service
            .command(uid)
            .env("IOTRACE_SOCKET", &service.socket)
            .args(["snapshot", "--pid", &pid.to_string()])
            .args(more)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        (out.status.code(), text)
    };
    let since_last = ["--format", "json", "--since-last", file.to_str().unwrap()];
    let (code, text) = ask(USER, &since_last);
    assert_eq!(code, Some(0), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&found["total"], &found["phases"]),
        (&all["total"], &all["phases"])
    );
    assert_eq!(number(&found, "processes"), 5);
    let (_, text) = ask(USER, &since_last);
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(number(&found["total"], "operations"), 0, "{text}");
    let (code, text) = ask(0, &[]);
    assert!(
        code == Some(0) && text.contains("training") && text.contains("KiB"),
        "{text}"
    );
    let (code, text) = ask(OTHER, &[]);
    assert!(
        code == Some(77) && text.contains("belongs to another user"),
        "{text}"
    );
    fs::write(&file, "{}").unwrap();
    let (code, text) = ask(USER, &since_last);
    assert!(
        code == Some(1) && text.contains("is no snapshot: name another file"),
        "{text}"
    );
}

#[test]
fn counts_from_now_on_without_a_service() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let script = "mkdir dataset; head -c 4096 /dev/zero > dataset/train-0.tfrecord
                  while :; do cat dataset/train-0.tfrecord > /dev/null; sleep 0.01; done";
    let busy = Process::shell(USER, home.path(), script);
    let ask = |uid, socket: &str, pid: u32, more: &[&str]| {
        let out = service
            .command(uid)
            .env("IOTRACE_SOCKET", socket)
            .args(["snapshot", "--pid", &pid.to_string(), "--format=json"])
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let found = serde_json::from_slice::<Value>(&out.stdout).unwrap_or_default();
        (out.status.code(), found, said)
    };
    let nowhere = "/nowhere/iotrace.sock";
    for (uid, socket) in [(0, nowhere), (USER, service.socket.to_str().unwrap())] {
        let (code, found, said) = ask(uid, socket, busy.pid(), &["--for", "2s"]);
        assert_eq!(code, Some(0), "{said}");
        let training = &found["phases"]["training"];
        assert!(number(training, "bytes_read") >= 4096, "{found}");
        assert_eq!(number(training, "bytes_read") % 4096, 0, "{found}");
        let period = number(&found, "time_unix_ns") - number(&found, "since_unix_ns");
        assert!(period >= 2_000_000_000, "{period}");
    }
    let (code, _, said) = ask(0, nowhere, busy.pid(), &[]);
    assert_eq!(code, Some(1));
    for words in ["no service answers at /nowhere/iotrace.sock", "--for 10s"] {
        assert!(said.contains(words), "{said}");
    }
    let (code, _, said) = ask(USER, nowhere, busy.pid(), &["--for", "1s"]);
    assert_eq!(code, Some(77));
    for words in [
        "run `sudo iotrace snapshot",
        "not at /nowhere/iotrace.sock",
        "CAP_BPF",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn the_end_of_a_process_is_the_end_of_the_time() {
    let service = Service::start(&[]);
    let home = service.home(USER);
    let mut command = Command::new("bash");
    command.args(["-c", "read; cat /etc/passwd > copy"]);
    command.current_dir(home.path()).stdin(Stdio::piped());
    let mut process = Process(command.spawn().unwrap());
    let pid = process.pid().to_string();
    let ask = |time| {
        let mut command = service.command(0);
        command.args(["snapshot", "--format=json", "--for", time, "--pid", &pid]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Process(command.spawn().unwrap())
    };
    let mut iotrace = ask("1h");
    // It counts when its drain runs.
    let threads = format!("/proc/{}/task", iotrace.pid());
    let drains = || {
        let names = fs::read_dir(&threads).into_iter().flatten().flatten();
        let mut names = names.filter_map(|task| fs::read(task.path().join("comm")).ok());
        names.any(|name| name.starts_with(b"iotrace-drain"))
    };
    let started = Instant::now();
    while !drains() {
        assert!(started.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    process.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    process.0.wait().unwrap();
    let mut text = String::new();
    let output = iotrace.0.stdout.as_mut().unwrap();
    output.read_to_string(&mut text).unwrap();
    assert!(iotrace.0.wait().unwrap().success());
    let found: Value = serde_json::from_str(&text).unwrap();
    let length = fs::metadata("/etc/passwd").unwrap().len();
    assert_eq!(number(&found["total"], "bytes_written"), length, "{found}");
    let mut iotrace = ask("1s");
    let (mut said, errors) = (String::new(), iotrace.0.stderr.as_mut().unwrap());
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(iotrace.0.wait().unwrap().code(), Some(1));
    assert!(
        said.contains(&format!("no process {pid}: it has ended")),
        "{said}"
    );
}

#[test]
fn snapshots_do_not_wait_for_each_other() {
    let service = Service::start(&[]);
    let started = Instant::now();
    let count = std::thread::scope(|scope| {
        let ask = || {
            (0..20)
                .filter(|_| {
                    service
                        .ask(USER, "{\"iotrace\":1,\"snapshot\":{}}\n")
                        .contains("denied")
                })
                .count()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum::<usize>()
    });
    // The process that holds the connections is root's, whoever connected them.
    assert_eq!(count, 160);
    let ask = |uid| service.ask(uid, "{\"iotrace\":1,\"snapshot\":{}}\n");
    assert!(ask(0).contains("\"snapshot\""), "{}", ask(0));
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    for wrong in [
        "{\"pid\":0}",
        "{\"pid\":-1}",
        "{\"pid\":\"x\"}",
        "{\"of\":1}",
        "4",
    ] {
        let answer = service.ask(USER, &format!("{{\"iotrace\":1,\"snapshot\":{wrong}}}\n"));
        assert!(answer.contains("\"bad_request\""), "{wrong}: {answer}");
    }
}
