//! `iotrace check`: whether this host can run iotrace, feature by feature, and each hook and map for real.

use crate::PROGRAMS;
use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use iotrace_phases::Classifier;
use iotrace_tracer::engine::{Engine, Loaded};
use iotrace_tracer::kernel::{
    Cost, Detail, Hook, HookChoice, KernelError, Options, load,
    probe::{Feature, Need, features},
};

/// Exit code where this host cannot run iotrace.
const UNUSABLE: u8 = 77;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The running kernel's type information, where it is not at /sys/kernel/btf/vmlinux.
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    /// Measure what each kind of uprobe costs here, too.
    #[arg(long)]
    uprobes: bool,
    /// Ask the kernel for its features alone: loading and testing every hook takes seconds.
    #[arg(long, conflicts_with = "uprobes")]
    features: bool,
}

/// A hook kind with a detail, tried.
struct Trial {
    hook: Hook,
    detail: Detail,
    outcome: Result<u64, KernelError>,
}

/// Runs `iotrace check`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let features = features(args.btf.as_deref());
    let mut out = io::stdout().lock();
    writeln!(out, "Features")?;
    for feature in &features {
        show_feature(&mut out, feature)?;
    }
    let has_features = !features.iter().any(Feature::is_fatal);
    if args.features {
        return verdict(&mut out, has_features);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let trials = runtime.block_on(async { trials(args) });
    writeln!(out, "\nHooks: loaded, attached and put to the self-test")?;
    for trial in &trials {
        show_trial(&mut out, trial)?;
    }
    if args.uprobes {
        writeln!(
            out,
            "\nUprobes: nanoseconds that a call of a function takes longer"
        )?;
        match runtime.block_on(async { uprobes(args) }) {
            Ok(costs) => {
                for cost in costs {
                    writeln!(
                        out,
                        "  {:30} {:6.0} in a traced process, {:6.0} in others",
                        cost.title, cost.traced, cost.elsewhere
                    )?;
                }
            }
            Err(error) => writeln!(out, "  not here: {}", indented(&error.to_string()))?,
        }
    }
    let usable = has_features
        && trials.iter().all(|wanted| {
            trials
                .iter()
                .any(|trial| trial.detail == wanted.detail && trial.outcome.is_ok())
        });
    verdict(&mut out, usable)
}

fn verdict(out: &mut impl io::Write, usable: bool) -> anyhow::Result<ExitCode> {
    let (word, code) = if usable {
        ("can", ExitCode::SUCCESS)
    } else {
        ("cannot", ExitCode::from(UNUSABLE))
    };
    writeln!(out, "\niotrace {word} run here.")?;
    Ok(code)
}

fn show_feature(out: &mut impl io::Write, feature: &Feature) -> io::Result<()> {
    let (mark, text) = match (&feature.found, feature.need) {
        (Ok(found), _) => ("ok", found.clone()),
        (Err(why), Need::Required) => ("MISSING", why.clone()),
        (Err(why), Need::Optional(without)) => ("without", format!("{without}\n{why}")),
    };
    writeln!(
        out,
        "  {:8} {:29} since {:5} {}",
        mark,
        feature.name,
        feature.since,
        indented(&text)
    )
}

fn show_trial(out: &mut impl io::Write, trial: &Trial) -> io::Result<()> {
    let name = format!("{}, detail {}", trial.hook.name(), trial.detail.name());
    match &trial.outcome {
        Ok(bytes) => writeln!(
            out,
            "  {:8} {name:30} {} MiB of kernel maps",
            "ok",
            bytes >> 20
        ),
        Err(error) => writeln!(
            out,
            "  {:8} {name:30} {}",
            "refused",
            indented(&error.to_string())
        ),
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n           ")
}

fn trials(args: &Args) -> Vec<Trial> {
    const TYPED: [(Hook, HookChoice); 2] = [
        (Hook::Btf, HookChoice::Btf),
        (Hook::Tracepoint, HookChoice::Tracepoint),
    ];
    let no_btf = load::types_if_any(args.btf.as_deref()).is_ok_and(|types| types.are_none());
    let (hooks, details): (&[_], &[_]) = if no_btf {
        (&[(Hook::Raw, HookChoice::Auto)], &[Detail::Basic])
    } else {
        (&TYPED, &[Detail::Basic, Detail::Full])
    };
    let mut trials = Vec::new();
    for (hook, choice) in hooks.iter().copied() {
        for detail in details.iter().copied() {
            let options = options(args, detail);
            trials.push(Trial {
                hook,
                detail,
                outcome: attempt(&options, choice),
            });
        }
    }
    trials
}

/// Loads, attaches, tests and takes off; kernel memory of the maps, bytes.
fn attempt(options: &Options, choice: HookChoice) -> Result<u64, KernelError> {
    let rules = Classifier::builtin();
    let loaded = Loaded::with_or_without_types(options, &PROGRAMS, rules.table())?;
    let Engine { kernel, .. } = loaded.attach(choice)?.prove()?;
    let bytes = kernel.map_bytes();
    kernel.detach()?;
    Ok(bytes)
}

fn options(args: &Args, detail: Detail) -> Options {
    Options {
        detail,
        environment: true,
        cgroup: true,
        negative_lookups: true,
        histograms: true,
        btf: args.btf.clone(),
        ..Options::least()
    }
}

/// Measures on a function of this program's own.
fn uprobes(args: &Args) -> Result<Vec<Cost>, KernelError> {
    let libraries = ["stdio", "hdf5", "marker"].into_iter();
    let options = Options {
        map_entries: Some(1024),
        uprobes: libraries.filter_map(|name| name.parse().ok()).collect(),
        ..options(args, Detail::Basic)
    };
    let mut loaded = Loaded::new(&options, &PROGRAMS, Classifier::builtin().table())?;
    loaded.measure_uprobes()
}
