//! Several models in one: the nodes of a job.
//!
//! Processes stay apart by their node. A file on a filesystem that nodes share is one file: one path there, with one
//! inode, is one, whatever device number each node has for it. All moments must be by one clock already.

use std::collections::HashMap;

use super::{FailureKey, Model, files::Files, mounts};

/// Filesystems that nodes share.
const SHARED_FILESYSTEMS: [&str; 10] = [
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "9p", "afs", "wekafs", "fuse",
];

impl Model {
    /// Adds what another model holds, as node number `node`; `start` converts the starts of its processes.
    pub fn append(&mut self, other: Self, node: u32, start: impl Fn(u64) -> u64) {
        let (processes, rows) = (self.processes.all().len() as u32, self.rows().len() as u32);
        let files = self.append_files(&other, node);
        if let (Some(history), Some(others)) = (&mut self.history, &other.history) {
            history.append(others, rows, processes);
        }
        for (key, count) in other.failures.all() {
            let place = key.place.map(|file| files[file as usize]);
            let process = key.process + processes;
            self.failures.add(
                FailureKey {
                    process,
                    place,
                    ..*key
                },
                count,
            );
        }
        for (process, path, count) in other.negative_lookups.all() {
            self.negative_lookups
                .add_at(process + processes, path, count);
        }
        self.global_merged.append(&other.global_merged, node);
        self.computing.append(&other.computing, node, processes);
        self.waits.append(other.waits, processes, &files);
        self.lines.append(other.lines, processes);
        self.sources.append(&other.sources);
        self.latencies.append(other.latencies, processes);
        self.block.append(other.block, node, processes, &files);
        if let (Some(spans), Some(others)) = (&mut self.spans, other.spans) {
            spans.append(others, processes, &files);
        }
        self.libraries
            .append(other.libraries, processes, |file| files[file as usize]);
        self.lacks_syncs |= other.lacks_syncs;
        self.io_totals.add(&other.io_totals);
        for process in other.processes.into_all() {
            self.processes.push(process, node, &start);
        }
        for row in other.rows.into_all() {
            self.rows
                .push(row.process + processes, files[row.file as usize], row.cell);
        }
        if self.mounts.len() <= node as usize {
            self.mounts
                .resize_with(node as usize + 1, mounts::Mounts::default);
        }
        if let Some(of_node) = other.mounts.into_iter().next() {
            self.mounts[node as usize] = of_node;
        }
        // Nothing of it waits for a flush: all intervals are settled where there is a history.
        self.settle_sums();
    }

    /// The files of another model: their indices here.
    fn append_files(&mut self, other: &Self, node: u32) -> Vec<u32> {
        let shared: HashMap<(Vec<u8>, u64), u32> = (0..self.file_count() as u32)
            .filter(|index| self.is_shared(*index))
            .map(|index| {
                let file = self.file(index);
                ((file.path.to_vec(), file.id.inode), index)
            })
            .collect();
        let all = 0..other.file_count() as u32;
        all.map(|index| {
            let file = other.file(index);
            let known = || shared.get(&(file.path.to_vec(), file.id.inode)).copied();
            let known = other.is_shared(index).then(known).flatten();
            known.unwrap_or_else(|| Files::push_from(&mut self.files, &other.files, index, node))
        })
        .collect()
    }

    /// Whether the file lies on a filesystem that other nodes have, too.
    pub fn is_shared(&self, index: u32) -> bool {
        let file = self.file(index);
        let (_, fs_type) = self.mount_of(&file);
        !file.path.is_empty() && SHARED_FILESYSTEMS.contains(&mounts::family(fs_type))
    }
}
