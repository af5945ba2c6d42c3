//! Files of which tests write and compare what is made from the code.

use std::path::Path;

/// Compares a file, named from the root of the repository, with what `render` makes of it. With `IOTRACE_WRITE_DOCS` in the
/// environment it is written instead.
///
/// # Panics
///
/// If the file differs, with its first line that does.
pub fn check(file: &str, render: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .join(file);
    let old = std::fs::read_to_string(&path).unwrap();
    let new = render(&old);
    if std::env::var_os("IOTRACE_WRITE_DOCS").is_some() {
        return std::fs::write(path, new).unwrap();
    }
    for (found, expected) in old.lines().zip(new.lines()) {
        assert_eq!(found, expected, "write {file} with IOTRACE_WRITE_DOCS=1");
    }
    assert!(old == new, "write {file} with IOTRACE_WRITE_DOCS=1");
}

/// The page with this text between the lines `<!-- begin: WHAT -->` and `<!-- end -->`.
///
/// # Panics
///
/// If the page does not have these lines.
pub fn replace(page: &str, what: &str, text: &str) -> String {
    between(
        page,
        &format!("<!-- begin: {what} -->\n"),
        "<!-- end -->",
        text,
    )
}

/// The page with this text between the two others.
///
/// # Panics
///
/// If the page does not have the others.
pub fn between(page: &str, begin: &str, end: &str, text: &str) -> String {
    let (before, rest) = page.split_once(begin).expect(begin);
    let (_, after) = rest.split_once(end).expect(end);
    format!("{before}{begin}{text}{end}{after}")
}
