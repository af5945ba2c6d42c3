//! Whether the programs' stack is one that every kernel bears, worked out from the object as the verifier does it: it
//! allows 512 bytes for all functions in a chain of calls, each rounded up to 32, and eight functions. Only from Linux
//! 6.13 on it gives each function a stack of its own, so that what loads here may be refused there.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SymbolKind};

use iotrace_programs::{compat_510, current, nobtf};

const LIMIT: u64 = 512;
const FRAMES: usize = 8;
/// Bytes that a function's part is rounded up to.
const UNIT: u64 = 32;

const SIZE: usize = 8;
const LOAD_WIDE: u8 = 0x18;
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;
/// Class of an instruction: its lowest bits.
const CLASS: u8 = 7;
const STACK: u8 = 10;

/// Number of a section, and a place in it.
type Place = (usize, u64);

#[derive(Debug, Default)]
struct Function {
    name: String,
    /// Bytes of the stack that it uses.
    used: u64,
    calls: BTreeSet<Place>,
}

/// What relocations say of places: functions that they lead to.
type Targets = BTreeMap<Place, (Place, bool)>;

/// Reads a function: how far below its frame it reaches, and whom it calls or hands to a helper as a callback.
fn read(name: &str, code: &[u8], at: Place, targets: &Targets) -> Function {
    let mut function = Function {
        name: name.into(),
        ..Function::default()
    };
    // Registers that point into the frame, and where.
    let mut pointers = BTreeMap::from([(STACK, 0_i64)]);
    for (index, instruction) in code.chunks_exact(SIZE).enumerate() {
        let place = (at.0, at.1 + (index * SIZE) as u64);
        let [opcode, registers, low, high, rest @ ..] = instruction else {
            continue;
        };
        let (target, source) = (registers & 15, registers >> 4);
        let offset = i64::from(i16::from_le_bytes([*low, *high]));
        let value = i32::from_le_bytes(rest.try_into().unwrap());
        let mut reaches = |offset: i64| function.used = function.used.max(offset.unsigned_abs());
        match (*opcode, opcode & CLASS) {
            (LOAD_WIDE, _) => {
                pointers.remove(&target);
                if let Some((callback, is_section)) = targets.get(&place) {
                    let within = if *is_section {
                        i64::from(value) as u64
                    } else {
                        0
                    };
                    function.calls.insert((callback.0, callback.1 + within));
                }
            }
            (MOVE, _) => match pointers.get(&source).copied() {
                Some(pointer) => {
                    pointers.insert(target, pointer);
                }
                None => {
                    pointers.remove(&target);
                }
            },
            (ADD, _) => {
                if let Some(pointer) = pointers.get_mut(&target) {
                    *pointer += i64::from(value);
                    reaches((*pointer).min(0));
                }
            }
            (CALL, _) => {
                pointers.retain(|register, _| *register > 5);
                let next = place
                    .1
                    .wrapping_add_signed(i64::from(value + 1) * SIZE as i64);
                if source == PSEUDO_CALL {
                    let called = match targets.get(&place) {
                        Some((section, true)) => {
                            (section.0, i64::from(value + 1) as u64 * SIZE as u64)
                        }
                        Some((called, false)) => *called,
                        None => (place.0, next),
                    };
                    function.calls.insert(called);
                }
            }
            // Loads, and stores of numbers and of registers.
            (_, 1) => {
                if let Some(pointer) = pointers.get(&source) {
                    reaches((pointer + offset).min(0));
                }
                pointers.remove(&target);
            }
            (_, 2 | 3) => {
                if let Some(pointer) = pointers.get(&target) {
                    reaches((pointer + offset).min(0));
                }
            }
            (_, 4 | 7) => {
                pointers.remove(&target);
            }
            _ => {}
        }
    }
    function
}

/// All functions of an object, and those among them that are programs.
fn functions(object: &[u8]) -> (BTreeMap<Place, Function>, Vec<Place>) {
    let object = object::File::parse(object).unwrap();
    let mut targets = Targets::new();
    for section in object.sections() {
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            let symbol = object.symbol_by_index(index).unwrap();
            let Some(of) = symbol.section_index() else {
                continue;
            };
            let code = object.section_by_index(of).unwrap().kind() == object::SectionKind::Text;
            if code {
                let is_section = symbol.kind() == SymbolKind::Section;
                targets.insert(
                    (section.index().0, offset),
                    ((of.0, symbol.address()), is_section),
                );
            }
        }
    }
    let mut functions = BTreeMap::new();
    let mut programs = Vec::new();
    for symbol in object
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text)
    {
        let (Some(index), Ok(name)) = (symbol.section_index(), symbol.name()) else {
            continue;
        };
        let section = object.section_by_index(index).unwrap();
        let (start, length) = (symbol.address(), symbol.size());
        let code = &section.data().unwrap()[start as usize..(start + length) as usize];
        let place = (index.0, start);
        functions.insert(place, read(name, code, place, &targets));
        if section.name() != Ok(".text") {
            programs.push(place);
        }
    }
    (functions, programs)
}

/// The chain of calls from a function on that needs most: its bytes, and its functions.
fn deepest(functions: &BTreeMap<Place, Function>, from: Place) -> (u64, Vec<String>) {
    let function = &functions[&from];
    let calls = function
        .calls
        .iter()
        .filter(|place| functions.contains_key(place));
    let below = calls.map(|place| deepest(functions, *place));
    let (bytes, mut chain) = below.max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    chain.insert(0, format!("{} {}", function.name, function.used));
    (bytes + function.used.max(1).next_multiple_of(UNIT), chain)
}

#[test]
fn every_chain_of_calls_fits_the_stack_of_every_kernel() {
    fits("current", &current().unwrap(), 10);
    fits("compat_510", &compat_510().unwrap(), 10);
}

#[test]
fn and_so_does_every_one_without_type_information() {
    fits("nobtf", &nobtf().unwrap(), 4);
}

/// Checks every chain of calls of an object, which has at least `least` programs.
fn fits(name: &str, object: &[u8], least: usize) {
    let (functions, programs) = functions(object);
    assert!(programs.len() >= least && functions.len() > 2 * programs.len());
    let mut most = (0, Vec::new());
    for program in programs {
        let (bytes, chain) = deepest(&functions, program);
        assert!(
            bytes <= LIMIT && chain.len() <= FRAMES,
            "{bytes} bytes: {chain:#?}"
        );
        most = most.max((bytes, chain));
    }
    let (bytes, chain) = most;
    println!("{name}: {bytes} of {LIMIT} bytes: {chain:?}");
    assert!(bytes > LIMIT / 2, "calls were not followed: {bytes} bytes");
}
