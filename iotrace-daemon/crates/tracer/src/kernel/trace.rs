//! What the programs are told of an operation trace: the size of its rings, and its filter.
//!
//! A filter is a list of `KEY=VALUE`: `phase=checkpoint`, `path=*.pt`, `min-duration=1ms`, `pid=4242`, `comm=python*`.
//! Of one key any value will do; of several keys each must be met.

use std::{fs, time::Duration};

use iotrace_common::{
    abi::{Setting, globals},
    limits::COPIES,
    trace::{FILTER_NAMES, FILTER_PIDS, NamePattern, Operation},
};

use iotrace_phases::{
    dfa::{self, Table, TooLarge},
    glob::{Glob, GlobError},
    phase::{Direction, Phase},
    rules::{Origin, Rule},
};

/// What to trace, and how much room the kernel side has for it.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Size of all rings together, bytes; each has at least [`MIN_RING_RECORDS`] records.
    pub buffer_bytes: u64,
    pub filter: Filter,
}

/// Fewest records of a ring.
const MIN_RING_RECORDS: u64 = 64;
/// Most records of all rings: what a map's index counts.
const MAX_RECORDS: u64 = 1 << 31;
/// Where the kernel lists the CPUs that there may be.
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// How many rings there are, and how many records each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub rings: u32,
    /// A power of two.
    pub records: u32,
}

impl Layout {
    /// The rings of this machine that fit into `bytes`. `preemptible`: whether programs on calls can be preempted.
    pub fn of(bytes: u64, preemptible: bool) -> Self {
        // One for io_uring's requests, too.
        let copies = match preemptible {
            true => COPIES + 1,
            false => 1,
        };
        let rings = u64::from(possible_cpus()) * copies as u64;
        let each = (bytes / rings / size_of::<Operation>() as u64)
            .clamp(MIN_RING_RECORDS, MAX_RECORDS / rings);
        Self {
            rings: rings as u32,
            records: 1 << each.ilog2(),
        }
    }
}

/// CPUs that there may be, by the largest number of one.
pub fn possible_cpus() -> u32 {
    let text = fs::read_to_string(POSSIBLE_CPUS).unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next();
    let last = last.and_then(|number| number.parse::<u32>().ok());
    last.map_or_else(
        || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        |last| last + 1,
    )
}

/// Why a text is no filter, with the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error(
        "{0:?} is no filter: write KEY=VALUE, where KEY is phase, path, min-duration, pid or comm"
    )]
    NoKey(String),
    #[error("there is no phase {0:?}: `iotrace phases list` names them")]
    Phase(String),
    #[error("the glob {text:?} is wrong: {cause}")]
    Glob { text: String, cause: GlobError },
    #[error("{0:?} is no duration: write 500us, 1ms, 2s")]
    Duration(String),
    #[error("{0:?} is no process id")]
    Pid(String),
    #[error(
        "{0:?} is no name that the kernel gives to processes: it has 1 to 15 bytes, and * only at its end"
    )]
    Comm(String),
    #[error("at most {most} filters can have the key {key}")]
    TooMany { key: &'static str, most: usize },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Which operations are traced; all where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// As they were given.
    texts: Vec<String>,
    /// A bit for each phase, by its code.
    phases: u64,
    table: Option<Table>,
    shortest: Duration,
    pids: Vec<u32>,
    names: Vec<NamePattern>,
}

impl Filter {
    /// Reads a list of filters.
    pub fn new(texts: &[String]) -> Result<Self, FilterError> {
        let mut filter = Self {
            texts: texts.to_vec(),
            ..Self::default()
        };
        let mut globs = Vec::new();
        for text in texts {
            filter.add(text, &mut globs)?;
        }
        if !globs.is_empty() {
            filter.table = Some(dfa::build(&[rule(globs)])?);
        }
        for (key, count, most) in [
            ("pid", filter.pids.len(), FILTER_PIDS),
            ("comm", filter.names.len(), FILTER_NAMES),
        ] {
            if count > most {
                return Err(FilterError::TooMany { key, most });
            }
        }
        Ok(filter)
    }

