//! Output security: links and directories that another user plants redirect nothing that root writes.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::{self, directory};
use tempfile::TempDir;

const USER: u32 = 65_534;
const SECRET: &str = "root's own";

/// A directory that every user may enter, one in it that belongs to the user, and a file that is root's alone.
fn place() -> (TempDir, PathBuf, PathBuf) {
    common::need_root();
    let (keep, dir) = directory();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    let (project, victim) = (dir.join("project"), dir.join("victim"));
    fs::create_dir(&project).unwrap();
    chown(&project, Some(USER), Some(USER)).unwrap();
    fs::write(&victim, SECRET).unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    (keep, project, victim)
}

fn as_user(script: &str, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir);
    command.uid(USER).gid(USER);
    command
}

fn iotrace(args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrace"));
    command.args(args).current_dir(dir);
    command.env_remove("SUDO_UID").env_remove("SUDO_GID");
    command
}

fn record(args: &[&str], command: &[&str], dir: &Path) -> Output {
    let options = ["record", "--map-entries", "1024", "--flush", "100ms"];
    let all = [&options, args, &["--"], command].concat();
    iotrace(&all, dir).output().unwrap()
}

fn errors(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[track_caller]
fn refused(out: &Output, words: &[&str]) {
    assert_eq!(out.status.code(), Some(1), "{}", errors(out));
    for word in words {
        assert!(errors(out).contains(word), "{word:?}: {}", errors(out));
    }
}

/// Modes and owners of everything in a directory, itself too.
fn entries(dir: &Path) -> Vec<(PathBuf, u32, u32)> {
    let mut all = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|one| one.unwrap().path()));
        }
        all.push((path, about.mode() & 0o7777, about.uid()));
    }
    all
}

#[test]
fn a_recording_goes_where_its_directory_goes() {
    let (_keep, project, victim) = place();
    let script = format!(
        "until d=$(ls -d iotrace-*.d 2>/dev/null); do :; done; sleep 1; mv $d away; mkdir $d; chmod 777 $d; \
         ln -s {0} $d/meta.json.tmp; ln -s {0} $d/meta.json",
        victim.display()
    );
    let mut attack = as_user(&script, &project).spawn().unwrap();
    let busy = "for i in $(seq 30); do cat /etc/hostname >/dev/null; sleep 0.1; done";
    let out = record(&[], &["sh", "-c", busy], &project);
    assert!(attack.wait().unwrap().success());
    assert!(out.status.success(), "{}", errors(&out));
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET);
    let meta = fs::read_to_string(project.join("away/meta.json")).unwrap();
    assert!(meta.contains("\"complete\": true"), "{meta}");
}

#[test]
fn a_directory_of_another_user_is_no_output() {
    let (_keep, project, victim) = place();
    let parent = project.parent().unwrap();
    let taken = |words: &[&str], name: &str| {
        let out = record(&["-o", name], &["touch", "ran"], parent);
        refused(&out, words);
        assert!(!parent.join("ran").exists());
    };
    let script = format!(
        "mkdir theirs && ln -s theirs link && ln -s {} theirs/meta.json.tmp; mkdir empty",
        victim.display()
    );
    assert!(as_user(&script, &project).status().unwrap().success());
    taken(&["project/empty", "another user"], "project/empty");
    taken(&["project/theirs", "another user"], "project/theirs");
    taken(&["project/link", "symbolic link"], "project/link");
    fs::create_dir(parent.join("open")).unwrap();
    fs::set_permissions(parent.join("open"), fs::Permissions::from_mode(0o1777)).unwrap();
    taken(&["open", "others can write"], "open");
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET);
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let (_keep, project, victim) = place();
    let parent = project.parent().unwrap();
    let out = record(&["-o", "mine"], &["cat", "/etc/hostname"], parent);
    assert!(out.status.success(), "{}", errors(&out));
    let script = format!("ln -s {} planted", victim.display());
    assert!(as_user(&script, &project).status().unwrap().success());
    let sticky = parent.join("sticky");
    fs::create_dir(&sticky).unwrap();
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(as_user(&script, &sticky).status().unwrap().success());
    for planted in ["project/planted", "sticky/planted"] {
        for args in [
            &["report", "mine", "-o", planted][..],
            &["diff", "mine", "mine", "-o", planted],
            &["export", "mine", "-f", "csv", "--force", "-o", planted],
        ] {
            let out = iotrace(args, parent).output().unwrap();
            refused(&out, &[planted, "link of another user"]);
        }
        let args = ["export", "mine", "-f", "csv", "-o", planted];
        let out = iotrace(&args, parent).output().unwrap();
        refused(&out, &[planted, "--force"]);
        assert!(parent.join(planted).is_symlink());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), SECRET);
}

#[test]
fn only_its_owner_reads_a_recording() {
    let (_keep, project, _victim) = place();
    let parent = project.parent().unwrap();
    let args = ["--trace", "-o", "recording"];
    let out = record(&args, &["cat", "/etc/hostname"], parent);
    assert!(out.status.success(), "{}", errors(&out));
    let args = ["report", "recording", "-f", "html", "-o", "report.html"];
    let out = iotrace(&args, parent).output().unwrap();
    assert!(out.status.success(), "{}", errors(&out));
    let mut all = entries(&parent.join("recording"));
    assert!(all.len() > 5, "{all:?}");
    all.extend(entries(&parent.join("report.html")));
    for (path, mode, owner) in all {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!((mode, owner), (expected, 0), "{}", path.display());
    }
}

