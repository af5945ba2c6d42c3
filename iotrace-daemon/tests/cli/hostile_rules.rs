//! Rules that are small to write and large to compile: each ends soon, with an error that says what to change, or is used.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Most CPU time of `iotrace phases check`, which compiles the rules twice and then looks whether each can win. A rule set
/// gets 2 s for each of these, or ten times what the built-in rules take on this machine.
const MAX_CPU_TIME: Duration = Duration::from_secs(15);
/// Most memory, KiB.
const MAX_RESIDENT: i64 = 512 << 10;

struct Ended {
    code: i32,
    said: String,
}

/// Runs `iotrace phases check`, and fails where that took long or much memory.
fn check(file: &Path, what: &str) -> Ended {
    let out = file.with_extension("out");
    let to = || {
        Stdio::from(
            File::options()
                .append(true)
                .create(true)
                .open(&out)
                .unwrap(),
        )
    };
    #[expect(clippy::zombie_processes, reason = "wait4 below, for what it used")]
    let child = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(["phases", "check"])
        .arg(file)
        .stdout(to())
        .stderr(to())
        .spawn()
        .unwrap();
    let mut status = 0;
    // SAFETY: integers, of which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a child of this process that nobody else waits for, and places that live through the call.
    let pid = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!(pid, child.id() as i32);
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    assert!(cpu < MAX_CPU_TIME, "{what}: {cpu:?} of CPU time");
    let resident = usage.ru_maxrss;
    assert!(resident < MAX_RESIDENT, "{what}: {resident} KiB");
    assert!(libc::WIFEXITED(status), "{what}: ended by a signal");
    let said = fs::read_to_string(&out).unwrap();
    fs::remove_file(out).unwrap();
    println!(
        "{what}: {cpu:?}, {resident} KiB: {:.200}",
        said.lines().next().unwrap_or_default()
    );
    Ended {
        code: libc::WEXITSTATUS(status),
        said,
    }
}

/// A rule for each line, which is the rest of its table.
fn rules(all: impl IntoIterator<Item = String>) -> String {
    let rule =
        |(number, rest)| format!("[[rule]]\nname = \"r{number}\"\nphase = \"training\"\n{rest}\n");
    all.into_iter().enumerate().map(rule).collect()
}

fn globs(globs: impl IntoIterator<Item = String>) -> String {
    let globs: Vec<String> = globs.into_iter().map(|glob| format!("{glob:?}")).collect();
    format!("glob = [{}]", globs.join(", "))
}

fn glob(text: impl Into<String>) -> String {
    globs([text.into()])
}

/// As many parts as there are numbers, joined.
fn joined(numbers: std::ops::Range<u32>, by: &str, part: impl Fn(u32) -> String) -> String {
    numbers.map(part).collect::<Vec<_>>().join(by)
}

#[test]
fn rules_of_hostile_size_end_soon() {
    let too_large = "write fewer * and **";
    let all: Vec<(&str, String, &str)> = vec![
        (
            "a glob of 1 MB",
            rules([glob("a".repeat(1_000_000))]),
            "at most 4096",
        ),
        (
            "65,000 ?",
            rules([glob("?".repeat(65_000))]),
            "at most 4096",
        ),
        (
            "100,000 rules",
            rules((0..100_000).map(|n| glob(format!("/a{n}")))),
            "at most 4095 can be used",
        ),
        (
            "4,095 rules of stars",
            rules((0..4095).map(|n| glob(format!("*a{n}*b{n}*")))),
            "rules",
        ),
        ("4,000 ?", rules([glob("?".repeat(4000))]), ""),
        ("2,000 stars", rules([glob("*a".repeat(2000))]), too_large),
        (
            "stars and ?",
            rules([glob(format!("*a{}", "?".repeat(30)))]),
            too_large,
        ),
        (
            "ten rules with stars within",
            rules((0..10).map(|n| glob(format!("*a{n}*b{n}*")))),
            too_large,
        ),
        (
            "3,900 rules",
            rules((0..3900).map(|n| glob(format!("/a{n}")))),
            "",
        ),
        (
            "250 long globs",
            rules((0..250).map(|n| glob(format!("{}{n}", "a".repeat(4000))))),
            too_large,
        ),
        (
            "many **",
            rules([glob(joined(0..200, "/**/", |n| format!("ab{n}")))]),
            too_large,
        ),
        (
            "rules of many **",
            rules((0..40).map(|_| glob(joined(0..40, "/**/", |n| format!("*a{n}*"))))),
            too_large,
        ),
        (
            "** and ?",
            rules([glob(format!("a/**/{}/**/b", "?".repeat(2000)))]),
            too_large,
        ),
        (
            "deep braces",
            rules([glob("{".repeat(2000) + "a" + &"}".repeat(2000))]),
            "braces",
        ),
        (
            "many braces",
            rules([glob("{*a,b*}".repeat(500))]),
            too_large,
        ),
        (
            "2,000 globs of one rule",
            rules([globs((0..2000).map(|n| format!("*a{n}*b{n}*")))]),
            too_large,
        ),
        (
            "9,000 globs of one rule",
            rules([globs((0..9000).map(|n| format!("{n}*{n}")))]),
            too_large,
        ),
        (
            "4,000 rules that cannot win",
            rules((0..4000).map(|_| glob("*abcdefgh*") + "\nignore_case = true")),
            "",
        ),
        (
            "globs of long tails",
            rules([globs(
                (0..256).map(|n| format!("*x{n}{}", "?".repeat(4000))),
            )]),
            too_large,
        ),
        (
            "suffixes of every length",
            rules((1..400).map(|n| glob(format!("*{}", "?".repeat(n))))),
            too_large,
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (what, text, words) in all {
        let file = dir.path().join("rules.toml");
        fs::write(&file, text).unwrap();
        let ended = check(&file, what);
        assert!(ended.said.contains(words), "{what}: {}", ended.said);
        assert!(ended.code == 0 || ended.code == 1, "{what}: {}", ended.said);
    }
}

#[test]
fn rules_that_never_end_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let zero = dir.path().join("zero.toml");
    symlink("/dev/zero", &zero).unwrap();
    let pipe = dir.path().join("pipe.toml");
    let status = Command::new("mkfifo").arg(&pipe).status();
    assert!(status.unwrap().success());
    let large = dir.path().join("large.toml");
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    for (file, words) in [
        (zero, "not a regular file"),
        (pipe, "not a regular file"),
        (large, "more than 16 MiB"),
    ] {
        let ended = check(&file, words);
        assert!(
            ended.code == 1 && ended.said.contains(words),
            "{}",
            ended.said
        );
    }
}