    fn add(&mut self, text: &str, globs: &mut Vec<Glob>) -> Result<(), FilterError> {
        let no_key = || FilterError::NoKey(text.to_owned());
        let (key, value) = text.split_once('=').ok_or_else(no_key)?;
        let owned = || value.to_owned();
        match key {
            "phase" => {
                let named =
                    |phase: &&Phase| phase.class().map_or(phase.name(), |c| c.name()) == value;
                let is_other = value == Phase::UNMATCHED.name();
                let found: Vec<_> = Phase::ALL
                    .iter()
                    .filter(|phase| named(phase) || is_other && phase.name() == value)
                    .collect();
                if found.is_empty() {
                    return Err(FilterError::Phase(owned()));
                }
                self.phases |= found.iter().map(|phase| 1 << phase.code()).sum::<u64>();
            }
            "path" => {
                let glob = Glob::new(value).map_err(|cause| FilterError::Glob {
                    text: owned(),
                    cause,
                })?;
                globs.push(glob);
            }
            "min-duration" => {
                let shortest = humantime::parse_duration(value);
                self.shortest = shortest.map_err(|_| FilterError::Duration(owned()))?;
            }
            "pid" => {
                let pid = value.parse().ok().filter(|pid| *pid > 0);
                self.pids
                    .push(pid.ok_or_else(|| FilterError::Pid(owned()))?);
            }
            "comm" => {
                let pattern = name_pattern(value).ok_or_else(|| FilterError::Comm(owned()))?;
                self.names.push(pattern);
            }
            _ => return Err(no_key()),
        }
        Ok(())
    }

    /// The filters as they were given.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The table of the paths that are traced; none where all are. It gives them the phase `training`.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// Whether it lets an operation through, of a process of this name on a file of this path, where these are known. What
    /// the programs do for it where they are told of the filter, this does behind them.
    pub fn lets_through(&self, of: &Operation, name: Option<&[u8]>, path: Option<&[u8]>) -> bool {
        let ns = of.end.saturating_sub(of.start);
        let has_path = |table: &Table| {
            path.is_some_and(|path| {
                let verdict = table.verdict(path, false, table.base(""));
                verdict.phase(Direction::Read) == Phase::Training
            })
        };
        let has_name = |name: &[u8]| {
            self.names
                .iter()
                .any(|pattern| pattern.matches(words(name)))
        };
        u128::from(ns) >= self.shortest.as_nanos()
            && (self.phases == 0 || self.phases >> (of.key.phase & 31) & 1 != 0)
            && (self.pids.is_empty() || self.pids.contains(&of.key.tgid))
            && (self.names.is_empty() || name.is_some_and(has_name))
            && self.table.as_ref().is_none_or(has_path)
    }

    /// Whether it looks at names of processes.
    pub fn is_by_name(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether the programs must walk paths for it.
    pub fn is_by_path(&self) -> bool {
        self.phases != 0 || self.table.is_some()
    }

    /// Its part of the programs' globals.
    pub fn settings(&self) -> [Setting; 4] {
        let who = u64::from(!self.pids.is_empty()) | u64::from(!self.names.is_empty()) << 1;
        let shortest = u64::try_from(self.shortest.as_nanos()).unwrap_or(u64::MAX);
        [
            globals::TRACE_PHASES.set(self.phases),
            globals::TRACE_SHORTEST.set(shortest),
            globals::TRACE_PATHS.set(self.table.is_some()),
            globals::TRACE_WHO.set(who),
        ]
    }

    /// The process ids, as the programs have them.
    pub fn pids(&self) -> [u32; FILTER_PIDS] {
        let mut pids = [0; FILTER_PIDS];
        pids[..self.pids.len()].copy_from_slice(&self.pids);
        pids
    }

    /// The names of processes, as the programs have them.
    pub fn names(&self) -> [NamePattern; FILTER_NAMES] {
        let mut names = [NamePattern::NOTHING; FILTER_NAMES];
        names[..self.names.len()].copy_from_slice(&self.names);
        names
    }
}

/// The rule that gives the paths a phase.
fn rule(globs: Vec<Glob>) -> Rule {
    Rule {
        name: "--trace-filter".into(),
        phase: Phase::Training,
        globs,
        directions: [true; 2],
        fs_types: Vec::new(),
        ignore_case: false,
        origin: Origin {
            file: "--trace-filter".into(),
            line: 0,
            is_builtin: false,
        },
    }
}

/// A name, or the beginning of names where it ends in `*`, as it is compared with `task_struct.comm`.
fn name_pattern(text: &str) -> Option<NamePattern> {
    let (name, is_prefix) = match text.strip_suffix('*') {
        Some(prefix) => (prefix, true),
        None => (text, false),
    };
    if name.len() > 15 || name.contains(['*', '\0']) || name.is_empty() && !is_prefix {
        return None;
    }
    let (mut word, mut mask) = ([0; 16], [0; 16]);
    word[..name.len()].copy_from_slice(name.as_bytes());
    // The NUL behind a whole name counts.
    mask[..name.len() + usize::from(!is_prefix)].fill(0xff);
    Some(NamePattern {
        word: words(&word),
        mask: words(&mask),
    })
}

/// A name, or what masks one, as two words.
fn words(name: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let length = name.len().min(bytes.len());
    bytes[..length].copy_from_slice(&name[..length]);
    let whole = u128::from_ne_bytes(bytes);
    let halves = [whole as u64, (whole >> 64) as u64];
    match cfg!(target_endian = "little") {
        true => halves,
        false => [halves[1], halves[0]],
    }
}

#[cfg(test)]
mod tests {
    use iotrace_common::key::IoKey;

