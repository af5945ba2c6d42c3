//! Who called whom, from the top of a stack: by the tables that compilers write for exceptions (`.eh_frame` of the System V ABI).

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, ParsedEhFrameHdr,
    Register, RegisterRule, UnwindContext, UnwindSection as _,
};
use iotrace_common::lines::REGISTERS;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, read::ReadCache};
use std::fs::File;

/// Largest table of a file that is read, bytes.
const MAX_TABLE_BYTES: u64 = 64 << 20;
/// Most calls of a stack that are followed.
const MAX_CALLS: usize = 128;
/// The DWARF numbers of registers on these machines are smaller.
const DWARF_NUMBERS: usize = 32;

/// Places in `struct pt_regs`, by word: the next instruction, the top of the stack, and each register that a function saves for
/// its caller, with its DWARF number.
#[cfg(target_arch = "x86_64")]
mod machine {
    pub const INSTRUCTION: usize = 16;
    pub const STACK_TOP: usize = 19;
    pub const SAVED_REGISTERS: [(usize, u16); 6] =
        [(5, 3), (4, 6), (3, 12), (2, 13), (1, 14), (0, 15)];
    pub const DWARF_TOP: u16 = 7;
    pub const DWARF_RETURN: u16 = 16;
}
#[cfg(target_arch = "aarch64")]
mod machine {
    pub const INSTRUCTION: usize = 32;
    pub const STACK_TOP: usize = 31;
    pub const SAVED_REGISTERS: [(usize, u16); 12] = [
        (19, 19),
        (20, 20),
        (21, 21),
        (22, 22),
        (23, 23),
        (24, 24),
        (25, 25),
        (26, 26),
        (27, 27),
        (28, 28),
        (29, 29),
        (30, 30),
    ];
    pub const DWARF_TOP: u16 = 31;
    pub const DWARF_RETURN: u16 = 30;
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What a file says of its functions' frames.
#[derive(Debug, Default)]
pub struct Tables {
    /// Of what is loaded: where it begins in the file, its bytes, and its address.
    loaded: Vec<[u64; 3]>,
    header: Section,
    frames: Section,
    /// Whether it has the lines of its functions.
    has_lines: bool,
}

#[derive(Debug, Default)]
struct Section {
    address: u64,
    bytes: Vec<u8>,
}

impl Tables {
    /// Reads an ELF file. The stack of a function in a file without these tables is not followed.
    pub fn read(file: &File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).ok()?;
        let loaded = elf.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            [offset, bytes, segment.address()]
        });
        let section = |name| {
            let section = elf.section_by_name(name)?;
            if section.size() > MAX_TABLE_BYTES {
                return None;
            }
            Some(Section {
                address: section.address(),
                bytes: section.data().ok()?.to_vec(),
            })
        };
        Some(Self {
            loaded: loaded.collect(),
            header: section(".eh_frame_hdr").unwrap_or_default(),
            frames: section(".eh_frame").unwrap_or_default(),
            has_lines: elf.section_by_name(".debug_line").is_some(),
        })
    }

    pub fn has_lines(&self) -> bool {
        self.has_lines
    }

    /// The virtual address at which the file itself places this offset.
    fn address(&self, at: u64) -> Option<u64> {
        let mut loaded = self.loaded.iter();
        let found = loaded.find(|[offset, bytes, _]| (*offset..offset + bytes).contains(&at));
        found.map(|[offset, _, address]| address.wrapping_add(at - offset))
    }

    /// The caller of a function that is at this address: `Some(None)` if it is the outermost one, `None` if that is not known.
    fn caller(
        &self,
        at: u64,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Option<Option<Registers>> {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(self.header.address)
            .set_eh_frame(self.frames.address);
        let frames = EhFrame::new(&self.frames.bytes, LittleEndian);
        let header = EhFrameHdr::new(&self.header.bytes, LittleEndian);
        let header: Option<ParsedEhFrameHdr<Slice<'_>>> = header.parse(&bases, 8).ok();
        let mut context = UnwindContext::new();
        let row = match header.as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(table) => table.unwind_info_for_address(
                &frames,
                &bases,
                &mut context,
                at,
                EhFrame::cie_from_offset,
            ),
            None => {
                frames.unwind_info_for_address(&bases, &mut context, at, EhFrame::cie_from_offset)
            }
        };
        let row = row.ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else {
            return None;
        };
        let frame = registers.of(*register)?.wrapping_add_signed(*offset);
        let to = Register(machine::DWARF_RETURN);
        if row.register(to) == Some(RegisterRule::Undefined) {
            return Some(None);
        }
        let mut caller = *registers;
        caller.set(Register(machine::DWARF_TOP), Some(frame));
        for number in 0..DWARF_NUMBERS as u16 {
            let register = Register(number);
            let value = match row.register(register) {
                None | Some(RegisterRule::SameValue) => continue,
                Some(RegisterRule::Offset(offset)) => stack.word(frame.wrapping_add_signed(offset)),
                Some(RegisterRule::ValOffset(offset)) => Some(frame.wrapping_add_signed(offset)),
                Some(RegisterRule::Register(other)) => registers.of(other),
                Some(_) => None,
            };
            caller.set(register, value);
        }
        caller.instruction = caller.of(to)?;
        Some(Some(caller))
    }
}

