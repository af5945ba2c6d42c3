//! Programs that hand data to the main threads of a run: their workers, and tools that fill a pipe.

use std::collections::HashSet;

use iotrace_model::{
    Model, Process,
    groups::Groups,
    paths::name,
    waits::{Key, Leaf},
};

/// Programs that hand on what they read, often through a pipe to the one that trains. They do not train themselves.
const PIPE_TOOLS: [&str; 29] = [
    "aws", "azcopy", "bzip2", "cat", "curl", "dd", "ffmpeg", "gsutil", "gunzip", "gzip", "head",
    "lz4", "mbuffer", "nc", "pigz", "pv", "rclone", "s5cmd", "sox", "ssh", "tail", "tar", "tee",
    "unzip", "wget", "xz", "xzcat", "zcat", "zstd",
];

/// Programs and ranks, and whether their workers load data.
pub struct Workers<'a> {
    groups: &'a Groups,
    /// The first processes of those of which any process read data.
    readers: HashSet<u32>,
    /// Of those of which any used training data, by their names; and of those of which any read data or saved. In place of a
    /// pipe tool those that waited for it.
    pub(crate) with_samples: HashSet<u32>,
    pub(crate) with_data: HashSet<u32>,
    /// Of pipe tools, if any of them read data (`tee` may keep a log alone), and nobody else does.
    pipe_tools: HashSet<u32>,
}

impl<'a> Workers<'a> {
    /// Finds out who read data.
    pub fn new(model: &Model, groups: &'a Groups) -> Self {
        let mut workers = Self {
            groups,
            readers: groups.with(model, Process::reads_data),
            with_samples: groups.with(model, Process::uses_samples),
            with_data: groups.with(model, |process| process.reads_data() || process.saves()),
            pipe_tools: groups.with(model, is_pipe_tool),
        };
        let is_other = |process: &u32| !workers.pipe_tools.contains(process);
        if workers.with_samples.iter().any(is_other) {
            // The trainer reads its data itself. The tools pack them, or what it saves.
            for known in [&mut workers.with_samples, &mut workers.with_data] {
                known.retain(|process| !workers.pipe_tools.contains(process));
            }
            workers.pipe_tools.clear();
        } else if workers.pipe_tools.is_disjoint(&workers.readers) {
            workers.pipe_tools.clear();
        }
        workers.follow_pipes(model.waits().all().map(|(key, _)| key));
        workers
    }

    /// None that read data.
    #[cfg(test)]
    pub(crate) fn none(groups: &'a Groups) -> Self {
        Self {
            groups,
            readers: HashSet::new(),
            with_samples: HashSet::new(),
            with_data: HashSet::new(),
            pipe_tools: HashSet::new(),
        }
    }

    /// Puts those that waited for pipe tools in the place of these.
    fn follow_pipes<'k>(&mut self, waits: impl Iterator<Item = &'k Key>) {
        let is_tool = |process: u32| self.pipe_tools.contains(&self.groups.of(process));
        let takes = |key: &&Key| !is_tool(key.process) && key.by.is_some_and(is_tool);
        let takers = waits.filter(takes).map(|key| self.groups.of(key.process));
        let takers: HashSet<u32> = takers.collect();
        for known in [&mut self.with_samples, &mut self.with_data] {
            if !takers.is_empty() && !known.is_disjoint(&self.pipe_tools) {
                known.retain(|process| !self.pipe_tools.contains(process));
                known.extend(&takers);
            }
        }
    }

    /// A leaf as it is reported of the main thread of `process`: what its workers compute is the loader's whichever thread does
    /// it, unless none of them loads data, and so is what pipe tools compute; what others compute is theirs.
    pub fn reported(&self, process: u32, leaf: Leaf, by: Option<u32>) -> Leaf {
        let group = by.map(|by| self.groups.of(by));
        let is_tool = group.is_some_and(|group| self.pipe_tools.contains(&group));
        let loads = by == Some(process) || self.readers.contains(&process);
        let is_loader = is_tool || group == Some(process) && loads;
        match leaf {
            Leaf::Computing | Leaf::ComputeThreads if !is_loader => Leaf::Other,
            Leaf::ComputeThreads if by != Some(process) => Leaf::Computing,
            leaf => leaf,
        }
    }
}

