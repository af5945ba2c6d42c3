//! The hooks: which there are, and how each comes on and off.
//!
//! Attaches the BTF raw tracepoints `sys_enter` and `sys_exit` (hook kind `btf`) or `syscalls/sys_enter_*` and
//! `sys_exit_*` (hook kind `tracepoint`), and the optional hooks ([`HOOKS`]).

use std::path::Path;

use aya::{Btf, Ebpf, programs::TracePoint};
use serde::{Deserialize, Serialize};

use super::{
    Detached, Kernel, KernelError, calls,
    cpu::Threads,
    error::chain,
    hooks::{Availability, Found, HOOKS, Id, Kind, OptionalHook, RequiredBy, When},
    nobtf, pages,
    program::{
        attach_error, attach_raw, load, load_together, log_size, program, read_attach_points,
    },
    variant,
};
use iotrace_model::run::RAW;

/// Which hook kind the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum HookChoice {
    /// The first that this kernel can do.
    Auto,
    /// The BTF raw tracepoints sys_enter and sys_exit: exact under load, off in milliseconds.
    Btf,
    /// One tracepoint per system call: cheaper for calls that are not traced.
    Tracepoint,
}

/// Which hook kind is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Btf,
    Tracepoint,
    /// Raw tracepoints of programs that know no types.
    Raw,
}

impl Hook {
    /// As it stands in reports and recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Btf => "btf",
            Self::Tracepoint => "tracepoint",
            Self::Raw => RAW,
        }
    }
}

/// One hook, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookState {
    pub name: String,
    /// Whether nothing can be counted without it.
    pub required: bool,
    pub attached: bool,
    /// Why it is not attached, and what that costs.
    pub reason: Option<String>,
}

/// Why there are no per-syscall tracepoints, and what to do.
pub const NO_TRACEFS: &str = "no syscall tracepoints in /sys/kernel/tracing\n\
                              mount -t tracefs tracefs /sys/kernel/tracing; the kernel needs\n\
                              CONFIG_FTRACE_SYSCALLS, the reader CAP_DAC_READ_SEARCH";

const TRACEFS: [&str; 2] = [
    "/sys/kernel/tracing/events/syscalls",
    "/sys/kernel/debug/tracing/events/syscalls",
];

impl Kernel {
    /// Attaches the hooks of the chosen kind; returns the kind.
    pub fn attach(&mut self, choice: HookChoice) -> Result<Hook, KernelError> {
        if let Some(costs) = self.without_types() {
            if choice != HookChoice::Auto {
                return Err(KernelError::LeftOut {
                    what: "--hook",
                    reason: variant::WITHOUT_TYPES.into(),
                });
            }
            log::warn!("{costs}");
            nobtf::attach(&mut self.ebpf)?;
            self.hook = Some(Hook::Raw);
            return Ok(Hook::Raw);
        }
        let btf = self.attach_btf()?;
        self.load_together(choice, &btf);
        for (hook, reason) in self.attach_optional(&btf, true)? {
            if let Some(reason) = reason {
                log::warn!("{}: {reason}", hook.lost);
            }
        }
        self.attach_calls(choice, &btf)
    }

    /// As [`Self::attach`], where all processes are traced: the hooks that follow processes may be missing.
    pub fn attach_what_there_is(
        &mut self,
        choice: HookChoice,
    ) -> Result<(Hook, Vec<HookState>), KernelError> {
        let btf = self.attach_btf()?;
        self.load_together(choice, &btf);
        let optional = self.attach_optional(&btf, false)?;
        let mut hooks: Vec<HookState> = optional
            .into_iter()
            .map(|(hook, reason)| HookState {
                name: hook.name.into(),
                required: false,
                attached: reason.is_none(),
                reason: reason.map(|reason| format!("{reason}; {}", hook.lost)),
            })
            .collect();
        let hook = self.attach_calls(choice, &btf)?;
        hooks.extend(["sys_enter", "sys_exit"].map(|name| HookState {
            name: match hook {
                Hook::Btf | Hook::Raw => name.into(),
                Hook::Tracepoint => format!("syscalls/{name}_*"),
            },
            required: true,
            attached: true,
            reason: None,
        }));
        Ok((hook, hooks))
    }

