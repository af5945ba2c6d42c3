//! The kernel side as the daemon sees it: loads the programs, attaches the hooks, names their losses.
//!
//! - `btf`, `offsets`, `calls`: what the programs must be told of this kernel
//! - `variant`: which of the objects this kernel gets; `nobtf`: what the one for kernels without BTF must be told
//! - `load`: the object with its constants set and its maps sized; `rules`: its table of path rules; `trace`: what it
//!   is told of an operation trace
//! - `preemption`: whether it preempts programs on system calls; `bpf`: how that is asked
//! - `attach`, `copies`, `uring`, `pages`, `block`, `uprobes`: the hooks of each kind; `program`: one program of
//!   them
//! - `uprobe_cost`: what uprobes cost here
//! - `selftest`: known operations, compared, before any number is believed
//! - `recordings`: processes of which more is kept than of the others
//! - `probe`, `capabilities`: what this host has and this process may, for `iotrace check` and for errors
//!
//! What leaves: [`Kernel`], whose maps `drain` takes.

pub mod attach;
pub mod block;
pub mod bpf;
pub mod btf;
pub mod calls;
pub mod capabilities;
mod cast;
mod cgroup;
mod copies;
pub mod cpu;
mod diagnostics;
pub mod error;
mod histograms;
pub mod hooks;
mod in_flight;
mod lines;
pub mod load;
mod maps;
mod nobtf;
pub mod offsets;
mod pages;
mod preemption;
pub mod probe;
mod program;
pub mod recordings;
mod rules;
pub(crate) mod selftest;
mod stats;
pub mod trace;
mod uprobe_cost;
mod uprobe_datatypes;
pub mod uprobes;
mod uring;
mod variant;
mod waits;

use std::{
    fs,
    path::{Path, PathBuf},
};

use aya::{
    Btf, Ebpf,
    maps::{Array, HashMap, MapData, MapError},
};
use iotrace_common::{
    abi::{
        self,
        maps::{NAMED, SCOPE, TARGETS},
    },
    in_flight::Head,
    key::FileId,
    phases::Named,
    rights::Rights,
    scope::{ALL_PROCESSES, Recordings, Scope as CurrentScope},
};

pub use attach::{Hook, HookChoice, HookState};
use copies::{Missed, Misses};
use diagnostics::Diagnostics;
pub use diagnostics::{Detached, Losses};
pub use error::KernelError;
pub use histograms::ByPhase;
use histograms::Counted;
use hooks::Hooks;
use lines::Pythons;
pub use lines::WantedLines;
pub use load::{Detail, KeepWaits, Options};
use recordings::Slots;
use rules::Rules;
pub use stats::{Measuring, ProgramRuns};
pub use trace::TraceOptions;
pub use uprobe_cost::Cost;
pub(crate) use uprobe_cost::measure as measure_uprobes;
pub use variant::Programs;
use variant::Variant;

/// The loaded programs and their maps.
pub struct Kernel {
    ebpf: Ebpf,
    variant: Variant,
    /// Held: the programs find it by its descriptor when they are loaded.
    _rules: Rules,
    targets: HashMap<MapData, u32, Recordings>,
    /// The interpreters of processes, where recordings may have their lines.
    pythons: Option<Pythons>,
    named: HashMap<MapData, FileId, Named>,
    scope_map: Array<MapData, CurrentScope>,
    scope: CurrentScope,
    /// Where more may be kept of the processes of some recordings.
    recordings: Option<Slots>,
    diagnostics: Diagnostics,
    histograms: Option<Counted>,
    misses: Misses,
    /// A copy of the kernel's type information, where it is not to show its own.
    btf: Option<PathBuf>,
    /// What programs attach by, until they are attached.
    attach_points: Option<Btf>,
    /// What this kernel has of the optional hooks.
    hooks: Hooks,
    uprobes: uprobes::Uprobes,
    hook: Option<Hook>,
    detail: Detail,
    entries: u32,
    full_entries: Option<u32>,
    latency_entries: Option<u32>,
    map_bytes: u64,
    merge_all: bool,
    /// The iterator over threads, once it is loaded.
    threads: Option<cpu::Threads>,
    /// The rings of the operation trace, where there is one.
    trace: Option<trace::Layout>,
    waits: waits::State,
    lines: WantedLines,
}

