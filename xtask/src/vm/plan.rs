//! Which tests run, and in which machines.

use anyhow::{Context as _, Result, bail};

use super::arch::Arch;
use super::kernels::Release;
use super::programs::Programs;

/// A file of tests that runs in the machines.
struct File {
    name: &'static str,
    /// Tests that cannot run there, each with the reason.
    without: &'static [(&'static str, &'static str)],
}

/// Files whose tests need nothing but iotrace and the counting program.
const FILES: &[File] = &[
    File {
        name: EXACT,
        without: &[],
    },
    File {
        name: OLDER,
        without: &[],
    },
    File {
        name: UNTYPED,
        without: &[],
    },
    File {
        name: "losses",
        without: &[],
    },
    File {
        name: "overflow",
        without: &[],
    },
    File {
        name: "paths",
        without: &[],
    },
    File {
        name: "histograms",
        without: &[],
    },
    File {
        name: "latencies",
        without: &[
            ("devices_are_told_apart", "nothing is mounted at /dev/shm"),
            (
                "requests_of_processes_on_one_cpu_are_told_apart",
                "there is no taskset",
            ),
        ],
    },
    File {
        name: "scheduler",
        without: &[],
    },
    File {
        name: "recordings",
        without: &[],
    },
    File {
        name: "stacks",
        without: &[
            (
                "functions_and_lines_are_those_of_the_program",
                "there is no compiler",
            ),
            (
                "without_debugging_information_functions_are_known",
                "there is no compiler",
            ),
            (
                "a_program_that_a_process_runs_later_is_another",
                "there is no compiler",
            ),
        ],
    },
    File {
        name: "trace",
        without: &[
            ("every_operation_is_as_strace_saw_it", "there is no strace"),
            ("three_million_operations", "too many to emulate"),
            ("a_trace_stays_within_its_size", "too many to emulate"),
            ("filters_choose_phases", "reads a file of the distribution"),
            (
                "filters_choose_programs_by_their_name",
                "all of busybox is one program",
            ),
        ],
    },
];

/// A kind of machine.
pub struct Machine {
    pub name: &'static str,
    /// Its name in file names.
    pub word: &'static str,
    pub cpus: u32,
    pub append: &'static str,
    /// Files of tests that it runs; none: all, and `iotrace check`.
    only: Option<&'static str>,
}

pub const MACHINES: [Machine; 5] = [
    Machine {
        name: "2 CPUs",
        word: "2",
        cpus: 2,
        append: "",
        only: None,
    },
    // What loses operations: a drain that is preempted amid a map operation, with nowhere else to run.
    Machine {
        name: "1 CPU, preempt=full",
        word: "1-full",
        cpus: 1,
        append: "preempt=full",
        only: Some(LOSSES),
    },
    Machine {
        name: "8 CPUs",
        word: "8",
        cpus: 8,
        append: "",
        only: Some(MANY_CPUS),
    },
    Machine {
        name: "lockdown=confidentiality",
        word: "lockdown",
        cpus: 1,
        append: "lockdown=confidentiality",
        only: Some(LOCKDOWN),
    },
    Machine {
        name: "control groups of version 1",
        word: "cgroups-1",
        cpus: 1,
        append: "cgroups=1",
        only: Some(CGROUPS_1),
    },
];

/// The script of what iotrace does on hosts of every kind, in the machine.
pub const HOST: &str = "/etc/host.sh";
/// Its cases for a machine that is like most.
const HOSTS: [&str; 10] = [
    "xfs",
    "tmpfs",
    "overlayfs",
    "hidden_btf",
    "no_tracefs",
    "memory_limit",
    "cgroups_of_both_versions",
    "hot_plugged_cpu",
    "unprivileged_bpf_disabled",
    "preemption",
];
/// Words in the names of tests whose filesystem is a module in Debian's kernels.
const OF_MODULES: [&str; 2] = ["xfs", "overlay"];
/// Its case for a kernel before [`RECENT`]: what iotrace says where it may not take the programs for those.
const TOO_OLD: &str = "too_old_and_refused";
/// Its case for kernels that have every hook, of mapped files too, and that lack nothing iotrace knows of.
const EVERY_HOOK: &str = "every_hook";
/// The first release of those among the tested ones.
const HAS_EVERY_HOOK: Release = Release(6, 12);
/// Its cases for a machine of their own.
const LOCKDOWN: &str = "lockdown";
const CGROUPS_1: &str = "cgroups_of_version_1";
const MANY_CPUS: &str = "many_cpus";

