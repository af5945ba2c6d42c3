//! A disk of a test's own, with a filesystem.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::tool;

/// A device of the test's own: an image by way of a loop device, which goes with it.
pub struct Disk {
    pub device: PathBuf,
    /// Where it may be mounted.
    pub place: PathBuf,
}

impl Disk {
    pub fn new(dir: &Path) -> Self {
        let (image, place) = (dir.join("image"), dir.join("mount"));
        fs::create_dir(&place).unwrap();
        fs::File::create(&image)
            .unwrap()
            .set_len(256 << 20)
            .unwrap();
        let attached = Command::new(tool("losetup"))
            .args(["--find", "--show"])
            .arg(&image)
            .output();
        let attached = attached.expect("losetup");
        let errors = String::from_utf8_lossy(&attached.stderr);
        assert!(attached.status.success(), "no loop device: {errors}");
        let device = String::from_utf8(attached.stdout).expect("a path");
        let disk = Self {
            device: device.trim().into(),
            place,
        };
        let made = Command::new(tool("mkfs.ext4"))
            .arg("-qF")
            .arg(&disk.device)
            .status();
        assert!(made.expect("mkfs.ext4").success());
        disk
    }

    pub fn mount(&self) {
        let mounted = Command::new("mount")
            .arg(&self.device)
            .arg(&self.place)
            .status();
        assert!(mounted.expect("mount").success());
    }

    /// The kernel's own numbers: of reads, writes, discards and flushes the requests, and of all but the last the
    /// bytes (Documentation/block/stat.rst).
    pub fn statistics(&self) -> ([u64; 4], [u64; 3]) {
        let name = self.device.file_name().expect("a name");
        let path = Path::new("/sys/block").join(name).join("stat");
        let numbers = fs::read_to_string(path).unwrap();
        let numbers: Vec<u64> = numbers
            .split_whitespace()
            .map(|number| number.parse().unwrap())
            .collect();
        let requests = [0, 4, 11, 15].map(|index| numbers[index]);
        (requests, [2, 6, 13].map(|index| numbers[index] * 512))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Fails where it is not mounted any more.
        let _ = Command::new("umount").arg("-q").arg(&self.place).status();
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

/// A filesystem that writes nothing until this is dropped.
pub struct Frozen<'a>(&'a Path);

impl<'a> Frozen<'a> {
    pub fn new(mount: &'a Path) -> Self {
        let frozen = Command::new(tool("fsfreeze")).arg("-f").arg(mount).status();
        assert!(frozen.expect("fsfreeze").success());
        Self(mount)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
    }
}
