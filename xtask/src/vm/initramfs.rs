//! All that a machine has: an archive that the kernel unpacks into its first filesystem.
//!
//! The format is `newc` of cpio(5), as the kernel's documentation of initramfs has it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::apt::Apt;
use super::kernels::Kernel;
use super::plan::{self, Job};
use super::programs::Programs;

const INIT: &str = include_str!("init.sh");
const HOST: &str = include_str!("host.sh");
/// Where things are mounted.
const DIRECTORIES: [&str; 8] = [
    "/bin", "/dev", "/etc", "/modules", "/proc", "/root", "/sys", "/scratch",
];

/// Writes the archive for a kernel and its jobs to `path`.
pub fn write(
    apt: &Apt,
    kernel: &Kernel,
    programs: &Programs,
    jobs: &[Job],
    path: &Path,
) -> Result<()> {
    let mut archive = Archive::default();
    for directory in DIRECTORIES {
        archive.directory(Path::new(directory));
    }
    // The kernel opens it for the first process's output, before anything is mounted.
    archive.entry(Path::new("/dev/console"), 0o020_600, (5, 1), &[]);
    let busybox = apt.unpacked("busybox", &["busybox-static".to_owned()])?;
    archive.file(Path::new("/bin/busybox"), &busybox.join("usr/bin/busybox"))?;
    for program in [&programs.iotrace, &programs.workload, &programs.kernel] {
        archive.file(program, program)?;
    }
    for (index, module) in kernel.modules.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.file(Path::new(&format!("/modules/{index}-{name}")), module)?;
    }
    let list: String = jobs.iter().map(Job::line).collect();
    archive.entry(Path::new("/etc/jobs"), FILE, (0, 0), list.as_bytes());
    archive.entry(Path::new("/init"), PROGRAM, (0, 0), INIT.as_bytes());
    archive.entry(Path::new(plan::HOST), PROGRAM, (0, 0), HOST.as_bytes());
    fs::write(path, archive.end()).with_context(|| format!("cannot write {}", path.display()))
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    directories: BTreeSet<PathBuf>,
}

impl Archive {
    /// A file with the bytes of one here, and the directories above it.
    fn file(&mut self, at: &Path, source: &Path) -> Result<()> {
        let read = || -> std::io::Result<_> {
            let mode = fs::metadata(source)?.permissions().mode();
            Ok((fs::read(source)?, mode))
        };
        let (bytes, mode) = read().with_context(|| format!("cannot read {}", source.display()))?;
        if let Some(parent) = at.parent() {
            self.directory(parent);
        }
        self.entry(at, 0o100_000 | mode & 0o777, (0, 0), &bytes);
        Ok(())
    }

    /// A directory and those above it, unless they are there.
    fn directory(&mut self, at: &Path) {
        if at.parent().is_none() || self.directories.contains(at) {
            return;
        }
        at.parent()
            .into_iter()
            .for_each(|parent| self.directory(parent));
        self.entry(at, DIRECTORY, (0, 0), &[]);
        self.directories.insert(at.to_owned());
    }

    fn entry(&mut self, at: &Path, mode: u32, device: (u32, u32), bytes: &[u8]) {
        self.inode += 1;
        let name = at.strip_prefix("/").unwrap_or(at).to_string_lossy();
        let fields = [
            self.inode,
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            bytes.len() as u32,
            0, // device it is on
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // checksum
        ];
        self.bytes.extend(b"070701");
        fields
            .iter()
            .for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(bytes);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.directory(Path::new("/a/bc"));
        archive.entry(Path::new("/a/bc/d"), FILE, (0, 0), b"12345");
        let bytes = archive.end();
        let heads: Vec<usize> = (0..bytes.len())
            .filter(|at| bytes[*at..].starts_with(b"070701"))
            .collect();
        assert_eq!(heads.len(), 4, "two directories, a file and the end");
        assert!(heads.iter().all(|at| at % 4 == 0), "{heads:?}");
        assert_eq!(bytes.len() % 4, 0);
    }
}
