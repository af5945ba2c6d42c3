//! What the intake keeps, and for how long.

use iotrace_common::key::FileId;
use zeroize::Zeroizing;

use super::*;
use iotrace_model::host;
use iotrace_model::{
    input::{Event, FileName, Place, ProcessId},
    run::Target,
};

const LINGER: Duration = Duration::from_secs(60);

fn intake() -> Intake {
    let classifier = Arc::new(Classifier::new(Default::default()).unwrap());
    let run = host::run("0.1.0", Target::All(true), "btf", "basic").unwrap();
    let looks = Looks::new(Arc::clone(&classifier), Default::default(), run.clone());
    Intake::new(classifier, false, looks, run)
}

/// A process that is gone when anybody looks, of the job of its number.
fn start(intake: &mut Intake, totals: &mut Totals, job: u32) -> ProcessId {
    let process = ProcessId {
        pid: u32::MAX - job,
        start: 1,
    };
    let variables = format!("SLURM_JOB_ID={job}\0").into_bytes();
    let path = "/system.slice/batch.service".into();
    let variables = Zeroizing::new(variables);
    let events = vec![
        Event::Cgroup { process, path },
        Event::Environment { process, variables },
    ];
    intake.see(&Batch::Events(events), totals);
    process
}

fn named(model: &mut Model, file: FileId) {
    model.event(Event::File(FileName {
        file,
        path: format!("/data/train/{}.jpg", file.inode).into_bytes(),
        size: 100,
        mode: libc::S_IFREG,
        magic: 0,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }));
}

#[test]
fn nothing_of_a_unit_outlives_it() {
    const JOBS: u32 = 50;
    const FILES: u64 = 100;
    let (mut intake, mut totals, mut model) = (intake(), Totals::new(20_000), Model::default());
    let mut counters = Counters::ZERO;
    (counters.v[op::READ], counters.v[BYTES_READ]) = (1, 100);
    let files: Vec<FileId> = (1..=FILES)
        .map(|inode| FileId {
            inode,
            ..FileId::default()
        })
        .collect();
    files.iter().for_each(|file| named(&mut model, *file));
    for job in 0..JOBS {
        let process = start(&mut intake, &mut totals, job);
        for file in &files {
            model.add(process, Place::File(*file), &counters);
        }
        let exit = Event::Exit {
            process,
            time: 0,
            status: 0,
        };
        intake.see(&Batch::Events(vec![exit]), &mut totals);
    }
    let now = Instant::now();
    intake.take(&mut model, &mut totals, now);
    let pairs = |intake: &Intake| intake.tables()[0];
    assert_eq!(
        pairs(&intake),
        ("unit_files", (u64::from(JOBS) * FILES) as usize)
    );
    // The processes are forgotten first, then their units.
    intake.take(&mut model, &mut totals, now + LINGER);
    intake.expire(&mut totals, LINGER, now + 3 * LINGER);
    assert_eq!(totals.units().count(), 2, "unknown and other");
    let by_unit = [
        "unit_files",
        "epochs",
        "epoch_files",
        "processes",
        "starting_processes",
    ];
    for (table, entries) in intake.tables() {
        assert!(
            entries == 0 || !by_unit.contains(&table),
            "{table}: {entries}"
        );
    }
    // A file that was known before is new to a new unit.
    let process = start(&mut intake, &mut totals, JOBS);
    model.add(process, Place::File(files[0]), &counters);
    intake.take(&mut model, &mut totals, now + 3 * LINGER);
    assert_eq!(pairs(&intake), ("unit_files", 1));
}

