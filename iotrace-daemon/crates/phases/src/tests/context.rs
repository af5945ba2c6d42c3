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
    counters::{BYTES_READ, BYTES_WRITTEN, Counters, FIRST_READ, LAST_WRITE, OPENS, READS, WRITES},
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