/// Registers of a function, as far as they are known.
#[derive(Clone, Copy, Debug)]
struct Registers {
    instruction: u64,
    values: [Option<u64>; DWARF_NUMBERS],
}

impl Registers {
    /// Of a thread in a system call.
    fn new(words: &[u64; REGISTERS]) -> Self {
        let mut registers = Self {
            instruction: words[machine::INSTRUCTION],
            values: [None; DWARF_NUMBERS],
        };
        for (word, number) in machine::SAVED_REGISTERS {
            registers.set(Register(number), Some(words[word]));
        }
        registers.set(
            Register(machine::DWARF_TOP),
            Some(words[machine::STACK_TOP]),
        );
        registers
    }

    fn of(&self, register: Register) -> Option<u64> {
        *self.values.get(usize::from(register.0))?
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(to) = self.values.get_mut(usize::from(register.0)) {
            *to = value;
        }
    }
}

/// The top of a stack.
#[derive(Debug)]
struct Stack<'a> {
    from: u64,
    bytes: &'a [u8],
}

impl Stack<'_> {
    fn word(&self, at: u64) -> Option<u64> {
        let begin = usize::try_from(at.checked_sub(self.from)?).ok()?;
        let bytes = self.bytes.get(begin..begin.checked_add(8)?)?;
        bytes.try_into().map(u64::from_le_bytes).ok()
    }
}

/// Follows the calls of a stack outwards from the system call: hands `each` the address in each function, until that returns
/// `None`, or tables and offset in their file of what is mapped at the address. Whether the outermost function was reached.
pub fn follow<'a>(
    words: &[u64; REGISTERS],
    bytes: &[u8],
    mut each: impl FnMut(u64) -> Option<(&'a Tables, u64)>,
) -> bool {
    let stack = Stack {
        from: words[machine::STACK_TOP],
        bytes,
    };
    let mut registers = Registers::new(words);
    for _ in 0..MAX_CALLS {
        // What comes next may be behind the end of the function.
        let Some(at) = registers.instruction.checked_sub(1) else {
            return true;
        };
        let Some((tables, offset)) = each(at) else {
            return false;
        };
        let caller = tables
            .address(offset)
            .and_then(|address| tables.caller(address, &registers, &stack));
        let caller = match caller {
            Some(Some(caller)) => caller,
            Some(None) => return true,
            None => return false,
        };
        // Each caller's frame is further out.
        let top = |registers: &Registers| registers.of(Register(machine::DWARF_TOP));
        if top(&caller) <= top(&registers) && caller.instruction == registers.instruction {
            return false;
        }
        registers = caller;
    }
    false
}
