//! Links between documents: each leads to a file of the repository and, behind a `#`, to one of its headings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::words::{files, markdown};
use crate::cmd;

/// Checks all documents and lists every link that leads nowhere.
pub fn check() -> Result<()> {
    let root = cmd::root();
    let documents = files(root, "md").with_context(|| format!("cannot list {}", root.display()))?;
    let mut texts = BTreeMap::new();
    for path in documents {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        texts.insert(path, text);
    }
    let dead = dead(&texts);
    for (path, line, target) in &dead {
        let name = path.strip_prefix(root).unwrap_or(path).display();
        eprintln!("{name}:{line}: {target} leads nowhere");
    }
    if !dead.is_empty() {
        bail!("mend {} links", dead.len());
    }
    Ok(())
}

/// Path, line and target of each link that leads nowhere.
fn dead(texts: &BTreeMap<PathBuf, String>) -> Vec<(&Path, usize, String)> {
    let mut dead = Vec::new();
    for (path, text) in texts {
        for (line, text) in (1..).zip(markdown(text)) {
            for target in targets(&text) {
                if !leads_somewhere(path, target, texts) {
                    dead.push((&**path, line, target.to_owned()));
                }
            }
        }
    }
    dead
}

/// Where the links of a line lead, other sites left out.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split("](").skip(1);
    let targets = behind.filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn leads_somewhere(from: &Path, target: &str, texts: &BTreeMap<PathBuf, String>) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let to = match file {
        "" => from.to_owned(),
        _ => {
            let to = normal(&from.parent().unwrap_or(from).join(file));
            if !texts.contains_key(&to) && !to.exists() {
                return false;
            }
            to
        }
    };
    // What is behind the name of a source is a line.
    let text = texts.get(&to);
    heading.is_empty() || text.is_none_or(|text| anchors(text).any(|anchor| anchor == heading))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            component => normal.push(component),
        }
    }
    normal
}

/// The anchors of a document's headings, as GitHub makes them. Equal headings are told apart by numbers there, and not here.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    let headings = text.lines().filter_map(move |line| {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        let is_heading = !is_code && heading.len() < line.len() && heading.starts_with(' ');
        is_heading.then(|| heading.trim().to_lowercase())
    });
    headings.map(|heading| {
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let page = "# A `page` of it\n```\n# no heading\n```\n`[a](gone.md)`\n[b](../docs/other.md#two_words), \
                    [c](#a-page-of-it)\n[d](#no-heading) [e](gone.md) [f](other.md#three)\n[g](https://gone.example/#x)\n";
        let other = "## Two_words\n";
        let texts = [
            ("/nowhere/docs/page.md", page),
            ("/nowhere/docs/other.md", other),
        ];
        let texts = texts
            .map(|(path, text)| (path.into(), text.to_owned()))
            .into();
        let found = dead(&texts);
        let found: Vec<(usize, &str)> = found
            .iter()
            .map(|(_, line, target)| (*line, &**target))
            .collect();
        assert_eq!(
            found,
            [(7, "#no-heading"), (7, "gone.md"), (7, "other.md#three")]
        );
    }
}
