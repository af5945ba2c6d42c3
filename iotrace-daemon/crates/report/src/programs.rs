//! The programs of a recording: which processes are one program's, what people call it, and how each is judged by itself.
//!
//! A shell script that only finds and runs a program (pyenv's `python`, `conda run`, `env`) is presented as that program, and
//! what it ran to find it with it. This is presentation: counters stay with the process that has them.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    Report,
    json::entries::{object, put_text, seconds},
    merged::{self, Merged},
    sections::phases::label,
    text::{
        escape::{clipped, escape, shorten, width},
        head::words,
    },
    verdict::{Evidence, Judgement, Verdict},
};
use iotrace_analysis::{
    merged::by_group,
    waits::{Waiter, exposed_of},
};
use iotrace_model::{
    Process,
    counters::{
        BYTES_READ, BYTES_WRITTEN, Counters, MAJOR_FAULT_NS, saturating_add, saturating_sum,
    },
    groups::{Groups, parents},
    paths::name,
    run::Target,
    waits::Leaf,
};
use iotrace_phases::phase::Phase;
use serde_json::{Value as Json, json};

/// Shells, what their scripts call, and programs that run another one.
const SHELL_TOOLS: [&str; 46] = [
    "awk",
    "basename",
    "bash",
    "busybox",
    "cat",
    "cut",
    "dash",
    "date",
    "dirname",
    "env",
    "expr",
    "gawk",
    "getconf",
    "grep",
    "head",
    "hostname",
    "id",
    "ksh",
    "ldconfig",
    "ls",
    "mawk",
    "micromamba",
    "mkdir",
    "mktemp",
    "nice",
    "nohup",
    "numactl",
    "pyenv",
    "readlink",
    "realpath",
    "rm",
    "rye",
    "sed",
    "setsid",
    "sh",
    "sort",
    "stdbuf",
    "tail",
    "taskset",
    "timeout",
    "tr",
    "uname",
    "uv",
    "wc",
    "which",
    "zsh",
];
/// Of these, those that run scripts.
const SHELLS: [&str; 6] = ["bash", "busybox", "dash", "ksh", "sh", "zsh"];
/// Scripts that run a program in an environment.
const LAUNCH_SCRIPTS: [&str; 6] = ["conda", "hatch", "mamba", "pdm", "pipenv", "poetry"];
/// Interpreters by how their names begin.
const INTERPRETERS: [&str; 7] = ["python", "pypy", "perl", "ruby", "node", "Rscript", "julia"];
/// Bytes that a process that only runs a program reads and writes at most, but for programs and libraries.
const MAX_SHIM_BYTES: u64 = 64 << 10;

/// Programs in the JSON report without long lists.
const MAX_SUMMARY_JSON_PROGRAMS: usize = 100;

/// A command line as people call it: without the directories of program and script, and options of the interpreter.
#[derive(Debug, PartialEq, Eq)]
pub struct ShortCommand {
    /// The program, and its script.
    pub name: Vec<u8>,
    arguments: Vec<u8>,
}

impl ShortCommand {
    /// Of the words of a command line.
    pub fn new<W: AsRef<[u8]>>(words: &[W]) -> Self {
        let mut words = words.iter().map(AsRef::as_ref);
        let program = name(words.next().unwrap_or_default());
        let mut rest: Vec<&[u8]> = words.collect();
        let mut called = vec![program];
        if is_interpreter(program) {
            called[0] = without_version(program);
            let module = rest.iter().position(|word| *word == b"-m");
            match (script(&rest), module) {
                (Some(script), _) => {
                    called.push(name(rest[script]));
                    rest.drain(..=script);
                }
                (None, Some(at)) if at + 1 < rest.len() => {
                    called.extend(rest.drain(..at + 2).skip(at));
                }
                (None, _) => {}
            }
        }
        Self {
            name: called.join(&b' '),
            arguments: rest.join(&b' '),
        }
    }

    /// The script, else the program.
    pub fn script(&self) -> &[u8] {
        let space = self.name.iter().rposition(|byte| *byte == b' ');
        &self.name[space.map_or(0, |at| at + 1)..]
    }