impl Kernel {
    /// How much the programs keep.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Whether files are told by following descriptors, and by /proc; and what that costs.
    pub fn without_types(&self) -> Option<&'static str> {
        (self.variant == Variant::NoBtf).then_some(variant::NO_BTF)
    }

    /// The rings of the operation trace, where there is one.
    pub fn trace(&self) -> Option<trace::Layout> {
        self.trace
    }

    /// Whether operations are traced of the processes of recordings alone.
    pub fn traces_recordings(&self) -> bool {
        self.trace.is_some() && self.recordings.is_some()
    }

    /// Whose opens are counted by what made them.
    pub fn lines(&self) -> WantedLines {
        self.lines
    }

    /// Whether lines are kept of the processes of recordings alone.
    pub fn hands_on_lines(&self) -> bool {
        self.pythons.is_some()
    }

    /// Whether the programs keep merged time over all processes.
    pub fn merges_all(&self) -> bool {
        self.merge_all
    }

    /// Whether requests to block devices are counted.
    pub fn counts_block(&self) -> bool {
        self.hooks.of(hooks::Id::Block).is_ready()
    }

    /// Takes the iterator over threads out, where CPU time is counted.
    pub fn take_threads(&mut self) -> Option<cpu::Threads> {
        self.threads.take()
    }

    /// Adds process `pid` to the scope.
    pub fn add_target(&mut self, pid: u32) -> Result<(), KernelError> {
        self.set_recordings(pid, ALL_PROCESSES)?;
        self.publish_scope()
    }

    /// Takes process `pid` out of the scope. One that is not in it is no error: it may have just ended.
    pub fn remove_target(&mut self, pid: u32) -> Result<(), KernelError> {
        self.forget_target(pid)?;
        self.publish_scope()
    }

    /// Puts every process but this one into the scope.
    pub fn trace_all(&mut self) -> Result<(), KernelError> {
        self.scope.all = 1;
        self.publish_scope()
    }

    /// Leaves in the scope the threads alone that a client of these rights may look into.
    pub fn restrict_to(&mut self, client: Rights) -> Result<(), KernelError> {
        (self.scope.owned, self.scope.client) = (1, client);
        self.publish_scope()
    }

    /// Makes running threads look at the scope again. Who sees the new epoch must see the rest, which the kernel copies byte
    /// by byte: so that comes first.
    fn publish_scope(&mut self) -> Result<(), KernelError> {
        let next = CurrentScope {
            epoch: self.scope.epoch + 1,
            ..self.scope
        };
        for scope in [self.scope, next] {
            self.scope_map
                .set(0, scope, 0)
                .map_err(|error| map_error(SCOPE.name, "update", &error))?;
        }
        self.scope = next;
        Ok(())
    }

    fn set_recordings(&mut self, pid: u32, recordings: Recordings) -> Result<(), KernelError> {
        self.targets
            .insert(pid, recordings, 0)
            .map_err(|error| map_error(TARGETS.name, "update", &error))
    }

    fn forget_target(&mut self, pid: u32) -> Result<(), KernelError> {
        match self.targets.remove(&pid) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(map_error(TARGETS.name, "delete", &error)),
        }
    }

    /// What was not counted, or not in full, by reason ([`diag`]), since [`Self::zero_losses`].
    pub fn losses(&self) -> Result<Losses, KernelError> {
        self.diagnostics.losses(self.missed())
    }

    /// Lets the losses and the histograms begin at 0, after the self-test.
    pub fn zero_losses(&mut self) -> Result<(), KernelError> {
        self.misses.zero(&self.ebpf);
        if let Some(histograms) = &mut self.histograms {
            histograms.zero()?;
        }
        self.diagnostics.zero()
    }

    /// Histograms by phase as the kernel side sorted it (`Phase::code`), since [`Self::zero_losses`]; `None` where they
    /// are not kept.
    pub fn histograms(&self) -> Result<Option<ByPhase>, KernelError> {
        let counted = self.histograms.as_ref();
        counted.map(Counted::read).transpose()
    }

    /// Runs of the programs that the kernel skipped for good: no copy of the program took its place.
    fn missed(&self) -> Missed {
        self.misses.count(&self.ebpf)
    }

    /// The states of the threads whose traced call has not returned.
    pub fn in_flight(&self) -> Vec<Head> {
        in_flight::read(&self.ebpf).unwrap_or_else(|error| {
            log::warn!("calls in flight are not known: {error}");
            Vec::new()
        })
    }

    /// Kernel memory of the maps, bytes.
    pub fn map_bytes(&self) -> u64 {
        self.map_bytes
    }

    /// Entries of a generation of what detail full adds, where some processes may be kept at it.
    pub fn full_entries(&self) -> Option<u32> {
        self.full_entries
    }

    /// Entries of a generation of latencies, where they may be kept of some processes.
    pub fn latency_entries(&self) -> Option<u32> {
        self.latency_entries
    }

    /// Entries of a generation of the per-file counters.
    pub fn map_entries(&self) -> u32 {
        self.entries
    }

    /// Lets every file be named again.
    pub fn forget_names(&mut self) -> Result<(), KernelError> {
        let keys: Vec<FileId> = self.named.keys().filter_map(Result::ok).collect();
        self.forget_names_of(&keys)
    }

    /// Lets these files be named again.
    pub fn forget_names_of(&mut self, files: &[FileId]) -> Result<(), KernelError> {
        for key in files {
            match self.named.remove(key) {
                Ok(()) | Err(MapError::KeyNotFound) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(map_error(NAMED.name, "delete", &error)),
            }
        }
        Ok(())
    }

    /// Takes a map out, for its one reader.
    pub fn take<M: maps::Kind>(&mut self, map: abi::Map<M>) -> Result<M::Open, KernelError> {
        maps::take(&mut self.ebpf, map)
    }
}

/// Whether a key that was to be deleted is not there: aya has no error of its own for that.
fn is_gone(error: &MapError) -> bool {
    error::errno_of(error) == Some(libc::ENOENT)
}

/// An error of one of aya's map calls.
pub fn map_error(map: &'static str, call: &'static str, error: &MapError) -> KernelError {
    let source = match error::errno_of(error) {
        Some(errno) => std::io::Error::from_raw_os_error(errno),
        None => std::io::Error::other(error.to_string()),
    };
    KernelError::Map { map, call, source }
}

/// A number from the description of one of our own descriptors.
fn fdinfo(fd: i32, key: &str) -> Option<u64> {
    let text = fs::read_to_string(Path::new("/proc/self/fdinfo").join(fd.to_string())).ok()?;
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(':')?
            .trim()
            .parse()
            .ok()
    })
}
