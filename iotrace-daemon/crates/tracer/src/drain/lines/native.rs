//! Which function of a native program a stack is in, with its line where the program has debugging information.
//!
//! A separate thread unwinds and reads symbols: a large program takes seconds. It reads the mappings of a process while that runs,
//! and copies its executable: a file that is cut while it is mapped would end whoever reads it.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fs::File,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use blazesym::symbolize::{
    CodeInfo, Input, Sym, Symbolized, Symbolizer,
    source::{Elf, Source},
};
use iotrace_common::lines::REGISTERS;
use iotrace_model::{lines::Place, targets};
use rustix::fs::{MemfdFlags, memfd_create};

use super::{
    cut,
    mapped::{Mapping, at, mapped_by},
    reader::START_SLACK_NS,
    sources::Running,
    unwind::{Tables, follow},
};

/// Stacks that wait for the thread: what comes then is of no known function.
const MAX_WAITING: usize = 4096;
/// Largest executable whose symbols are read, bytes.
const MAX_EXECUTABLE: u64 = 512 << 20;
/// Executables whose symbols are kept, files whose tables are, and programs that are known at one time.
const MAX_EXECUTABLES: usize = 64;
const MAX_FILES: usize = 1024;
const MAX_PROGRAMS: usize = 4096;
/// How long the thread is waited for at the end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Directories of source files that are of libraries.
const LIBRARIES: [&str; 4] = ["/rustc/", "/.cargo/registry/", "/usr/include/", "/usr/lib/"];

/// A stack as the kernel programs send it.
#[derive(Debug, PartialEq, Eq)]
pub struct NewStack {
    pub by: Running,
    pub number: u64,
    /// Identifies the program, with the process.
    pub execs: u64,
    /// Where the executable's code begins.
    pub code: u64,
    pub registers: [u64; REGISTERS],
    pub bytes: Vec<u8>,
}

/// The thread, and what it was asked.
pub struct Natives {
    ask: SyncSender<NewStack>,
    answers: Receiver<(u64, Found)>,
    waiting: HashSet<u64>,
}

/// The program's own place, and the innermost one if it is another.
#[derive(Default)]
pub struct Found {
    pub own: Option<Place>,
    pub via: Option<Place>,
}

impl Natives {
    /// Starts the thread; `None` if it cannot be started.
    pub fn start() -> Option<Self> {
        let (ask, asked) = sync_channel(MAX_WAITING);
        let (give, answers) = channel();
        let thread = thread::Builder::new().name("iotrace-symbols".into());
        thread.spawn(move || answer(&asked, &give)).ok()?;
        Some(Self {
            ask,
            answers,
            waiting: HashSet::new(),
        })
    }

    /// Asks where a stack is.
    pub fn want(&mut self, stack: NewStack) {
        let number = stack.number;
        if self.ask.try_send(stack).is_ok() {
            self.waiting.insert(number);
        }
    }

    /// Whether a stack may still be found.
    pub fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains(&number)
    }

    /// What was found since this was last called; `last`: waits for what is missing.
    pub fn take(&mut self, last: bool) -> Vec<(u64, Found)> {
        let deadline = Instant::now() + END_TIMEOUT;
        let mut found = Vec::new();
        while !self.waiting.is_empty() {
            let left = match last {
                true => deadline.saturating_duration_since(Instant::now()),
                false => Duration::ZERO,
            };
            let Ok(answer) = self.answers.recv_timeout(left) else {
                break;
            };
            self.waiting.remove(&answer.0);
            found.push(answer);
        }
        found
    }
}

fn answer(asked: &Receiver<NewStack>, give: &Sender<(u64, Found)>) {
    let mut programs = Programs::new();
    while let Ok(stack) = asked.recv() {
        let found = programs.find(&stack).unwrap_or_default();
        if give.send((stack.number, found)).is_err() {
            return;
        }
    }
}

/// A process by its pid and its start, and how often it called exec.
type Program = (u32, u64, u64);

