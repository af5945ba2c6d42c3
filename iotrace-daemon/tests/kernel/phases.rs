//! The phases that the kernel side sorts operations into: the same as user space's on any path, exact merged time, and
//! new ones for files whose name changes.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::common::{Iotrace, compare, directory, number, text, truth};
use iotrace_model::Model;
use iotrace_phases::{
    Classifier,
    phase::{Class, Direction, Phase},
    rules::Rule,
};

const FILES: usize = 4_000;
const DIRECTORIES: usize = 200;

/// Pseudo-random numbers (xorshift), so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// One text that a glob could match, roughly.
fn fill(glob: &str, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let until = |end| rest.find(end).expect("the end of it");
        match c {
            '*' => out.extend(std::iter::repeat_n(b'x', random.below(3))),
            '{' => {
                let options: Vec<&str> = rest[..until('}')].split(',').collect();
                out.extend(fill(options[random.below(options.len())], random));
                rest = &rest[until('}') + 1..];
            }
            '[' => {
                out.push(rest.as_bytes()[random.below(until(']'))]);
                rest = &rest[until(']') + 1..];
            }
            c => out.extend(c.to_string().bytes()),
        }
    }
    out
}

/// Names that the rules ask for: their own globs with the operators filled in.
fn vocabulary(rules: &[Rule], random: &mut Random) -> Vec<Vec<u8>> {
    let globs = rules.iter().flat_map(|rule| &rule.globs);
    let filled: Vec<_> = globs.map(|glob| fill(glob.text(), random)).collect();
    let names = filled
        .iter()
        .flat_map(|path| path.split(|byte| *byte == b'/'));
    names
        .filter(|name| is_name(name))
        .map(<[u8]>::to_vec)
        .collect()
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= 255 && name != b"." && name != b".." && !name.contains(&0)
}

/// A name: of the vocabulary, of two of them, with any bytes in it, or as long as a name can be.
fn name(vocabulary: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut name = vocabulary[random.below(vocabulary.len())].clone();
    match random.below(12) {
        0 => name.extend(&vocabulary[random.below(vocabulary.len())]),
        1 => {
            let at = random.below(name.len());
            name[at] = 1 + random.below(255) as u8;
        }
        2 => name
            .splice(
                0..0,
                std::iter::repeat_n(b'a', 255_usize.saturating_sub(name.len())),
            )
            .for_each(drop),
        _ => {}
    }
    name.retain(|byte| *byte != b'/');
    if is_name(&name) {
        name
    } else {
        b"plain".to_vec()
    }
}

/// Makes a file somewhere below `top`; none where its name is taken by something else.
fn make(top: &Path, depth: usize, vocabulary: &[Vec<u8>], random: &mut Random) -> Option<PathBuf> {
    let mut path = top.as_os_str().as_bytes().to_vec();
    for _ in 0..depth {
        let name = name(vocabulary, random);
        if path.len() + name.len() > 3_900 {
            break;
        }
        path.push(b'/');
        path.extend(name);
    }
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
    fs::create_dir_all(path.parent()?).ok()?;
    let file = fs::File::options().write(true).create_new(true).open(&path);
    file.ok().map(|_| path)
}

/// Every file and directory of a recording by its path, with the phases that it was used in.
fn used(model: &Model) -> HashMap<Vec<u8>, BTreeSet<u16>> {
    let files = (0..model.file_count() as u32).map(|index| model.file(index));
    files
        .map(|file| (file.path.to_vec(), file.phases.codes().collect()))
        .collect()
}

