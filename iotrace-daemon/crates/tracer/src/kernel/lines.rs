//! What opened files: whether this kernel lets the programs walk frames, and the interpreters of processes whose recordings by a
//! service have lines.

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use iotrace_common::{
    abi::{Setting, globals, maps::PYTHONS},
    lines::Python,
};

use super::{
    Kernel, KernelError,
    btf::Types,
    hooks::{self, Availability},
    is_gone,
    load::{self, Options},
    map_error, maps,
};

/// Bytes of `struct pt_regs` up to the last register of a program (linux/ptrace.h of the interface to user space).
const REGISTERS_BYTES: u64 = if cfg!(target_arch = "aarch64") {
    272
} else {
    168
};

/// Whose opens are counted by what made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedLines {
    /// Lines of Python programs.
    pub python: bool,
    /// Functions of native programs.
    pub native: bool,
}

impl WantedLines {
    /// Whether anything is.
    pub fn are_some(self) -> bool {
        self.python || self.native
    }
}

/// What the programs are told; or why lines cannot be found.
pub fn find(_types: &Types) -> Result<Vec<Setting>, String> {
    if load::has_loop() {
        Ok(vec![
            globals::LINES.set(true),
            globals::REGS_BYTES.set(REGISTERS_BYTES),
        ])
    } else {
        Err("this kernel lacks the helper bpf_loop (Linux 5.17)".into())
    }
}

/// The interpreters of processes, for the recordings of a service.
pub struct Pythons {
    map: HashMap<MapData, u32, Python>,
    /// How many there were, and so the number of the last one.
    count: u64,
}

impl Pythons {
    /// Takes the map out of the loaded programs, where recordings may have lines.
    pub fn take(ebpf: &mut Ebpf, options: &Options) -> Result<Option<Self>, KernelError> {
        if !options.lines.python || options.recordings.is_none() {
            return Ok(None);
        }
        let map = maps::take(ebpf, PYTHONS)?;
        Ok(Some(Self { map, count: 0 }))
    }

    fn remove(&mut self, pid: u32) -> Result<(), KernelError> {
        match self.map.remove(&pid) {
            Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(map_error(PYTHONS.name, "delete", &error)),
        }
    }
}

impl Kernel {
    /// Why recordings of a service cannot have lines, where they cannot.
    pub fn lacks_lines(&self) -> Option<&str> {
        match self.hooks.of(hooks::Id::Lines) {
            Availability::Missing(reason) => Some(reason),
            _ => None,
        }
    }

    /// Has the lines of a process found by this interpreter. Its number, which it gets here and no other has, so that all that was
    /// sent of the process before is sent again, and the number of the one before. `None` if the process may not be looked into,
    /// which is asked before and after, or there is no room.
    pub fn put_python(
        &mut self,
        pid: u32,
        python: Python,
        may_look: impl Fn() -> bool,
    ) -> Result<Option<(u64, Option<u64>)>, KernelError> {
        let Some(pythons) = &mut self.pythons else {
            return Ok(None);
        };
        if !may_look() {
            return Ok(None);
        }
        let before = pythons.map.get(&pid, 0).ok().map(|python| python.number);
        pythons.count += 1;
        let number = pythons.count;
        if let Err(error) = pythons.map.insert(pid, Python { number, ..python }, 0) {
            log::debug!("the lines of process {pid} are not found: {error}");
            return Ok(None);
        }
        // The kernel side forgets it when the process ends or runs another program, which it may have done before.
        if !may_look() {
            pythons.remove(pid)?;
            return Ok(None);
        }
        Ok(Some((number, before)))
    }

    /// Takes back the interpreters of processes that no recording has lines of.
    pub(super) fn sweep_pythons(&mut self) -> Result<(), KernelError> {
        let Some(pythons) = &mut self.pythons else {
            return Ok(());
        };
        let (targets, lines) = (&self.targets, self.scope.lines);
        let is_left = |pid: &u32| targets.get(pid, 0).unwrap_or(0) & lines == 0;
        let pids: Vec<u32> = pythons.map.keys().filter_map(Result::ok).collect();
        for pid in pids.into_iter().filter(is_left) {
            pythons.remove(pid)?;
        }
        Ok(())
    }
}
