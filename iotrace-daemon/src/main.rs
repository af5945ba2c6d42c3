//! The `iotrace` binary: subcommands, logging, exit codes.
//!
//! Reports go to standard output, everything else to standard error. A closed pipe is no error.

mod check;
mod child;
mod config;
mod daemon;
mod diff;
#[cfg(test)]
mod documented;
mod ending;
mod examine;
mod export;
mod interrupt;
mod jobs;
mod lines;
mod links;
mod live;
mod manual;
mod mcp;
mod meter;
mod newest;
mod operations;
mod output;
mod phases;
mod quote;
mod record;
mod remote;
mod report;
mod session;
mod sizes;
mod snapshot;
mod source;
mod stage;
mod status_line;
mod ticks;
mod times;
mod top;
mod trace;
mod user;
mod whatif;

use std::{io, process::ExitCode};

use clap::{ArgAction, CommandFactory as _, Parser, Subcommand};
use iotrace_recording::memory;

use iotrace_service::{
    front, jobs as logs,
    socket::protocol::{Code, Refusal},
};
use iotrace_tracer::kernel::{KernelError, Programs, error::chain};

/// The kernel programs in this binary.
#[cfg(feature = "programs")]
const PROGRAMS: Programs = Programs {
    current: iotrace_programs::current,
    compat_510: iotrace_programs::compat_510,
    nobtf: iotrace_programs::nobtf,
};
#[cfg(not(feature = "programs"))]
const PROGRAMS: Programs = Programs {
    current: || Ok(Vec::new()),
    compat_510: || Ok(Vec::new()),
    nobtf: || Ok(Vec::new()),
};

/// I/O tracing for deep-learning nodes, from the kernel, with no change to the job.
#[derive(Debug, Parser)]
#[command(name = "iotrace", version = env!("IOTRACE_VERSION"), max_term_width = 100)]
struct Cli {
    /// Say more on standard error; twice: the kernel programs' own messages, too.
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Trace a program, running processes or the whole system, and report what it did.
    Record(Box<record::Args>),
    /// Trace the whole system for as long as it runs, and export metrics by job.
    Daemon(Box<daemon::Args>),
    /// Show live processes and files by phase, in the terminal, and record the selected process.
    Top(top::Args),
    /// Print what a process has done until now, from the running service.
    Snapshot(snapshot::Args),
    /// Print the report of a recording.
    Report(report::Args),
    /// List the job logs of the service, show, end and remove them.
    Jobs(jobs::Args),
    /// Compare two recordings, before and after a change.
    Diff(diff::Args),
    /// Predict how long a recorded run takes with other storage, CPUs or workers.
    Whatif(whatif::Args),
    /// Write a recording in the format of another tool: Darshan, trace viewers, TensorBoard, tables.
    Export(export::Args),
    /// Answer an assistant's questions about recordings, by the Model Context Protocol.
    Mcp(mcp::Args),
    /// List, explain and check the rules that sort files into phases.
    Phases(phases::Args),
    /// Say whether this host can run iotrace, and what is missing.
    Check(check::Args),
    /// Print shell completions: `iotrace completions bash > /etc/bash_completion.d/iotrace`.
    Completions(manual::CompletionsArgs),
    /// Print a manual page: `iotrace man record | man -l -`.
    Man(manual::ManArgs),
    /// Serve HTTP and users without privileges, for `iotrace daemon`, which starts it.
    #[command(hide = true, name = front::COMMAND)]
    Front,
    /// Examine a job log that has ended, for `iotrace daemon`.
    #[command(hide = true, name = logs::examine::COMMAND)]
    Examine(examine::Args),
}

/// The definition of the command line, for manual pages and completions.
fn command() -> clap::Command {
    Cli::command()
}

