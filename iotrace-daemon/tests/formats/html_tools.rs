//! What one can do with the HTML report: follow a finding, take tables away, walk the map of directories; and the pages
//! that compare runs.

use std::{path::Path, process::Command};

use super::{
    browser::Page,
    html::{no_faults, page_of, rows, training},
};
use crate::common::{directory, golden, text};
use serde_json::Value;

/// Returns what the button saves as CSV.
fn csv(page: &mut Page, button: &str) -> Vec<String> {
    let saved = page.eval(&format!(
        "(async () => {{ let blob; const real = URL.createObjectURL;
           URL.createObjectURL = (one) => {{ blob = one; return real.call(URL, one); }};
           document.querySelector('{button}').click();
           URL.createObjectURL = real;
           return await blob.text(); }})()"
    ));
    let saved = saved.as_str().expect("text");
    assert!(saved.ends_with("\r\n"), "{saved:?}");
    saved.lines().map(str::to_owned).collect()
}

#[test]
fn tables_fit_and_can_be_saved() {
    let training = training();
    let mut page = Page::open(&training.page);
    page.size(1280, 900);
    for section in ["checkpoints", "epochs", "phases"] {
        let hidden = page.eval(&format!(
            "(() => {{ const box = document.querySelector('#{section} .scroll'); return box.scrollWidth - box.clientWidth; }})()"
        ));
        assert_eq!(hidden, 0, "{section} does not fit");
        // The saved table has the rows on the page, less the columns of bars, which have no title.
        let shown = rows(&mut page, section);
        let saved = csv(&mut page, &format!("#{section} [data-take=csv]"));
        assert_eq!(saved.len(), shown.len() + 1, "{saved:?}");
        let first = shown[0].iter().filter(|cell| !cell.is_empty());
        let first: Vec<_> = first.map(|cell| cell.trim_end_matches('~')).collect();
        assert_eq!(saved[1].split(',').collect::<Vec<_>>(), first);
    }
    // The list of files has all that match, also those that are not elements, as plain numbers.
    page.click("#search");
    page.write("shard");
    let saved = csv(&mut page, "#files [data-take=csv]");
    let files = training.report["files"].as_array().expect("files");
    let shards = files
        .iter()
        .filter(|row| text(row, "path").contains("shard"));
    let read: u64 = shards.filter_map(|row| row["bytes_read"].as_u64()).sum();
    assert!(
        saved[0].starts_with("Path,Phase,Read,Written,Time in I/O (ns)"),
        "{}",
        saved[0]
    );
    // Phases may have a comma, and are quoted then.
    let bytes = |line: &String| {
        let unquoted: String = line.split('"').step_by(2).collect();
        unquoted.split(',').nth(2).map(str::parse::<u64>)
    };
    let sum: u64 = saved[1..]
        .iter()
        .map(|line| bytes(line).expect("a column").expect("a number"))
        .sum();
    assert_eq!(sum, read);
    no_faults(&mut page);
}

