//! What opened files. Lines of Python programs: finds the interpreter that a process runs, and the line that a stack of frames is
//! at. Functions of native programs ([`native`]).
//!
//! [`Lines`] interprets what the kernel programs tell, wherever they were loaded: by this process ([`OwnLines`]) or by a service,
//! which hands it on.
//!
//! Nothing is taken for a name or a table of lines that is not an object of the interpreter's own types, and no line that is
//! behind the end of its table: where an interpreter is not built as its version says, its lines are refused.

mod interpreter;
mod mapped;
mod native;
mod own;
mod reader;
mod sources;
mod table;
mod unwind;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use iotrace_common::{
    event::{self, Header},
    lines::{Code, Frame, LineCounts, LineKey, NativeStack, Piece, Python, STRING_BYTES, Stack},
};
use iotrace_model::{
    input::ProcessId,
    lines::{Lined, Place},
    sources::SourceLine,
    targets,
};

use super::{
    batch::Entries,
    events::{Fixed, header, payload, read},
};
use crate::kernel::WantedLines;
use interpreter::{Found, Interpreters};
use native::{Natives, NewStack};
pub use own::OwnLines;
use sources::{Running, Sources};

// SAFETY: `repr(C)`, integers and arrays of them only; so for the following.
unsafe impl Fixed for Stack {}
// SAFETY: as above.
unsafe impl Fixed for Code {}
// SAFETY: as above.
unsafe impl Fixed for Piece {}
// SAFETY: as above.
unsafe impl Fixed for NativeStack {}

/// Longest function's name that is kept, bytes.
const FUNCTION_BYTES: usize = 120;
/// `PyASCIIObject`: its type, its length and its state.
const TYPE: usize = 8;
const LENGTH: usize = 16;
const STATE: usize = 32;
/// Bytes of a code unit.
const UNIT: u64 = 2;

/// What the programs tell of stacks.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// A process has mapped code.
    Mapped(u32),
    Code {
        /// The process that ran it first.
        pid: u32,
        code: Box<NewCode>,
    },
    Piece {
        code: u64,
        offset: u64,
        bytes: Vec<u8>,
    },
    Stack {
        /// Whose it is.
        by: Running,
        number: u64,
        frames: Vec<Frame>,
    },
    NativeStack(Box<NewStack>),
}

/// A code object as it was in memory.
#[derive(Debug, PartialEq, Eq)]
pub struct NewCode {
    number: u64,
    python: u64,
    table_type: u64,
    first_line: u32,
    filename: [u8; STRING_BYTES],
    qualname: [u8; STRING_BYTES],
}

/// What a record is; none if it is damaged.
pub fn decode(header: &Header, record: &[u8]) -> Option<Told> {
    Some(match header.kind {
        event::CODE_MAPPED => Told::Mapped(header.tgid),
        event::CODE => {
            let code: Code = read(record)?;
            Told::Code {
                pid: header.tgid,
                code: Box::new(NewCode {
                    number: code.number,
                    python: code.python,
                    table_type: code.table_type,
                    first_line: code.first_line,
                    filename: code.filename,
                    qualname: code.qualname,
                }),
            }
        }
        event::LINE_TABLE => {
            let piece: Piece = read(record)?;
            Told::Piece {
                code: piece.number,
                offset: piece.offset,
                bytes: payload::<Piece>(record, header)?.to_vec(),
            }
        }
        event::STACK => {
            let stack: Stack = read(record)?;
            let frames = payload::<Stack>(record, header)?;
            let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
            let frames = frames.chunks_exact(size_of::<Frame>()).map(|frame| {
                Some(Frame {
                    code: word(&frame[..8])?,
                    instruction: word(&frame[8..])?,
                })
            });
            Told::Stack {
                by: running(header),
                number: stack.number,
                frames: frames.collect::<Option<_>>()?,
            }
        }
        event::NATIVE_STACK => {
            let stack: NativeStack = read(record)?;
            Told::NativeStack(Box::new(NewStack {
                by: running(header),
                number: stack.number,
                execs: stack.execs,
                code: stack.code,
                registers: stack.registers,
                bytes: payload::<NativeStack>(record, header)?.to_vec(),
            }))
        }
        _ => return None,
    })
}

