//! Which file a handle is, where the programs know no file ([`iotrace_common::nobtf`]): by /proc while the descriptor is
//! open, by its path afterwards.
//!
//! Stands between the maps and the batches: events of handles become events of files, and in counters files stand where
//! handles stood. What is no file is taken out, and counted as not looked at, as the programs do it where they can.
//!
//! A look at `/proc/PID/fd/N` is of the handle if the programs still have the handle at that place after it: they take it
//! away before the descriptor is closed. A file is told from a later one with its inode number by when it was made.
//!
//! - `identity`: what tells files apart
//! - `counters`: files in place of handles

mod counters;
mod identity;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, Metadata},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::Path,
};

use aya::maps::{HashMap as Map, MapData};
use iotrace_common::{
    abi::maps,
    event::{self, Name, name_flags},
    key::FileId,
    nobtf::{Descriptor, HANDLE, Key, Opened, Process, origin},
};
use zeroize::Zeroizing;

pub use counters::Counts;
use identity::{OTHER, UNKNOWN, device, identity, is_file, is_younger, unknown};

use super::events::{Decoded, Decoder, header, normalize, payload, read};
use crate::kernel::{Kernel, KernelError};
use iotrace_model::input::{Event, FileName, ProcessId};

/// Handles that are known at most before those that are closed are forgotten.
const MOST: usize = 1 << 20;

/// What a handle is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// A regular file or a directory.
    File(FileId),
    /// Nothing is known of it.
    Nameless(FileId),
    /// Neither, by its type in `st_mode`.
    Other(u32),
}

/// Finds out what handles are.
pub struct Resolver {
    decoder: Decoder,
    descriptors: Map<MapData, Key, Descriptor>,
    processes: Map<MapData, u32, Process>,
    handles: HashMap<u64, Found>,
    /// Files by their last known path.
    by_path: HashMap<Vec<u8>, FileId>,
    /// Directories that were opened, by handle.
    directories: HashMap<u64, Vec<u8>>,
    /// Files that are known by another identity than what tells them apart on their filesystem.
    same: HashMap<FileId, FileId>,
    /// Files whose last name may be gone: an inode with a name and the same identity is another file, made within one
    /// tick of the filesystem's clock.
    gone: HashSet<FileId>,
    /// Identities that were made up for those others.
    others: u32,
    /// Working directories.
    working: HashMap<u32, Vec<u8>>,
    /// Old names by thread, until the new one comes.
    renames: HashMap<u32, Vec<u8>>,
    /// Handles of which nothing is known and that something was done to.
    nameless: HashSet<u64>,
    counts: Counts,
}

impl Resolver {
    /// Takes the maps out of the loaded programs, where they follow descriptors.
    pub fn take(kernel: &mut Kernel) -> Result<Option<Self>, KernelError> {
        if kernel.without_types().is_none() {
            return Ok(None);
        }
        Ok(Some(Self {
            decoder: Decoder::default(),
            descriptors: kernel.take(maps::DESCRIPTORS)?,
            processes: kernel.take(maps::PROCESSES)?,
            handles: HashMap::new(),
            by_path: HashMap::new(),
            directories: HashMap::new(),
            same: HashMap::new(),
            gone: HashSet::new(),
            others: 0,
            working: HashMap::new(),
            renames: HashMap::new(),
            nameless: HashSet::new(),
            counts: Counts::default(),
        }))
    }

    /// What was found out so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lets the counts begin at 0, after the self-test.
    pub fn zero(&mut self) {
        self.nameless.clear();
        self.counts = Counts::default();
    }

    /// Decodes a record; what it tells comes into `events`. `None` where the decoder is to say what it is.
    pub fn decode(&mut self, record: &[u8], events: &mut Vec<Event>) -> Option<Decoded> {
        let Some(kind) = header(record).map(|header| header.kind) else {
            return Some(Decoded::Damaged);
        };
        let told = match kind {
            event::OPENED => self.opened(record, events),
            event::RENAME_FROM | event::RENAME_TO | event::UNLINK => self.moved(record, events),
            _ => {
                let decoded = self.decoder.decode(record);
                if let Decoded::Event(event) = &decoded {
                    self.follow(event, events);
                }
                return Some(decoded);
            }
        };
        told.is_none().then_some(Decoded::Damaged)
    }

