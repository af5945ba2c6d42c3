//! Checkpoint events and loads.

use super::{
    durable::directory,
    job::{Job, START_NS, id, ms, used},
};
use iotrace_model::{
    counters::*,
    input::{Event, Place},
};

const MIB: u64 = 1 << 20;

fn rename(job: &mut Job, from: &str, to: &str) {
    let (from, to) = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
    job.model.event(Event::Rename {
        process: id(1),
        time: 0,
        from,
        to,
        exchange: false,
    });
}

/// Start, end, files and bytes of each save.
fn saves(job: &Job) -> Vec<(i64, i64, usize, u64)> {
    let saves = job.analysis().checkpoints;
    saves
        .iter()
        .map(|save| (ms(save.start), ms(save.end), save.files.len(), save.bytes))
        .collect()
}

#[test]
fn pytorch_each_step_is_one_save() {
    let mut job = Job::new(60_000);
    for step in 0..3_u64 {
        let path = format!("/out/model-epoch-{step:03}.pt");
        let start = 1_000 + step * 300;
        job.write(used(1, &path, start, start + 100), 64 * MIB, 40);
    }
    assert_eq!(
        saves(&job),
        [
            (1_000, 1_100, 1, 64 * MIB),
            (1_300, 1_400, 1, 64 * MIB),
            (1_600, 1_700, 1, 64 * MIB)
        ]
    );
    let found = job.analysis().checkpoints;
    assert_eq!(found[1].sync_ns, 40_000_000);
    assert_eq!(
        (found[0].interval_ns, found[1].interval_ns),
        (None, Some(300_000_000))
    );
    assert_eq!(
        found[0].bandwidth().map(f64::round),
        Some(640.0 * MIB as f64)
    );
    assert!(found.iter().all(|save| save.is_exact));
}

#[test]
fn pytorch_model_and_optimizer_of_one_step_are_one_save() {
    let mut job = Job::new(60_000);
    job.write(used(1, "/out/model_100.pt", 1_000, 1_500), 8 * MIB, 0);
    job.write(used(1, "/out/optim_100.pt", 1_500, 2_500), 16 * MIB, 0);
    job.flush(5_000);
    job.write(used(1, "/out/model_200.pt", 9_000, 9_500), 8 * MIB, 0);
    job.write(used(1, "/out/optim_200.pt", 9_500, 9_900), 16 * MIB, 0);
    assert_eq!(
        saves(&job),
        [(1_000, 2_500, 2, 24 * MIB), (9_000, 9_900, 2, 24 * MIB)]
    );
}

#[test]
fn parts_of_one_step_in_directories_of_their_own_are_one_save() {
    let mut job = Job::with_spans(60_000);
    job.file("/data/train-000.tar", 16 * MIB);
    for step in [5_000_u64, 10_000, 15_000] {
        let model = format!("/exp/models/net_g_{step}.pth");
        let state = format!("/exp/training_states/{step}.state");
        job.write(used(1, &model, step, step + 100), 8 * MIB, 0);
        job.write(used(1, &state, step + 101, step + 200), 16 * MIB, 0);
        job.read(
            used(1, "/data/train-000.tar", step + 1_000, step + 3_000),
            16 * MIB,
        );
    }
    let whole = |step: i64| (step, step + 200, 2, 24 * MIB);
    assert_eq!(saves(&job), [5_000, 10_000, 15_000].map(whole));
    // Members of an ensemble, which are trained in turn.
    let mut job = Job::with_spans(60_000);
    job.file("/data/train-000.tar", 16 * MIB);
    for member in 0..3_u64 {
        let start = 1_000 + member * 2_000;
        job.read(used(1, "/data/train-000.tar", start, start + 900), 16 * MIB);
        let path = format!("/exp/member_{member}/step_100.pt");
        job.write(used(1, &path, start + 910, start + 1_000), 8 * MIB, 0);
    }
    assert_eq!(saves(&job).len(), 3);
}

#[test]
fn the_trained_model_is_a_save_of_its_own_at_once_behind_a_step() {
    let mut job = Job::with_spans(60_000);
    for step in 1..4_u64 {
        let start = step * 5_000;
        for name in ["model.safetensors", "optimizer.pt"] {
            let path = format!("/out/checkpoint-{step}00/{name}");
            job.write(used(1, &path, start, start + 200), 8 * MIB, 0);
        }
    }
    job.write(
        used(1, "/out/model.safetensors", 15_210, 15_300),
        8 * MIB,
        0,
    );
    let found = saves(&job);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[3], (15_210, 15_300, 1, 8 * MIB));
}

/// How many saves there are if process 1 writes these files under `/out` in each round, each at once after the one before.
fn saves_in_rounds(rounds: &[&[&str]]) -> usize {
    let mut job = Job::new(60_000);
    for (from, names) in (5_000..).step_by(5_000).zip(rounds) {
        for (turn, name) in (0..).zip(*names) {
            let (path, start) = (format!("/out/{name}"), from + turn * 101);
            job.write(used(1, &path, start, start + 100), 8 * MIB, 0);
        }
        job.flush(from + 1_000);
    }
    saves(&job).len()
}

