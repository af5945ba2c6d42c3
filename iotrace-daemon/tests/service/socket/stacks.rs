//! Functions of native programs through the service: those that a recording has without it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    record::begun,
    service::{OTHER, Process, Service, USER},
};
use crate::common::{
    Iotrace,
    compare::nothing_lost,
    compiled,
    export::report_of,
    number,
    stacks::{LIBRARIES, found, truth},
    turn,
};

/// More than an opener makes while a test runs.
const MANY_OPENS: &str = "100000";

/// A program that opens files by a function of this name, where this user can run it.
fn opener(home: &Path, function: &str) -> PathBuf {
    let name = format!("-DFUNCTION={function}");
    let program = compiled("opener.c", home, &["-g", &name]);
    let own = program.with_file_name(function);
    fs::rename(program, &own).unwrap();
    own
}

/// Opens by function of a report.
fn functions(report: &Value) -> BTreeMap<String, u64> {
    let lines = report["lines"]["lines"].as_array().expect("lines").iter();
    let opens = lines.map(|line| {
        let function = line["function"].as_str().expect("a name").to_owned();
        (function, number(line, "opens"))
    });
    opens.collect()
}

#[test]
fn functions_through_the_service_are_those_of_the_program() {
    turn::alone();
    let service = Service::start(&[]);
    for options in [
        &["-O0", "-g"][..],
        &["-O2", "-g", "-fomit-frame-pointer", "-static"],
    ] {
        for uid in [USER, 0] {
            let home = service.home(uid);
            let program = compiled("stacks.c", home.path(), &[options, &LIBRARIES].concat());
            let file = home.path().join("data");
            fs::write(&file, "some data\n").unwrap();
            let iotrace = match uid {
                0 => Iotrace::bare().env("IOTRACE_SOCKET", service.socket.to_str().unwrap()),
                uid => service.record(uid),
            };
            let before = begun(&service);
            let finished = iotrace
                .flush("250ms")
                .args(["--stacks"])
                .command([&program, &file]);
            assert_eq!(finished.code(), 0, "{}", finished.stderr);
            assert_eq!(begun(&service), before + 1, "{}", finished.stderr);
            let report = report_of(&[&finished.recording]);
            let opens = truth(&finished.stdout);
            assert_eq!(found(&report, "/stacks.c"), opens, "{:#}", report["lines"]);
            nothing_lost(&report);
        }
    }
}

#[test]
fn each_recording_has_the_functions_of_its_own_processes() {
    turn::alone();
    let service = Service::start(&[]);
    let homes = [USER, OTHER].map(|uid| service.home(uid));
    let start = |uid: u32, function: &str, args: &[&str]| {
        let program = opener(homes[usize::from(uid == OTHER)].path(), function);
        let iotrace = service.record(uid).args(args);
        iotrace.start_command([program.to_str().unwrap(), "30"])
    };
    let running = [
        start(USER, "of_the_user", &["--stacks"]),
        start(OTHER, "of_the_other", &["--stacks", "--lines"]),
        start(OTHER, "of_python", &["--lines"]),
    ];
    let [user, other, python] = running.map(|one| one.wait().report());
    for (report, own) in [(&user, "of_the_user"), (&other, "of_the_other")] {
        let functions = functions(report);
        assert_eq!(functions[own], 30, "{functions:?}");
        assert_eq!(functions.len(), 1, "{functions:?}");
    }
    assert_eq!(python["lines"], Value::Null);
}

#[test]
fn a_process_that_was_recorded_before_has_functions_again() {
    turn::alone();
    let service = Service::start(&[]);
    let home = service.home(USER);
    let program = opener(home.path(), "again");
    let mut command = Command::new(&program);
    let process = Process::new(command.arg(MANY_OPENS).uid(USER).gid(USER));
    let pid = process.pid().to_string();
    let record = || {
        service
            .record(USER)
            .args(["--stacks", "--duration", "3", "--pid", &pid])
    };
    // One after another, and two at the same time.
    let first = record().run();
    let second = record().start();
    thread::sleep(Duration::from_secs(1));
    let third = record().run();
    for finished in [first, second.wait(), third] {
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let opens = functions(&report)["again"];
        assert!(opens >= 20, "{opens} opens in 3 s");
        // What was done before the stack was sent again.
        let without = number(&report["lines"], "opens_without_line");
        assert!(without <= 1, "{without}");
    }
}
