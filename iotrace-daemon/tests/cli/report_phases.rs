//! `iotrace phases` as it is called: what it lists, explains and refuses, and whose rules come first.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// Runs `iotrace phases` in `directory`.
fn phases(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command.arg("phases").args(args).current_dir(directory);
    command.output().expect("iotrace starts")
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

const USERS: &str = r#"
[[rule]]
name = "scratch"
phase = "training"
direction = "read"
glob = "/scratch/**"

[[rule]]
name = "lightning" # as a built-in one, which it replaces
phase = "other"
class = "log"
glob = "*.ckpt"
"#;

#[test]
fn explain_says_which_rule_matched_and_which_would_have() {
    let directory = tempfile::tempdir().unwrap();
    let text = stdout(&phases(
        directory.path(),
        &["explain", "/out/checkpoints/epoch=1.ckpt"],
    ));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "/out/checkpoints/epoch=1.ckpt");
    assert_eq!(lines[1], "  read: restore");
    assert!(
        lines[2].starts_with("    by lightning (built-in) by *.ckpt"),
        "{text}"
    );
    assert!(
        text.contains("    also checkpoint-directories (built-in) by "),
        "{text}"
    );
    assert!(text.contains("  written: checkpoint"), "{text}");
    let only = stdout(&phases(
        directory.path(),
        &["explain", "--direction", "write", "/out/a.h5"],
    ));
    assert!(
        only.contains("written: checkpoint") && !only.contains("read:"),
        "{only}"
    );
}

#[test]
fn the_users_rules_come_first_and_replace_those_of_their_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    fs::write(&file, USERS).unwrap();
    let named = ["explain", "--rules", "mine.toml", "/scratch/a.ckpt"];
    let text = stdout(&phases(directory.path(), &named));
    assert!(
        text.contains("read: training\n    by scratch (mine.toml:2)"),
        "{text}"
    );
    assert!(
        text.contains("also lightning (mine.toml:8) by *.ckpt: other (log)"),
        "{text}"
    );
    assert!(text.contains("written: other (log)"), "{text}");
    let list = stdout(&phases(directory.path(), &["list", "--rules", "mine.toml"]));
    assert_eq!(list.matches(" lightning ").count(), 1);
    assert!(list.find(" scratch ") < list.find(" shared-memory "));
    // Without --rules the file of this name is taken.
    assert!(!stdout(&phases(directory.path(), &["list"])).contains(" scratch "));
    fs::rename(&file, directory.path().join("iotrace.toml")).unwrap();
    assert!(stdout(&phases(directory.path(), &["list"])).contains(" scratch "));
}

#[test]
fn check_names_the_line_and_the_mend() {
    let directory = tempfile::tempdir().unwrap();
    for (text, line, words) in [
        (
            "[[rule]]\nname = 'a'\nphase = 'training'\nglob = '/data/**'\n\n[[rule]]\nname = 'b'\nphase = \
             'restore'\nglob = '/data/models/*.pt'\n",
            6,
            ["never wins", "\"a\" in line 1", "put it before"],
        ),
        (
            "[[rule]]\nname = 'a'\nphase = 'training'\nglob = '/data/[ab'\n",
            4,
            ["bad glob", "not closed", "add ]"],
        ),
        (
            "[[rule]]\nname = 'a'\nphase = 'training'\nglob = '/a'\n[[rule]]\nname = 'a'\nphase = 'other'\nglob = '/b'\n",
            5,
            ["\"a\"", "line 1", "rename one"],
        ),
        (
            "[[rule]]\nname = 'a'\nphase = 'train'\nglob = '/a'\n",
            3,
            ["unknown phase", "startup, training", "other"],
        ),
    ] {
        fs::write(directory.path().join("rules.toml"), text).unwrap();
        let output = phases(directory.path(), &["check", "rules.toml"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.starts_with(&format!("rules.toml:{line}: ")), "{said}");
        words
            .iter()
            .for_each(|word| assert!(said.contains(word), "{word} in {said}"));
    }
    fs::write(directory.path().join("rules.toml"), USERS).unwrap();
    assert!(
        stdout(&phases(directory.path(), &["check", "rules.toml"])).contains("all rules are good")
    );
}

#[test]
fn rules_beyond_the_bound_are_refused_with_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let rules: String = (0..4100)
        .map(|index| {
            format!("[[rule]]\nname = 'r{index}'\nphase = 'training'\nglob = '/d{index}/'\n")
        })
        .collect();
    fs::write(directory.path().join("rules.toml"), rules).unwrap();
    for args in [
        &["list", "--rules", "rules.toml"][..],
        &["explain", "--rules", "rules.toml", "/d1/a"],
    ] {
        let output = phases(directory.path(), args);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("4095") && said.contains("fewer rules"),
            "{said}"
        );
    }
}
