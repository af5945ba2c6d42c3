//! The objects as files: what they name, which version they speak, and how much stack they need.

mod stack;

use std::collections::BTreeSet;

use iotrace_common::{
    ABI_VERSION,
    abi::{globals, maps},
};
use iotrace_programs::{compat_510, current, nobtf};
use iotrace_tracer::kernel::{KernelError, hooks::HOOKS, load::check_abi};
use object::{Object as _, ObjectSymbol as _};

/// The names of an object.
fn symbols(object: &[u8]) -> BTreeSet<String> {
    let object = object::File::parse(object).unwrap();
    let names = object.symbols().filter_map(|symbol| symbol.name().ok());
    names.map(str::to_owned).collect()
}

#[test]
fn the_object_has_every_program_of_the_hooks() {
    let names = symbols(&current().unwrap());
    for (program, _) in HOOKS.iter().flat_map(|hook| hook.programs) {
        assert!(names.contains(*program), "{program}");
    }
}

/// Every name is in the object that has all, or in one of those that replace some of it.
#[test]
fn the_objects_have_all_names_of_the_tables() {
    let objects = [current(), compat_510(), nobtf()].map(|object| symbols(&object.unwrap()));
    for name in maps::names() {
        assert!(objects.iter().any(|object| object.contains(name)), "{name}");
    }
    for name in globals::NAMES {
        assert!(
            objects.iter().all(|object| object.contains(*name)),
            "{name}"
        );
    }
}

#[test]
fn the_object_speaks_this_version() {
    check_abi(&current().unwrap()).unwrap();
    check_abi(&compat_510().unwrap()).unwrap();
    check_abi(&nobtf().unwrap()).unwrap();
}

#[test]
fn another_version_is_refused() {
    let current = current().unwrap();
    let at = current
        .windows(8)
        .enumerate()
        .filter(|(_, bytes)| *bytes == ABI_VERSION.to_ne_bytes())
        .map(|(at, _)| at)
        .find(|at| {
            let mut copy = current.clone();
            copy[*at] ^= 1;
            matches!(check_abi(&copy), Err(KernelError::Abi { .. }))
        });
    assert!(at.is_some());
    assert!(matches!(check_abi(&[]), Err(KernelError::NoPrograms)));
}
