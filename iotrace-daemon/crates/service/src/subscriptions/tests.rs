//! Whom a subscriber is told of, and what it gets of a drain.

use std::{collections::BTreeMap, mem::offset_of};

use iotrace_common::{
    event::Header,
    key::IoKey,
    lines::{LineCounts, LineKey},
    rights::Rights,
    trace::Operation,
    value::Io,
    waits::Wait,
};
use iotrace_model::input::FileName;
use iotrace_tracer::{
    drain::{Records, Traced},
    kernel::WantedLines,
};

use super::*;

const USER: u32 = 61_001;
const OTHER: u32 = 61_002;
const FILE: FileId = FileId {
    device: 1,
    generation: 1,
    inode: 7,
};

/// A process that /proc does not have: pids end below this.
fn process(number: u32) -> ProcessId {
    ProcessId {
        pid: (1 << 23) + number,
        start: 5,
    }
}

fn fork(parent: ProcessId, child: ProcessId, uid: u32) -> Event {
    Event::Fork {
        parent,
        child,
        child_start_boottime: 0,
        rights: Rights::of_user(uid),
        comm: b"sh".to_vec(),
    }
}

fn exec(process: ProcessId, rights: Rights) -> Event {
    Event::Exec {
        process,
        start_boottime: 0,
        parent: 1,
        rights,
        comm: b"sh".to_vec(),
        args: Vec::new(),
    }
}

fn exit(process: ProcessId) -> Event {
    Event::Exit {
        process,
        time: 1,
        status: 0,
    }
}

/// One read of `bytes` by each process.
fn reads(processes: &[ProcessId], bytes: u64) -> Batch {
    let key = |process: &ProcessId| IoKey {
        file: FILE,
        tgid: process.pid,
        tid: process.pid,
        start: process.start,
        phase: 0,
    };
    let mut io = Io::ZERO;
    io.bytes_read = bytes;
    let keys = processes.iter().map(key).collect();
    Batch::Basic((keys, vec![io; processes.len()]))
}

/// The same reads one by one.
fn traced(processes: &[ProcessId]) -> Batch {
    let Batch::Basic((keys, _)) = reads(processes, 1) else {
        unreachable!("these are counters");
    };
    let operation = |key| Operation {
        key,
        ..Operation::default()
    };
    Batch::Operations(Traced {
        operations: keys.into_iter().map(operation).collect(),
        missing: Vec::new(),
    })
}

/// The main thread of `process` waited, and `by` woke it.
fn wait(process: ProcessId, by: ProcessId) -> Wait {
    Wait {
        tid: process.pid,
        tgid: process.pid,
        start: process.start,
        by_tid: by.pid,
        by_tgid: by.pid,
        ..Wait::default()
    }
}

/// A model that knows the file.
fn model() -> Model {
    let mut model = Model::default();
    model.event(Event::File(FileName {
        file: FILE,
        path: b"/data/file".to_vec(),
        size: 9,
        mode: libc::S_IFREG,
        magic: 0,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }));
    model
}

struct Client {
    queue: Arc<Queue>,
}

impl Client {
    /// Subscribes to all processes of a user; of root: to all.
    fn of(subscriptions: &mut Subscriptions, uid: u32) -> Self {
        Self::with(subscriptions, uid, Kept::default())
    }

    fn with(subscriptions: &mut Subscriptions, uid: u32, kept: Kept) -> Self {
        let queue = Arc::new(Queue::new().unwrap());
        subscriptions.order(Order {
            what: What::Begin(Begin {
                wanted: Wanted {
                    client: (uid != 0).then(|| Rights::of_user(uid)),
                    recorder: 0,
                    pids: Vec::new(),
                    follow: true,
                },
                kept,
                slot: None,
            }),
            queue: Arc::clone(&queue),
        });
        subscriptions.carry_out(1, &Losses::new(), Stats::default());
        assert!(matches!(queue.take().pop_front(), Some(Item::Begun)));
        Self { queue }
    }

