//! The nodes of a job, where a report is of several recordings.

use iotrace_common::diag;

use super::Report;
use iotrace_analysis::series::Flow;
use iotrace_model::{counters::saturating_add, run::RAW};
use iotrace_recording::Node;

/// What one node did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeSum {
    pub processes: u64,
    pub flow: Flow,
    /// Bytes of training files read, and of checkpoints written.
    pub training_read: u64,
    pub checkpoint_written: u64,
}

/// The remark on a run in which no file was used.
pub const NOTHING_RECORDED: &str = "Nothing was recorded: no traced process used a file.";

impl<'a> Report<'a> {
    /// The same report, of these nodes.
    pub fn of_nodes(mut self, nodes: &'a [Node]) -> Self {
        self.nodes = nodes;
        self
    }

    /// The same report, of a run whose recording could not be completed.
    pub fn cut(mut self) -> Self {
        self.is_cut = true;
        self
    }

    /// Whether a recording lacks its end: what is missing there, no count tells.
    pub(super) fn is_incomplete(&self) -> bool {
        self.is_cut || self.nodes.iter().any(|node| !node.is_complete())
    }

    /// Whether there are several nodes: one alone needs no mention.
    pub(super) fn has_nodes(&self) -> bool {
        self.nodes.len() > 1
    }

    /// The host of a node, where there are several.
    pub(super) fn host_of(&self, node: u32) -> Option<&str> {
        let node = self.nodes.get(node as usize)?;
        self.has_nodes().then_some(node.run.host.as_str())
    }

    /// What each node did.
    pub(super) fn node_sums(&self) -> Vec<NodeSum> {
        use iotrace_model::counters::{BYTES_READ, BYTES_WRITTEN};
        use iotrace_phases::phase::Phase;
        let mut sums = vec![NodeSum::default(); self.nodes.len()];
        for index in &self.process_order {
            let process = &self.model.processes()[*index as usize];
            let sum = &self.processes[*index as usize];
            let Some(node) = sums.get_mut(process.node as usize) else {
                continue;
            };
            node.processes += 1;
            node.flow.add(&Flow::of(&sum.sum.counters));
            let of = |phase: Phase, counter: usize| {
                sum.phases
                    .get(phase)
                    .map_or(0, |sum| sum.sum.counters.v[counter])
            };
            saturating_add(&mut node.training_read, of(Phase::Training, BYTES_READ));
            saturating_add(
                &mut node.checkpoint_written,
                of(Phase::Checkpoint, BYTES_WRITTEN),
            );
        }
        sums
    }

    /// Whether the clock was set while a node recorded, and whether nodes recorded at one time: what to say of it.
    pub(super) fn remarks(&self) -> Vec<String> {
        const MIN_CLOCK_STEP_NS: u64 = 100_000_000;
        let mut remarks = Vec::new();
        let one = [(self.run.host.as_str(), self.run, !self.is_cut)];
        let nodes: Vec<_> = match self.nodes {
            [] => one.to_vec(),
            nodes => nodes
                .iter()
                .map(|node| (node.run.host.as_str(), &node.run, node.is_complete()))
                .collect(),
        };
        for (host, run, is_complete) in &nodes {
            if run.hook == RAW {
                remarks.push(format!(
                    "The kernel of {host} has no type information (BTF): processes and operations are exact, and which file it was \
                     was told by following descriptors and by /proc. {} files were closed before they could be looked at and are \
                     known by the path that they were opened by, {} by nothing. Exit codes of killed processes are not known.",
                    run.losses.get(diag::FILES_BY_PATH).unwrap_or(&0),
                    run.losses.get(diag::FILES_NAMELESS).unwrap_or(&0),
                ));
            }
            let step = run.clock_step_ns;
            if step.unsigned_abs() >= MIN_CLOCK_STEP_NS {
                remarks.push(format!(
                    "The clock of {host} was set by {:+.3} s while it recorded: moments are by the clock as it stood at the start.",
                    step as f64 / 1e9
                ));
            }
            if !is_complete {
                remarks.push(format!("The recording of {host} is not complete: what came after its last flush is missing."));
            }
        }
        for (host, run, _) in &nodes {
            let is_apart = |other: &&(&str, &iotrace_model::run::Run, bool)| {
                run.start_unix_ns > other.1.end_unix_ns()
                    || other.1.start_unix_ns > run.end_unix_ns()
            };
            if nodes.len() > 1 && nodes.iter().filter(is_apart).count() == nodes.len() - 1 {
                remarks.push(format!(
                    "{host} recorded at another time than all other nodes: it is of another job, or a clock is wrong."
                ));
            }
        }
        if self.totals.counters.operations() == 0 && !self.is_selection() {
            remarks.push(NOTHING_RECORDED.into());
        }
        remarks
    }
}
