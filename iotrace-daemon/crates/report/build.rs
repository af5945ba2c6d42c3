//! Compresses the scripts and styles of the page, which the crate embeds.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};

const DIRECTORIES: [&str; 2] = ["src/html/page", "src/html/vendor/uplot"];

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.ok_or_else(|| io::Error::other("cargo did not set OUT_DIR"))?;
    for directory in DIRECTORIES {
        println!("cargo::rerun-if-changed={directory}");
        for entry in fs::read_dir(directory)? {
            let file = entry?.path();
            let is_embedded = file
                .extension()
                .is_some_and(|kind| kind == "js" || kind == "css");
            if let Some(name) = file.file_name().filter(|_| is_embedded) {
                compress(&file, &out, name)?;
            }
        }
    }
    Ok(())
}

/// Writes a compressed copy of a file into `out`.
fn compress(file: &Path, out: &Path, name: &OsStr) -> io::Result<()> {
    let compressed = File::create(out.join(name).with_added_extension("gz"))?;
    let mut encoder = GzEncoder::new(compressed, Compression::best());
    encoder.write_all(&fs::read(file)?)?;
    encoder.finish().map(drop)
}
