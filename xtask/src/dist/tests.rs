//! Packages and archives: what is in them, and that dpkg installs, upgrades, removes and purges its own.

use std::collections::BTreeSet;
use std::process::Command;

use super::tree::Part;
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
            false => found.push(format!("/usr/share/doc/iotrace{name}")),
        }
    }
}

/// The repository's files of a part, as they are on a machine.
fn of_part(part: Part) -> Vec<String> {
    let files = tree::files(part);
    files
        .map(|(_, to, _)| format!("/{}", to.display()))
        .collect()
}

#[track_caller]
fn has(found: &BTreeSet<String>, expected: &[impl AsRef<str>]) {
    for file in expected {
        let file = file.as_ref();
        assert!(found.contains(file), "{file} is not in {found:#?}");
    }
}

/// What all packages of the program have.
fn of_program() -> Vec<String> {
    let mut expected = of_part(Part::Program);
    pages(&cmd::root().join("docs"), "", &mut expected);
    assert!(
        expected
            .iter()
            .any(|page| page.ends_with("/guide/service.md"))
    );
    let generated = [
        "/usr/bin/iotrace",
        "/usr/share/man/man1/iotrace.1.gz",
        "/usr/share/man/man1/iotrace-record.1.gz",
        "/usr/share/bash-completion/completions/iotrace",
        "/usr/share/fish/vendor_completions.d/iotrace.fish",
    ];
    expected.extend(generated.map(str::to_owned));
    expected
}

#[test]
fn the_packages_have_what_belongs_on_a_machine() {
    let scratch = Scratch::new("packages");
    let Packages { debs, rpms } =
        packages(&stand_ins(&scratch.0), &scratch.0.join("made")).unwrap();
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let (debs, rpms) = (debs.map(text), rpms.map(text));
    let [program, service] = debs
        .each_ref()
        .map(|deb| files(&output("dpkg-deb", &["--contents", deb])));
    has(&program, &of_program());
    has(
        &program,
        &[
            "/usr/share/doc/iotrace/copyright",
            "/usr/share/doc/iotrace/NOTICES.gz",
            "/usr/share/zsh/vendor-completions/_iotrace",
        ],
    );
    has(&service, &of_part(Part::Service));
    has(&service, &["/usr/share/doc/iotrace-daemon/copyright"]);
    let both: Vec<_> = program.intersection(&service).collect();
    assert!(both.is_empty(), "in both: {both:?}");
    let field = |part: usize, name| output("dpkg-deb", &["--field", &debs[part], name]);
    assert!(field(0, "Depends").starts_with("libc6 (>= 2."));
    let same = format!("iotrace (= {VERSION}-{REVISION})");
    assert!(field(1, "Depends").starts_with(&same));
    for deb in &debs {
        lintian_finds_no_fault(deb);
    }
    the_rpms_have_it(&scratch.0, &rpms);
    installs_and_leaves(&scratch.0.join("root"), &debs);
    replaces_the_single_package(&scratch.0, &debs);
    leaves_the_other_program(&scratch.0, &debs[0]);
}

fn the_rpms_have_it(scratch: &Path, rpms: &[String; 2]) {
    let database = format!("--dbpath={}", scratch.join("rpmdb").display());
    let ask = |part: usize, what: &str| {
        output(
            "rpm",
            &[&database, "--query", "--package", what, &rpms[part]],
        )
    };
    let [program, service] = [0, 1].map(|part| files(&ask(part, "--list")));
    has(&program, &of_program());
    has(
        &program,
        &[
            "/usr/share/licenses/iotrace/LICENSE-GPL2",
            "/usr/share/licenses/iotrace/NOTICES.gz",
            "/usr/share/zsh/site-functions/_iotrace",
        ],
    );
    has(&service, &of_part(Part::Service));
    let both: Vec<_> = program.intersection(&service).collect();
    assert!(both.is_empty(), "in both: {both:?}");
    assert!(ask(0, "--requires").contains("libc.so.6(GLIBC_2."));
    let line = |part: usize, what: &str, expected: &str| {
        let said = ask(part, what);
        assert!(said.lines().any(|line| line.trim() == expected), "{said}");
    };
    line(0, "--conflicts", &format!("iotrace-daemon < {SPLIT}"));
    line(1, "--requires", &format!("iotrace = {VERSION}-{REVISION}"));
    line(1, "--configfiles", "/etc/iotrace/iotrace.toml");
    let scripts = ask(1, "--scripts");
    for word in [
        "systemd-sysusers iotrace.conf",
        "disable --now",
        "try-restart",
    ] {
        assert!(scripts.contains(word), "{word} is not in {scripts}");
    }
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
    assert!(named("rcgen").is_none(), "only tests use it");
}

