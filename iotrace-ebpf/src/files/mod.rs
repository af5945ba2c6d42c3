//! Which file a call is on.
//!
//! - `btf`: by the kernel's structs: its identity, name and phase
//! - `nobtf`: without type information a descriptor's handle, by following descriptors; user space finds the file

#[cfg(not(feature = "nobtf"))]
pub mod btf;
#[cfg(feature = "nobtf")]
pub mod nobtf;
