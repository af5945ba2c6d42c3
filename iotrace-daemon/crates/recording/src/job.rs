//! The recordings of one job, of several nodes, in one model.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{Error, Recorded, meta::Meta, parts, reader::read_by};
use iotrace_model::{
    Model,
    run::{Run, TraceRun},
};

/// One node of a job.
#[derive(Debug)]
pub struct Node {
    pub directory: PathBuf,
    pub run: Run,
    /// Directories whose recorder did not end well.
    pub incomplete: Vec<PathBuf>,
}

impl Node {
    /// Whether all that was to be recorded was.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }
}

/// A job: one recording, or those of its nodes.
pub struct Job {
    pub model: Model,
    /// Of the job as a whole.
    pub run: Run,
    pub nodes: Vec<Node>,
}

/// Reads the recordings in `directories` as one job. Moments are by each host's own wall clock, as it stood when its
/// recording began.
pub fn read_job(directories: &[PathBuf]) -> Result<Job, Error> {
    read_job_and_tell(directories, |_, _| ())
}

/// As [`read_job`]; `tell` is told how many parts are read, of how many.
pub fn read_job_and_tell(
    directories: &[PathBuf],
    mut tell: impl FnMut(usize, usize),
) -> Result<Job, Error> {
    let metas: Vec<Meta> = directories
        .iter()
        .map(|path| Meta::read(path))
        .collect::<Result<_, _>>()?;
    let runs: Vec<&Run> = metas.iter().map(|meta| &meta.run).collect();
    let of_nodes = of_nodes(directories, &runs)?;
    // The clock that began first: no moment lies before it.
    let clock = runs
        .iter()
        .map(|run| run.clock)
        .min_by_key(|clock| clock.realtime_minus_monotonic_ns);
    let (mut done, mut all) = (0, 0);
    for (directory, meta) in directories.iter().zip(&metas) {
        all += parts::names(directory, &meta.parts)?.len();
    }
    let mut read_one = || {
        done += 1;
        tell(done, all);
    };
    let mut recorded = Vec::new();
    for directories in &of_nodes {
        let clock = (of_nodes.len() > 1).then_some(clock.as_ref()).flatten();
        let (first, later) = (directories[0], &directories[1..]);
        recorded.push(read_by(first, later, clock, &mut read_one)?);
    }
    if recorded.len() == 1
        && let Some(Recorded {
            model,
            run,
            incomplete,
        }) = recorded.pop()
    {
        let nodes = vec![Node {
            directory: of_nodes[0][0].to_owned(),
            run: run.clone(),
            incomplete,
        }];
        return Ok(Job { model, run, nodes });
    }
    let clock = clock.unwrap_or_default();
    let mut model = Model::read_back();
    let mut nodes = Vec::new();
    for (index, (one, directories)) in recorded.into_iter().zip(&of_nodes).enumerate() {
        let own = one.run.clock;
        model.append(one.model, index as u32, |start| {
            let unix = own.unix_ns_of_boottime(start);
            u64::try_from(unix - clock.realtime_minus_boottime_ns)
                .unwrap_or(1)
                .max(1)
        });
        nodes.push(Node {
            directory: directories[0].to_owned(),
            run: one.run,
            incomplete: one.incomplete,
        });
    }
    let mut run = whole(&nodes);
    run.clock = clock;
    Ok(Job { model, run, nodes })
}

/// The recordings of each node, in the order of time. Several of one node are logs of one unit: each
/// start of the service, and each day, begins another one.
fn of_nodes<'a>(directories: &'a [PathBuf], runs: &[&Run]) -> Result<Vec<Vec<&'a Path>>, Error> {
    let mut nodes: Vec<Vec<(&Run, &Path)>> = Vec::new();
    for (directory, run) in directories.iter().zip(runs) {
        let is_of = |node: &&mut Vec<(&Run, &Path)>| {
            let first = node[0].0;
            (&first.boot_id, &first.host) == (&run.boot_id, &run.host)
        };
        match nodes.iter_mut().find(is_of) {
            Some(node) => node.push((run, directory)),
            None => nodes.push(vec![(run, directory)]),
        }
    }
    for node in &mut nodes {
        node.sort_by_key(|(run, _)| run.start_unix_ns);
        for pair in node.windows(2) {
            let [(run, first), (next, second)] = [pair[0], pair[1]];
            if !run.may_go_on(next) {
                return Err(Error::SameNode {
                    host: run.host.clone(),
                    first: first.into(),
                    second: second.into(),
                });
            }
        }
    }
    let nodes = nodes.into_iter();
    Ok(nodes
        .map(|node| node.into_iter().map(|(_, path)| path).collect())
        .collect())
}

/// The run of all nodes: from the first start to the last end.
fn whole(nodes: &[Node]) -> Run {
    let mut runs = nodes.iter().map(|node| &node.run);
    let Some(first) = runs.next() else {
        unreachable!("a job has nodes");
    };
    let mut whole = first.clone();
    let mut end = first.end_unix_ns();
    for run in runs {
        whole.host = format!("{}, {}", whole.host, run.host);
        whole.start_unix_ns = whole.start_unix_ns.min(run.start_unix_ns);
        end = end.max(run.end_unix_ns());
        for (own, others) in [
            (&mut whole.kernel, &run.kernel),
            (&mut whole.hook, &run.hook),
            (&mut whole.detail, &run.detail),
            (&mut whole.iotrace_version, &run.iotrace_version),
        ] {
            if !own.split(", ").any(|known| known == others) {
                *own = format!("{own}, {others}");
            }
        }
        // What failed on one node failed.
        whole.exit_code = whole.exit_code.max(run.exit_code);
        whole.memory_bytes = whole.memory_bytes.min(run.memory_bytes);
        whole.room_bytes = intersection(&whole.room_bytes, &run.room_bytes);
        if run.clock_step_ns.abs() > whole.clock_step_ns.abs() {
            whole.clock_step_ns = run.clock_step_ns;
        }
        add_trace(&mut whole.trace, run.trace.as_ref());
        whole.add_losses(run);
    }
    whole.duration_ns = u64::try_from(end - whole.start_unix_ns).unwrap_or(0);
    whole
}

/// Adds up the operation traces of nodes.
fn add_trace(sum: &mut Option<TraceRun>, one: Option<&TraceRun>) {
    let Some(one) = one else { return };
    let Some(sum) = sum else {
        *sum = Some(one.clone());
        return;
    };
    sum.operations += one.operations;
    sum.bytes += one.bytes;
    sum.parts += one.parts;
    sum.missing.extend(&one.missing);
}

/// Room on the mounts that both nodes have: the smaller one.
fn intersection(a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let both = a
        .iter()
        .filter_map(|(point, room)| Some((point.clone(), *room.min(b.get(point)?))));
    both.collect()
}
