//! The manual pages and shell completions, by the programs that read them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::{self, tool};

/// Has them written into a directory.
fn generate(directory: &Path) {
    let iotrace = || Command::new(env!("CARGO_BIN_EXE_iotrace"));
    quietly(iotrace().args(["man", "--dir"]).arg(directory.join("man")));
    let completions = directory.join("completions");
    fs::create_dir(&completions).unwrap();
    for (shell, file) in [
        ("bash", "iotrace.bash"),
        ("zsh", "_iotrace"),
        ("fish", "iotrace.fish"),
    ] {
        let text = quietly(iotrace().args(["completions", shell]));
        fs::write(completions.join(file), text).unwrap();
    }
}

/// What a program says, which must succeed and complain of nothing.
fn quietly(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it starts");
    let complaints = String::from_utf8_lossy(&stderr);
    assert!(
        status.success() && complaints.is_empty(),
        "{command:?}: {complaints}"
    );
    String::from_utf8(stdout).expect("UTF-8")
}

/// The subcommands that `iotrace ARGS --help` lists.
fn subcommands(args: &[&str]) -> Vec<String> {
    let mut help = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    let help = quietly(help.args(args).arg("--help"));
    let Some((_, list)) = help.split_once("Commands:\n") else {
        return vec![];
    };
    list.lines()
        .take_while(|line| !line.is_empty())
        // A description that is long goes on in the next line, further in.
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .map(str::to_owned)
        .collect()
}

fn page(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("man/{name}.1"))
}

#[test]
fn every_command_has_a_page_that_man_shows() {
    let (_dir, path) = common::directory();
    generate(&path);
    let mut names = vec!["iotrace".to_owned()];
    for command in subcommands(&[]) {
        let inner = subcommands(&[&command]);
        names.extend(
            inner
                .iter()
                .map(|inner| format!("iotrace-{command}-{inner}")),
        );
        names.push(format!("iotrace-{command}"));
    }
    assert!(names.len() > 8, "{names:?}");
    assert_eq!(fs::read_dir(path.join("man")).unwrap().count(), names.len());
    for name in &names {
        let shown = quietly(
            Command::new(tool("man"))
                .args(["--warnings=w", "--local-file"])
                .arg(page(&path, name))
                .env("MANWIDTH", "100")
                .env("LC_ALL", "C.UTF-8"),
        );
        let words: Vec<_> = shown.split_whitespace().collect();
        let title = name.replace('-', " ");
        assert!(words.join(" ").contains(&title), "{name}: {shown}");
        // Every page that one leads to is there.
        let named = shown.split(|c: char| c.is_whitespace() || c == ',');
        let pages = named.filter_map(|word| word.strip_suffix("(1)"));
        for other in pages.filter(|other| other.starts_with("iotrace")) {
            assert!(page(&path, other).exists(), "{name} names {other}(1)");
        }
    }
    let printed = quietly(Command::new(env!("CARGO_BIN_EXE_iotrace")).args(["man", "record"]));
    let record = fs::read_to_string(page(&path, "iotrace-record")).unwrap();
    assert_eq!(printed, record);
    let daemon = fs::read_to_string(page(&path, "iotrace-daemon")).unwrap();
    for word in ["/etc/iotrace/iotrace.toml", "SIGHUP", "max\\-series"] {
        assert!(daemon.contains(word), "no {word} in iotrace-daemon(1)");
    }
}

#[test]
fn shells_read_their_completions() {
    let (_dir, path) = common::directory();
    generate(&path);
    let completions = path.join("completions");
    for (shell, file) in [
        ("bash", "iotrace.bash"),
        ("zsh", "_iotrace"),
        ("fish", "iotrace.fish"),
    ] {
        quietly(
            Command::new(tool(shell))
                .arg("-n")
                .arg(completions.join(file)),
        );
    }
    // As bash asks for what may follow `iotrace re`, and `iotrace record --dur`.
    let script = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                  _iotrace iotrace \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; echo \"${COMPREPLY[*]}\"";
    let complete = |words: &[&str]| {
        let mut bash = Command::new(tool("bash"));
        bash.args(["-c", script, "bash"])
            .arg(completions.join("iotrace.bash"));
        quietly(bash.args(words)).trim().to_owned()
    };
    assert_eq!(complete(&["iotrace", "re"]), "record report");
    assert_eq!(complete(&["iotrace", "record", "--dur"]), "--duration");
    assert_eq!(complete(&["iotrace", "gen"]), "");
    let mut fish = Command::new(tool("fish"));
    fish.args(["--no-config", "--command"]);
    fish.arg("source $argv[1]; complete --do-complete 'iotrace re'");
    let said = quietly(
        fish.arg(completions.join("iotrace.fish"))
            .env("HOME", &path),
    );
    let names: Vec<_> = said
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["record", "report"]);
}
