//! The recordings that are kept for other tests are what is recorded now.

use crate::common::golden::{self, ALL, WRITE, done};

#[test]
fn the_same_programs_are_recorded_as_before() {
    if std::env::var_os(WRITE).is_some_and(|what| what == "recordings") {
        ALL.iter().for_each(golden::Golden::write);
    }
    for golden in &ALL {
        let kept = golden::kept(golden.name);
        let (finished, _keep, place) = golden.record();
        let now = match golden.name {
            // It prints what it did.
            "training" => finished.truth_and_report().1,
            _ => finished.report(),
        };
        assert_eq!(
            done(&now, &place),
            done(&kept.report(), &kept.place),
            "{}: run this test with {WRITE}=recordings if it is meant to do something else",
            golden.name
        );
        assert_eq!(now["losses"], kept.report()["losses"]);
    }
}
