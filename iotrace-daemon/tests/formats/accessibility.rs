//! The pages by axe-core, which finds what keeps people with disabilities from using them: contrast, names, roles,
//! headings, and what the keyboard does not reach.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use super::{
    browser::Page,
    html::{no_faults, page_of},
};
use crate::common::{
    directory,
    export::{by_python, environment, set_meta},
    golden, text,
};
use serde_json::Value;

/// The script of axe-core.
static AXE: LazyLock<String> = LazyLock::new(|| {
    const FIND_SCRIPT: &str = "import importlib.util, json, os\n\
        package = importlib.util.find_spec('axe_playwright_python').origin\n\
        print(json.dumps(os.path.join(os.path.dirname(package), 'axe.min.js')))";
    let place = by_python(&environment("axe"), FIND_SCRIPT, &[]);
    let place = place.as_str().expect("a path");
    fs::read_to_string(place).unwrap_or_else(|error| panic!("{place}: {error}"))
});

/// What axe-core finds wrong with the page as it is now: rule, impact, and the elements. Rectangles of the map may be small:
/// the table below has the same directories.
fn violations(page: &mut Page) -> Vec<String> {
    let found = page.eval(
        "(async () => {
           const run = async (context, options) => (await axe.run(context, { preload: false, resultTypes: ['violations'], ...options })).violations;
           const all = [...await run(document, {}), ...await run({ exclude: ['.map'] }, { runOnly: ['target-size'] })];
           return all.map(v => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 5).map(n =>
             n.html.slice(0, 200) + ' ' + n.failureSummary) })); })()",
    );
    let found = found.as_array().expect("a list");
    found
        .iter()
        .map(|one| {
            let nodes: Vec<&str> = one["nodes"]
                .as_array()
                .expect("elements")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            format!(
                "{} {}: {}\n  {}",
                text(one, "impact"),
                text(one, "id"),
                text(one, "help"),
                nodes.join("\n  ")
            )
        })
        .collect()
}

/// Everything that can be opened is open; both colour schemes, on a wide window and on a narrow one.
#[track_caller]
fn check(name: &str, file: &Path) {
    let mut page = Page::open(file);
    page.eval(&format!("(() => {{ {} }})()", *AXE));
    page.eval("for (const one of document.querySelectorAll('details')) one.open = true");
    let mut all = Vec::new();
    for (scheme, width) in [("light", 1200), ("dark", 1200), ("light", 800)] {
        page.size(width, 1300);
        page.medium("screen", scheme);
        for violation in violations(&mut page) {
            all.push(format!("{name}, {scheme}, {width} px: {violation}"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    let again = page.eval(
        "[...document.querySelectorAll('[id]')].map(e => e.id).filter((id, at, ids) => ids.indexOf(id) < at)",
    );
    assert_eq!(again, serde_json::json!([]), "{name}: addresses twice");
    no_faults(&mut page);
}

/// The page that `iotrace` with these arguments writes.
fn written(dir: &Path, arguments: &[&Path]) -> PathBuf {
    let file = dir.join("page.html");
    let done = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(arguments)
        .args(["--format", "html", "--output"])
        .arg(&file)
        .output()
        .expect("iotrace starts");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    file
}

#[test]
fn reports_are_accessible() {
    for name in [
        "training",
        "waits",
        "operations",
        "epochs",
        "small-reads",
        "ranks-2",
        "hostile-names",
        "nothing",
    ] {
        let kept = golden::kept(name);
        let file = kept.recording.with_file_name("page.html");
        page_of(&kept.recording, &file);
        check(name, &file);
    }
}

#[test]
fn comparisons_are_accessible() {
    let [before, after] = ["small-reads", "large-reads"].map(golden::kept);
    let (_keep, dir) = directory();
    let arguments: [&Path; 3] = ["diff".as_ref(), &before.recording, &after.recording];
    check("diff", &written(&dir, &arguments));
    let [one, two] = ["ranks-0", "ranks-2"].map(golden::kept);
    let options: [&Path; 2] = ["report".as_ref(), "--scale".as_ref()];
    check(
        "scale",
        &written(
            &dir,
            &[&options[..], &[&one.recording, &two.recording]].concat(),
        ),
    );
    set_meta(&two.recording, "host", "node2");
    let nodes: [&Path; 3] = ["report".as_ref(), &one.recording, &two.recording];
    check("nodes", &written(&dir, &nodes));
}
