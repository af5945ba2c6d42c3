//! How far long work is, on the line of its state.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use super::status_line::StatusLine;
use iotrace_report::units;

/// Columns of the bar.
const BAR: usize = 30;
/// What takes less is not worth a line, and a line is not worth more changes.
const PATIENCE: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(100);

/// The line, by how much is done.
pub struct Meter {
    line: StatusLine,
    next: Instant,
}

impl Meter {
    /// As [`StatusLine::new`].
    pub fn new() -> Self {
        Self {
            line: StatusLine::new(),
            next: Instant::now() + PATIENCE,
        }
    }

    /// Shows nothing any more.
    pub fn off(&mut self) {
        self.line.off();
    }

    /// So many of so many are done.
    pub fn part(&mut self, what: &str, done: usize, whole: usize) {
        let done_of_bar = (done * BAR).checked_div(whole).unwrap_or(BAR).min(BAR);
        self.show(|| {
            let bar = ["#".repeat(done_of_bar), "-".repeat(BAR - done_of_bar)].concat();
            format!("{what} [{bar}] {done} of {whole}")
        });
    }

    /// So many bytes are done, of nobody knows how many.
    pub fn bytes(&mut self, what: &str, done: u64) {
        self.show(|| format!("{what} {}", units::bytes(done)));
    }

    fn show(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + BETWEEN;
            self.line.show(line);
        }
    }

    /// A writer that shows how much went through it.
    pub fn over<'a, W: Write + 'a>(&'a mut self, what: &'a str, out: W) -> impl Write + 'a {
        Metered {
            meter: self,
            what,
            out,
            done: 0,
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.line.clear();
    }
}

struct Metered<'a, W> {
    meter: &'a mut Meter,
    what: &'a str,
    out: W,
    done: u64,
}

impl<W: Write> Write for Metered<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.done += written as u64;
        self.meter.bytes(self.what, self.done);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