    /// A handle that is new, or a change of the working directory.
    fn opened(&mut self, record: &[u8], events: &mut Vec<Event>) -> Option<()> {
        let opened: Opened = read(record)?;
        let given = payload::<Opened>(record, &opened.header)?;
        let given = given.strip_suffix(b"\0").unwrap_or(given);
        if opened.origin == origin::DIRECTORY {
            // Of fchdir, the directory itself.
            let path = self.absolute(opened.header.tgid, opened.base, given);
            match path {
                Some(path) => self.working.insert(opened.header.tgid, path),
                None => self.working.remove(&opened.header.tgid),
            };
            return Some(());
        }
        let name = match self.look(&opened) {
            Some(Ok(name)) => name,
            Some(Err(mode)) => {
                self.handles.insert(opened.handle, Found::Other(mode));
                return Some(());
            }
            None => match self.by_path(&opened, given) {
                Ok(name) => name,
                Err(mode) => {
                    self.handles.insert(opened.handle, Found::Other(mode));
                    return Some(());
                }
            },
        };
        if name.mode & libc::S_IFMT == libc::S_IFDIR {
            self.directories.insert(opened.handle, name.path.clone());
        }
        if name.path.is_empty() {
            self.handles
                .insert(opened.handle, Found::Nameless(name.file));
        } else {
            self.handles.insert(opened.handle, Found::File(name.file));
            events.push(Event::File(name));
        }
        Some(())
    }

    /// What /proc says of a descriptor, if it is still that of the handle; or the type of what is no file.
    fn look(&mut self, opened: &Opened) -> Option<Result<FileName, u32>> {
        let found = self.look_at(opened, opened.fd);
        if found.is_some() || opened.origin != origin::FOUND {
            return found;
        }
        // Where a shell redirects, a copy of the descriptor is left.
        self.copies_of(opened)
            .into_iter()
            .find_map(|fd| self.look_at(opened, fd))
    }

    /// Other descriptors of the process: one may have the same handle.
    fn copies_of(&self, opened: &Opened) -> Vec<u32> {
        let listed = fs::read_dir(format!("/proc/{}/fd", opened.header.tgid));
        let listed = listed.into_iter().flatten().flatten();
        let open = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        open.filter(|fd| *fd != opened.fd).collect()
    }

