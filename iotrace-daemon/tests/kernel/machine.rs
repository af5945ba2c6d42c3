//! A recording of the whole machine: each program has a verdict of its own.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::common::{
    Iotrace, directory, python,
    run::Background,
    slow::{Slow, Speed},
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A Python program that runs `code` from a script of this name.
fn program(dir: &Path, name: &str, code: &str) -> Background {
    let script = dir.join(name);
    std::fs::write(&script, code).expect("a script");
    let mut program = Command::new(python());
    program.arg("-S").arg(&script).current_dir(dir);
    Background(program.stdout(Stdio::null()).spawn().expect("Python"))
}

fn of_pid(programs: &[Value], pid: u32) -> Vec<&Value> {
    let of = programs.iter().filter(|one| one["pid"] == pid);
    of.collect()
}

#[test]
fn each_program_has_a_verdict_of_its_own() {
    let (_keep, dir) = directory();
    let speed = Speed {
        read: Duration::from_secs(2),
        ..Speed::default()
    };
    let _slow = Slow::mount(&dir.join("train"), &[("a.bin", 64 * MIB, speed)], speed);
    // Two processes of one program that read all the time, and one that computes.
    let reads = "import os\nos.fork()\nf = os.open('train/a.bin', os.O_RDONLY)\nwhile os.read(f, 65536): pass\n";
    let computes =
        "open('log', 'w').write('begin')\nwhile True: open('log').read(); sum(range(1000000))\n";
    let reader = program(&dir, "reader.py", reads);
    let computer = program(&dir, "computer.py", computes);
    let finished = Iotrace::record().args(["--all", "--duration", "8s"]).run();
    let report = finished.report();
    assert_eq!(report["verdict"]["code"], "not-one-job");
    let programs = report["programs"].as_array().expect("a list");
    let [read] = of_pid(programs, reader.0.id())[..] else {
        panic!("{programs:#?}");
    };
    assert_eq!(read["name"], "python reader.py");
    assert_eq!(read["verdict"], "likely-io-bound", "{read:#}");
    assert_eq!(read["processes"], 2);
    assert_eq!(read["cause"], "training reads");
    let [computed] = of_pid(programs, computer.0.id())[..] else {
        panic!("{programs:#?}");
    };
    assert_eq!(computed["verdict"], "not-io-bound", "{computed:#}");
}
