//! The tracer without the daemon around it.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use iotrace_phases::Classifier;
use iotrace_tracer::{
    drain::Batch,
    engine::{Engine, Loaded},
    kernel::{HookChoice, Options, Programs},
};

use crate::common;

/// Loads the programs of this kernel.
pub fn loaded(options: &Options) -> Loaded {
    common::need_root();
    let programs = Programs {
        current: iotrace_programs::current,
        compat_510: iotrace_programs::compat_510,
        nobtf: iotrace_programs::nobtf,
    };
    Loaded::new(options, &programs, Classifier::builtin().table()).unwrap()
}

#[test]
fn programs_started_during_the_self_test_are_not_traced() {
    let is_over = AtomicBool::new(false);
    let found = thread::scope(|scope| {
        let start_programs = || {
            let mut started = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let mut shell = Command::new("sh");
                shell.args(["-c", "sleep 0.5; read line < /proc/self/stat"]);
                started.push(shell.stdout(Stdio::null()).spawn().unwrap());
            }
            for mut shell in started {
                assert!(shell.wait().unwrap().success());
            }
        };
        let programs = scope.spawn(start_programs);
        let attached = loaded(&Options::least())
            .attach_what_there_is(HookChoice::Auto)
            .unwrap();
        let mut engine: Engine = attached.prove().unwrap();
        // Some were started just before.
        thread::sleep(Duration::from_millis(10));
        is_over.store(true, Ordering::Relaxed);
        programs.join().unwrap();
        let mut found = 0;
        let mut take = |batch: Batch| {
            if let Batch::Basic((keys, _)) = batch {
                found += keys.len();
            }
        };
        engine.drain.counters(&mut take).unwrap();
        found
    });
    assert_eq!(found, 0);
}
