//! Copies through a pipe or a socket, as tar and rsync make them: one process reads a file, and another one writes what it read.

use std::collections::{BTreeSet, HashMap, HashSet};

use iotrace_model::{Model, paths::name};

use super::{MIN_INFERRED_BYTES, Use};

/// Time between the last read of a source and the first write of its copy, nanoseconds.
const MAX_PAUSE_NS: u64 = 1_000_000_000;

/// Uses by their last operation, by index.
type ByLastRead = BTreeSet<(u64, usize)>;

/// Finds uses that read a file, and those that wrote it elsewhere: as many bytes, under the same name, at the same time, by two
/// processes of other programs than the one that made the file in this run. `is_known`: ends of other copies.
pub fn pairs<'a>(
    model: &Model,
    uses: &'a [Use],
    is_known: impl Fn(&Use) -> bool,
) -> Vec<(&'a Use, &'a Use)> {
    let program = |one: &Use| model.processes()[one.process as usize].about.exe.as_slice();
    let key = |one: &Use, bytes: u64| (name(model.file(one.file).path), bytes);
    let mut makers: HashMap<u32, HashSet<&[u8]>> = HashMap::new();
    for one in uses.iter().filter(|one| one.amounts.bytes_written > 0) {
        makers.entry(one.file).or_default().insert(program(one));
    }
    let is_of_another = |one: &Use, source: u32| {
        let own = program(one);
        let makers = makers.get(&source);
        let makers = makers.filter(|makers| !own.is_empty() && !makers.contains(&b""[..]));
        makers.is_some_and(|makers| !makers.contains(own))
    };
    // By name and bytes.
    let mut sources: HashMap<(&[u8], u64), ByLastRead> = HashMap::new();
    for (index, one) in uses.iter().enumerate() {
        let bytes = one.amounts.bytes_read;
        if bytes >= MIN_INFERRED_BYTES && is_of_another(one, one.file) && !is_known(one) {
            let of_key = sources.entry(key(one, bytes)).or_default();
            of_key.insert((one.amounts.last_operation, index));
        }
    }
    let mut pairs = Vec::new();
    for target in uses.iter().filter(|one| !is_known(one)) {
        let amounts = &target.amounts;
        let Some(sources) = sources.get_mut(&key(target, amounts.bytes_written)) else {
            continue;
        };
        let from = amounts.first_operation.saturating_sub(MAX_PAUSE_NS);
        let found = sources.range((from, 0)..).find(|(_, index)| {
            let source = &uses[*index];
            source.amounts.first_operation <= amounts.last_operation
                && source.file != target.file
                && source.process != target.process
                && is_of_another(target, source.file)
        });
        if let Some(found) = found.copied() {
            sources.remove(&found);
            pairs.push((&uses[found.1], target));
        }
    }
    pairs
}
