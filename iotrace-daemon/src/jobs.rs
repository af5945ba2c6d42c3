//! `iotrace jobs`: the job logs that the service writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;

use super::{output::TextOrJson, remote, user::number_of};
use iotrace_model::run::rfc3339;
use iotrace_report::escape::escape;
use iotrace_service::{
    config::Config,
    jobs::{
        about::{About, Found, is_named},
        examine,
        keep::{self, Held},
        logs,
    },
    socket::protocol::{Answer, Ask, EndLog},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    choice: Choice,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the logs, the newest last.
    List,
    /// Print what is known of the logs of one job.
    Show(Named),
    /// Remove the logs of one job that are complete.
    Rm(Rm),
    /// Have the running service end the logs of one job now, and print where they are: for epilogs.
    End(End),
}

#[derive(Debug, clap::Args)]
struct Rm {
    #[command(flatten)]
    named: Named,
    /// Also those that are not complete, such as those of a service that was killed.
    #[arg(long)]
    unfinished: bool,
}

#[derive(Debug, clap::Args)]
struct End {
    #[command(flatten)]
    named: Named,
    /// The service's Unix socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// Number or unit of the job: `4242` or `slurm:4242`.
    id: String,
}

#[derive(Debug, clap::Args)]
struct Choice {
    /// Directory of the logs [default: that of the service's configuration]
    #[arg(long, value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
    /// Only jobs of this user, by number or name.
    #[arg(long, global = true)]
    user: Option<String>,
    /// Only jobs that began in this time, such as 2h or 7d.
    #[arg(long, value_name = "TIME", global = true, value_parser = humantime::parse_duration)]
    since: Option<Duration>,
    /// Only jobs with this finding, such as `small-files-at-random`.
    #[arg(long, global = true, value_name = "ID")]
    finding: Option<String>,
    /// Only jobs with a finding of this severity or a higher one.
    #[arg(long, global = true, value_enum)]
    severity: Option<Severity>,
    /// Print as text or as JSON.
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    format: TextOrJson,
}

/// How grave a finding is, as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Severity {
    Low,
    Medium,
    High,
}

/// One log.
struct Log {
    directory: PathBuf,
    about: About,
}

