//! The report as a page: one file of HTML with its styles, its scripts and its data in it, that loads nothing.
//!
//! `page/` has the page, `vendor/` the charting library, and the modules here the data, which is JSON in an element that
//! the browser does not run: the report without its long lists, and the lists as columns. Scripts make text nodes of
//! it and nothing else, and a policy in the page lets only scripts and styles run that carry this file's own nonce.

pub mod columns;
pub mod comparison;
mod data;
mod files;
mod lanes;
mod operations;
mod over_time;
mod tables;

use std::{
    fs::File,
    io::{self, BufWriter, Read as _, Write},
};

use data::Data;
use flate2::read::GzDecoder;
use serde::Serialize;
pub use tables::{Cell, PageSection, PageTable, Part};

use super::Report;

const PAGE: &str = include_str!("page/page.html");

/// A script or style as the build script compressed it.
macro_rules! embedded {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"))
    };
}

const STYLES: [&[u8]; 2] = [embedded!("uPlot.min.css"), embedded!("style.css")];

/// In the order of their dependencies.
const SCRIPTS: [&[u8]; 12] = [
    embedded!("uPlot.iife.min.js"),
    embedded!("format.js"),
    embedded!("dom.js"),
    embedded!("timeline.js"),
    embedded!("heatmap.js"),
    embedded!("operations.js"),
    embedded!("sections.js"),
    embedded!("tree.js"),
    embedded!("treemap.js"),
    embedded!("files.js"),
    embedded!("shell.js"),
    embedded!("main.js"),
];

/// Those of a comparison of runs.
const COMPARISON_SCRIPTS: [&[u8]; 5] = [
    embedded!("format.js"),
    embedded!("dom.js"),
    embedded!("sections.js"),
    embedded!("shell.js"),
    embedded!("comparison.js"),
];

/// Writes the report as a page. `complete` is whether the recorder ended well.
pub fn html(report: &Report<'_>, complete: bool, out: impl Write) -> io::Result<()> {
    page(&Data::new(report, complete), &SCRIPTS, out)
}

fn page(data: &impl Serialize, scripts: &[&[u8]], out: impl Write) -> io::Result<()> {
    let nonce = nonce()?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    // Every other piece is a name: the page has no other `@`.
    for (index, piece) in PAGE.split('@').enumerate() {
        match (index % 2, piece) {
            (1, "NONCE") => out.write_all(nonce.as_bytes())?,
            (1, "STYLES") => elements("style", &STYLES, &nonce, &mut out)?,
            (1, "SCRIPTS") => elements("script", scripts, &nonce, &mut out)?,
            (1, "DATA") => serde_json::to_writer(InScript(&mut out), data)?,
            _ => out.write_all(piece.as_bytes())?,
        }
    }
    out.flush()
}

fn elements(tag: &str, contents: &[&[u8]], nonce: &str, out: &mut impl Write) -> io::Result<()> {
    for content in contents {
        writeln!(out, "<{tag} nonce=\"{nonce}\">")?;
        io::copy(&mut GzDecoder::new(*content), out)?;
        writeln!(out, "</{tag}>")?;
    }
    Ok(())
}

/// 128 bits that nobody who named a file can have known.
fn nonce() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// JSON that cannot end the script element around it: `<` occurs only in its strings, and is written `\u003c`.
struct InScript<W>(W);

impl<W: Write> Write for InScript<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pieces = bytes.split(|byte| *byte == b'<');
        self.0.write_all(pieces.next().unwrap_or_default())?;
        for piece in pieces {
            self.0.write_all(b"\\u003c")?;
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_string_ends_the_element() {
        let hostile = [
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "<",
            "a<",
            "",
        ];
        let mut out = Vec::new();
        serde_json::to_writer(InScript(&mut out), &hostile).unwrap();
        assert!(!out.contains(&b'<'));
        assert_eq!(
            serde_json::from_slice::<[String; 5]>(&out).unwrap(),
            hostile
        );
    }

    #[test]
    fn the_page_has_every_piece_once_and_no_other_at_sign() {
        let names: Vec<_> = PAGE.split('@').skip(1).step_by(2).collect();
        assert_eq!(names, ["NONCE", "NONCE", "STYLES", "DATA", "SCRIPTS"]);
        for content in STYLES {
            let content = io::read_to_string(GzDecoder::new(content)).unwrap();
            assert!(!content.contains("</style") && !content.contains("url("));
        }
        for content in SCRIPTS.into_iter().chain(COMPARISON_SCRIPTS) {
            let content = io::read_to_string(GzDecoder::new(content)).unwrap();
            assert!(!content.contains("</script") && !content.contains("<!--"));
        }
    }
}
