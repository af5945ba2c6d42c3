//! `cargo xtask bench files`: epochs of opening, reading and closing many small files.
//!
//! A new file makes iotrace do the most: find its name, make an entry, send and keep both. The files
//! are in memory, so nothing hides what that takes. With several workers each reads its share, as
//! those of a data loader do.
//!
//! - `visit`: one run of the workers, with or without iotrace
//! - `report`: tables and targets; `drains`: what iotrace says of its drains

mod drains;
mod report;
mod visit;

use anyhow::Result;
use clap::Args;

use super::Common;
use super::machine;
use super::others::Others;
use super::remote::{Places, Worker};
use report::Results;
use visit::{Detail, Run};

/// Files of the runs that show what iotrace needs when there are few.
const FEW: u64 = 100;
/// Numbers of workers.
const WORKERS: [u64; 2] = [1, 2];

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub common: Common,
    /// How many files there are.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1000..))]
    files: u64,
    /// Epochs of each visit. The first is shown by itself.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    machine::print();
    let scratch = super::scratch()?;
    let files = super::unless_brief(options.files, 1000);
    let epochs = super::unless_brief(options.epochs, 2);
    let places = Places::new(&scratch);
    let mut maker = Worker::start(&places, &[])?;
    maker.ask(&format!("make {files}"))?;
    maker.answer()?;

    let mut others = Others::look(&places)?;
    let mut results = Results::new(files, epochs);
    for round in 1..=options.common.rounds() {
        eprintln!(
            "round {round} of {}, load {}",
            options.common.rounds(),
            machine::load()
        );
        for workers in WORKERS {
            for detail in Detail::ALL {
                others.wait()?;
                let run = Run {
                    detail,
                    workers,
                    files,
                    epochs,
                };
                results.many(run, run.visit(&places, &scratch)?);
            }
        }
        for detail in [Detail::Basic, Detail::Full] {
            let run = Run {
                detail,
                workers: 1,
                files: FEW,
                epochs,
            };
            results.few(run, run.visit(&places, &scratch)?);
        }
    }
    results.print();
    Ok(())
}