/// Runs `iotrace jobs`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let choice = &args.choice;
    if let Some(Action::End(end)) = &args.action {
        return self::end(end);
    }
    let mut all = read(choice.dir.as_deref())?;
    let read_count = all.len();
    if let Some(user) = &choice.user {
        let uid = number_of(user)?;
        all.retain(|log| log.about.user.unwrap_or(0) == uid);
    }
    if let Some(since) = choice.since {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let first = i64::try_from(now.saturating_sub(since).as_nanos())?;
        all.retain(|log| log.about.start_unix_ns >= first);
    }
    if let Some(code) = &choice.finding {
        let found = all.iter().flat_map(|log| &log.about.findings);
        let known: BTreeSet<&str> = found.map(|found| found.code.as_str()).collect();
        if !known.contains(code.as_str()) {
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            bail!("choose another finding: no job has {code}; there are: {known}");
        }
        all.retain(|log| log.about.findings.iter().any(|found| found.code == *code));
    }
    if let Some(least) = choice.severity {
        let is_grave = |found: &Found| {
            let severity = Severity::from_str(&found.severity, false);
            severity.is_ok_and(|severity| severity >= least)
        };
        all.retain(|log| log.about.findings.iter().any(is_grave));
    }
    match &args.action {
        // The end needs no list.
        None | Some(Action::List | Action::End(_)) => {
            print(&all, choice.format)?;
            if all.is_empty() {
                log::warn!("{}", why_none(read_count));
            }
        }
        Some(Action::Show(named)) => {
            all.retain(|log| is_of(&log.about, &named.id));
            some(&all, &named.id)?;
            print(&all, TextOrJson::Json)?;
        }
        Some(Action::Rm(Rm { named, unfinished })) => {
            all.retain(|log| is_of(&log.about, &named.id));
            some(&all, &named.id)?;
            let (complete, others): (Vec<_>, Vec<_>) = all
                .iter()
                .partition(|log| log.about.complete || *unfinished);
            for log in complete {
                remove(&log.directory)
                    .with_context(|| format!("cannot remove {}", log.directory.display()))?;
            }
            if !others.is_empty() {
                bail!(
                    "`iotrace jobs end` ends what the service still writes; --unfinished removes what a killed service left. Not \
                     complete, and not removed: {}",
                    directories(&others)
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the service end logs.
fn end(end: &End) -> anyhow::Result<ExitCode> {
    let socket = end.socket.clone().unwrap_or_else(remote::place);
    let job = end.named.id.clone();
    let mut reader = remote::ask(&socket, Ask::EndLog(EndLog { job }))?;
    let Answer::LogsEnded { directories } = remote::answer(&mut reader)? else {
        bail!("the service answers with something else");
    };
    let mut out = io::stdout().lock();
    for directory in directories {
        writeln!(out, "{}", escape(directory.as_os_str().as_encoded_bytes()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a log, and what is next to it. Where the user may not, since the directory of the day is root's, they are emptied; the
/// service removes them then.
fn remove(log: &Path) -> io::Result<()> {
    let held = Held::new(log)?;
    let log = held.path();
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    for path in examine::format_files(&log) {
        match fs::remove_file(&path) {
            Err(error) if denied(&error) => File::options()
                .write(true)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .and_then(|file| file.set_len(0))?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match fs::remove_dir_all(&log) {
        Err(error) if denied(&error) && fs::read_dir(&log)?.next().is_none() => Ok(()),
        done => done,
    }
}

/// Replaces `job:ID` by the logs of that job.
pub fn expand(named: Vec<PathBuf>, directory: Option<&Path>) -> anyhow::Result<Vec<PathBuf>> {
    let mut expanded = Vec::new();
    for path in named {
        let Some(id) = path.to_str().and_then(|path| path.strip_prefix("job:")) else {
            expanded.push(path);
            continue;
        };
        let mut all = read(directory)?;
        all.retain(|log| is_of(&log.about, id));
        some(&all, id)?;
        all.retain(|log| log.directory.join("meta.json").exists());
        if all.is_empty() {
            bail!(
                "the recording of job {id} was not kept: `formats` in [jobs] lacks \"recording\"; `iotrace jobs show {id}` has \
                 its sums, and other formats lie next to its directory"
            );
        }
        let mut by_host: BTreeMap<&str, Vec<&Log>> = BTreeMap::new();
        for log in &all {
            by_host.entry(&log.about.host).or_default().push(log);
        }
        for (host, logs) in by_host {
            expanded.extend(of_node(id, host, logs)?);
        }
    }
    Ok(expanded)
}

/// The logs of a job on one node, which go on with each other: a restart of the service, and each day, begins a new one. If they do
/// not, the longest. Of a service that was started again, those of its last start. Those of other users may be of anybody who
/// claims to be of the job.
fn of_node(id: &str, host: &str, mut all: Vec<&Log>) -> anyhow::Result<Vec<PathBuf>> {
    let users: BTreeSet<u32> = all.iter().filter_map(|log| log.about.user).collect();
    if users.len() > 1 {
        bail!(
            "choose the directory of one of the logs: job {id} has some of several users on {host}: {}",
            directories(&all)
        );
    }
    all.sort_by_key(|log| log.about.start_unix_ns);
    let mut before_last = all[..all.len() - 1].iter();
    if let Some(last) = before_last.rposition(|log| log.about.is_last_of_start()) {
        let earlier: Vec<&Log> = all.drain(..=last).collect();
        log::warn!(
            "{id} was started more than once on {host}: this is the report of its last start. Earlier ones: {}",
            directories(&earlier)
        );
    }
    let runs = all
        .iter()
        .map(|log| iotrace_recording::about(&log.directory));
    let runs: Vec<_> = runs.collect::<Result<_, _>>()?;
    if runs.windows(2).all(|pair| pair[0].0.may_go_on(&pair[1].0)) {
        return Ok(all.iter().map(|log| log.directory.clone()).collect());
    }
    let longest = all.iter().max_by_key(|log| log.about.duration_ns);
    let longest = longest.context("a node has a log")?;
    log::warn!(
        "job {id} has {} logs on {host}: this is the report of the longest, {}. All of them: {}",
        all.len(),
        longest.directory.display(),
        directories(&all)
    );
    Ok(vec![longest.directory.clone()])
}

/// Their directories, with users and lengths.
fn directories(logs: &[&Log]) -> String {
    let described = logs.iter().map(|log| {
        let user = log
            .about
            .user
            .map_or("root".into(), |user| format!("user {user}"));
        let seconds = log.about.duration_ns as f64 / 1e9;
        format!("{} ({user}, {seconds:.1} s)", log.directory.display())
    });
    described.collect::<Vec<_>>().join(", ")
}

fn some(logs: &[Log], id: &str) -> anyhow::Result<()> {
    if logs.is_empty() {
        bail!(
            "there is no log of job {id} that can be read: `iotrace jobs` lists those that there are"
        );
    }
    Ok(())
}

fn is_of(about: &About, id: &str) -> bool {
    is_named(id, &about.unit, &about.job)
}

/// All logs that this user can read, the oldest first.
fn read(directory: Option<&Path>) -> anyhow::Result<Vec<Log>> {
    let configured;
    let directory = match directory {
        Some(directory) => directory,
        None => {
            configured = Config::read(None)?.0.jobs.directory.context(
                "no directory of job logs is configured: name it with --dir, or set `directory` under [jobs]",
            )?;
            &configured
        }
    };
    fs::read_dir(directory)
        .with_context(|| format!("cannot read the logs in {}", directory.display()))?;
    let found = logs(directory).into_iter().filter_map(|log| {
        let about = keep::about(directory, &log)?;
        Some(Log {
            directory: log,
            about,
        })
    });
    let mut all: Vec<Log> = found.collect();
    all.sort_by(|a, b| {
        let key = |log: &Log| (log.about.start_unix_ns, log.directory.clone());
        key(a).cmp(&key(b))
    });
    Ok(all)
}

/// Why no log is listed. `read_count`: how many this user can read.
fn why_none(read_count: usize) -> String {
    match read_count {
        0 => "there are no job logs that this user can read: a job's log appears a few seconds after its start; users read \
              their own, root reads all"
            .into(),
        count => format!("the options choose none of the {count} job logs that this user can read"),
    }
}

fn print(logs: &[Log], format: TextOrJson) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if format == TextOrJson::Json {
        let mut values = Vec::new();
        for log in logs {
            let mut value = serde_json::to_value(&log.about)?;
            value["directory"] = log.directory.to_string_lossy().into();
            values.push(value);
        }
        serde_json::to_writer_pretty(&mut out, &values)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(
        out,
        "{:20} {:>10} {:>6} {:16} {:24} {:>15} {:>15} {:16} {:32} DIRECTORY",
        "START",
        "SECONDS",
        "USER",
        "EXECUTABLE",
        "UNIT",
        "BYTES READ",
        "BYTES WRITTEN",
        "VERDICT",
        "WORST FINDING"
    )?;
    for log in logs {
        let about = &log.about;
        let start = rfc3339(about.start_unix_ns);
        let worst = about.findings.first();
        let worst = worst.map_or(String::new(), |found| {
            format!("{} ({})", found.code, found.severity)
        });
        let executable = about.executable.rsplit('/').next().unwrap_or_default();
        writeln!(
            out,
            "{:20} {:>10.1} {:>6} {:16} {:24} {:>15} {:>15} {:16} {:32} {}",
            start.get(..19).unwrap_or(&start),
            about.duration_ns as f64 / 1e9,
            about.user.unwrap_or(0),
            escape(executable.as_bytes()),
            escape(about.unit.as_bytes()),
            about.bytes_read,
            about.bytes_written,
            escape(or_dash(&about.verdict).as_bytes()),
            escape(or_dash(&worst).as_bytes()),
            escape(log.directory.as_os_str().as_encoded_bytes())
        )?;
    }
    Ok(())
}

fn or_dash(text: &str) -> &str {
    match text {
        "" => "-",
        text => text,
    }
}
