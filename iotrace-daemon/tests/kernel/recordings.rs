//! Programs that trace the whole machine: more is kept of the processes of recordings, and of no other.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    mem::offset_of,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use iotrace_common::{
    event::{self, Header},
    lines::Python,
    op,
};
use iotrace_model::{input::Event, targets};
use iotrace_tracer::{
    drain::{Batch, Drain},
    engine::Engine,
    kernel::{
        HookChoice, KeepWaits, Kernel, Options, TraceOptions, WantedLines, recordings::Kept,
        trace::Filter,
    },
};

use crate::engine::loaded;

/// A shell that opens a file, and writes one and looks for one in vain by children, whenever it is told to.
struct Shell {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Shell {
    fn new(dir: &Path) -> Self {
        let dir = dir.display();
        let script = format!(
            "while read go; do : < /dev/null; head -c 5000 /dev/zero > {dir}/of-$$-$go; cat {dir}/none/$go 2>&-; echo done; done"
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    fn go(&mut self, word: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{word}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a round left of two shells and their children.
#[derive(Debug, Default)]
struct Seen {
    /// Writes counted at detail basic, and those sorted by size, which only detail full does; by shell.
    writes: [u64; 2],
    sorted: [u64; 2],
    lookups: [u64; 2],
    lines: [u64; 2],
    /// Stacks of the shells themselves that were sent.
    stacks: [u64; 2],
    /// Of other processes.
    others: u64,
}

fn round(drain: &mut Drain, shells: &mut [Shell; 2], word: &str) -> Seen {
    let mut batches = Vec::new();
    drain.events(&mut drop);
    drain.counters(&mut drop).unwrap();
    shells.iter_mut().for_each(|shell| shell.go(word));
    drain.counters(&mut |batch| batches.push(batch)).unwrap();
    let mut of = shells
        .each_ref()
        .map(|shell| BTreeSet::from([shell.child.id()]));
    let mut seen = Seen::default();
    drain.events(&mut |batch| match batch {
        Batch::Events(events) => {
            for event in events {
                if let Event::Fork { parent, child, .. } = event {
                    for pids in &mut of {
                        if pids.contains(&parent.pid) {
                            pids.insert(child.pid);
                        }
                    }
                }
            }
        }
        Batch::LineRecords(records) => {
            for record in records {
                let [kind, tgid] = [offset_of!(Header, kind), offset_of!(Header, tgid)]
                    .map(|at| u32::from_ne_bytes(record[at..at + 4].try_into().unwrap()));
                let shell = shells.iter().position(|shell| shell.child.id() == tgid);
                if let (event::NATIVE_STACK, Some(shell)) = (kind, shell) {
                    seen.stacks[shell] += 1;
                }
            }
        }
        _ => {}
    });
    let whose = |pid: u32| of.iter().position(|pids| pids.contains(&pid));
    for batch in batches {
        match batch {
            Batch::Basic((keys, values)) => {
                for (key, io) in keys.iter().zip(&values) {
                    if let Some(shell) = whose(key.tgid) {
                        seen.writes[shell] += u64::from(io.calls[op::WRITE]);
                    }
                }
            }
            Batch::Full((keys, values)) => {
                for (key, full) in keys.iter().zip(&values) {
                    match whose(key.tgid) {
                        Some(shell) => {
                            let sorted = full.write_sizes.iter().map(|calls| u64::from(*calls));
                            seen.sorted[shell] += sorted.sum::<u64>();
                        }
                        None => seen.others += 1,
                    }
                }
            }
            Batch::LineCounts((keys, _)) => {
                for key in &keys {
                    match whose(key.tgid) {
                        Some(shell) => seen.lines[shell] += 1,
                        None => seen.others += 1,
                    }
                }
            }
            Batch::NegativeLookups((keys, _)) => {
                for key in &keys {
                    match whose(key.tgid) {
                        Some(shell) => seen.lookups[shell] += 1,
                        None => seen.others += 1,
                    }
                }
            }
            _ => {}
        }
    }
    seen
}

fn load_programs() -> (Kernel, Drain) {
    let options = Options {
        cpu: true,
        lines: WantedLines {
            python: true,
            native: true,
        },
        map_entries: Some(8192),
        waits: KeepWaits::OnDemand,
        trace: Some(TraceOptions {
            buffer_bytes: 1 << 20,
            filter: Filter::default(),
        }),
        recordings: Some(512),
        ..Options::least()
    };
    let attached = loaded(&options).attach(HookChoice::Btf).unwrap();
    let Engine {
        mut kernel, drain, ..
    } = attached.prove().unwrap();
    kernel.trace_all().unwrap();
    (kernel, drain)
}

#[test]
fn more_is_kept_of_the_processes_of_recordings_alone() {
    let (mut kernel, mut drain) = load_programs();
    let dir = tempfile::tempdir().unwrap();
    let mut shells = [(); 2].map(|()| Shell::new(dir.path()));
    let [recorded, other] = shells.each_ref().map(|shell| shell.child.id());
    let before = round(&mut drain, &mut shells, "before");
    assert!(before.writes.iter().all(|writes| *writes > 0), "{before:?}");
    assert_eq!(
        (before.sorted, before.lookups, before.others),
        ([0; 2], [0; 2], 0)
    );

    let kept = Kept {
        full: true,
        ..Kept::TESTED
    };
    let full = kernel
        .begin_recording(kept, || targets::descendants(&[recorded]), true)
        .unwrap()
        .unwrap();
    let during = round(&mut drain, &mut shells, "during");
    assert_eq!(during.sorted, [during.writes[0], 0], "{during:?}");
    assert!(during.writes[1] > 0 && during.lookups[0] > 0, "{during:?}");
    assert_eq!((during.lookups[1], during.others), (0, 0), "{during:?}");

    // The same process again, and less of the other one.
    let again = kernel
        .begin_recording(kept, || targets::descendants(&[recorded]), true)
        .unwrap()
        .unwrap();
    let less = Kept {
        negative_lookups: true,
        ..Kept::default()
    };
    let lookups = kernel
        .begin_recording(less, || targets::descendants(&[other]), true)
        .unwrap()
        .unwrap();
    kernel.end_recording(full).unwrap();
    for _ in 0..2 {
        kernel.sweep_recordings().unwrap();
    }
    let both = round(&mut drain, &mut shells, "both");
    assert_eq!(both.sorted, [both.writes[0], 0], "{both:?}");
    assert!(
        both.lookups.iter().all(|looks| *looks > 0) && both.others == 0,
        "{both:?}"
    );

    kernel.end_recording(again).unwrap();
    kernel.end_recording(lookups).unwrap();
    let after = round(&mut drain, &mut shells, "after");
    assert!(after.writes.iter().all(|writes| *writes > 0), "{after:?}");
    assert_eq!(
        (after.sorted, after.lookups, after.others),
        ([0; 2], [0; 2], 0)
    );
    kernel.detach().unwrap();
}

/// The children of a process whose recording does not follow them pay nothing.
#[test]
fn a_recording_that_does_not_follow_is_of_its_process_alone() {
    let (mut kernel, mut drain) = load_programs();
    let dir = tempfile::tempdir().unwrap();
    let mut shells = [(); 2].map(|()| Shell::new(dir.path()));
    let pids = shells.each_ref().map(|shell| shell.child.id());
    let alone = kernel
        .begin_recording(Kept::TESTED, || pids[..1].to_vec(), false)
        .unwrap()
        .unwrap();
    let seen = round(&mut drain, &mut shells, "alone");
    // Its children write.
    assert_eq!(seen.sorted, [0; 2], "{seen:?}");
    assert!(
        seen.writes.iter().all(|writes| *writes > 0) && seen.others == 0,
        "{seen:?}"
    );
    kernel.end_recording(alone).unwrap();
    kernel.detach().unwrap();
}

/// How often each shell's main thread waited in a round.
fn waits(drain: &mut Drain, shells: &mut [Shell; 2], word: &str) -> [usize; 2] {
    drain.counters(&mut drop).unwrap();
    shells.iter_mut().for_each(|shell| shell.go(word));
    let mut tids = Vec::new();
    drain
        .counters(&mut |batch| {
            if let Batch::WaitRecords(records) = batch {
                tids.extend(records.waits.iter().map(|wait| wait.tid));
            }
        })
        .unwrap();
    let of = |shell: &Shell| tids.iter().filter(|tid| **tid == shell.child.id()).count();
    shells.each_ref().map(of)
}

#[test]
fn waits_are_kept_of_the_processes_of_recordings_alone() {
    let (mut kernel, mut drain) = load_programs();
    drain.want_waits(true);
    let dir = tempfile::tempdir().unwrap();
    let mut shells = [(); 2].map(|()| Shell::new(dir.path()));
    let pids = shells.each_ref().map(|shell| shell.child.id());
    assert_eq!(waits(&mut drain, &mut shells, "before"), [0, 0]);
    let kept = Kept {
        waits: true,
        ..Kept::default()
    };
    let begin = |kernel: &mut Kernel, pid| {
        let begun = kernel.begin_recording(kept, || targets::descendants(&[pid]), true);
        begun.unwrap().expect("a place")
    };
    let first = begin(&mut kernel, pids[0]);
    // A thread is known from its next call on.
    waits(&mut drain, &mut shells, "met");
    let of_one = waits(&mut drain, &mut shells, "one");
    assert!(of_one[0] > 0 && of_one[1] == 0, "{of_one:?}");
    let second = begin(&mut kernel, pids[1]);
    kernel.end_recording(first).unwrap();
    waits(&mut drain, &mut shells, "turned");
    let of_other = waits(&mut drain, &mut shells, "other");
    assert!(of_other[0] == 0 && of_other[1] > 0, "{of_other:?}");
    kernel.end_recording(second).unwrap();
    assert_eq!(waits(&mut drain, &mut shells, "after"), [0, 0]);
    // Attached again: what was known of the first shell is of another time.
    let again = begin(&mut kernel, pids[0]);
    waits(&mut drain, &mut shells, "met again");
    let of_again = waits(&mut drain, &mut shells, "again");
    assert!(of_again[0] > 0 && of_again[1] == 0, "{of_again:?}");
    kernel.end_recording(again).unwrap();
    // Of all processes, recordings or not.
    kernel.keep_all_waits().unwrap();
    waits(&mut drain, &mut shells, "all");
    let of_all = waits(&mut drain, &mut shells, "of all");
    assert!(of_all.iter().all(|count| *count > 0), "{of_all:?}");
    kernel.detach().unwrap();
}

#[test]
fn lines_are_kept_of_the_processes_of_recordings_alone() {
    let (mut kernel, mut drain) = load_programs();
    let dir = tempfile::tempdir().unwrap();
    let mut shells = [(); 2].map(|()| Shell::new(dir.path()));
    let pid = shells[0].child.id();
    let before = round(&mut drain, &mut shells, "before");
    assert_eq!(before.lines, [0; 2], "{before:?}");
    let kept = Kept {
        lines: WantedLines {
            python: true,
            native: false,
        },
        ..Kept::default()
    };
    let begin = |kernel: &mut Kernel| {
        let begun = kernel.begin_recording(kept, || targets::descendants(&[pid]), true);
        begun.unwrap().expect("a place")
    };
    let put = |kernel: &mut Kernel, may_look: fn() -> bool| {
        let put = kernel.put_python(pid, Python::default(), may_look);
        put.unwrap()
    };
    let first = begin(&mut kernel);
    let during = round(&mut drain, &mut shells, "during");
    if kernel.lacks_lines().is_some() {
        assert_eq!(during.lines, [0; 2], "{during:?}");
        assert_eq!(put(&mut kernel, || true), None);
        return kernel.detach().map(drop).unwrap();
    }
    assert!(during.lines[0] > 0, "{during:?}");
    assert_eq!((during.lines[1], during.others), (0, 0), "{during:?}");
    // Each interpreter of a process has a number of its own, and the answer names the one that it replaces.
    let (number, replaced) = put(&mut kernel, || true).expect("a number");
    assert_eq!(replaced, None);
    assert_eq!(put(&mut kernel, || true), Some((number + 1, Some(number))));
    assert_eq!(put(&mut kernel, || false), None);
    kernel.end_recording(first).unwrap();
    let after = round(&mut drain, &mut shells, "after");
    assert_eq!(after.lines, [0; 2], "{after:?}");
    // Once the processes are marked no more, none of it is left.
    for _ in 0..2 {
        kernel.sweep_recordings().unwrap();
    }
    let second = begin(&mut kernel);
    assert_eq!(put(&mut kernel, || true), Some((number + 2, None)));
    kernel.end_recording(second).unwrap();
    kernel.detach().unwrap();
}

#[test]
fn stacks_are_sent_once_to_each_recording() {
    const MANY_ROUNDS: usize = 20;
    let (mut kernel, mut drain) = load_programs();
    let dir = tempfile::tempdir().unwrap();
    let mut shells = [(); 2].map(|()| Shell::new(dir.path()));
    let pids = shells.each_ref().map(|shell| shell.child.id());
    let kept = |native: bool| Kept {
        lines: WantedLines {
            python: !native,
            native,
        },
        ..Kept::default()
    };
    // Of this one the lines of Python alone are kept.
    let other = kernel
        .begin_recording(kept(false), || targets::descendants(&pids[1..]), true)
        .unwrap();
    let mut next = |drain: &mut Drain| round(drain, &mut shells, "go");
    let before = next(&mut drain);
    assert_eq!(before.stacks, [0; 2], "{before:?}");
    let mut recordings = Vec::new();
    for _ in 0..2 {
        let begun = kernel.begin_recording(kept(true), || targets::descendants(&pids[..1]), true);
        recordings.extend(begun.unwrap());
        kernel.send_stacks_again().unwrap();
        let first = next(&mut drain);
        if kernel.lacks_lines().is_some() {
            assert_eq!(first.stacks, [0; 2], "{first:?}");
            return kernel.detach().map(drop).unwrap();
        }
        assert!(first.stacks[0] > 0, "{first:?}");
        let mut further = (0..MANY_ROUNDS).map(|_| next(&mut drain));
        assert!(further.any(|round| round.stacks == [0; 2] && round.lines[0] > 0));
    }
    for recording in recordings.into_iter().chain(other) {
        kernel.end_recording(recording).unwrap();
    }
    let after = next(&mut drain);
    assert_eq!((after.stacks, after.lines), ([0; 2], [0; 2]), "{after:?}");
    kernel.detach().unwrap();
}
