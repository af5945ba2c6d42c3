//! Takes out of an object what no run needs: DWARF, which is three quarters of it, as the loader knows types by BTF; the
//! relocations of BTF, whose offsets the loader takes as they are; and the source lines of instructions, which the loader copies
//! for each function, and the verifier moves with each instruction that it removes.

use std::ops::Range;

/// Offsets of fields in the header of a 64-bit ELF file, and in the header of a section; size of the latter, bytes.
const SECTIONS_OFFSET: usize = 0x28;
const SECTION_COUNT: usize = 0x3c;
const NAMES_INDEX: usize = 0x3e;
const SECTION_BYTES: usize = 64;
const NAME_OFFSET: usize = 0;
const KIND_OFFSET: usize = 4;
const CONTENT_OFFSET: usize = 24;
const LENGTH_OFFSET: usize = 32;
/// Offset of the byte that is 1 if the file is little endian.
const ENDIAN_OFFSET: usize = 5;
/// Size of the header of the file, and what the contents of sections are aligned to, bytes.
const HEADER_BYTES: usize = 64;
const CONTENT_ALIGNMENT: usize = 16;
/// Kind of a section without content in the file.
const NO_CONTENT: usize = 8;
/// Offsets of fields in `.BTF.ext`, by libbpf's `struct btf_ext_header`: the header's length, and where the lines and the
/// relocations behind them begin, and how long they are.
const EXT_HEADER_LENGTH: usize = 4;
const LINES_START: usize = 16;
const LINES_LENGTH: usize = 20;
const RELOCATIONS_START: usize = 24;
const RELOCATIONS_LENGTH: usize = 28;

/// The object without that. Sections keep their numbers, and those that are taken out are empty and of no kind.
pub(crate) fn without(mut object: Vec<u8>) -> Vec<u8> {
    let sections = number(&object, SECTIONS_OFFSET, 8);
    let count = number(&object, SECTION_COUNT, 2);
    let header = |index: usize| sections + index * SECTION_BYTES;
    let names = content(&object, header(number(&object, NAMES_INDEX, 2))).start;
    let mut whole = object[..HEADER_BYTES].to_vec();
    for index in 0..count {
        let header = header(index);
        let name = names + number(&object, header + NAME_OFFSET, 4);
        let is = |prefix: &[u8]| object[name..].starts_with(prefix);
        if is(b".debug_") || is(b".rel.debug_") || is(b".rel.BTF") {
            put(&mut object, header + KIND_OFFSET, 4, 0);
            put(&mut object, header + LENGTH_OFFSET, 8, 0);
        } else if is(b".BTF.ext\0") {
            remove_lines(&mut object, header);
        }
        let content = match number(&object, header + KIND_OFFSET, 4) {
            NO_CONTENT => 0..0,
            _ => content(&object, header),
        };
        whole.resize(whole.len().next_multiple_of(CONTENT_ALIGNMENT), 0);
        put(&mut object, header + CONTENT_OFFSET, 8, whole.len());
        whole.extend_from_slice(&object[content]);
    }
    whole.resize(whole.len().next_multiple_of(CONTENT_ALIGNMENT), 0);
    let start = whole.len();
    whole.extend_from_slice(&object[sections..header(count)]);
    put(&mut whole, SECTIONS_OFFSET, 8, start);
    whole
}

/// Cuts off the lines, which come last: programs in Rust have no relocations.
fn remove_lines(object: &mut [u8], header: usize) {
    let start = content(object, header).start;
    let lines = number(object, start + LINES_START, 4);
    let relocations = number(object, start + RELOCATIONS_LENGTH, 4);
    assert_eq!(relocations, 0, "the object has relocations of types");
    put(object, start + LINES_LENGTH, 4, 0);
    put(object, start + RELOCATIONS_START, 4, lines);
    let length = number(object, start + EXT_HEADER_LENGTH, 4) + lines;
    put(object, header + LENGTH_OFFSET, 8, length);
}

/// Where the content of a section is.
fn content(object: &[u8], header: usize) -> Range<usize> {
    let start = number(object, header + CONTENT_OFFSET, 8);
    start..start + number(object, header + LENGTH_OFFSET, 8)
}

/// The unsigned number of `bytes` bytes at offset `at`.
fn number(object: &[u8], at: usize, bytes: usize) -> usize {
    let digits = object[at..at + bytes].iter();
    let add = |number: usize, digit: &u8| number << 8 | usize::from(*digit);
    if object[ENDIAN_OFFSET] == 1 {
        digits.rev().fold(0, add)
    } else {
        digits.fold(0, add)
    }
}

/// Writes that number.
fn put(object: &mut [u8], at: usize, bytes: usize, value: usize) {
    for digit in 0..bytes {
        let place = match object[ENDIAN_OFFSET] {
            1 => digit,
            _ => bytes - 1 - digit,
        };
        object[at + place] = (value >> (8 * digit)) as u8;
    }
}
