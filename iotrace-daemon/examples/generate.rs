//! Writes the manual pages and shell completions of `iotrace`, from the definition of its command line.
//!
//! `generate DIRECTORY`: pages go into `man` below it, completions into `completions`.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap_complete::Shell;
use clap_mangen::Man;

const NAME: &str = "iotrace";

/// What the definitions do not say, in roff(7).
const EXIT_STATUS: &str = "\
.SH EXIT STATUS
.TP
0
Success. With \\fBiotrace record \\-\\- COMMAND\\fR the exit status is the command's own, and 128 + N where signal N ended it.
.TP
77
A privilege or a kernel feature is missing; the message names it.
.TP
126, 127
The command to record cannot be run, or is not there.
.TP
1, 2
Any other error; a wrong command line.
";
const DAEMON: &str = "\
.SH FILES
.TP
/etc/iotrace/iotrace.toml
The configuration. The file that is shipped has every key, commented, with its default.
.SH SIGNALS
.TP
SIGHUP
Reads the configuration again, and names what takes effect at the next start only.
.TP
SIGTERM, SIGINT
Takes the hooks off and ends with status 0.
";

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.context("usage: generate DIRECTORY")?;
    let [man, completions] = ["man", "completions"].map(|name| directory.join(name));
    for directory in [&man, &completions] {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut command = iotrace_daemon::cli::command();
        clap_complete::generate_to(shell, &mut command, NAME, &completions)
            .with_context(|| format!("cannot write completions into {}", completions.display()))?;
    }
    let command = iotrace_daemon::cli::command().disable_help_subcommand(true);
    pages(command, NAME, &man)
        .with_context(|| format!("cannot write manual pages into {}", man.display()))
}

/// A page for a command, and one for each that it has: `iotrace-record` for `iotrace record`.
fn pages(mut command: clap::Command, name: &str, directory: &Path) -> io::Result<()> {
    command.build();
    for inner in command.get_subcommands() {
        let name = format!("{name}-{}", inner.get_name());
        pages(
            inner.clone().disable_help_subcommand(true),
            &name,
            directory,
        )?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let own = command
        .version(version)
        .bin_name(name.replace('-', " "))
        .display_name(name.to_owned());
    let mut file = File::create(directory.join(format!("{name}.1")))?;
    let page = Man::new(own).manual(NAME);
    page.source(format!("{NAME} {version}")).render(&mut file)?;
    match name {
        NAME => file.write_all(EXIT_STATUS.as_bytes()),
        "iotrace-daemon" => file.write_all(DAEMON.as_bytes()),
        _ => Ok(()),
    }
}