fn running(header: &Header) -> Running {
    Running {
        pid: header.tgid,
        start: header.start,
    }
}

/// Cuts a function's name that is too long.
fn cut(function: &mut String) {
    let mut characters = function.char_indices();
    if let Some((end, _)) = characters.find(|(at, _)| *at >= FUNCTION_BYTES) {
        function.truncate(end);
    }
}

/// A code object, and its table as far as it has come.
struct Known {
    /// [`Python::number`].
    python: u64,
    file: Arc<str>,
    function: Arc<str>,
    first_line: u32,
    table: Vec<u8>,
    /// Bytes from the object's begin to its instructions.
    instructions: u64,
}

/// Where a stack is: the program's own line, and the innermost one if it is another.
#[derive(Clone, Default)]
struct At {
    own: Option<Arc<Place>>,
    via: Option<Arc<Place>>,
}

/// A Python program that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    found: Found,
    by: Running,
}

impl Program {
    /// The process, and its start as /proc has it.
    pub fn process(&self) -> (u32, u64) {
        (self.by.pid, self.by.start)
    }

    /// What the kernel programs are told of it, without a number.
    pub fn python(&self) -> Python {
        self.found.python
    }
}

/// The lines of a run.
pub struct Lines {
    interpreters: Interpreters,
    /// What the programs were told, by [`Python::number`].
    told: BTreeMap<u64, Program>,
    codes: HashMap<u64, Known>,
    places: BTreeSet<Arc<Place>>,
    stacks: HashMap<u64, At>,
    /// Whether lines of Python programs are wanted.
    wants_python: bool,
    /// Where the reader could be started.
    sources: Option<Sources>,
    /// Where functions of native programs are wanted and their thread could be started.
    natives: Option<Natives>,
    /// Taken, and not yet handed on.
    pending: Vec<(LineKey, LineCounts)>,
    /// What was said.
    said: BTreeSet<String>,
}

impl Lines {
    /// Of a run that has not begun.
    pub fn new(wanted: WantedLines) -> Self {
        Self {
            interpreters: Interpreters::default(),
            told: BTreeMap::new(),
            codes: HashMap::new(),
            places: BTreeSet::new(),
            stacks: HashMap::new(),
            wants_python: wanted.python,
            sources: if wanted.python {
                Sources::start()
            } else {
                None
            },
            natives: if wanted.native {
                Natives::start()
            } else {
                None
            },
            pending: Vec::new(),
            said: BTreeSet::new(),
        }
    }

    /// Looks for the interpreter of a process.
    pub fn find(&mut self, pid: u32) -> Option<Program> {
        if !self.wants_python {
            return None;
        }
        let found = self.interpreters.of(pid)?;
        let found = found.map_err(|reason| {
            self.say(format!(
                "lines of {reason}: its I/O is counted, without lines"
            ));
        });
        let (found, about) = (found.ok()?, targets::identify(pid)?);
        let start = about.start_boottime;
        Some(Program {
            found,
            by: Running { pid, start },
        })
    }

    /// The kernel programs were told of this program, by this number.
    pub fn know(&mut self, number: u64, program: Program) {
        self.told.insert(number, program);
    }

    /// The program of this number.
    pub fn known(&self, number: u64) -> Option<Program> {
        self.told.get(&number).copied()
    }

    /// Says what lines are missing, once.
    pub fn say(&mut self, what: String) {
        if self.said.insert(what.clone()) {
            log::warn!("{what}");
        }
    }

    /// Takes a record of the kernel programs. The process whose interpreter is to be looked for, if it tells of one.
    pub fn record(&mut self, record: &[u8]) -> Option<u32> {
        let header = header(record)?;
        self.tell(decode(&header, record)?)
    }