#[test]
fn kernel_and_user_space_agree() {
    let classifier = Classifier::builtin();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let vocabulary = vocabulary(classifier.rules().all(), &mut random);
    let (_keep, dir) = directory();
    let mut files = Vec::new();
    while files.len() < FILES {
        // Most are as deep as paths are; a few as deep as they can be.
        let depth = match random.below(60) {
            0 => 30 + random.below(150),
            _ => 1 + random.below(6),
        };
        files.extend(make(&dir, depth, &vocabulary, &mut random));
    }
    let parents: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    let directories: Vec<&Path> = parents.into_iter().take(DIRECTORIES).collect();
    let mut list: Vec<u8> = Vec::new();
    for file in &files {
        list.extend(file.as_os_str().as_bytes());
        list.push(0);
    }
    for directory in &directories {
        list.extend(directory.as_os_str().as_bytes());
        list.extend(b"/\0");
    }
    let list_path = dir.join("the list");
    fs::write(&list_path, list).expect("the list");

    let finished = Iotrace::record()
        .entries("65536")
        .args(["--detail", "basic"])
        .workload(["visit".as_ref(), list_path.as_os_str()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (_, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let used = used(&recorded.model);
    let mut by_phase: HashMap<u16, usize> = HashMap::new();
    let mut check = |path: &Path, is_directory: bool, directions: &[Direction]| {
        let path = path.as_os_str().as_bytes();
        let verdict = classifier.verdict(path, is_directory, "");
        let phases = directions
            .iter()
            .map(|direction| verdict.phase(*direction).code());
        let expected: BTreeSet<u16> = phases.collect();
        for phase in &expected {
            *by_phase.entry(*phase).or_default() += 1;
        }
        assert_eq!(
            used.get(path),
            Some(&expected),
            "{} (directory: {is_directory})",
            String::from_utf8_lossy(path)
        );
    };
    files
        .iter()
        .for_each(|file| check(file, false, &Direction::ALL));
    directories
        .iter()
        .for_each(|directory| check(directory, true, &[Direction::Read]));
    // The corpus has something of every phase that a path alone can give here.
    for phase in Phase::ALL {
        let found = by_phase.get(&phase.code()).copied().unwrap_or(0);
        let by_place = [Class::System, Class::Ipc].map(|class| Phase::Other(Some(class)));
        assert!(
            found > 20 || by_place.contains(&phase),
            "{found} of {phase}"
        );
    }
}

#[test]
fn filesystems_without_storage_are_sorted_by_their_type() {
    let finished = Iotrace::record().command([
        "/bin/cat",
        "/proc/self/stat",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ]);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let used = used(&recorded.model);
    let system = Phase::Other(Some(Class::System)).code();
    let of_type: Vec<_> = used
        .iter()
        .filter(|(path, _)| path.starts_with(b"/proc/") || path.starts_with(b"/sys/"))
        .collect();
    assert!(of_type.len() >= 2, "{of_type:?}");
    for (path, phases) in of_type {
        assert_eq!(phases, &BTreeSet::from([system]), "{path:?}");
    }
    let program = used.get(b"/usr/lib/x86_64-linux-gnu/libc.so.6".as_slice());
    if cfg!(target_arch = "x86_64") {
        assert_eq!(program, Some(&BTreeSet::from([Phase::Startup.code()])));
    }
}

#[test]
fn merged_time_is_the_union_of_calls() {
    for hook in ["btf", "tracepoint"] {
        for detail in ["basic", "full"] {
            merged(hook, detail);
        }
    }
}

fn merged(hook: &str, detail: &str) {
    let (_keep, dir) = directory();
    let finished = Iotrace::record()
        .hook(hook)
        .args(["--detail", detail])
        .workload(["merged".as_ref(), dir.as_os_str()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    assert_eq!(number(&report["losses"], "unmerged_calls"), 0);
    let unsure = number(&report["losses"], "merged_uncertain_ns");
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let live = recorded.model.processes();
    for case in truth["merged"].as_array().expect("cases") {
        let role = text(case, "role");
        let pid = number(case, "pid");
        let process = live.iter().find(|process| u64::from(process.id.pid) == pid);
        let process = process.unwrap_or_else(|| panic!("no process of {role}"));
        for phase in [Phase::Training, Phase::Checkpoint] {
            let union = number(&case["union_ns"], phase.name());
            let done = process.phases.total(phase.code());
            let what =
                format!("{hook} {detail}, {role}, {phase}: {done:?}, {union} by the program");
            assert!(done.merged_ns <= union + unsure, "{what}");
            assert!(done.merged_ns <= done.ns + unsure, "{what}");
            // The program's own clock runs on while the call waits for a processor, so from below only the calls count.
            let at_one_time = match role {
                "two phases" => 1,
                _ => number(case, "threads"),
            };
            assert!(done.merged_ns + unsure >= done.ns / at_one_time, "{what}");
            // Calls that do not overlap add up to the nanosecond.
            if matches!(role, "one thread" | "in turn" | "with a fork") {
                assert_eq!(done.merged_ns, done.ns, "{what}");
            }
        }
    }
    check_rows(&recorded.model);
}

/// By files and by process the merged time is the same.
fn check_rows(model: &Model) {
    use iotrace_model::counters::{UNION_READ_NS, UNION_WRITE_NS};
    for (index, process) in model.processes().iter().enumerate() {
        let rows = model
            .rows()
            .iter()
            .filter(|row| row.process as usize == index);
        let counters = rows.map(|row| row.cell.total());
        let all = counters.chain([process.path_only.total(), process.overflow.total()]);
        let by_file: u64 = all
            .map(|all| all.v[UNION_READ_NS] + all.v[UNION_WRITE_NS])
            .sum();
        let by_phase: u64 = (0..10)
            .map(|phase| process.phases.total(phase).merged_ns)
            .sum();
        assert_eq!(by_file, by_phase, "process {}", process.id.pid);
    }
}

#[test]
fn a_rename_sorts_a_file_again() {
    let (_keep, dir) = directory();
    let finished = Iotrace::record().workload(["renamed".as_ref(), dir.as_os_str()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let (truth, report) = finished.truth_and_report();
    compare::nothing_lost(&report);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let saver = &truth::processes(&truth)[0];
    compare::same(saver, &report);
    let used = used(&recorded.model);
    let renamed = [Phase::Checkpoint, Phase::Restore, Phase::UNMATCHED].map(Phase::code);
    for file in ["model.ckpt", "checkpoint-100/weights"] {
        let path = dir.join(file);
        assert_eq!(
            used.get(path.as_os_str().as_bytes()),
            Some(&BTreeSet::from(renamed)),
            "{file}"
        );
        // The whole file is a checkpoint to who looks at it afterwards.
        let row = compare::row(&report, saver.pid, path.to_str().expect("UTF-8"));
        assert_eq!(text(row, "phase"), "checkpoint", "{row}");
    }
    // Each operation had the phase of the name that it was done under.
    let processes = recorded.model.processes();
    let process = processes
        .iter()
        .find(|process| u64::from(process.id.pid) == saver.pid);
    let process = process.expect("the process");
    let bytes = |phase: Phase| {
        let done = process.phases.total(phase.code());
        (done.bytes_read / 4096, done.bytes_written / 4096)
    };
    assert_eq!(bytes(Phase::UNMATCHED), (0, 6));
    assert_eq!(bytes(Phase::Checkpoint), (0, 4));
    assert_eq!(bytes(Phase::Restore), (2, 0));
    let checkpoint = &report["phases"]["checkpoint"];
    assert_eq!(
        number(checkpoint, "bytes_written"),
        10 * 4096,
        "{checkpoint}"
    );
}

#[test]
fn phases_survive_the_recording() {
    let (_keep, dir) = directory();
    fs::write(dir.join("images.npy"), [0; 5_000]).expect("a file");
    let finished =
        Iotrace::record().command(["/bin/cat".as_ref(), dir.join("images.npy").as_os_str()]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let [process] = recorded.model.processes() else {
        panic!("one process")
    };
    let done = process.phases.total(Phase::Training.code());
    // open, fstat, fadvise is none, two reads, close
    assert_eq!(done.bytes_read, 5_000);
    assert!((4..=6).contains(&done.operations), "{done:?}");
    assert!(done.merged_ns > 0 && done.merged_ns == done.ns, "{done:?}");
}

const USERS: &str = r#"
[[rule]]
name = "shards"
phase = "training"
direction = "read"
glob = "*.shard"

[thresholds]
tiny_calls = 5
"#;

#[test]
fn the_users_rules_hold_in_the_kernel_and_in_the_report() {
    let (_keep, dir) = directory();
    // Two reads after an open are a header and the rest.
    fs::write(dir.join("a.shard"), [b'x'; 20_000]).expect("a file");
    fs::write(dir.join("mine.toml"), USERS).expect("rules");
    let script =
        "for i in 1 2 3; do { read -r -N 1 x; read -r -N 1 y; read -r -N 1 z; } < a.shard; done";
    for args in [vec!["--rules", "mine.toml"], vec![]] {
        let finished =
            Iotrace::record()
                .current_dir(&dir)
                .args(&args)
                .command(["/bin/bash", "-c", script]);
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        let report = finished.report();
        let mut rows = report["files"].as_array().expect("files").iter();
        let row = rows.rfind(|row| text(row, "path").ends_with("/a.shard"));
        let row = row.expect("the shard");
        assert_eq!(
            (text(row, "phase"), text(row, "rule")),
            ("training", "shards")
        );
        let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
        let codes = &used(&recorded.model)[dir.join("a.shard").as_os_str().as_bytes()];
        assert_eq!(
            codes,
            &BTreeSet::from([Phase::Training.code()]),
            "in the kernel"
        );
        let findings = report["findings"].as_array().expect("findings");
        assert!(
            findings
                .iter()
                .any(|finding| text(finding, "code") == "tiny-reads"),
            "its thresholds: {findings:?}"
        );
        // The file of this name is taken without being named.
        let _ = fs::rename(dir.join("mine.toml"), dir.join("iotrace.toml"));
    }
}

#[test]
fn wrong_rules_are_refused_before_anything_runs() {
    let (_keep, dir) = directory();
    fs::write(
        dir.join("bad.toml"),
        "[[rule]]\nname = 'a'\nphase = 'train'\nglob = '/a'\n",
    )
    .expect("rules");
    let finished = Iotrace::record()
        .current_dir(&dir)
        .args(["--rules", "bad.toml"])
        .command(["/bin/touch", "ran"]);
    finished.refused(1, &["bad.toml:3", "unknown phase"]);
    assert!(!dir.join("ran").exists());
}

#[test]
fn rules_for_a_filesystem_hold_in_the_kernel() {
    let (_keep, dir) = directory();
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (here, there) = (dir.join("a.blob"), memory.path().join("a.blob"));
    for file in [&here, &there] {
        fs::write(file, [0; 5_000]).expect("a file");
    }
    let rules = "[[rule]]\nname = 'in memory'\nphase = 'training'\nglob = '*.blob'\nfs_type = 'tmpfs'\n\
                 [[rule]]\nname = 'elsewhere'\nphase = 'restore'\nglob = '*.blob'\nfs_type = ['ext4', 'xfs', 'btrfs', 'overlay']\n";
    fs::write(dir.join("iotrace.toml"), rules).expect("rules");
    let finished = Iotrace::record().current_dir(&dir).command([
        "/bin/cat".as_ref(),
        here.as_os_str(),
        there.as_os_str(),
    ]);
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    let recorded = iotrace_recording::read(&finished.recording).expect("the recording");
    let used = used(&recorded.model);
    for (file, phase) in [(here, Phase::Restore), (there, Phase::Training)] {
        let codes = &used[file.as_os_str().as_bytes()];
        assert_eq!(codes, &BTreeSet::from([phase.code()]), "{}", file.display());
    }
}
