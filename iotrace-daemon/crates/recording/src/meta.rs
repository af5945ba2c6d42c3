//! `meta.json`: what a recording is of, which parts it has, and whether it was ended well.

use std::{
    collections::HashSet,
    io::{self, Read as _, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{Error, FORMAT_MINOR_VERSION, FORMAT_VERSION, META, PART, UNFINISHED, checksums};
use crate::directory::Directory;
use iotrace_model::{
    Model,
    mounts::{Mount, escape, parse_device, unescape},
    regular_file,
    run::{Run, rfc3339},
};

/// Most bytes of `meta.json`: one of a recording of years is shorter.
const MAX_META_BYTES: u64 = 64 << 20;

/// Whether this is the name of a part that is in its place.
pub fn is_part(name: &str) -> bool {
    name.strip_prefix(PART)
        .is_some_and(|number| number.len() >= 6 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    regular_file::open(path)?
        .take(MAX_META_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_META_BYTES {
        return Err(io::Error::other("it is longer than 64 MiB"));
    }
    Ok(text)
}

/// The content of `meta.json`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Meta {
    pub format_version: u32,
    /// 0 in recordings of the first versions.
    #[serde(default)]
    pub format_minor_version: u32,
    /// Of this file, with zeros in its place; empty in recordings of earlier versions.
    #[serde(default)]
    checksum: String,
    /// Whether the recorder ended well; else what came after the last part is missing.
    pub complete: bool,
    /// [`Run::start_unix_ns`], to be read by people.
    #[serde(skip_deserializing)]
    pub start_time: String,
    /// [`Run::duration_ns`], to be read by people.
    #[serde(skip_deserializing)]
    pub duration_seconds: f64,
    /// Directories of the parts, in order.
    pub parts: Vec<String>,
    #[serde(flatten)]
    pub run: Run,
    pub mounts: Vec<MountEntry>,
}

/// A mount, as text: `major:minor`, and the kernel's octal escapes for what is not plain.
#[derive(Debug, Serialize, Deserialize)]
pub struct MountEntry {
    device: String,
    mount_point: String,
    fs_type: String,
    source: String,
}

impl Meta {
    /// What is known of `run` now.
    pub fn new(run: &Run, model: &Model, parts: &[String], complete: bool) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            format_minor_version: FORMAT_MINOR_VERSION,
            checksum: checksums::UNSEALED.into(),
            complete,
            start_time: rfc3339(run.start_unix_ns),
            duration_seconds: run.duration_ns as f64 / 1e9,
            parts: parts.to_vec(),
            run: run.clone(),
            mounts: model.mounts().iter().map(MountEntry::from).collect(),
        }
    }

    /// Writes the file under another name, and renames it into its place.
    pub fn write(&self, directory: &Directory) -> Result<(), Error> {
        let unfinished = [META, UNFINISHED].concat();
        let written = self.write_to(directory, &unfinished).and_then(|()| {
            directory.rename(&unfinished, META)?;
            directory.sync()
        });
        written.map_err(|cause| {
            // What is left of it is of no use, and its room may be needed.
            let _ = directory.remove_file(&unfinished);
            Error::io("write", directory.path().join(META), cause)
        })
    }

    fn write_to(&self, directory: &Directory, name: &str) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        checksums::seal(&mut text);
        let mut file = directory.create(name)?;
        file.write_all(&text)?;
        file.sync_all()
    }

    /// Reads the file of a recording of this version or an older one.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u64,
            #[serde(default)]
            format_minor_version: u32,
        }
        let path = directory.join(META);
        let text = read_bounded(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound if directory.is_dir() => Error::NotARecording(directory.into()),
            io::ErrorKind::NotADirectory => Error::NotARecording(directory.into()),
            _ => Error::io("read", &path, cause),
        })?;
        let version: Version =
            serde_json::from_slice(&text).map_err(|cause| Error::damaged(&path, cause))?;
        if version.format_version > FORMAT_VERSION.into() {
            return Err(Error::Newer {
                path: directory.into(),
                found: version.format_version,
            });
        }
        if !checksums::is_intact(&text) {
            return Err(Error::damaged(&path, "its checksum is another"));
        }
        let meta: Self = serde_json::from_slice(&text)
            .map_err(|cause| Error::damaged(&path, cause).of_minor(version.format_minor_version))?;
        meta.check_parts()
            .map_err(|cause| Error::damaged(&path, cause))?;
        Ok(meta)
    }

    /// Parts lie in the recording, each once.
    fn check_parts(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for part in &self.parts {
            if !is_part(part) {
                return Err(format!("{part:?} is not the name of a part"));
            }
            if !seen.insert(part) {
                return Err(format!("it names {part} twice"));
            }
        }
        Ok(())
    }
}

impl From<&Mount> for MountEntry {
    fn from(mount: &Mount) -> Self {
        Self {
            device: format!("{}:{}", mount.device >> 20, mount.device & 0xf_ffff),
            mount_point: escape(&mount.mount_point),
            fs_type: mount.fs_type.clone(),
            source: escape(&mount.source),
        }
    }
}

impl MountEntry {
    /// The mount again; none where the device is no device.
    pub fn mount(&self) -> Option<Mount> {
        Some(Mount {
            device: parse_device(&self.device)?,
            mount_point: unescape(self.mount_point.as_bytes()),
            fs_type: self.fs_type.clone(),
            source: unescape(self.source.as_bytes()),
        })
    }
}