    /// As [`Self::record`].
    pub fn tell(&mut self, told: Told) -> Option<u32> {
        match told {
            Told::Mapped(pid) => return Some(pid),
            // Of a program that somebody else found.
            Told::Code { pid, code } if !self.told.contains_key(&code.python) => return Some(pid),
            Told::Code { code, .. } => self.meet(&code),
            Told::Piece {
                code,
                offset,
                bytes,
            } => {
                if let Some(known) = self.codes.get_mut(&code) {
                    let offset = offset as usize;
                    // In order, or what is there already.
                    if known.table.len() == offset {
                        known.table.extend(bytes);
                    }
                }
            }
            Told::Stack { by, number, frames } => {
                let at = self.resolve(&frames);
                self.want_source(&at, &frames, by);
                self.stacks.insert(number, at);
            }
            Told::NativeStack(stack) => {
                if let Some(natives) = &mut self.natives {
                    natives.want(*stack);
                }
            }
        }
        None
    }

    /// Takes what was found of native stacks; `last`: waits for what is missing.
    fn take_natives(&mut self, last: bool) {
        let natives = self.natives.as_mut();
        let found = natives.map_or_else(Vec::new, |natives| natives.take(last));
        for (number, found) in found {
            let at = At {
                own: found.own.map(|place| self.shared(place)),
                via: found.via.map(|place| self.shared(place)),
            };
            self.stacks.insert(number, at);
        }
    }

    fn meet(&mut self, code: &NewCode) {
        if self.codes.contains_key(&code.number) {
            return;
        }
        let Some(Program { found, .. }) = self.told.get(&code.python) else {
            return;
        };
        let name = |object| text(object, found.string_type, found.string_head);
        let (Some(file), Some(function)) = (name(&code.filename), name(&code.qualname)) else {
            return;
        };
        if code.table_type != found.bytes_type {
            return;
        }
        let mut function = function;
        cut(&mut function);
        let known = Known {
            python: code.python,
            file: file.into(),
            function: function.into(),
            first_line: code.first_line,
            table: Vec::new(),
            instructions: found.python.layout.instructions.into(),
        };
        self.codes.insert(code.number, known);
    }

    /// Where a stack is; nowhere if a frame of it is not understood.
    fn resolve(&mut self, frames: &[Frame]) -> At {
        let places: Option<Vec<Place>> = frames.iter().map(|frame| self.place(frame)).collect();
        let Some(places) = places else {
            self.say(
                "some frames of Python programs are not understood: their opens count for no line"
                    .into(),
            );
            return At::default();
        };
        let own = places.iter().find(|place| !place.is_of_library());
        let (own, leaf) = (own.or(places.first()).cloned(), places.first().cloned());
        let via = leaf.filter(|leaf| Some(leaf) != own.as_ref());
        At {
            own: own.map(|place| self.shared(place)),
            via: via.map(|place| self.shared(place)),
        }
    }

    /// Asks for the source text of a stack's own line.
    fn want_source(&mut self, at: &At, frames: &[Frame], by: Running) {
        let code = frames.first().and_then(|frame| self.codes.get(&frame.code));
        let program = code.and_then(|code| self.told.get(&code.python));
        if let (Some(sources), Some(own), Some(program)) = (&mut self.sources, &at.own, program) {
            sources.want(own, by, program.by);
        }
    }

    /// Source text that was read since this was last called; `last`: waits for what is missing.
    pub fn take_sources(&mut self, last: bool) -> Vec<SourceLine> {
        let sources = self.sources.as_mut();
        sources.map_or_else(Vec::new, |sources| sources.take(last))
    }

    fn shared(&mut self, place: Place) -> Arc<Place> {
        if let Some(known) = self.places.get(&place) {
            return known.clone();
        }
        let place = Arc::new(place);
        self.places.insert(place.clone());
        place
    }

    fn place(&self, frame: &Frame) -> Option<Place> {
        let code = self.codes.get(&frame.code)?;
        let into = frame.instruction.checked_sub(code.instructions)?;
        let line = table::line_of(&code.table, code.first_line, into / UNIT).ok()?;
        Some(Place {
            file: code.file.clone(),
            function: code.function.clone(),
            line: line.unwrap_or(code.first_line),
        })
    }

