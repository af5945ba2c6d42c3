//! `files.parquet` of a trace part: numbers of files that are new since the trace part before.

use iotrace_common::key::FileId;

use crate::columns::{Device, Inode, row};

row! {
    pub struct Row in each "files" {
        /// number of the file in this recording
        file: u32 as Differences,
        /// the device, as `major:minor`
        device: Device,
        /// the inode
        inode: Inode as Differences,
        /// tells apart files that reuse an inode number
        generation: u32 as Differences,
    }
}

impl Row {
    /// The number of a file.
    pub fn new(file: u32, id: FileId) -> Self {
        Self {
            file,
            device: Device(id.device),
            inode: Inode(id.inode),
            generation: id.generation,
        }
    }

    /// The file.
    pub fn id(&self) -> FileId {
        FileId {
            device: self.device.0,
            inode: self.inode.0,
            generation: self.generation,
        }
    }
}
