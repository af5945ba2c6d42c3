//! The newest recording in the current directory: what `report` and `export` take where none is named.

use std::{fs, io, path::PathBuf};

use anyhow::{Context as _, bail};

/// The recordings that are named, or the newest one here.
pub fn or_newest(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let Some(newest) = newest().context("the current directory cannot be read")? else {
        bail!(
            "name a recording, or make one with `iotrace record -- PROGRAM`: there is none in the current directory"
        );
    };
    log::info!("the newest recording here is {}", newest.display());
    Ok(vec![newest])
}

/// The recording here that was written last.
fn newest() -> io::Result<Option<PathBuf>> {
    let written = fs::read_dir(".")?.filter_map(|entry| {
        let path = PathBuf::from(entry.ok()?.file_name());
        let meta = fs::symlink_metadata(path.join(iotrace_recording::META)).ok()?;
        Some((meta.modified().ok()?, path))
    });
    Ok(written.max().map(|(_, path)| path))
}
