//! Calls that do not return.

use super::{Confidence, Data, Finding, Subject, Value, seconds, thresholds};

/// Calls that have been in the kernel for long: a filesystem that does not answer.
pub(super) fn call_hangs(data: &Data<'_>) -> Option<Finding> {
    let limit = data.limit(thresholds::HANG_SECONDS);
    let hang = |ns: u64| ns as f64 / 1e9 >= limit;
    let calls: Vec<_> = data
        .run
        .in_flight
        .iter()
        .filter(|call| hang(call.ns))
        .collect();
    let longest = *calls.first()?;
    let path = longest
        .path
        .as_deref()
        .unwrap_or("a file that is not known yet");
    let mount = longest.mount_point.as_deref().unwrap_or("not known");
    let mut mounts: Vec<&str> = calls
        .iter()
        .filter_map(|call| call.mount_point.as_deref())
        .collect();
    mounts.sort_unstable();
    mounts.dedup();
    let threads = match calls.len() {
        1 => "A thread has".to_owned(),
        more => format!("{more} threads have"),
    };
    Some(Finding {
        code: "call-hangs",
        saving: data.saving(longest.ns, Confidence::High, &[]),
        title: format!(
            "{threads} not returned from a call, the longest from {} on {path} for {:.0} s",
            longest.operation,
            longest.ns as f64 / 1e9
        ),
        evidence: vec![
            ("calls", Value::Count(calls.len() as u64)),
            ("longest_seconds", seconds(longest.ns)),
            ("pid", Value::Count(longest.pid.into())),
            ("tid", Value::Count(longest.tid.into())),
            ("operation", Value::Text(longest.operation.clone())),
            ("path", Value::Text(path.to_owned())),
            ("mount", Value::Text(mount.to_owned())),
        ],
        subjects: mounts
            .into_iter()
            .map(|mount| Subject::Mount(mount.as_bytes().to_vec()))
            .collect(),
        advice: advice(&longest.operation),
        also: Vec::new(),
    })
}

fn advice(operation: &str) -> String {
    let (first, look) = match operation {
        "open" => (
            "If it is a FIFO, start the program at its other end: opening it waits for that. ",
            "Else look",
        ),
        _ => ("", "Look"),
    };
    format!(
        "{first}{look} at the server or device of this mount: the call waits in the kernel, and neither the program nor iotrace can \
         end it."
    )
}
