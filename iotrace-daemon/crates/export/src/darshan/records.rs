//! Which records a log has: one per rank and file, those that readers would not bear folded by directory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    job::{Mounts, add_mount},
    posix::Record,
    printable,
    ranks::Ranks,
};
use crate::Export;
use iotrace_model::{
    File, Row,
    counters::{BYTES_READ, BYTES_WRITTEN, Counters},
};

/// The records of a log.
#[derive(Default)]
pub struct Records {
    /// By rank and name.
    pub all: BTreeMap<(usize, String), Record>,
    pub ranks: Ranks,
    pub mounts: Mounts,
    /// Files that have no record of their own.
    pub folded: u64,
}

/// One process on one file.
struct Use<'a> {
    /// Its place among the export's processes, then its rank.
    rank: usize,
    row: &'a Row,
    name: String,
}

impl Records {
    /// The records of regular files, at most `most` (and one for each rank).
    pub fn new(export: &Export<'_>, most: usize) -> Self {
        let mut records = Self::default();
        let mut uses = Vec::new();
        let mut used = vec![false; export.processes().len()];
        for (place, row) in export.rows() {
            let file = export.model.file(row.file);
            if file.is_directory() || export.counters(row).is_none() {
                continue;
            }
            used[place] = true;
            let (mount_point, fs_type) = export.model.mount_of(&file);
            let mount_point = printable(&export.names.path(mount_point));
            add_mount(&mut records.mounts, &mount_point, fs_type);
            uses.push(Use {
                rank: place,
                row,
                name: name(export, &file),
            });
        }
        records.ranks = Ranks::new(export, &used);
        for one in &mut uses {
            // All that used a file have one.
            one.rank = records.ranks.of_place(one.rank).unwrap_or(0);
        }
        if records.mounts.is_empty() {
            add_mount(&mut records.mounts, "/", "unknown"); // without any, readers lose the command line
        }
        records.fold(&mut uses, most);
        for one in &uses {
            let block_size = export.model.file(one.row.file).block_size;
            if let Some(counters) = export.counters(one.row) {
                let key = (one.rank, one.name.clone());
                records
                    .all
                    .entry(key)
                    .or_default()
                    .add(&counters, block_size);
            }
        }
        records
    }

    /// Gives files the names of their directories, those with the fewest bytes first, until `most` names are left.
    fn fold(&mut self, uses: &mut [Use<'_>], most: usize) {
        if uses.len() <= most {
            return;
        }
        let weight = |one: &Use<'_>| {
            let Counters { v, .. } = one.row.cell.total();
            Reverse(v[BYTES_READ] + v[BYTES_WRITTEN])
        };
        uses.sort_by_cached_key(weight);
        let rest = &mut uses[most / 2..];
        let files: BTreeSet<u32> = rest.iter().map(|one| one.row.file).collect();
        self.folded = files.len() as u64;
        let deepest = rest.iter().map(|one| depth(&one.name)).max().unwrap_or(0);
        let fits = |depth: usize| {
            let names = rest
                .iter()
                .map(|one| (one.rank, directory(&one.name, depth)));
            names.collect::<BTreeSet<_>>().len() <= most - most / 2
        };
        // Deeper directories are more records.
        let mut depth = deepest;
        while depth > 0 && !fits(depth) {
            depth -= 1;
        }
        for one in rest {
            one.name = format!("{}/*", directory(&one.name, depth));
        }
    }
}

/// Directories that a path goes through.
fn depth(path: &str) -> usize {
    path.matches('/').count().saturating_sub(1)
}

/// The directory of a path, cut to so many components.
fn directory(path: &str, depth: usize) -> &str {
    let end = path.match_indices('/').map(|(at, _)| at);
    let last = path.rfind('/').unwrap_or(0);
    let cut = end.skip(1).nth(depth.saturating_sub(1)).unwrap_or(last);
    if depth == 0 {
        ""
    } else {
        &path[..cut.min(last)]
    }
}

/// The name of a file's record.
pub fn name(export: &Export<'_>, file: &File<'_>) -> String {
    if file.path.is_empty() {
        let device = file.id.device;
        return format!(
            "<unnamed {}:{}:{}>",
            device >> 20,
            device & 0xf_ffff,
            file.id.inode
        );
    }
    printable(&export.names.path(file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_cut_to_a_depth() {
        let path = "/data/train/a/x.npy";
        assert_eq!(depth(path), 3);
        assert_eq!(directory(path, 5), "/data/train/a");
        assert_eq!(directory(path, 3), "/data/train/a");
        assert_eq!(directory(path, 2), "/data/train");
        assert_eq!(directory(path, 1), "/data");
        assert_eq!(directory(path, 0), "");
        assert_eq!(directory("/x", 2), "");
        assert_eq!(directory("<unnamed 1:2:3>", 2), "");
    }
}
