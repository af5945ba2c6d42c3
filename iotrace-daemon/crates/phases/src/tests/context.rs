//! What only the run tells: files that may be weights or data, sorted by what was done with them.

use iotrace_common::key::FileId;

use super::named;
use crate::{
    Classifier,
    context::{Reason, Sorted, sort},
    copies::Copies,
    phase::{Class, Direction, Phase},
};
use iotrace_model::{
    Model,
    counters::*,
    input::{Place, ProcessId},
    run::Clock,
};

const SIZE: u64 = 1 << 20;

fn file(inode: u64) -> FileId {
    FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode,
    }
}

/// A model of files of 1 MiB, of which one process read and wrote so many bytes.
fn used(files: &[(&str, u64, u64)]) -> Model {
    let mut model = Model::default();
    for (inode, (path, read, written)) in files.iter().enumerate() {
        let id = file(inode as u64);
        model.event(named(id, path, SIZE));
        let mut counters = Counters::ZERO;
        counters.v[OPENS] = 1;
        (counters.v[READS], counters.v[BYTES_READ]) = (read.div_ceil(SIZE), *read);
        (counters.v[WRITES], counters.v[BYTES_WRITTEN]) = (written.div_ceil(SIZE), *written);
        counters.v[LAST_WRITE] = u64::from(*written > 0);
        counters.v[MAX_BYTE_WRITTEN] = if *written > 0 { SIZE - 1 } else { 0 };
        counters.v[FIRST_READ] = 2 * u64::from(*read > 0);
        model.add(ProcessId { pid: 1, start: 1 }, Place::File(id), &counters);
    }
    model
}

fn sorted(files: &[(&str, u64, u64)]) -> Vec<Sorted> {
    let model = used(files);
    sort(
        &model,
        Classifier::builtin(),
        &Copies::of(&model, Clock::default()),
    )
}

#[test]
fn a_weight_file_read_once_is_a_load_and_read_twice_is_data() {
    let files = sorted(&[("/x/tensors.pt", SIZE, 0), ("/y/tensors.pt", 2 * SIZE, 0)]);
    assert_eq!(files[0].phase(Direction::Read), Phase::Restore);
    assert_eq!(files[0].reasons[0], None);
    assert_eq!(files[1].phase(Direction::Read), Phase::Training);
    assert_eq!(files[1].reasons[0], Some(Reason::ReadAgain));
}

#[test]
fn data_in_a_place_of_weights_are_told_by_how_often_they_are_read() {
    let of = |path, passes| {
        let files = sorted(&[(path, passes * SIZE, 0)]);
        files[0].phase(Direction::Read)
    };
    assert_eq!(of("/w/pretrain/shard_000.npy", 2), Phase::Restore);
    assert_eq!(of("/w/pretrain/shard_000.npy", 3), Phase::Training);
    assert_eq!(of("/w/pretrain/net.pt", 3), Phase::Restore);
    assert_eq!(of("/w/pairs_final.h5", 2), Phase::Restore);
    assert_eq!(of("/w/pairs_final.h5", 3), Phase::Training);
    assert_eq!(of("/w/model_final.pt", 3), Phase::Restore);
}

#[test]
fn a_file_system_that_is_called_data_may_have_saves() {
    let of = |path, read, written| {
        let file = sorted(&[(path, read, written)])[0];
        [Direction::Read, Direction::Write].map(|direction| file.phase(direction))
    };
    let saved = [Phase::Restore, Phase::Checkpoint];
    assert_eq!(of("/data/user/out/net.pt", SIZE, 3 * SIZE), saved);
    let made = of("/scratch/data/out/net.pt", SIZE, 3 * SIZE);
    assert_eq!(made[0], Phase::Training);
    assert_ne!(made[1], Phase::Checkpoint);
    assert_eq!(of("/data/user/data/net.pt", SIZE, 3 * SIZE), made);
    // What the run did not write is data.
    assert_eq!(of("/data/user/out/net.pt", SIZE, 0)[0], Phase::Training);
}

