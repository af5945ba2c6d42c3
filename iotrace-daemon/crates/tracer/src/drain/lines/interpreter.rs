//! The Python interpreter of a process: which file it is, of which version, and where its structs have their fields.

use std::{collections::BTreeMap, io::Read as _, os::unix::fs::MetadataExt as _};

use iotrace_common::lines::{CODE_WORDS, FRAME_BYTES, Layout, NO_CFRAME, Python};
use object::{Object as _, ObjectKind, ObjectSegment as _, ObjectSymbol as _};

use super::mapped::{Mapping, mapped_by};

/// What a file must define to be an interpreter.
const RUNTIME: &str = "_PyRuntime";
/// `PY_VERSION_HEX` of 3.11 and later.
const VERSION: &str = "Py_Version";
/// Larger files are no interpreters.
const MOST_BYTES: u64 = 1 << 30;
/// What `_PyRuntime` begins with from 3.13 on.
const COOKIE: &[u8; 8] = b"xdebugpy";

/// Where `_PyRuntime` has the pointer to the main interpreter up to 3.12 (`interpreters.main`), and the fields of the structs.
const V3_11: (u64, Layout) = (
    48,
    Layout {
        threads: 16,
        next: 8,
        thread_id: 152,
        frame: 56,
        inner_frame: 8,
        code: 32,
        previous: 48,
        instruction: 56,
        owner: 69,
        filename: 112,
        qualname: 128,
        line_table: 136,
        first_line: 72,
        instructions: 184,
    },
);
const V3_12: (u64, Layout) = (
    48,
    Layout {
        threads: 72,
        next: 8,
        thread_id: 136,
        frame: 56,
        inner_frame: 0,
        code: 0,
        previous: 8,
        instruction: 56,
        owner: 70,
        filename: 112,
        qualname: 128,
        line_table: 136,
        first_line: 68,
        instructions: 192,
    },
);

/// A file that is an interpreter. Addresses are as the file has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Whether it lies in memory where the file says.
    is_fixed: bool,
    /// Address of the part with the file's begin.
    base: u64,
    /// Of the pointer to the main interpreter.
    main: u64,
    code_type: u64,
    string_type: u64,
    bytes_type: u64,
    layout: Layout,
    /// Bytes of a string object before its characters, if they are ASCII.
    string_head: usize,
}

/// What a process has mapped of its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub python: Python,
    pub string_type: u64,
    pub bytes_type: u64,
    pub string_head: usize,
}

/// Files that were looked at, by device and inode: none that define no interpreter; why one is not understood.
#[derive(Default)]
pub struct Interpreters(BTreeMap<(u64, u64), Option<Result<Interpreter, String>>>);

impl Interpreters {
    /// The interpreter that a process has mapped; why it is not understood.
    pub fn of(&mut self, pid: u32) -> Option<Result<Found, String>> {
        let mapped = mapped_by(pid)?;
        let is_code = |path: &str| {
            let mut code = mapped.iter().filter(|part| part.is_code);
            code.any(|part| part.path == path)
        };
        // A file's begin is mapped first.
        for part in mapped.iter().filter(|part| part.offset == 0) {
            if !may_be_python(&part.path) || !is_code(&part.path) {
                continue;
            }
            match self.file(pid, part) {
                None => {}
                Some(Err(reason)) => return Some(Err(format!("{}: {reason}", part.path))),
                Some(Ok(interpreter)) => {
                    return Some(Ok(interpreter.at(part.addresses.start)));
                }
            }
        }
        None
    }

    fn file(&mut self, pid: u32, part: &Mapping) -> Option<&Result<Interpreter, String>> {
        let mut file = part.open_or_successor(pid)?;
        let metadata = file.metadata().ok()?;
        let read = || {
            if metadata.len() > MOST_BYTES {
                return None;
            }
            let mut data = Vec::new();
            file.read_to_end(&mut data).ok()?;
            interpreter(&data)
        };
        let key = (metadata.dev(), metadata.ino());
        self.0.entry(key).or_insert_with(read).as_ref()
    }
}

/// Whether a file may be an interpreter or a program that contains one: no other library is read.
fn may_be_python(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.contains("python") || !name.contains(".so")
}

impl Interpreter {
    /// In a process that has mapped the file's begin at `start`.
    fn at(&self, start: u64) -> Found {
        let moved = if self.is_fixed {
            0
        } else {
            start.wrapping_sub(self.base)
        };
        Found {
            python: Python {
                interpreter: self.main.wrapping_add(moved),
                code_type: self.code_type.wrapping_add(moved),
                number: 0,
                layout: self.layout,
            },
            string_type: self.string_type.wrapping_add(moved),
            bytes_type: self.bytes_type.wrapping_add(moved),
            string_head: self.string_head,
        }
    }
}