#[test]
fn a_command_runs_as_another_user() {
    let (_keep, project, _victim) = place();
    let parent = project.parent().unwrap();
    let script = "id -u; id -g; id -G; echo $USER $LOGNAME; cat /etc/hostname >mine";
    let user = [
        "--user",
        "nobody",
        "--report",
        "../own.json",
        "-o",
        "../recording",
    ];
    let out = record(&user, &["sh", "-c", script], &project);
    assert!(out.status.success(), "{}", errors(&out));
    let text = String::from_utf8_lossy(&out.stdout);
    let own = format!("{USER}\n{USER}\n{USER}\nnobody nobody\n");
    assert_eq!(text, own);
    let report = fs::read_to_string(parent.join("own.json")).unwrap();
    for name in ["/etc/hostname", "project/mine"] {
        assert!(report.contains(name), "{report}");
    }
    assert_eq!(fs::metadata(project.join("mine")).unwrap().uid(), USER);
    assert_eq!(fs::metadata(parent.join("recording")).unwrap().uid(), 0);
    let out = record(&["--user", "nosuchuser"], &["true"], parent);
    refused(&out, &["nosuchuser", "no such user"]);
    fs::copy(env!("CARGO_BIN_EXE_iotrace"), parent.join("iotrace")).unwrap();
    let script = "../iotrace record --socket /nothing --user nobody -- true";
    let out = as_user(script, &project).output().unwrap();
    refused(&out, &["only root"]);
}

#[test]
fn a_recording_that_lies_is_refused_at_once() {
    let (_keep, project, _victim) = place();
    let parent = project.parent().unwrap();
    let out = record(&["-o", "recording"], &["cat", "/etc/hostname"], parent);
    assert!(out.status.success(), "{}", errors(&out));
    let path = parent.join("recording/meta.json");
    let meta = fs::read_to_string(&path).unwrap();
    let report = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.arg("20").arg(env!("CARGO_BIN_EXE_iotrace"));
        command.args(["report", "recording"]).current_dir(parent);
        let out = command.output().unwrap();
        refused(&out, words);
        assert!(!errors(&out).contains('\u{1b}'));
    };
    let unknown = "not the name of a part";
    for (parts, words) in [
        (r#"["../other"]"#, ["../other", unknown]),
        (r#"["/tmp/part-000001"]"#, ["/tmp/part-000001", unknown]),
        (r#"["part-\u001b[31m"]"#, ["part-", unknown]),
        (
            r#"["part-000001", "part-000001"]"#,
            ["part-000001", "twice"],
        ),
    ] {
        let mut value: serde_json::Value = serde_json::from_str(&meta).unwrap();
        value["parts"] = serde_json::from_str(parts).unwrap();
        fs::write(&path, value.to_string()).unwrap();
        report(&words);
    }
    // The name of a loss.
    let mut value: serde_json::Value = serde_json::from_str(&meta).unwrap();
    value["losses"]["\u{1b}[31mred"] = 1.into();
    fs::write(&path, value.to_string()).unwrap();
    let out = iotrace(&["report", "--full", "recording"], parent)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        text.contains(r"\x1b[31mred") && !text.contains('\u{1b}'),
        "{text}"
    );
    // A pipe and a device.
    fs::write(&path, &meta).unwrap();
    let table = parent.join("recording/part-000001/files.parquet");
    fs::remove_file(&table).unwrap();
    let made = Command::new("mkfifo").arg(&table).status().unwrap();
    assert!(made.success());
    report(&["files.parquet", "not a regular file"]);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    report(&["meta.json", "not a regular file"]);
}

#[test]
fn rules_of_another_user_are_not_roots() {
    let (_keep, project, _victim) = place();
    let rules = "[[rule]]\nname = 'mine'\nphase = 'training'\nglob = '/mine/**'\n";
    fs::write(project.join("iotrace.toml"), rules).unwrap();
    let list = || iotrace(&["phases", "list"], &project).output().unwrap();
    chown(project.join("iotrace.toml"), Some(USER), Some(USER)).unwrap();
    let out = list();
    assert!(errors(&out).contains("ignored"), "{}", errors(&out));
    assert!(!String::from_utf8_lossy(&out.stdout).contains("/mine/**"));
    chown(project.join("iotrace.toml"), Some(0), Some(0)).unwrap();
    assert!(String::from_utf8_lossy(&list().stdout).contains("/mine/**"));
}

#[test]
fn rules_without_end_are_refused_at_once() {
    let (_keep, project, _victim) = place();
    let rule = |name: usize, glob: &str| {
        format!("[[rule]]\nname = 'r{name}'\nphase = 'training'\nglob = '{glob}'\n")
    };
    let many: String = (0..100_000).map(|name| rule(name, "/a/*")).collect();
    for (rules, words) in [
        (many, "100000 rules"),
        (rule(1, &"a*".repeat(1 << 19)), "1048576 bytes"),
        (rule(1, &"?".repeat(65_000)), "65000 bytes"),
    ] {
        fs::write(project.join("rules.toml"), rules).unwrap();
        let begun = std::time::Instant::now();
        let args = ["phases", "list", "--rules", "rules.toml"];
        let out = iotrace(&args, &project).output().unwrap();
        refused(&out, &[words]);
        // A second, on a machine that does nothing else.
        let took = begun.elapsed();
        assert!(took.as_secs() < 5, "{took:?}");
    }
}

#[test]
fn under_sudo_a_recording_in_the_users_directory_is_theirs() {
    let (_keep, project, _victim) = place();
    let parent = project.parent().unwrap();
    for (name, owner) in [("project/recording", USER), ("recording", 0)] {
        let args = ["record", "--map-entries", "1024", "-o", name, "--", "true"];
        let out = iotrace(&args, parent)
            .env("SUDO_UID", USER.to_string())
            .env("SUDO_GID", USER.to_string())
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", errors(&out));
        for (path, mode, found) in entries(&parent.join(name)) {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!((mode, found), (expected, owner), "{}", path.display());
        }
    }
}