#[test]
fn numbered_files_that_nobody_reads_are_saves_whatever_they_are_called() {
    let written = |path| (path, 0, SIZE);
    let rounds = ["/x/graph_0.pt", "/x/graph_1.pt", "/x/graph_2.pt"].map(written);
    let in_directories = ["/x/0/graph.pt", "/x/1/graph.pt"].map(written);
    for files in [&rounds[..], &in_directories] {
        for file in sorted(files) {
            assert_eq!(file.phase(Direction::Write), Phase::Checkpoint);
        }
    }
    // The last one was loaded.
    let files = [rounds[0], rounds[1], ("/x/graph_2.pt", SIZE, SIZE)];
    assert_eq!(sorted(&files)[2].phase(Direction::Write), Phase::Checkpoint);
    // Data that were made once, and read.
    let files = ["/x/graph_0.pt", "/x/graph_1.pt"].map(|path| (path, SIZE, SIZE));
    for file in sorted(&files) {
        assert_ne!(file.phase(Direction::Write), Phase::Checkpoint);
    }
}

#[test]
fn many_of_a_kind_are_data() {
    let paths: Vec<String> = (0..16)
        .map(|index| format!("/x/sample_{index}.pkl"))
        .collect();
    let mut files: Vec<_> = paths.iter().map(|path| (path.as_str(), SIZE, 0)).collect();
    assert!(
        sorted(&files)
            .iter()
            .all(|file| file.reasons[0] == Some(Reason::Family))
    );
    files.pop();
    assert!(
        sorted(&files)
            .iter()
            .all(|file| file.phase(Direction::Read) == Phase::Restore)
    );
}

#[test]
fn arrays_that_were_all_made_before_the_first_is_read_are_samples() {
    let paths: Vec<String> = (0..16).map(|index| format!("/x/{index}.npz")).collect();
    let files: Vec<_> = paths
        .iter()
        .map(|path| (path.as_str(), SIZE, SIZE))
        .collect();
    let phases = |model: &Model| {
        let sorted = sort(
            model,
            Classifier::builtin(),
            &Copies::of(model, Clock::default()),
        );
        [Direction::Read, Direction::Write].map(|direction| sorted[0].phase(direction))
    };
    let samples = [Phase::Training, Phase::Other(Some(Class::Cache))];
    let model = [Phase::Restore, Phase::Checkpoint];
    assert_eq!(phases(&used(&files)), samples);
    assert_eq!(phases(&used(&files[..15])), model);
    let mut one_later = used(&files);
    let mut counters = Counters::ZERO;
    (counters.v[WRITES], counters.v[LAST_WRITE]) = (1, 3);
    one_later.add(
        ProcessId { pid: 1, start: 1 },
        Place::File(file(5)),
        &counters,
    );
    assert_eq!(phases(&one_later), model);
}

#[test]
fn shards_that_this_run_wrote_and_reads_as_data_are_no_checkpoint() {
    let paths: Vec<String> = (0..16)
        .map(|index| format!("/x/shard-{index}.bin"))
        .collect();
    let files: Vec<_> = paths
        .iter()
        .map(|path| (path.as_str(), 4 * SIZE, SIZE))
        .collect();
    for file in sorted(&files) {
        assert_eq!(file.phase(Direction::Read), Phase::Training);
        assert_eq!(
            file.phase(Direction::Write),
            Phase::Other(Some(Class::Cache))
        );
        assert_eq!(file.reasons, [Some(Reason::Family), Some(Reason::Prepared)]);
    }
    let alone = sorted(&files[..1]);
    assert_eq!(
        alone[0].phase(Direction::Write),
        Phase::Checkpoint,
        "one file may be a model that is loaded again"
    );
    assert_eq!(alone[0].phase(Direction::Read), Phase::Restore);
}

