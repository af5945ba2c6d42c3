//! Whether this kernel preempts programs on system calls: seen by a small program that looks, and not told by the
//! release, since vendors bring changes back to older ones.
//!
//! Attaches a program of a dozen instructions to the BTF raw tracepoint `sys_enter` for the time of one call of this
//! thread. It reads how deep preemption is disabled (`preempt_count` of the kernel) and writes that into a map of its own,
//! the only thing that leaves it.

use std::{
    ffi::{CStr, c_char},
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use aya::maps::{Array, Map, MapData};

use super::{bpf::bpf, btf::Types};

/// The release from which on kernels preempt them, for those that cannot be asked.
const FROM: (u32, u32) = (7, 2);
/// The part of the kernel's count that says how often preemption was disabled (`PREEMPT_MASK`).
const DISABLED: u32 = 0xff;

/// Whether system call programs can be preempted by this kernel, and how that is known. If not, they are loaded without
/// what lets copies tell each other's calls, and have one copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    pub is_possible: bool,
    /// Why it was concluded from the release, and not seen.
    unseen: Option<String>,
}

impl Preemption {
    /// Looks.
    pub fn of(types: &Types) -> Self {
        match look(types) {
            // A kernel that is not built to be preempted keeps no count.
            Ok(depth) => Self {
                is_possible: depth == 0 && is_preemptible(),
                unseen: None,
            },
            Err(reason) => Self {
                is_possible: release().is_some_and(|release| release >= FROM),
                unseen: Some(reason),
            },
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        let found = match self.is_possible {
            true => "possible: two copies of the programs on calls, a third where calls are missed",
            false => "none",
        };
        match &self.unseen {
            None => found.to_owned(),
            Some(reason) => format!("{found}, by its release: {reason}"),
        }
    }
}

/// Where a kernel keeps the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a variable that every CPU has: its type id, and the offset in it, bytes.
    Cpu { variable: u32, offset: i16 },
    /// In `task_struct`: the offset, bytes.
    Task { offset: i16 },
}

impl Place {
    fn find(types: &Types) -> Option<Self> {
        let offset = |structure, path| i16::try_from(types.offset(structure, path)?).ok();
        let own = types.variable("__preempt_count").map(|id| (id, 0));
        // Linux 6.2 to 6.14.
        let shared = || {
            let offset = offset("pcpu_hot", "preempt_count")?;
            Some((types.variable("pcpu_hot")?, offset))
        };
        let of_cpu = own.or_else(shared);
        of_cpu.map_or_else(
            || {
                offset("task_struct", "thread_info.preempt_count")
                    .map(|offset| Self::Task { offset })
            },
            |(variable, offset)| Some(Self::Cpu { variable, offset }),
        )
    }
}

/// How deep preemption is disabled in a program at the start of a call.
fn look(types: &Types) -> Result<u32, String> {
    let place = Place::find(types).ok_or("its types do not say where it counts")?;
    let hook = types
        .tracepoint("sys_enter")
        .ok_or("it has no BTF raw tracepoint sys_enter")?;
    let tried = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let map = create_map().map_err(tried("its map cannot be made"))?;
    let program =
        load(&program(place, &map), hook).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => "it does not name its variables (CONFIG_KALLSYMS_ALL)".into(),
            _ => tried("its program cannot be loaded")(error),
        })?;
    let attr = &mut [0, 0, program.as_raw_fd() as u32];
    let link = bpf(RAW_TRACEPOINT_OPEN, attr).map_err(tried("its program cannot be attached"))?;
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
    drop(link);
    let seen: Array<_, [u32; 2]> = MapData::from_fd(map)
        .and_then(|map| Array::try_from(Map::Array(map)))
        .map_err(|error| format!("its map cannot be read: {error}"))?;
    match seen.get(&0, 0) {
        Ok([count, 1]) => Ok(count & DISABLED),
        Ok(_) => Err("its program did not run".into()),
        Err(error) => Err(format!("its map cannot be read: {error}")),
    }
}

/// Commands and constants of linux/bpf.h.
const MAP_CREATE: libc::c_int = 0;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;
const PSEUDO_MAP_VALUE: u8 = 2;
const PSEUDO_BTF_ID: u8 = 3;
const GET_CURRENT_PID_TGID: i32 = 14;
const THIS_CPU_PTR: i32 = 154;
const GET_CURRENT_TASK_BTF: i32 = 158;

