use super::*;
use crate::attribution;
use iotrace_model::counters::BYTES_READ;

fn unit(job: u32) -> Unit {
    attribution::unit(format!("SLURM_JOB_ID={job}\0").as_bytes(), "", false)
}

fn key(unit: UnitId, mount: MountId) -> Key {
    Key {
        unit,
        phase: Phase::Training,
        mount,
    }
}

fn sum(totals: &Totals, value: Value) -> u64 {
    totals.cells().values().map(|cell| cell.get(value)).sum()
}

#[test]
fn equal_units_are_one() {
    let mut totals = Totals::new(100);
    let (a, b) = (totals.unit(&unit(1)), totals.unit(&unit(1)));
    assert_eq!(a, b);
    totals.add(key(a, NO_MOUNT), Value::Counter(BYTES_READ), 5);
    totals.add(key(b, NO_MOUNT), Value::Counter(BYTES_READ), 6);
    assert_eq!(
        totals.cells()[&key(a, NO_MOUNT)].get(Value::Counter(BYTES_READ)),
        11
    );
    assert_eq!(totals.series(), 3, "the text, the processes and the bytes");
}

#[test]
fn the_first_names_of_a_job_stay() {
    let mut totals = Totals::new(100);
    let id = totals.unit(&unit(1));
    let named = |name: &str| {
        let environ = format!("SLURM_JOB_ID=1\0SLURM_JOB_NAME={name}\0");
        attribution::unit(environ.as_bytes(), "", false)
    };
    for name in ["train", "another"] {
        assert_eq!(totals.unit(&named(name)), id);
        assert_eq!(totals.units().get(id).unwrap().names.job, "train");
    }
    assert_eq!(totals.series(), UNIT_SERIES);
}

#[test]
fn the_bound_holds_and_the_sum_is_exact() {
    let mut totals = Totals::new(100);
    for round in 1..=3 {
        for job in 0..500 {
            let id = totals.unit(&unit(job));
            for op in 0..10 {
                totals.add(key(id, NO_MOUNT), Value::Counter(op), 1);
                totals.add(
                    key(id, NO_MOUNT),
                    Value::Error {
                        op: 0,
                        errno: op as u32 + 1,
                    },
                    2,
                );
            }
        }
        assert_eq!(totals.series(), 100);
        for op in 0..10 {
            assert_eq!(sum(&totals, Value::Counter(op)), 500 * round);
        }
        let errors: u64 = totals
            .cells()
            .values()
            .flat_map(Cell::errors)
            .map(|(_, n)| n)
            .sum();
        assert_eq!(errors, 500 * 20 * round);
    }
    assert!(totals.folds() > 0);
    let other: Vec<_> = totals
        .cells()
        .iter()
        .filter(|(key, _)| key.unit == OTHER)
        .collect();
    assert_eq!(other.len(), 1);
    assert_eq!(
        other[0].1.errors().count(),
        1,
        "errors of `other` are not told apart"
    );
}

#[test]
fn a_unit_goes_when_it_is_over_and_makes_room() {
    let mut totals = Totals::new(100);
    let linger = Duration::from_secs(60);
    let (running, over) = (totals.unit(&unit(1)), totals.unit(&unit(2)));
    for id in [running, over] {
        totals.hold(id);
        totals.add(key(id, NO_MOUNT), Value::FilesSeen, 7);
    }
    totals.release(over);
    let later = Instant::now() + 2 * linger;
    totals.expire(linger, Instant::now());
    assert_eq!(totals.series(), 6, "not before its time");
    totals.expire(linger, later);
    assert_eq!(totals.series(), 3);
    assert_eq!(
        totals
            .cells()
            .keys()
            .map(|key| key.unit)
            .collect::<Vec<_>>(),
        [running]
    );
    assert_ne!(totals.unit(&unit(2)), over, "an index is never used again");
}

#[test]
fn mounts_are_bounded() {
    let mut totals = Totals::new(100);
    let mount = |n: usize| Mount {
        mountpoint: format!("/m{n}"),
        fstype: "nfs".into(),
    };
    let ids: Vec<_> = (0..100).map(|n| totals.mount_id(&mount(n))).collect();
    assert_eq!(ids[0], totals.mount_id(&mount(0)));
    assert_eq!(ids[99], OTHER_MOUNT);
    assert_eq!(totals.mounts.count(), mounts::MAX_MOUNTS);
}