#[test]
fn one_of_many_samples_that_nobody_reads_is_no_checkpoint() {
    let written_as = |name: &dyn Fn(u32) -> String, count| {
        let paths: Vec<String> = (0..count).map(name).collect();
        let files: Vec<_> = paths.iter().map(|path| (path.as_str(), 0, SIZE)).collect();
        sorted(&files)[0].phase(Direction::Write)
    };
    let sample = Phase::Other(Some(Class::Cache));
    let latents = |index| format!("/x/out/Latent_{index:04}.pt");
    let of_dataset = |index| format!("/x/dataset_256/{index:04}.pt");
    assert_eq!(written_as(&latents, 16), sample);
    assert_eq!(written_as(&of_dataset, 16), sample);
    assert_eq!(written_as(&latents, 15), Phase::Checkpoint);
    let of_tokens = |index| format!("/x/tok/shard_{index:05}.bin");
    assert_eq!(written_as(&of_tokens, 16), sample);
    for models in [
        &|index| format!("/x/out/shard_{index:05}.bin") as String,
        &|index| format!("/x/out/generator_{index:04}.pt"),
        &|index| format!("/x/out/{index:04}.pt"),
        &|index| format!("/x/dataset_256/net_{index}.pt"),
        &|index| format!("/x/out/sampler_{index}.pt"),
        &|index| format!("/x/out/sample_epoch_{index}.pth"),
    ] as [&dyn Fn(u32) -> String; 6]
    {
        assert_eq!(written_as(models, 40), Phase::Checkpoint, "{}", models(7));
    }
}

#[test]
fn what_no_rule_knows_is_data_where_it_is_read_as_data() {
    let read_as = |count: u32, passes: u64, written: u64| {
        let paths: Vec<String> = (0..count)
            .map(|index| format!("/x/f/{index:04}.raw"))
            .collect();
        let files: Vec<_> = paths
            .iter()
            .map(|path| (path.as_str(), passes * SIZE, written))
            .collect();
        sorted(&files)[0].phase(Direction::Read)
    };
    assert_eq!(read_as(16, 2, 0), Phase::Training);
    for (count, passes, written) in [(15, 2, 0), (16, 1, 0), (16, 2, SIZE)] {
        let phase = read_as(count, passes, written);
        assert_eq!(phase, Phase::UNMATCHED, "{count} {passes} {written}");
    }
}

#[test]
fn what_is_made_of_each_sample_is_no_checkpoint() {
    let written_as = |stem: &dyn Fn(u32) -> String, count: u32| {
        let samples = (0..count).map(|index| (format!("/x/wavs/LJ-{index}.wav"), SIZE, 0));
        let made = (0..count).map(|index| (format!("/x/out/{}.pt", stem(index)), 0, SIZE));
        let files: Vec<_> = samples.chain(made).collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, read, written)| (path.as_str(), *read, *written))
            .collect();
        sorted(&files)[count as usize].phase(Direction::Write)
    };
    let sample = Phase::Other(Some(Class::Cache));
    assert_eq!(written_as(&|index| format!("LJ-{index}"), 4), sample);
    // Too few to tell, and models that are called otherwise.
    for (name, count) in [("LJ-", 3), ("net-", 40)] {
        let found = written_as(&|index| format!("{name}{index}"), count);
        assert_eq!(found, Phase::Checkpoint, "{name}");
    }
}

#[test]
fn what_is_made_of_each_sample_and_read_again_is_data() {
    let phases = |made: &str| {
        let samples = (0..4).map(|index| (format!("/x/wavs/LJ-{index}.wav"), SIZE, 0));
        let made = (0..4).map(|index| (format!("/x/cache/{made}-{index}.pt"), 2 * SIZE, SIZE));
        let files: Vec<_> = samples.chain(made).collect();
        let files = files.iter();
        let files: Vec<_> = files
            .map(|(path, read, written)| (path.as_str(), *read, *written))
            .collect();
        Direction::ALL.map(|direction| sorted(&files)[4].phase(direction))
    };
    let sample = Phase::Other(Some(Class::Cache));
    assert_eq!(phases("LJ"), [Phase::Training, sample]);
    assert_eq!(phases("net"), [Phase::Restore, Phase::Checkpoint]);
}

#[test]
fn megatron_bin_with_an_index_beside_it_is_data() {
    let files = sorted(&[
        ("/x/corpus.bin", SIZE, 0),
        ("/x/corpus.idx", SIZE, 0),
        ("/x/lone.bin", SIZE, 0),
    ]);
    assert_eq!(files[0].reasons[0], Some(Reason::Index));
    assert_eq!(files[0].phase(Direction::Read), Phase::Training);
    assert_eq!(files[2].phase(Direction::Read), Phase::Restore);
}