    /// The type information that programs attach by.
    fn attach_btf(&mut self) -> Result<Btf, KernelError> {
        match self.attach_points.take() {
            Some(btf) => Ok(btf),
            None => read_attach_points(self.btf.as_deref()),
        }
    }

    /// Loads what will be attached, as far as it attaches by types.
    fn load_together(&mut self, choice: HookChoice, btf: &Btf) {
        let mut wanted = Vec::new();
        for hook in &HOOKS {
            if let Availability::Ready(found) = self.hooks.of(hook.id) {
                wanted.extend_from_slice(&found.programs);
            }
        }
        if choice != HookChoice::Tracepoint {
            wanted.extend_from_slice(self.misses.programs());
        }
        load_together(&mut self.ebpf, &wanted, btf);
    }

    /// Attaches the optional hooks that are wanted. Of each, why it is not attached, if it is not; those that only an option
    /// adds are not among them without it.
    fn attach_optional(
        &mut self,
        btf: &Btf,
        is_record: bool,
    ) -> Result<Vec<(&'static OptionalHook, Option<String>)>, KernelError> {
        let mut hooks = Vec::new();
        for hook in &HOOKS {
            if hook.id == Id::Waits && self.waits.is_on_demand() {
                self.load_waits(btf);
                continue;
            }
            // A part of other programs, for recordings.
            if hook.id == Id::Lines && self.recordings.is_some() {
                continue;
            }
            let reason = match self.hooks.of(hook.id).clone() {
                Availability::Off => match hook.when {
                    When::Unless(_) if !is_record => Some("it is turned off".into()),
                    _ => continue,
                },
                Availability::Missing(reason) => Some(reason),
                Availability::Ready(found) => match self.attach_hook(hook, &found, btf) {
                    Err(error) if is_record && hook.required_by == RequiredBy::Record => {
                        return Err(error);
                    }
                    attached => attached.err().map(|error| error.to_string()),
                },
            };
            let required_by = match hook.required_by {
                RequiredBy::Record => is_record.then_some(hook.name),
                _ => hook.option(self.waits.wanted()),
            };
            if let (Some(what), Some(reason)) = (required_by, &reason) {
                let reason = reason.clone();
                return Err(KernelError::LeftOut { what, reason });
            }
            hooks.push((hook, reason));
        }
        Ok(hooks)
    }

    /// Attaches a hook that this kernel has. The probes of libraries come later, by [`Self::probe_libraries`].
    fn attach_hook(
        &mut self,
        hook: &OptionalHook,
        found: &Found,
        btf: &Btf,
    ) -> Result<(), KernelError> {
        match (hook.kind, found.programs.first()) {
            (Kind::MajorFaults, Some((program, event))) => {
                pages::attach_fault_ends(&mut self.ebpf, program, event)?;
            }
            (Kind::Tasks, Some((program, iterator))) => {
                self.threads = Some(Threads::load(&mut self.ebpf, program, iterator, btf)?);
            }
            _ => attach_raw(&mut self.ebpf, &found.programs, btf)?,
        }
        Ok(())
    }

    fn attach_calls(&mut self, choice: HookChoice, btf: &Btf) -> Result<Hook, KernelError> {
        let hook = match choice {
            HookChoice::Btf => self.attach_pair(btf)?,
            HookChoice::Tracepoint => self.attach_tracepoints()?,
            HookChoice::Auto => match self.attach_pair(btf) {
                Ok(hook) => hook,
                // What it may not do by one kind, it may not by the other.
                Err(error @ KernelError::Privilege(_)) => return Err(error),
                Err(error) => {
                    log::warn!("falling back to one tracepoint per system call: {error}");
                    self.attach_tracepoints()?
                }
            },
        };
        self.hook = Some(hook);
        Ok(hook)
    }

    fn attach_pair(&mut self, btf: &Btf) -> Result<Hook, KernelError> {
        self.misses.attach(&mut self.ebpf, btf)?;
        Ok(Hook::Btf)
    }

    fn attach_tracepoints(&mut self) -> Result<Hook, KernelError> {
        self.variant
            .has_all()
            .map_err(|reason| KernelError::LeftOut {
                what: "--hook tracepoint",
                reason,
            })?;
        attach_tracepoints(&mut self.ebpf)
    }

