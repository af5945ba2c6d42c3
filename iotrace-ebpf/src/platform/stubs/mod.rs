//! What an object leaves out, where the common code calls it: nothing happens.

pub mod compat_510;
#[cfg(feature = "nobtf")]
pub mod nobtf;