    /// Takes counters.
    pub fn count(&mut self, (keys, counts): Entries<LineKey, LineCounts>) {
        self.pending.extend(keys.into_iter().zip(counts));
    }

    /// What was taken, when all has been told that the programs told before. What is of a stack whose function is being looked for
    /// comes later, unless this is the `last` time.
    pub fn sums(&mut self, last: bool) -> Vec<Lined> {
        let own = std::process::id();
        self.take_natives(last);
        let mut pending = std::mem::take(&mut self.pending);
        if let (Some(natives), false) = (&self.natives, last) {
            let is_found = |(key, _): &mut (LineKey, LineCounts)| !natives.is_waiting(key.stack);
            let known: Vec<_> = pending.extract_if(.., is_found).collect();
            self.pending = std::mem::replace(&mut pending, known);
        }
        let pending = pending.into_iter().filter(|(key, _)| key.tgid != own);
        let known = pending.map(|(key, counts)| {
            let At { own, via } = self.stacks.get(&key.stack).cloned().unwrap_or_default();
            Lined {
                process: ProcessId::from(&key),
                own,
                via,
                phase: key.phase as u16,
                counts,
            }
        });
        known.collect()
    }
}

/// The text of a string object, as far as it was copied; none if it is none.
fn text(object: &[u8], string_type: u64, head: usize) -> Option<String> {
    let word = |at: usize| {
        let bytes = object.get(at..at + 8)?;
        bytes.try_into().map(u64::from_le_bytes).ok()
    };
    if word(TYPE)? != string_type {
        return None;
    }
    let state = word(STATE)?;
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    if !is_compact {
        return None;
    }
    // Others have the length of their UTF-8 form and that form behind the head, and up to 3.11 one word more.
    let begin = match (is_ascii, head) {
        (true, _) => head,
        (false, 48) => head + 24,
        (false, _) => head + 16,
    };
    let characters = object.get(begin..)?;
    let length = usize::try_from(word(LENGTH)?).ok()?;
    let units = |size: usize| characters.chunks_exact(size).take(length);
    let text = match kind {
        1 => units(1).map(|unit| char::from(unit[0])).collect(),
        2 => units(2)
            .map(|unit| u32::from(u16::from_le_bytes([unit[0], unit[1]])))
            .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
        4 => units(4)
            .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]))
            .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(head: usize, kind: u64, is_ascii: bool, length: u64, characters: &[u8]) -> Vec<u8> {
        let state = kind << 2 | 1 << 5 | u64::from(is_ascii) << 6;
        let mut object = Vec::new();
        for word in [1, 0xabc, length, 0, state] {
            object.extend(u64::to_le_bytes(word));
        }
        let more = match (is_ascii, head) {
            (true, _) => 0,
            (false, 48) => 24,
            (false, _) => 16,
        };
        object.resize(head + more, 0);
        object.extend(characters);
        object.resize(STRING_BYTES, 0);
        object
    }

    #[test]
    fn strings_are_read_in_each_form() {
        for head in [40, 48] {
            let of = |object: &[u8]| text(object, 0xabc, head);
            assert_eq!(of(&object(head, 1, true, 4, b"a.py")), Some("a.py".into()));
            assert_eq!(of(&object(head, 1, false, 2, b"\xe9x")), Some("éx".into()));
            let two = [0x42, 0x04, 0x43, 0x04];
            assert_eq!(
                of(&object(head, 2, false, 2, &two)),
                Some("тћ".replace('ћ', "у"))
            );
            let four = 0x1_f600_u32.to_le_bytes();
            assert_eq!(of(&object(head, 4, false, 1, &four)), Some("😀".into()));
        }
        let string = object(40, 1, true, 4, b"a.py");
        assert_eq!(text(&string, 0xabd, 40), None, "of another type");
        assert_eq!(text(&string[..20], 0xabc, 40), None, "cut");
        // Longer than what was copied.
        let long = object(40, 1, true, 1 << 40, &[b'x'; STRING_BYTES - 40]);
        assert_eq!(text(&long, 0xabc, 40).unwrap().len(), STRING_BYTES - 40);
    }
}
