//! The `iotrace` binary: arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    iotrace_daemon::cli::main()
}
