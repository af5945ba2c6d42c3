//! Datatypes of MPI: how many bytes one of them is.
//!
//! Where they are structs (Open MPI), the daemon has found the word that has the size. Where they are numbers (MPICH and its
//! kin), the size of a predefined one is part of the number, as their common binary interface has it; of the others the
//! library asks itself, by a public function that is probed, in each call that moves any. Writes no map.

use iotrace_common::{
    diag,
    library::{Function, bytes},
};

use crate::{
    core::{
        config::{FUNCTION_ARG0, REGS_ARG1},
        memory::{Address, load, probe_user},
    },
    features::uprobe::{Call, argument, diagnose},
};

/// Kind of a predefined datatype's number, and how far up it stands; the size is below, above the index.
const PREDEFINED: u32 = 0x4c;
const KIND_SHIFT: u32 = 24;
const SIZE_SHIFT: u32 = 8;
const SIZE_MASK: u32 = 0xff;

/// No address: the size is known.
const TOLD: u64 = 1;

/// Bytes of a call that succeeded, if it moves items of a datatype.
#[inline(always)]
pub fn moved(call: &Call, function: &Function, what: u8) -> u64 {
    let place = match what & !bytes::LARGE {
        bytes::DATATYPE => 2,
        bytes::DATATYPE_AT => 3,
        _ => return 0,
    };
    let count = argument(call, place);
    let count = if what & bytes::LARGE == 0 {
        count & 0xffff_ffff
    } else {
        count
    };
    if count == 0 {
        return 0;
    }
    let Some(size) = size(call, function, argument(call, place + 1)) else {
        diagnose(diag::UNSIZED);
        return 0;
    };
    count.wrapping_mul(size)
}

/// Size of one of the call's datatype.
#[inline(always)]
fn size(call: &Call, function: &Function, datatype: u64) -> Option<u64> {
    if function.size_word != 0 {
        return probe_user(datatype.wrapping_add(u64::from(function.size_word) * 8));
    }
    let number = datatype as u32;
    if number >> KIND_SHIFT == PREDEFINED {
        return Some(u64::from(number >> SIZE_SHIFT & SIZE_MASK));
    }
    (call.points == TOLD).then_some(call.elements[0])
}

/// A library has begun to ask for the size of a datatype: keeps where it will be, if it is that of the call in flight.
#[inline(always)]
pub fn asked(call: &mut Call, stack: u64, registers: Address) {
    if call.stack == 0 || stack >= call.stack || call.points == TOLD {
        return;
    }
    let place = match Function::of_cookie(call.function).bytes & !bytes::LARGE {
        bytes::DATATYPE => 3,
        bytes::DATATYPE_AT => 4,
        _ => return,
    };
    // SAFETY: the registers are those of the running task.
    let (datatype, pointer): (u64, u64) =
        unsafe { (load(registers, &FUNCTION_ARG0), load(registers, &REGS_ARG1)) };
    // Half of the register is not the number's where a number is an int.
    if datatype as u32 == argument(call, place) as u32 {
        call.points = pointer;
    }
}

/// The same has ended.
#[inline(always)]
pub fn told(call: &mut Call, what: u8) {
    if call.points <= TOLD {
        return;
    }
    let size = if what & bytes::LARGE == 0 {
        probe_user::<u32>(call.points).map(u64::from)
    } else {
        probe_user::<u64>(call.points)
    };
    if let Some(size) = size {
        call.elements[0] = size;
        call.points = TOLD;
    }
}