#[test]
fn a_cell_is_no_formula_and_ends_no_row() {
    let training = training();
    let mut page = Page::open(&training.page);
    let made = page.eval(r#"dom.csv([["=1+1", -5, "a,b", 'say "x"', "-", "plain"]])"#);
    assert_eq!(made, "'=1+1,-5,\"a,b\",\"say \"\"x\"\"\",'-,plain\r\n");
}

#[test]
fn a_finding_limits_timeline_and_files_to_what_it_is_about() {
    let kept = golden::kept("small-reads");
    let file = kept.recording.with_file_name("report.html");
    page_of(&kept.recording, &file);
    let report = kept.report();
    let mut page = Page::open(&file);
    let findings = report["findings"].as_array().expect("findings");
    let is_place = |one: &Value| text(one, "kind") != "process";
    let about = |finding: &&Value| {
        finding["subjects"]
            .as_array()
            .expect("subjects")
            .iter()
            .any(is_place)
    };
    let finding = findings.iter().find(about).expect("a finding about files");
    let places: Vec<&str> = finding["subjects"]
        .as_array()
        .expect("subjects")
        .iter()
        .filter(|one| is_place(one))
        .map(|one| text(one, "name"))
        .collect();
    let all = page.text("#files [role=status]");
    let code = text(finding, "code");
    assert_eq!(page.eval("document.querySelector('.chosen').hidden"), true);
    page.eval(&format!(
        "document.querySelector('[data-code={code}]').open = true"
    ));
    page.click(&format!("[data-choose={code}]"));
    let shown = rows(&mut page, "files");
    let shown: Vec<_> = shown.iter().filter(|row| row.len() > 1).collect();
    assert!(!shown.is_empty());
    for row in &shown {
        assert!(
            places.iter().any(|place| row[0].starts_with(place)),
            "{row:?} is not of {places:?}"
        );
    }
    let said = page.text(".chosen");
    assert!(said.contains(text(finding, "title")), "{said}");
    let pressed = "[...document.querySelectorAll('#timeline .legend [aria-pressed=true]')].map(b => b.textContent).sort()";
    let phases = page.eval(pressed);
    let of_files: std::collections::BTreeSet<_> =
        shown.iter().flat_map(|row| row[1].split(", ")).collect();
    let phases: Vec<String> = serde_json::from_value(phases).expect("phases");
    assert!(
        !phases.is_empty() && phases.iter().all(|phase| of_files.contains(phase.as_str())),
        "{phases:?} {of_files:?}"
    );
    page.click("#choose-all");
    assert_eq!(page.text("#files [role=status]"), all);
    assert_eq!(page.eval("document.querySelector('.chosen').hidden"), true);
    assert_eq!(
        page.eval("document.querySelectorAll('#timeline .legend [aria-pressed=false]').length"),
        0
    );
    no_faults(&mut page);
}

/// Left, top, width and height of the map's rectangles in pixels, and the value that each says it has.
fn rectangles(page: &mut Page) -> Vec<([f64; 4], String)> {
    let found = page.eval(
        "[...document.querySelectorAll('.map button')].map(b => { const r = b.getBoundingClientRect(); return [[r.x, r.y, r.width, r.height], b.getAttribute('aria-label')]; })",
    );
    serde_json::from_value(found).expect("rectangles")
}

#[test]
fn the_map_fills_its_place_and_leads_to_the_files() {
    let training = training();
    let mut page = Page::open(&training.page);
    let place = page.eval("(() => { const r = document.querySelector('.map').getBoundingClientRect(); return r.width * r.height; })()");
    let place = place.as_f64().expect("an area");
    let shown = rectangles(&mut page);
    let area: f64 = shown
        .iter()
        .map(|([_, _, width, height], _)| width * height)
        .sum();
    assert!(
        (area / place - 1.0).abs() < 0.02,
        "{area} of {place}: {shown:?}"
    );
    // Areas are as the values: of squares of known size.
    let made = page.eval(
        "(() => { const put = []; treemap.squarify([['a', 6], ['b', 6], ['c', 4], ['d', 3], ['e', 2], ['f', 2], ['g', 1]], { x: 0, y: 0, width: 6, height: 4 }, (part, x, y, w, h) => put.push([part, x, y, w, h])); return put; })()",
    );
    let made: Vec<(String, f64, f64, f64, f64)> = serde_json::from_value(made).expect("rectangles");
    let sizes: Vec<f64> = made
        .iter()
        .map(|(.., width, height)| width * height)
        .collect();
    for (size, wanted) in sizes.iter().zip([6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0]) {
        assert!((size - wanted).abs() < 1e-9, "{made:?}");
    }
    for (name, x, y, width, height) in &made {
        assert!(
            *x >= -1e-9 && *y >= -1e-9 && x + width < 6.0 + 1e-9 && y + height < 4.0 + 1e-9,
            "{name} is outside"
        );
        let overlaps = made.iter().filter(|(other, a, b, w, h)| {
            other != name
                && *a + 1e-9 < x + width
                && x + 1e-9 < a + w
                && *b + 1e-9 < y + height
                && y + 1e-9 < b + h
        });
        assert_eq!(overlaps.count(), 0, "{name} overlaps: {made:?}");
    }
    // A click on a directory opens it, even if files are directly in it.
    page.eval("document.querySelector('.map button').click()");
    let trail = page.text("#directories .trail");
    assert!(trail.contains(" › "), "{trail}");
    // Clicks lead to directories without directories, and from there to their files.
    for _ in 0..12 {
        page.eval("document.querySelector('.map button').click()");
        if page.eval("document.querySelector('#search').value !== ''") == true {
            break;
        }
    }
    let wanted = page.eval("document.querySelector('#search').value");
    let wanted = wanted.as_str().expect("a path").to_owned();
    let found = rows(&mut page, "files");
    let found: Vec<_> = found.iter().filter(|row| row.len() > 1).collect();
    assert!(!wanted.is_empty() && !found.is_empty());
    assert!(
        found.iter().all(|row| row[0].starts_with(&wanted)),
        "{wanted}: {found:?}"
    );
    no_faults(&mut page);
}

/// Runs `iotrace` with these arguments.
fn iotrace(arguments: &[&Path]) {
    let done = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(arguments)
        .output()
        .expect("iotrace starts");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn two_runs_are_a_page_with_the_numbers_of_the_json() {
    let (before, after) = (golden::kept("small-reads"), golden::kept("large-reads"));
    let (_keep, dir) = directory();
    let (page, json) = (dir.join("diff.html"), dir.join("diff.json"));
    for file in [&page, &json] {
        iotrace(&[
            "diff".as_ref(),
            &before.recording,
            &after.recording,
            "-o".as_ref(),
            file,
        ]);
    }
    let json: Value = serde_json::from_slice(&std::fs::read(json).expect("a file")).expect("JSON");
    let mut page = Page::open(&page);
    let run = rows(&mut page, "run");
    let operations = run
        .iter()
        .find(|row| row[0] == "operations")
        .expect("operations");
    let count = |which: &str| {
        iotrace_report::units::count(json["run"]["operations"][which].as_u64().expect("a count"))
    };
    assert_eq!(
        (&operations[1], &operations[3]),
        (&count("before"), &count("after"))
    );
    let gone = rows(&mut page, "findings");
    let gone = gone
        .iter()
        .filter(|row| row[0] == "gone")
        .map(|row| row[2].as_str());
    let wanted = json["findings"]["gone"].as_array().expect("findings");
    assert!(!wanted.is_empty());
    assert!(gone.eq(wanted.iter().map(|one| text(one, "code"))));
    no_faults(&mut page);
}

#[test]
fn runs_of_different_size_are_a_page() {
    let (one, two) = (golden::kept("ranks-0"), golden::kept("ranks-2"));
    let (_keep, dir) = directory();
    let (page, json) = (dir.join("scale.html"), dir.join("scale.json"));
    for file in [&page, &json] {
        iotrace(&[
            "report".as_ref(),
            "--scale".as_ref(),
            &one.recording,
            &two.recording,
            "-o".as_ref(),
            file,
        ]);
    }
    let json: Value = serde_json::from_slice(&std::fs::read(json).expect("a file")).expect("JSON");
    let mut page = Page::open(&page);
    let shown = rows(&mut page, "runs");
    let runs = json.as_array().expect("runs");
    assert_eq!(shown.len(), runs.len());
    for (row, run) in shown.iter().zip(runs) {
        assert_eq!(row[0], text(run, "name"));
        assert_eq!(
            row[4],
            iotrace_report::units::bytes(run["bytes_read"].as_u64().expect("bytes"))
        );
    }
    no_faults(&mut page);
}
