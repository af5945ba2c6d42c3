//! The gate table: which system call number is which call, by name and for the machine's own kind.

use std::str::FromStr as _;

use iotrace_common::{
    limits::SYSCALLS,
    op::{self, Call},
};

/// A traced system call of this machine.
pub struct Traced {
    pub name: &'static str,
    pub number: usize,
    pub call: Call,
}

/// The traced system calls that this machine has.
pub fn traced() -> impl Iterator<Item = Traced> {
    op::SYSCALLS.iter().filter_map(|(name, shape)| {
        let number = syscalls::Sysno::from_str(name).ok()? as usize;
        Some(Traced {
            name,
            number,
            call: op::call(*shape),
        })
    })
}

/// The gate table of native calls.
pub fn native_table() -> [Call; SYSCALLS] {
    let mut table = [Call::default(); SYSCALLS];
    for traced in traced() {
        if let Some(entry) = table.get_mut(traced.number) {
            *entry = traced.call;
        }
    }
    table
}

/// Which numbers of the 32-bit interface are calls that would be traced.
pub fn compat_table() -> [u8; SYSCALLS] {
    let mut table = [0; SYSCALLS];
    for (name, _) in op::SYSCALLS {
        if let Some(entry) = compat_number(name).and_then(|number| table.get_mut(number)) {
            *entry = 1;
        }
    }
    table
}

#[cfg(target_arch = "x86_64")]
fn compat_number(name: &str) -> Option<usize> {
    syscalls::x86::Sysno::from_str(name)
        .ok()
        .map(|number| number as usize)
}

#[cfg(target_arch = "aarch64")]
fn compat_number(name: &str) -> Option<usize> {
    syscalls::arm::Sysno::from_str(name)
        .ok()
        .map(|number| number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_by_name() {
        let table = native_table();
        assert_eq!(table[libc::SYS_read as usize].op as usize, op::READ);
        assert_eq!(table[libc::SYS_pwritev2 as usize].op as usize, op::WRITE);
        assert_eq!(table[libc::SYS_renameat2 as usize].op as usize, op::RENAME);
        assert_eq!(table[libc::SYS_getppid as usize], Call::default());
    }

    #[test]
    fn every_native_call_of_the_list_fits_the_table() {
        for traced in traced() {
            assert!(
                traced.number < SYSCALLS,
                "{} is {}",
                traced.name,
                traced.number
            );
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_32_bit_table_is_another_one() {
        // open is 5 there; 5 is fstat here.
        assert_eq!(compat_table()[5], 1);
        // mkdir is 39 there; 39 is getpid here.
        assert_eq!(compat_table()[39], 1);
        assert_eq!(native_table()[39], Call::default());
    }
}
