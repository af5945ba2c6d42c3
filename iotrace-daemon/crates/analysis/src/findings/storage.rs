//! Findings on where files lie: a data set to stage, one that fits in memory, a slow file, a slow mount.

use std::collections::BTreeMap;

use super::{
    Confidence, Data, Finding, MAYBE_COMPUTING, OTHER_STORAGE_USERS, Subject, Value,
    facts::{Facts, FileFacts, MountFacts},
    seconds,
    thresholds::*,
};
use iotrace_model::{
    counters::{saturating_add, saturating_sum},
    mounts,
    paths::parent,
};
use iotrace_phases::phase::Phase;

/// Filesystems in memory: fast, and no place to stage a data set unasked.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];

type Mount<'a> = (&'a (Vec<u8>, String), &'a MountFacts);

/// Training files on a mount that was slower than another which has room for them.
pub fn stage(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let enough = |bytes: u64| bytes as f64 >= data.limit(MEASURED_BYTES);
    let (slow_key, slow) = facts
        .mounts
        .iter()
        .filter(|(_, mount)| enough(mount.training_bytes))
        .max_by_key(|(_, mount)| mount.training_ns)?;
    let room = |key: &(Vec<u8>, String)| {
        let point = String::from_utf8_lossy(&key.0);
        data.run
            .room_bytes
            .get(point.as_ref())
            .copied()
            .unwrap_or(0)
    };
    let is_place = |(key, mount): &Mount<'_>| {
        let is_memory = IN_MEMORY.contains(&mounts::family(&key.1));
        *key != slow_key
            && !is_memory
            && enough(mount.stored_bytes)
            && room(key) > slow.training_size
    };
    let places = facts.mounts.iter().filter(is_place);
    let (fast_key, fast) = places.max_by(|a, b| a.1.stored_rate().total_cmp(&b.1.stored_rate()))?;
    let (now, then) = (slow.training_rate(), fast.stored_rate());
    let wall = data.wall(Phase::Training, slow.training_ns);
    let gain = wall as f64 / 1e9 * (1.0 - now / then);
    if then < now * data.limit(FASTER) || gain < data.limit(STAGE_SECONDS) {
        return None;
    }
    Some(Finding {
        code: "stage-the-data-set",
        saving: data.saving(
            (gain * 1e9) as u64,
            Confidence::Low,
            &[MAYBE_COMPUTING, OTHER_STORAGE_USERS, "the time of the copy"],
        ),
        title: format!(
            "The training files lie on a mount {:.1} times slower than {}",
            then / now,
            String::from_utf8_lossy(&fast_key.0)
        ),
        evidence: vec![
            ("files", Value::Count(slow.training_files)),
            ("bytes", Value::Bytes(slow.training_size)),
            ("bytes_read", Value::Bytes(slow.training_bytes)),
            ("bandwidth_bytes_per_second", Value::Rate(now)),
            ("other_bandwidth_bytes_per_second", Value::Rate(then)),
            ("room_bytes", Value::Bytes(room(fast_key))),
            ("read_seconds", seconds(slow.training_ns)),
            ("seconds", seconds(wall)),
        ],
        subjects: vec![
            Subject::Mount(slow_key.0.clone()),
            Subject::Mount(fast_key.0.clone()),
        ],
        advice: format!(
            "Copy the training files to {} before the run. What that saves is foretold from the bandwidths of this run, and the copy \
             takes time, too.",
            String::from_utf8_lossy(&fast_key.0)
        ),
        also: Vec::new(),
    })
}

/// A data set that fits in memory, and whose later epochs are no faster than memory is.
pub fn reread(data: &Data<'_>) -> Option<Finding> {
    let epochs = &data.analysis.epochs;
    let memory = data.run.memory_bytes;
    if memory == 0
        || epochs.bytes == 0
        || epochs.bytes as f64 > memory as f64 * data.limit(MEMORY_SHARE)
    {
        return None;
    }
    let pairs = epochs.epochs.windows(2);
    let later = pairs
        .filter(|pair| pair[0].stage == pair[1].stage)
        .map(|pair| &pair[1]);
    let later = later.filter(|epoch| epoch.is_complete());
    let (mut bytes, mut fetched, mut ns, mut passes) = (0_u64, 0_u64, 0_u64, 0_u64);
    for epoch in later {
        saturating_add(&mut bytes, epoch.bytes);
        saturating_add(&mut fetched, epoch.fetched);
        saturating_add(&mut ns, epoch.read_ns);
        passes += 1;
    }
    // Where the kernel tells, it is no matter of speed.
    let is_cached = epochs.knows_cache && fetched < bytes / 2;
    let rate = bytes as f64 * 1e9 / ns.max(1) as f64;
    if passes == 0
        || is_cached
        || (ns as f64) < data.limit(REREAD_SECONDS) * 1e9
        || (!epochs.knows_cache && rate > data.limit(CACHED_RATE))
    {
        return None;
    }
    let mut evidence = vec![
        ("bytes", Value::Bytes(epochs.bytes)),
        ("memory_bytes", Value::Bytes(memory)),
        ("epochs", Value::Count(passes + 1)),
        ("later_read_seconds", seconds(ns)),
        ("later_bandwidth_bytes_per_second", Value::Rate(rate)),
    ];
    if epochs.knows_cache {
        evidence.push(("later_bytes_fetched", Value::Bytes(fetched)));
    }
    Some(Finding {
        code: "data-set-fits-in-memory",
        saving: data.saving(data.wall(Phase::Training, ns), Confidence::Medium, &[MAYBE_COMPUTING]),
        title: "The data set fits in memory, and is read from storage again in every epoch".into(),
        evidence,
        subjects: Vec::new(),
        advice: "Keep it in memory: a cache of the loader (tf.data cache, a preloaded array), /dev/shm, or a memory limit of the job \
                 that leaves the page cache its room."
            .into(),
        also: Vec::new(),
    })
}

