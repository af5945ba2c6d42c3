//! Directories by what was done to them and below them: a tree of many files and directories is one line.

use std::collections::{BTreeMap, BTreeSet};

use crate::Report;
use iotrace_model::{IoTotals, counters::saturating_add, paths::parent};

/// Share of a directory's time from which on one directory below takes its place.
const MIN_SHARE: f64 = 0.5;
/// Directories that are split at most: deep trees are narrow.
const MAX_SPLITS: usize = 200;

/// What was done to a directory and to all below it.
#[derive(Clone, Debug, Default)]
pub struct Below {
    pub path: Vec<u8>,
    /// Regular files.
    pub files: u64,
    pub io: IoTotals,
}

/// A directory of the tree, by its index.
#[derive(Default)]
struct Node {
    sum: Below,
    /// Of itself, and of the files right in it.
    own_ns: u64,
    children: BTreeSet<usize>,
}

/// The places with the most time in calls, up to `count`: a directory that has most of its time in one directory below it
/// gives way to that one.
pub fn rollup(report: &Report<'_>, count: usize) -> Vec<Below> {
    // Of each directory itself, and of the files right in it.
    let mut own: BTreeMap<&[u8], (u64, IoTotals)> = BTreeMap::new();
    for file in report.files.iter().chain(&report.directories) {
        let of = report.model.file(file.file);
        if !of.path.starts_with(b"/") || file.io.ns == 0 {
            continue;
        }
        let directory = match of.is_directory() {
            true => of.path,
            false => or_root(parent(of.path)),
        };
        let (files, io) = own.entry(directory).or_default();
        *files += u64::from(!of.is_directory());
        io.add(&file.io);
    }
    let mut index: BTreeMap<&[u8], usize> = BTreeMap::new();
    let mut nodes: Vec<Node> = Vec::new();
    for (path, (files, io)) in own {
        let (mut below, mut directory) = (None, path);
        loop {
            let node = *index.entry(directory).or_insert_with(|| {
                let mut node = Node::default();
                node.sum.path = directory.to_vec();
                nodes.push(node);
                nodes.len() - 1
            });
            let sum = &mut nodes[node].sum;
            sum.files += files;
            sum.io.add(&io);
            match below.replace(node) {
                Some(below) => {
                    nodes[node].children.insert(below);
                }
                None => saturating_add(&mut nodes[node].own_ns, io.ns),
            }
            if directory == b"/" {
                break;
            }
            directory = or_root(parent(directory));
        }
    }
    let Some(root) = index.get(b"/".as_slice()) else {
        return Vec::new();
    };
    let mut places = vec![*root];
    for _ in 0..MAX_SPLITS {
        places.sort_by(|a, b| {
            let (a, b) = (&nodes[*a].sum, &nodes[*b].sum);
            b.io.ns.cmp(&a.io.ns).then_with(|| a.path.cmp(&b.path))
        });
        let shown = places.len().min(count);
        let Some(at) = places[..shown]
            .iter()
            .position(|node| splits(&nodes, *node))
        else {
            break;
        };
        let node = places.swap_remove(at);
        places.extend(&nodes[node].children);
    }
    places.truncate(count);
    places
        .into_iter()
        .map(|node| nodes[node].sum.clone())
        .collect()
}

/// A directory's path, which [`parent`] has without a slash behind it.
fn or_root(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"/" } else { path }
}

/// Whether the directories below say more than the directory: few of its files lie right in it, and one directory below has
/// most of its time. The root says nothing at all.
fn splits(nodes: &[Node], node: usize) -> bool {
    let Node {
        sum,
        own_ns,
        children,
    } = &nodes[node];
    let times = children.iter().map(|child| nodes[*child].sum.io.ns);
    let most = times.max().unwrap_or(0);
    let is_shared = (*own_ns as f64) > sum.io.ns as f64 * (1.0 - MIN_SHARE) / 2.0;
    let is_root = sum.path == b"/";
    !children.is_empty() && (is_root || !is_shared && most as f64 >= sum.io.ns as f64 * MIN_SHARE)
}
