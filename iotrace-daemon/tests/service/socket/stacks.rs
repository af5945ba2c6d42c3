//! Functions of native programs through the service: those that a recording has without it.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{
    lines::{MANY_OPENS, functions, have_functions_again},
    record::begun,
    service::{OTHER, Process, Service, USER},
};
use crate::common::{
    compare::nothing_lost,
    compiled,
    export::report_of,
    stacks::{LINK_OPTIONS, found, truth},
    turn,
};

/// A program that opens files by a function of this name, where this user can run it.
fn opener(home: &Path, function: &str) -> PathBuf {
    let name = format!("-DFUNCTION={function}");
    let program = compiled("opener.c", home, &["-g", &name]);
    let own = program.with_file_name(function);
    fs::rename(program, &own).unwrap();
    own
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
            let program = compiled("stacks.c", home.path(), &[options, &LINK_OPTIONS].concat());
            let file = home.path().join("data");
            fs::write(&file, "some data\n").unwrap();
            let before = begun(&service);
            let finished = service
                .record(uid)
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
    command.arg(MANY_OPENS.to_string()).uid(USER).gid(USER);
    let process = Process::new(&mut command);
    have_functions_again(&service, &process.pid().to_string(), "--stacks");
}
