//! What running the programs costs, as the kernel measures it where it is asked to.

use std::{os::fd::OwnedFd, time::Duration};

use aya::sys::{Stats, enable_stats};

use super::Kernel;

/// The runs of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRuns {
    pub name: String,
    pub runs: u64,
    pub time: Duration,
}

/// The kernel measures every BPF program of the machine as long as this lives, at some 20 to 30 ns a run.
pub struct Measuring(#[expect(dead_code, reason = "held: closing it ends the measuring")] OwnedFd);

impl Measuring {
    /// Begins to measure; needs CAP_SYS_ADMIN.
    pub fn start() -> Result<Self, String> {
        enable_stats(Stats::RunTime)
            .map(Self)
            .map_err(|error| super::error::chain(&error))
    }
}

impl Kernel {
    /// The runs of each loaded program, as far as they were measured.
    pub fn program_runs(&self) -> Vec<ProgramRuns> {
        let programs = self.ebpf.programs();
        programs
            .filter_map(|(name, program)| {
                let info = program.info().ok()?;
                Some(ProgramRuns {
                    name: name.to_owned(),
                    runs: info.run_count(),
                    time: info.run_time(),
                })
            })
            .collect()
    }
}