/// One value: the count, and 1 once the program ran.
fn create_map() -> io::Result<OwnedFd> {
    let (key, value, entries, flags) = (4, 8, 1, 0);
    bpf(
        MAP_CREATE,
        &mut [MAP_TYPE_ARRAY, key, value, entries, flags],
    )
}

fn load(program: &[Instruction], hook: u32) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"GPL";
    // `struct { ... } prog_load` of `union bpf_attr`, by its 32-bit words.
    let mut attr = [0; 29];
    attr[0] = PROG_TYPE_TRACING;
    attr[1] = program.len() as u32;
    [attr[2], attr[3]] = address(program.as_ptr());
    [attr[4], attr[5]] = address::<c_char>(LICENSE.as_ptr());
    attr[17] = TRACE_RAW_TP;
    attr[27] = hook;
    bpf(PROG_LOAD, &mut attr)
}

/// An address as `bpf(2)` takes it, in words.
fn address<T>(pointer: *const T) -> [u32; 2] {
    let address = pointer as u64;
    [address as u32, (address >> 32) as u32]
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Register 0 or 1 or 2.
type Register = u8;

fn instruction(code: u8, (to, from): (Register, u8), offset: i16, immediate: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset,
        immediate,
    }
}

/// Loads 64 bits, or what `kind` says they stand for.
fn load_64(to: Register, kind: u8, value: u64) -> [Instruction; 2] {
    [
        instruction(0x18, (to, kind), 0, value as i32),
        instruction(0, (0, 0), 0, (value >> 32) as i32),
    ]
}

fn call(helper: i32) -> Instruction {
    instruction(0x85, (0, 0), 0, helper)
}

/// The program: of the calling thread's calls alone, the count goes into the map.
fn program(place: Place, map: &OwnedFd) -> Vec<Instruction> {
    let (find, offset) = match place {
        Place::Cpu { variable, offset } => {
            let [first, second] = load_64(1, PSEUDO_BTF_ID, variable.into());
            (vec![first, second, call(THIS_CPU_PTR)], offset)
        }
        Place::Task { offset } => (vec![call(GET_CURRENT_TASK_BTF)], offset),
    };
    let mut body = find;
    // r1 = count
    body.push(instruction(0x61, (1, 0), offset, 0));
    body.extend(load_64(2, PSEUDO_MAP_VALUE, map.as_raw_fd() as u64));
    // The count, and that it is there.
    body.push(instruction(0x63, (2, 1), 0, 0));
    body.push(instruction(0x62, (2, 0), 4, 1));
    let mut program = vec![call(GET_CURRENT_PID_TGID)];
    program.extend(load_64(1, 0, own_thread()));
    // Past the body unless r0 == r1.
    program.push(instruction(0x5d, (0, 1), body.len() as i16, 0));
    program.extend(body);
    // return 0
    program.push(instruction(0xb7, (0, 0), 0, 0));
    program.push(instruction(0x95, (0, 0), 0, 0));
    program
}

/// The calling thread as `bpf_get_current_pid_tgid` has it. iotrace runs in the first PID namespace.
fn own_thread() -> u64 {
    // SAFETY: has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() };
    u64::from(std::process::id()) << 32 | thread as u64
}

/// Whether the kernel is built to be preempted (`CONFIG_PREEMPTION`), as it says in its version.
fn is_preemptible() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/version").is_ok_and(|text| text.contains("PREEMPT"))
}

/// Major and minor release of the running kernel.
fn release() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No kernel of Linux's own before that release preempts them, and all later ones do. The look needs the name of the
    /// variable in the kernel, which has it with `CONFIG_KALLSYMS_ALL`.
    #[test]
    fn what_is_seen_is_what_the_release_does() {
        let types = super::super::load::read_types(None).unwrap();
        let preemption = Preemption::of(&types);
        let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let mut names = symbols.lines().filter_map(|line| line.split(' ').nth(2));
        let is_named = names.any(|name| matches!(name, "__preempt_count" | "pcpu_hot"));
        assert_eq!(preemption.unseen.is_none(), is_named, "{preemption:?}");
        let by_release = release().unwrap() >= FROM;
        assert_eq!(preemption.is_possible, by_release && is_preemptible());
    }

    #[test]
    fn without_types_the_release_tells() {
        let preemption = Preemption::of(&Types::none());
        assert!(preemption.unseen.is_some());
        assert_eq!(preemption.is_possible, release().unwrap() >= FROM);
    }
}
