//! `iotrace whatif`: how long a recorded run would take with other storage, CPUs or workers.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{self, Write},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::{Context as _, bail};
use iotrace_analysis::{
    findings::thresholds::Thresholds,
    whatif::{Change, Prediction, Program, Replayed, Single, Speed, WhatIf, replayable},
};
use iotrace_common::key::FileId;
use iotrace_model::{Model, input::ProcessId, timeline::Segment};
use iotrace_phases::{Classifier, path_glob::PathGlob};
use iotrace_recording::{self, Recorded, memory::disk, timeline};
use iotrace_report::{
    Extent, Report, escape,
    units::{duration, share},
    whatif::{prediction_json, replayed_json},
};
use serde_json::{Value, json};

use super::output::{Place, TextOrJson};

/// Storage speeds that are tried if no change is given.
const USUAL_SPEEDS: [f64; 3] = [2.0, 4.0, f64::INFINITY];
/// Mounts that an error names.
const MAX_NAMED: usize = 5;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording, made with `--waits=timeline`.
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// All storage so many times as fast: 2x, 0.5x, infinite; several values make a table [default without any change:
    /// 2x,4x,infinite]
    #[arg(long, value_name = "SPEED", value_delimiter = ',')]
    storage: Vec<Times>,
    /// Files on one mount: /data=4x; may be given several times.
    #[arg(long, value_name = "MOUNT=SPEED")]
    mount: Vec<At<Times>>,
    /// Files that match a glob: GLOB=4x, or GLOB=fast: at most as slow as the median of all other waits for storage; may be
    /// given several times.
    #[arg(long, value_name = "GLOB=SPEED")]
    file: Vec<At<FileSpeed>>,
    /// Worker processes or threads that share the work of the recorded ones evenly.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    workers: Option<u32>,
    /// CPUs [default: as many as the recorder could use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    cpus: Option<u32>,
    /// Print as text or as JSON.
    #[arg(short, long, value_enum, default_value_t = TextOrJson::Text)]
    format: TextOrJson,
    /// Write to this file; an existing one is replaced when the new one is complete.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Factors that may be asked for, besides infinite: what is beyond tells no more.
const SPEED_FACTORS: RangeInclusive<f64> = 1e-3..=1e3;

/// So many times as fast.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times(f64);

impl FromStr for Times {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if ["infinite", "inf"].contains(&text) {
            return Ok(Self(f64::INFINITY));
        }
        let number = text.strip_suffix('x').unwrap_or(text);
        match number.parse() {
            Ok(times) if SPEED_FACTORS.contains(&times) => Ok(Self(times)),
            _ => Err("write a factor from 0.001x to 1000x, such as 2x or 0.5x, or `infinite`"),
        }
    }
}

/// Of files, also as fast as the others.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FileSpeed(Speed);

impl FromStr for FileSpeed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "fast" => Ok(Self(Speed::Typical)),
            _ => Times::from_str(text)
                .map(|Times(times)| Self(Speed::Times(times)))
                .map_err(
                    |_| "write a factor from 0.001x to 1000x, such as 4x, `infinite`, or `fast`",
                ),
        }
    }
}

/// What files are named by, and how fast they are.
#[derive(Clone, Debug, PartialEq)]
struct At<S> {
    name: String,
    speed: S,
}

impl<S: FromStr<Err = &'static str>> FromStr for At<S> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, speed) = text
            .rsplit_once('=')
            .ok_or("write the place, `=` and the speed, such as /data=4x")?;
        Ok(Self {
            name: name.to_owned(),
            speed: speed.parse()?,
        })
    }
}

/// A change and what it leads to.
struct Row {
    /// In words.
    change: String,
    prediction: Prediction,
}

