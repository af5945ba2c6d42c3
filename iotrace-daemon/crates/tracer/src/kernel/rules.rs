//! The rules that sort files into phases, as the kernel programs walk them.

use aya::{
    Ebpf,
    maps::{Array, MapData},
};
use iotrace_common::{
    abi::maps::RULES,
    phases::{self, MAX_STARTS, Start},
};

use super::{KernelError, map_error, maps};
use iotrace_model::mounts;
use iotrace_phases::dfa::Table;

/// Leaves the rules out, for the benchmark that measures what they cost.
const UNSORTED: &str = "IOTRACE_BENCH_UNSORTED";

/// The programs' map.
pub type Rules = Array<MapData, phases::Table>;

/// Puts a table of rules into the programs' map, which must live until they are loaded, and behind it that of the paths
/// that are traced, where not all are.
pub fn put(ebpf: &mut Ebpf, rules: &Table, traced: Option<&Table>) -> Result<Rules, KernelError> {
    let refused = |error| map_error(RULES.name, "update", &error);
    let mut map = maps::take(ebpf, RULES)?;
    if let Some(traced) = traced {
        map.set(1, table(traced).as_ref(), 0).map_err(refused)?;
    }
    if std::env::var_os(UNSORTED).is_some() {
        return Ok(map);
    }
    // By reference: it is larger than a stack should hold.
    map.set(0, table(rules).as_ref(), 0).map_err(refused)?;
    Ok(map)
}

/// The same table in the programs' own layout.
fn table(rules: &Table) -> Box<phases::Table> {
    // SAFETY: integers only, for which zero is a valid value. It is larger than a stack frame should be.
    let mut table = unsafe { Box::<phases::Table>::new_zeroed().assume_init() };
    table.stride = rules.stride().into();
    table.classes = *rules.classes();
    for (label, from) in table.labels.iter_mut().zip(rules.labels()) {
        *label = *from;
    }
    for (said, from) in table.says.iter_mut().zip(rules.says()) {
        (said.sure, said.last) = (from.sure.bits(), from.last.bits());
    }
    for (entry, from) in table.next.iter_mut().zip(rules.next()) {
        *entry = *from;
    }
    for (start, from) in table.starts.iter_mut().zip(starts(rules)) {
        *start = from;
    }
    table
}

/// Where what is said of files stands, by magic number, of the filesystem types of which it does not stand first.
fn starts(rules: &Table) -> impl Iterator<Item = Start> {
    mounts::magics()
        .map(|(magic, name)| Start {
            magic,
            base: rules.base(mounts::family(name)).into(),
        })
        .filter(|start| start.base != 0)
}

// One is left to end the list.
const _: () = assert!(mounts::MAGIC_COUNT < MAX_STARTS);

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_phases::Classifier;

    #[test]
    fn nothing_of_the_built_in_rules_is_left_out() {
        let rules = Classifier::builtin().table();
        let table = table(rules);
        assert_eq!(table.next[..rules.next().len()], *rules.next());
        assert!(rules.labels().len() <= table.labels.len());
        assert!(rules.says().len() <= table.says.len());
        let proc = table.starts.iter().find(|start| start.magic == 0x9fa0);
        assert_eq!(
            proc.map(|start| start.base),
            Some(rules.base("proc").into())
        );
        assert!(table.starts.iter().all(|start| start.magic != 0xef53));
    }
}