/// What is known of programs and their files.
struct Programs {
    /// The code of programs.
    code: HashMap<Program, Vec<Mapping>>,
    /// Of a file: how its frames are unwound. None: it has no tables, or cannot be read.
    tables: HashMap<(String, u64), Option<Tables>>,
    /// Copies of executables.
    executables: HashMap<(String, u64), Option<OwnedFd>>,
    symbolizer: Symbolizer,
}

impl Programs {
    fn new() -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(true)
            .enable_inlined_fns(true)
            .enable_demangling(false)
            .enable_auto_reload(false);
        Self {
            code: HashMap::new(),
            tables: HashMap::new(),
            executables: HashMap::new(),
            symbolizer: symbolizer.build(),
        }
    }

    fn find(&mut self, stack: &NewStack) -> Option<Found> {
        let program = (stack.by.pid, stack.by.start, stack.execs);
        let (addresses, is_whole) = self.addresses(stack, program)?;
        let code = self.code.get(&program)?;
        let executable = at(code, stack.code)?;
        let file = executable.file.clone();
        let path: Arc<str> = executable.path.as_str().into();
        let offsets: Vec<u64> = addresses
            .iter()
            .filter_map(|address| {
                let mapping = at(code, *address).filter(|mapping| mapping.file == file)?;
                Some(mapping.in_file(*address))
            })
            .collect();
        let copy = self.executables.get(&file)?.as_ref()?;
        let copy = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
        let source = Source::Elf(Elf::new(copy));
        let mut places = Vec::new();
        for offset in offsets {
            let symbols = self
                .symbolizer
                .symbolize_single(&source, Input::FileOffset(offset));
            if let Ok(Symbolized::Sym(symbol)) = symbols {
                places.extend(places_of(&symbol, &path));
            } else {
                places.push(place(None, None, &path));
            }
        }
        let has_lines = self.tables.get(&file)?.as_ref()?.has_lines();
        if has_lines && !is_whole && !places.iter().any(is_own) {
            // Its own function may be further out.
            return None;
        }
        Some(chosen(places))
    }

    /// The addresses in the functions of a stack, from the innermost one on, and whether they are all.
    fn addresses(&mut self, stack: &NewStack, program: Program) -> Option<(Vec<u64>, bool)> {
        let mut is_new = false;
        loop {
            if !self.code.contains_key(&program) {
                let mut code = mapped_by(program.0)?;
                code.retain(|mapping| mapping.is_code);
                let about = targets::identify(program.0)?;
                if about.start_boottime.abs_diff(stack.by.start) > START_SLACK_NS {
                    return None;
                }
                self.open(program.0, &code, stack.code);
                if self.code.len() >= MAX_PROGRAMS {
                    // Those that still run are read again.
                    self.code.clear();
                }
                self.code.insert(program, code);
                is_new = true;
            }
            let code = &self.code[&program];
            let mut addresses = Vec::new();
            let mut is_mapped = true;
            let is_whole = follow(&stack.registers, &stack.bytes, |address| {
                let mapping = at(code, address);
                is_mapped = mapping.is_some();
                let mapping = mapping?;
                addresses.push(address);
                let tables = self.tables.get(&mapping.file)?.as_ref()?;
                Some((tables, mapping.in_file(address)))
            });
            if is_mapped || is_new {
                return Some((addresses, is_whole));
            }
            // A library was loaded since.
            self.code.remove(&program);
        }
    }

    /// Reads what is needed of the files of a program while it runs.
    fn open(&mut self, pid: u32, code: &[Mapping], start: u64) {
        for mapping in code {
            if self.tables.len() >= MAX_FILES && !self.tables.contains_key(&mapping.file) {
                continue;
            }
            let tables = self.tables.entry(mapping.file.clone());
            let tables = tables.or_insert_with(|| Tables::read(&mapping.open(pid)?));
            let is_executable = mapping.addresses.contains(&start);
            if is_executable
                && tables.is_some()
                && !self.executables.contains_key(&mapping.file)
                && self.executables.len() < MAX_EXECUTABLES
            {
                let copy = mapping.open(pid).and_then(|file| copied(&file).ok());
                self.executables.insert(mapping.file.clone(), copy);
            }
        }
    }
}

