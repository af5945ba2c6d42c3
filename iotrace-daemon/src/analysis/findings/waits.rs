//! Findings on what main threads waited for, where waits were kept: they rest on no bound.

use super::{Confidence, Data, Finding, Subject, Value, largest, seconds, thresholds::*};
use crate::{analysis::waits::Exposed, model::waits::Leaf};

/// The job waited for storage.
pub fn storage_bound(data: &Data<'_>) -> Option<Finding> {
    let exposed = data.exposed()?;
    let ns = exposed.spent.storage();
    let judged = data.analysis.waits.judged();
    let most = judged.iter().map(|waiter| waiter.spent.storage()).max()?;
    let share = worth_it(data, &exposed, ns)?;
    let files = judged.iter().flat_map(|waiter| &waiter.files);
    let known = files.filter_map(|(file, _, ns)| file.map(|file| (file, *ns)));
    let mut by_file = std::collections::BTreeMap::new();
    for (file, ns) in known {
        *by_file.entry(file).or_insert(0_u64) += ns;
    }
    Some(Finding {
        code: "storage-bound",
        saving: data.saving(most, Confidence::High, &[]),
        title: format!("{} for storage, {:.0} % of the time", who(&exposed), share * 100.0),
        evidence: vec![
            ("waited_seconds", seconds(ns)),
            ("share_of_time", Value::Share(share)),
            ("page_fault_seconds", seconds(exposed.spent.of(Leaf::PageFault))),
            ("files", Value::Count(by_file.len() as u64)),
        ],
        subjects: largest(data, by_file, |(_, ns)| *ns, |(file, _)| Subject::File(*file)),
        advice: "Read earlier or from faster storage: more loader workers and prefetching if the storage is not busy, a copy of these \
                 files on a faster tier (`iotrace report --stage-to`) if it is."
            .into(),
        also: Vec::new(),
    })
}

/// The job waited for its loader's computing.
pub fn decode_bound(data: &Data<'_>) -> Option<Finding> {
    let exposed = data.exposed()?;
    let ns = exposed.spent.of(Leaf::Computing);
    let share = worth_it(data, &exposed, ns)?;
    let judged = data.analysis.waits.judged();
    let loaders: usize = judged.iter().map(|waiter| waiter.loaders.len()).sum();
    let most = judged
        .iter()
        .map(|waiter| waiter.spent.of(Leaf::Computing))
        .max()?;
    Some(Finding {
        code: "decode-bound",
        saving: data.saving(most, Confidence::Medium, &["whether there are CPUs for more workers"]),
        title: format!(
            "{} for the computing of the loader, {:.0} % of the time",
            who(&exposed),
            share * 100.0
        ),
        evidence: vec![
            ("waited_seconds", seconds(ns)),
            ("share_of_time", Value::Share(share)),
            ("loader_processes", Value::Count(loaders as u64)),
            ("run_queue_seconds", seconds(exposed.spent.of(Leaf::RunQueue))),
        ],
        subjects: Vec::new(),
        advice: "Faster storage does not shorten this part. If there are idle CPUs, use more loader workers; else do less for a sample: decode to \
                 the size that is needed, store decoded samples, or decode on the GPU."
            .into(),
        also: Vec::new(),
    })
}

/// The job, or what it waited for, was ready to run and had no CPU.
pub fn too_few_cpus(data: &Data<'_>) -> Option<Finding> {
    let exposed = data.exposed()?;
    let ns = exposed.spent.of(Leaf::RunQueue);
    let share = worth_it(data, &exposed, ns)?;
    let judged = data.analysis.waits.judged();
    let most = judged
        .iter()
        .map(|waiter| waiter.spent.of(Leaf::RunQueue))
        .max()?;
    Some(Finding {
        code: "too-few-cpus",
        saving: data.saving(most, Confidence::Medium, &[]),
        title: format!("{} for a CPU, {:.0} % of the time", who(&exposed), share * 100.0),
        evidence: vec![
            ("waited_seconds", seconds(ns)),
            ("share_of_time", Value::Share(share)),
        ],
        subjects: Vec::new(),
        advice: "Give the job more CPUs (--cpus-per-task, the cgroup's quota, the affinity), or run fewer workers and fewer threads in \
                 each (OMP_NUM_THREADS, torch.set_num_threads)."
            .into(),
        also: Vec::new(),
    })
}

fn who(exposed: &Exposed) -> String {
    match exposed.threads {
        1 => "The main thread waited".into(),
        threads => format!("The main threads of {threads} ranks waited"),
    }
}

/// The share of the time that went into a kind of wait, if it is enough for a finding.
fn worth_it(data: &Data<'_>, exposed: &Exposed, ns: u64) -> Option<f64> {
    let share = exposed.share(ns);
    (share >= data.limit(WAITED_SHARE)).then_some(share)
}
