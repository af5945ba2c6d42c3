//! The layers of the workspace: a crate may only use crates below it, and only one crate may use aya.
//!
//! cargo refuses circles of crates. It does not refuse a low crate that begins to use a higher one, which this does.

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::cmd;

/// The crates from the bottom up. Each may use those before it.
const LAYERS: [&str; 11] = [
    "iotrace-common",
    "iotrace-programs",
    "iotrace-model",
    "iotrace-phases",
    "iotrace-analysis",
    "iotrace-recording",
    "iotrace-report",
    "iotrace-export",
    "iotrace-tracer",
    "iotrace-service",
    "iotrace-daemon",
];
/// What names aya: the crate of the kernel programs' loader, and the types that it shares with them.
const USES_AYA: [&str; 2] = ["iotrace-tracer", "iotrace-common"];
/// What may use the compiled kernel programs, which need the BPF toolchain.
const USES_PROGRAMS: [&str; 1] = ["iotrace-daemon"];

/// Compares what the crates depend on with the layers. Dependencies of tests are free.
pub fn check() -> Result<()> {
    let mut metadata = cmd::cargo();
    metadata.args(["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&cmd::stdout_of(&mut metadata)?)?;
    let packages = metadata["packages"].as_array();
    let wrong = violations(packages.context("cargo metadata lists no packages")?);
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{}", wrong.join("\n"))
}

fn violations(packages: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let name = text(&package["name"]);
        let Some(layer) = LAYERS.iter().position(|layer| *layer == name) else {
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in dependencies.filter(|dependency| dependency["kind"].is_null()) {
            let used = text(&dependency["name"]);
            let allowed = match used {
                "aya" | "aya-log" => USES_AYA.contains(&name),
                "iotrace-programs" => USES_PROGRAMS.contains(&name),
                _ if used.starts_with("iotrace-") => LAYERS[..layer].contains(&used),
                _ => true,
            };
            if !allowed {
                wrong.push(format!(
                    "{name} must not depend on {used}: see LAYERS in xtask/src/lint/layers.rs"
                ));
            }
        }
    }
    wrong
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, used: &[&str]) -> Value {
        let used: Vec<_> = used
            .iter()
            .map(|used| json!({"name": used, "kind": null}))
            .collect();
        json!({"name": name, "dependencies": used})
    }

    #[test]
    fn a_lower_crate_may_be_used_and_a_higher_one_not() {
        let allowed = [
            package("iotrace-report", &["iotrace-model", "serde"]),
            package("iotrace-tracer", &["aya"]),
        ];
        assert_eq!(violations(&allowed), Vec::<String>::new());
        for (name, used) in [
            ("iotrace-model", "iotrace-report"),
            ("iotrace-model", "iotrace-model"),
            ("iotrace-service", "aya"),
            ("iotrace-tracer", "iotrace-programs"),
        ] {
            assert_eq!(violations(&[package(name, &[used])]).len(), 1, "{name}");
        }
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        let mut free = package("iotrace-tracer", &["iotrace-programs"]);
        free["dependencies"][0]["kind"] = json!("dev");
        assert_eq!(violations(&[free]), Vec::<String>::new());
    }
}
