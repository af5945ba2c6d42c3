//! `made DIRECTORY FILES EPOCHS`: makes a recording of a job that read FILES files in each of EPOCHS epochs, as
//! [`iotrace_made::epochs`].

use std::{path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let directory = args.next().map(PathBuf::from);
    let mut number = || args.next()?.to_str()?.parse().ok();
    let (Some(directory), Some(files), Some(epochs)) = (directory, number(), number()) else {
        eprintln!("usage: made DIRECTORY FILES EPOCHS");
        return ExitCode::FAILURE;
    };
    match iotrace_made::epochs(&directory, files, epochs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("made: {error}");
            ExitCode::FAILURE
        }
    }
}
