//! The licences of the crates that are compiled into the binary, which ask for no more than that they are passed on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cmd;

/// The program, and the kernel programs inside it.
const ROOTS: [&str; 2] = ["iotrace-daemon", "iotrace-ebpf"];
/// How the files begin that hold a licence, a notice or both.
const BEGINNINGS: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];
/// What is in the binary and is no crate.
const OTHERS: [(&str, &str); 1] = [(
    "uPlot (the HTML report)",
    "iotrace-daemon/crates/report/src/html/vendor/uplot/LICENSE",
)];

/// A crate that is compiled in.
pub struct Crate {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub licence: String,
    directory: PathBuf,
}

/// The crates that the program is made of.
pub fn crates() -> Result<Vec<Crate>> {
    let mut metadata = cmd::cargo();
    metadata.args(["metadata", "--locked", "--format-version", "1"]);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    metadata.args(["--filter-platform", &target]);
    let metadata: Value = serde_json::from_str(&cmd::stdout_of(&mut metadata)?)
        .context("cargo metadata printed no JSON")?;
    let all = compiled_in(&metadata).into_iter().map(|package| {
        let [name, version, licence, manifest] = ["name", "version", "license", "manifest_path"]
            .map(|key| package[key].as_str().unwrap_or_default().to_owned());
        let directory = Path::new(&manifest).parent().unwrap_or(Path::new("/"));
        Crate {
            name,
            version,
            licence,
            directory: directory.to_owned(),
        }
    });
    Ok(all.collect())
}

/// Every text once, under the names of those that have it.
pub fn text() -> Result<String> {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::from("iotrace contains these, each under its own terms:\n\n");
    for one in crates()? {
        let name = format!("{} {}", one.name, one.version);
        list.push_str(&format!("  {name}: {}\n", one.licence));
        for text in texts(&one.directory)? {
            owners.entry(text).or_default().insert(name.clone());
        }
    }
    for (name, file) in OTHERS {
        list.push_str(&format!("  {name}\n"));
        let text = fs::read_to_string(cmd::root().join(file)).context(file)?;
        owners.entry(text).or_default().insert(name.to_owned());
    }
    for (text, names) in owners {
        let names: Vec<_> = names.into_iter().collect();
        list.push_str(&format!(
            "\n{}\n{}\n\n{}\n",
            "=".repeat(80),
            names.join(", "),
            text.trim_end()
        ));
    }
    Ok(list)
}

/// The crates that the program is made of: neither its own, nor those that only build or test it.
fn compiled_in(metadata: &Value) -> Vec<&Value> {
    let array = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let nodes: BTreeMap<String, Vec<String>> = array(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let normal = array(&node["deps"]).into_iter().filter(|dep| {
                array(&dep["dep_kinds"])
                    .iter()
                    .any(|kind| kind["kind"].is_null())
            });
            let ids = normal.map(|dep| dep["pkg"].as_str().unwrap_or_default().to_owned());
            (
                node["id"].as_str().unwrap_or_default().to_owned(),
                ids.collect(),
            )
        })
        .collect();
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let id = |package: &Value| package["id"].as_str().unwrap_or_default().to_owned();
    let roots = packages
        .iter()
        .filter(|package| ROOTS.iter().any(|root| package["name"] == *root));
    let mut waiting: Vec<String> = roots.map(id).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if reached.insert(id.clone()) {
            waiting.extend(nodes.get(&id).into_iter().flatten().cloned());
        }
    }
    packages
        .iter()
        .filter(|package| reached.contains(&id(package)) && !package["source"].is_null())
        .collect()
}

/// What a crate's directory holds of licences and notices.
fn texts(directory: &Path) -> Result<Vec<String>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut texts = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.file_type()?.is_file() && BEGINNINGS.iter().any(|start| name.starts_with(start)) {
            texts.push(fs::read_to_string(entry.path())?);
        }
    }
    Ok(texts)
}
