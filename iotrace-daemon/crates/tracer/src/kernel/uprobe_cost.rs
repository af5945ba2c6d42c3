//! What uprobes cost on this machine: each kind of them on a function of this program's own, which is called with them and
//! without.
//!
//! Attaches the programs `library_enter` and `library_return`.

use std::{arch::global_asm, ffi::c_void, fs, hint::black_box, path::PathBuf, time::Instant};

use aya::programs::{
    UProbe,
    uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeScope},
};
use iotrace_common::library::{self, FUNCTIONS};

use super::{
    Kernel, KernelError,
    program::{attach_error, load, program},
    uprobes::{ENTER, RETURN},
};

// Begins as most functions of libraries do: with an instruction that the kernel need not single-step.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl iotrace_probed",
    ".type iotrace_probed, @function",
    "iotrace_probed:",
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdx",
    "pop rbp",
    "ret",
    ".size iotrace_probed, . - iotrace_probed",
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl iotrace_probed",
    ".type iotrace_probed, @function",
    "iotrace_probed:",
    "nop",
    "mov x0, x2",
    "ret",
    ".size iotrace_probed, . - iotrace_probed",
);

unsafe extern "C" {
    /// Returns its third argument, as `fread` does that reads all it is asked for.
    fn iotrace_probed(name: *const c_void, size: u64, count: u64, stream: *mut c_void) -> u64;
}

/// Calls that are timed together, and how often: the best time counts.
const CALLS: u32 = 4000;
const ROUNDS: u32 = 5;

/// A kind of probe: what it is, the function that it takes itself for, and the programs.
struct Kind {
    title: &'static str,
    library: u8,
    symbol: &'static str,
    programs: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        title: "start (marks)",
        library: library::MARKER,
        symbol: "iotrace_mark",
        programs: &[ENTER],
    },
    Kind {
        title: "return (inner calls)",
        library: library::HDF5,
        symbol: "H5T_get_size",
        programs: &[RETURN],
    },
    Kind {
        title: "start and return (handles)",
        library: library::MPIIO,
        symbol: "MPI_File_read",
        programs: &[RETURN, ENTER],
    },
    Kind {
        title: "start and return (streams)",
        library: library::STDIO,
        symbol: "fread",
        programs: &[RETURN, ENTER],
    },
];

/// What a kind of probe adds to a call, nanoseconds.
pub struct Cost {
    pub title: &'static str,
    /// In a process that is traced, and in one that is not.
    pub traced: f64,
    pub elsewhere: f64,
}

/// Measures all kinds. The kernel's programs must be loaded for uprobes.
pub fn measure(kernel: &mut Kernel) -> Result<Vec<Cost>, KernelError> {
    let (file, offset) = own_place()?;
    for name in [RETURN, ENTER] {
        let program: &mut UProbe = program(&mut kernel.ebpf, name)?;
        load(name, "uprobe", || program.load())?;
    }
    // SAFETY: two strings that end with a NUL. The stream is closed below.
    let stream = unsafe { libc::fopen(c"/proc/self/exe".as_ptr(), c"r".as_ptr()) };
    let bare = nanoseconds(stream.cast());
    let own = std::process::id();
    let mut costs = Vec::new();
    for kind in KINDS {
        let elsewhere = kind.with(kernel, &file, offset, stream.cast())? - bare;
        kernel.add_target(own)?;
        let traced = kind.with(kernel, &file, offset, stream.cast());
        kernel.remove_target(own)?;
        costs.push(Cost {
            title: kind.title,
            traced: traced? - bare,
            elsewhere,
        });
    }
    if !stream.is_null() {
        // SAFETY: an open stream that nothing else knows.
        unsafe { libc::fclose(stream) };
    }
    Ok(costs)
}

impl Kind {
    /// Nanoseconds of a call with the probes on.
    fn with(
        &self,
        kernel: &mut Kernel,
        file: &PathBuf,
        offset: u64,
        stream: *mut c_void,
    ) -> Result<f64, KernelError> {
        let index = library::index_of(self.library, self.symbol).unwrap_or_default();
        let cookie = FUNCTIONS[usize::from(index)].1.cookie();
        let mut links = Vec::new();
        for name in self.programs {
            let program: &mut UProbe = program(&mut kernel.ebpf, name)?;
            let point = UProbeAttachPoint {
                location: UProbeAttachLocation::AbsoluteOffset(offset),
                cookie: Some(cookie),
            };
            let scope = UProbeScope::CallingProcess;
            let link = program
                .attach(point, file, scope)
                .map_err(|error| attach_error(self.symbol, &error))?;
            links.push((name, link));
        }
        let ns = nanoseconds(stream);
        for (name, link) in links {
            let program: &mut UProbe = program(&mut kernel.ebpf, name)?;
            program
                .detach(link)
                .map_err(|error| attach_error(self.symbol, &error))?;
        }
        Ok(ns)
    }
}

/// Nanoseconds of a call of the function.
fn nanoseconds(stream: *mut c_void) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: the function uses none of its arguments; the probes read a string and a stream.
            black_box(unsafe { iotrace_probed(c"probed".as_ptr().cast(), 1, 1, stream) });
        }
        best = best.min(started.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    best
}

/// The file that the function is in, and where in it.
fn own_place() -> Result<(PathBuf, u64), KernelError> {
    let failed = |source| KernelError::Io {
        what: "this program's own file cannot be found".into(),
        source,
    };
    let address = iotrace_probed as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").map_err(failed)?;
    // proc(5): address, permissions, offset, device, inode, path.
    let place = maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end, offset] = [start, end, words.nth(1)?]
            .map(|number| u64::from_str_radix(number, 16).unwrap_or_default());
        let path = words.nth(2)?;
        (start..end)
            .contains(&address)
            .then(|| (PathBuf::from(path), address - start + offset))
    });
    place.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
}
