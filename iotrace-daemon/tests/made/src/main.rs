//! `made DIRECTORY FILES`: makes a recording of a job that read FILES files, as [`iotrace_made::epochs`].

use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let directory = args.next().map(PathBuf::from);
    let files = args.next().and_then(|files| files.to_str()?.parse().ok());
    let (Some(directory), Some(files)) = (directory, files) else {
        eprintln!("usage: made DIRECTORY FILES");
        return ExitCode::FAILURE;
    };
    match iotrace_made::epochs(&directory, files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("made: {error}");
            ExitCode::FAILURE
        }
    }
}
