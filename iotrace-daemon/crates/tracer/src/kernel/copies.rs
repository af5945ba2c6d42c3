//! The copies of the pair of programs on system calls, and what all of them missed.
//!
//! Where system call programs can be preempted, the kernel skips a program that is running already on its CPU for
//! another task. A later copy of the pair acts where those before it were skipped; what every copy missed is lost.
//! Attaches `sys_enter` and `sys_exit` once to [`COPIES`] times.

use std::{
    os::fd::{AsFd as _, AsRawFd as _},
    path::Path,
};

use aya::{Btf, Ebpf, programs::BtfTracePoint};
use iotrace_common::{diag, limits::COPIES};

use super::{
    KernelError, fdinfo,
    hooks::{HOOKS, OptionalHook, Purpose},
    nobtf,
    program::{attach_raw, program, read_attach_points},
};

/// Programs and hook of a pair.
type Pair = [(&'static str, &'static str); 2];

/// The end first: a call whose start alone was seen would pass for a lost one.
const PAIRS: [Pair; COPIES] = [
    [("sys_exit", "sys_exit"), ("sys_enter", "sys_enter")],
    [
        ("sys_exit_again", "sys_exit"),
        ("sys_enter_again", "sys_enter"),
    ],
    [
        ("sys_exit_third", "sys_exit"),
        ("sys_enter_third", "sys_enter"),
    ],
];
/// Runs of programs that the kernel skipped, by what the programs are for: in the order of [`diag::MISSES`].
pub type Missed = [u64; diag::MISSES.len()];

/// What the programs missed: runs that the kernel skipped because the program was running already on that CPU.
#[derive(Debug, Default)]
pub struct Misses {
    /// Whether programs on system calls can be preempted, so that there can be more than one copy.
    preemptible: bool,
    /// Copies of the pair that are attached.
    copies: usize,
    /// Lost calls of the time before the last copy came.
    settled: u64,
    /// What each copy had missed by then: ends, starts.
    marks: [[u64; 2]; COPIES],
    /// What all other programs had missed when the losses began to count.
    others: Missed,
    /// A further copy could not be attached.
    has_failed: bool,
}

impl Misses {
    pub fn new(preemptible: bool) -> Self {
        Self {
            preemptible,
            ..Self::default()
        }
    }

    /// Attaches as many copies as this kernel is known to need.
    pub fn attach(&mut self, ebpf: &mut Ebpf, btf: &Btf) -> Result<(), KernelError> {
        attach_raw(ebpf, self.programs(), btf)?;
        self.copies = self.programs().len() / 2;
        Ok(())
    }

    /// The programs of as many copies as this kernel is known to need, and their hooks.
    pub fn programs(&self) -> &'static [(&'static str, &'static str)] {
        let copies = if self.preemptible { 2 } else { 1 };
        PAIRS[..copies].as_flattened()
    }

    /// Attaches one more copy where all there are have missed calls; whether it did. After an error it tries no more.
    pub fn attach_more(
        &mut self,
        ebpf: &mut Ebpf,
        btf: Option<&Path>,
    ) -> Result<bool, KernelError> {
        let may_grow = (1..COPIES).contains(&self.copies) && self.preemptible && !self.has_failed;
        if !may_grow || self.of_pairs(ebpf) == self.settled {
            return Ok(false);
        }
        // An error leaves it so.
        self.has_failed = true;
        attach_raw(ebpf, &PAIRS[self.copies], &read_attach_points(btf)?)?;
        self.has_failed = false;
        // Only now: it takes the verifier a while, and what was missed meanwhile is lost.
        self.settle(ebpf);
        self.copies += 1;
        Ok(true)
    }

    /// Takes all copies off, the starts first.
    pub fn detach(&self, ebpf: &mut Ebpf) {
        let attached = &PAIRS[..self.copies];
        for index in (0..2).rev() {
            for pair in attached {
                if let Ok(program) = program::<BtfTracePoint>(ebpf, pair[index].0) {
                    // Fails only where it was never loaded.
                    let _ = program.unload();
                }
            }
        }
    }

    /// Lets the count begin at 0 now.
    pub fn zero(&mut self, ebpf: &Ebpf) {
        self.settle(ebpf);
        self.settled = 0;
        self.others = others(ebpf);
    }

    /// Runs that every copy missed, at most, and those that the programs without copies missed.
    pub fn count(&self, ebpf: &Ebpf) -> Missed {
        let mut missed = others(ebpf);
        for (now, before) in missed.iter_mut().zip(self.others) {
            *now = now.saturating_sub(before);
        }
        missed[Purpose::Operations as usize] += self.of_pairs(ebpf);
        missed
    }

    /// A call is lost where every copy was skipped at its start, or at its end: never more than the least of them was.
    fn of_pairs(&self, ebpf: &Ebpf) -> u64 {
        let lost = (0..2).map(|index| {
            let copies = PAIRS[..self.copies].iter().zip(&self.marks);
            let missed = copies
                .map(|(pair, marks)| missed(ebpf, pair[index].0).saturating_sub(marks[index]));
            missed.min().unwrap_or(0)
        });
        self.settled + lost.sum::<u64>()
    }

    fn settle(&mut self, ebpf: &Ebpf) {
        self.settled = self.of_pairs(ebpf);
        for (pair, marks) in PAIRS.iter().zip(&mut self.marks) {
            *marks = [0, 1].map(|index| missed(ebpf, pair[index].0));
        }
    }
}

/// Runs of a program that the kernel skipped; 0 where it is not loaded.
fn missed(ebpf: &Ebpf, name: &str) -> u64 {
    let descriptor = ebpf.program(name).and_then(|program| program.fd().ok());
    descriptor
        .and_then(|fd| fdinfo(fd.as_fd().as_raw_fd(), "recursion_misses"))
        .unwrap_or(0)
}

/// Those of all programs that have no copies.
fn others(ebpf: &Ebpf) -> Missed {
    let is_copied = |name: &str| PAIRS.as_flattened().iter().any(|(copy, _)| *copy == name);
    let programs = ebpf.programs().map(|(name, _)| name);
    let mut sums = Missed::default();
    for name in programs.filter(|name| !is_copied(name)) {
        sums[purpose(name) as usize] += missed(ebpf, name);
    }
    sums
}

/// What a program is for.
fn purpose(name: &str) -> Purpose {
    let has = |hook: &&OptionalHook| hook.programs.iter().any(|(program, _)| *program == name);
    match HOOKS.iter().find(has) {
        Some(hook) => hook.purpose,
        None if nobtf::PROCESS_PROGRAMS.contains(&name) => Purpose::Processes,
        None => Purpose::Operations,
    }
}