/// Runs `iotrace whatif`.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    disk::begin(None);
    let recorded = iotrace_recording::read(&args.recording)?;
    let cpus = check(&args.recording, &recorded)?;
    let segments = timeline::read(&args.recording)?;
    let files = files(args, &recorded.model, &segments)?;
    let program = Program::of_run(&recorded.model, segments, &mains(&recorded), cpus);
    let whatif = WhatIf::new(program, cpus)?;
    let rows: Vec<Row> = speeds(args)
        .into_iter()
        .map(|storage| {
            let change = Change {
                storage,
                files: files.clone(),
                cpus: args.cpus,
                workers: args.workers,
            };
            Ok(Row {
                change: in_words(args, storage),
                prediction: whatif.predict(&change)?,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    let place = args.output.clone().map_or(Place::Stdout, Place::File);
    place.write(&Extent::Full, |_, out| match args.format {
        TextOrJson::Text => text(&whatif, &rows, out),
        TextOrJson::Json => {
            serde_json::to_writer_pretty(&mut *out, &object(&whatif, &rows))?;
            writeln!(out)
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// CPUs of a recording that can be replayed.
fn check(directory: &Path, recorded: &Recorded) -> anyhow::Result<u32> {
    let cpus = replayable(&recorded.run)
        .with_context(|| format!("cannot replay {}", directory.display()))?;
    if !recorded.is_complete() {
        log::warn!("the recording was not ended properly: the prediction is for what it has");
    }
    Ok(cpus)
}

/// Processes whose main threads the run is judged by.
fn mains(recorded: &Recorded) -> Vec<ProcessId> {
    let Recorded { model, run, .. } = recorded;
    let report = Report::with(model, run, Classifier::builtin(), &Thresholds::default());
    report.analysis().waits.mains(model)
}

/// Files with a speed of their own.
fn files(
    args: &Args,
    model: &Model,
    segments: &[Segment],
) -> anyhow::Result<HashMap<FileId, Speed>> {
    let waited: BTreeSet<FileId> = segments.iter().filter_map(|one| one.file).collect();
    let mut files = HashMap::new();
    let mut mounts: BTreeMap<&[u8], Vec<FileId>> = BTreeMap::new();
    for id in &waited {
        let file = model.find_file(*id);
        let mount = file.map_or(&[][..], |file| model.mount_of(&file).0);
        mounts.entry(mount).or_default().push(*id);
    }
    for At { name, speed } in &args.mount {
        let Some(ids) = mounts.get(name.as_bytes()) else {
            let known = mounts.keys().filter(|mount| !mount.is_empty());
            let known: Vec<String> = known.take(MAX_NAMED).map(|mount| escape(mount)).collect();
            let others = match known.is_empty() {
                true => String::new(),
                false => format!(", but on {}", known.join(", ")),
            };
            bail!("name another mount: no thread waited for files on {name}{others}");
        };
        files.extend(ids.iter().map(|id| (*id, Speed::Times(speed.0))));
    }
    for At { name, speed } in &args.file {
        let glob = name.parse::<PathGlob>();
        let glob = glob.with_context(|| format!("--file {name}"))?;
        let is_meant = |id: &&FileId| {
            let file = model.find_file(**id);
            file.is_some_and(|file| glob.matches(file.path, false))
        };
        let meant: Vec<FileId> = waited.iter().filter(is_meant).copied().collect();
        if meant.is_empty() {
            bail!("write another glob: no thread waited for a file that matches {name}");
        }
        files.extend(meant.into_iter().map(|id| (id, speed.0)));
    }
    Ok(files)
}

/// Speeds of storage, one for each row.
fn speeds(args: &Args) -> Vec<f64> {
    let is_changed = !args.mount.is_empty()
        || !args.file.is_empty()
        || args.workers.is_some()
        || args.cpus.is_some();
    match args.storage.is_empty() {
        true if is_changed => vec![1.0],
        true => USUAL_SPEEDS.to_vec(),
        false => args.storage.iter().map(|Times(times)| *times).collect(),
    }
}

fn in_words(args: &Args, storage: f64) -> String {
    let mut words = Vec::new();
    if !args.storage.is_empty() || speeds(args).len() > 1 {
        words.push(Single::Storage(storage).to_string());
    }
    for At { name, speed } in &args.mount {
        words.push(format!("{name} {}", Speed::Times(speed.0)));
    }
    for At { name, speed } in &args.file {
        words.push(format!("{name} {}", speed.0));
    }
    let counts = [
        args.workers.map(Single::Workers),
        args.cpus.map(Single::Cpus),
    ];
    words.extend(counts.into_iter().flatten().map(|one| one.to_string()));
    words.join(", ")
}

fn text(whatif: &WhatIf, rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let error = whatif.model_error();
    writeln!(
        out,
        "Recorded {}, replayed unchanged {} (error of the model {:+.1} %), {} CPUs",
        duration(whatif.recorded_ns),
        duration(whatif.unchanged.ns),
        error * 100.0,
        whatif.cpus(),
    )?;
    if !whatif.is_trusted() {
        writeln!(
            out,
            "Do not trust these predictions: the replay of the unchanged timeline differs too much from the recorded time."
        )?;
    }
    let width = rows.iter().map(|row| row.change.chars().count());
    let width = width.max().unwrap_or(0).max("as recorded".len());
    writeln!(
        out,
        "\n  {:width$}  {:>9}  {:>22}  {:>7}  LIMITED BY",
        "CHANGE", "PREDICTED", "RANGE", "SAVES"
    )?;
    let limit = |replayed: &Replayed| match replayed.bottleneck() {
        Some((part, ns)) => format!("{} ({})", part.label(), share(ns, replayed.ns)),
        None => String::new(),
    };
    writeln!(
        out,
        "  {:width$}  {:>9}  {:>22}  {:>7}  {}",
        "as recorded",
        duration(whatif.unchanged.ns),
        "",
        "",
        limit(&whatif.unchanged)
    )?;
    for Row { change, prediction } in rows {
        let Prediction {
            replayed,
            low,
            high,
            ..
        } = prediction;
        let saved = 1.0 - replayed.ns as f64 / whatif.unchanged.ns.max(1) as f64;
        writeln!(
            out,
            "  {change:width$}  {:>9}  {:>22}  {:>5.0} %  {}",
            duration(replayed.ns),
            format!("{} to {}", duration(*low), duration(*high)),
            saved * 100.0,
            limit(replayed)
        )?;
    }
    if rows.iter().any(|row| row.prediction.has_fewer_workers) {
        writeln!(
            out,
            "\nFewer workers take the time at the low end of the range if the recorded ones shared the bandwidth of the storage."
        )?;
    }
    let unknown: Vec<&str> = rows
        .iter()
        .filter(|row| !row.prediction.is_predictable)
        .map(|row| row.change.as_str())
        .collect();
    if !unknown.is_empty() {
        writeln!(
            out,
            "\nNot predictable from this recording: {}. Threads that were ready before others needed them become too late, and it \
             does not show how long the others would wait. The time is somewhere in the range.",
            unknown.join("; ")
        )?;
    }
    Ok(())
}

fn object(whatif: &WhatIf, rows: &[Row]) -> Value {
    let rows = rows.iter();
    let rows = rows.map(|Row { change, prediction }| prediction_json(change, prediction));
    json!({
        "recorded_seconds": whatif.recorded_ns as f64 / 1e9,
        "unchanged": replayed_json(&whatif.unchanged),
        "model_error": whatif.model_error(),
        "is_trusted": whatif.is_trusted(),
        "cpus": whatif.cpus(),
        "predictions": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_factors() {
        assert_eq!("2x".parse(), Ok(Times(2.0)));
        assert_eq!("0.5".parse(), Ok(Times(0.5)));
        assert_eq!("infinite".parse(), Ok(Times(f64::INFINITY)));
        for wrong in [
            "", "x", "0x", "1e-300x", "1001x", "-1x", "NaN", "fast", "2y",
        ] {
            assert!(wrong.parse::<Times>().is_err(), "{wrong}");
        }
        assert_eq!("fast".parse(), Ok(FileSpeed(Speed::Typical)));
    }

    #[test]
    fn places_have_a_speed() {
        let place: At<Times> = "/a=b=4x".parse().unwrap();
        assert_eq!((place.name.as_str(), place.speed), ("/a=b", Times(4.0)));
        assert!("/data".parse::<At<Times>>().is_err());
    }
}
