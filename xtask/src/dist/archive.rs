//! Archives of a static program with its manual pages and completions, for machines that no package fits; their checksums; and
//! the list of what is compiled in, as CycloneDX 1.5 (<https://cyclonedx.org/docs/1.5/json/>).

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{cmd, run};

use super::{Built, CRATE, PROFILE, VERSION, cargo_build, notices, source_date, tree, wheel};

/// A processor that there is a static program for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// As the archive's name has it.
    pub arch: &'static str,
    /// As Rust names it.
    triple: &'static str,
    /// Compiles what is C in it.
    compiler: &'static str,
    /// Links it, where cargo would not find it.
    linker: Option<&'static str>,
}

/// The first is the one whose program runs here.
pub const TARGETS: [Target; 2] = [
    Target {
        arch: "x86_64",
        triple: "x86_64-unknown-linux-musl",
        compiler: "gcc",
        linker: None,
    },
    Target {
        arch: "aarch64",
        triple: "aarch64-unknown-linux-musl",
        compiler: "aarch64-linux-gnu-gcc",
        linker: Some("aarch64-linux-gnu-gcc"),
    },
];

/// Bytes that a static program has at most.
const MAX_BYTES: u64 = 15 << 20;

/// Builds the static programs and makes everything that needs them.
pub fn make(output: &Path) -> Result<Vec<PathBuf>> {
    let programs = TARGETS
        .iter()
        .map(|target| Ok((target.arch, build(target)?)))
        .collect::<Result<Vec<_>>>()?;
    let generate = programs[0].1.clone();
    archives(&programs, &generate, output)
}

/// Builds the program for a target; where it is.
fn build(target: &Target) -> Result<PathBuf> {
    let directory = run::target_dir()?.join("static");
    let variable = target.triple.replace('-', "_");
    let mut cargo = cargo_build();
    cargo.args(["--target", target.triple]);
    cargo.arg("--target-dir").arg(&directory);
    cargo.env(format!("CC_{variable}"), target.compiler);
    // The checked variants are functions of another C library; so are those with 64 in their names, which SQLite would use.
    let flags = "-U_FORTIFY_SOURCE -DSQLITE_DISABLE_LFS";
    cargo.env(format!("CFLAGS_{variable}"), flags);
    if let Some(linker) = target.linker {
        let variable = variable.to_uppercase();
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), linker);
    }
    let mut flags = env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" -C target-feature=+crt-static");
    // A bit instead of 24 bytes for each pointer that the program adjusts when it starts. Linkers that cannot do it ignore it.
    flags.push_str(" -C link-arg=-Wl,-z,pack-relative-relocs");
    cargo.env("RUSTFLAGS", flags);
    cmd::run(&mut cargo)?;
    let program = directory.join(target.triple).join(PROFILE).join("iotrace");
    let bytes = fs::metadata(&program)?.len();
    ensure!(
        bytes <= MAX_BYTES,
        "make the static program for {} smaller (profile `{PROFILE}`): it has {bytes} bytes, the most is {MAX_BYTES}",
        target.arch
    );
    Ok(program)
}

/// Makes an archive of each program, the list of what is in them, and the checksums of all.
pub fn archives(
    programs: &[(&str, PathBuf)],
    generate: &Path,
    output: &Path,
) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(output).with_context(|| format!("cannot make {}", output.display()))?;
    let output = output.canonicalize().context("where archives go")?;
    let work = output.join("work");
    let mut made = Vec::new();
    for (arch, program) in programs {
        let built = Built {
            iotrace: program.clone(),
            generate: generate.to_owned(),
        };
        made.push(archive(&built, arch, &work, &output)?);
    }
    made.push(wheel::make(&work, &output)?);
    let list = output.join(format!("iotrace-{VERSION}.cdx.json"));
    tree::write(&list, &components()?)?;
    made.push(list);
    let sums = output.join("SHA256SUMS");
    let names = made.iter().filter_map(|path| path.file_name());
    let text = cmd::stdout_of(cmd::command("sha256sum").current_dir(&output).args(names))?;
    tree::write(&sums, &text)?;
    made.push(sums);
    tree::remove(&work)?;
    Ok(made)
}

/// Makes the archive of one program. The same source makes the same archive.
fn archive(built: &Built, arch: &str, work: &Path, output: &Path) -> Result<PathBuf> {
    let name = format!("iotrace-{VERSION}-linux-{arch}");
    tree::remove(work)?;
    tree::lay_out_archive(built, work, &work.join(&name))?;
    let archive = output.join(format!("{name}.tar.gz"));
    let mut tar = cmd::command("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", source_date()));
    tar.args(["--use-compress-program", "gzip -9n", "--create", "--file"]);
    cmd::run(tar.arg(&archive).arg("--directory").arg(work).arg(&name))?;
    Ok(archive)
}

/// The crates that are compiled in.
fn components() -> Result<String> {
    let all = notices::crates()?;
    let components = all.iter().map(|one| {
        json!({
            "type": "library",
            "name": one.name,
            "version": one.version,
            "purl": format!("pkg:cargo/{}@{}", one.name, one.version),
            "licenses": [{"expression": one.licence}],
        })
    });
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "name": "iotrace",
            "version": VERSION,
            "purl": format!("pkg:cargo/{CRATE}@{VERSION}"),
        }},
        "components": components.collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}
