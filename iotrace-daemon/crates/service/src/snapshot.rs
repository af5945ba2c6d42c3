//! What a process and its descendants have done until now, by phase: what a training loop logs at each step.
//!
//! The model forgets processes a while after their end; what they did then stands with the next of their ancestors that is
//! known, as the kernel adds up the resource usage of children. So the numbers of a process never fall.

use std::collections::{BTreeMap, HashMap, HashSet};

use iotrace_common::{
    phases::COUNT,
    rights::{INITIAL_NAMESPACE, Rights},
};
use serde::{Deserialize, Serialize};

use iotrace_analysis::phases::split;
use iotrace_model::targets;
use iotrace_model::{IoTotals, Model, Process, input::ProcessId, run::CallInFlight};
use iotrace_phases::{
    Classifier,
    context::{Sorted, sort},
    copies::Copies,
    phase::{Direction, Phase},
    used::Used,
};

/// What was done until a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    pub pid: u32,
    /// When, nanoseconds since the Unix epoch.
    pub time_unix_ns: i64,
    /// From when on it is counted: the start of the process or of the service, whichever was later.
    pub since_unix_ns: i64,
    /// The process and its descendants, those included that have ended.
    pub processes: u64,
    /// Of all of them together.
    pub total: IoTotals,
    /// The same by phase, where there is anything; merged time is summed over processes.
    pub phases: BTreeMap<String, IoTotals>,
    /// Calls of theirs that have not returned after a second, the longest first.
    #[serde(default)]
    pub in_flight: Vec<Call>,
}

/// A call that has not returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub pid: u32,
    pub tid: u32,
    pub operation: String,
    /// `None` where it is not known: an open that has not returned.
    pub path: Option<String>,
    pub mount_point: Option<String>,
    /// For how long, nanoseconds.
    pub ns: u64,
}

impl From<CallInFlight> for Call {
    fn from(call: CallInFlight) -> Self {
        Self {
            pid: call.pid,
            tid: call.tid,
            operation: call.operation,
            path: call.path,
            mount_point: call.mount_point,
            ns: call.ns,
        }
    }
}

impl Snapshot {
    /// Everything that the model has, where it is of process `pid` and its descendants alone. Reads have the phase that a
    /// report of the model gives them.
    pub fn of_all(model: &Model, pid: u32, classifier: &Classifier) -> Self {
        let mut sum = Ended::default();
        for process in model.processes() {
            sum.add(&Ended::of(process));
        }
        sum.sort_reads(model, &sort(model, classifier, &Copies::default()));
        shown(pid, &sum)
    }

    /// What was done since an earlier one of the same process; all of it where that is of another.
    pub fn since(&self, earlier: &Self) -> Self {
        let is_same = self.pid == earlier.pid && self.since_unix_ns == earlier.since_unix_ns;
        if !is_same {
            return self.clone();
        }
        let mut phases = self.phases.clone();
        for (phase, done) in &mut phases {
            *done = done.since(&earlier.phases.get(phase).copied().unwrap_or_default());
        }
        phases.retain(|_, done| *done != IoTotals::default());
        Self {
            since_unix_ns: earlier.time_unix_ns,
            total: self.total.since(&earlier.total),
            phases,
            ..self.clone()
        }
    }
}

/// What processes did that the model has forgotten.
#[derive(Clone, Debug, Default)]
struct Ended {
    processes: u64,
    phases: [IoTotals; COUNT],
}

impl Ended {
    fn add(&mut self, other: &Self) {
        self.processes += other.processes;
        for (done, others) in self.phases.iter_mut().zip(&other.phases) {
            done.add(others);
        }
    }

    /// Moves reads from the phase of a file's name to the one that the whole model tells: data may be called as weights are.
    fn sort_reads(&mut self, model: &Model, sorted: &[Sorted]) {
        for row in model.rows() {
            let file = &sorted[row.file as usize];
            let by_name = Sorted::of(file.verdict);
            let [from, to] = [&by_name, file].map(|file| file.phase(Direction::Read));
            let counters = row.cell.total();
            let used = Used::new(&counters, &by_name);
            if from == to || !(used.main == Direction::Read || used.reads_apart) {
                continue;
            }
            let (reads, _) = split(&counters);
            let done = match used.main {
                Direction::Read => IoTotals::of(&counters),
                Direction::Write => IoTotals::of(&reads),
            };
            let [from, to] = [from, to].map(|phase| usize::from(phase.code()));
            let before = self.phases[from];
            self.phases[from] = before.since(&done);
            let moved = before.since(&self.phases[from]);
            self.phases[to].add(&moved);
        }
    }

