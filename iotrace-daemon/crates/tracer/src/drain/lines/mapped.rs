//! The files that a process has mapped, and where.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::MetadataExt as _,
};

use rustix::fs::{Mode, OFlags, open};

/// A part of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub addresses: Range<u64>,
    pub is_code: bool,
    /// Where the mapping begins in its file.
    pub offset: u64,
    /// The file, as /proc has it: its device and its inode.
    pub file: (String, u64),
    pub path: String,
}

impl Mapping {
    /// Reads a line of /proc/PID/maps (proc(5)); none if it is of no file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(fields.next()?)?;
        let device = fields.next()?.to_owned();
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next()?.trim_start();
        Some(Self {
            addresses: number(from)?..number(to)?,
            is_code: rights.contains('x'),
            offset,
            file: (device, inode),
            path: path.starts_with('/').then(|| path.to_owned())?,
        })
    }

    /// Where an address of the mapping is in its file.
    pub fn in_file(&self, address: u64) -> u64 {
        self.offset.wrapping_add(address - self.addresses.start)
    }

    /// Opens the file. Who may not follow the link to it opens it by its name, if that still leads to it.
    pub fn open(&self, pid: u32) -> Option<File> {
        let is_same = |file: &File| file.metadata().is_ok_and(|now| now.ino() == self.file.1);
        let named = || self.open_by_name(pid).filter(is_same);
        self.open_by_link(pid).or_else(named)
    }

    /// Opens the file, or without a right to the link to it what has its name now.
    pub fn open_or_successor(&self, pid: u32) -> Option<File> {
        self.open_by_link(pid).or_else(|| self.open_by_name(pid))
    }

    /// Opens the file itself, also where it has no name any more.
    fn open_by_link(&self, pid: u32) -> Option<File> {
        let Range { start, end } = self.addresses;
        open_regular(&format!("/proc/{pid}/map_files/{start:x}-{end:x}"))
    }

    /// Opens what has the file's name now, as the process sees it.
    fn open_by_name(&self, pid: u32) -> Option<File> {
        open_regular(&format!("/proc/{pid}/root{}", self.path))
    }
}

/// Opens a regular file. A pipe is not waited for.
fn open_regular(path: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok()?.is_file().then_some(file)
}

/// What a process has mapped of files now; none if it has ended.
pub fn mapped_by(pid: u32) -> Option<Vec<Mapping>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mapped: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
    (!mapped.is_empty()).then_some(mapped)
}

/// The mapping that an address is in.
pub fn at(mapped: &[Mapping], address: u64) -> Option<&Mapping> {
    let mut mapped = mapped.iter();
    mapped.find(|mapping| mapping.addresses.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_the_list_of_mappings() {
        let code = "5600-5a00 r-xp 00002000 fd:01 77                      /opt/a program";
        let mapping = Mapping::parse(code).unwrap();
        assert_eq!(mapping.path, "/opt/a program");
        assert!(mapping.is_code);
        assert_eq!(mapping.file, ("fd:01".to_owned(), 77));
        assert_eq!(mapping.in_file(0x5610), 0x2010);
        let data = Mapping::parse("5600-5a00 r--p 00002000 fd:01 77 /opt/a").unwrap();
        assert!(!data.is_code);
        for other in [
            "5600-5a00 r-xp 00000000 00:00 0 [vdso]",
            "5600-5a00 r-xp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(Mapping::parse(other), None, "{other}");
        }
    }
}