#[test]
fn averaged_weights_that_are_saved_once_at_the_end_are_a_save_of_their_own() {
    for other in ["swa.pt", "ema_model.pt", "exported.onnx"] {
        for names in [
            ["ckpt_1.pt", "ckpt_2.pt", "ckpt_3.pt"],
            ["last.pt", "last.pt", "last.pt"],
            ["last/model.pt", "last/model.pt", "last/model.pt"],
        ] {
            let [one, two, three] = names;
            let found = saves_in_rounds(&[&[one], &[two], &[three, other]]);
            assert_eq!(found, 4, "{names:?} {other}");
            // Each save has it, or more than the last.
            let found = saves_in_rounds(&[&[one, other], &[two, other], &[three, other]]);
            assert_eq!(found, 3, "{names:?} {other}");
            let found = saves_in_rounds(&[&[one], &[two, other], &[three, other]]);
            assert_eq!(found, 3, "{names:?} {other}");
            let found = saves_in_rounds(&[&[one], &[two, other], &[three]]);
            assert_eq!(found, 3, "{names:?} {other}");
        }
    }
    // A part of the state, and one save alone.
    for rounds in [
        [&["last.pt"][..], &["last.pt", "optimizer.pt"]],
        [&["ckpt_1.pt"], &["ckpt_2.pt", "scheduler.pt"]],
    ] {
        assert_eq!(saves_in_rounds(&rounds), 2, "{rounds:?}");
    }
    assert_eq!(saves_in_rounds(&[&["last.pt", "swa.pt"]]), 1);
    let in_parts = ["a/net.pt", "b/net.pt"];
    assert_eq!(saves_in_rounds(&[&in_parts, &in_parts]), 2);
}

#[test]
fn what_a_signal_cuts_off_is_no_save() {
    // When the process that writes ends and by what signal, whether it is made again, how many saves, whether it is told.
    let cases = [
        (3_000, 9, false, 1, true),
        (3_000, 9, true, 2, true),
        // By itself, or long after the last write to a file that is kept open.
        (3_000, 0, false, 2, false),
        (9_000, 15, false, 2, false),
    ];
    for (end, signal, is_made_again, count, is_told) in cases {
        let mut job = Job::with_spans(60_000);
        job.program(1, 0);
        job.write(used(1, "/out/step_100.pt", 500, 900), 8 * MIB, 0);
        job.worker(2, 1);
        let values = [
            (OPENS, 1),
            (WRITES, 4),
            (BYTES_WRITTEN, 4 * MIB),
            (MAX_BYTE_WRITTEN, 4 * MIB - 1),
        ];
        let cut = used(2, "/out/step_200.pt", 2_500, 2_990);
        job.add(cut, &values, FIRST_WRITE, LAST_WRITE);
        job.ends_by(2, end, signal);
        if is_made_again {
            job.program(3, 0);
            job.write(used(3, "/out/step_200.pt", 5_000, 5_400), 8 * MIB, 0);
        }
        let found = saves(&job);
        assert_eq!(found.len(), count, "{end} {signal}: {found:?}");
        match is_told {
            true => drop(job.finds("checkpoint-cut-off")),
            false => job.finds_no("checkpoint-cut-off"),
        }
    }
}

#[test]
fn deepspeed_shards_of_all_ranks_and_the_pointer_are_one_save() {
    let mut job = Job::new(60_000);
    for rank in 0..4_u32 {
        let path = format!("/out/global_step10/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt");
        job.write(
            used(10 + rank, &path, 1_000 + u64::from(rank) * 10, 3_000),
            10 * MIB,
            0,
        );
    }
    job.write(
        used(
            10,
            "/out/global_step10/mp_rank_00_model_states.pt",
            1_000,
            2_000,
        ),
        5 * MIB,
        0,
    );
    job.write(used(10, "/out/latest", 3_100, 3_110), 13, 0);
    let found = job.analysis().checkpoints;
    assert_eq!(found.len(), 1);
    assert_eq!((ms(found[0].start), ms(found[0].end)), (1_000, 3_110));
    assert_eq!(
        (
            found[0].files.len(),
            found[0].processes.len(),
            found[0].bytes
        ),
        (6, 4, 45 * MIB + 13)
    );
    assert_eq!(found[0].name, b"/out/global_step10");
}

#[test]
fn orbax_the_renamed_directory_is_the_step() {
    let mut job = Job::new(60_000);
    for step in [100, 200_u64] {
        let temporary = format!("/out/{step}.orbax-checkpoint-tmp");
        for file in ["default/manifest.ocdbt", "_CHECKPOINT_METADATA"] {
            job.write(
                used(1, &format!("{temporary}/{file}"), step * 10, step * 10 + 50),
                MIB,
                0,
            );
        }
        rename(&mut job, &temporary, &format!("/out/{step}"));
    }
    let found = job.analysis().checkpoints;
    assert_eq!(
        found
            .iter()
            .map(|save| save.name.as_slice())
            .collect::<Vec<_>>(),
        [b"/out/100".as_slice(), b"/out/200"]
    );
    assert_eq!(
        saves(&job),
        [(1_000, 1_050, 2, 2 * MIB), (2_000, 2_050, 2, 2 * MIB)]
    );
}