/// The first release that has what all of iotrace needs; those before it get the programs for older kernels.
const RECENT: Release = Release(5, 15);
/// The file of tests of those programs. Newer kernels than this machine's own never take them.
const OLDER: &str = "older";
/// That of the programs for kernels without type information, which every kernel of x86-64 takes.
const UNTYPED: &str = "untyped";
/// Words in the names of tests of what those programs leave out, or of what these kernels have not, each with the reason.
const NOT_ON_OLDER: [(&str, &str); 20] = [
    (
        "memory_limit",
        "maps are charged to a limit of their user, and to no group",
    ),
    ("tracepoint", "there are no per-syscall tracepoints"),
    ("no_tracefs", "as above"),
    ("io_uring", "its requests are not accounted"),
    ("sixteen_threads_on_one_file", "by both kinds of hooks"),
    (
        "descriptors_by_dup_fork_socket_and_exec",
        "by both kinds of hooks",
    ),
    ("every_call_with_three_entries", "by both kinds of hooks"),
    ("interrupted_calls_stand", "by both kinds of hooks"),
    ("calls_of_the_32_bit", "by both kinds of hooks"),
    ("hot_plugged_cpu", "by both kinds of hooks"),
    ("every_call_is_in_one_bucket", "by both kinds of hooks"),
    ("percentiles_of_every_call", "by both kinds of hooks"),
    ("deep_paths", "deeper than the walk goes"),
    ("a_path_of_500", "deeper than the walk goes"),
    ("filters_choose_paths", "no rules are walked in the kernel"),
    ("filters_choose_processes", "by path, too"),
    ("waits_add_up", "waits are not told"),
    ("waits_are_kept", "waits are not told"),
    ("every_open_counts", "stacks are not walked"),
    (
        "more_is_kept_of",
        "directories of failed look-ups are not told",
    ),
];
/// The file of tests that compare every count.
pub const EXACT: &str = "exact";
/// The file of tests that measure what is lost.
const LOSSES: &str = "losses";
/// From this release on programs on tracepoints can be preempted, those on system calls from 7.2 on, and the kernel then
/// skips them for other tasks. An emulated CPU is in them for most of its time, so hardly any run would miss nothing. What
/// is counted is compared where no traced thread preempts another, and [`LOSSES`] measures what is lost where they do.
const PREEMPTIBLE: Release = Release(7, 0);
/// Files and tests whose threads must preempt each other: they measure that, or would never wait.
const AT_ONCE: [&str; 2] = [LOSSES, "killed"];
/// The counting program's mode that runs a command and all its children at a real-time priority: each until it waits.
const IN_TURN: &str = "in-turn";
/// How long one test may take, in seconds, on a machine that has other work too. Emulated, loading the programs alone
/// takes ten.
const LIMIT: u32 = 900;

/// A command in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    pub limit: u32,
    /// Whether it is a test, which must say itself that it ran.
    pub is_test: bool,
    pub exit_code: i32,
    pub command: String,
}

/// Everything that is to run.
pub struct Plan<'a> {
    programs: &'a Programs,
    words: &'a [String],
}

impl<'a> Plan<'a> {
    /// Checks that the chosen tests are there.
    pub fn new(programs: &'a Programs, words: &'a [String]) -> Result<Self> {
        let plan = Self { programs, words };
        for file in FILES {
            let tests: Vec<_> = plan.names(file).collect();
            if tests.is_empty() {
                bail!(
                    "no test is in the file {}: take it out of the plan",
                    file.name
                );
            }
            let mut without = file.without.iter();
            if let Some((name, _)) = without.find(|(name, _)| !tests.contains(name)) {
                bail!(
                    "{}::{name} is left out, and there is none: take it out of the plan",
                    file.name
                );
            }
        }
        if plan.machines(NEWEST).is_empty() {
            bail!("no test has one of these in its name: {}", words.join(", "));
        }
        Ok(plan)
    }

    /// The machines that have anything to do on a kernel.
    pub fn machines(&self, release: Release) -> Vec<(&'static Machine, Vec<Job>)> {
        let all = MACHINES
            .iter()
            .map(|machine| (machine, self.jobs(machine, release)));
        all.filter(|(_, jobs)| !jobs.is_empty()).collect()
    }