    /// The name and all arguments, escaped.
    pub fn whole(&self) -> String {
        let mut whole = escape(&self.name);
        if !self.arguments.is_empty() {
            whole.push(' ');
            whole += &escape(&self.arguments);
        }
        whole
    }

    /// The name, then as many of the arguments as fit into `room` columns; escaped.
    pub fn fit(&self, room: usize) -> String {
        if self.arguments.is_empty() || width(&escape(&self.name)) + 2 > room {
            return shorten(&self.name, room);
        }
        clipped(&self.whole(), room)
    }
}

/// Where the script is in an interpreter's arguments; `None` if it runs a module or code.
fn script(arguments: &[&[u8]]) -> Option<usize> {
    let mut at = 0;
    loop {
        match *arguments.get(at)? {
            // Options with a value.
            b"-X" | b"-W" | b"-o" => at += 2,
            b"-m" => return None,
            [b'-', option @ ..] if is_code(option) => return None,
            [b'-', ..] => at += 1,
            _ => return Some(at),
        }
    }
}

/// Whether an option is of code: `c`, or the letters of several.
fn is_code(option: &[u8]) -> bool {
    option.contains(&b'c') && option.len() <= 4 && option.iter().all(u8::is_ascii_alphabetic)
}

/// `python` of `python3.12`.
fn without_version(interpreter: &[u8]) -> &[u8] {
    let is_version = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let end = interpreter.iter().rposition(|byte| !is_version(byte));
    &interpreter[..end.map_or(0, |at| at + 1)]
}

fn is_interpreter(program: &[u8]) -> bool {
    let starts = |start: &&str| program.starts_with(start.as_bytes());
    is_one_of(program, &SHELLS) || INTERPRETERS.iter().any(starts)
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| one.as_bytes() == name)
}

/// Whether a command line is of a program that may do nothing but run another one.
pub fn may_be_shim<W: AsRef<[u8]>>(words: &[W]) -> bool {
    let [program, rest @ ..] = words else {
        return false;
    };
    let program = name(program.as_ref());
    let program = program.strip_prefix(b"-").unwrap_or(program); // a login shell
    let launches = |script: &W| is_one_of(name(script.as_ref()), &LAUNCH_SCRIPTS);
    is_one_of(program, &SHELL_TOOLS)
        || is_one_of(program, &LAUNCH_SCRIPTS)
        || is_interpreter(program) && rest.first().is_some_and(launches)
}

/// Whether a command line is code for a shell.
fn is_shell_code<W: AsRef<[u8]>>(words: &[W]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    words.split_first().is_some_and(|(program, rest)| {
        is_one_of(name(program), &SHELLS) && !rest.is_empty() && script(rest).is_none()
    })
}

/// What a process is called.
fn called(process: &Process) -> ShortCommand {
    match words(&process.about)[..] {
        [b""] => ShortCommand::new(&[format!("process {}", process.id.pid)]),
        ref words => ShortCommand::new(words),
    }
}

/// The process that each is presented as, by index.
pub struct Folded(Vec<u32>);

impl Folded {
    pub(super) fn new(report: &Report<'_>) -> Self {
        let processes = report.model.processes();
        let parents = parents(report.model);
        let mut order: Vec<u32> = (0..processes.len() as u32).collect();
        order.sort_by_key(|index| {
            Reverse((processes[*index as usize].about.start_boottime, *index))
        });
        // The programs that a process runs: of what it runs, shims are what they run.
        let mut runs: Vec<Vec<u32>> = vec![Vec::new(); processes.len()];
        let mut shown: Vec<Option<u32>> = vec![None; processes.len()];
        for index in order {
            let place = index as usize;
            let is_shim = may_be_shim(&words(&processes[place].about)) && !report.moved_data(index);
            shown[place] = match &runs[place][..] {
                [] if is_shim => None,
                [program] if is_shim => Some(*program),
                _ => Some(index),
            };
            if let (Some(program), Some(parent)) = (shown[place], parents[place]) {
                runs[parent as usize].push(program);
            }
        }
        // What ran no program is what ran it.
        let of = |index: u32| {
            let mut at = index;
            for _ in 0..processes.len() {
                match (shown[at as usize], parents[at as usize]) {
                    (Some(program), _) => return program,
                    (None, Some(parent)) => at = parent,
                    (None, None) => break,
                }
            }
            at
        };
        Self((0..processes.len() as u32).map(of).collect())
    }

