//! Which kernels Debian's lists have, and the files of one.
//!
//! The images for clouds are small, and have the disk, ext4 and the console built in. Since 6.19 an
//! image is in `linux-binary-*`, since 7.2 its modules are in `linux-modules-*`; the newest may be
//! there before it is signed, which a machine without Secure Boot does not mind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::apt::Apt;
use super::arch::Arch;

/// Before the architecture.
const PATTERN: &str = "^linux-(image|binary|binary-unsigned|modules)-[0-9.]+.*-cloud-";
const SUFFIX: &str = "-cloud-";
/// A package's name before the version, the preferred image first.
const IMAGES: [&str; 3] = ["linux-image-", "linux-binary-", "linux-binary-unsigned-"];
const MODULES: &str = "linux-modules-";
/// Modules that tests need, what one needs before it. One that is not there is built in.
pub const OF_TESTS: [&str; 4] = ["libcrc32c", "xfs", "overlay", "loop"];

/// A release by its two numbers, such as 6.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32);

/// The packages of the newest version of a release.
#[derive(Debug, PartialEq, Eq)]
pub struct Packages {
    arch: Arch,
    release: Release,
    version: String,
    names: Vec<String>,
}

/// A kernel's files.
pub struct Kernel {
    pub arch: Arch,
    pub release: Release,
    /// Such as `6.12.107+deb13`.
    pub version: String,
    pub image: PathBuf,
    /// Modules in the order in which they load.
    pub modules: Vec<PathBuf>,
    /// Whether there are any at all. Those of superseded versions leave the package lists before their images do.
    pub has_modules: bool,
}

/// The kernels of an architecture for these words of the command line.
pub fn choose<'a>(
    apt: &Apt,
    arch: Arch,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Packages>> {
    let pattern = format!("{PATTERN}{}$", arch.debian());
    let mut found = newest_of_each(arch, &apt.names(&pattern)?);
    let releases: Vec<Release> = found.keys().copied().collect();
    let last = *releases
        .last()
        .context("Debian's package lists have no kernels")?;
    let mut chosen = Vec::new();
    for word in words {
        match word {
            "all" => chosen.extend(&releases),
            "newest" => chosen.push(last),
            word => chosen.push(
                parse(word)
                    .filter(|release| found.contains_key(release))
                    .with_context(|| {
                        format!("no kernel `{word}`; there are {}", list(&releases))
                    })?,
            ),
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen
        .iter()
        .filter_map(|release| found.remove(release))
        .collect())
}

fn list(releases: &[Release]) -> String {
    let names: Vec<_> = releases.iter().map(Release::to_string).collect();
    names.join(", ")
}

fn parse(text: &str) -> Option<Release> {
    let mut numbers = numbers(text).into_iter();
    Some(Release(numbers.next()?, numbers.next()?))
}

/// All numbers in a version, which order it.
fn numbers(text: &str) -> Vec<u32> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// Of each release, the newest version that has an image.
fn newest_of_each(arch: Arch, names: &[String]) -> BTreeMap<Release, Packages> {
    let mut newest: BTreeMap<Release, Packages> = BTreeMap::new();
    let suffix = format!("{SUFFIX}{}", arch.debian());
    for version in versions(names, &suffix) {
        let Some(release) = parse(version) else {
            continue;
        };
        let there = newest
            .get(&release)
            .map(|packages| numbers(&packages.version));
        if there.is_none_or(|there| there < numbers(version)) {
            let names = packages_of(version, &suffix, names);
            newest.insert(
                release,
                Packages {
                    arch,
                    release,
                    version: version.to_owned(),
                    names,
                },
            );
        }
    }
    newest
}

/// Versions that have an image; metapackages, which have two numbers, are none.
fn versions<'a>(names: &'a [String], suffix: &str) -> impl Iterator<Item = &'a str> {
    let rests = names.iter().filter_map(move |name| {
        let prefix = IMAGES
            .iter()
            .rev()
            .find(|prefix| name.starts_with(**prefix))?;
        name.strip_prefix(prefix)?.strip_suffix(suffix)
    });
    rests.filter(|version| numbers(version).len() > 2)
}

/// The packages of a version: images, but the unsigned one only for want of a signed one; modules.
fn packages_of(version: &str, suffix: &str, names: &[String]) -> Vec<String> {
    let there = |prefix: &&str| {
        let name = format!("{prefix}{version}{suffix}");
        names.contains(&name).then_some(name)
    };
    let [image, binary, unsigned] = &IMAGES;
    let mut packages: Vec<String> = [image, binary].into_iter().filter_map(there).collect();
    if packages.is_empty() {
        packages.extend(there(unsigned));
    }
    packages.extend(there(&MODULES));
    packages
}

impl Packages {
    /// Fetches and unpacks them; of the modules, these are chosen.
    pub fn fetch(&self, apt: &Apt, modules: &[&str]) -> Result<Kernel> {
        let directory = apt.unpacked(&format!("linux-{}", self.version), &self.names)?;
        let mut files = Vec::new();
        collect(&directory, &mut files)?;
        let image = find(&files, |name| name.starts_with("vmlinuz"));
        let modules = modules.iter().filter_map(|wanted| {
            find(&files, |name| {
                name.split_once(".ko")
                    .is_some_and(|(stem, _)| stem == *wanted)
            })
        });
        Ok(Kernel {
            arch: self.arch,
            release: self.release,
            version: self.version.clone(),
            image: image.with_context(|| {
                format!(
                    "no kernel image in {}, of {}",
                    directory.display(),
                    self.names.join(", ")
                )
            })?,
            modules: modules.collect(),
            has_modules: find(&files, |name| name.contains(".ko")).is_some(),
        })
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

fn find(files: &[PathBuf], is_it: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let name = |file: &&PathBuf| {
        file.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(&is_it)
    };
    files.iter().find(name).cloned()
}

/// All files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_newest_of_each_release_by_number() {
        let names = strings(&[
            "linux-image-6.12-cloud-amd64",
            "linux-image-6.12.95+deb12-cloud-amd64",
            "linux-image-6.12.107+deb13-cloud-amd64",
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
        ]);
        let found = newest_of_each(Arch::Amd64, &names);
        let versions: Vec<_> = found
            .values()
            .map(|packages| packages.version.as_str())
            .collect();
        assert_eq!(versions, ["6.1.0-56", "6.12.107+deb13"]);
    }

    #[test]
    fn an_unsigned_image_only_for_want_of_a_signed_one() {
        let names = strings(&[
            "linux-image-7.2.12+deb13-cloud-amd64",
            "linux-binary-7.2.12+deb13-cloud-amd64",
            "linux-binary-unsigned-7.2.12+deb13-cloud-amd64",
            "linux-modules-7.2.12+deb13-cloud-amd64",
            "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
        ]);
        let found = newest_of_each(Arch::Amd64, &names);
        assert_eq!(
            found[&Release(7, 2)].names,
            strings(&[
                "linux-image-7.2.12+deb13-cloud-amd64",
                "linux-binary-7.2.12+deb13-cloud-amd64",
                "linux-modules-7.2.12+deb13-cloud-amd64",
            ])
        );
        assert_eq!(
            found[&Release(7, 3)].names,
            ["linux-binary-unsigned-7.3.4+deb13-cloud-amd64"]
        );
    }

    #[test]
    fn releases_order_by_number() {
        assert!(parse("6.2") < parse("6.12") && parse("6.19") < parse("7.0"));
        assert_eq!(parse("newer"), None);
    }
}
