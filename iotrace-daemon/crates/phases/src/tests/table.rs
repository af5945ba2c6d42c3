//! The table against every rule's own globs in another engine, and what rules and globs are refused.

use globset::{GlobBuilder, GlobMatcher};

use crate::{
    Classifier,
    phase::Direction,
    rules::{Rule, RuleSet},
};

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

/// The globs of a rule in globset, whose globs are all from the root.
fn oracle(rule: &Rule) -> Vec<GlobMatcher> {
    rule.globs
        .iter()
        .map(|glob| {
            let mut text = glob.text().to_owned();
            if !text.starts_with('/') && !text.starts_with("**") {
                text.insert_str(0, "**/");
            }
            if text.ends_with('/') {
                text.push_str("**");
            }
            GlobBuilder::new(&text)
                .literal_separator(true)
                .empty_alternates(true)
                .case_insensitive(rule.ignore_case)
                .build()
                .unwrap()
                .compile_matcher()
        })
        .collect()
}

/// Pieces of paths that the catalogue asks for: its own globs with their operators filled in, whole and in parts.
fn pieces(rules: &[Rule], random: &mut Random) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for glob in rules.iter().flat_map(|rule| &rule.globs) {
        for _ in 0..4 {
            let filled = fill(glob.text(), random);
            pieces.extend(filled.split(|byte| *byte == b'/').map(<[u8]>::to_vec));
            pieces.push(filled);
        }
    }
    pieces
}

/// One text that a glob could match, roughly.
fn fill(glob: &str, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = glob;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => out.extend(std::iter::repeat_n(b'x', random.below(3))),
            '{' => {
                let end = rest.find('}').unwrap();
                let options: Vec<&str> = rest[..end].split(',').collect();
                out.extend(fill(options[random.below(options.len())], random));
                rest = &rest[end + 1..];
            }
            '[' => {
                let end = rest.find(']').unwrap();
                let set = rest.as_bytes()[random.below(end)];
                out.push(set);
                rest = &rest[end + 1..];
            }
            c => out.extend(c.to_string().bytes()),
        }
    }
    out
}

fn path(pieces: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut path = Vec::new();
    for _ in 0..random.below(5) + 1 {
        path.push(b'/');
        path.extend(&pieces[random.below(pieces.len())]);
        if random.below(4) == 0 {
            path.extend(&pieces[random.below(pieces.len())]);
        }
    }
    for _ in 0..[0, 0, 1, 3][random.below(4)] {
        let at = random.below(path.len());
        path[at] = random.below(256) as u8;
    }
    path
}

/// Compares the verdicts of a table on `count` paths with those of globset.
fn compare(classifier: &Classifier, count: usize) {
    let mut random = Random(0x1234_5678_9abc_def1);
    let rules = classifier.rules().all();
    let oracles: Vec<_> = rules.iter().map(oracle).collect();
    let pieces = pieces(rules, &mut random);
    let fs_types = ["", "proc", "nfs", "lustre", "tmpfs"];
    let mut matched = vec![0; rules.len()];
    for _ in 0..count {
        let path = path(&pieces, &mut random);
        let fs_type = fs_types[[0, 0, 0, 0, 4, 1, 2, 3][random.below(8)]];
        let verdict = classifier.verdict(&path, false, fs_type);
        let os_path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.as_slice());
        let wins = |rule: usize| {
            rules[rule].is_on(fs_type) && oracles[rule].iter().any(|glob| glob.is_match(os_path))
        };
        let all: Vec<usize> = (0..rules.len()).filter(|rule| wins(*rule)).collect();
        for direction in Direction::ALL {
            let mut of_direction = all.iter().copied();
            let first = of_direction.find(|rule| rules[*rule].directions[direction.index()]);
            let text = String::from_utf8_lossy(&path);
            assert_eq!(
                verdict.rule(direction),
                first,
                "{direction:?} {text} on {fs_type:?}"
            );
            first.into_iter().for_each(|rule| matched[rule] += 1);
        }
    }
    let missed: Vec<_> = (0..rules.len())
        .filter(|rule| matched[*rule] == 0)
        .collect();
    assert!(
        missed.is_empty(),
        "the corpus has no path of rules {missed:?}"
    );
}

#[test]
fn the_table_agrees_with_another_engine_on_the_catalogue() {
    compare(Classifier::builtin(), 60_000);
}