#[test]
fn a_file_on_a_mount_that_came_back_has_its_label() {
    let (mut intake, mut totals, mut model) = (intake(), Totals::new(20_000), Model::default());
    let mounted = b"36 35 0:99 / /gone rw - tmpfs tmpfs rw\n";
    let (file, process) = (
        FileId {
            device: 99,
            inode: 1,
            ..FileId::default()
        },
        1,
    );
    model.update_mounts(mounted);
    let process = start(&mut intake, &mut totals, process);
    let mut counters = Counters::ZERO;
    (counters.v[op::READ], counters.v[BYTES_READ]) = (1, 100);
    model.event(Event::File(FileName {
        file,
        path: b"/gone/file".to_vec(),
        size: 100,
        mode: libc::S_IFREG,
        magic: 0,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }));
    let now = Instant::now();
    let bytes = |totals: &Totals| -> Vec<(String, u64)> {
        let cells = totals.cells().iter();
        let rows = cells.map(|(key, cell)| {
            (
                totals.mount(key.mount).mountpoint.clone(),
                cell.get(Value::Counter(BYTES_READ)),
            )
        });
        rows.filter(|(_, bytes)| *bytes > 0).collect()
    };
    for _ in 0..2 {
        model.add(process, Place::File(file), &counters);
        intake.take(&mut model, &mut totals, now);
        assert_eq!(bytes(&totals), [("/gone".into(), 100)]);
        intake.update_mounts(mounted);
        totals.expire_mounts(LINGER, now + 2 * LINGER, |_| true);
        assert_eq!(
            bytes(&totals).len(),
            1,
            "a mount that is there keeps its series"
        );
        intake.update_mounts(b"");
        intake.expire(&mut totals, LINGER, now + 2 * LINGER);
        assert_eq!(bytes(&totals), []);
    }
}

#[test]
fn a_jobs_number_in_a_users_slice_charges_nothing_to_the_job() {
    let (mut intake, mut totals, mut model) = (intake(), Totals::new(20_000), Model::default());
    let mut counters = Counters::ZERO;
    (counters.v[op::WRITE], counters.v[BYTES_WRITTEN]) = (1, 100);
    let paths = [
        "/user.slice/user-1000.slice/session-1.scope",
        "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_4242/step_0",
        "/system.slice/slurmstepd.scope/job_4242/step_0",
    ];
    for (pid, path) in (u32::MAX - 9..).zip(paths) {
        let process = ProcessId { pid, start: 1 };
        let (path, variables) = (path.into(), b"SLURM_JOB_ID=4242\0".to_vec());
        let variables = Zeroizing::new(variables);
        let events = vec![
            Event::Cgroup { process, path },
            Event::Environment { process, variables },
        ];
        intake.see(&Batch::Events(events), &mut totals);
        model.add(process, Place::PathOnly, &counters);
    }
    intake.take(&mut model, &mut totals, Instant::now());
    let cells = totals.cells().iter();
    let bytes: Vec<_> = cells
        .map(|(key, cell)| {
            (
                totals.units().get(key.unit).unwrap(),
                cell.get(Value::Counter(BYTES_WRITTEN)),
            )
        })
        .map(|(unit, bytes)| (unit.name.as_str(), bytes))
        .collect();
    assert_eq!(bytes, [("user:1000", 200), ("slurm:4242", 100)]);
}

#[test]
fn files_that_were_all_used_in_one_interval_are_forgotten() {
    const FILES: usize = 100;
    const MAX_FILES: usize = 50;
    let (mut intake, mut totals, mut model) = (intake(), Totals::new(20_000), Model::default());
    let process = start(&mut intake, &mut totals, 1);
    let mut counters = Counters::ZERO;
    (counters.v[op::READ], counters.v[BYTES_READ]) = (1, 100);
    for inode in 1..=FILES as u64 {
        let file = FileId {
            inode,
            ..FileId::default()
        };
        named(&mut model, file);
        model.add(process, Place::File(file), &counters);
    }
    let now = Instant::now();
    intake.take(&mut model, &mut totals, now);
    // They may be in use.
    assert_eq!(intake.forget(&mut model, MAX_FILES).len(), 0);
    intake.take(&mut model, &mut totals, now);
    assert_eq!(intake.forget(&mut model, MAX_FILES).len(), FILES);
    assert_eq!(model.file_count(), 0);
}
