//! Which of the objects of kernel programs this kernel gets.
//!
//! A kernel refuses a program that names what it does not know, even where it would never run. So there is a second object
//! for kernels before 5.15, which has none of that: the same counters by other means, and less beside them. A third one is for
//! kernels without type information (BTF), whose structs it does not read: which file a descriptor is it tells by following
//! descriptors, and user space by /proc.

use std::io;

use aya::{
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};

use super::{btf::Types, error::KernelError};

/// An object of kernel programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// All that iotrace can do.
    Current,
    /// For kernels that lack one of [`NEEDS`].
    Compat510,
    /// For kernels whose type information nobody has.
    NoBtf,
}

/// Helpers that the object for current kernels cannot do without: what each row of `iotrace check` calls it, and since when
/// Linux has it.
pub const NEEDS: [(BpfHelper, &str, &str); 4] = [
    (
        BpfHelper::BPF_FUNC_get_current_task_btf,
        "helper: current task (BTF)",
        "5.11",
    ),
    (
        BpfHelper::BPF_FUNC_task_storage_get,
        "helper: task storage",
        "5.11",
    ),
    // Came with callbacks, and after atomic operations that give back what was there.
    (
        BpfHelper::BPF_FUNC_for_each_map_elem,
        "helper: callback for map elements",
        "5.13",
    ),
    (
        BpfHelper::BPF_FUNC_task_pt_regs,
        "helper: task registers",
        "5.15",
    ),
];

/// What is not there where one of them is missing.
pub const LACK: &str = "the programs for older kernels: the same numbers at a higher cost, but no io_uring, libaio, page \
                        cache, mapped files, `--uprobe` or `--hook tracepoint`, and paths of up to 64 components only";

/// Why the programs for older kernels do not do something.
pub const LEFT_OUT: &str =
    "this kernel gets the programs for older kernels, which leave it out (see `iotrace check`)";

/// Why the programs for kernels without type information do not do something.
pub const WITHOUT_TYPES: &str = "there is no type information (BTF) of this kernel, and iotrace does without what needs it: `--btf FILE` names a copy";

/// What that costs, at the start of every recording.
pub const NO_BTF: &str = "no type information (BTF) of this kernel: files are told by following descriptors and by /proc, at \
                           detail basic; io_uring, libaio, the page cache, mapped files and CPU time are not accounted. \
                           `--btf FILE` names a copy of it";

/// An object by its name, for tests: the one for older kernels also runs on recent ones.
const OVERRIDE: &str = "IOTRACE_TEST_PROGRAMS";

/// The kernel programs: what makes the ELF object of each variant, at an address aligned to 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Programs {
    pub current: fn() -> io::Result<Vec<u8>>,
    pub compat_510: fn() -> io::Result<Vec<u8>>,
    pub nobtf: fn() -> io::Result<Vec<u8>>,
}

impl Variant {
    /// The one for this kernel, of which these types are known. Without the privilege to ask, the load itself will say what is wrong.
    pub fn of_this_kernel(types: &Types) -> Self {
        match std::env::var(OVERRIDE).as_deref() {
            _ if types.are_none() => return Self::NoBtf,
            Ok("compat_510") => return Self::Compat510,
            Ok("current") => return Self::Current,
            Ok("nobtf") => return Self::NoBtf,
            _ => {}
        }
        // Its locks are made of additions, which are barriers on x86-64 alone.
        let is_missing = |helper| {
            is_helper_supported(ProgramType::TracePoint, helper).is_ok_and(|is_there| !is_there)
        };
        if cfg!(target_arch = "x86_64") && NEEDS.iter().any(|(helper, ..)| is_missing(*helper)) {
            Self::Compat510
        } else {
            Self::Current
        }
    }

    /// Its programs.
    pub fn object(self, programs: &Programs) -> Result<Vec<u8>, KernelError> {
        let object = match self {
            Self::Current => (programs.current)(),
            Self::Compat510 => (programs.compat_510)(),
            Self::NoBtf => (programs.nobtf)(),
        };
        object.map_err(|source| KernelError::Io {
            what: "raise the limit on memory (ulimit -v): the kernel programs cannot be unpacked"
                .into(),
            source,
        })
    }

    /// Whether it has programs for more than system calls and processes; or why not.
    pub fn has_all(self) -> Result<(), String> {
        match self {
            Self::Current => Ok(()),
            Self::Compat510 => Err(LEFT_OUT.into()),
            Self::NoBtf => Err(WITHOUT_TYPES.into()),
        }
    }
}
