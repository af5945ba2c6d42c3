//! Files by the kernel's structs: `identity`, `path` (their names), `phase`.

pub mod identity;
pub mod path;
pub mod phase;
