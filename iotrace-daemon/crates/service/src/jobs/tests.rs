//! Whose logs are, by the events of processes that are gone when anybody looks.

use std::sync::mpsc::Receiver;

use iotrace_common::{diag, key::FileId, op, rights::Rights};
use iotrace_model::{
    Model,
    counters::{BYTES_READ, Counters},
    host,
    input::{Event, FileName, Place, ProcessId},
    run::Target,
};
use iotrace_phases::Classifier;
use iotrace_tracer::{drain::Batch, kernel::Losses};
use zeroize::Zeroizing;

use super::*;
use crate::{findings::Looks, intake::Intake, totals::Totals};

const USER: u32 = 61_001;
const SERVICE: &str = "/system.slice/some.service";
const BATCH: &str = "/system.slice/slurmstepd.scope/job_42/step_0/user/task_0";

/// A service that logs, whose log thread is the test.
struct Machine {
    intake: Intake,
    totals: Totals,
    model: Model,
    messages: Receiver<Message>,
    losses: Losses,
}

impl Machine {
    fn new() -> Self {
        let classifier = Arc::new(Classifier::new(Default::default()).unwrap());
        let run = host::run("0.1.0", Target::All(true), "btf", "basic").unwrap();
        let looks = Looks::new(Arc::clone(&classifier), Default::default(), run.clone());
        let mut intake = Intake::new(classifier, false, looks, run.clone());
        let (sender, messages) = sync_channel(QUEUE_INTERVALS);
        let thread = std::thread::spawn(|| ());
        let writer = Writer { sender, thread };
        let config = config::Jobs::default();
        intake.set_jobs(Some(Feed::new(&config, run, Arc::default(), writer)));
        let mut model = Model::default();
        model.event(Event::File(FileName {
            file: FILE,
            path: b"/data/file".to_vec(),
            size: 100,
            mode: libc::S_IFREG,
            magic: 0,
            block_size: 4096,
            truncated: false,
            deleted: false,
            existed: false,
        }));
        Self {
            intake,
            totals: Totals::new(20_000),
            model,
            messages,
            losses: Losses::new(),
        }
    }

    fn see(&mut self, events: Vec<Event>) {
        let batch = Batch::Events(events);
        self.intake.see(&batch, &mut self.totals);
        batch.apply(&mut self.model);
    }

    fn fork(&mut self, parent: u32, child: u32, rights: Rights) {
        self.see(vec![Event::Fork {
            parent: process(parent),
            child: process(child),
            child_start_boottime: 0,
            rights,
            comm: b"program".to_vec(),
        }]);
    }

    /// An exec in a control group.
    fn exec(&mut self, pid: u32, group: &str, rights: Rights) {
        let process = process(pid);
        let exec = Event::Exec {
            process,
            start_boottime: 0,
            parent: 0,
            rights,
            comm: b"program".to_vec(),
            args: Vec::new(),
        };
        let path = group.to_owned();
        let variables = Zeroizing::new(Vec::new());
        self.see(vec![
            exec,
            Event::Cgroup { process, path },
            Event::Environment { process, variables },
        ]);
    }

    fn exit(&mut self, pid: u32) {
        self.see(vec![Event::Exit {
            process: process(pid),
            time: 0,
            status: 0,
        }]);
    }

    fn read(&mut self, pid: u32) {
        let mut counters = Counters::ZERO;
        (counters.v[op::READ], counters.v[BYTES_READ]) = (1, 100);
        self.model.add(process(pid), Place::File(FILE), &counters);
    }

    /// Ends an interval; what goes to the thread.
    fn take(&mut self) -> Vec<Note> {
        self.intake.set_losses(&self.losses, 0);
        self.intake
            .take(&mut self.model, &mut self.totals, Instant::now());
        let mut notes = Vec::new();
        while let Ok(message) = self.messages.try_recv() {
            let Message::Notes(new) = message else {
                panic!("nobody ends the service")
            };
            notes.extend(new);
        }
        notes
    }

    /// The same where it is one note.
    fn note(&mut self) -> Note {
        let mut notes = self.take();
        assert_eq!(notes.len(), 1);
        notes.remove(0)
    }
}

const FILE: FileId = FileId {
    device: 1,
    generation: 0,
    inode: 7,
};

/// One that is gone.
fn process(number: u32) -> ProcessId {
    ProcessId {
        pid: u32::MAX - number,
        start: 1,
    }
}

fn user(uid: u32) -> Rights {
    Rights::of_user(uid)
}

/// A set-user-ID program that the user has begun.
fn elevated() -> Rights {
    Rights {
        flags: 0,
        capabilities: u64::MAX,
        ..user(USER)
    }
}

fn has_names(note: &Note) -> bool {
    !note.names.is_empty()
        || note
            .counts
            .iter()
            .any(|(_, place, _)| matches!(place, Place::File(_)))
}

#[test]
fn a_log_that_is_written_does_not_hide_one_that_is_not() {
    let counts = Counts::default();
    counts.fails("the disk is full".into(), true);
    counts.fails("the disk is full".into(), true);
    counts.settles(true);
    assert_eq!(counts.state().error.as_deref(), Some("the disk is full"));
    counts.settles(true);
    assert_eq!(counts.state().error, None);
}

