//! `job.json` in a log: which unit it is of.

use std::{io::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use crate::attribution::Kind;
use iotrace_model::regular_file;
use iotrace_recording::Directory;

/// Name of the file.
pub const FILE_NAME: &str = "job.json";

/// What a log says of its unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct About {
    /// As the label `unit` of the metrics has it.
    pub unit: String,
    pub kind: String,
    pub job: String,
    pub step: String,
    /// Who gets the log; `None`: root.
    pub user: Option<u32>,
    pub host: String,
    /// Program of the process with the most operations in an interval.
    pub executable: String,
    pub start_unix_ns: i64,
    pub duration_ns: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub operations: u64,
    /// Counts that were logged without their file, for want of room.
    pub merged: u64,
    /// Whether the log was ended; otherwise it is being written, or its service was killed.
    pub complete: bool,
    /// Whether it was ended because its unit had no process left.
    #[serde(default)]
    pub unit_ended: bool,
    /// The report's verdict; empty as long as the log has not been examined.
    #[serde(default)]
    pub verdict: String,
    /// Findings by code, the worst first.
    #[serde(default)]
    pub findings: Vec<Found>,
}

/// Whether `id`, as people write it, names this unit or its job: `4242`, `slurm:4242`.
pub fn is_named(id: &str, unit: &str, job: &str) -> bool {
    let number = unit.split_once(':').map(|(_, number)| number);
    unit == id || number == Some(id) || !job.is_empty() && job == id
}

/// A finding of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub code: String,
    /// `high`, `medium` or `low`, as reports write it.
    pub severity: String,
    pub confidence: String,
}

impl About {
    /// Whether a later log of the same name is of another start: services and sessions, unlike jobs, are started again under
    /// their name.
    pub fn is_last_of_start(&self) -> bool {
        let is_reused = [Kind::Systemd, Kind::User]
            .map(Kind::name)
            .contains(&&*self.kind);
        self.unit_ended && is_reused
    }

    /// Writes the file under another name, and renames it into its place.
    pub fn write(&self, directory: &Directory) -> std::io::Result<()> {
        const UNFINISHED: &str = "job.json.tmp";
        let written = directory.create(UNFINISHED).and_then(|mut file| {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            file.write_all(&text)?;
            file.sync_all()?;
            directory.rename(UNFINISHED, FILE_NAME)
        });
        if written.is_err() {
            let _ = directory.remove_file(UNFINISHED);
        }
        written
    }

    /// Reads that of a log; `None` where there is none, or where it is damaged.
    pub fn read(log: &Path) -> Option<Self> {
        let text = regular_file::read_text(&log.join(FILE_NAME)).ok()?;
        serde_json::from_str(&text).ok()
    }
}