    fn jobs(&self, machine: &Machine, release: Release) -> Vec<Job> {
        let is_older = release < RECENT;
        let mut jobs = Vec::new();
        if machine.only.is_none() {
            jobs.push(self.check());
        }
        let cases = match machine.only {
            None => &HOSTS[..],
            Some(LOCKDOWN) => &[LOCKDOWN],
            Some(CGROUPS_1) => &[CGROUPS_1],
            Some(MANY_CPUS) => &[MANY_CPUS],
            Some(_) => &[],
        };
        jobs.extend(cases.iter().map(|case| self.host(case, release)));
        if machine.only.is_none() && release >= HAS_EVERY_HOOK {
            jobs.push(self.host(EVERY_HOOK, release));
        }
        for file in FILES {
            let is_for = match file.name {
                OLDER => is_older,
                UNTYPED => self.programs.arch == Arch::Amd64,
                _ => true,
            };
            if is_for && machine.only.is_none_or(|only| only == file.name) {
                jobs.extend(self.tests(file, release));
            }
        }
        if is_older {
            let is_left_out = |job: &Job| {
                let names = |(word, _): &(&str, &str)| job.name.contains(word);
                let has_own = [OLDER, UNTYPED].iter().any(|own| job.name.starts_with(own));
                !has_own && NOT_ON_OLDER.iter().any(names)
            };
            jobs.retain(|job| !is_left_out(job));
            if machine.only.is_none() {
                jobs.push(self.host(TOO_OLD, release));
            }
        }
        jobs.retain(|job| self.is_chosen(&job.name));
        jobs
    }

    fn check(&self) -> Job {
        Job {
            name: "iotrace-check".to_owned(),
            limit: LIMIT,
            is_test: false,
            exit_code: 0,
            command: format!("{} check", self.programs.iotrace.display()),
        }
    }

    /// One test on a kernel that loses nothing.
    pub fn job(&self, file: &str, test: &str) -> Result<Job> {
        let name = format!("{file}::{test}");
        let jobs = FILES.iter().filter(|known| known.name == file);
        let mut jobs = jobs.flat_map(|file| self.tests(file, RECENT));
        jobs.find(|job| job.name == name)
            .with_context(|| format!("there is no test {name}"))
    }

    /// The names of a file's tests, without the file's.
    fn names(&self, file: &File) -> impl Iterator<Item = &'a str> {
        let tests = self.programs.tests.iter();
        tests.filter_map(|test| test.strip_prefix(file.name)?.strip_prefix("::"))
    }

    /// The tests of a file.
    fn tests(&self, file: &File, release: Release) -> Vec<Job> {
        let is_taken = |test: &&str| !file.without.iter().any(|(name, _)| name == test);
        let in_turn = self.runner(release);
        let tests = self.names(file).filter(is_taken).map(|test| {
            let at_once = AT_ONCE
                .iter()
                .any(|word| file.name == *word || test.contains(word));
            let runner = if at_once { "" } else { &in_turn };
            let name = format!("{}::{test}", file.name);
            let kernel = self.programs.kernel.display();
            Job {
                limit: LIMIT,
                is_test: true,
                exit_code: 0,
                command: format!("{runner}{kernel} --exact {name} --test-threads 1 --nocapture"),
                name,
            }
        });
        tests.collect()
    }

    /// What stands before a command whose counts are compared.
    fn runner(&self, release: Release) -> String {
        if release < PREEMPTIBLE {
            String::new()
        } else {
            format!("{} {IN_TURN} ", self.programs.workload.display())
        }
    }

    /// A case of [`HOST`].
    fn host(&self, case: &str, release: Release) -> Job {
        let (iotrace, kernel) = (
            self.programs.iotrace.display(),
            self.programs.kernel.display(),
        );
        let runner = self.runner(release);
        Job {
            name: format!("host::{case}"),
            limit: LIMIT,
            is_test: false,
            exit_code: 0,
            command: format!("env IOTRACE={iotrace} KERNEL={kernel} {runner}/bin/sh {HOST} {case}"),
        }
    }

    fn is_chosen(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}

/// Any release that is new enough.
const NEWEST: Release = Release(u32::MAX, 0);

impl Job {
    /// Whether it cannot run on a kernel without modules.
    pub fn needs_module(&self) -> bool {
        OF_MODULES.iter().any(|word| self.name.contains(word))
    }

    /// As `init.sh` reads it.
    pub fn line(&self) -> String {
        let kind = if self.is_test { "test" } else { "command" };
        let Self {
            limit,
            exit_code,
            name,
            command,
            ..
        } = self;
        format!("{limit} {kind} {exit_code} {name} {command}\n")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cmd;

    /// The plan is checked when the machines are built, a quarter of an hour after it was asked for.
    #[test]
    fn what_is_left_out_is_there() {
        for file in FILES {
            let path = format!("iotrace-daemon/tests/kernel/{}.rs", file.name);
            let source = fs::read_to_string(cmd::root().join(&path)).expect(&path);
            for (name, _) in file.without {
                assert!(
                    source.contains(&format!("fn {name}() ")),
                    "{name} in {path}"
                );
            }
        }
    }
}