    fn of(process: &Process) -> Self {
        let mut phases = [IoTotals::default(); COUNT];
        for (code, done) in phases.iter_mut().enumerate() {
            *done = process.phases.total(code as u16);
        }
        Self {
            processes: 1,
            phases,
        }
    }
}

/// Whose children are whose, beyond what the model knows.
#[derive(Debug, Default)]
pub struct Families {
    /// By ancestor, and by who may look into these processes.
    ended: HashMap<(ProcessId, Option<Rights>), Ended>,
    /// Processes whose parent is forgotten, and who stands in its place.
    adopted: HashMap<ProcessId, ProcessId>,
}

impl Families {
    /// Entries of its tables.
    pub fn tables(&self) -> [(&'static str, usize); 2] {
        [
            ("ended_processes", self.ended.len()),
            ("adopted_processes", self.adopted.len()),
        ]
    }

    /// Keeps what the processes did that the model is about to forget.
    pub fn fold(&mut self, model: &Model, is_kept: impl Fn(ProcessId) -> bool) {
        let parents = self.parents(model);
        let heir = |of: ProcessId| {
            let mut next = parents.get(&of).copied();
            // No chain is longer than there are processes.
            for _ in 0..parents.len() {
                match next {
                    Some(id) if is_kept(id) => return Some(id),
                    Some(id) => next = parents.get(&id).copied(),
                    None => return None,
                }
            }
            None
        };
        let mut adopted = HashMap::new();
        let mut moved: Vec<((ProcessId, Option<Rights>), Ended)> = Vec::new();
        for process in model.processes() {
            let heir = heir(process.id);
            match (is_kept(process.id), heir) {
                (true, Some(heir)) => drop(adopted.insert(process.id, heir)),
                (false, Some(heir)) => moved.push(((heir, rights(process)), Ended::of(process))),
                (_, None) => {}
            }
        }
        self.ended.retain(|(of, rights), ended| {
            let keep = is_kept(*of);
            if !keep && let Some(heir) = heir(*of) {
                moved.push(((heir, *rights), std::mem::take(ended)));
            }
            keep
        });
        for (key, ended) in moved {
            self.ended.entry(key).or_default().add(&ended);
        }
        self.adopted = adopted;
    }

    /// What process `pid` and its descendants have done, those alone that `client` may look into where there is one, and
    /// which of the calls `in_flight` are theirs. `None`: the client may not look into the process.
    ///
    /// What they may, they may of all that a process has done since its start: /proc/PID/io says it then, too.
    pub fn snapshot(
        &self,
        model: &Model,
        (pid, client): (u32, Option<Rights>),
        in_flight: &[(ProcessId, CallInFlight)],
    ) -> Option<Snapshot> {
        let client = client.map(seen_by);
        let is_open = |rights: Option<Rights>| match &client {
            Some(client) => rights.is_some_and(|rights| rights.are_open_to(client)),
            None => true,
        };
        let parents = self.parents(model);
        let by_id: HashMap<ProcessId, &Process> = model
            .processes()
            .iter()
            .map(|process| (process.id, process))
            .collect();
        let mut sum = Ended::default();
        let mut seen = HashSet::new();
        let root = model
            .processes()
            .iter()
            .rev()
            .find(|process| process.id.pid == pid && targets::is_running(process.id));
        // One that has done nothing yet is not known, and has no children that have.
        if let Some(root) = root {
            if !is_open(rights(root)) {
                return None;
            }
            let mut children: HashMap<ProcessId, Vec<ProcessId>> = HashMap::new();
            for (child, parent) in &parents {
                children.entry(*parent).or_default().push(*child);
            }
            let mut family = HashSet::new();
            let mut next = vec![root.id];
            while let Some(id) = next.pop() {
                family.insert(id);
                next.extend(children.remove(&id).unwrap_or_default());
                let process = by_id[&id];
                if is_open(rights(process)) {
                    seen.insert(id);
                    sum.add(&Ended::of(process));
                }
            }
            for ((of, rights), ended) in &self.ended {
                if family.contains(of) && is_open(*rights) {
                    sum.add(ended);
                }
            }
        }
        let calls = in_flight.iter().filter(|(of, _)| seen.contains(of));
        Some(Snapshot {
            in_flight: calls.map(|(_, call)| call.clone().into()).collect(),
            ..shown(pid, &sum)
        })
    }

    /// The parent of each process that the model knows, where that knows it too.
    fn parents(&self, model: &Model) -> HashMap<ProcessId, ProcessId> {
        let mut by_pid: HashMap<u32, Vec<&Process>> = HashMap::new();
        for process in model.processes() {
            by_pid.entry(process.id.pid).or_default().push(process);
        }
        let parent = |process: &Process| {
            if let Some(adopted) = self.adopted.get(&process.id) {
                return Some(*adopted);
            }
            // Of those that had the pid, the last that was there before.
            let candidates = by_pid.get(&process.about.parent)?;
            let before = candidates
                .iter()
                .filter(|parent| parent.about.start_boottime <= process.about.start_boottime);
            let parent = before.max_by_key(|parent| parent.about.start_boottime)?;
            (parent.id != process.id).then_some(parent.id)
        };
        let processes = model.processes().iter();
        processes
            .filter_map(|process| Some((process.id, parent(process)?)))
            .collect()
    }
}

/// Who may look into a process. Its descendants are in its user namespace or in one below, so these make no difference: of
/// what a user's own namespace gives it, nothing is left.
fn rights(process: &Process) -> Option<Rights> {
    let rights = process.about.rights?;
    let capabilities = match rights.namespace {
        INITIAL_NAMESPACE => rights.capabilities,
        _ if rights.maker == rights.uid => 0,
        _ => u64::MAX,
    };
    Some(Rights {
        capabilities,
        namespace: INITIAL_NAMESPACE,
        maker: u32::MAX,
        ..rights
    })
}

/// Who asks: capabilities in a user namespace of the client's own are none outside.
fn seen_by(client: Rights) -> Rights {
    let capabilities = match client.namespace {
        INITIAL_NAMESPACE => client.capabilities,
        _ => 0,
    };
    Rights {
        capabilities,
        namespace: INITIAL_NAMESPACE,
        ..client
    }
}

fn shown(pid: u32, sum: &Ended) -> Snapshot {
    let mut snapshot = Snapshot {
        pid,
        processes: sum.processes.max(1),
        ..Snapshot::default()
    };
    for (code, done) in sum.phases.iter().enumerate() {
        if *done != IoTotals::default() {
            let phase = Phase::from_code(code as u16).name();
            snapshot.total.add(done);
            snapshot.phases.entry(phase.into()).or_default().add(done);
        }
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrace_common::key::FileId;
    use iotrace_model::{
        counters::{BYTES_READ, Counters, READS},
        history::Bounds,
        input::{Event, FileName, Place},
    };

    /// Of this process, which is there, and of others that are not.
    fn id(pid: u32) -> ProcessId {
        if pid == std::process::id() {
            let about = targets::describe(pid).unwrap();
            let start = iotrace_common::key::start_key(about.start_boottime);
            return ProcessId { pid, start };
        }
        ProcessId { pid, start: 1 }
    }

    fn fork(model: &mut Model, parent: u32, child: u32, uid: u32) {
        model.event(Event::Fork {
            parent: id(parent),
            child: id(child),
            child_start_boottime: u64::MAX,
            rights: Rights::of_user(uid),
            comm: vec![],
        });
    }

    fn read(model: &mut Model, pid: u32, bytes: u64) {
        let mut counters = Counters::ZERO;
        (counters.v[READS], counters.v[BYTES_READ]) = (1, bytes);
        model.add_sorted(
            id(pid),
            Place::PathOnly,
            u32::from(Phase::Training.code()),
            &counters,
        );
    }

    #[test]
    fn what_is_read_again_is_no_load() {
        let mut model = Model::default();
        // One is read twice over, the other once.
        for (inode, bytes) in [(1, 200), (2, 100)] {
            let file = FileId {
                device: 1,
                generation: 1,
                inode,
            };
            model.event(Event::File(FileName {
                file,
                path: format!("/set/{inode}.pt").into_bytes(),
                size: 100,
                mode: libc::S_IFREG,
                magic: 0,
                block_size: 4096,
                truncated: false,
                deleted: false,
                existed: true,
            }));
            let mut counters = Counters::ZERO;
            (counters.v[READS], counters.v[BYTES_READ]) = (1, bytes);
            let restore = u32::from(Phase::Restore.code());
            model.add_sorted(id(7), Place::File(file), restore, &counters);
        }
        let found = Snapshot::of_all(&model, 7, Classifier::builtin());
        let read = found.phases.iter();
        let read: Vec<_> = read
            .map(|(phase, done)| (&**phase, done.bytes_read))
            .collect();
        assert_eq!(read, [("restore", 100), ("training", 200)]);
        assert_eq!((found.total.operations, found.total.bytes_read), (2, 300));
    }

    /// This process, with a child, that one's child, a child that is another user's, and one that the user may not look into.
    fn family() -> Model {
        let own = std::process::id();
        let mut model = Model::default();
        let about = targets::describe(own).unwrap();
        model.describe_process(
            id(own),
            iotrace_model::About {
                rights: Some(Rights::of_user(7)),
                ..about
            },
        );
        fork(&mut model, own, u32::MAX, 7);
        fork(&mut model, u32::MAX, u32::MAX - 1, 7);
        fork(&mut model, own, u32::MAX - 2, 8);
        fork(&mut model, own, u32::MAX - 3, 7);
        model.event(Event::Exec {
            process: id(u32::MAX - 3),
            start_boottime: u64::MAX,
            parent: own,
            rights: Rights {
                flags: 0,
                ..Rights::of_user(7)
            },
            comm: vec![],
            args: vec![],
        });
        for (pid, bytes) in [
            (own, 1),
            (u32::MAX, 10),
            (u32::MAX - 1, 100),
            (u32::MAX - 2, 1000),
            (u32::MAX - 3, 10_000),
        ] {
            read(&mut model, pid, bytes);
        }
        model
    }

    fn snapshot(families: &Families, model: &Model, uid: Option<u32>) -> Option<Snapshot> {
        families.snapshot(model, (std::process::id(), uid.map(Rights::of_user)), &[])
    }

    fn bytes(families: &Families, model: &Model, uid: Option<u32>) -> u64 {
        snapshot(families, model, uid).unwrap().phases["training"].bytes_read
    }

    #[test]
    fn descendants_count_and_other_users_do_not() {
        let model = family();
        let families = Families::default();
        assert_eq!(bytes(&families, &model, None), 11_111);
        assert_eq!(bytes(&families, &model, Some(7)), 111);
        assert_eq!(snapshot(&families, &model, Some(8)), None);
        assert_eq!(snapshot(&families, &model, Some(7)).unwrap().processes, 3);
    }

    #[test]
    fn what_is_forgotten_still_counts() {
        let mut model = family();
        let mut families = Families::default();
        // The middle one goes, then the one whose parent it was.
        for (gone, left) in [(u32::MAX, 4), (u32::MAX - 1, 3), (u32::MAX - 3, 2)] {
            let keep = |id: ProcessId| id.pid != gone;
            model.settle(Bounds { start: 0, end: 0 });
            families.fold(&model, keep);
            model.forget(|process| keep(process.id), |_| true);
            assert_eq!(model.processes().len(), left);
            assert_eq!(bytes(&families, &model, None), 11_111);
            assert_eq!(bytes(&families, &model, Some(7)), 111);
        }
        assert_eq!(snapshot(&families, &model, Some(7)).unwrap().processes, 3);
    }

    #[test]
    fn a_difference_is_of_one_process() {
        let mut model = family();
        let families = Families::default();
        let before = snapshot(&families, &model, None).unwrap();
        read(&mut model, u32::MAX, 5);
        let after = snapshot(&families, &model, None).unwrap();
        let difference = after.since(&before);
        assert_eq!(
            (difference.total.bytes_read, difference.total.operations),
            (5, 1)
        );
        assert_eq!(after.since(&after).phases.len(), 0);
        let of_another = Snapshot { pid: 1, ..before };
        assert_eq!(after.since(&of_another), after);
    }
}
