//! The files of a process's code, and where each is mapped.

use std::{
    fs::{self, File},
    ops::Range,
    path::PathBuf,
};

/// A mapping of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub addresses: Range<u64>,
    /// Where the mapping begins in its file.
    offset: u64,
    /// The file, as /proc has it: its device and its inode.
    pub file: (String, u64),
    pub path: String,
}

impl Mapping {
    /// Reads a line of /proc/PID/maps (proc(5)); none if it is no code of a file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let rights = fields.next()?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(fields.next()?)?;
        let device = fields.next()?.to_owned();
        let inode = fields.next()?.parse().ok()?;
        let path = fields.next()?.trim_start().to_owned();
        (rights.contains('x') && inode != 0).then_some(Self {
            addresses: number(from)?..number(to)?,
            offset,
            file: (device, inode),
            path,
        })
    }

    /// Where an address of the mapping is in its file.
    pub fn in_file(&self, address: u64) -> u64 {
        self.offset.wrapping_add(address - self.addresses.start)
    }

    /// Opens the file, also where it has no name any more.
    pub fn open(&self, pid: u32) -> Option<File> {
        let Range { start, end } = self.addresses;
        let path = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        let file = File::open(path).ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    }
}

/// The code that a process has mapped now; none if it has ended.
pub fn code_of(pid: u32) -> Option<Vec<Mapping>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let code: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
    (!code.is_empty()).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_in_the_list_of_mappings() {
        let code = "5600-5a00 r-xp 00002000 fd:01 77                      /opt/a program";
        let mapping = Mapping::parse(code).unwrap();
        assert_eq!(mapping.path, "/opt/a program");
        assert_eq!(mapping.file, ("fd:01".to_owned(), 77));
        assert_eq!(mapping.in_file(0x5610), 0x2010);
        for other in [
            "5600-5a00 r--p 00002000 fd:01 77 /opt/a",
            "5600-5a00 r-xp 00000000 00:00 0 [vdso]",
            "5600-5a00 r-xp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(Mapping::parse(other), None, "{other}");
        }
    }
}