/// Intervals with few readers, and with many, from which on their bandwidths are compared.
const MIN_INTERVALS: usize = 3;
/// How many times more readers are many.
const MORE_READERS: f64 = 1.5;
/// A bandwidth that grows by less does not grow.
const MAX_SPEEDUP: f64 = 1.1;

/// A mount whose bandwidth does not grow with the readers.
pub fn bandwidth_reached(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let training = usize::from(Phase::Training.code()) - 1;
    // Readers at a time and bytes per second of the intervals in which the reads went to storage.
    let mut intervals: Vec<(f64, f64)> = Vec::new();
    for slice in &data.uses.series.slices {
        let flow = &slice.phases[training];
        let spans = slice
            .merged
            .iter()
            .filter(|((_, phase), _)| *phase == training);
        let bounds = spans.map(|(_, span)| span.bounds());
        let bounds = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let busy = bounds.map_or(0, |(start, end)| end - start) as f64;
        if busy > 0.0 && flow.bytes_fetched > flow.io.bytes_read / 2 && flow.io.bytes_read > 0 {
            let rate = flow.io.bytes_read as f64 * 1e9 / busy;
            intervals.push((flow.read_ns as f64 / busy, rate));
        }
    }
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let third = intervals.len() / 3;
    if third < MIN_INTERVALS {
        return None;
    }
    let mean = |part: &[(f64, f64)]| {
        let count = part.len() as f64;
        let sum = part
            .iter()
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (sum.0 / count, sum.1 / count)
    };
    let (few, many) = (
        mean(&intervals[..third]),
        mean(&intervals[intervals.len() - third..]),
    );
    let mounts = facts
        .mounts
        .iter()
        .filter(|(_, mount)| mount.training_bytes > 0);
    let (key, mount) = mounts.max_by_key(|(_, mount)| mount.training_ns)?;
    let all = saturating_sum(facts.mounts.values().map(|mount| mount.training_ns));
    let is_one = mount.training_ns as f64 >= all as f64 * 0.9;
    let wall = data.wall(Phase::Training, mount.training_ns);
    if !is_one
        || few.0 < 1.0
        || many.0 < few.0 * MORE_READERS
        || many.1 > few.1 * MAX_SPEEDUP
        || data.share_of_run(wall) < data.limit(INPUT_SHARE)
    {
        return None;
    }
    Some(Finding {
        code: "bandwidth-of-mount-reached",
        saving: data.saving(wall, Confidence::Medium, &[MAYBE_COMPUTING, OTHER_STORAGE_USERS]),
        title: format!("More readers are not faster on {}", String::from_utf8_lossy(&key.0)),
        evidence: vec![
            ("few_readers", Value::Text(format!("{:.1}", few.0))),
            ("their_bandwidth_bytes_per_second", Value::Rate(few.1)),
            ("many_readers", Value::Text(format!("{:.1}", many.0))),
            ("bandwidth_bytes_per_second", Value::Rate(many.1)),
            ("read_seconds", seconds(mount.training_ns)),
        ],
        subjects: vec![Subject::Mount(key.0.clone())],
        advice: "More workers do not help: read fewer bytes for a sample (compress, crop or resize ahead of the run), keep the data in \
                 memory, or stage them on faster storage."
            .into(),
        also: Vec::new(),
    })
}