/// The interpreter that a file is; none if it is none, an error if it is not understood.
pub fn interpreter(data: &[u8]) -> Option<Result<Interpreter, String>> {
    let file = object::File::parse(data).ok()?;
    let mut symbols = BTreeMap::new();
    for symbol in file.dynamic_symbols() {
        if symbol.is_definition()
            && let Ok(name) = symbol.name()
        {
            symbols.insert(name, symbol.address());
        }
    }
    let runtime = *symbols.get(RUNTIME)?;
    Some(understood(&file, &symbols, runtime))
}

fn understood(
    file: &object::File<'_>,
    symbols: &BTreeMap<&str, u64>,
    runtime: u64,
) -> Result<Interpreter, String> {
    let address = |name: &str| {
        let found = symbols.get(name).copied();
        found.ok_or_else(|| format!("it defines no {name}"))
    };
    let version = address(VERSION).map_err(|_| "it is older than Python 3.11".to_owned())?;
    let version = word(file, version).ok_or("its version cannot be read")?;
    let (major, minor) = (version >> 24 & 0xff, version >> 16 & 0xff);
    let (main, layout) = match (major, minor, Parts::of(minor)) {
        (3, 11, _) => V3_11,
        (3, 12, _) => V3_12,
        (3, _, Some(parts)) => {
            let words: Option<Vec<u64>> = (0..debug::WORD_COUNT)
                .map(|index| word(file, runtime.wrapping_add(8 * index as u64)))
                .collect();
            layout(&words.ok_or("its table of offsets cannot be read")?, &parts)?
        }
        _ => {
            return Err(format!(
                "Python {major}.{minor} is not known to this iotrace"
            ));
        }
    };
    let base = file.segments().find(|segment| segment.file_range().0 == 0);
    let base = base.ok_or("no part of it has the file's begin")?.address();
    Ok(Interpreter {
        is_fixed: file.kind() == ObjectKind::Executable,
        base,
        main: runtime.wrapping_add(main),
        code_type: address("PyCode_Type")?,
        string_type: address("PyUnicode_Type")?,
        bytes_type: address("PyBytes_Type")?,
        layout,
        string_head: if minor == 11 { 48 } else { 40 },
    })
}

/// A word of the file's data.
fn word(file: &object::File<'_>, address: u64) -> Option<u64> {
    let mut segments = file.segments();
    let bytes = segments.find_map(|segment| segment.data_range(address, 8).ok().flatten())?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Words of `_Py_DebugOffsets`, which are the same in all versions.
mod debug {
    pub const COOKIE: usize = 0;
    pub const FREE_THREADED: usize = 2;
    pub const INTERPRETERS_HEAD: usize = 5;
    pub const THREADS_HEAD: usize = 9;
    /// Words that are read.
    pub const WORD_COUNT: usize = 64;
}

/// Where a version's `_Py_DebugOffsets` has the parts that differ: the word of each struct's size, which its fields follow.
struct Parts {
    thread: usize,
    /// The word of the thread's `pthread_t`.
    thread_id: usize,
    frame: usize,
    code: usize,
}

impl Parts {
    /// Of Python 3.`minor`, by `Include/internal/pycore_debug_offsets.h` (3.13: `pycore_runtime.h`); `None`: not known.
    fn of(minor: u64) -> Option<Self> {
        let (thread, thread_id, frame, code) = match minor {
            13 => (19, 24, 28, 34),
            14 => (22, 27, 31, 39),
            15 => (22, 30, 39, 47),
            _ => return None,
        };
        Some(Self {
            thread,
            thread_id,
            frame,
            code,
        })
    }
}

/// By the interpreter's own table.
fn layout(words: &[u64], parts: &Parts) -> Result<(u64, Layout), String> {
    if words[debug::COOKIE] != u64::from_le_bytes(*COOKIE) {
        return Err("it has no table of offsets".into());
    }
    if words[debug::FREE_THREADED] != 0 {
        return Err("free-threaded Python is not known to this iotrace".into());
    }
    let within = |index: usize, limit: usize| {
        let offset = u32::try_from(words[index]).ok();
        let offset = offset.filter(|offset| (*offset as usize) < limit);
        offset.ok_or_else(|| "its table of offsets is not understood".to_owned())
    };
    let frame = |index| within(index, FRAME_BYTES);
    let code = |index| within(index, CODE_WORDS * 8);
    let any = |index| within(index, 1 << 20);
    let layout = Layout {
        threads: any(debug::THREADS_HEAD)?,
        next: any(parts.thread + 2)?,
        thread_id: any(parts.thread_id)?,
        frame: any(parts.thread + 4)?,
        inner_frame: NO_CFRAME,
        code: frame(parts.frame + 2)?,
        previous: frame(parts.frame + 1)?,
        instruction: frame(parts.frame + 3)?,
        owner: frame(parts.frame + 5)?,
        filename: code(parts.code + 1)?,
        qualname: code(parts.code + 3)?,
        line_table: code(parts.code + 4)?,
        first_line: code(parts.code + 5)?,
        instructions: any(parts.code + 9)?,
    };
    // The main interpreter's pointer stands behind that of the newest one.
    let main = u64::from(any(debug::INTERPRETERS_HEAD)?) + 8;
    Ok((main, layout))
}
