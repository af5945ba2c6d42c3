//! Which tests run, and in which machines.

use anyhow::{Result, bail};

use super::kernels::Release;
use super::programs::{Programs, TestFile};

/// A file of tests that runs in the machines.
pub struct File {
    pub name: &'static str,
    /// Tests that cannot run there, each with the reason.
    pub without: &'static [(&'static str, &'static str)],
}

/// Files whose tests need nothing but iotrace and the counting program.
pub const FILES: &[File] = &[
    File {
        name: "exact",
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

const MACHINES: [Machine; 2] = [
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
        only: Some("losses"),
    },
];

/// The first release that has what iotrace needs; those before it must be refused in words.
const OLDEST: Release = Release(5, 13);
/// Exit code of `iotrace check` where iotrace cannot run.
const REFUSED: i32 = 77;
/// How long one test may take. Emulated, loading the programs alone takes ten seconds.
const LIMIT: u32 = 300;

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
        for (file, built) in FILES.iter().zip(&programs.tests) {
            if let Some((name, _)) = file
                .without
                .iter()
                .find(|(name, _)| !built.tests.iter().any(|test| test == name))
            {
                bail!(
                    "{}::{name} is left out, and there is none: take it out of the plan",
                    file.name
                );
            }
        }
        let plan = Self { programs, words };
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
        let supported = release >= OLDEST;
        let mut jobs = Vec::new();
        if machine.only.is_none() {
            jobs.push(self.check(supported));
        }
        if supported {
            for (file, built) in FILES.iter().zip(&self.programs.tests) {
                if machine.only.is_none_or(|only| only == file.name) {
                    jobs.extend(tests(file, built));
                }
            }
        }
        jobs.retain(|job| self.is_chosen(&job.name));
        jobs
    }

    fn check(&self, supported: bool) -> Job {
        Job {
            name: "iotrace-check".to_owned(),
            limit: LIMIT,
            is_test: false,
            exit_code: if supported { 0 } else { REFUSED },
            command: format!("{} check", self.programs.iotrace.display()),
        }
    }

    fn is_chosen(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }
}

/// Any release that is new enough.
const NEWEST: Release = Release(u32::MAX, 0);

fn tests(file: &File, built: &TestFile) -> impl Iterator<Item = Job> {
    let left_out = |test: &&String| !file.without.iter().any(|(name, _)| name == test);
    built.tests.iter().filter(left_out).map(|test| Job {
        name: format!("{}::{test}", file.name),
        limit: LIMIT,
        is_test: true,
        exit_code: 0,
        command: format!(
            "{} --exact {test} --test-threads 1 --nocapture",
            built.binary.display()
        ),
    })
}

impl Job {
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