#[test]
fn an_h5_file_that_this_run_saved_is_a_load_where_it_is_read_back() {
    let files = sorted(&[("/x/run.h5", SIZE, SIZE), ("/x/events.h5", SIZE, 0)]);
    assert_eq!(files[0].reasons[0], Some(Reason::SavedHere));
    assert_eq!(files[0].phase(Direction::Read), Phase::Restore);
    assert_eq!(files[0].phase(Direction::Write), Phase::Checkpoint);
    assert_eq!(files[1].phase(Direction::Read), Phase::Training);
}

/// Phases of the reads and the writes of a file of 1 MiB that one process used so: when, in milliseconds, whether it wrote, read or
/// mapped it, and how long.
fn phases_of(path: &str, uses: &[(u64, char, u64)]) -> [Phase; 2] {
    const MS: u64 = 1_000_000;
    let mut model = Model::with_spans();
    let (process, id) = (ProcessId { pid: 1, start: 1 }, file(1));
    model.event(named(id, path, 0));
    for (number, (at, what, length)) in (1..).zip(uses) {
        let mut counters = Counters::ZERO;
        let v = &mut counters.v;
        let (first, last) = (at * MS, (at + length) * MS);
        v[OPENS] = 1;
        (v[FIRST_OPERATION], v[LAST_OPERATION]) = (first, last);
        match what {
            'w' => {
                (v[WRITES], v[BYTES_WRITTEN], v[MAX_BYTE_WRITTEN]) = (1, SIZE, SIZE - 1);
                (v[FIRST_WRITE], v[LAST_WRITE]) = (first, last);
            }
            'r' => {
                (v[READS], v[BYTES_READ], v[MAX_BYTE_READ]) = (1, SIZE, SIZE - 1);
                (v[FIRST_READ], v[LAST_READ]) = (first, last);
            }
            _ => v[MMAPS] = 1,
        }
        model.add(process, Place::File(id), &counters);
        model.add_span(process, id, number, &counters);
    }
    let copies = Copies::of(&model, Clock::default());
    let sorted = sort(&model, Classifier::builtin(), &copies);
    Direction::ALL.map(|direction| sorted[0].phase(direction))
}

#[test]
fn what_is_written_once_and_then_read_slowly_or_many_times_is_data() {
    let data = [Phase::Training, Phase::Other(Some(Class::Cache))];
    let model = [Phase::UNMATCHED, Phase::Checkpoint];
    let uses = |what, count: u64, length| -> Vec<(u64, char, u64)> {
        let used = (1..=count).map(|index| (index * 1_000, what, length));
        [(0, 'w', 100)].into_iter().chain(used).collect()
    };
    // How often, milliseconds of each time.
    for (what, count, length, phases) in [
        ('r', 3, 800, data),
        ('r', 2, 800, model),
        ('r', 15, 100, model),
        ('r', 16, 100, data),
        ('m', 15, 800, model),
        ('m', 16, 100, data),
    ] {
        let uses = uses(what, count, length);
        let found = phases_of("/x/ids.bin", &uses);
        assert_eq!(found, phases, "{what} {count} {length}");
        // What may have been saved as a model of another kind, and what is saved again, is a model.
        assert_eq!(phases_of("/x/ids.pt", &uses), model, "{what} {count}");
        let again = [uses, vec![(20_000, 'w', 100)]].concat();
        assert_eq!(phases_of("/x/ids.bin", &again), model, "{what} {count}");
    }
    assert_eq!(phases_of("/x/x.npz", &uses('r', 16, 100)), data);
    assert_eq!(phases_of("/x/x.npz", &uses('r', 4, 100)), model);
}

