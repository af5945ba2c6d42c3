//! `cargo xtask bench start`: how long `iotrace record -- true` takes. Alone it loads kernel programs, which the kernel
//! verifies first; through a running service it loads none.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;

use super::service::Service;
use super::stats::Spread;
use super::{Common, iotrace, machine, table};

/// A recording may take so long, seconds, and use so much of a CPU.
const TARGET_WALL: f64 = 0.5;
const TARGET_CPU: f64 = 0.3;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
}

/// How `true` is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Untraced,
    Basic,
    Full,
    Service,
}

impl Variant {
    const ALL: [Self; 4] = [Self::Untraced, Self::Basic, Self::Full, Self::Service];

    fn title(self) -> &'static str {
        match self {
            Self::Untraced => "true",
            Self::Basic => "record --standalone --detail basic -- true",
            Self::Full => "record --standalone -- true",
            Self::Service => "record -- true, through the service",
        }
    }
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = super::scratch()?;
    let rounds = options.common.rounds();
    let (mut wall, mut cpu) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}, load {}", machine::load());
        for (index, variant) in Variant::ALL.into_iter().enumerate() {
            let (seconds, cpu_seconds) = measure(variant, &scratch)?;
            wall[index].push(seconds);
            cpu[index].push(cpu_seconds);
        }
    }
    let mut rows = vec![table::words("|wall, ms|quartiles|CPU, ms|quartiles")];
    for (index, variant) in Variant::ALL.into_iter().enumerate() {
        let mut row = vec![variant.title().to_owned()];
        for figures in [&wall[index], &cpu[index]] {
            let Spread { low, median, high } = Spread::of(figures).context("no figure")?;
            row.push(format!("{:.0}", 1e3 * median));
            row.push(format!("{:.0} - {:.0}", 1e3 * low, 1e3 * high));
        }
        rows.push(row);
    }
    table::print(&rows);
    let full = Variant::Full as usize;
    for (what, figures, target) in [
        ("wall time", &wall[full], TARGET_WALL),
        ("CPU time", &cpu[full], TARGET_CPU),
    ] {
        let median = Spread::of(figures).context("no figure")?.median;
        let word = table::verdict(median <= target);
        println!("{what} of record --standalone: {median:.2} s, target {target} s: {word}");
    }
    Ok(())
}

/// Wall time and CPU time, seconds.
fn measure(variant: Variant, scratch: &Path) -> Result<(f64, f64)> {
    let recording = scratch.join("recording");
    // There is none in the first round.
    let _ = fs::remove_dir_all(&recording);
    let socket = scratch.join("socket");
    let _service = match variant {
        Variant::Service => Some(Service::start_with_socket(scratch, &socket, "")?),
        _ => None,
    };
    let mut command = match variant {
        Variant::Untraced => Command::new("true"),
        _ => {
            let mut iotrace = Command::new(super::built("iotrace")?);
            iotrace.arg("record").arg("-o").arg(&recording);
            iotrace
        }
    };
    match variant {
        Variant::Untraced => &mut command,
        Variant::Basic => command.args(["--standalone", "--detail", "basic", "--", "true"]),
        Variant::Full => command.args(["--standalone", "--", "true"]),
        Variant::Service => command.arg("--socket").arg(&socket).args(["--", "true"]),
    };
    let messages = File::create(scratch.join("client"))?;
    command.stdin(Stdio::null()).stdout(messages.try_clone()?);
    command.stderr(messages);
    let start = Instant::now();
    let child = command.spawn().context("cannot run iotrace")?;
    let (cpu_seconds, _) = iotrace::wait(&child)?;
    Ok((start.elapsed().as_secs_f64(), cpu_seconds))
}
