//! Lines by the programs that this process has loaded: it tells them which interpreter each process runs.

use aya::maps::{HashMap, MapData};
use iotrace_common::{
    abi::maps::{LINE_COUNTS, PYTHONS},
    lines::{LineCounts, LineKey, Python},
};
use iotrace_model::{lines::Lined, sources::SourceLine};

use super::{Lines, Told};
use crate::{
    drain::generations::{Generations, Pair},
    kernel::{Kernel, KernelError},
};

/// The lines of a run, and the maps that they are taken from.
pub struct OwnLines {
    lines: Lines,
    pythons: HashMap<MapData, u32, Python>,
    /// The number of the last program that the programs were told of.
    last: u64,
    counts: Generations<LineKey, LineCounts>,
}

impl OwnLines {
    /// Takes the maps out of the loaded programs, which find lines.
    pub fn take(kernel: &mut Kernel) -> Result<Self, KernelError> {
        Ok(Self {
            lines: Lines::new(kernel.lines()),
            pythons: kernel.take(PYTHONS)?,
            last: 0,
            counts: Generations::take(kernel, LINE_COUNTS)?,
        })
    }

    /// Looks for the interpreter of a process, and tells the programs of it.
    pub fn look(&mut self, pid: u32) {
        let Some(program) = self.lines.find(pid) else {
            return;
        };
        let number = self.last + 1;
        let python = Python {
            number,
            ..program.python()
        };
        match self.pythons.insert(pid, python, 0) {
            Ok(()) => {
                self.last = number;
                self.lines.know(number, program);
            }
            Err(error) => {
                let what = format!("lines of a process are not found: {error}");
                self.lines.say(what);
            }
        }
    }

    /// Takes what the programs tell.
    pub fn tell(&mut self, told: Told) {
        if let Some(pid) = self.lines.tell(told) {
            self.look(pid);
        }
    }

    pub fn pair(&mut self) -> &mut dyn Pair {
        &mut self.counts
    }

    /// Takes the counters; `last`: of both generations, in place. How many there were.
    pub fn sweep(&mut self, idle: usize, last: bool) -> Result<usize, KernelError> {
        let lines = &mut self.lines;
        self.counts
            .sweep(idle, last, |entries| lines.count(entries))
    }

    /// What was counted and read since the last call ([`Lines::sums`], [`Lines::take_sources`]).
    pub fn news(&mut self, last: bool) -> (Vec<Lined>, Vec<SourceLine>) {
        (self.lines.sums(last), self.lines.take_sources(last))
    }
}
