//! Lines through the service: those that a recording has without it, to each user of their own processes alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    mem::offset_of,
    os::unix::{fs::chown, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use iotrace_common::{
    event::Header,
    lines::{Layout, Python},
};
use iotrace_model::targets;
use iotrace_service::socket::protocol::{
    Answer, Ask, Interpreter, Record, Request, VERSION, Wish, line,
};
use iotrace_tracer::{
    drain::{Batch, Lines, wire::unpack},
    kernel::WantedLines,
};
use serde_json::Value;

use super::{
    record::begun,
    service::{OTHER, Process, Service, USER},
};
use crate::common::{
    self,
    compare::nothing_lost,
    lines::{PROGRAM_PATH, agree, found, interpreters},
    turn,
};

/// A program whose only function opens a file, ten times a second, until it has done so as often as it is told.
const OPENER_SOURCE: &str = r#"
import os, sys, time

def FUNCTION(name):
    os.close(os.open(name, os.O_RDONLY))

# The interpreter is found while this starts.
time.sleep(1)
for _ in range(int(sys.argv[1])):
    FUNCTION(__file__)
    time.sleep(0.1)
"#;

/// More than an opener makes while a test runs.
pub(super) const MANY_OPENS: u32 = 100_000;

/// An interpreter that every user may run.
fn python() -> PathBuf {
    let mut all = interpreters().into_iter();
    let found = all.find(|python| python.starts_with("/usr"));
    found.expect("a CPython 3.11 or newer that every user may run")
}

/// The opener as a user's file, with a function of this name.
fn opener(home: &Path, uid: u32, function: &str) -> PathBuf {
    let file = home.join(format!("{function}.py"));
    fs::write(&file, OPENER_SOURCE.replace("FUNCTION", function)).unwrap();
    chown(&file, Some(uid), Some(uid)).unwrap();
    file
}

/// Runs the opener, as this user, for so many opens.
fn open_as(python: &Path, program: &Path, uid: u32, opens: u32) -> Process {
    let mut command = Command::new(python);
    command.arg(program).arg(opens.to_string());
    Process::new(command.uid(uid).gid(uid))
}

/// The functions of a report's lines, and the opens of each.
pub(super) fn functions(report: &Value) -> BTreeMap<String, u64> {
    let mut opens = BTreeMap::new();
    for line in found(report).values() {
        let function = line["function"].as_str().unwrap().to_owned();
        *opens.entry(function).or_default() += line["opens"].as_u64().unwrap();
    }
    opens
}

/// What was done by each line that the program says to have opened files.
fn table(report: &Value, truth: &Path) -> BTreeMap<String, Vec<Value>> {
    const COUNTER_KEYS: [&str; 6] = [
        "opens",
        "reads",
        "writes",
        "other_calls",
        "bytes_read",
        "bytes_written",
    ];
    let truth: Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
    let found = found(report);
    let places = truth["opens"].as_object().unwrap().keys();
    let counts = |place: &String| COUNTER_KEYS.map(|key| found[place][key].clone()).to_vec();
    places.map(|place| (place.clone(), counts(place))).collect()
}

#[test]
fn lines_through_the_service_are_those_without_it() {
    turn::alone();
    let service = Service::start(&[]);
    for python in interpreters() {
        let recorded = |way: &[&str], recordings: u64| {
            let (_keep, dir) = common::directory();
            let data = dir.join("data");
            fs::create_dir(&data).unwrap();
            let truth = dir.join("truth.json");
            let before = begun(&service);
            let finished = service
                .record(0)
                .flush("250ms")
                .args(["--lines"])
                .args(way)
                .command([&python, Path::new(PROGRAM_PATH), &truth, &data]);
            assert_eq!(finished.code(), 0, "{}", finished.stderr);
            assert_eq!(begun(&service), before + recordings);
            let report = finished.report();
            agree(&python, &truth, &report);
            nothing_lost(&report);
            table(&report, &truth)
        };
        assert_eq!(recorded(&[], 1), recorded(&["--standalone"], 0));
    }
}

#[test]
fn a_user_has_lines_with_their_text() {
    turn::alone();
    let service = Service::start(&[]);
    let (python, home) = (python(), service.home(USER));
    let program = home.path().join("lines.py");
    fs::copy(PROGRAM_PATH, &program).unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    chown(&data, Some(USER), Some(USER)).unwrap();
    let truth = home.path().join("truth.json");
    // A file that changed as the program began is not believed.
    thread::sleep(Duration::from_secs(1));
    let record = service.record(USER).flush("250ms").args(["--lines"]);
    let finished = record.command([&python, &program, &truth, &data]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    agree(&python, &truth, &finished.report());
}

#[test]
fn each_recording_has_the_lines_of_its_own_processes() {
    turn::alone();
    let service = Service::start(&[]);
    let python = python();
    let homes = [USER, OTHER].map(|uid| service.home(uid));
    let start = |uid: u32, function: &str, args: &[&str]| {
        let home = homes[usize::from(uid == OTHER)].path();
        let program = opener(home, uid, function);
        let iotrace = service.record(uid).args(args);
        iotrace.start_command([&python, &program, Path::new("30")])
    };
    let running = [
        start(USER, "of_the_user", &["--lines"]),
        start(OTHER, "of_the_other", &["--lines"]),
        start(OTHER, "without_lines", &[]),
    ];
    // Nobody records it.
    let program = opener(homes[0].path(), USER, "alone");
    let _alone = open_as(&python, &program, USER, 30);
    let [user, other, without] = running.map(|one| one.wait().report());
    for (report, own) in [(&user, "of_the_user"), (&other, "of_the_other")] {
        let functions = functions(report);
        assert_eq!(functions[own], 30, "{functions:?}");
        let strange = ["of_the_user", "of_the_other", "without_lines", "alone"]
            .into_iter()
            .find(|name| *name != own && functions.contains_key(*name));
        assert_eq!(strange, None, "{functions:?}");
    }
    assert_eq!(without["lines"], Value::Null);
}

#[test]
fn a_process_that_was_recorded_before_has_lines_again() {
    turn::alone();
    let service = Service::start(&[]);
    let (python, home) = (python(), service.home(USER));
    let program = opener(home.path(), USER, "again");
    let process = open_as(&python, &program, USER, MANY_OPENS);
    let pid = process.pid().to_string();
    // A recording that began while the interpreter starts would count a part of its failed look-ups.
    thread::sleep(Duration::from_secs(1));
    have_functions_again(&service, &pid, "--lines");
}

/// Fails unless recordings of a process that calls `again`, by a user and by root, each have this function: one after another, and
/// two at the same time. `option`: what finds it.
pub(super) fn have_functions_again(service: &Service, pid: &str, option: &str) {
    let record = |uid: u32| {
        let iotrace = service.record(uid);
        iotrace.args([option, "--duration", "3", "--pid", pid])
    };
    let first = record(USER).run();
    let second = record(USER).start();
    thread::sleep(Duration::from_secs(1));
    let third = record(0).run();
    for finished in [first, second.wait(), third] {
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let opens = functions(&report)["again"];
        assert!(opens >= 20, "{opens} opens in 3 s");
        // What was done before the interpreter was found, or the stack was sent again.
        let without = report["lines"]["opens_without_line"].as_u64().unwrap();
        assert!(without <= 1, "{without}");
    }
}

/// A client that says what it wants.
struct Client {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Client {
    /// Records these processes with their lines.
    fn new(service: &Service, uid: u32, pids: &[u32]) -> Self {
        let record = Record {
            lines: true,
            ..Record::least(pids.to_vec())
        };
        let request = Request {
            iotrace: VERSION,
            ask: Ask::Record(record),
        };
        let mut stream = service.connect(uid);
        stream.write_all(&line(&request)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut client = Self { stream, reader };
        let begun = client.hear().0;
        assert!(matches!(begun, Answer::Begun(_)), "{begun:?}");
        client
    }

    /// The next answer, and the batch behind it.
    fn hear(&mut self) -> (Answer, Option<Batch>) {
        let mut text = String::new();
        self.reader.read_line(&mut text).unwrap();
        let answer = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text:?}"));
        let batch = match answer {
            Answer::Batch { kind, bytes } => {
                let mut body = vec![0; bytes as usize];
                self.reader.read_exact(&mut body).unwrap();
                Some(unpack(kind, &body).expect("a batch"))
            }
            _ => None,
        };
        (answer, batch)
    }

    fn tell(&mut self, interpreter: Interpreter) {
        let wish = line(&Wish::Python(interpreter));
        self.stream.write_all(&wish).unwrap();
    }

    /// What the service makes of an interpreter.
    fn number(&mut self, interpreter: Interpreter) -> Option<u64> {
        self.tell(interpreter);
        loop {
            if let (Answer::Python(numbered), _) = self.hear() {
                return numbered.number;
            }
        }
    }
}

/// Asserts that records and counts of lines are of this process; how many there are.
fn count_of(batch: &Batch, pid: u32) -> [usize; 2] {
    match batch {
        Batch::LineRecords(records) => {
            let tgid = |record: &Vec<u8>| {
                let at = offset_of!(Header, tgid);
                u32::from_ne_bytes(record[at..at + 4].try_into().unwrap())
            };
            assert!(records.iter().all(|record| tgid(record) == pid));
            [records.len(), 0]
        }
        Batch::LineCounts((keys, _)) => {
            assert!(keys.iter().all(|key| key.tgid == pid));
            [0, keys.len()]
        }
        _ => [0, 0],
    }
}

#[test]
fn stacks_of_other_processes_never_reach_a_client() {
    turn::alone();
    let service = Service::start(&[]);
    let python = python();
    let homes = [USER, OTHER].map(|uid| service.home(uid));
    let start = |index: usize, uid: u32| {
        let program = opener(homes[index].path(), uid, "opens");
        open_as(&python, &program, uid, MANY_OPENS)
    };
    let processes = [start(0, USER), start(1, OTHER), start(0, USER)];
    thread::sleep(Duration::from_secs(1));
    let clients = [USER, OTHER, USER].iter().zip(&processes);
    let mut clients: Vec<(Client, u32)> = clients
        .map(|(uid, process)| (Client::new(&service, *uid, &[process.pid()]), process.pid()))
        .collect();
    for (client, pid) in &mut clients {
        let wanted = WantedLines {
            python: true,
            native: false,
        };
        let program = Lines::new(wanted).find(*pid).expect("an interpreter");
        let (pid, start) = program.process();
        let python = program.python();
        let interpreter = Interpreter { pid, start, python };
        assert_ne!(client.number(interpreter), None);
    }
    thread::sleep(Duration::from_secs(3));
    for (client, pid) in &mut clients {
        client.stream.write_all(&line(&Wish::Stop)).unwrap();
        let mut sums = [0, 0];
        loop {
            match client.hear() {
                (Answer::End { .. }, _) => break,
                (_, Some(batch)) => {
                    let counts = count_of(&batch, *pid);
                    sums = [sums[0] + counts[0], sums[1] + counts[1]];
                }
                _ => {}
            }
        }
        assert!(sums[0] > 0 && sums[1] > 0, "{sums:?}");
    }
}

/// What no interpreter has.
fn absurd(pid: u32, word: u64) -> Interpreter {
    let half = word as u32;
    let layout = Layout {
        threads: half,
        next: half,
        thread_id: half,
        frame: half,
        inner_frame: half,
        code: half,
        previous: half,
        instruction: half,
        owner: half,
        filename: half,
        qualname: half,
        line_table: half,
        first_line: half,
        instructions: half,
    };
    Interpreter {
        pid,
        start: targets::identify(pid).map_or(0, |about| about.start_boottime),
        python: Python {
            interpreter: word,
            code_type: word,
            number: word,
            layout,
        },
    }
}

#[test]
fn absurd_interpreters_harm_nobody() {
    const TOLD_INTERPRETERS: usize = 100_000;
    turn::alone();
    let service = Service::start(&[]);
    let (python, home) = (python(), service.home(USER));
    let program = opener(home.path(), USER, "own");
    let own = open_as(&python, &program, USER, MANY_OPENS);
    let (unrecorded, others) = (Process::of(USER), Process::of(OTHER));
    let mut client = Client::new(&service, USER, &[own.pid()]);
    for pid in [unrecorded.pid(), others.pid(), 1, 0, u32::MAX] {
        assert_eq!(client.number(absurd(pid, 8)), None, "process {pid}");
    }
    let at_another_time = Interpreter {
        start: 1,
        ..absurd(own.pid(), 8)
    };
    assert_eq!(client.number(at_another_time), None);
    let mut numbers = BTreeSet::new();
    for word in [0, 1, 8, 4095, 1 << 31, 1 << 47, u64::MAX - 7, u64::MAX] {
        let number = client.number(absurd(own.pid(), word)).expect("a number");
        assert!(numbers.insert(number), "{number} twice");
        thread::sleep(Duration::from_millis(250));
    }
    // So many that the service cannot look at each.
    let mut teller = Client {
        stream: client.stream.try_clone().unwrap(),
        reader: BufReader::new(client.stream.try_clone().unwrap()),
    };
    let interpreter = absurd(own.pid(), 8);
    let telling =
        thread::spawn(move || (0..TOLD_INTERPRETERS).for_each(|_| teller.tell(interpreter)));
    let started = Instant::now();
    let (mut answers, mut taken) = (0, 0);
    while answers < TOLD_INTERPRETERS {
        if let (Answer::Python(numbered), _) = client.hear() {
            answers += 1;
            taken += u32::from(numbered.number.is_some());
        }
    }
    telling.join().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert!(
        f64::from(taken) <= 1000.0 + 100.0 * (seconds + 5.0),
        "{taken} taken in {seconds} s"
    );
    // What is no interpreter ends the recording.
    let _ = client.stream.write_all(b"{\"python\":{\"pid\":1}}\n");
    let refused = loop {
        if let (Answer::Error { message, .. }, _) = client.hear() {
            break message;
        }
    };
    assert!(refused.contains("told"), "{refused}");
    assert_eq!(own.0.id(), own.pid());
    let running = fs::read_to_string(format!("/proc/{}/stat", own.pid())).unwrap();
    assert!(!running.contains(") Z "), "{running}");
    // Others record as before.
    let home = service.home(OTHER);
    let program = opener(home.path(), OTHER, "unharmed");
    let iotrace = service.record(OTHER).args(["--lines"]);
    let finished = iotrace.command([&python, &program, Path::new("20")]);
    assert_eq!(functions(&finished.report())["unharmed"], 20);
}
