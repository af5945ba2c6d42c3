//! The tables of a part. Each is a file here that has its row, how rows come from the model, and how they go back to it.

use iotrace_model::{
    Model,
    history::Bounds,
    input::ProcessId,
    run::{Clock, Run},
};

use crate::{
    Error,
    columns::{Field, Row},
    directory::Directory,
    table::{GROUP_ROWS, part_properties as properties, read_table, write_table},
};

/// What is written in one part.
pub struct Part<'a> {
    pub model: &'a Model,
    pub run: &'a Run,
    /// Nanoseconds since the Unix epoch.
    pub interval: Bounds,
    /// Whether it is the last part.
    pub is_last: bool,
}

impl Part<'_> {
    /// What of the interval comes after its steps.
    fn rest(&self) -> Bounds {
        self.model.steps().rest(self.interval)
    }

    /// A process by its index.
    fn process(&self, index: u32) -> ProcessId {
        self.model.processes()[index as usize].id
    }
}

/// What a part is read into.
pub struct Restored<'a> {
    pub model: &'a mut Model,
    pub run: &'a mut Run,
    /// How often the service was restarted since the first recording of this node.
    pub restarts: u32,
    /// Minor version of the recording's format.
    pub minor: u32,
    /// The interval of the part, once a row has it: those of steps have it only for a part without other rows.
    pub interval: Option<Bounds>,
    /// The step that is being read.
    pub step: Option<Bounds>,
    /// Nanoseconds between two samples of CPU time; 0 if there were none.
    pub sampled_ns: u64,
}

impl Restored<'_> {
    /// Takes down the interval of a row of a table that has no steps.
    fn cover(&mut self, bounds: Bounds) {
        self.interval = Some(bounds);
    }

    /// Ends the step that is being read, and begins one with these bounds.
    fn begin_step(&mut self, bounds: Option<Bounds>) {
        if self.step != bounds {
            if let Some(step) = self.step {
                self.model.restore_step(step);
                self.interval.get_or_insert(step);
            }
            self.step = bounds;
        }
    }
}

/// A table of recordings, as the reference page has it.
#[derive(Debug)]
pub struct Description {
    /// Where the page has its columns.
    pub name: &'static str,
    /// In order: those of one value, and what it means.
    pub columns: Vec<(Vec<Field>, String)>,
}

impl Description {
    /// The table of a row.
    pub fn of<'a, R: Row<'a>>(name: &'static str) -> Self {
        Self {
            name,
            columns: R::columns(),
        }
    }
}

macro_rules! tables {
    ($($table:ident)+) => {
        $(mod $table;)+

        /// Writes all tables of a part.
        pub fn write(part: &Part<'_>, directory: &Directory) -> Result<(), Error> {
            $(write_table(directory, &part.run.clock, properties, GROUP_ROWS, $table::rows(part))?;)+
            Ok(())
        }

        /// Reads all tables of a part.
        pub fn read(
            directory: &std::path::Path,
            clock: &Clock,
            into: &mut Restored<'_>,
        ) -> Result<(), Error> {
            $(read_table::<$table::Row<'_>>(directory, into.minor, |store| {
                $table::restore($table::Row::load(store, clock)?, into)
            })?;)+
            into.begin_step(None);
            Ok(())
        }

        /// All tables.
        pub fn descriptions() -> Vec<Description> {
            vec![$(Description::of::<$table::Row<'_>>(stringify!($table))),+]
        }
    };
}

tables! {
    processes files errors phases spans cpu waits lines sources latencies merged missing devices transfers library ranges
}