    /// The waits that it got.
    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for item in self.queue.take() {
            if let Item::Batch(Batch::WaitRecords(records)) = item {
                waits.extend(records.waits);
            }
        }
        waits
    }

    /// Operations that it got by process, and those that it was told to be missing.
    fn operations(&self) -> BTreeMap<ProcessId, (u64, u64)> {
        let mut all = BTreeMap::<ProcessId, (u64, u64)>::new();
        for item in self.queue.take() {
            if let Item::Batch(Batch::Operations(traced)) = item {
                for Operation { key, .. } in traced.operations {
                    all.entry(ProcessId::from(&key)).or_default().0 += 1;
                }
                for (process, missing) in traced.missing {
                    all.entry(process).or_default().1 += missing.lost;
                }
            }
        }
        all
    }

    /// The processes of which it got counters, and names of files.
    fn got(&self) -> (Vec<ProcessId>, usize) {
        let (mut processes, mut names) = (Vec::new(), 0);
        for item in self.queue.take() {
            match item {
                Item::Batch(Batch::Basic((keys, _))) => {
                    processes.extend(keys.iter().map(ProcessId::from));
                }
                Item::Batch(Batch::Events(events)) => {
                    let is_name = |event: &&Event| matches!(event, Event::File(_));
                    names += events.iter().filter(is_name).count();
                }
                _ => {}
            }
        }
        (processes, names)
    }
}

/// Events and then counters, as drains bring them.
fn drain(subscriptions: &mut Subscriptions, events: Vec<Event>, counters: &Batch) {
    let model = model();
    subscriptions.take(&Batch::Events(events), &model);
    subscriptions.take(counters, &model);
}

#[test]
fn each_gets_what_is_of_its_user_and_root_gets_all() {
    let mut subscriptions = Subscriptions::default();
    let clients = [USER, OTHER, 0].map(|uid| Client::of(&mut subscriptions, uid));
    let (own, others) = (process(1), process(2));
    let forks = vec![fork(process(9), own, USER), fork(process(9), others, OTHER)];
    drain(&mut subscriptions, forks, &reads(&[own, others], 1));
    let got = clients.each_ref().map(Client::got);
    assert_eq!(got[0], (vec![own], 1));
    assert_eq!(got[1], (vec![others], 1));
    assert_eq!(got[2], (vec![own, others], 1));
    // A name is told once.
    drain(&mut subscriptions, Vec::new(), &reads(&[own], 1));
    assert_eq!(clients[0].got(), (vec![own], 0));
}

#[test]
fn waits_are_told_without_other_users_wakers() {
    let mut subscriptions = Subscriptions::default();
    let waits = Kept {
        waits: true,
        ..Kept::default()
    };
    let client = Client::with(&mut subscriptions, USER, waits);
    let without = Client::of(&mut subscriptions, USER);
    let [one, two, others] = [1, 2, 3].map(process);
    let forks = vec![
        fork(process(9), one, USER),
        fork(process(9), two, USER),
        fork(process(9), others, OTHER),
    ];
    let records = Records {
        until: 1,
        waits: vec![wait(one, two), wait(others, one), wait(two, others)],
    };
    drain(&mut subscriptions, forks, &Batch::WaitRecords(records));
    let nobody = ProcessId { pid: 0, start: 0 };
    assert_eq!(client.waits(), [wait(one, two), wait(two, nobody)]);
    assert_eq!(without.waits(), [], "it did not ask for them");
}

#[test]
fn counters_of_two_programs_at_once_are_not_told() {
    let mut subscriptions = Subscriptions::default();
    let client = Client::of(&mut subscriptions, USER);
    let one = process(1);
    drain(
        &mut subscriptions,
        vec![fork(process(9), one, USER)],
        &reads(&[one], 1),
    );
    assert_eq!(client.got().0, [one]);
    // A program with other rights, and then the user's own again.
    let events = vec![
        exec(one, Rights::of_user(0)),
        exec(one, Rights::of_user(USER)),
    ];
    drain(&mut subscriptions, events, &reads(&[one], 1));
    assert_eq!(client.got().0, [], "both programs are in these counters");
    drain(&mut subscriptions, Vec::new(), &reads(&[one], 1));
    drain(&mut subscriptions, Vec::new(), &reads(&[one], 1));
    assert_eq!(client.got().0, [one], "the last one is the user's alone");
}

#[test]
fn the_last_counters_of_a_process_come_after_its_end() {
    let mut subscriptions = Subscriptions::default();
    let client = Client::of(&mut subscriptions, USER);
    let one = process(1);
    let events = vec![fork(process(9), one, USER), exit(one)];
    drain(&mut subscriptions, events, &reads(&[one], 1));
    drain(&mut subscriptions, Vec::new(), &reads(&[one], 1));
    assert_eq!(client.got().0, [one, one]);
}

#[test]
fn who_does_not_take_anything_loses_its_own() {
    let mut subscriptions = Subscriptions::default();
    let clients = [USER, USER].map(|uid| Client::of(&mut subscriptions, uid));
    let one = process(1);
    drain(
        &mut subscriptions,
        vec![fork(process(9), one, USER)],
        &reads(&[one], 1),
    );
    let many = reads(&vec![one; 4096], 1);
    for _ in 0..16 {
        drain(&mut subscriptions, Vec::new(), &many);
        assert!(clients[0].got().0.len() >= 4096);
    }
    assert_eq!(clients[0].queue.lost(), Default::default());
    let lost = clients[1].queue.lost();
    let held = clients[1].got().0.len() as u64;
    assert_eq!(held + lost.bytes, 1 + 16 * 4096, "{lost:?}");
    assert!(lost.bytes > 0, "the queue has a bound");
}

