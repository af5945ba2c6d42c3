//! What a report said of a recording, it says still: reports of recordings that were made before.

use serde_json::Value;

use crate::common::golden::{self, ALL, WRITE};

/// Where `now` is not as `then`, each by its path. What is new in it is no difference.
fn differences(path: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (key, then) in then {
                let now = now.get(key).unwrap_or(&Value::Null);
                differences(&format!("{path}/{key}"), then, now, found);
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (index, (then, now)) in then.iter().zip(now).enumerate() {
                differences(&format!("{path}/{index}"), then, now, found);
            }
        }
        _ if then == now => {}
        _ => found.push(format!("{path}: {then:.80} then, {now:.80} now")),
    }
}

#[test]
fn reports_say_what_they_said() {
    let writes = std::env::var_os(WRITE).is_some_and(|what| what == "reports");
    let mut found = Vec::new();
    for golden in &ALL {
        let kept = golden::kept(golden.name);
        if writes {
            kept.keep_report();
        } else {
            differences(golden.name, &kept.report_then(), &kept.report(), &mut found);
        }
    }
    found.truncate(50);
    assert!(
        found.is_empty(),
        "run this test with {WRITE}=reports if they are meant to say something else:\n{}",
        found.join("\n")
    );
}
