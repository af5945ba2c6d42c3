//! Decodes the kernel side's events: bytes of the ring buffer in, [`Event`]s out. Pure.

use std::collections::HashMap;

use iotrace_common::{
    event::{
        self, Environment, Exec, Exit, Fork, Header, Mapped, Mark, Name, Object, ThreadEnd,
        name_flags,
    },
    key::start_key,
    limits::{ENVIRONMENT_PIECE_BYTES, ENVIRONMENT_PIECES},
    nobtf::Opened,
};
use zeroize::Zeroizing;

use super::{lines, threads::Ended};
use iotrace_model::input::{Event, FileName, ProcessId, Searched};

/// What one record of the ring buffer is.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    Event(Event),
    /// The current generation is half full.
    Fill,
    /// A thread has ended, where CPU time is counted.
    ThreadEnd(Ended),
    /// What is told of Python programs.
    Lines(lines::Told),
    /// Half of a rename or a piece of an environment; the rest makes the event.
    Pending,
    /// Not a record of this version.
    Damaged,
}

/// Decodes records; keeps the first half of each rename until the second comes, and the pieces of an environment.
#[derive(Default)]
pub struct Decoder {
    /// Old names by thread.
    renames: HashMap<u32, Vec<u8>>,
    /// Environments of which the last piece has not come.
    environments: HashMap<ProcessId, Zeroizing<Vec<u8>>>,
}

impl Decoder {
    /// Decodes one record.
    pub fn decode(&mut self, record: &[u8]) -> Decoded {
        self.try_decode(record).unwrap_or(Decoded::Damaged)
    }

    fn try_decode(&mut self, record: &[u8]) -> Option<Decoded> {
        let header: Header = read(record)?;
        let process = ProcessId::from(&header);
        Some(match header.kind {
            event::FILE => Decoded::Event(Event::File(file_name(record)?)),
            event::EXE => Decoded::Event(Event::Exe {
                process,
                path: file_name(record)?.path,
            }),
            event::EXEC => Decoded::Event(exec(process, record)?),
            event::ENVIRONMENT => self.environment(process, record)?,
            event::CGROUP => Decoded::Event(Event::Cgroup {
                process,
                path: group(payload::<Header>(record, &header)?),
            }),
            event::FORK => Decoded::Event(fork(process, record)?),
            event::EXIT => {
                let exit: Exit = read(record)?;
                self.environments.remove(&process);
                Decoded::Event(Event::Exit {
                    process,
                    time: header.time,
                    status: exit.status,
                })
            }
            event::RENAME_FROM => {
                self.renames.insert(header.tid, given_path(record)?);
                Decoded::Pending
            }
            event::RENAME_TO => {
                let from = self.renames.remove(&header.tid)?;
                Decoded::Event(Event::Rename {
                    process,
                    time: header.time,
                    from,
                    to: given_path(record)?,
                    exchange: read::<Name>(record)?.flags & name_flags::EXCHANGED != 0,
                })
            }
            event::UNLINK => Decoded::Event(Event::Unlink {
                process,
                time: header.time,
                path: given_path(record)?,
            }),
            event::MISSING => {
                let name: Name = read(record)?;
                Decoded::Event(Event::NegativeLookup {
                    process,
                    searched: Searched {
                        base: name.file,
                        hash: name.size,
                    },
                    path: given_path(record)?,
                })
            }
            event::MAPPED => Decoded::Event(Event::Mapped {
                process,
                time: header.time,
                file: read::<Mapped>(record)?.file,
            }),
            event::OBJECT => {
                let object: Object = read(record)?;
                Decoded::Event(Event::Object {
                    process,
                    object: object.object,
                    parent: object.parent,
                    name: until_nul(payload::<Object>(record, &header)?),
                })
            }
            event::MARK => {
                let mark: Mark = read(record)?;
                Decoded::Event(Event::Mark {
                    process,
                    tid: header.tid,
                    time: header.time,
                    function: mark.function as u16,
                    name: until_nul(payload::<Mark>(record, &header)?),
                    progress: mark.progress.into(),
                })
            }
            event::THREAD_END => {
                let end: ThreadEnd = read(record)?;
                Decoded::ThreadEnd(Ended {
                    process,
                    tid: header.tid,
                    time: header.time,
                    runtime: end.runtime,
                    called: end.called,
                })
            }
            event::CODE_MAPPED
            | event::STACK
            | event::CODE
            | event::LINE_TABLE
            | event::NATIVE_STACK => Decoded::Lines(lines::decode(&header, record)?),
            event::FILL => Decoded::Fill,
            _ => return None,
        })
    }