/// Whether a process runs one of [`PIPE_TOOLS`].
fn is_pipe_tool(process: &Process) -> bool {
    let about = &process.about;
    let names = [name(&about.exe), &about.comm];
    PIPE_TOOLS
        .iter()
        .any(|tool| names.contains(&tool.as_bytes()))
}

#[cfg(test)]
mod tests {
    use iotrace_model::{About, input::ProcessId, waits::Waited};

    use super::*;

    const TRAINER: u32 = 0;
    const TOOL: u32 = 1;

    fn id(index: u32) -> ProcessId {
        ProcessId {
            pid: 100 + index,
            start: 1,
        }
    }

    /// A program that reads nothing, and `tool`, of which each waits for the other.
    fn model(tool: &str, bytes_read: u64) -> Model {
        let mut model = Model::default();
        for (index, exe) in [(TRAINER, "/usr/bin/python3"), (TOOL, tool)] {
            let about = About {
                exe: exe.into(),
                start_boottime: 1,
                ..About::default()
            };
            model.describe_process(id(index), about);
        }
        let read = iotrace_model::IoTotals {
            operations: 1,
            bytes_read,
            ..Default::default()
        };
        let training = iotrace_common::phases::code::TRAINING;
        if bytes_read > 0 {
            model.add_done(id(TOOL), training, &read);
        }
        for (process, by) in [(TRAINER, TOOL), (TOOL, TRAINER)] {
            model.add_waited(&Waited {
                process: id(process),
                leaf: Leaf::Computing,
                by: Some(id(by)),
                file: None,
                phase: 0,
                ns: 1,
            });
        }
        model
    }

    #[test]
    fn who_waits_for_a_pipe_tool_trains() {
        for tool in ["/usr/bin/cat", "/bin/gzip"] {
            let model = model(tool, 1 << 20);
            let groups = Groups::new(&model);
            let workers = Workers::new(&model, &groups);
            assert_eq!(workers.with_samples, [TRAINER].into());
            let leaf = |process, by| workers.reported(process, Leaf::Computing, Some(by));
            assert_eq!(leaf(TRAINER, TOOL), Leaf::Computing);
            assert_eq!(leaf(TOOL, TRAINER), Leaf::Other);
        }
        // Another program that reads data trains.
        let model = model("/opt/reader", 1 << 20);
        let groups = Groups::new(&model);
        assert_eq!(Workers::new(&model, &groups).with_samples, [TOOL].into());
    }

    #[test]
    fn a_pipe_tool_next_to_a_trainer_that_reads_is_no_loader() {
        let mut model = model("/bin/gzip", 1 << 20);
        let read = iotrace_model::IoTotals {
            operations: 1,
            bytes_read: 1 << 20,
            ..Default::default()
        };
        model.add_done(id(TRAINER), iotrace_common::phases::code::TRAINING, &read);
        let groups = Groups::new(&model);
        let workers = Workers::new(&model, &groups);
        assert_eq!(workers.with_samples, [TRAINER].into());
        let leaf = workers.reported(TRAINER, Leaf::Computing, Some(TOOL));
        assert_eq!(leaf, Leaf::Other);
    }

    #[test]
    fn a_pipe_tool_that_reads_no_data_is_no_loader() {
        let model = model("/usr/bin/tee", 0);
        let groups = Groups::new(&model);
        let workers = Workers::new(&model, &groups);
        assert!(workers.with_samples.is_empty());
        let leaf = workers.reported(TRAINER, Leaf::Computing, Some(TOOL));
        assert_eq!(leaf, Leaf::Other);
    }
}