    /// As [`Self::look`], at one descriptor.
    fn look_at(&mut self, opened: &Opened, fd: u32) -> Option<Result<FileName, u32>> {
        let link = format!("/proc/{}/fd/{fd}", opened.header.tgid);
        let metadata = fs::metadata(&link).ok()?;
        let path = fs::read_link(&link).ok()?.into_os_string().into_vec();
        let key = Key {
            tgid: opened.header.tgid,
            fd,
            start: opened.header.start,
        };
        let now = self.descriptors.get(&key, 0).ok()?;
        let process = self.processes.get(&key.tgid, 0).ok()?;
        if now.handle & HANDLE != opened.handle || process.now.closes(&now, fd) {
            return None;
        }
        let mode = metadata.mode();
        if !is_file(mode) {
            return Some(Err(mode));
        }
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path).to_vec();
        // The name of a file in memory is all that it ever has.
        let deleted = metadata.nlink() == 0 && !path.starts_with(b"/memfd:");
        let known = self.by_path.get(&path).copied();
        Some(Ok(self.name(path, &metadata, deleted, known)))
    }

    /// A file that has the identity of one that is gone.
    fn another(&mut self, own: FileId) -> FileId {
        self.others = self.others.wrapping_add(1);
        let generation = OTHER | self.others & !(OTHER | 1 << 30);
        let file = FileId { generation, ..own };
        self.same.insert(own, file);
        file
    }

    /// The name of a file with this metadata. `known`: what the path was before.
    fn name(
        &mut self,
        path: Vec<u8>,
        metadata: &Metadata,
        deleted: bool,
        known: Option<FileId>,
    ) -> FileName {
        let own = identity(metadata);
        let before = known.filter(|known| known.generation == UNKNOWN && !deleted);
        let mut file = *self.same.entry(own).or_insert(before.unwrap_or(own));
        if deleted {
            self.gone.insert(file);
        } else {
            if self.gone.remove(&file) {
                file = self.another(own);
            }
            self.by_path.insert(path.clone(), file);
        }
        FileName {
            file,
            path,
            size: metadata.len(),
            mode: metadata.mode(),
            magic: 0,
            block_size: metadata.blksize() as u32,
            truncated: false,
            deleted,
            existed: false,
        }
    }

    /// What a descriptor that is closed was, by the path that it was opened by; or the type of what is no file.
    fn by_path(&mut self, opened: &Opened, given: &[u8]) -> Result<FileName, u32> {
        let path = match opened.origin {
            origin::MEMORY => Some([b"/memfd:", given].concat()),
            origin::PATH => self.absolute(opened.header.tgid, opened.base, given),
            _ => None,
        };
        let Some(path) = path else {
            // Counted where anything was done to it.
            return Ok(unknown(opened, Vec::new(), 0));
        };
        self.counts.by_path += 1;
        if opened.origin == origin::MEMORY {
            return Ok(unknown(opened, path, 0));
        }
        let at = Path::new(std::ffi::OsStr::from_bytes(&path));
        let real = fs::canonicalize(at).ok();
        let real = real.map(|path| path.into_os_string().into_vec());
        let there = real.and_then(|real| Some((fs::metadata(at).ok()?, real)));
        match there {
            Some((metadata, _)) if !is_file(metadata.mode()) => Err(metadata.mode()),
            // One that was made since is another.
            Some((metadata, real)) if !is_younger(&metadata, opened.header.time) => {
                let known = self.by_path.get(&real).copied();
                Ok(self.name(real, &metadata, false, known))
            }
            _ => {
                if let Some(known) = self.by_path.get(&path) {
                    let file = *known;
                    return Ok(FileName {
                        file,
                        ..unknown(opened, path, 0)
                    });
                }
                let device = self.device_of(&path);
                let name = unknown(opened, path, device);
                self.by_path.insert(name.path.clone(), name.file);
                Ok(name)
            }
        }
    }

    /// Device of the directory that a path is in; 0: it is gone, too.
    fn device_of(&self, path: &[u8]) -> u32 {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let metadata = path.parent().and_then(|parent| fs::metadata(parent).ok());
        metadata.map_or(0, |metadata| device(&metadata))
    }

    /// A rename or an unlink.
    fn moved(&mut self, record: &[u8], events: &mut Vec<Event>) -> Option<()> {
        let name: Name = read(record)?;
        let header = name.header;
        let given = payload::<Name>(record, &header)?;
        let given = given.strip_suffix(b"\0").unwrap_or(given);
        let process = ProcessId::from(&header);
        // Where the directory is not known, neither is the name.
        let path = self.absolute(header.tgid, name.file.inode, given);
        let path = path.unwrap_or_else(|| given.to_vec());
        match header.kind {
            event::RENAME_FROM => {
                self.renames.insert(header.tid, path);
            }
            event::RENAME_TO => {
                let from = self.renames.remove(&header.tid)?;
                let exchange = name.flags & name_flags::EXCHANGED != 0;
                let (old, new) = (self.by_path.remove(&from), self.by_path.remove(&path));
                self.by_path.extend(old.map(|old| (path.clone(), old)));
                if exchange {
                    self.by_path.extend(new.map(|new| (from.clone(), new)));
                } else {
                    self.gone.extend(new);
                }
                events.push(Event::Rename {
                    process,
                    time: header.time,
                    from,
                    to: path,
                    exchange,
                });
            }
            _ => {
                self.gone.extend(self.by_path.remove(&path));
                events.push(Event::Unlink {
                    process,
                    time: header.time,
                    path,
                });
            }
        }
        Some(())
    }

    /// Follows processes: what they run, and where they work.
    fn follow(&mut self, event: &Event, events: &mut Vec<Event>) {
        match event {
            Event::Fork { parent, child, .. } => {
                let directory = self.working(parent.pid);
                self.working.extend(directory.map(|path| (child.pid, path)));
            }
            Event::Exec { process, .. } => {
                let pid = process.pid;
                let path = fs::read_link(format!("/proc/{pid}/exe"));
                events.extend(path.ok().map(|path| Event::Exe {
                    process: *process,
                    path: path.into_os_string().into_vec(),
                }));
                let variables = fs::read(format!("/proc/{pid}/environ")).ok();
                events.extend(variables.map(|variables| Event::Environment {
                    process: *process,
                    variables: Zeroizing::new(variables),
                }));
            }
            Event::Exit { process, .. } => {
                self.working.remove(&process.pid);
            }
            _ => {}
        }
    }

    /// The working directory of a process; of what was not seen to change it, that of now.
    fn working(&mut self, pid: u32) -> Option<Vec<u8>> {
        if let Some(known) = self.working.get(&pid) {
            return Some(known.clone());
        }
        let path = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        let path = path.into_os_string().into_vec();
        self.working.insert(pid, path.clone());
        Some(path)
    }

    /// A path as a process gave it, from the directory of handle `base` on, or from where it works (0).
    fn absolute(&mut self, pid: u32, base: u64, given: &[u8]) -> Option<Vec<u8>> {
        if given.starts_with(b"/") {
            return Some(normalize(given));
        }
        let base = match base {
            0 => self.working(pid)?,
            handle => self.directories.get(&handle)?.clone(),
        };
        Some(normalize(&[&base, b"/".as_slice(), given].concat()))
    }

    /// Forgets handles whose descriptors are closed, when there are many; their counters have come.
    pub fn prune(&mut self) {
        if self.handles.len() <= MOST {
            return;
        }
        let live = self.descriptors.iter().filter_map(Result::ok);
        let live: HashSet<u64> = live.map(|(_, known)| known.handle & HANDLE).collect();
        self.handles.retain(|handle, _| live.contains(handle));
        self.directories.retain(|handle, _| live.contains(handle));
        self.gone.clear();
    }
}