#[test]
fn a_process_of_a_millisecond_decides() {
    for group in [SERVICE, BATCH] {
        for (rights, is_users) in [
            (user(USER), true),
            (user(USER + 1), false),
            (elevated(), false),
            (Rights::UNKNOWN, false),
            // Of a batch job's log root's processes are no part.
            (user(0), group == BATCH),
        ] {
            let mut machine = Machine::new();
            machine.fork(0, 1, user(USER));
            machine.exec(1, group, user(USER));
            machine.read(1);
            let note = machine.note();
            assert_eq!(note.user, Some(USER));
            assert!(has_names(&note));
            // It has no counts, and no interval ends while it lives.
            machine.exec(2, group, rights);
            machine.exit(2);
            machine.read(1);
            let note = machine.note();
            assert_eq!(note.user, is_users.then_some(USER), "{group} {rights:?}");
            // For good.
            machine.read(1);
            assert_eq!(machine.note().user, is_users.then_some(USER));
        }
    }
}

#[test]
fn a_program_with_more_rights_decides_though_its_user_goes_on() {
    let mut machine = Machine::new();
    machine.exec(1, BATCH, user(USER));
    machine.read(1);
    assert_eq!(machine.note().user, Some(USER));
    machine.fork(1, 2, user(USER));
    machine.exec(2, BATCH, elevated());
    // It goes on in another unit before the interval ends.
    machine.exec(2, SERVICE, user(USER));
    machine.read(1);
    assert_eq!(machine.note().user, None);
}

#[test]
fn root_begins_a_users_service() {
    let mut machine = Machine::new();
    machine.exec(1, SERVICE, user(0));
    machine.read(1);
    // It may become a user's: nobody owns the log yet, and it names no file.
    let note = machine.note();
    assert_eq!((note.user, note.candidate), (None, None));
    assert!(!has_names(&note));
    machine.exec(1, SERVICE, user(USER));
    machine.fork(1, 2, user(USER));
    machine.read(2);
    let note = machine.note();
    assert_eq!(note.user, Some(USER));
    assert!(has_names(&note));
    // Another one, whose end is to be seen.
    machine.exec(3, SERVICE, user(0));
    machine.read(2);
    let note = machine.note();
    assert_eq!((note.user, note.candidate), (None, Some(USER)));
    machine.exec(3, SERVICE, user(USER));
    machine.read(2);
    assert_eq!(machine.note().user, Some(USER));
    // One that stays root's.
    machine.exec(4, SERVICE, user(0));
    for candidate in [Some(USER), None] {
        machine.read(2);
        let note = machine.note();
        assert_eq!((note.user, note.candidate), (None, candidate));
    }
    machine.read(4);
    assert!(has_names(&machine.note()));
}

#[test]
fn roots_processes_are_no_part_of_a_batch_jobs_log() {
    let mut machine = Machine::new();
    machine.exec(1, BATCH, user(0));
    machine.read(1);
    assert!(machine.take().is_empty());
    machine.fork(1, 2, user(0));
    machine.exec(2, BATCH, user(USER));
    machine.fork(2, 3, user(USER));
    machine.read(1);
    machine.read(3);
    let note = machine.note();
    assert_eq!(note.user, Some(USER));
    let counted = note.counts.iter().map(|(process, ..)| *process);
    let counted: Vec<ProcessId> = counted.chain(note.overflow.keys().copied()).collect();
    assert_eq!(counted, [process(3)]);
    let about: Vec<ProcessId> = note.processes.iter().map(|(process, _)| *process).collect();
    assert!(!about.contains(&process(1)), "{about:?}");
}

#[test]
fn a_log_ends_when_the_events_of_its_last_counts_have_come() {
    for is_late in [false, true] {
        let mut machine = Machine::new();
        machine.exec(1, BATCH, user(USER));
        machine.read(1);
        assert_eq!(machine.note().user, Some(USER));
        let (reply, _answer) = oneshot::channel();
        machine.intake.end_log(LogEnd {
            job: "42".into(),
            user: USER,
            reply,
        });
        // These may be of a program whose exec the ring buffer still holds.
        machine.read(1);
        let last = machine.note();
        assert!(last.end.is_none());
        if is_late {
            machine.exec(1, BATCH, elevated());
        }
        machine.read(1);
        let notes = machine.take();
        let end = notes[0].end.expect("the end");
        assert_eq!(end.at, last.now, "it lasts no longer");
        assert!(!end.unit_ended);
        assert!(notes[0].counts.is_empty());
        assert_eq!(notes[0].user, (!is_late).then_some(USER));
        assert!(notes[1].begin.is_some(), "the unit goes on in another log");
        assert_eq!(notes[1].user, (!is_late).then_some(USER));
    }
}

#[test]
fn lost_events_make_the_logs_roots() {
    for reason in [
        diag::NAMES[diag::EVENTS_DROPPED as usize],
        "process_recursion_misses",
    ] {
        let mut machine = Machine::new();
        machine.exec(1, SERVICE, user(USER));
        machine.read(1);
        assert_eq!(machine.note().user, Some(USER));
        machine.losses.insert(reason.into(), 1);
        machine.read(1);
        assert_eq!(machine.note().user, None);
        // Those that begin before it is over, too; and none of a process that nobody knows any more.
        machine.exec(2, BATCH, user(USER));
        machine.read(2);
        assert_eq!(machine.note().user, None);
        machine.exec(3, "/system.slice/other.service", user(USER));
        machine.read(3);
        assert_eq!(machine.note().user, Some(USER));
    }
}
