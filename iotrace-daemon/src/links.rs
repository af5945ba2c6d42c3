//! Renames and removals below symbolic links. The kernel side sends their paths as the program gave them, and files are known by
//! where they are: a path by which no file is known is looked up in the file system, and tried again.
//!
//! A thread looks them up, and is given up where a file system hangs. What it finds counts if it is so: a link may be replaced
//! before its events are here.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    path::PathBuf,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use iotrace_model::{Model, input::Event, paths::parent};

/// How long a file system has to find a directory.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(200);
/// Directories that are looked up from one flush to the next, at most, and events that wait for the name of their file.
const MAX_DIRECTORIES: usize = 512;
const MAX_LATE: usize = 4096;

/// Finds where the files of renames and removals are.
pub struct Links {
    lookups: Option<Lookups>,
    /// By path as it was given: where the directory is, if that is another path.
    known: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Events whose file may get its name later in the drain: as they came, and with the paths that were found.
    late: Vec<(Event, Event)>,
}

/// The thread that looks paths up.
struct Lookups {
    ask: Sender<PathBuf>,
    answers: Receiver<Found>,
}

/// What a path leads to now.
#[derive(Default)]
struct Found {
    /// The path without symbolic links, of a directory that exists.
    real: Option<Vec<u8>>,
    /// Number of the inode of what has the path itself, if anything does.
    inode: Option<u64>,
}

impl Links {
    /// Starts the thread; without one, nothing is looked up.
    pub fn new() -> Self {
        Self {
            lookups: Lookups::start().ok(),
            known: HashMap::new(),
            late: Vec::new(),
        }
    }

    /// Hands an event to the model.
    pub fn take(&mut self, event: Event, model: &mut Model) {
        match self.moved(&event, model) {
            Some(moved) if !has_name(&moved, model) && self.late.len() < MAX_LATE => {
                self.late.push((event, moved));
            }
            Some(moved) if self.is_so(&moved, model) => model.event(moved),
            _ => model.event(event),
        }
    }

    /// Hands the events that waited to the model, at the end of a drain.
    pub fn end_of_drain(&mut self, model: &mut Model) {
        for (given, moved) in std::mem::take(&mut self.late) {
            let is_so = self.is_so(&moved, model);
            model.event(if is_so { moved } else { given });
        }
    }

    /// Whether a known file was renamed or removed so. The link may lead elsewhere by now: then the file that is known by the path
    /// is still there, or another one has the new path.
    fn is_so(&mut self, moved: &Event, model: &Model) -> bool {
        if !has_name(moved, model) {
            return false;
        }
        match moved {
            Event::Rename { from, to, .. } => {
                let inode = self.look_up(to).inode;
                let is_the_file = |inode| match model.find_path(from) {
                    Some(file) => file.id.inode == inode,
                    None => true,
                };
                inode.is_some_and(is_the_file)
            }
            Event::Unlink { path, .. } => self.look_up(path).inode.is_none(),
            _ => false,
        }
    }

    /// Forgets where directories are: links may be replaced.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The event with the paths where its files are, if those are others than it has.
    fn moved(&mut self, event: &Event, model: &Model) -> Option<Event> {
        let mut moved = match event {
            Event::Rename { .. } | Event::Unlink { .. } => event.clone(),
            _ => return None,
        };
        let paths = match &mut moved {
            Event::Rename { from, to, .. } => vec![from, to],
            Event::Unlink { path, .. } => vec![path],
            _ => Vec::new(),
        };
        let mut is_moved = false;
        for path in paths {
            if let Some(real) = self.find(path, model) {
                *path = real;
                is_moved = true;
            }
        }
        is_moved.then_some(moved)
    }

    /// Where a file is, if no file of the model is in that directory and the path leads to another one.
    fn find(&mut self, path: &[u8], model: &Model) -> Option<Vec<u8>> {
        let directory = parent(path);
        if directory.is_empty() || model.has_name(path) || model.has_name(directory) {
            return None;
        }
        if !self.known.contains_key(directory) && self.known.len() < MAX_DIRECTORIES {
            let found = self.look_up(directory).real;
            let real = found.filter(|real| real != directory);
            self.known.insert(directory.to_owned(), real);
        }
        let real = self.known.get(directory)?.as_ref()?;
        let name = &path[directory.len()..];
        Some([real, name].concat())
    }

    fn look_up(&mut self, path: &[u8]) -> Found {
        let Some(lookups) = &self.lookups else {
            return Found::default();
        };
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        // The thread ends with `Lookups`.
        let _ = lookups.ask.send(path);
        lookups.answers.recv_timeout(LOOKUP_TIMEOUT).unwrap_or_else(|_| {
            self.lookups = None;
            log::warn!(
                "a file system does not answer: files that are renamed below symbolic links keep their names in the report"
            );
            Found::default()
        })
    }
}

