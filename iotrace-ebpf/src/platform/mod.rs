//! What differs between the objects, by one name each: the rest of the crate imports it from here.
//!
//! - `current`: kernels from 5.15 on; `compat_510`: those before
//! - `stubs`: what an object leaves out, where the common code calls it

#[cfg(feature = "compat_510")]
mod compat_510;
#[cfg(not(feature = "compat_510"))]
mod current;
#[cfg(feature = "compat_510")]
mod stubs;

#[cfg(feature = "compat_510")]
use compat_510 as kernel;
#[cfg(not(feature = "compat_510"))]
use current as kernel;

#[cfg(not(feature = "compat_510"))]
pub use current::Callback;
pub use kernel::{
    atomic::{add, claim, compare_exchange, fetch_add, next},
    task::{current, load_of, registers_of},
    threads,
};
#[cfg(not(feature = "nobtf"))]
pub use kernel::{repeat, task::untrusted};

#[cfg(not(feature = "compat_510"))]
pub use crate::features::{aio, lines, mappings, pages, uprobe, waits};
#[cfg(not(feature = "compat_510"))]
pub use current::task_storage::TaskStorage;
#[cfg(feature = "compat_510")]
pub use stubs::compat_510::{aio, lines, mappings, pages, uprobe, waits};

#[cfg(not(feature = "nobtf"))]
pub use crate::{
    features::{cpu, devices, negative_lookups},
    files::btf::{identity, path, phase},
    processes::btf::{owner, running},
};
#[cfg(feature = "nobtf")]
pub use crate::{
    files::nobtf::{identity, path},
    processes::nobtf::running,
};
#[cfg(feature = "nobtf")]
pub use stubs::nobtf::{cpu, devices, negative_lookups, owner, phase};