/// The wheel needs nothing, and a stand-in of the library sees ranges that end in order. The callbacks are tested by
/// `cargo xtask frameworks`.
fn the_wheel_can_be_used(wheel: &Path) {
    let wheel = wheel.to_str().unwrap();
    let needs = output("unzip", &["-p", wheel, "*/METADATA"]);
    assert!(!needs.contains("Requires-Dist"), "{needs}");
    let said = output("python3", &["-IS", "-c", include_str!("wheel.py"), wheel]);
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

/// A directory that dpkg takes for a system's root.
struct Root(PathBuf);

impl Root {
    fn new(root: PathBuf) -> Self {
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
        Self(root)
    }

    fn arguments<'a>(&'a self, in_root: &'a mut String, action: &[&'a str]) -> Vec<&'a str> {
        *in_root = format!("--root={}", self.0.display());
        let mut args = vec![
            in_root.as_str(),
            "--force-script-chrootless",
            "--force-depends",
            "--force-not-root",
        ];
        args.extend(action);
        args
    }

    /// Runs dpkg, which must succeed.
    fn dpkg(&self, action: &[&str]) -> String {
        output("dpkg", &self.arguments(&mut String::new(), action))
    }

    /// Runs dpkg, which must fail; what it says on standard error.
    fn refuses(&self, action: &[&str]) -> String {
        let mut command = Command::new("dpkg");
        let out = command
            .args(self.arguments(&mut String::new(), action))
            .output()
            .unwrap();
        assert!(!out.status.success(), "{action:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap()
    }
}

const CONFIG: &str = "etc/iotrace/iotrace.toml";
const WANTED: &str = "etc/systemd/system/multi-user.target.wants/iotrace.service";
const CHANGED: &str = "[http]\n";

fn installs_and_leaves(root: &Path, [program, service]: &[String; 2]) {
    let root = Root::new(root.to_owned());
    // The program alone is no service.
    root.dpkg(&["-i", program]);
    assert!(root.0.join("usr/bin/iotrace").exists());
    assert!(!root.0.join(CONFIG).exists() && !root.0.join(WANTED).is_symlink());
    root.dpkg(&["-i", service]);
    for (from, to, _) in Part::ALL.into_iter().flat_map(tree::files) {
        assert_eq!(fs::read(from).unwrap(), fs::read(root.0.join(to)).unwrap());
    }
    assert!(root.read("etc/passwd").contains("iotrace:"), "no user");
    let is_enabled = || root.0.join(WANTED).is_symlink();
    assert!(is_enabled());
    // A configuration that was changed survives an upgrade and a removal, and goes with a purge.
    fs::write(root.0.join(CONFIG), CHANGED).unwrap();
    for action in [&["-i", program, service][..], &["-r", "iotrace-daemon"]] {
        root.dpkg(action);
        assert_eq!(root.read(CONFIG), CHANGED);
    }
    assert!(root.0.join("usr/bin/iotrace").exists());
    root.dpkg(&["-P", "iotrace-daemon", "iotrace"]);
    assert!(!root.0.join(CONFIG).exists() && !is_enabled());
    assert!(!root.0.join("usr/bin/iotrace").exists());
}

