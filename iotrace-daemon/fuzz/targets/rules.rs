//! Rules for phases: whatever the text, they are refused, or the table sorts paths as the globs do one by one.
#![no_main]

use iotrace_phases::{Classifier, phase::Direction, rules::RuleSet};
use libfuzzer_sys::fuzz_target;

/// Paths that are tried.
const MAX_PATHS: usize = 16;

fuzz_target!(|text: &str| {
    let Ok(rules) = RuleSet::parse("fuzz.toml", text) else {
        return;
    };
    let Ok(classifier) = Classifier::new(rules) else {
        return;
    };
    // The text has the globs, so paths made of it come close to them.
    for part in text.split(['\n', '"']).take(MAX_PATHS) {
        let path = format!("/{part}");
        for is_directory in [false, true] {
            let verdict = classifier.verdict(path.as_bytes(), is_directory, "ext4");
            let matches = classifier.matches(path.as_bytes(), is_directory, "ext4");
            for direction in [Direction::Read, Direction::Write] {
                let is_of =
                    |rule: usize| classifier.rules().all()[rule].directions[direction.index()];
                let first = matches.iter().map(|one| one.rule).find(|rule| is_of(*rule));
                assert_eq!(verdict.rule(direction), first, "{path:?} {direction:?}");
            }
        }
    }
});
