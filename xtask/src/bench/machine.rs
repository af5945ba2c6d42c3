//! The machine that figures are from.

use std::fs;
use std::thread::available_parallelism;

/// Mitigations that decide what a system call costs.
const MITIGATIONS: [&str; 3] = ["spectre_v2", "spec_rstack_overflow", "retbleed"];

/// Prints what the machine is.
pub fn print() {
    let cpus = available_parallelism().map_or(0, usize::from);
    println!(
        "CPU:     {} ({cpus} CPUs)",
        field("/proc/cpuinfo", "model name")
    );
    println!("kernel:  {}", line("/proc/sys/kernel/osrelease"));
    for name in MITIGATIONS {
        let state = line(&format!("/sys/devices/system/cpu/vulnerabilities/{name}"));
        if !state.is_empty() && state != "Not affected" {
            println!("         {name}: {state}");
        }
    }
    println!("load:    {} (1, 5 and 15 minutes, at the start)", load());
}

/// The load average.
pub fn load() -> String {
    line("/proc/loadavg")
        .split(' ')
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The first line of a file; nothing where there is none.
fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The first value of a field in a file of `NAME : VALUE` lines.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().filter_map(|line| line.split_once(':'));
    let mut value = value.filter(|(field, _)| field.trim() == name);
    value
        .next()
        .map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}