#[test]
fn a_mount_makes_room_when_it_is_gone() {
    let mut totals = Totals::new(1000);
    let linger = Duration::from_secs(60);
    let mount = |n: usize| Mount {
        mountpoint: format!("/m{n}"),
        fstype: "tmpfs".into(),
    };
    // The unit stays: its processes run for as long as the machine does.
    let id = totals.unit(&unit(1));
    totals.hold(id);
    for n in 0..70 {
        let mount = totals.mount_id(&mount(n));
        totals.add(key(id, mount), Value::Counter(BYTES_READ), 1);
    }
    assert_eq!(totals.mount_id(&mount(100)), OTHER_MOUNT);
    let (now, later) = (Instant::now(), Instant::now() + 2 * linger);
    totals.expire_mounts(linger, now, |_| false);
    assert_eq!(
        totals.mount_id(&mount(100)),
        OTHER_MOUNT,
        "not before its time"
    );
    totals.expire_mounts(linger, later, |mountpoint| mountpoint == "/m0");
    let series = totals.series();
    let kept = "the mount that is still there, and those that found no room";
    assert_eq!(series, UNIT_SERIES + 2, "{kept}");
    let new = totals.mount_id(&mount(100));
    assert_eq!(totals.mount(new), &mount(100));
    // The cell of those that found no room has its own labels.
    assert_eq!(sum(&totals, Value::Counter(BYTES_READ)), 1 + 8);
}

#[test]
fn a_unit_that_is_gone_gets_no_cell() {
    let mut totals = Totals::new(100);
    let id = totals.unit(&unit(1));
    totals.expire(Duration::ZERO, Instant::now());
    totals.add(key(id, NO_MOUNT), Value::Counter(BYTES_READ), 5);
    let save = Saved {
        bytes: 1,
        unsynced_bytes: 0,
        first: 0,
        last: 1,
    };
    totals.save(id, save);
    assert_eq!(
        totals
            .cells()
            .keys()
            .map(|key| key.unit)
            .collect::<Vec<_>>(),
        [OTHER]
    );
    assert_eq!(totals.saves.complete()[&OTHER].count, 1);
    assert_eq!(totals.series(), 0);
}

#[test]
fn checkpoints_go_with_their_unit() {
    let mut totals = Totals::new(100);
    let id = totals.unit(&unit(1));
    let second = |n: u64| n * 1_000_000_000;
    let save = |first, last| Saved {
        bytes: 15,
        unsynced_bytes: 4,
        first: second(first),
        last: second(last),
    };
    totals.save(id, save(100, 108));
    totals.save(id, save(200, 200));
    let saves = &totals.saves().complete()[&id];
    assert_eq!((saves.count, saves.bytes, saves.last), (2, 30, second(200)));
    assert_eq!(saves.unsynced_bytes, 8);
    assert_eq!((saves.durations[0], saves.durations[2]), (1, 1));
    assert_eq!(saves.seconds, 8.0);
    let later = Instant::now() + Duration::from_secs(1000);
    totals.expire(Duration::from_secs(60), later);
    assert_eq!((totals.series(), totals.saves().complete().len()), (0, 0));
}

/// A job that only the environment of a user's process names.
fn claimed(job: u32, owner: u32) -> Unit {
    Unit {
        owner: Some(owner),
        ..unit(job)
    }
}

#[test]
fn one_user_leaves_room_for_the_jobs_of_others() {
    let mut totals = Totals::new(20_000);
    let count = |totals: &mut Totals, unit: UnitId| {
        for op in 0..20 {
            totals.add(key(unit, NO_MOUNT), Value::Counter(op), 1);
        }
    };
    for job in 0..2500 {
        let id = totals.unit(&claimed(job, 1000));
        totals.hold(id);
        count(&mut totals, id);
    }
    assert!(totals.series() < 20_000 / 4, "{}", totals.series());
    assert_eq!(totals.units().of_owner(1000), USER_UNITS + 1);
    assert_eq!(sum(&totals, Value::Counter(0)), 2500);
    let others = totals.units.find(&Unit::other_of(1000)).unwrap();
    let of_others = totals.cells()[&key(others, NO_MOUNT)].get(Value::Counter(0));
    assert_eq!(of_others, 2500 - USER_UNITS as u64);
    assert!(!totals.cells().keys().any(|key| key.unit == OTHER));
    // Another user's job of the same number is another unit.
    let job = totals.unit(&claimed(1, 1001));
    count(&mut totals, job);
    assert_eq!(
        totals.cells()[&key(job, NO_MOUNT)].get(Value::Counter(0)),
        1
    );
    let real = Unit {
        claimed: false,
        ..unit(1)
    };
    assert!(![OTHER, job].contains(&totals.unit(&real)));
}

#[test]
fn series_of_one_users_units_are_bounded() {
    let mut totals = Totals::new(1000);
    let id = totals.unit(&claimed(1, 1000));
    for errno in 0..500 {
        totals.add(key(id, NO_MOUNT), Value::Error { op: 0, errno }, 1);
    }
    let errors = |id| {
        totals.cells()[&key(id, NO_MOUNT)]
            .errors()
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    assert_eq!(errors(id), 1000 / USER_SHARE as u64);
    let others = totals.units.find(&Unit::other_of(1000)).unwrap();
    assert_eq!(errors(id) + errors(others), 500);
    totals.expire(Duration::ZERO, Instant::now());
    assert_eq!((totals.series(), totals.shares.len()), (0, 0));
}
