//! `processes.parquet`: processes that are new or changed since the part before; the last row of a process is complete.

use std::borrow::Cow;

use iotrace_model::{
    About, Process,
    environ::{RANKS, Rank, Role},
    input::ProcessId,
};

use super::{Part, Restored};
use crate::columns::{Damage, Derived, Moment, RequiredName, Timestamp, Word, row};

row! {
    pub struct Row<'a> in each "processes" {
        /// the host
        host: Derived<&'a str>,
        /// the process
        process: ProcessId,
        /// start, nanoseconds since boot; 0 if unknown
        start_boottime_ns: Word,
        /// the same as a time; null if unknown
        start_time: Derived<Option<Timestamp>>,
        /// parent at creation
        ppid: u32,
        /// real user
        uid: Option<u32>,
        /// the kernel's short name after the last exec
        comm: RequiredName<'a>,
        /// the program that it executed last
        exe: RequiredName<'a>,
        /// command line, joined by blanks
        command: Derived<Cow<'a, str>>,
        /// the same exactly: each argument terminated by NUL
        args_raw: Cow<'a, [u8]>,
        /// rank in the job. A child inherits it until it executes a program
        rank: Option<u32>,
        /// the environment variable that has the rank: `RANK` (with `WORLD_SIZE`), `HOROVOD_RANK`,
        /// `OMPI_COMM_WORLD_RANK`, `PMI_RANK`, `MV2_COMM_WORLD_RANK` or `SLURM_PROCID` (with a step)
        rank_variable: Option<&'a str>,
        /// job of the batch system, from the environment: `slurm:4242`, `pbs:`, `lsf:`, `flux:`. Nothing else of the
        /// environment is kept
        job: Option<&'a str>,
        /// programs executed while traced
        execs: u32,
        /// end; null while it runs
        end_time: Derived<Option<Timestamp>>,
        /// the same in nanoseconds
        end_unix_ns: Option<Moment>,
        /// status as wait(2) reports it
        status: Option<u32>,
        /// exit code as a shell reports it (128 + signal)
        exit_code: Derived<Option<u32>>,
    }
}

pub fn rows<'a>(part: &'a Part<'_>) -> impl Iterator<Item = Row<'a>> {
    let processes = part.model.processes().iter();
    let changed = processes.filter(|process| process.is_changed());
    changed.map(move |process| row(part, process))
}

fn row<'a>(part: &'a Part<'_>, process: &'a Process) -> Row<'a> {
    let (about, clock) = (&process.about, &part.run.clock);
    let start = clock.unix_ns_of_boottime(about.start_boottime);
    let command = about.args.join(&b' ');
    let terminated = about.args.iter().flat_map(|arg| [arg, [0].as_slice()]);
    Row {
        host: Derived(&part.run.host),
        process: process.id,
        start_boottime_ns: Word(about.start_boottime),
        start_time: Derived((about.start_boottime != 0).then_some(Timestamp(start))),
        ppid: about.parent,
        uid: about.uid,
        comm: RequiredName(&about.comm),
        exe: RequiredName(&about.exe),
        command: Derived(String::from_utf8_lossy(&command).into_owned().into()),
        args_raw: terminated.flatten().copied().collect::<Vec<u8>>().into(),
        rank: about.role.rank.map(|rank| rank.number),
        rank_variable: about.role.rank.map(|rank| rank.variable),
        job: about.role.job.as_deref(),
        execs: about.execs,
        end_time: Derived(about.end.map(|end| Timestamp(clock.unix_ns(end)))),
        end_unix_ns: about.end.map(Moment),
        status: about.status,
        exit_code: Derived(about.exit_code()),
    }
}

pub fn restore(row: Row<'_>, into: &mut Restored<'_>) -> Result<(), Damage> {
    let args = row.args_raw.strip_suffix(&[0]).map(|args| {
        let args = args.split(|byte| *byte == 0);
        args.map(<[u8]>::to_vec).collect()
    });
    // A rank from a variable that this iotrace does not know is none.
    let mut known = RANKS.into_iter();
    let variable = known.find(|known| Some(*known) == row.rank_variable);
    let rank = row.rank.zip(variable);
    let about = About {
        start_boottime: row.start_boottime_ns.0,
        parent: row.ppid,
        uid: row.uid,
        rights: None,
        comm: row.comm.0.to_vec(),
        exe: row.exe.0.to_vec(),
        args: args.unwrap_or_default(),
        role: Role {
            rank: rank.map(|(number, variable)| Rank { number, variable }),
            job: row.job.map(Into::into),
        },
        execs: row.execs,
        end: row.end_unix_ns.map(|end| end.0),
        status: row.status,
    };
    into.model.restore_process(row.process, about);
    Ok(())
}