    /// The process that `process` is presented as.
    pub fn of(&self, process: u32) -> u32 {
        self.0[process as usize]
    }
}

/// A program of a recording, with its workers; or a job, with all its programs.
pub struct Program<'a> {
    /// Its first process, by index; of a job the one with the most time in calls.
    pub leader: u32,
    /// The batch system's name and number of the job.
    pub job: Option<&'a str>,
    pub name: ShortCommand,
    /// Those that used a file, shims left out.
    pub processes: u64,
    /// Whose time is its lifetime.
    pub judgement: Judgement<'a>,
    /// What most of its time in files, or of its waiting, was for.
    pub cause: Option<&'static str>,
    pub counters: Counters,
}

impl Program<'_> {
    /// Nanoseconds in files, at least and at most: of main threads' waits, if they are known, else in calls and page faults.
    pub fn in_files(&self) -> (u64, u64) {
        match &self.judgement.exposed {
            Some(exposed) => (exposed.spent.storage(), exposed.spent.storage()),
            None => (self.judgement.at_least_ns, self.judgement.at_most_ns),
        }
    }

    /// What [`Self::in_files`] is a part of, nanoseconds.
    pub fn whole_ns(&self) -> u64 {
        match &self.judgement.exposed {
            Some(exposed) => exposed.spent.whole(),
            None => self.judgement.whole_ns,
        }
    }
}

