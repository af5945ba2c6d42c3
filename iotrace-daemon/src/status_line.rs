//! A line on a terminal's standard error that is written over, and nothing elsewhere.

use std::io::{self, IsTerminal as _, Write as _};

use super::output::{is_dumb, terminal_columns};

/// Goes to the start of the line and empties it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The line.
pub struct StatusLine {
    is_on: bool,
    is_shown: bool,
}

impl StatusLine {
    /// Off where standard error is no terminal, or one that cannot empty a line.
    pub fn new() -> Self {
        Self {
            is_on: io::stderr().is_terminal() && !is_dumb(),
            is_shown: false,
        }
    }

    /// Shows nothing any more.
    pub fn off(&mut self) {
        self.clear();
        self.is_on = false;
    }

    /// Shows as much of an ASCII text as the terminal has columns for: a line that wraps cannot be written over.
    pub fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.is_on {
            return;
        }
        let mut text = text();
        if let Some(columns) = terminal_columns(&io::stderr()) {
            text.truncate(columns.saturating_sub(1));
        }
        self.is_shown = true;
        // A terminal that is gone is no reason to stop.
        let _ = io::stderr().write_all([CLEAR_LINE, &text].concat().as_bytes());
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.is_shown {
            let _ = io::stderr().write_all(CLEAR_LINE.as_bytes());
            self.is_shown = false;
        }
    }
}
