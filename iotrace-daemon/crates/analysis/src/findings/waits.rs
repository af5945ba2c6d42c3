//! Findings on what main threads waited for, where waits were kept: they rest on no bound.

use super::{Confidence, Data, Finding, Subject, Value, largest, seconds, thresholds::*};
use crate::{
    uses::Visit,
    waits::{Exposed, Waiter},
};
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    waits::Leaf,
};
use iotrace_phases::phase::Phase;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the time of a loader's workers from which on it is their start that the job waits for.
const MIN_RESTART_SHARE: f64 = 0.5;
/// Other threads hardly ran if they used at most one of this many parts of the job's CPU time.
const OTHER_THREADS_PARTS: u64 = 10;

/// The job waited for storage while it ran: not at its start, nor for saves.
pub fn storage_bound(data: &Data<'_>) -> Option<Finding> {
    let waited = waited(data, Waiter::input)?;
    let by_file = by_file(data, |phase| {
        !matches!(phase, Phase::Startup | Phase::Checkpoint)
    });
    Some(Finding {
        code: "storage-bound",
        saving: data.saving(waited.most_ns, Confidence::High, &[]),
        title: waited.title("storage"),
        evidence: waited.evidence([
            ("page_fault_seconds", seconds(waited.exposed.spent.of(Leaf::PageFault))),
            ("files", Value::Count(by_file.len() as u64)),
        ]),
        subjects: largest(data, by_file, |(_, ns)| *ns, |(file, _)| Subject::File(*file)),
        advice: "Read earlier or from faster storage: more loader workers and prefetching if the storage is not busy, a copy of these \
                 files on a faster tier (`iotrace report --stage-to`) if it is."
            .into(),
        also: Vec::new(),
    })
}

/// The job waited for the files of programs and libraries.
pub fn slow_start(data: &Data<'_>) -> Option<Finding> {
    let waited = waited(data, Waiter::starting)?;
    let by_file = by_file(data, |phase| phase == Phase::Startup);
    let mut evidence = vec![("files", Value::Count(by_file.len() as u64))];
    if let Some(first) = data.analysis.startup.first_training_read_ns {
        evidence.push(("seconds_to_first_training_read", seconds(first)));
    }
    Some(Finding {
        code: "startup-waits-for-storage",
        saving: data.saving(waited.most_ns, Confidence::High, &[]),
        title: waited.title("storage of programs and libraries"),
        evidence: waited.evidence(evidence),
        subjects: largest(data, by_file, |(_, ns)| *ns, |(file, _)| Subject::File(*file)),
        advice: "A start that finds these files in memory does not wait for them. Where it does not, put the environment into one file on a local \
                 disk (a container image, squashfs), or import less."
            .into(),
        also: Vec::new(),
    })
}

/// Nanoseconds that the judged threads waited for files of some phases, by file.
fn by_file(data: &Data<'_>, is_chosen: impl Fn(Phase) -> bool) -> BTreeMap<u32, u64> {
    let judged = data.analysis.waits.judged();
    let files = judged.iter().flat_map(|waiter| &waiter.files);
    let chosen = files.filter(|(_, phase, _)| is_chosen(*phase));
    let mut by_file = BTreeMap::new();
    for (file, ns) in chosen.filter_map(|(file, _, ns)| file.map(|file| (file, *ns))) {
        saturating_add(by_file.entry(file).or_insert(0), ns);
    }
    by_file
}

/// The job waited for its loader's computing: for each sample, or for workers that start again and again.
pub fn of_loader(data: &Data<'_>) -> Option<Finding> {
    let waited = waited(data, of_computing)?;
    let most = data
        .analysis
        .waits
        .judged()
        .iter()
        .max_by_key(|waiter| of_computing(waiter))?;
    let share = share_of_restarts(data, most);
    Some(match share >= MIN_RESTART_SHARE {
        true => workers_start_again(data, &waited, share),
        false => decode_bound(data, &waited),
    })
}

fn of_computing(waiter: &Waiter) -> u64 {
    waiter.spent.of(Leaf::Computing)
}

fn loaders(data: &Data<'_>) -> Value {
    let judged = data.analysis.waits.judged();
    Value::Count(
        judged
            .iter()
            .map(|waiter| waiter.loaders.len() as u64)
            .sum(),
    )
}

/// Of the time from the start of each of a main thread's loaders to its last read of training data, the share before the first
/// read of those that began when another had read its last: that one could have gone on.
fn share_of_restarts(data: &Data<'_>, waiter: &Waiter) -> f64 {
    let mut reads: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    for visit in &data.uses.visits {
        if waiter.loaders.contains(&visit.process) {
            let (first, last) = reads
                .entry(visit.process)
                .or_insert((visit.start, visit.end));
            *first = visit.start.min(*first);
            *last = visit.end.max(*last);
        }
    }
    let Some(over) = reads.values().map(|(_, last)| *last).min() else {
        return 0.0;
    };
    let (mut starting, mut living) = (0, 0);
    for (process, (first, last)) in reads {
        let Some(began) = data.uses.began[process as usize] else {
            continue;
        };
        living += last - began;
        if began >= over {
            starting += first - began;
        }
    }
    starting as f64 / living.max(1) as f64
}

fn workers_start_again(data: &Data<'_>, waited: &Waited, share: f64) -> Finding {
    Finding {
        code: "workers-start-again",
        saving: data.saving(waited.most_ns, Confidence::Medium, &[]),
        title: waited.title("loader workers that start again and again"),
        evidence: waited.evidence([
            ("loader_processes", loaders(data)),
            ("share_of_starts", Value::Share(share)),
        ]),
        subjects: Vec::new(),
        advice: "Keep the workers from one epoch to the next (PyTorch: persistent_workers=True). Each new worker imports the program again if \
                 it is spawned: import less in it, or fork it (multiprocessing_context='fork')."
            .into(),
        also: Vec::new(),
    }
}

