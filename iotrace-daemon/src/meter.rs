//! How far long work is: a line on a terminal's standard error, written over, and nothing elsewhere.

use std::{
    io::{self, IsTerminal as _, Write},
    time::{Duration, Instant},
};

use iotrace_report::units;

/// Columns of the bar.
const BAR: usize = 30;
/// What takes less is not worth a line, and a line is not worth more changes.
const PATIENCE: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(100);

/// The line.
pub struct Meter {
    on: bool,
    shown: bool,
    next: Instant,
}

impl Meter {
    /// Off where standard error is no terminal.
    pub fn new() -> Self {
        Self {
            on: io::stderr().is_terminal(),
            shown: false,
            next: Instant::now() + PATIENCE,
        }
    }

    /// Shows nothing any more.
    pub fn off(&mut self) {
        self.clear();
        self.on = false;
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
        if self.on && now >= self.next {
            self.next = now + BETWEEN;
            self.shown = true;
            // A terminal that is gone is no reason to stop.
            let _ = io::stderr().write_all(format!("\r\x1b[K{}", line()).as_bytes());
        }
    }

    /// Takes the line away.
    fn clear(&mut self) {
        if self.shown {
            let _ = io::stderr().write_all(b"\r\x1b[K");
            self.shown = false;
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
        self.clear();
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
