//! Recordings, and everything that is made of them: reports, pages, exports, answers to SQL.

#[path = "../common/mod.rs"]
mod common;

mod accessibility;
mod browser;
mod damaged_counters;
mod diff;
mod export;
mod export_jobs;
mod export_many;
mod export_trace;
mod golden;
mod html;
mod html_epochs;
mod html_tools;
mod html_trace;
mod lines;
mod mcp;
mod predictions;
mod recording;
mod report_jobs;
mod samples;
mod selection;
mod sql;
mod tensorboard;

/// Tests that share the machine at a time, at most: those that record load programs.
const MAX_SHARING: u32 = 2;
