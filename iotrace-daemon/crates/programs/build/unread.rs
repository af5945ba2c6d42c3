//! Takes out of an object what the loader does not read: DWARF, which is three quarters of it, as the kernel and the loader know
//! types and lines by BTF; and the relocations of BTF, whose offsets the loader takes as they are.

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

/// Empties the sections of DWARF, and the relocations of these and of BTF. What they held becomes zeros, which compress to
/// nothing.
pub(crate) fn remove(object: &mut [u8]) {
    let sections = number(object, SECTIONS_OFFSET, 8);
    let header = |index: usize| sections + index * SECTION_BYTES;
    let names = content(object, header(number(object, NAMES_INDEX, 2))).start;
    for index in 0..number(object, SECTION_COUNT, 2) {
        let name = names + number(object, header(index) + NAME_OFFSET, 4);
        let is_unread = [&b".debug_"[..], b".rel.debug_", b".rel.BTF"]
            .iter()
            .any(|prefix| object[name..].starts_with(prefix));
        if is_unread {
            let content = content(object, header(index));
            object[content].fill(0);
            // A section of no kind, which readers pass by.
            object[header(index) + KIND_OFFSET..][..4].fill(0);
            object[header(index) + LENGTH_OFFSET..][..8].fill(0);
        }
    }
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
