//! The command line: what it runs, says and refuses, its reports and its pages.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod check;
mod cli;
mod full_disk;
mod hostile_rules;
mod output;
mod pages;
mod report_phases;
mod terminal;

/// Tests that share the machine at a time, at most: those that record load programs.
const MAX_SHARING: u32 = 2;