    /// Joins the pieces of an environment, of which the kernel side sends a bounded number. One of which a piece was dropped, which the kernel side counts, is left out.
    fn environment(&mut self, process: ProcessId, record: &[u8]) -> Option<Decoded> {
        let Environment {
            header,
            offset,
            total,
        } = read(record)?;
        let piece = payload::<Environment>(record, &header)?;
        let most = (total as usize).min(ENVIRONMENT_PIECE_BYTES * ENVIRONMENT_PIECES);
        let mut variables = self.environments.remove(&process).unwrap_or_default();
        if offset == 0 {
            // Of its full length at once: what grows leaves copies behind.
            variables = Zeroizing::new(Vec::with_capacity(most));
        }
        if variables.len() != offset as usize {
            return Some(Decoded::Pending);
        }
        variables.extend_from_slice(piece);
        if variables.len() < most {
            self.environments.insert(process, variables);
            return Some(Decoded::Pending);
        }
        Some(Decoded::Event(Event::Environment { process, variables }))
    }
}

/// What every record begins with.
pub fn header(record: &[u8]) -> Option<Header> {
    read(record)
}

/// Reads a fixed part.
pub(super) fn read<T: Fixed>(record: &[u8]) -> Option<T> {
    if record.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: the record is long enough, and every bit pattern is a valid `T`, which `Fixed` promises.
    Some(unsafe { record.as_ptr().cast::<T>().read_unaligned() })
}

/// Types of integers only.
///
/// # Safety
/// Every bit pattern is valid.
pub(super) unsafe trait Fixed: Copy {}
// SAFETY: `repr(C)`, integers and arrays of them only; so for the following.
unsafe impl Fixed for Header {}
// SAFETY: as above.
unsafe impl Fixed for Name {}
// SAFETY: as above.
unsafe impl Fixed for Opened {}
// SAFETY: as above.
unsafe impl Fixed for Exec {}
// SAFETY: as above.
unsafe impl Fixed for Environment {}
// SAFETY: as above.
unsafe impl Fixed for Fork {}
// SAFETY: as above.
unsafe impl Fixed for Exit {}
// SAFETY: as above.
unsafe impl Fixed for Mapped {}
// SAFETY: as above.
unsafe impl Fixed for ThreadEnd {}
// SAFETY: as above.
unsafe impl Fixed for Object {}
// SAFETY: as above.
unsafe impl Fixed for Mark {}

/// The variable part behind a fixed part of type `T`.
pub(super) fn payload<'a, T>(record: &'a [u8], header: &Header) -> Option<&'a [u8]> {
    record.get(size_of::<T>()..size_of::<T>() + header.payload as usize)
}

fn file_name(record: &[u8]) -> Option<FileName> {
    let name: Name = read(record)?;
    let components = payload::<Name>(record, &name.header)?;
    Some(FileName {
        file: name.file,
        path: absolute(components.get(..name.components as usize)?)?,
        size: name.size,
        mode: name.mode,
        magic: name.magic,
        block_size: name.block_size,
        truncated: name.flags & name_flags::TRUNCATED != 0,
        deleted: name.flags & name_flags::DELETED != 0,
        existed: name.flags & name_flags::EXISTED != 0,
    })
}

/// The path of a rename or unlink: the directory that it starts from and the path as the program gave it.
fn given_path(record: &[u8]) -> Option<Vec<u8>> {
    let name: Name = read(record)?;
    let (components, given) =
        payload::<Name>(record, &name.header)?.split_at_checked(name.components as usize)?;
    let given = given.strip_suffix(b"\0").unwrap_or(given);
    let base = absolute(components)?;
    Some(normalize(&[&base, b"/".as_slice(), given].concat()))
}