/// A copy of a file in memory.
fn copied(file: &File) -> io::Result<OwnedFd> {
    if file.metadata()?.len() > MAX_EXECUTABLE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut copy = File::from(memfd_create("iotrace-executable", MemfdFlags::CLOEXEC)?);
    let mut file = file;
    io::copy(&mut io::Read::take(&mut file, MAX_EXECUTABLE), &mut copy)?;
    Ok(copy.into())
}

/// The functions that an address is in, those first that are called inline.
fn places_of(symbol: &Sym<'_>, executable: &Arc<str>) -> Vec<Place> {
    let inlined = symbol.inlined.iter().rev();
    let inlined = inlined.map(|one| place(Some(&one.name), one.code_info.as_ref(), executable));
    let outer = place(Some(&symbol.name), symbol.code_info.as_deref(), executable);
    inlined.chain([outer]).collect()
}

/// Without debugging information it is in the executable, at line 0.
fn place(name: Option<&Cow<'_, str>>, code: Option<&CodeInfo<'_>>, executable: &Arc<str>) -> Place {
    let mut function = name.map_or_else(|| "?".to_owned(), |name| demangled(name));
    cut(&mut function);
    let file = code.map(|code| code.to_path().to_string_lossy().into_owned());
    Place {
        file: file.map_or_else(|| executable.clone(), Into::into),
        line: code.and_then(|code| code.line).unwrap_or(0),
        function: function.into(),
    }
}

/// A function's name as its source has it. A name of C stays as it is: `rd` would be a type of C++.
fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let cpp = name
        .starts_with("_Z")
        .then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
    cpp.flatten().unwrap_or_else(|| name.to_owned())
}

/// Whether it has a line that is not of a library.
fn is_own(place: &Place) -> bool {
    place.line > 0 && !LIBRARIES.iter().any(|library| place.file.contains(library))
}

/// Of the functions of a stack in the executable, from the innermost one on: its own is the first one with a line that is not of
/// a library, else the first.
fn chosen(places: Vec<Place>) -> Found {
    let own = places.iter().find(|place| is_own(place));
    let own = own.or(places.first()).cloned();
    let via = places.into_iter().next();
    Found {
        via: via.filter(|via| Some(via) != own.as_ref()),
        own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_are_not_taken_for_types() {
        for (name, in_source) in [
            ("rd", "rd"),
            ("f", "f"),
            ("Pc", "Pc"),
            ("_Z5writePKcm", "write(char const*, unsigned long)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC3foo3bar", "foo::bar"),
        ] {
            assert_eq!(demangled(name), in_source);
        }
    }

    fn place(file: &str, line: u32) -> Place {
        Place {
            file: file.into(),
            line,
            function: "f".into(),
        }
    }

    #[test]
    fn the_own_function_is_outside_libraries() {
        let [static_libc, library, own, main] = [
            place("/opt/program", 0),
            place("/rustc/abc/library/std/src/fs.rs", 9),
            place("/home/me/main.rs", 7),
            place("/home/me/main.rs", 3),
        ];
        let found = chosen(vec![
            static_libc.clone(),
            library.clone(),
            own.clone(),
            main,
        ]);
        assert_eq!(found.own, Some(own.clone()));
        assert_eq!(found.via, Some(static_libc.clone()));
        let found = chosen(vec![own.clone()]);
        assert_eq!((found.own, found.via), (Some(own), None));
        // Nothing but libraries: the innermost one.
        let found = chosen(vec![static_libc.clone(), library]);
        assert_eq!((found.own, found.via), (Some(static_libc), None));
        assert_eq!(chosen(Vec::new()).own, None);
    }
}