    /// Attaches one more copy of the pair where calls are being lost for want of it. Without it, they stay counted as lost.
    pub fn attach_more(&mut self) {
        const SKIPPED: &str = "the kernel skips system call programs that it has preempted";
        match self.misses.attach_more(&mut self.ebpf, self.btf.as_deref()) {
            Ok(true) => log::warn!("{SKIPPED}: attached one more copy of them"),
            Ok(false) => {}
            Err(error) => {
                let error = chain(&error);
                log::warn!("{SKIPPED}, and calls are lost: no further copy of them: {error}");
            }
        }
    }

    /// Takes all hooks off. A program may still be running when this returns, but none begins.
    ///
    /// The kernel takes about 80 ms for each per-syscall tracepoint, and some for each uprobe, so those are left to a process
    /// of their own that outlives this one; until they are off they find no process in scope.
    pub fn detach(mut self) -> Result<Detached, KernelError> {
        let missed = self.missed();
        match self.hook {
            Some(Hook::Tracepoint) => self.leave_hooks_to_another()?,
            Some(Hook::Raw) => nobtf::detach(&mut self.ebpf),
            _ => {
                self.misses.detach(&mut self.ebpf);
                if self.uprobes.are_attached() {
                    self.leave_hooks_to_another()?;
                }
            }
        }
        let Self { diagnostics, .. } = self;
        Ok(Detached {
            diagnostics,
            missed,
        })
    }

    /// Lets a process of its own take the hooks off.
    fn leave_hooks_to_another(&mut self) -> Result<(), KernelError> {
        let pids: Vec<u32> = self.targets.keys().filter_map(Result::ok).collect();
        for pid in pids {
            self.remove_target(pid)?;
        }
        self.scope.all = 0;
        self.publish_scope()?;
        // SAFETY: the child calls only setsid, close and _exit: its descriptors are closed by its end, which drops
        // the last references to the hooks.
        match unsafe { libc::fork() } {
            -1 => Err(KernelError::Io {
                what: "a process to take the hooks off cannot be made".into(),
                source: std::io::Error::last_os_error(),
            }),
            0 => {
                // SAFETY: as above. The standard streams are closed first, so that no pipe waits for this process.
                unsafe {
                    libc::setsid();
                    for stream in 0..3 {
                        libc::close(stream);
                    }
                    libc::_exit(0)
                }
            }
            _ => Ok(()),
        }
    }
}

fn attach_tracepoints(ebpf: &mut Ebpf) -> Result<Hook, KernelError> {
    let events = tracefs_events().ok_or_else(|| KernelError::Attach {
        hook: "syscalls/sys_enter_*".into(),
        reason: NO_TRACEFS.into(),
        hint: "",
    })?;
    const PROGRAMS: [(&str, &str); 2] = [("call_exit", "sys_exit_"), ("call_enter", "sys_enter_")];
    for (name, prefix) in PROGRAMS {
        let program: &mut TracePoint = program(ebpf, name)?;
        load(name, prefix, || program.load())?;
        log_size(name, program.info());
    }
    for (name, prefix) in PROGRAMS {
        let program: &mut TracePoint = program(ebpf, name)?;
        for traced in calls::traced() {
            let hook = format!("{prefix}{}", tracepoint_name(traced.name));
            // A call that this kernel is built without has no tracepoint, and no caller.
            if events.join(&hook).exists() {
                program
                    .attach("syscalls", &hook)
                    .map_err(|error| attach_error(&hook, &error))?;
            }
        }
    }
    Ok(Hook::Tracepoint)
}

/// Where tracefs shows the per-syscall tracepoints.
pub fn tracefs_events() -> Option<&'static Path> {
    TRACEFS.iter().map(Path::new).find(|path| path.exists())
}

/// The kernel names the tracepoints after its functions, a few of which are not named as the calls.
fn tracepoint_name(call: &str) -> &str {
    match call {
        "stat" => "newstat",
        "lstat" => "newlstat",
        "fstat" => "newfstat",
        // As the list of arm64 names it.
        "fstatat" => "newfstatat",
        "sendfile" => "sendfile64",
        other => other,
    }
}
