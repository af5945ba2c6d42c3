//! Pages of the documentation of which a task writes a part.

use std::fs;

use anyhow::{Context as _, Result};

use crate::cmd;

const END: &str = "<!-- end -->\n";

/// Replaces the part of a page that this command writes. The page has a line before and after that part that say so.
pub fn write(file: &str, command: &str, part: &str) -> Result<()> {
    let path = cmd::root().join(file);
    let old = fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
    let begin = begin(command);
    let new = replaced(&old, &begin, part).with_context(|| {
        let (begin, end) = (begin.trim_end(), END.trim_end());
        format!("{file} has lost the lines `{begin}` and `{end}`")
    })?;
    fs::write(&path, new).with_context(|| format!("cannot write {file}"))?;
    eprintln!("wrote {file}");
    Ok(())
}

fn begin(command: &str) -> String {
    format!("<!-- begin: written by `{command}` -->\n")
}

/// The text with another part between the two lines.
fn replaced(text: &str, begin: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}{part}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_page_stays() {
        let begin = begin("a task");
        let page = format!("a\n{begin}old\n{END}b\n");
        assert_eq!(
            replaced(&page, &begin, "new\n"),
            Some(format!("a\n{begin}new\n{END}b\n"))
        );
        assert_eq!(replaced("nothing", &begin, "new"), None);
    }
}
