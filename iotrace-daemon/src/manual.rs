//! `iotrace man` and `iotrace completions`: manual pages and shell completions, from the definition of the command line.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap_complete::Shell;
use clap_mangen::Man;

const NAME: &str = "iotrace";

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write the pages of all commands to this directory, which is created if it is missing.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// The command whose page to print, e.g. `record` [default: iotrace itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

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
124
With \\fBiotrace record \\-\\-duration\\fR, the time was over before the command ended.
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

/// Runs `iotrace completions`.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), NAME, &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `iotrace man`.
pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let command = super::command().disable_help_subcommand(true);
    if let Some(directory) = &args.dir {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let mut create = |name: &str| File::create(directory.join(format!("{name}.1")));
        pages(command, NAME, &mut create)
            .with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut named, mut name) = (command, NAME.to_owned());
    for word in &args.command {
        named.build();
        let inner = named.find_subcommand(word).cloned();
        named = inner
            .with_context(|| {
                format!("`iotrace --help` lists the commands: {name} has no {word:?}")
            })?
            .disable_help_subcommand(true);
        name = format!("{name}-{word}");
    }
    page(named, &name, &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// A page for a command, and one for each that it has: `iotrace-record` for `iotrace record`.
fn pages(
    mut command: clap::Command,
    name: &str,
    create: &mut impl FnMut(&str) -> io::Result<File>,
) -> io::Result<()> {
    command.build();
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        let name = format!("{name}-{}", inner.get_name());
        pages(inner.clone().disable_help_subcommand(true), &name, create)?;
    }
    page(command, name, &mut create(name)?)
}

/// The page of one command.
fn page(mut command: clap::Command, name: &str, out: &mut impl Write) -> io::Result<()> {
    command.build();
    let version = env!("CARGO_PKG_VERSION");
    let own = command
        .version(version)
        .bin_name(name.replace('-', " "))
        .display_name(name.to_owned());
    let page = Man::new(own).manual(NAME);
    let mut text = Vec::new();
    page.source(format!("{NAME} {version}")).render(&mut text)?;
    match name {
        NAME => text.extend_from_slice(EXIT_STATUS.as_bytes()),
        "iotrace-daemon" => text.extend_from_slice(DAEMON.as_bytes()),
        _ => {}
    }
    out.write_all(&text)
}