impl Report<'_> {
    /// Whether a process read or wrote more than scripts and programs.
    fn moved_data(&self, process: u32) -> bool {
        let phases = &self.processes[process as usize].phases;
        let others = Phase::ALL
            .into_iter()
            .filter(|phase| *phase != Phase::Startup);
        let sums = others.filter_map(|phase| phases.get(phase));
        saturating_sum(sums.map(|sum| sum.sum.counters.bytes())) > MAX_SHIM_BYTES
    }

    /// The processes that each is presented as.
    pub(super) fn folded(&self) -> Folded {
        Folded::new(self)
    }

    /// The traced command as it was typed, if it fits; `None` if something else was traced. Of a script that only runs a program,
    /// it is that program, unless the script is code on the command line.
    pub(super) fn command(&self, room: usize) -> Option<String> {
        let Target::Command(typed) = &self.run.target else {
            return None;
        };
        if may_be_shim(typed) && !is_shell_code(typed) {
            let first = self.process_order.first()?;
            let program = self.folded().of(*first);
            let words = words(&self.model.processes()[program as usize].about);
            if !may_be_shim(&words) {
                return Some(ShortCommand::new(&words).fit(room));
            }
        }
        let whole = escape(typed.join(" ").as_bytes());
        let fits = width(&whole) <= room;
        Some(match fits {
            true => whole,
            false => ShortCommand::new(typed).fit(room),
        })
    }

    /// Processes that used a file, without those that are presented as another.
    pub(super) fn shown_processes(&self) -> u64 {
        let folded = self.folded();
        let shown = (0..).zip(&self.processes).filter(|(index, process)| {
            process.sum.counters.operations() > 0 && folded.of(*index) == *index
        });
        shown.count() as u64
    }

    /// The programs of the recording, those with the most time in files first. Processes of one job are one.
    pub(super) fn programs(&self) -> Vec<Program<'_>> {
        let (groups, folded) = (Groups::new(self.model), self.folded());
        let processes = self.model.processes();
        // By what makes them one: the job, else the first process.
        let mut members: BTreeMap<(Option<&str>, u32), Vec<u32>> = BTreeMap::new();
        let mut keys = Vec::new();
        for index in 0..processes.len() as u32 {
            let leader = groups.of(folded.of(index));
            let job = processes[leader as usize].about.role.job.as_deref();
            let key = (job, job.map_or(leader, |_| 0));
            members.entry(key).or_default().push(index);
            keys.push(key);
        }
        let places: BTreeMap<_, u32> = members.keys().copied().zip(0..).collect();
        let place = |process: u32| places[&keys[process as usize]];
        let merged = by_group(&self.analysis.series.slices, self.run.duration_ns, place);
        let mut waiters: BTreeMap<u32, Vec<&Waiter>> = BTreeMap::new();
        for waiter in &self.analysis.waits.waiters {
            waiters
                .entry(place(waiter.process))
                .or_default()
                .push(waiter);
        }
        let programs = (0..)
            .zip(members)
            .filter_map(|(place, ((job, _), members))| {
                let calls = merged.get(&place).copied();
                let waiters = waiters.remove(&place).unwrap_or_default();
                self.program(job, &members, (calls, &waiters), (&groups, &folded))
            });
        let mut programs: Vec<Program<'_>> = programs.collect();
        programs.sort_by_key(|program| (Reverse(program.in_files().1), program.leader));
        programs
    }

    fn program<'a>(
        &'a self,
        job: Option<&'a str>,
        members: &[u32],
        (calls, waiters): (Option<(u64, u64)>, &[&Waiter]),
        (groups, folded): (&Groups, &Folded),
    ) -> Option<Program<'a>> {
        let mut counters = Counters::ZERO;
        let mut phases: BTreeMap<&'static str, u64> = BTreeMap::new();
        let (mut elsewhere_ns, mut longest_fault_ns) = (0, 0_u64);
        for index in members {
            let (sums, process) = (
                &self.processes[*index as usize],
                &self.model.processes()[*index as usize],
            );
            counters.absorb(&sums.sum.counters);
            for phase in Phase::ALL {
                let ns = sums
                    .phases
                    .get(phase)
                    .map_or(0, |sum| sum.sum.counters.nanoseconds());
                saturating_add(phases.entry(label(phase)).or_default(), ns);
            }
            for cell in [&process.path_only, &process.overflow] {
                saturating_add(&mut elsewhere_ns, cell.total().nanoseconds());
            }
            longest_fault_ns = longest_fault_ns.max(sums.sum.counters.v[MAJOR_FAULT_NS]);
        }
        let used = |index: &&u32| self.processes[**index as usize].sum.counters.operations() > 0;
        let is_leader =
            |index: &&u32| folded.of(**index) == **index && groups.of(**index) == **index;
        let ns = |index: &&u32| self.processes[**index as usize].sum.counters.nanoseconds();
        let leaders: Vec<&u32> = members.iter().filter(is_leader).collect();
        let leader = **leaders
            .iter()
            .max_by_key(|index| (ns(index), Reverse(***index)))?;
        let spans = leaders.iter().map(|index| self.lifetime(**index));
        let (start, end) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let whole_ns = u64::try_from(end - start).unwrap_or(0);
        let faults_ns = counters.v[MAJOR_FAULT_NS];
        let in_calls = counters.nanoseconds().min(whole_ns);
        let (at_least, at_most) = calls.unwrap_or((0, in_calls));
        let merged = |at_least: u64, at_most: u64| Merged {
            at_least: at_least.min(whole_ns),
            at_most: at_most.min(whole_ns),
            ..Merged::default()
        };
        // Reads of the process that trains hold it up: those of its workers may not.
        let reads = |index: &&u32| {
            let phases = &self.processes[**index as usize].phases;
            self.merged_of(phases, Phase::Training.name()).at_least
        };
        let reads_ns = leaders.iter().map(reads).max().unwrap_or(0);
        let judgement = self.judge_by(&Evidence {
            is_recorded: counters.operations() > 0 || faults_ns > 0,
            calls: merged(at_least, at_most),
            faults: merged(longest_fault_ns, faults_ns),
            elsewhere_ns,
            whole_ns,
            exposed: exposed_of(self.model, self.run, waiters, whole_ns),
            is_likely: reads_ns as f64 >= whole_ns as f64 * self.input_share && reads_ns > 0,
        });
        phases.insert("page faults", faults_ns);
        phases.insert("calls by path", elsewhere_ns);
        let largest = phases.into_iter().max_by_key(|(_, ns)| *ns);
        let cause = match judgement.verdict {
            Verdict::WaitsForLoader => Some(iotrace_analysis::waits::label(Leaf::Computing)),
            Verdict::WaitsForCpus => Some(iotrace_analysis::waits::label(Leaf::RunQueue)),
            _ => largest.filter(|(_, ns)| *ns > 0).map(|(phase, _)| phase),
        };
        let process = &self.model.processes()[leader as usize];
        let is_shown = |index: &&u32| used(index) && folded.of(**index) == **index;
        let is_listed = judgement.verdict != Verdict::NothingRecorded;
        is_listed.then(|| Program {
            leader,
            job,
            name: called(process),
            processes: members.iter().filter(is_shown).count().max(1) as u64,
            judgement,
            cause,
            counters,
        })
    }
}