#[test]
fn operations_are_told_to_who_asked_for_them_and_may_know_them() {
    let mut subscriptions = Subscriptions::default();
    let trace = Kept {
        trace: true,
        ..Kept::default()
    };
    let client = Client::with(&mut subscriptions, USER, trace);
    let slow = Client::with(&mut subscriptions, USER, trace);
    let without = Client::of(&mut subscriptions, USER);
    let (one, two, foreign) = (process(1), process(2), process(3));
    let events = vec![
        fork(process(9), one, USER),
        fork(process(9), two, USER),
        fork(process(9), foreign, OTHER),
    ];
    drain(&mut subscriptions, events, &traced(&[one, two, foreign]));
    let once = [(one, (1, 0)), (two, (1, 0))];
    assert_eq!(client.operations(), once.into());
    assert_eq!(without.operations(), BTreeMap::new());
    let many = [vec![one; 3000], vec![two; 1000], vec![foreign; 500]].concat();
    let many = traced(&many);
    for _ in 0..50 {
        subscriptions.take(&many, &model());
        assert_eq!(client.operations()[&one], (3000, 0));
    }
    let lost = slow.operations();
    let sum = |process| lost[&process].0 + lost[&process].1;
    assert_eq!((lost.len(), sum(one), sum(two)), (2, 150_001, 50_001));
    assert!(lost[&one].1 > 0, "the queue has a bound: {lost:?}");
}

/// A record of the lines of each process, and a count.
fn lines(processes: &[ProcessId]) -> [Batch; 2] {
    let record = |process: &ProcessId| {
        let mut record = vec![0; size_of::<Header>()];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(Header, tgid), &process.pid.to_ne_bytes());
        let start = u64::from(process.start) << 20;
        put(offset_of!(Header, start), &start.to_ne_bytes());
        record
    };
    let key = |process: &ProcessId| LineKey {
        tgid: process.pid,
        start: process.start,
        ..LineKey::default()
    };
    let keys: Vec<LineKey> = processes.iter().map(key).collect();
    let counts = vec![LineCounts::default(); keys.len()];
    [
        Batch::LineRecords(processes.iter().map(record).collect()),
        Batch::LineCounts((keys, counts)),
    ]
}

#[test]
fn lines_are_told_to_who_asked_for_them_and_may_know_them() {
    let mut subscriptions = Subscriptions::default();
    let kept = Kept {
        lines: WantedLines {
            python: true,
            native: false,
        },
        ..Kept::default()
    };
    let client = Client::with(&mut subscriptions, USER, kept);
    let slow = Client::with(&mut subscriptions, USER, kept);
    let without = Client::of(&mut subscriptions, USER);
    let (own, foreign) = (process(1), process(2));
    let got = |client: &Client| {
        let mut lines = (0, Vec::new());
        for item in client.queue.take() {
            match item {
                Item::Batch(Batch::LineRecords(records)) => lines.0 += records.len(),
                Item::Batch(Batch::LineCounts((keys, _))) => {
                    lines.1.extend(keys.iter().map(|key| key.tgid));
                }
                _ => {}
            }
        }
        lines
    };
    let events = vec![
        fork(process(9), own, USER),
        fork(process(9), foreign, OTHER),
    ];
    let [records, counts] = lines(&[own, foreign]);
    drain(&mut subscriptions, events, &records);
    subscriptions.take(&counts, &model());
    assert_eq!(got(&client), (1, vec![own.pid]));
    assert_eq!(got(&without), (0, vec![]));
    let [records, counts] = lines(&vec![own; 100_000]);
    for _ in 0..3 {
        subscriptions.take(&records, &model());
        subscriptions.take(&counts, &model());
    }
    let lost = slow.queue.lost();
    assert!(lost.line_records > 0 && lost.line_counts > 0, "{lost:?}");
    // It leaves with other rights, and what is told of it then is of another program.
    let privileged = Rights {
        uid: 0,
        ..Rights::of_user(USER)
    };
    let [records, counts] = lines(&[own]);
    got(&client);
    drain(&mut subscriptions, vec![exec(own, privileged)], &records);
    subscriptions.take(&counts, &model());
    assert_eq!(got(&client), (0, vec![]));
}