#[test]
fn the_table_agrees_with_another_engine_on_rules_of_every_form() {
    let text = r#"
        [[rule]]
        name = "nfs only"
        phase = "training"
        glob = ["/mnt/**/shard-[0-9]*/*.bin", "**/a?b/**/c*d"]
        fs_type = ["nfs", "lustre"]
        [[rule]]
        name = "absolute"
        phase = "checkpoint"
        direction = "write"
        glob = ["/data/*/ckpt/**", "/data/{one,two{a,b}}/x[!0-9/].pt", "/mnt/**/shard-[0-9]*/*.bin"]
        [[rule]]
        name = "crossing"
        phase = "startup"
        ignore_case = true
        glob = ["a/**/b", "/x/**/y/**/z", "*one*two*"]
        [[rule]]
        name = "reads"
        phase = "restore"
        direction = "read"
        glob = ["x?*", "one*", "y/", "[a-c]*/d", "/**"]
        [[rule]]
        name = "writes"
        phase = "other"
        class = "log"
        glob = "**"
    "#;
    let classifier = Classifier::new(RuleSet::parse("test", text).unwrap()).unwrap();
    compare(&classifier, 60_000);
}

#[test]
fn the_catalogue_leaves_room_for_the_users_rules() {
    let table = Classifier::builtin().table();
    println!(
        "{} rules: {} states of {} bytes' classes, {} transitions, {} labels, {} bytes",
        Classifier::builtin().rules().all().len(),
        table.labels().len(),
        table.stride(),
        table.next().len(),
        table.says().len(),
        table.bytes()
    );
    assert!(table.says().len() < crate::dfa::MAX_SAYS / 2);
    assert!(table.labels().len() < crate::dfa::MAX_STATES / 2);
    assert!(table.next().len() < crate::dfa::MAX_TRANSITIONS * 7 / 10);
}

/// So many rules, each for a filesystem of its own, before the built-in ones.
fn by_filesystem(rules: usize) -> Classifier {
    const TYPES: [&str; 8] = [
        "lustre", "nfs", "gpfs", "beegfs", "ceph", "cifs", "ext4", "xfs",
    ];
    let text: String = TYPES[..rules]
        .iter()
        .map(|name| {
            format!(
                "[[rule]]\nname = 'on {name}'\nphase = 'training'\nglob = ['*.h5', '/scratch/**', 'runs/*/data/']\n\
                 fs_type = '{name}'\n"
            )
        })
        .collect();
    let rules = RuleSet::parse("test", &text).unwrap().with_builtin();
    Classifier::new(rules.unwrap()).unwrap()
}

#[test]
fn rules_for_filesystems_add_no_states() {
    let sizes = [1, 2, 8].map(|rules| {
        let classifier = by_filesystem(rules);
        let table = classifier.table();
        (table.labels().len(), table.says().len())
    });
    println!("states and labels: {sizes:?}");
    // The first brings states for its own globs, the others share them.
    assert!(sizes[2].0 <= sizes[0].0 + sizes[0].0 / 20, "{sizes:?}");
    let classifier = by_filesystem(8);
    let of = |path: &[u8], fs_type| {
        let verdict = classifier.verdict(path, false, fs_type);
        let rule = verdict.rule(Direction::Read);
        rule.map(|rule| classifier.rules().all()[rule].name.clone())
    };
    assert_eq!(of(b"/a/b.h5", "xfs").as_deref(), Some("on xfs"));
    assert_eq!(of(b"/scratch/x", "nfs4").as_deref(), Some("on nfs"));
    assert_eq!(of(b"/a/b.h5", "btrfs").as_deref(), Some("hdf5-netcdf-root"));
    assert_eq!(of(b"/scratch/x", "btrfs"), None);
    assert_eq!(
        of(b"/scratch/x", "proc").as_deref(),
        Some("virtual-filesystems")
    );
}

#[test]
fn every_built_in_rule_is_documented_in_its_order() {
    let text = include_str!("../../../../../docs/guide/phases.md");
    let mut rest = &text[text.find("\n## The built-in rules").unwrap()..];
    for rule in Classifier::builtin().rules().all() {
        let phase = rule.phase.to_string();
        let row = format!(
            "\n| `{}` | {phase} | {} |",
            rule.name,
            rule.direction_name()
        );
        let at = rest.find(&row);
        rest = &rest[at.unwrap_or_else(|| panic!("no row {row:?} in its place"))..];
    }
}