/// The key `programs`: the programs of a machine; not `is_whole`: those with the most time in files.
pub fn json(report: &Report<'_>, is_whole: bool) -> Json {
    let most = if is_whole {
        usize::MAX
    } else {
        MAX_SUMMARY_JSON_PROGRAMS
    };
    let programs = report.programs().into_iter().take(most).map(|program| {
        let (judgement, (at_least, at_most)) = (&program.judgement, program.in_files());
        let whole = program.whole_ns();
        let process = &report.model.processes()[program.leader as usize];
        let mut object = object(json!({
            "pid": process.id.pid,
            "job": program.job,
            "processes": program.processes,
            "lifetime_seconds": seconds(judgement.whole_ns),
            "verdict": judgement.verdict.name(),
            "verdict_label": judgement.verdict.label(),
            "cause": program.cause,
            "file_io_seconds_at_least": seconds(at_least),
            "file_io_seconds_at_most": seconds(at_most),
            "share_of_lifetime_at_least": merged::share(at_least, whole),
            "share_of_lifetime_at_most": merged::share(at_most, whole),
            "bytes_read": program.counters.v[BYTES_READ],
            "bytes_written": program.counters.v[BYTES_WRITTEN],
        }));
        put_text(&mut object, "name", &program.name.name);
        Json::Object(object)
    });
    programs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_called_by_its_program_and_script() {
        let called = |line: &str, room| {
            let words: Vec<&str> = line.split(' ').collect();
            ShortCommand::new(&words).fit(room)
        };
        for (line, expected) in [
            (
                "/usr/bin/python3.12 -u /home/me/train.py --lr 3",
                "python train.py --lr 3",
            ),
            (
                "/venv/bin/python -X dev -m torch.distributed.run a.py",
                "python -m torch.distributed.run a.py",
            ),
            ("/bin/bash -o pipefail /opt/run.sh x", "bash run.sh x"),
            ("/bin/sh -ec /opt/a;b", "sh -ec /opt/a;b"),
            ("/usr/bin/python3 -c import\u{20}os", "python -c import os"),
            ("/opt/solver /data/in", "solver /data/in"),
        ] {
            assert_eq!(called(line, 60), expected);
        }
        assert_eq!(
            called("/usr/bin/python3 /a/train.py --lr 3", 20),
            "python train.py…"
        );
        assert_eq!(
            called("/usr/bin/python3 /a/train.py --lr 3", 15),
            "python train.py"
        );
        assert!(called("/usr/bin/python3 /a/train.py --lr 3", 12).ends_with("train.py"));
    }

    #[test]
    fn shims_are_those_that_run_another_program() {
        let is_shim = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            may_be_shim(&words)
        };
        for line in [
            "bash /root/.pyenv/shims/python train.py",
            "-bash",
            "/usr/bin/env FOO=1 python train.py",
            "/opt/conda/bin/python /opt/conda/bin/conda run python train.py",
            "uv run train.py",
        ] {
            assert!(is_shim(line), "{line}");
        }
        for line in [
            "python train.py",
            "python /opt/bin/torchrun train.py",
            "shred a",
        ] {
            assert!(!is_shim(line), "{line}");
        }
    }
}
