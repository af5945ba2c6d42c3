//! Recordings: one file of a small one is replaced by hostile bytes; it is refused, or a report is made of it.
#![no_main]

use std::{
    fs, io, panic,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use iotrace_report::Report;
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/recording/tests/format-1.0"
);

/// A copy of the sample without checksums, which would find each change, and its files.
struct Sample {
    directory: tempfile::TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Sample {
    fn new() -> io::Result<Self> {
        // The reader catches panics of the Parquet library, which libFuzzer's hook would end the process for.
        let _ = panic::take_hook();
        let mut sample = Self {
            directory: tempfile::tempdir()?,
            files: Vec::new(),
        };
        sample.copy(Path::new(SAMPLE), Path::new(""))?;
        sample.files.sort();
        Ok(sample)
    }

    fn copy(&mut self, from: &Path, inside: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from.join(inside))? {
            let name = inside.join(entry?.file_name());
            let to = self.directory.path().join(&name);
            if from.join(&name).is_dir() {
                fs::create_dir(to)?;
                self.copy(from, &name)?;
            } else if !name.ends_with("checksums") {
                let mut bytes = fs::read(from.join(&name))?;
                if name.ends_with("meta.json") {
                    bytes = without_checksum(&bytes);
                }
                fs::write(&to, &bytes)?;
                self.files.push((to, bytes));
            }
        }
        Ok(())
    }
}

/// Recordings of the first versions had no checksums.
fn without_checksum(meta: &[u8]) -> Vec<u8> {
    let mut meta: serde_json::Value = serde_json::from_slice(meta).expect("the sample is intact");
    meta.as_object_mut().expect("an object").remove("checksum");
    serde_json::to_vec(&meta).expect("it was read from JSON")
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| Sample::new().expect("a directory for temporary files"))
}

// The first byte names the file, the rest is its contents.
fuzz_target!(|data: &[u8]| -> Corpus {
    let sample = sample();
    let [index, bytes @ ..] = data else {
        return Corpus::Reject;
    };
    let (path, intact) = &sample.files[usize::from(*index) % sample.files.len()];
    fs::write(path, bytes).expect("room for a small file");
    if let Ok(recorded) = iotrace_recording::read(sample.directory.path()) {
        let report = Report::new(&recorded.model, &recorded.run);
        iotrace_report::json(&report, io::sink()).expect("nothing can fail");
    }
    fs::write(path, intact).expect("room for a small file");
    Corpus::Keep
});

// An input that is next to nothing becomes an intact file, which what follows damages.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if size > 1 {
        return fuzzer_mutate(data, size, max_size);
    }
    let index = seed as usize % sample().files.len();
    let (_, intact) = &sample().files[index];
    let room = max_size.min(data.len());
    let length = intact.len().min(room - 1);
    data[0] = index as u8;
    data[1..=length].copy_from_slice(&intact[..length]);
    1 + length
});