#[test]
fn a_manifest_of_a_small_model_is_written_again_within_the_save() {
    let manifest = "/out/100/default/manifest.ocdbt";
    let data = "/out/100/default/ocdbt.process_0/d/337f564439414ae2c0eb9233d6ffa5ee";
    let mut job = Job::new(60_000);
    job.write(used(1, manifest, 1_000, 1_010), MIB, 0);
    job.write(used(1, data, 1_005, 1_030), MIB, 0);
    job.write(used(1, manifest, 1_031, 1_040), MIB, 0);
    assert_eq!(saves(&job), [(1_000, 1_040, 2, 3 * MIB)]);
    // A step that is written again after a pause is another save, and so is a file outside of a step's directory at once.
    job.flush(1_500);
    job.write(used(1, manifest, 2_000, 2_010), MIB, 0);
    assert_eq!(saves(&job).len(), 2);
    let mut job = Job::new(60_000);
    job.write(used(1, "/out/model-100.pt", 1_000, 1_010), MIB, 0);
    job.write(used(1, "/out/model-100.pt", 1_011, 1_020), MIB, 0);
    assert_eq!(saves(&job).len(), 2);
}

#[test]
fn lightning_a_checkpoint_that_is_renamed_over_the_last_is_a_new_save() {
    let mut job = Job::new(60_000);
    for (index, from) in [1_000, 2_000, 3_000].into_iter().enumerate() {
        let temporary = format!("/tmp/tmp{index}");
        job.write(used(1, &temporary, from, from + 100), MIB, 0);
        rename(&mut job, &temporary, "/out/last.ckpt");
    }
    assert_eq!(saves(&job).len(), 3);
    assert_eq!(job.analysis().checkpoints[2].name, b"/out/last.ckpt");
}

#[test]
fn keras_a_file_written_over_in_place_is_as_many_saves() {
    let mut job = Job::new(60_000);
    for from in [1_000, 2_000] {
        job.write(
            used(1, "/out/model.weights.h5", from, from + 200),
            4 * MIB,
            0,
        );
    }
    // Both lie in one interval: the first and the last use are known.
    assert_eq!(
        saves(&job),
        [(1_000, 1_199, 1, 4 * MIB), (2_000, 2_200, 1, 4 * MIB)]
    );
    job.write(used(1, "/out/model.weights.h5", 3_000, 3_200), 4 * MIB, 0);
    let found = job.analysis().checkpoints;
    assert_eq!(found.len(), 3);
    assert!(!found[1].is_exact, "when the second was is not known");
    assert_eq!(found.iter().map(|save| save.bytes).sum::<u64>(), 12 * MIB);
}

#[test]
fn where_a_file_was_written_is_not_known_at_detail_basic() {
    let is_exact = |pause_ms: u64, is_measured: bool| {
        let mut job = Job::with_spans(60_000);
        job.program(1, 0);
        let file = job.file("/out/model.ckpt", 0);
        for piece in 0..2 {
            let at = START_NS + (1_000 + piece * pause_ms) * 1_000_000;
            let highest = MIB * (piece + 1) - 1;
            let mut counters = Counters::ZERO;
            for (index, value) in [
                (OPENS, 1 - piece),
                (WRITES, 1),
                (BYTES_WRITTEN, MIB),
                (MAX_BYTE_WRITTEN, if is_measured { highest } else { 0 }),
                (FIRST_OPERATION, at),
                (LAST_OPERATION, at + 100),
            ] {
                counters.v[index] = value;
            }
            job.model.add(id(1), Place::File(file), &counters);
            let number = piece as u32 + 1;
            job.model.add_span(id(1), file, number, &counters);
        }
        let saves = job.analysis().checkpoints;
        assert_eq!(saves.len(), 1);
        saves[0].is_exact
    };
    // It may be two saves of one file, or one that grows.
    assert!(!is_exact(400, false));
    assert!(is_exact(400, true) && is_exact(10, false));
}

#[test]
fn keras_a_model_and_the_state_to_resume_from_are_one_save() {
    let (model, state) = ("/out/model.keras", "/out/backup/latest.weights.h5");
    let mut job = Job::new(60_000);
    for from in [1_000, 2_000] {
        job.write(used(1, model, from, from + 200), 4 * MIB, 0);
        job.write(used(1, state, from + 205, from + 400), 4 * MIB, 0);
        job.flush(from + 500);
    }
    assert_eq!(
        saves(&job),
        [(1_000, 1_400, 2, 8 * MIB), (2_000, 2_400, 2, 8 * MIB)]
    );
    // What another process writes, or after a pause in which there may be a step, is another save.
    job.write(used(1, model, 3_000, 3_200), 4 * MIB, 0);
    job.write(used(2, state, 3_205, 3_400), 4 * MIB, 0);
    job.flush(3_500);
    job.write(used(1, model, 4_000, 4_200), 4 * MIB, 0);
    job.write(used(1, state, 4_300, 4_400), 4 * MIB, 0);
    assert_eq!(saves(&job).len(), 6);
}

