//! The progress line: on a terminal's standard error, once a second, how much was seen so far.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use iotrace_model::Model;
use iotrace_report::units;

/// A line that is written over.
pub struct Progress {
    shown: bool,
    on: bool,
}

impl Progress {
    /// Off where standard error is no terminal.
    pub fn new() -> Self {
        Self {
            shown: false,
            on: io::stderr().is_terminal(),
        }
    }

    /// Shows the state after `elapsed`.
    pub fn show(&mut self, elapsed: Duration, model: &Model) {
        if !self.on {
            return;
        }
        let tally = model.io_totals();
        let seconds = elapsed.as_secs();
        let line = format!(
            "\r\x1b[K{:02}:{:02}:{:02}  {} operations  {} files  {} read  {} written",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            tally.operations,
            model.file_count(),
            units::bytes(tally.bytes_read),
            units::bytes(tally.bytes_written),
        );
        self.shown = true;
        // A terminal that is gone is no reason to stop.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.shown {
            let _ = io::stderr().write_all(b"\r\x1b[K");
            self.shown = false;
        }
    }
}
