//! The engine: kernel programs and what drains their maps. Each step of its start is a type of its own, so that nothing is
//! counted by programs that have not proved themselves.
//!
//! ```text
//! Loaded -- attach --> Attached -- prove --> Engine
//! ```

use iotrace_phases::dfa::Table;

use crate::{
    drain::Drain,
    kernel::{
        Cost, Hook, HookChoice, HookState, Kernel, KernelError, Options, Programs,
        btf::Types,
        load::{self, Making, read_types, types_if_any},
        measure_uprobes, selftest,
    },
};

/// Programs that are loaded with their maps, and attached to nothing.
pub struct Loaded {
    kernel: Kernel,
    drain: Drain,
}

impl Loaded {
    /// Loads the programs, and the rules by which they sort files.
    pub fn new(options: &Options, programs: &Programs, rules: &Table) -> Result<Self, KernelError> {
        let loader = Making::begin();
        let types = read_types(options.btf.as_deref())?;
        Self::of(loader, &types, options, programs, rules)
    }

    /// As [`Loaded::new`]; where the kernel has no type information, the programs do without.
    pub fn with_or_without_types(
        options: &Options,
        programs: &Programs,
        rules: &Table,
    ) -> Result<Self, KernelError> {
        let loader = Making::begin();
        let types = types_if_any(options.btf.as_deref())?;
        Self::of(loader, &types, options, programs, rules)
    }

    fn of(
        loader: Making,
        types: &Types,
        options: &Options,
        programs: &Programs,
        rules: &Table,
    ) -> Result<Self, KernelError> {
        let mut kernel = load::load(loader, options, programs, types, rules)?;
        let drain = Drain::new(&mut kernel)?;
        Ok(Self { kernel, drain })
    }

    /// Attaches the hooks of the chosen kind. What is missing of the others is said in the log.
    pub fn attach(mut self, choice: HookChoice) -> Result<Attached, KernelError> {
        let hook = self.kernel.attach(choice)?;
        Ok(self.attached(hook, Vec::new()))
    }

    /// As [`Loaded::attach`], where all processes are traced: the hooks that follow processes may be missing, and what there
    /// is is in [`Engine::hooks`].
    pub fn attach_what_there_is(mut self, choice: HookChoice) -> Result<Attached, KernelError> {
        let (hook, hooks) = self.kernel.attach_what_there_is(choice)?;
        Ok(self.attached(hook, hooks))
    }

    /// Measures what each kind of uprobe costs here, on a function of this program's own.
    pub fn measure_uprobes(&mut self) -> Result<Vec<Cost>, KernelError> {
        measure_uprobes(&mut self.kernel)
    }

    fn attached(self, hook: Hook, hooks: Vec<HookState>) -> Attached {
        let Self { kernel, drain } = self;
        Attached(Engine {
            kernel,
            drain,
            hook,
            hooks,
        })
    }
}

/// Programs that are attached; no process is in scope.
pub struct Attached(Engine);

impl Attached {
    /// Lets the programs prove themselves on known operations; all losses begin at 0 behind that.
    pub fn prove(self) -> Result<Engine, KernelError> {
        let Self(mut engine) = self;
        selftest::run(&mut engine.kernel, &mut engine.drain)?;
        engine.kernel.zero_losses()?;
        engine.drain.zero_files();
        Ok(engine)
    }
}

/// Programs that have proved themselves.
pub struct Engine {
    pub kernel: Kernel,
    pub drain: Drain,
    /// How system calls are seen.
    pub hook: Hook,
    /// Each hook, where [`Loaded::attach_what_there_is`] attached them.
    pub hooks: Vec<HookState>,
}