#[test]
fn data_that_were_made_once_are_known_by_their_names() {
    let cached = Phase::Other(Some(Class::Cache));
    let data = [Phase::Training, cached];
    let once: &[(u64, char, u64)] = &[(0, 'w', 100), (1_000, 'r', 100)];
    let again = [once, &[(2_000, 'w', 100)]].concat();
    for path in [
        "/x/dataset.pt",
        "/x/out/cora_dataset.pkl",
        "/x/graph.pkl",
        "/x/Cora_Graphs.pt",
        "/x/latents-0.pt",
        "/x/latents_256/0.pt",
        "/x/graph_data.bin",
        "/x/dataset.npz",
        "/x/token_cache/shard_00001.bin",
    ] {
        assert_eq!(phases_of(path, once), data, "{path}");
        let mapped = phases_of(path, &[(0, 'w', 100), (1_000, 'm', 100)]);
        assert_eq!(mapped, data, "{path}");
        assert_eq!(phases_of(path, &once[..1])[1], cached, "{path}");
        assert_eq!(phases_of(path, &once[1..])[0], Phase::Training, "{path}");
        // What is saved again and again is no data.
        let saved = phases_of(path, &again)[1];
        assert_eq!(saved, Phase::Checkpoint, "{path}");
    }
    for path in [
        "/x/model_data.pt",
        "/x/graph_net.pt",
        "/x/graph.pb",
        "/x/image_encoder.pt",
        "/x/dataset_model.bin",
        "/x/data.ckpt",
        "/x/latents_best.pt",
        "/x/checkpoint/data.pt",
        "/x/checkpoint-5/dataset.pt",
        "/x/global_step10/data/shard_0.pt",
        "/x/data_weights/shard_00001.bin",
        "/x/weights/shard_00001.bin",
        "/x/pytorch_model-00001-of-00003.bin",
        "/x/ckpt.data-00000-of-00001",
        "/x/__0_0.distcp",
    ] {
        assert_eq!(phases_of(path, once)[1], Phase::Checkpoint, "{path}");
        let read = phases_of(path, &once[1..])[0];
        assert_eq!(read, Phase::Restore, "{path}");
    }
}

#[test]
fn a_few_shards_that_were_made_before_they_are_read_again_are_data() {
    let phase = |directory: &str, count, passes| {
        let paths: Vec<String> = (0..count)
            .map(|index| format!("{directory}/shard_{index:05}.bin"))
            .collect();
        let files: Vec<_> = paths
            .iter()
            .map(|path| (path.as_str(), passes * SIZE, SIZE))
            .collect();
        [Direction::Read, Direction::Write].map(|direction| sorted(&files)[0].phase(direction))
    };
    let data = [Phase::Training, Phase::Other(Some(Class::Cache))];
    assert_eq!(phase("/x/out", 4, 2), data);
    // Weights in parts, which may be loaded again.
    for (directory, count, passes) in [("/x/out", 1, 4), ("/x/out", 4, 1), ("/x/weights", 4, 2)] {
        let found = phase(directory, count, passes)[1];
        assert_eq!(found, Phase::Checkpoint, "{directory} {count} {passes}");
    }
}

#[test]
fn what_is_mapped_by_its_writer_is_no_load() {
    let mapped = |uses: &[(u64, char, u64)]| phases_of("/x/model.safetensors", uses)[0];
    assert_eq!(mapped(&[(0, 'm', 1)]), Phase::Restore);
    assert_eq!(mapped(&[(0, 'w', 1), (500, 'm', 1)]), Phase::UNMATCHED);
    assert_eq!(mapped(&[(0, 'm', 1), (500, 'w', 1)]), Phase::Restore);
}

#[test]
fn a_cache_of_tensorflow_is_data_and_its_checkpoint_is_none() {
    let cache = "/x/samples.data-00000-of-00001";
    let unfinished = "/y/v1.samples_2.data-00000-of-00001.tempstate77";
    let checkpoint = "/x/samples-5.data-00000-of-00001";
    let index = "/x/samples.index";
    let files = sorted(&[
        (cache, SIZE, SIZE),
        (index, 4096, 4096),
        (unfinished, 0, SIZE),
        (checkpoint, 0, SIZE),
        ("/x/samples_0.lockfile", 0, 20),
        ("/y/v1.samples_2.lockfile", 0, 20),
    ]);
    for file in &files[..3] {
        assert_eq!(file.phase(Direction::Read), Phase::Training);
        let cached = Phase::Other(Some(Class::Cache));
        assert_eq!(file.phase(Direction::Write), cached);
    }
    assert_eq!(files[3].phase(Direction::Write), Phase::Checkpoint);
    // Without a lock it is not known.
    let files = sorted(&[(cache, SIZE, SIZE)]);
    assert_eq!(files[0].phase(Direction::Write), Phase::Checkpoint);
}
