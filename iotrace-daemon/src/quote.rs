//! Predictions in the findings of a report of one recording.

use std::path::PathBuf;

use iotrace_recording::timeline;
use iotrace_report::Report;

/// Has findings quote predictions if the report is of one recording, whose timeline is read if they do. A timeline that cannot
/// be read leaves the report as it is.
pub fn quote(report: &mut Report<'_>, recordings: &[PathBuf]) {
    if let [recording] = recordings
        && let Err(error) = report.quote(|| timeline::read(recording))
    {
        log::warn!("the findings have no predictions: {error}");
    }
}