/// A file that was read far slower than its kind.
pub fn slow_file(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let is_read = |fact: &&FileFacts| fact.bytes_read >= 1 << 20 && fact.read_ns > 0;
    let mut in_phase: BTreeMap<Phase, u64> = BTreeMap::new();
    for fact in &facts.files {
        saturating_add(in_phase.entry(fact.phase?).or_default(), fact.read_ns);
    }
    let mut kinds: BTreeMap<(Phase, &[u8]), Vec<&FileFacts>> = BTreeMap::new();
    for fact in facts.files.iter().filter(is_read) {
        let directory = parent(data.model.file(fact.file).path);
        let of_kind = kinds.entry((fact.phase?, directory)).or_default();
        of_kind.push(fact);
    }
    let rate = |fact: &FileFacts| fact.bytes_read as f64 * 1e9 / fact.read_ns as f64;
    let mut worst: Option<(&FileFacts, f64, f64)> = None;
    for ((phase, _), files) in &kinds {
        if files.len() < 4 {
            continue;
        }
        let mut rates: Vec<f64> = files.iter().map(|fact| rate(fact)).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        let whole = in_phase[phase];
        for fact in files {
            let share = fact.read_ns as f64 / whole.max(1) as f64;
            let is_slow = rate(fact) * data.limit(SLOW_FACTOR) <= median
                && share >= data.limit(SLOW_SHARE)
                && fact.read_ns as f64 >= data.limit(SLOW_SECONDS) * 1e9;
            if is_slow && worst.is_none_or(|(known, ..)| known.read_ns < fact.read_ns) {
                worst = Some((fact, median, share));
            }
        }
    }
    let (fact, median, share) = worst?;
    Some(Finding {
        code: "slow-file",
        saving: data.saving(
            data.wall(
                fact.phase.unwrap_or(Phase::UNMATCHED),
                (fact.read_ns as f64 * (1.0 - rate(fact) / median)) as u64,
            ),
            Confidence::Low,
            &[MAYBE_COMPUTING, OTHER_STORAGE_USERS],
        ),
        title: format!(
            "One file is read {:.1} times slower than those beside it",
            median / rate(fact)
        ),
        evidence: vec![
            ("bytes_read", Value::Bytes(fact.bytes_read)),
            ("read_seconds", seconds(fact.read_ns)),
            ("share_of_read_time", Value::Share(share)),
            ("bandwidth_bytes_per_second", Value::Rate(rate(fact))),
            ("median_bandwidth_bytes_per_second", Value::Rate(median)),
        ],
        subjects: vec![Subject::File(fact.file)],
        advice: "Look at where this file lies (stripe, server, a failing disk), and copy it anew."
            .into(),
        also: Vec::new(),
    })
}

/// A mount that is far slower than the others, and matters. The others are measured by reads that went to their storage: the
/// page cache is as fast on any mount.
pub fn slow_mount(data: &Data<'_>, facts: &Facts) -> Option<Finding> {
    let enough = |bytes: u64| bytes as f64 >= data.limit(MEASURED_BYTES);
    let whole = saturating_sum(facts.mounts.values().map(|mount| mount.ns));
    let measured: Vec<Mount<'_>> = facts
        .mounts
        .iter()
        .filter(|(key, mount)| {
            enough(mount.bytes) && mount.data_ns > 0 && !IN_MEMORY.contains(&mounts::family(&key.1))
        })
        .collect();
    let (slow_key, slow) = measured
        .iter()
        .min_by(|a, b| a.1.rate().total_cmp(&b.1.rate()))?;
    let mut others: Vec<f64> = measured
        .iter()
        .filter(|(key, mount)| key != slow_key && enough(mount.stored_bytes))
        .map(|(_, mount)| mount.stored_rate())
        .collect();
    others.sort_by(f64::total_cmp);
    let median = *others.get(others.len() / 2)?;
    let share = slow.ns as f64 / whole.max(1) as f64;
    let is_slow = slow.rate() * data.limit(SLOW_FACTOR) <= median
        && share >= data.limit(SLOW_SHARE)
        && slow.data_ns as f64 >= data.limit(SLOW_SECONDS) * 1e9;
    if !is_slow {
        return None;
    }
    Some(Finding {
        code: "slow-mount",
        saving: data.saving((slow.data_ns as f64 * (1.0 - slow.rate() / median)) as u64, Confidence::Low, &[MAYBE_COMPUTING, OTHER_STORAGE_USERS]),
        title: format!("One mount is {:.1} times slower than the others", median / slow.rate()),
        evidence: vec![
            ("bytes", Value::Bytes(slow.bytes)),
            ("seconds", seconds(slow.ns)),
            ("share_of_time", Value::Share(share)),
            ("bandwidth_bytes_per_second", Value::Rate(slow.rate())),
            ("other_bandwidth_bytes_per_second", Value::Rate(median)),
        ],
        subjects: vec![Subject::Mount(slow_key.0.clone())],
        advice: "Move what is read and written often to a faster mount, or ask who else uses this one at the time.".into(),
        also: Vec::new(),
    })
}