/// Makes a package of the files in `stage`, with such a control file.
fn build(stage: &Path, control: &str) -> String {
    fs::create_dir_all(stage.join("DEBIAN")).unwrap();
    let control =
        format!("{control}Architecture: all\nMaintainer: a <a@localhost>\nDescription: a\n");
    fs::write(stage.join("DEBIAN/control"), control).unwrap();
    let package = stage.with_extension("deb");
    let package = package.to_str().unwrap();
    let stage = stage.to_str().unwrap();
    output(
        "dpkg-deb",
        &["--build", "--root-owner-group", stage, package],
    );
    package.to_owned()
}

/// The package that had all of it is upgraded, whatever the order: no file is in the way, and the configuration stays.
fn replaces_the_single_package(scratch: &Path, [program, service]: &[String; 2]) {
    let stage = scratch.join("single");
    for (from, to, mode) in Part::ALL.into_iter().flat_map(tree::files) {
        tree::install(&from, &stage.join(to), mode).unwrap();
    }
    tree::install(
        Path::new("/bin/true"),
        &stage.join("usr/bin/iotrace"),
        0o755,
    )
    .unwrap();
    let scripts = cmd::root().join("deploy/debian/iotrace-daemon");
    for script in ["postinst", "prerm", "postrm"] {
        let to = stage.join("DEBIAN").join(script);
        tree::install(&scripts.join(script), &to, 0o755).unwrap();
    }
    fs::write(stage.join("DEBIAN/conffiles"), format!("/{CONFIG}\n")).unwrap();
    let single = build(
        &stage,
        "Package: iotrace-daemon\nVersion: 0.1.0\nConflicts: iotrace\n",
    );
    let orders: [&[&str]; 2] = [
        &["--auto-deconfigure", "-i", program, service],
        &["-i", service, program],
    ];
    for (number, order) in orders.into_iter().enumerate() {
        let root = Root::new(scratch.join(format!("upgraded-{number}")));
        root.dpkg(&["-i", &single]);
        fs::write(root.0.join(CONFIG), CHANGED).unwrap();
        root.dpkg(order);
        assert_eq!(root.read(CONFIG), CHANGED);
        for (file, package) in [
            ("/usr/bin/iotrace", "iotrace"),
            ("/usr/share/iotrace/marker/iotrace.h", "iotrace"),
            ("/etc/iotrace/iotrace.toml", "iotrace-daemon"),
        ] {
            let owner = root.dpkg(&["-S", file]);
            assert_eq!(owner.trim(), format!("{package}: {file}"));
            assert!(root.0.join(&file[1..]).exists(), "{file}");
        }
        assert!(root.0.join(WANTED).is_symlink());
        let said = root.dpkg(&["--audit"]);
        assert!(said.is_empty(), "{said}");
    }
}

/// Another program has a package of the same name.
fn leaves_the_other_program(scratch: &Path, program: &str) {
    let stage = scratch.join("other");
    tree::install(
        Path::new("/bin/false"),
        &stage.join("usr/bin/iotrace"),
        0o755,
    )
    .unwrap();
    let other = build(&stage, "Package: iotrace\nVersion: 22.3\n");
    let root = Root::new(scratch.join("with-other"));
    root.dpkg(&["-i", &other]);
    let said = root.refuses(&["-i", program]);
    assert!(said.contains("is another program"), "{said}");
    let left = fs::read(root.0.join("usr/bin/iotrace")).unwrap();
    assert_eq!(left, fs::read("/bin/false").unwrap());
}

#[test]
fn the_notices_name_every_crate_and_hold_its_licence() {
    let text = notices::text().unwrap();
    for name in ["aya ", "tokio ", "prometheus-client ", "aya-ebpf ", "uPlot"] {
        let listed = text.lines().any(|line| line.trim_start().starts_with(name));
        assert!(listed, "{name} is not listed");
    }
    // What only tests or builds is not in the binary.
    for name in ["rcgen", "libfuzzer-sys", "globset"] {
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