#[test]
fn keras_a_numbered_model_and_the_state_to_resume_from_are_one_save() {
    let state = "/out/backup/latest.weights.h5";
    let mut job = Job::new(60_000);
    for epoch in 1..=4 {
        let (model, from) = (format!("/out/ck/{epoch}.keras"), epoch * 1_000);
        job.write(used(1, &model, from, from + 200), 4 * MIB, 0);
        job.write(used(1, state, from + 205, from + 400), 4 * MIB, 0);
        job.flush(from + 500);
    }
    // The state comes first; a file of another name is another save.
    job.write(used(1, state, 5_000, 5_200), 4 * MIB, 0);
    job.write(used(1, "/out/ck/5.keras", 5_205, 5_400), 4 * MIB, 0);
    job.flush(5_500);
    job.write(used(1, "/out/ck/6.keras", 6_000, 6_200), 4 * MIB, 0);
    job.write(used(1, "/out/ema/ema.weights.h5", 6_205, 6_400), 4 * MIB, 0);
    let found = job.analysis().checkpoints;
    let found: Vec<_> = found
        .iter()
        .map(|save| (save.start / 1_000_000, save.bytes / MIB))
        .collect();
    let expected = [
        (1_000, 8),
        (2_000, 8),
        (3_000, 8),
        (4_000, 8),
        (5_000, 8),
        (6_000, 4),
        (6_205, 4),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_save_that_lasts_over_flushes_is_one() {
    let mut job = Job::new(60_000);
    let parts = [
        (1_000, 5_000, true, false),
        (5_000, 10_000, false, false),
        (10_000, 12_000, false, true),
    ];
    for (from, to, opens, closes) in parts {
        job.count(
            used(1, "/out/model.ckpt", from, to),
            &[
                (OPENS, u64::from(opens)),
                (CLOSES, u64::from(closes)),
                (WRITES, 10),
                (BYTES_WRITTEN, 10 * MIB),
                (LAST_WRITE, 0),
            ],
        );
        job.flush(to);
    }
    assert_eq!(saves(&job), [(1_000, 12_000, 1, 30 * MIB)]);
}

#[test]
fn training_reads_go_on_or_stop() {
    let mut job = Job::new(60_000);
    for shard in 0..10_u64 {
        job.read(
            used(
                2,
                &format!("/data/shard-{shard}.tar"),
                shard * 100,
                shard * 100 + 90,
            ),
            MIB,
        );
    }
    job.write(used(1, "/out/step_1.ckpt", 410, 560), MIB, 0);
    job.write(used(1, "/out/step_2.ckpt", 1_000, 2_000), MIB, 0);
    job.read(used(2, "/data/shard-11.tar", 2_100, 2_200), MIB);
    let found = job.analysis().checkpoints;
    assert_eq!(found[0].training_stopped, Some(false));
    assert_eq!(found[1].training_stopped, Some(true));
    assert_eq!(
        found[1].training_pause_ns.map(|ns| ns / 1_000_000),
        Some(1_110)
    );
    // Workers fill their queue at the beginning of a save.
    let queue = || {
        let mut job = Job::new(60_000);
        for sample in 0..6_u64 {
            let from = 900 + sample * 50;
            job.read(
                used(2, &format!("/data/{sample}.tar"), from, from + 40),
                MIB,
            );
        }
        job.read(used(2, "/data/next.tar", 2_010, 2_050), MIB);
        job.write(used(1, "/out/step_1.ckpt", 1_000, 2_000), MIB, 0);
        job
    };
    let save = &queue().analysis().checkpoints[0];
    assert_eq!(save.training_stopped, Some(true));
    assert_eq!(save.training_pause_ns.map(|ns| ns / 1_000_000), Some(820));
    // Of a file that was used all the time only the first and the last read are known.
    let mut with_long_file = queue();
    with_long_file.read(used(3, "/data/long.tar", 950, 9_000), MIB);
    assert_eq!(
        with_long_file.analysis().checkpoints[0].training_stopped,
        None
    );
    // A worker that kept its file open over a save may have read or not.
    let mut job = Job::new(60_000);
    job.read(used(2, "/data/shard-0.tar", 100, 5_000), MIB);
    job.write(used(1, "/out/step_1.ckpt", 1_000, 2_000), MIB, 0);
    assert_eq!(job.analysis().checkpoints[0].training_stopped, None);
}

#[test]
fn safetensors_that_are_read_are_a_load_and_no_save() {
    let mut job = Job::new(60_000);
    for part in 1..=3_u64 {
        let path = format!("/models/llama/model-0000{part}-of-00003.safetensors");
        job.read(used(1, &path, part * 100, part * 100 + 90), 100 * MIB);
    }
    let analysis = job.analysis();
    assert!(analysis.checkpoints.is_empty());
    let [load] = analysis.restores.as_slice() else {
        panic!("{:?}", analysis.restores)
    };
    assert_eq!(
        (load.files.len(), load.bytes, load.directory.as_slice()),
        (3, 300 * MIB, b"/models/llama".as_slice())
    );
}

#[test]
fn a_checkpoint_that_is_removed_later_ends_when_it_was_closed() {
    let mut job = Job::new(60_000);
    job.write(used(1, "/out/step_1.ckpt", 1_000, 1_200), MIB, 0);
    job.count(used(1, "/out/step_1.ckpt", 4_000, 4_100), &[(UNLINKS, 1)]);
    assert_eq!(saves(&job), [(1_000, 1_200, 1, MIB)]);
}

/// Reads ten files of a MiB each, from this millisecond on.
fn pass(job: &mut Job, from: u64) {
    for file in 0..10_u64 {
        let at = from + 2 * file;
        job.read(used(1, &format!("/data/train/{file}.tar"), at, at + 1), MIB);
    }
}

#[test]
fn of_three_passes_in_an_interval_the_first_and_the_last_divide_saves() {
    let mut job = Job::new(60_000);
    for file in 0..10 {
        job.file(&format!("/data/train/{file}.tar"), MIB);
    }
    for (name, from) in [("best", 200), ("last", 400)] {
        pass(&mut job, from - 100);
        job.write(
            used(1, &format!("/out/{name}_model.pth"), from, from + 80),
            MIB,
            0,
        );
    }
    pass(&mut job, 500);
    let found = job.analysis().checkpoints;
    assert_eq!(found.len(), 1, "when the second of three was is not known");
    assert!(!found[0].is_exact);
    job.flush(600);
    pass(&mut job, 700);
    job.write(used(1, "/out/best_model.pth", 800, 880), MIB, 0);
    pass(&mut job, 900);
    pass(&mut job, 1_000);
    job.write(used(1, "/out/last_model.pth", 1_100, 1_180), MIB, 0);
    // The second of these three may have been during a save, but the third was between them.
    assert_eq!(saves(&job).len(), 3);
}

/// How many saves there are of four files with numbers, which are written three times, and whether all are exact. The data
/// are read before each time, or `between` any two files.
fn in_rounds(reads: bool, between: bool) -> (usize, bool) {
    let mut job = Job::new(60_000);
    for file in 0..10 {
        job.file(&format!("/data/train/{file}.tar"), MIB);
    }
    for round in 0..3 {
        let from = 1_000 + round * 3_000;
        if reads {
            pass(&mut job, from - 100);
        }
        for number in 0..4 {
            let at = from + number * 200;
            job.write(
                used(1, &format!("/out/net_{number}.pt"), at, at + 100),
                MIB,
                0,
            );
            if between {
                pass(&mut job, at + 110);
            }
            job.flush(at + 150);
        }
    }
    let found = job.analysis().checkpoints;
    (found.len(), found.iter().all(|save| save.is_exact))
}

#[test]
fn files_with_numbers_that_are_written_in_rounds_are_one_save_unless_data_are_read_between_them() {
    assert_eq!(in_rounds(true, false), (3, true));
    // The steps of three trainings, perhaps.
    assert_eq!(in_rounds(false, false), (3, false));
    assert_eq!(in_rounds(true, true), (12, true));
}

/// Writes five files with numbers for 400 ms each. `pause`: milliseconds between two files; `reads`: whether the job reads data in
/// it. Returns the number of saves, and whether all are exact.
fn in_a_row(pause: u64, reads: bool) -> (usize, bool) {
    let mut job = Job::new(60_000);
    for file in 0..10 {
        job.file(&format!("/data/train/{file}.tar"), MIB);
    }
    for number in 0..5 {
        let at = 1_000 + number * (400 + pause);
        let path = format!("/out/model_{number}.pth");
        job.write(used(1, &path, at, at + 400), MIB, 0);
        if reads {
            let path = format!("/data/train/{number}.tar");
            job.read(used(1, &path, at + 402, at + 410), MIB);
        }
        job.flush(at + 400 + pause);
    }
    let found = job.analysis().checkpoints;
    (found.len(), found.iter().all(|save| save.is_exact))
}

#[test]
fn steps_that_are_saved_in_a_row_are_parts_unless_data_are_read_between_them() {
    assert_eq!(in_a_row(15, false), (1, true));
    assert_eq!(in_a_row(60, false), (1, false));
    assert_eq!(in_a_row(60, true), (5, true));
}

#[test]
fn files_that_are_saved_one_right_after_the_other_have_no_pass_between_them() {
    let mut job = Job::new(60_000);
    for file in 0..10 {
        job.file(&format!("/data/train/{file}.tar"), MIB);
    }
    for from in (100..=800).step_by(100) {
        pass(&mut job, from);
    }
    job.write(used(1, "/out/model.pth", 330, 360), MIB, 0);
    job.write(used(1, "/out/optimizer.pth", 360, 390), MIB, 0);
    let found = job.analysis().checkpoints;
    assert_eq!(found.len(), 1);
    assert!(found[0].is_exact);
}

/// A job whose process 1 writes two files for 100 ms each, with a pause of so many milliseconds between them.
fn after_a_pause(names: [&str; 2], pause: u64) -> Job {
    let mut job = Job::new(60_000);
    for (name, from) in names.into_iter().zip([1_000, 1_100 + pause]) {
        let path = format!("/out/{name}");
        job.file(&path, 4 * MIB);
        job.write(used(1, &path, from, from + 100), 4 * MIB, 0);
    }
    job
}

#[test]
fn the_best_and_the_final_model_are_two_saves() {
    for names in [
        ["checkpoint_best.pth", "checkpoint_final.pth"],
        ["best_model.zip", "final_model.zip"],
        ["valid.acc.best.pth", "valid.acc.ave.pth"],
    ] {
        let job = after_a_pause(names, 2_000);
        assert_eq!(
            saves(&job),
            [(1_000, 1_100, 1, 4 * MIB), (3_100, 3_200, 1, 4 * MIB)],
            "{names:?}"
        );
        let found = job.analysis().checkpoints;
        assert!(found.iter().all(|save| save.is_exact));
        // Written at once they are one, and after a short pause that is not known.
        for (pause, is_exact) in [(15, true), (200, false)] {
            let found = after_a_pause(names, pause).analysis().checkpoints;
            assert_eq!(found.len(), 1, "{names:?} {pause}");
            assert_eq!(found[0].is_exact, is_exact, "{names:?} {pause}");
        }
        // Unless training data were read meanwhile.
        let mut job = after_a_pause(names, 200);
        job.read(used(2, "/data/train/1.tar", 1_150, 1_250), MIB);
        assert_eq!(saves(&job).len(), 2, "{names:?}");
        // Workers that read all the time say nothing.
        for from in [1_020, 1_320] {
            let path = format!("/data/train/{from}.tar");
            job.read(used(2, &path, from, from + 60), MIB);
        }
        assert_eq!(saves(&job).len(), 1, "{names:?}");
    }
}

#[test]
fn a_step_and_the_last_state_are_two_saves_if_trained_between() {
    // For 1.5 s each, with a pause of 1.2 s.
    let job = |reads: &[u64]| {
        let mut job = Job::new(60_000);
        for (name, from) in [("step_150.pt", 10_000), ("last.pt", 12_700)] {
            job.write(
                used(1, &format!("/out/{name}"), from, from + 1_500),
                4 * MIB,
                0,
            );
        }
        for from in reads {
            let path = format!("/data/train/{from}.tar");
            job.read(used(1, &path, *from, from + 100), MIB);
        }
        saves(&job).len()
    };
    assert_eq!(job(&[9_000, 11_600, 12_000, 15_000]), 2);
    // Nobody trained, or workers read all the time.
    assert_eq!(job(&[9_000, 15_000]), 1);
    assert_eq!(job(&[9_000, 10_500, 11_600, 12_000, 13_000, 15_000]), 1);
}

#[test]
fn parts_of_one_state_are_one_save_after_a_pause() {
    for names in [
        ["model.safetensors", "optimizer.pt"],
        ["best_model.pt", "best_optimizer.pt"],
        ["model.pt", "model_ema.pt"],
        ["last.pt", "rng_state.pth"],
    ] {
        let job = after_a_pause(names, 2_000);
        assert_eq!(saves(&job), [(1_000, 3_200, 2, 8 * MIB)], "{names:?}");
    }
    // What other ranks write may be their parts of it, and what has another size is no such state.
    for (process, bytes) in [(2, 4 * MIB), (1, MIB)] {
        let mut job = Job::new(60_000);
        job.write(used(1, "/out/best.pt", 1_000, 1_100), 4 * MIB, 0);
        job.write(used(process, "/out/last.pt", 3_000, 3_100), bytes, 0);
        assert_eq!(saves(&job).len(), 1);
    }
}

/// A job that saves `/out/model.pt` from 1,000 to 1,010 ms and syncs its directory within a millisecond from `at` on.
fn with_directory_sync(at: u64) -> Job {
    let mut job = Job::new(60_000);
    let directory = directory(&mut job);
    job.write(used(1, "/out/model.pt", 1_000, 1_010), MIB, 1);
    let [from, to] = [at, at + 1].map(|ms| START_NS + ms * 1_000_000);
    let mut counters = Counters::ZERO;
    for (index, value) in [
        (OPENS, 1),
        (FSYNCS, 1),
        (LAST_SYNC, from),
        (FIRST_OPERATION, from),
        (LAST_OPERATION, to),
    ] {
        counters.v[index] = value;
    }
    job.model.add(id(1), Place::File(directory), &counters);
    job
}

#[test]
fn a_database_syncs_the_directory_of_a_save_for_itself() {
    let journal = "/out/study.db-journal";
    let saved = [(1_000, 2_501, 1, MIB)];
    assert_eq!(saves(&with_directory_sync(2_500)), saved);
    let mut job = with_directory_sync(2_500);
    job.write(used(1, journal, 2_480, 2_490), 4_096, 1);
    assert_eq!(saves(&job), [(1_000, 1_010, 1, MIB)]);
    // Of several commits only the last sync of a file is known.
    let mut job = with_directory_sync(2_500);
    job.write(used(1, journal, 2_480, 2_490), 4_096, 1);
    job.write(used(1, journal, 4_480, 4_490), 4_096, 1);
    assert_eq!(saves(&job), [(1_000, 1_010, 1, MIB)]);
    // What it synced before the save, or in another directory, says nothing, and what follows a save at once is of it.
    for (path, at) in [(journal, 900), ("/db/study.db-journal", 2_480)] {
        let mut job = with_directory_sync(2_500);
        job.write(used(1, path, at, at + 10), 4_096, 1);
        assert_eq!(saves(&job), saved, "{path} {at}");
    }
    let mut job = with_directory_sync(1_022);
    job.write(used(1, journal, 1_011, 1_021), 4_096, 1);
    assert_eq!(saves(&job), [(1_000, 1_023, 1, MIB)]);
}

#[test]
fn an_adapter_beside_a_base_that_is_saved_once_is_a_save_each_time() {
    for (base, adapter) in [
        ("base_model.pt", "adapter.pt"),
        ("stage1_base.pt", "stage1_adapter.pt"),
    ] {
        let paths = [base, adapter].map(|name| format!("/out/{name}"));
        let [base, adapter] = paths.each_ref();
        let mut job = Job::new(60_000);
        job.write(used(1, base, 1_000, 1_100), 40 * MIB, 0);
        for from in [1_400, 1_700, 2_000] {
            pass(&mut job, from - 100);
            job.write(used(1, adapter, from, from + 10), MIB, 0);
            job.flush(from + 50);
        }
        assert_eq!(
            saves(&job),
            [
                (1_000, 1_100, 1, 40 * MIB),
                (1_400, 1_410, 1, MIB),
                (1_700, 1_710, 1, MIB),
                (2_000, 2_010, 1, MIB)
            ],
            "{adapter}"
        );
        let found = job.analysis().checkpoints;
        assert!(found.iter().all(|save| save.is_exact));
    }
}

#[test]
fn what_is_small_beside_a_model_is_of_its_save() {
    // A scheduler, after a pause; what another rank writes, when it is ready; and a description, whatever is read meanwhile.
    for (name, process, pause, reads, is_exact) in [
        ("scheduler.pt", 1, 20, false, true),
        ("scheduler.pt", 1, 400, false, false),
        ("rng_state_1.pth", 2, 900, true, true),
        ("trainer_state.json", 1, 900, true, true),
    ] {
        let path = format!("/out/{name}");
        let mut job = Job::new(60_000);
        job.write(used(1, "/out/model.pt", 1_000, 1_100), 40 * MIB, 0);
        let from = 1_100 + pause;
        job.write(used(process, &path, from, from + 1), 1_000, 0);
        if reads {
            pass(&mut job, 1_200);
        }
        let found = job.analysis().checkpoints;
        assert_eq!(found.len(), 1, "{name}");
        assert_eq!(found[0].files.len(), 2, "{name}");
        assert_eq!(found[0].is_exact, is_exact, "{name} {pause}");
    }
    // Of a step it is the part, and in the directory of a step.
    for paths in [
        ["/out/model_5.pt", "/out/scheduler_5.pt"],
        ["/out/step-5/model.pt", "/out/step-5/scheduler.pt"],
    ] {
        let mut job = Job::new(60_000);
        job.write(used(1, paths[0], 1_000, 1_100), 40 * MIB, 0);
        job.write(used(1, paths[1], 2_000, 2_001), 1_000, 0);
        assert_eq!(saves(&job).len(), 1, "{paths:?}");
    }
}

#[test]
fn files_named_by_step_and_rank_are_one_save_of_all_ranks() {
    let mut job = Job::new(60_000);
    for (step, from) in [(100, 1_000), (200, 2_000), (300, 3_000)] {
        for rank in 0..2_u32 {
            let path = format!("/out/ckpt_{step}_{rank}.pt");
            let from = from + u64::from(rank) * 8;
            job.write(used(1 + rank, &path, from, from + 50), MIB, 0);
        }
    }
    let expected = [1_000, 2_000, 3_000].map(|from| (from, from + 58, 2, 2 * MIB));
    assert_eq!(saves(&job), expected);
    // The same of one rank, with the model beside its state.
    let mut job = Job::new(60_000);
    for (step, from) in [(500, 1_000), (1_000, 2_000), (1_500, 3_000)] {
        let [model, state] = [
            format!("/out/model_{step:08}.bin"),
            format!("/out/state_{step:08}_00000.bin"),
        ];
        job.write(used(1, &model, from, from + 20), MIB, 0);
        job.write(used(1, &state, from + 20, from + 58), 2 * MIB, 0);
    }
    let expected = [1_000, 2_000, 3_000].map(|from| (from, from + 58, 2, 3 * MIB));
    assert_eq!(saves(&job), expected);
}

/// Saves of 1 MiB in turn, a second apart, of these names, each of all its files within 10 ms.
fn saves_in_turn(rounds: &[&[&str]]) -> usize {
    let mut job = Job::new(60_000);
    for (round, from) in rounds.iter().zip((1_000..).step_by(1_000)) {
        for (name, from) in round.iter().zip((from..).step_by(10)) {
            let path = format!("/out/{name}");
            job.write(used(1, &path, from, from + 10), MIB, 0);
        }
    }
    saves(&job).len()
}

#[test]
fn the_number_of_a_run_is_no_step() {
    for (rounds, count) in [
        // Files of steps in a directory of a run, and what is saved next to them.
        (
            &[
                &["7/model_0.pth"][..],
                &["7/model_1.pth"],
                &["7/model_2.pth"],
            ][..],
            3,
        ),
        (&[&["7/g_0.pt", "7/d_0.pt"], &["7/g_5.pt", "7/d_5.pt"]], 2),
        (&[&["7/m_1.pt", "7/last.pt"], &["7/m_2.pt", "7/last.pt"]], 2),
        // Parts of a step, and models of a step that have their own numbers within.
        (
            &[&["100/m_0.pt", "100/m_1.pt"], &["200/m_0.pt", "200/m_1.pt"]],
            2,
        ),
        (&[&["100/unet/m_0.pt", "100/vae/m_1.pt"]], 1),
    ] {
        assert_eq!(saves_in_turn(rounds), count, "{rounds:?}");
    }
}

#[test]
fn parts_with_numbers_are_one_save() {
    let layers = ["layer_0.pt", "layer_1.pt", "layer_2.pt"];
    let critics = ["critic1.pth", "critic2.pth", "actor.pth"];
    for (rounds, count) in [
        (&[&layers[..]; 3][..], 3),
        (&[&critics[..]; 3], 3),
        // Killed in the last one.
        (&[&layers[..], &layers, &layers[..2]], 3),
        (&[&["model_0.pt"][..], &["model_1.pt"], &["model_2.pt"]], 3),
        (&[&["consolidated.00.pth", "consolidated.01.pth"]], 1),
        // Two files in turn, and steps that follow at once.
        (
            &[
                &["slot_0.pt"],
                &["slot_1.pt"],
                &["slot_0.pt"],
                &["slot_1.pt"],
            ],
            4,
        ),
        (&[&["epoch_0.pt", "epoch_1.pt", "epoch_2.pt"]], 3),
        (&[&["model_500.pt", "model_1000.pt"]], 2),
    ] {
        assert_eq!(saves_in_turn(rounds), count, "{rounds:?}");
    }
}

#[test]
fn other_names_with_two_numbers_are_saves_of_their_own() {
    // Folds with several seeds, one after the other; steps of an epoch; batches of an epoch.
    for names in [
        ["fold0_seed1", "fold0_seed2", "fold1_seed1", "fold1_seed2"],
        ["model_0_5", "model_0_10", "model_1_5", "model_1_10"],
        [
            "recovery-0-2",
            "recovery-1-2",
            "recovery-2-2",
            "recovery-3-2",
        ],
    ] {
        let mut job = Job::new(60_000);
        for (name, from) in names.iter().zip((1_000..).step_by(1_000)) {
            let path = format!("/out/{name}.pt");
            job.file(&path, MIB);
            job.write(used(1, &path, from, from + 50), MIB, 0);
        }
        assert_eq!(saves(&job).len(), 4, "{names:?}");
    }
}

#[test]
fn models_of_other_names_after_a_pause_may_be_of_other_saves() {
    let is_exact = |names: &[&str], pause: usize| {
        let mut job = Job::new(60_000);
        for (name, from) in names.iter().zip((1_000..).step_by(pause + 20)) {
            let path = format!("/out/{name}.pt");
            job.write(used(1, &path, from, from + 20), 8 * MIB, 0);
        }
        let found = job.analysis().checkpoints;
        assert_eq!(found.len(), 1);
        found[0].is_exact
    };
    let models = ["mlp", "cnn", "lstm"];
    assert!(is_exact(&models, 10));
    assert!(!is_exact(&models, 400) && !is_exact(&models, 1_500));
    // Weights in parts.
    assert!(is_exact(&["w-1-of-3", "w-2-of-3", "w-3-of-3"], 400));
    // A state of the same training, which was gathered meanwhile.
    assert!(is_exact(&["model", "optimizer"], 1_500));
    assert!(is_exact(&["optim_state", "model"], 1_500));
}

#[test]
fn when_two_models_are_saved_in_turns_is_not_known() {
    let [a, b] = ["/out/a.pth", "/out/b.pth"];
    let job = |in_turns: &[(&str, u64)]| {
        let mut job = Job::new(60_000);
        for (path, from) in in_turns {
            job.write(used(1, path, *from, *from + 6), MIB, 0);
            job.flush(*from + 10);
        }
        job.analysis().checkpoints
    };
    let found = job(&[(a, 1_000), (b, 1_400), (a, 1_700), (a, 2_400), (b, 2_500)]);
    let exact: Vec<_> = found.iter().map(|save| save.is_exact).collect();
    assert_eq!(exact, [false, true, false]);
    // Both are saved each time, or at once.
    for in_turns in [
        [(a, 1_000), (b, 1_400), (a, 2_700), (b, 3_000)].as_slice(),
        &[(a, 1_000), (b, 1_010), (a, 1_700), (a, 2_400), (b, 2_410)],
    ] {
        let found = job(in_turns);
        assert!(found.iter().all(|save| save.is_exact), "{in_turns:?}");
    }
}

#[test]
fn models_that_are_evaluated_one_by_one_are_a_load_each() {
    let mut job = Job::new(10_000);
    job.program(1, 0);
    job.file("/data/train-000.tar", 64 * MIB);
    for model in 0..3_u64 {
        let from = 1_000 + model * 1_000;
        let path = format!("/out/model_epoch{model}.pt");
        job.read(used(1, &path, from, from + 10), 8 * MIB);
        job.read(
            used(1, "/data/train-000.tar", from + 20, from + 500),
            64 * MIB,
        );
        job.flush(from + 600);
    }
    // The state to resume from is of the last model.
    job.read(used(1, "/out/optimizer.pt", 3_700, 3_720), 16 * MIB);
    let loads = job.analysis().restores;
    let found: Vec<_> = loads
        .iter()
        .map(|load| (ms(load.start), ms(load.end), load.files.len()))
        .collect();
    assert_eq!(
        found,
        [(1_000, 1_010, 1), (2_000, 2_010, 1), (3_000, 3_720, 2)]
    );
}

#[test]
fn a_load_ends_with_its_last_read_if_the_file_is_kept_open() {
    for (closed, end) in [(1_400, 1_400), (5_000, 1_100)] {
        let mut job = Job::new(10_000);
        job.program(1, 0);
        let file = job.file("/out/model_best.npz", 8 * MIB);
        let at = |ms: u64| START_NS + ms * 1_000_000;
        let mut counters = Counters::ZERO;
        for (index, value) in [
            (OPENS, 1),
            (CLOSES, 1),
            (READS, 8),
            (BYTES_READ, 8 * MIB),
            (FIRST_OPEN, at(1_000)),
            (LAST_OPEN, at(1_000)),
            (FIRST_READ, at(1_001)),
            (LAST_READ, at(1_100)),
            (FIRST_CLOSE, at(closed)),
            (LAST_CLOSE, at(closed)),
            (FIRST_OPERATION, at(1_000)),
            (LAST_OPERATION, at(closed)),
        ] {
            counters.v[index] = value;
        }
        job.model.add(id(1), Place::File(file), &counters);
        let loads = job.analysis().restores;
        assert_eq!((ms(loads[0].start), ms(loads[0].end)), (1_000, end));
    }
}
