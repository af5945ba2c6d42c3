//! Mount points: which filesystem a file lies on, from the text of `/proc/PID/mountinfo`.

use std::collections::HashMap;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mount {
    /// Device of the filesystem, as in `FileId::device`: major << 20 | minor.
    pub device: u32,
    pub mount_point: Vec<u8>,
    pub fs_type: String,
    /// What is mounted: a device, a server, or a word.
    pub source: Vec<u8>,
}

/// All mounts seen, those that have been unmounted since included.
#[derive(Debug, Default)]
pub struct Mounts {
    all: Vec<Mount>,
    by_device: HashMap<u32, Vec<usize>>,
}

impl Mounts {
    /// Takes the mounts of a mountinfo text; those seen before stay. Lines that cannot be read are left out.
    pub fn update(&mut self, mountinfo: &[u8]) {
        mountinfo
            .split(|byte| *byte == b'\n')
            .filter_map(parse)
            .for_each(|mount| self.insert(mount));
    }

    /// Takes one mount.
    pub fn insert(&mut self, mount: Mount) {
        let on_device = self.by_device.entry(mount.device).or_default();
        if !on_device.iter().any(|index| self.all[*index] == mount) {
            on_device.push(self.all.len());
            self.all.push(mount);
        }
    }

    /// Forgets mounts of devices that no file is on and that are not mounted any more.
    pub fn forget(&mut self, mountinfo: &[u8], is_used: impl Fn(u32) -> bool) {
        let mut now = Self::default();
        now.update(mountinfo);
        for mount in std::mem::take(&mut self.all) {
            if is_used(mount.device) {
                now.insert(mount);
            }
        }
        *self = now;
    }

    /// All mounts seen, in order.
    pub fn all(&self) -> &[Mount] {
        &self.all
    }

    /// The mount that a file lies on: of those of its device the longest that its path goes through, else the first.
    pub fn find(&self, device: u32, path: &[u8]) -> Option<&Mount> {
        let on_device = || {
            self.by_device
                .get(&device)
                .into_iter()
                .flatten()
                .map(|index| &self.all[*index])
        };
        let through = on_device().filter(|mount| lies_beneath(path, &mount.mount_point));
        through
            .max_by_key(|mount| mount.mount_point.len())
            .or_else(|| on_device().next())
    }
}

fn lies_beneath(path: &[u8], mount_point: &[u8]) -> bool {
    let Some(rest) = path.strip_prefix(mount_point) else {
        return false;
    };
    mount_point.ends_with(b"/") || rest.is_empty() || rest[0] == b'/'
}

/// One line: `36 35 98:0 /root /mount/point options optional... - type source superoptions` (proc(5)).
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let mount_point = unescape(fields.nth(1)?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = unescape(fields.next().unwrap_or_default());
    Some(Mount {
        device: parse_device(device)?,
        mount_point,
        fs_type,
        source,
    })
}

/// A device as `major:minor`.
pub fn parse_device(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// Undoes [`escape`].
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if *byte == b'\\' => {
                bytes.push(value);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    bytes
}

/// The kernel's escapes (`\040`), used for every byte that is not plain printable ASCII.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'\\' {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("\\{byte:03o}"));
        }
    }
    text
}

/// Name of a filesystem type by its magic number (statfs(2), `linux/magic.h`), for filesystems that no mount shows.
pub fn fs_type_of(magic: u64) -> Option<&'static str> {
    let found = MAGICS.iter().find(|(number, _)| *number == magic);
    found.map(|(_, name)| *name)
}

/// The one name of filesystem types that the kernel gives one magic number: `nfs` for `nfs4`, `fuse` for `fuse.sshfs`.
pub fn family(fs_type: &str) -> &str {
    match fs_type {
        "ext2" | "ext3" => "ext4",
        "nfs4" => "nfs",
        "devtmpfs" => "tmpfs",
        "smb2" | "smb3" => "cifs",
        _ if fs_type.starts_with("fuse.") || fs_type == "fuseblk" => "fuse",
        _ => fs_type,
    }
}

/// All filesystem types that a magic number names.
pub fn families() -> impl Iterator<Item = &'static str> {
    MAGICS.iter().map(|(_, name)| *name)
}

/// Magic numbers, each with a filesystem type.
pub fn magics() -> impl Iterator<Item = (u64, &'static str)> {
    MAGICS.into_iter()
}

/// Number of magic numbers.
pub const MAGIC_COUNT: usize = MAGICS.len();

const MAGICS: [(u64, &str); 38] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x6573_5546, "fuse"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0x00c3_6400, "ceph"),
    (0x2fc1_2fc1, "zfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x2003_0528, "orangefs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x9660, "iso9660"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6367_7270, "cgroup2"),
    (0x0027_e0eb, "cgroup"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x1cd1, "devpts"),
    (0x6e73_6673, "nsfs"),
    (0x0904_1934, "anon_inodefs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"21 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n\
        40 21 0:35 / /mnt/with\\040space rw - nfs4 server:/export rw\n\
        41 21 8:1 /data /srv/data rw - ext4 /dev/sda1 rw\n\
        garbage\n";

    fn mounts() -> Mounts {
        let mut mounts = Mounts::default();
        mounts.update(TEXT);
        mounts
    }

    #[test]
    fn reads_mountinfo() {
        let mounts = mounts();
        assert_eq!(mounts.all().len(), 3);
        assert_eq!(mounts.all()[1].mount_point, b"/mnt/with space");
        assert_eq!(
            (mounts.all()[1].fs_type.as_str(), mounts.all()[1].device),
            ("nfs4", 35)
        );
        assert_eq!(mounts.all()[1].source, b"server:/export");
    }

    #[test]
    fn finds_the_longest_of_the_device() {
        let mounts = mounts();
        let root = 8 << 20 | 1;
        let point = |device, path: &[u8]| {
            mounts
                .find(device, path)
                .map(|mount| mount.mount_point.clone())
        };
        assert_eq!(point(root, b"/srv/data/x"), Some(b"/srv/data".to_vec()));
        assert_eq!(point(root, b"/srv/database"), Some(b"/".to_vec()));
        assert_eq!(
            point(35, b"/somewhere/else"),
            Some(b"/mnt/with space".to_vec())
        );
        assert_eq!(point(99, b"/"), None);
    }

    #[test]
    fn remembers_what_was_unmounted() {
        let mut mounts = mounts();
        mounts.update(b"50 21 0:50 / /new rw - tmpfs none rw");
        mounts.update(TEXT);
        assert_eq!(mounts.all().len(), 4);
    }

    #[test]
    fn escapes_are_undone() {
        let hostile = b"a b\\c\n\xff\x1b040";
        assert_eq!(unescape(escape(hostile).as_bytes()), hostile);
        assert_eq!(escape(b"/a b"), "/a\\040b");
        assert_eq!(unescape(b"tail\\04"), b"tail\\04");
    }

    #[test]
    fn magic_numbers_are_distinct() {
        let mut numbers: Vec<_> = MAGICS.iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), MAGICS.len());
        assert_eq!(fs_type_of(0xef53), Some("ext4"));
    }
}
