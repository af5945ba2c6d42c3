//! Source text of lines on the page.

use std::sync::Arc;

use iotrace_common::lines::LineCounts;
use iotrace_model::{
    Model,
    input::ProcessId,
    lines::{Lined, Place},
    run::{Clock, Run},
    sources::SourceLine,
};
use iotrace_recording::Recorder;
use serde_json::{Value, json};

use crate::{
    browser::Page,
    common::{directory, made},
    html::{no_faults, page_of},
};

#[test]
fn source_text_is_on_the_page_as_it_is_in_the_file() {
    let (_keep, dir) = directory();
    let (recording, file) = (dir.join("recording"), dir.join("page.html"));
    let run = Run {
        clock: Clock::default(),
        ..made::run("gpu-7", 0, 1_000_000_000)
    };
    let mut model = Model::with_history();
    for (name, line) in [
        ("/a/train.py", 10),
        ("/a/other.py", 10),
        ("/a/changed.py", 3),
    ] {
        model.add_lined(&Lined {
            process: ProcessId { pid: 7, start: 7 },
            own: Some(Arc::new(Place {
                file: name.into(),
                line,
                function: "main".into(),
            })),
            via: None,
            phase: 0,
            counts: LineCounts {
                opens: 1,
                ns: 1_000_000 - u64::from(line),
                ..LineCounts::default()
            },
        });
    }
    let hostile = "    with open(\"<img src=x onerror=alert(1)>\\n\") as f:  # \u{202e}";
    let texts = [
        ("/a/train.py", 9, Some("")),
        ("/a/train.py", 10, Some(hostile)),
        ("/a/train.py", 11, Some("\treturn '</script>'")),
        // Of the line itself nothing is known.
        ("/a/other.py", 9, Some("import os")),
        ("/a/changed.py", 3, Some("open(x)")),
        ("/a/changed.py", 3, None),
    ];
    for (name, line, text) in texts {
        model.sources_mut().add(SourceLine {
            file: name.into(),
            line,
            text: text.map(Arc::from),
        });
    }
    let recorder = Recorder::create(&recording, &run).expect("a recording");
    recorder.finish(&mut model, &run).expect("a recording");
    page_of(&recording, &file);
    let mut page = Page::open(&file);
    let shown = page.eval(
        "Object.fromEntries([...document.querySelectorAll('#lines tbody tr')].map(row => \
         [row.cells[0].firstChild.textContent, row.querySelector('pre')?.textContent ?? null]))",
    );
    let expected = " 9\n10      with open(\"<img src=x onerror=alert(1)>\\n\") as f:  # \\u{202e}\n11      return '</script>'\n";
    assert_eq!(
        shown,
        json!({
            "/a/train.py:10 main": expected,
            "/a/other.py:10 main": Value::Null,
            "/a/changed.py:3 main": Value::Null,
        })
    );
    let marked = page.eval("document.querySelector('#lines pre b').textContent.slice(0, 2)");
    assert_eq!(marked, "10");
    assert_eq!(
        page.eval("document.querySelectorAll('#lines img').length"),
        0
    );
    no_faults(&mut page);
}