fn decode_bound(data: &Data<'_>, waited: &Waited) -> Finding {
    Finding {
        code: "decode-bound",
        saving: data.saving(waited.most_ns, Confidence::Medium, &["whether there are CPUs for more workers"]),
        title: waited.title("the computing of the loader"),
        evidence: waited.evidence([
            ("loader_processes", loaders(data)),
            ("run_queue_seconds", seconds(waited.exposed.spent.of(Leaf::RunQueue))),
        ]),
        subjects: Vec::new(),
        advice: match reads_from_memory(data) {
            true => {
                "The loader's CPU time is mostly in reads of files in the page cache, which copy them. If there are idle CPUs, use more loader \
                 workers; else read fewer bytes for a sample, in larger calls, or map the files."
            }
            false => {
                "Faster storage does not shorten this part. If there are idle CPUs, use more loader workers; else do less for a sample: decode \
                 to the size that is needed, store decoded samples, or decode on the GPU."
            }
        }
        .into(),
        also: Vec::new(),
    }
}

/// Whether loaders used most of their CPU time in reads of training data that were in the page cache.
fn reads_from_memory(data: &Data<'_>) -> bool {
    let (mut processes, mut ran_ns) = (BTreeSet::new(), 0);
    for waiter in data.analysis.waits.judged() {
        processes.extend(&waiter.loaders);
        if waiter.loaders.is_empty() || waiter.loaders.contains(&waiter.process) {
            // The loader is made of threads of the same process.
            processes.insert(waiter.process);
            saturating_add(&mut ran_ns, waiter.spent.of(Leaf::Running));
        }
    }
    let Some(cpu_ns) = data
        .model
        .computing()
        .of_processes(processes.iter().copied())
    else {
        return false;
    };
    let visits = data.uses.visits.iter();
    let visits: Vec<&Visit> = visits
        .filter(|visit| processes.contains(&visit.process))
        .collect();
    let sum = |of: fn(&Visit) -> u64| saturating_sum(visits.iter().map(|visit| of(visit)));
    let are_cached = sum(|visit| visit.fetched) < sum(|visit| visit.bytes) / 2;
    are_cached && sum(|visit| visit.read_ns) > cpu_ns.saturating_sub(ran_ns) / 2
}

/// The job, or what it waited for, was ready to run and had no CPU.
pub fn too_few_cpus(data: &Data<'_>) -> Option<Finding> {
    let waited = waited(data, |waiter| waiter.spent.of(Leaf::RunQueue))?;
    let advice = match is_due_to_others(data, &waited) {
        true => {
            "Other programs, or the limit of a cgroup (cpu.max), took the CPU: the job's other threads ran too little for that. \
                 Give the job CPUs of its own, or run it on a host with less other load."
        }
        false => {
            "Give the job more CPUs (--cpus-per-task, the cgroup's quota, the affinity), or run fewer workers and fewer threads in \
                  each (OMP_NUM_THREADS, torch.set_num_threads)."
        }
    };
    Some(Finding {
        code: "too-few-cpus",
        saving: data.saving(waited.most_ns, Confidence::Medium, &[]),
        title: waited.title("a CPU"),
        evidence: waited.evidence([]),
        subjects: Vec::new(),
        advice: advice.into(),
        also: Vec::new(),
    })
}

/// Whether the job's threads cannot have kept a CPU from its main threads: a thread waits for a CPU while another runs there.
fn is_due_to_others(data: &Data<'_>, waited: &Waited) -> bool {
    let processes = 0..data.model.processes().len() as u32;
    let Some(all) = data.model.computing().of_processes(processes) else {
        return false;
    };
    let threads = waited.exposed.threads.max(1);
    let ran = waited.exposed.spent.of(Leaf::Running);
    // For one main thread, the others include the other main threads.
    let of_others = all.saturating_sub(ran / threads);
    of_others <= waited.ns / threads / 2 || threads == 1 && of_others <= all / OTHER_THREADS_PARTS
}

/// What the job waited for one kind of thing, where that is enough for a finding.
struct Waited {
    exposed: Exposed,
    /// Of all threads that the run is judged by, and what of the run that is at most.
    ns: u64,
    most_ns: u64,
}

fn waited(data: &Data<'_>, of: impl Fn(&Waiter) -> u64) -> Option<Waited> {
    let exposed = data.exposed()?;
    let waits = &data.analysis.waits;
    let waited = Waited {
        ns: saturating_sum(waits.judged().iter().map(&of)),
        most_ns: waits.at_most(of),
        exposed,
    };
    (waited.share() >= data.limit(WAITED_SHARE)).then_some(waited)
}

impl Waited {
    fn share(&self) -> f64 {
        self.exposed.share(self.ns)
    }

    fn title(&self, what: &str) -> String {
        let who = match self.exposed.threads {
            1 => "The main thread waited".to_owned(),
            threads => format!("{threads} main threads waited"),
        };
        format!(
            "{who} for {what}, {:.0} % of the time",
            self.share() * 100.0
        )
    }

    /// The evidence of all of these findings, and `more`.
    fn evidence(
        &self,
        more: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Vec<(&'static str, Value)> {
        let mut evidence = vec![
            ("waited_seconds", seconds(self.ns)),
            ("share_of_time", Value::Share(self.share())),
        ];
        evidence.extend(more);
        evidence
    }
}