/// Whether a file or a directory is known by the path that an event moves or removes.
fn has_name(event: &Event, model: &Model) -> bool {
    match event {
        Event::Rename { from: path, .. } | Event::Unlink { path, .. } => model.has_name(path),
        _ => false,
    }
}

impl Lookups {
    fn start() -> std::io::Result<Self> {
        let (ask, asked) = channel::<PathBuf>();
        let (answer, answers) = channel();
        thread::Builder::new()
            .name("iotrace-links".into())
            .spawn(move || {
                for path in asked {
                    let real = fs::canonicalize(&path).ok();
                    let found = Found {
                        real: real.map(|path| path.into_os_string().into_vec()),
                        inode: fs::symlink_metadata(&path).ok().map(|about| about.ino()),
                    };
                    // Nobody takes the answer of a thread that was given up.
                    let _ = answer.send(found);
                }
            })?;
        Ok(Self { ask, answers })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{create_dir, remove_file, rename, write},
        os::unix::{ffi::OsStrExt as _, fs::symlink},
        path::Path,
    };

    use iotrace_common::key::FileId;
    use iotrace_model::input::ProcessId;

    use super::*;

    const PROCESS: ProcessId = ProcessId { pid: 7, start: 1 };

    fn bytes(path: &Path) -> Vec<u8> {
        path.as_os_str().as_bytes().to_vec()
    }

    /// A new file, and its name.
    fn new_file(path: &Path) -> Event {
        write(path, "x").unwrap();
        let file = FileId {
            device: 1,
            generation: 1,
            inode: fs::metadata(path).unwrap().ino(),
        };
        iotrace_made::seen(file, bytes(path), 1)
    }

    /// A rename that was made.
    fn renamed(from: &Path, to: &Path) -> Event {
        rename(from, to).unwrap();
        Event::Rename {
            process: PROCESS,
            time: 1,
            from: bytes(from),
            to: bytes(to),
            exchange: false,
        }
    }

    /// A removal that was made.
    fn removed(path: &Path) -> Event {
        remove_file(path).unwrap();
        Event::Unlink {
            process: PROCESS,
            time: 2,
            path: bytes(path),
        }
    }

    /// A directory `real` and a link `link` to it.
    fn directories() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (real, link) = (root.join("real"), root.join("link"));
        create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        (scratch, real, link)
    }

    #[test]
    fn a_rename_below_a_link_finds_its_file() {
        let (_keep, real, link) = directories();
        let (mut links, mut model) = (Links::new(), Model::default());
        links.take(new_file(&real.join("tmp")), &mut model);
        links.take(renamed(&link.join("tmp"), &link.join("new")), &mut model);
        let file = model.file(0);
        assert_eq!(file.path, bytes(&real.join("new")));
        assert_eq!(file.opened_as, Some(&*bytes(&real.join("tmp"))));
        links.take(removed(&link.join("new")), &mut model);
        assert!(model.file(0).deleted);
    }

    #[test]
    fn a_rename_waits_for_a_name_that_comes_in_the_same_drain() {
        let (_keep, real, link) = directories();
        let (mut links, mut model) = (Links::new(), Model::default());
        let file = new_file(&real.join("tmp"));
        links.take(renamed(&link.join("tmp"), &link.join("new")), &mut model);
        links.take(file, &mut model);
        assert_eq!(model.file(0).path, bytes(&real.join("tmp")));
        links.end_of_drain(&mut model);
        assert_eq!(model.file(0).path, bytes(&real.join("new")));
    }

    #[test]
    fn a_link_that_leads_elsewhere_by_now_renames_and_removes_nothing() {
        let (_keep, real, link) = directories();
        let other = real.with_file_name("other");
        create_dir(&other).unwrap();
        let (mut links, mut model) = (Links::new(), Model::default());
        for directory in [&real, &other] {
            for name in ["tmp", "old"] {
                links.take(new_file(&directory.join(name)), &mut model);
            }
        }
        let events = [
            renamed(&link.join("tmp"), &link.join("new")),
            removed(&link.join("old")),
        ];
        remove_file(&link).unwrap();
        symlink(&other, &link).unwrap();
        for event in events {
            links.take(event, &mut model);
        }
        links.end_of_drain(&mut model);
        for (index, name) in [(2, "tmp"), (3, "old")] {
            let file = model.file(index);
            assert_eq!(file.path, bytes(&other.join(name)));
            assert!(!file.deleted && file.opened_as.is_none());
        }
    }

    #[test]
    fn names_without_links_are_not_looked_up() {
        let (_keep, real, link) = directories();
        let (mut links, mut model) = (Links::new(), Model::default());
        links.take(new_file(&real.join("tmp")), &mut model);
        links.take(renamed(&real.join("tmp"), &real.join("new")), &mut model);
        assert!(links.known.is_empty());
        // Nothing is known of what this renames.
        write(real.join("other"), "x").unwrap();
        links.take(renamed(&link.join("other"), &link.join("x")), &mut model);
        links.end_of_drain(&mut model);
        assert_eq!(model.file(0).path, bytes(&real.join("new")));
    }
}
