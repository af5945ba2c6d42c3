//! `iotrace snapshot`: what a process has done until now, from the running service, or what it does from now on.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use super::{config::Sorting, live, output, output::TextOrJson, remote};
use iotrace_model::host;
use iotrace_model::{IoTotals, Model, run::Clock};
use iotrace_report::{escape, units};
use iotrace_service::{
    snapshot::Snapshot,
    socket::protocol::{Answer, Ask, Snapshot as Request},
};
use iotrace_tracer::drain::collector::Taken;
use iotrace_tracer::in_flight;

/// Between two looks whether the process is there.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process; its descendants count with it.
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: u32,
    /// As text or JSON.
    #[arg(short, long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
    /// Print the difference to the snapshot in this file, if it exists, then overwrite it.
    #[arg(long, value_name = "FILE")]
    since_last: Option<PathBuf>,
    /// Count for this time from now on instead, e.g. 10s: needs no service where iotrace may trace by itself.
    #[arg(long = "for", value_name = "TIME", value_parser = crate::times::parse_time, conflicts_with = "since_last")]
    time: Option<Duration>,
    /// The service's Unix socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs `iotrace snapshot`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shown = match args.time {
        Some(time) => from_now_on(args, time)?,
        None => until_now(args)?,
    };
    let text = match args.format {
        TextOrJson::Json => serde_json::to_string(&shown)? + "\n",
        TextOrJson::Text => text(&shown) + unsorted(&shown, args.time),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What the service has counted.
fn until_now(args: &Args) -> anyhow::Result<Snapshot> {
    let socket = args.socket.clone().unwrap_or_else(remote::place);
    let request = Request {
        pid: Some(args.pid),
    };
    let asked = remote::ask(&socket, Ask::Snapshot(request));
    let mut reader = asked.context(
        "only a running service knows what was done until now; `--for 10s` counts from now on",
    )?;
    let Answer::Snapshot(now) = remote::answer(&mut reader)? else {
        anyhow::bail!("the service answers with something else");
    };
    let Some(file) = &args.since_last else {
        return Ok(now);
    };
    let shown = earlier(file)?.map_or_else(|| now.clone(), |earlier| now.since(&earlier));
    output::save(file, |out| out.write_all(&serde_json::to_vec(&now)?))?;
    Ok(shown)
}

/// What is counted in this time.
fn from_now_on(args: &Args, time: Duration) -> anyhow::Result<Snapshot> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let counted = runtime.block_on(count(args, time));
    runtime.shutdown_background();
    counted
}

async fn count(args: &Args, time: Duration) -> anyhow::Result<Snapshot> {
    let sorting = Sorting::read(None)?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut source = live::open(&[args.pid], args.socket.as_deref(), &sorting, false)?;
    let since_unix_ns = host::realtime()?;
    let mut model = Model::default();
    let end = tokio::time::sleep(time);
    tokio::pin!(end);
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            taken = source.next() => match taken {
                Some(Taken::Batch(batch)) => batch.apply(&mut model),
                Some(Taken::All { .. }) => {}
                None => anyhow::bail!(
                    "nothing more is counted: {}",
                    source.reason().unwrap_or("the kernel side has ended")
                ),
            },
            // The time is shorter where it ends, or somebody ends this.
            _ = look.tick() => {
                source.look();
                if live::has_ended(args.pid) {
                    break;
                }
            }
            () = &mut end => break,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    let time_unix_ns = host::realtime()?;
    let heads = source.in_flight();
    let take = |taken: Taken| {
        if let Some(batch) = taken.batch() {
            batch.apply(&mut model);
        }
    };
    let (losses, _, lost) = source.end(take, |_| ()).await?;
    if let Some(lost) = lost {
        return Err(lost);
    }
    let lost = live::lost(&losses);
    if lost > 0 {
        log::warn!("{lost} operations could not be counted");
    }
    let in_flight = in_flight::of_all(&heads, &model, &Clock::default()).into_iter();
    Ok(Snapshot {
        since_unix_ns,
        time_unix_ns,
        in_flight: in_flight.map(|(_, call)| call.into()).collect(),
        ..Snapshot::of_all(&model, args.pid, &sorting.classifier)
    })
}

fn earlier(file: &Path) -> anyhow::Result<Option<Snapshot>> {
    match fs::read(file) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .with_context(|| format!("{} is no snapshot: name another file", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// What the phases leave open: the service sorts reads by the names of files, before it is known whether they are read again.
fn unsorted(snapshot: &Snapshot, time: Option<Duration>) -> &'static str {
    let loads = snapshot.phases.get("restore").filter(|_| time.is_none());
    match loads.map_or(0, |done| done.bytes_read) {
        0 => "",
        _ => {
            "restore is by the names of files, and may be training data: `--for 10s` tells them apart.\n"
        }
    }
}

fn text(snapshot: &Snapshot) -> String {
    let period = snapshot.time_unix_ns.abs_diff(snapshot.since_unix_ns);
    let mut text = format!(
        "Process {}, {} with its descendants, {:.3} s\n{:<12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        snapshot.pid,
        snapshot.processes,
        Duration::from_nanos(period).as_secs_f64(),
        "PHASE",
        "OPERATIONS",
        "READ",
        "WRITTEN",
        "TIME",
        "MERGED",
    );
    let mut put = |name: &str, done: &IoTotals| {
        text.push_str(&format!(
            "{name:<12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
            done.operations,
            units::bytes(done.bytes_read),
            units::bytes(done.bytes_written),
            units::duration(done.ns),
            units::duration(done.merged_ns),
        ));
    };
    for (phase, done) in &snapshot.phases {
        put(phase, done);
    }
    put("total", &snapshot.total);
    for call in &snapshot.in_flight {
        text.push_str(&format!(
            "Not returned for {}: {} on {} by thread {} of process {}\n",
            units::duration(call.ns),
            call.operation,
            call.path
                .as_deref()
                .map_or("a file that is not known yet".into(), |path| escape(
                    path.as_bytes()
                )),
            call.tid,
            call.pid,
        ));
    }
    text
}
