//! Packages and archives: what is in them, and that dpkg installs, upgrades, removes and purges its own.

use std::collections::BTreeSet;
use std::process::Command;

use super::*;

/// A directory that is gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("iotrace-dist-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        tree::remove(&path).unwrap();
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program that must succeed; what it says on standard output.
fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}: `cargo xtask setup` installs it"));
    let (stdout, stderr) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    assert!(out.status.success(), "{program} {args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// The files of a package as the program that reads it names them.
fn files(list: &str) -> BTreeSet<String> {
    let paths = list.lines().filter_map(|line| {
        let path = line.split_whitespace().last()?;
        (!path.ends_with('/')).then(|| path.trim_start_matches('.').to_owned())
    });
    paths.collect()
}

/// The program's place is taken by a small one, that its pages come from a stand-in for the generator: what these say is
/// looked at where the real one is built.
fn stand_ins(scratch: &Path) -> Built {
    use std::os::unix::fs::PermissionsExt as _;
    let generate = scratch.join("generate");
    let script = "#!/bin/sh\nset -e\ntest \"$1\" = man || { echo \"# $2\"; exit; }\nmkdir -p \"$3\"\n\
                  printf '.TH iotrace 1\\n.SH NAME\\niotrace \\\\- a page\\n' | tee \"$3/iotrace.1\" >\"$3/iotrace-record.1\"\n";
    fs::write(&generate, script).unwrap();
    fs::set_permissions(&generate, fs::Permissions::from_mode(0o755)).unwrap();
    Built {
        iotrace: "/bin/true".into(),
        generate,
    }
}

/// Where a package has the pages of this directory of the documentation, and of those in it.
fn pages(directory: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => pages(&entry.path(), &name, found),
            false => found.push(format!("/usr/share/doc/iotrace-daemon{name}")),
        }
    }
}

#[test]
fn both_packages_have_what_belongs_on_a_machine() {
    let scratch = Scratch::new("packages");
    let [deb, rpm] = packages(&stand_ins(&scratch.0), &scratch.0.join("made")).unwrap();
    let [deb, rpm] = [deb, rpm].map(|path| path.to_str().unwrap().to_owned());
    let of_deb = files(&output("dpkg-deb", &["--contents", &deb]));
    let database = format!("--dbpath={}", scratch.0.join("rpmdb").display());
    let ask_rpm = |what: &str| output("rpm", &[&database, "--query", "--package", what, &rpm]);
    let of_rpm = files(&ask_rpm("--list"));
    let mut documents = Vec::new();
    pages(&cmd::root().join("docs"), "", &mut documents);
    assert!(
        documents
            .iter()
            .any(|page| page.ends_with("/guide/service.md"))
    );
    let expected = tree::files()
        .map(|(_, to, _)| format!("/{}", to.display()))
        .chain(documents)
        .chain(
            [
                "/usr/bin/iotrace",
                "/usr/share/man/man1/iotrace.1.gz",
                "/usr/share/man/man1/iotrace-record.1.gz",
                "/usr/share/bash-completion/completions/iotrace",
                "/usr/share/fish/vendor_completions.d/iotrace.fish",
            ]
            .map(str::to_owned),
        );
    for file in expected {
        assert!(
            of_deb.contains(&file),
            "{file} is not in the deb: {of_deb:#?}"
        );
        assert!(
            of_rpm.contains(&file),
            "{file} is not in the rpm: {of_rpm:#?}"
        );
    }
    for file in [
        "/usr/share/doc/iotrace-daemon/copyright",
        "/usr/share/doc/iotrace-daemon/NOTICES.gz",
        "/usr/share/zsh/vendor-completions/_iotrace",
    ] {
        assert!(of_deb.contains(file), "{file} is not in the deb");
    }
    for file in [
        "/usr/share/licenses/iotrace-daemon/LICENSE-GPL2",
        "/usr/share/licenses/iotrace-daemon/NOTICES.gz",
        "/usr/share/zsh/site-functions/_iotrace",
    ] {
        assert!(of_rpm.contains(file), "{file} is not in the rpm");
    }
    // The other program of the name.
    let field = |name| output("dpkg-deb", &["--field", &deb, name]);
    assert_eq!(field("Conflicts").trim(), "iotrace");
    assert_eq!(ask_rpm("--conflicts").trim(), "iotrace");
    assert!(
        !ask_rpm("--provides")
            .lines()
            .any(|line| line.trim() == "iotrace")
    );
    assert!(field("Depends").starts_with("libc6 (>= 2."));
    assert!(ask_rpm("--requires").contains("libc.so.6(GLIBC_2."));
    assert_eq!(ask_rpm("--configfiles").trim(), "/etc/iotrace/iotrace.toml");
    let scripts = ask_rpm("--scripts");
    for word in [
        "systemd-sysusers iotrace.conf",
        "disable --now",
        "try-restart",
    ] {
        assert!(scripts.contains(word), "{word} is not in {scripts}");
    }
    lintian_finds_no_fault(&deb);
    installs_and_leaves(&scratch.0.join("root"), &deb);
}

