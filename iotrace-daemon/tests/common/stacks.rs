//! What the program `stacks.c` says of the functions and lines that opened files, and what a report says: the same whoever finds
//! them.

use std::collections::BTreeMap;

use serde_json::Value;

/// What `stacks.c` is linked with.
pub const LINK_OPTIONS: [&str; 1] = ["-pthread"];

/// Opens by function and line.
pub type Opens = BTreeMap<(String, u64), u64>;

/// What the program printed.
pub fn truth(printed: &str) -> Opens {
    let lines = printed
        .lines()
        .filter(|line| line.starts_with("{\"function\""));
    let mut opens = Opens::new();
    for line in lines {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let number = |key: &str| line[key].as_u64().expect("a number");
        let function = line["function"].as_str().expect("a name").to_owned();
        *opens.entry((function, number("line"))).or_default() += number("opens");
    }
    assert!(opens.len() > 6, "{printed}");
    opens
}

/// What the report says of the program's source, or of its executable.
pub fn found(report: &Value, file: &str) -> Opens {
    let lines = report["lines"]["lines"].as_array().expect("lines").iter();
    let of_file = lines.filter(|line| line["file"].as_str().expect("a file").ends_with(file));
    let opens = of_file.map(|line| {
        let function = line["function"].as_str().expect("a name").to_owned();
        let number = line["line"].as_u64().unwrap_or(0);
        (
            (function, number),
            line["opens"].as_u64().expect("a number"),
        )
    });
    // A read that was slow on this machine has a line, too.
    opens.filter(|(_, opens)| *opens > 0).collect()
}