/// Components, leaf first, as an absolute path.
fn absolute(mut components: &[u8]) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    while let Some((length, rest)) = components.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        names.push(name);
        components = rest;
    }
    let mut path = Vec::new();
    for name in names.iter().rev() {
        // The root of a filesystem that is mounted nowhere is itself called "/".
        if *name != b"/" {
            path.push(b'/');
            path.extend_from_slice(name);
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

/// Takes `.`, `..` and empty components out of an absolute path. Of a symbolic link in it nothing is known here.
pub(super) fn normalize(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

fn exec(process: ProcessId, record: &[u8]) -> Option<Event> {
    let exec: Exec = read(record)?;
    let args = payload::<Exec>(record, &exec.header)?;
    let args = args.strip_suffix(b"\0").unwrap_or(args);
    Some(Event::Exec {
        process,
        start_boottime: exec.header.start,
        parent: exec.parent,
        rights: exec.rights,
        comm: until_nul(&exec.comm),
        args: if args.is_empty() {
            vec![]
        } else {
            args.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
        },
    })
}

fn fork(parent: ProcessId, record: &[u8]) -> Option<Event> {
    let fork: Fork = read(record)?;
    Some(Event::Fork {
        parent,
        child: ProcessId {
            pid: fork.child,
            start: start_key(fork.child_start),
        },
        child_start_boottime: fork.child_start,
        rights: fork.rights,
        comm: until_nul(&fork.comm),
    })
}

/// The name up to its NUL.
fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default()
        .to_vec()
}

/// The path of a control group whose names stand innermost first, as /proc has it.
fn group(names: &[u8]) -> String {
    let mut names: Vec<&[u8]> = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .collect();
    names.reverse();
    format!("/{}", String::from_utf8_lossy(&names.join(&b'/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, components: &[&[u8]], given: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        for component in components {
            payload.push(component.len() as u8);
            payload.extend_from_slice(component);
        }
        let count = payload.len() as u32;
        payload.extend_from_slice(given);
        let header = Header {
            kind,
            payload: payload.len() as u32,
            tgid: 7,
            tid: 8,
            ..Header::NONE
        };
        let name = Name {
            header,
            components: count,
            ..Name::NONE
        };
        // SAFETY: `Name` is plain data without padding.
        let fixed = unsafe {
            std::slice::from_raw_parts((&raw const name).cast::<u8>(), size_of::<Name>())
        };
        [fixed, &payload].concat()
    }

    #[test]
    fn components_come_leaf_first() {
        let Decoded::Event(Event::File(name)) =
            Decoder::default().decode(&record(event::FILE, &[b"c\n", b"b", b"a\xff"], b""))
        else {
            panic!("not a file event")
        };
        assert_eq!(name.path, b"/a\xff/b/c\n");
    }

    #[test]
    fn both_halves_of_a_rename_make_one_event() {
        let mut decoder = Decoder::default();
        let first = record(event::RENAME_FROM, &[b"dir"], b"old.tmp\0");
        assert_eq!(decoder.decode(&first), Decoded::Pending);
        let second = record(event::RENAME_TO, &[], b"/x/.././y//new\0");
        let Decoded::Event(Event::Rename { from, to, .. }) = decoder.decode(&second) else {
            panic!("not a rename")
        };
        assert_eq!(
            (from.as_slice(), to.as_slice()),
            (b"/dir/old.tmp".as_slice(), b"/y/new".as_slice())
        );
        assert_eq!(
            decoder.decode(&second),
            Decoded::Damaged,
            "without its first half"
        );
    }

    #[test]
    fn the_pieces_of_an_environment_make_one_event() {
        let whole = vec![b'x'; 2 * ENVIRONMENT_PIECE_BYTES + 5];
        let piece = |number: usize| {
            let offset = number * ENVIRONMENT_PIECE_BYTES;
            let payload = &whole[offset..whole.len().min(offset + ENVIRONMENT_PIECE_BYTES)];
            let fixed = Environment {
                header: Header {
                    kind: event::ENVIRONMENT,
                    payload: payload.len() as u32,
                    tgid: 7,
                    ..Header::NONE
                },
                offset: offset as u32,
                total: whole.len() as u32,
            };
            // SAFETY: `Environment` is plain data without padding.
            let fixed = unsafe {
                std::slice::from_raw_parts(
                    (&raw const fixed).cast::<u8>(),
                    size_of::<Environment>(),
                )
            };
            [fixed, payload].concat()
        };
        let mut decoder = Decoder::default();
        // The second piece of the first environment was dropped.
        for number in [0, 2, 0, 1] {
            assert_eq!(decoder.decode(&piece(number)), Decoded::Pending, "{number}");
        }
        let Decoded::Event(Event::Environment { variables, .. }) = decoder.decode(&piece(2)) else {
            panic!("not an environment")
        };
        assert!(*variables == whole, "{} bytes", variables.len());
        assert!(decoder.environments.is_empty());
    }

    #[test]
    fn every_prefix_of_a_record_is_damaged_and_none_panics() {
        let whole = record(event::FILE, &[b"name", b"directory"], b"");
        for length in 0..whole.len() {
            assert_eq!(
                Decoder::default().decode(&whole[..length]),
                Decoded::Damaged
            );
        }
    }
}
