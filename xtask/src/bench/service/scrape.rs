//! `cargo xtask bench scrape`: how long a scrape takes with many living processes and after many files, and how much
//! memory the service has then.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use anyhow::{Context as _, Result};
use clap::Args;

use super::{MIB, Memory, Scrape, Service, program};
use crate::bench::stats::quantile;
use crate::bench::{Common, machine, scratch, table, unless_brief};

const TARGET_MS: f64 = 100.0;
/// Jobs that the processes are of.
const JOBS: u32 = 50;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// Living processes.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(50..))]
    processes: u64,
    /// Files.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Files that the service may know one by one (its own default where nothing is said).
    #[arg(long)]
    max_files: Option<u64>,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = scratch()?;
    let jobs = unless_brief(JOBS, 5);
    let processes = unless_brief(options.processes, jobs.into());
    let files = unless_brief(options.files, 1000);
    let memory = Memory::mount(&scratch)?;
    let bound = options.max_files.map(|files| files.to_string());
    let bound = bound.as_deref().map(|files| ["--max-files", files]);
    let service = Service::start(&scratch, bound.as_ref().map_or(&[], |args| &args[..]))?;
    show("at the start", &scrapes(&service, options)?);
    let sleepers: Result<Vec<Child>> = (0..jobs)
        .map(|job| {
            let dir = memory.0.join(format!("job-{job}"));
            let mut child = program(job, "sleepers", &dir, &[processes / u64::from(jobs)])?
                .spawn()
                .context("cannot start the processes")?;
            wait_for_ready(&mut child)?;
            Ok(child)
        })
        .collect();
    let mut sleepers = sleepers?;
    let mount = format!("mountpoint=\"{}\"", memory.0.display());
    let written = [mount.as_str(), "operation=\"write\""];
    let count = processes as f64;
    service.until("iotrace_operations_total", &written, count)?;
    show(
        &format!("{processes} processes of {jobs} jobs"),
        &scrapes(&service, options)?,
    );
    let half = files / 2;
    let makers: Result<Vec<Child>> = [(jobs, 0, half), (jobs + 1, half, files)]
        .into_iter()
        .map(|(job, first, end)| Ok(program(job, "files", &memory.0, &[first, end])?.spawn()?))
        .collect();
    let (mut peak, mut slowest) = (0.0_f64, 0.0_f64);
    let mut makers = makers?;
    while makers
        .iter_mut()
        .any(|maker| matches!(maker.try_wait(), Ok(None)))
    {
        let scrape = service.scrape()?;
        peak = peak.max(scrape.resident());
        slowest = slowest.max(scrape.took.as_secs_f64() * 1e3);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    println!(
        "while the files are made: {:.0} MiB at most, a scrape {slowest:.1} ms at most",
        peak / MIB
    );
    service.until("iotrace_operations_total", &written, count + files as f64)?;
    let last = scrapes(&service, options)?;
    show(&format!("and {files} files"), &last);
    let written = last.0.sum("iotrace_bytes_total", &written);
    println!(
        "bytes written: {written} counted, {} done; operations lost: {}",
        files * 16 + processes * 4096,
        last.0.sum("iotrace_unaccounted_total", &["kind=\"lost\""]),
    );
    println!(
        "target: a scrape under {TARGET_MS} ms: {}",
        table::verdict(last.1[1] < TARGET_MS)
    );
    for sleeper in &mut sleepers {
        drop(sleeper.stdin.take());
        sleeper.wait()?;
    }
    Ok(())
}

/// The last of several scrapes; median and longest time, milliseconds.
fn scrapes(service: &Service, options: &Options) -> Result<(Scrape, [f64; 2])> {
    let all: Result<Vec<Scrape>> = (0..unless_brief(options.common.rounds().max(5), 2))
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            service.scrape()
        })
        .collect();
    let mut all = all?;
    let mut times: Vec<f64> = all.iter().map(|s| s.took.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let last = all.pop().context("no scrape")?;
    Ok((last, [quantile(&times, 0.5), quantile(&times, 1.0)]))
}

fn show(when: &str, (scrape, [median, longest]): &(Scrape, [f64; 2])) {
    println!(
        "{when}: a scrape {median:.1} ms ({longest:.1} at most), {:.0} KiB, {} series of units, {} files and {} processes known, {:.0} MiB resident",
        scrape.text.len() as f64 / 1024.0,
        scrape.sum("iotrace_series", &[]),
        scrape.sum("iotrace_known_files", &[]),
        scrape.sum("iotrace_known_processes", &[]),
        scrape.resident() / MIB,
    );
}

fn wait_for_ready(child: &mut Child) -> Result<()> {
    let out = child.stdout.take().context("a program without output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    (line == "ready\n")
        .then_some(())
        .context("a program did not start")
}
