//! Tests of the rules, their table, and what they say of paths as frameworks make them.

mod context;
mod copies;
mod frameworks;
mod table;