/// Runs iotrace with the arguments of this process.
fn main() -> ExitCode {
    memory::configure();
    interrupt::fail_at_file_limit();
    let cli = Cli::try_parse().unwrap_or_else(|error| hinted(error).exit());
    start_log(cli.verbose);
    let result = match cli.command {
        Command::Record(args) => record::run(*args, cli.verbose),
        Command::Daemon(args) => daemon::run(&args, cli.verbose),
        Command::Top(args) => top::run(&args),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Whatif(args) => whatif::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Phases(args) => phases::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
        Command::Examine(args) => examine::run(&args),
        Command::Front => front::process::run()
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            tell(&error);
            if closed_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            exit_code(&error)
        }
    }
}

/// The error of a wrong command line; of a program that is named without `--` before it, with the line that works.
fn hinted(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(named)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let mut given = std::env::args_os();
    let Some(at) = given.position(|word| word == **named) else {
        return error;
    };
    let words = words();
    if words.get(1).is_none_or(|word| word != "record") {
        return error;
    }
    if error.kind() == ErrorKind::UnknownArgument && !named.starts_with('-') {
        let (own, program) = words.split_at(at);
        let tip = format!(
            "put `--` before the program: {} -- {}",
            own.join(" "),
            program.join(" ")
        );
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

/// The words of the command line as a shell takes them, for messages.
fn words() -> Vec<String> {
    std::env::args_os()
        .map(|word| report::quoted(&word))
        .collect()
}

/// Says an error, unless it is that nobody reads any more.
fn tell(error: &anyhow::Error) {
    if !closed_pipe(error) {
        eprintln!("iotrace: {}", harmless(&chain(error.as_ref())));
    }
}

/// The text without what would control a terminal: an error may quote a file that anybody wrote.
fn harmless(text: &str) -> String {
    let escape = |c: char| match c {
        '\n' => c.to_string(),
        _ if c.is_control() => c.escape_default().to_string(),
        _ => c.to_string(),
    };
    text.chars().map(escape).collect()
}

fn start_log(verbose: u8) {
    let level = match verbose {
        0 => log::LevelFilter::Warn,
        1 => log::LevelFilter::Info,
        _ => log::LevelFilter::Debug,
    };
    env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format_target(false)
        .init();
}

/// Exit code of an error: 77 where a privilege or a kernel feature is missing, 127 and 126 as a shell's for a command
/// that is not there or cannot run, 1 for all else.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<KernelError>() {
        return ExitCode::from(error.exit_code());
    }
    if let Some(refusal) = error.downcast_ref::<Refusal>()
        && refusal.code == Code::Denied
    {
        return ExitCode::from(77);
    }
    if let Some(error) = error.downcast_ref::<child::NotStarted>() {
        return ExitCode::from(error.exit_code());
    }
    ExitCode::FAILURE
}

fn closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::documented;
    use clap::Command;

    /// Options in the documentation that are those of other programs.
    const OPTIONS_OF_OTHERS: [&str; 4] = ["check", "kernel", "self-check", "write-docs"];

    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn every_command_line_in_the_documentation_is_one() {
        let (faults, count) = documented::faults(&["iotrace"], &super::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(count > 100, "{count} command lines");
    }

    #[test]
    fn every_option_in_the_documentation_is_one() {
        let has = |command: &Command, name: &str| {
            let long = command.get_arguments().filter_map(|one| one.get_long());
            long.into_iter().any(|long| long == name) || name == "help"
        };
        let command = super::command();
        let mut commands = vec![&command];
        let mut at = 0;
        while let Some(next) = commands.get(at).copied() {
            commands.extend(next.get_subcommands());
            at += 1;
        }
        let code = documented::code().into_iter().filter(|code| !code.is_line);
        let mut count = 0;
        for documented::Code { page, text, .. } in code {
            let Some(option) = text.strip_prefix("--") else {
                continue;
            };
            let name = option.split([' ', '=']).next().unwrap_or_default();
            // `--` alone ends the options.
            if name.is_empty() {
                continue;
            }
            count += 1;
            let is_known = commands.iter().any(|one| has(one, name));
            assert!(
                is_known || OPTIONS_OF_OTHERS.contains(&name),
                "{}: no command has --{name}",
                page.display()
            );
        }
        assert!(count > 100, "{count} options");
    }
}