    use super::*;

    fn comm(name: &str) -> [u64; 2] {
        words(name.as_bytes())
    }

    #[test]
    fn what_is_let_through_meets_each_key_by_one_of_its_values() {
        let operation = |phase: Phase, tgid, ns: u64| Operation {
            key: IoKey {
                phase: u32::from(phase.code()),
                tgid,
                ..IoKey::default()
            },
            start: 5,
            end: 5 + ns,
            ..Operation::default()
        };
        let texts = [
            "phase=checkpoint",
            "path=*.pt",
            "path=*.bin",
            "min-duration=1us",
            "pid=7",
            "pid=8",
            "comm=pyth*",
        ];
        let filter = Filter::new(&texts.map(String::from)).unwrap();
        let lets = |operation, name: Option<&str>, path: Option<&str>| {
            filter.lets_through(&operation, name.map(str::as_bytes), path.map(str::as_bytes))
        };
        let right = operation(Phase::Checkpoint, 8, 1000);
        assert!(lets(right, Some("python3"), Some("/ck/a.bin")));
        assert!(!lets(right, Some("bash"), Some("/ck/a.bin")));
        assert!(!lets(right, None, Some("/ck/a.bin")));
        assert!(!lets(right, Some("python3"), Some("/ck/a.txt")));
        assert!(!lets(right, Some("python3"), None));
        let wrong = [
            operation(Phase::Checkpoint, 8, 999),
            operation(Phase::Checkpoint, 9, 1000),
            operation(Phase::Training, 8, 1000),
        ];
        for operation in wrong {
            assert!(!lets(operation, Some("python3"), Some("/ck/a.bin")));
        }
        let all = Filter::default();
        assert!(all.lets_through(&wrong[2], None, None));
    }

    #[test]
    fn names_match_whole_or_by_their_beginning() {
        let whole = name_pattern("python3").unwrap();
        assert!(whole.matches(comm("python3")));
        assert!(!whole.matches(comm("python3.11")) && !whole.matches(comm("python")));
        let beginning = name_pattern("pt_data_wo*").unwrap();
        assert!(beginning.matches(comm("pt_data_worker")) && !beginning.matches(comm("pt_data")));
        assert!(name_pattern("*").unwrap().matches(comm("x")));
        assert!(!NamePattern::NOTHING.matches(comm("")));
    }

    #[test]
    fn wrong_filters_are_refused_with_the_mend() {
        for text in [
            "checkpoint",
            "size=3",
            "phase=save",
            "path=[a",
            "min-duration=soon",
            "pid=0",
            "pid=me",
            "comm=sixteen bytes is 1",
            "comm=a*b",
        ] {
            assert!(Filter::new(&[text.into()]).is_err(), "{text}");
        }
        let many: Vec<String> = (1..18).map(|pid| format!("pid={pid}")).collect();
        assert!(matches!(
            Filter::new(&many),
            Err(FilterError::TooMany { key: "pid", .. })
        ));
    }

    #[test]
    fn phases_are_bits_and_other_is_all_its_classes() {
        let filter = Filter::new(&["phase=other".into(), "phase=restore".into()]).unwrap();
        assert_eq!(filter.phases, 0b11_1111_0000 & !(1 << 4) | 1 << 4);
        let filter = Filter::new(&["phase=log".into()]).unwrap();
        assert_eq!(filter.phases, 1 << 7);
    }
}