#[test]
fn an_archive_has_what_a_user_needs_and_its_checksum() {
    let scratch = Scratch::new("archives");
    let Built { iotrace, generate } = stand_ins(&scratch.0);
    let made = scratch.0.join("archives");
    let programs = archive::TARGETS.map(|target| (target.arch, iotrace.clone()));
    let files = archive::archives(&programs, &generate, &made).unwrap();
    let names: Vec<&str> = files
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap())
        .collect();
    let prefix = format!("iotrace-{VERSION}");
    assert_eq!(
        names,
        [
            format!("{prefix}-linux-x86_64.tar.gz"),
            format!("{prefix}-linux-aarch64.tar.gz"),
            format!("{prefix}-py3-none-any.whl"),
            format!("{prefix}.cdx.json"),
            "SHA256SUMS".to_owned(),
        ]
    );
    let list = output("tar", &["--list", "--file", files[0].to_str().unwrap()]);
    for name in [
        "iotrace",
        "man/man1/iotrace.1",
        "man/man1/iotrace-record.1",
        "completions/iotrace.bash",
        "completions/_iotrace",
        "completions/iotrace.fish",
        "deploy/systemd/iotrace.service",
        "deploy/iotrace.toml",
        "docs/README.md",
        "README.md",
        "LICENSE-MIT",
        "NOTICES",
    ] {
        let path = format!("{prefix}-linux-x86_64/{name}");
        assert!(list.lines().any(|line| line == path), "{path}: {list}");
    }
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&made)
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    // The same source makes the same archive.
    let again = archive::archives(&programs, &generate, &scratch.0.join("again")).unwrap();
    for (one, other) in files.iter().zip(&again) {
        assert_eq!(fs::read(one).unwrap(), fs::read(other).unwrap(), "{one:?}");
    }
    the_wheel_can_be_used(&files[2]);
    let text = fs::read_to_string(&files[3]).unwrap();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let components = list["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    let tokio = named("tokio").expect("a crate that is compiled in");
    assert!(
        tokio["purl"]
            .as_str()
            .unwrap()
            .starts_with("pkg:cargo/tokio@")
    );
    assert!(named("tempfile").is_none(), "only tests use it");
}

/// The wheel needs nothing: its callbacks work on stand-ins of the frameworks, which call them as these do, and a stand-in of the
/// library sees ranges that end in order.
fn the_wheel_can_be_used(wheel: &Path) {
    let wheel = wheel.to_str().unwrap();
    let needs = output("unzip", &["-p", wheel, "*/METADATA"]);
    assert!(!needs.contains("Requires-Dist"), "{needs}");
    let said = output(
        "python3",
        &["-IS", "-c", include_str!("callbacks.py"), wheel],
    );
    assert_eq!(said.trim(), "ok");
}

/// An address that nobody reads is all that it may find.
fn lintian_finds_no_fault(deb: &str) {
    let suppressed = "bogus-mail-host,bogus-mail-host-in-debian-changelog,\
                      possible-gpl-code-linked-with-openssl";
    let args = [
        "--allow-root",
        "--fail-on",
        "error,warning",
        "--suppress-tags",
        suppressed,
        deb,
    ];
    output("lintian", &args);
}

/// In a root that dpkg takes for a system's.
fn installs_and_leaves(root: &Path, package: &str) {
    for directory in [
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "etc",
        "usr/lib",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::os::unix::fs::symlink("usr/lib", root.join("lib")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let in_root = format!("--root={}", root.display());
    let dpkg = |action: &[&str]| {
        let mut args = vec![
            in_root.as_str(),
            "--force-script-chrootless",
            "--force-depends",
        ];
        args.push("--force-not-root");
        args.extend(action);
        output("dpkg", &args)
    };
    dpkg(&["-i", package]);
    for (from, to, _) in tree::files() {
        assert_eq!(fs::read(from).unwrap(), fs::read(root.join(to)).unwrap());
    }
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(passwd.contains("iotrace:"), "no user: {passwd}");
    let wanted = root.join("etc/systemd/system/multi-user.target.wants/iotrace.service");
    assert!(wanted.is_symlink(), "the service is not enabled");
    // A configuration that was changed survives an upgrade and a removal, and goes with a purge.
    let config = root.join("etc/iotrace/iotrace.toml");
    fs::write(&config, "[http]\n").unwrap();
    for action in [&["-i", package][..], &["-r", NAME]] {
        dpkg(action);
        assert_eq!(fs::read_to_string(&config).unwrap(), "[http]\n");
    }
    assert!(!root.join("usr/bin/iotrace").exists());
    dpkg(&["-P", NAME]);
    assert!(!config.exists() && !wanted.is_symlink());
}

#[test]
fn the_notices_name_every_crate_and_hold_its_licence() {
    let text = notices::text().unwrap();
    for name in ["aya ", "tokio ", "prometheus-client ", "aya-ebpf ", "uPlot"] {
        let listed = text.lines().any(|line| line.trim_start().starts_with(name));
        assert!(listed, "{name} is not listed");
    }
    // What only tests or builds is not in the binary.
    for name in ["rcgen", "tempfile", "globset"] {
        assert!(!text.contains(&format!("  {name} ")), "{name} is listed");
    }
    assert!(text.contains("Apache License") && text.contains("Permission is hereby granted"));
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = fs::read_to_string(cmd::root().join("deploy/helm/iotrace/Chart.yaml")).unwrap();
    for key in ["version", "appVersion"] {
        let line = format!("{key}: {VERSION}");
        assert!(chart.lines().any(|found| found == line), "no `{line}`");
    }
}
