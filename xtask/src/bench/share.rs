//! `cargo xtask bench share`: what other processes pay for recordings: by the programs of the service, which all recordings
//! share, at the least detail and at detail full, and by programs of each recording.
//!
//! A worker that nobody records is measured beside 0 to 16 recordings of a process that sleeps. All variants are measured once a
//! round; the tables show medians over the rounds with their quartiles.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::call::Call;
use super::machine;
use super::others::Others;
use super::remote::{Places, Worker};
use super::service::Service;
use super::stats::{Spread, median};
use super::{Common, table, unless_brief};

const CALLS: [Call; 3] = [Call::Getppid, Call::Pread, Call::OpenClose];
const COUNTS: [usize; 5] = [0, 1, 4, 8, 16];
/// Of the counters of recordings with their own programs, so that many fit into memory.
const ENTRIES: &str = "16384";
/// How much more a call may take beside recordings that share the programs than beside none.
const LIMIT: f64 = 1.03;
/// Between the start of the last recording and the measurement.
const SETTLE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// How recordings are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Shared,
    Full,
    Own,
}

impl Way {
    const ALL: [Self; 3] = [Self::Shared, Self::Full, Self::Own];
}

/// Numbers of recordings.
fn counts() -> impl Iterator<Item = usize> {
    COUNTS.into_iter().take(unless_brief(COUNTS.len(), 2))
}

/// The largest of them.
fn most() -> usize {
    counts().max().unwrap_or(0)
}

/// Nanoseconds of a call, a figure for each round.
type Figures = BTreeMap<(usize, Way, usize), Vec<f64>>;

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = super::scratch()?;
    let places = Places::new(&scratch);
    let mut others = Others::look(&places)?;
    let mut figures = Figures::new();
    let rounds = options.common.rounds();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}, load {}", round + 1, machine::load());
        for count in counts() {
            for way in Way::ALL {
                let recorded = Recorded::start(&scratch, way, count)?;
                let mut worker = Worker::start(&places, &[])?;
                for (index, call) in CALLS.into_iter().enumerate() {
                    worker.ask(&format!("call {} {}", call.word(), others.best()))?;
                    let [ns, _, _, best] = worker.answer()?;
                    others.saw(best);
                    figures.entry((index, way, count)).or_default().push(ns);
                }
                drop(recorded);
            }
        }
    }
    print(&figures);
    Ok(())
}

/// A service, and the clients of its recordings. All end when this is dropped.
struct Recorded {
    clients: Vec<Child>,
    service: Service,
}

impl Recorded {
    fn start(scratch: &Path, way: Way, count: usize) -> Result<Self> {
        let socket = scratch.join("socket");
        let most = most();
        let limits = format!("max = {most}\nmax_per_user = {most}\n");
        let service = Service::start_with_socket(scratch, &socket, &limits)?;
        let mut recorded = Self {
            clients: Vec::new(),
            service,
        };
        for client in 0..count {
            let mut sleep = Command::new("sleep");
            let sleep = sleep.arg("3600").spawn().context("cannot run sleep")?;
            let pid = sleep.id().to_string();
            recorded.clients.push(sleep);
            let mut command = Command::new(super::built("iotrace")?);
            command.stdin(Stdio::null());
            let output = output_of(scratch, client);
            // There is none in the first round.
            let _ = fs::remove_dir_all(&output);
            match way {
                Way::Shared => command.args(["snapshot", "--for", "1h", "--pid", &pid]),
                Way::Full => command.args(["record", "--pid", &pid, "-o"]).arg(output),
                Way::Own => {
                    let args = [
                        "--standalone",
                        "--detail",
                        "basic",
                        "--waits=off",
                        "--map-entries",
                        ENTRIES,
                    ];
                    command.arg("record").args(args).args(["--pid", &pid, "-o"]);
                    command.arg(output)
                }
            };
            if way != Way::Own {
                command.arg("--socket").arg(&socket);
            }
            let messages = File::create(scratch.join("client"))?;
            command.stdout(messages.try_clone()?).stderr(messages);
            let child = command.spawn().context("cannot run iotrace")?;
            recorded.clients.push(child);
        }
        if way != Way::Own {
            recorded.service.until_recordings(count as u64)?;
        } else {
            // They load their programs, and then make their directories.
            let all = || (0..count).all(|client| output_of(scratch, client).exists());
            let end = Instant::now() + Duration::from_secs(120);
            while !all() {
                ensure!(Instant::now() < end, "recordings do not begin");
                thread::sleep(Duration::from_millis(100));
            }
        }
        thread::sleep(SETTLE);
        Ok(recorded)
    }
}

/// Where a recording goes.
fn output_of(scratch: &Path, client: usize) -> PathBuf {
    scratch.join(format!("recording-{client}"))
}

impl Drop for Recorded {
    fn drop(&mut self) {
        for child in &mut self.clients {
            // One that has ended is gone all the same.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn print(figures: &Figures) {
    for (index, call) in CALLS.into_iter().enumerate() {
        println!("\n{}", call.title());
        let words = |texts: [&str; 4]| texts.map(String::from).to_vec();
        let mut rows = vec![words([
            "recordings",
            "by shared programs",
            "the same at detail full",
            "by programs of each",
        ])];
        for count in counts() {
            let cell = |way| {
                let all = figures
                    .get(&(index, way, count))
                    .map_or(&[][..], Vec::as_slice);
                Spread::of(all).map_or_else(String::new, |spread| {
                    format!(
                        "{:.0} ns ({:.0}-{:.0})",
                        spread.median, spread.low, spread.high
                    )
                })
            };
            let mut row = vec![count.to_string()];
            row.extend(Way::ALL.map(cell));
            rows.push(row);
        }
        table::print(&rows);
        let most = most();
        let ratio = |way| {
            let of = |count| figures.get(&(index, way, count)).cloned();
            Some(median(&mut of(most)?) / median(&mut of(0)?))
        };
        if let [Some(shared), Some(full), Some(own)] = Way::ALL.map(ratio) {
            let word = table::verdict(shared.max(full) <= LIMIT);
            println!(
                "{most} recordings to none: {shared:.2} shared, {full:.2} at detail full, {own:.2} each its own; target {LIMIT} \
                 shared: {word}"
            );
        }
    }
}
