//! A long, mixed sequence of reads and writes, with a list of each: what offset, how many bytes, from which memory.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde_json::json;

use crate::{
    book::{Book, Op, Truth},
    calls::{Calls, path},
};

const FILES: usize = 3;
const ACCESSES: usize = 3000;

/// A small generator of numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What one entry of the list holds, as numbers in memory that is shared with the parent.
const FIELDS: usize = 8;
const OPEN: u64 = 0;
const READ: u64 = 1;
const WRITE: u64 = 2;
const CLOSE: u64 = 3;
const OTHER: u64 = 4;

/// The list.
struct List {
    length: &'static AtomicU64,
    entries: &'static [[AtomicU64; FIELDS]],
}

impl List {
    fn new() -> Self {
        let size = 8 + 2 * ACCESSES * FIELDS * 8;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping of zeros, long enough for both parts, never unmapped.
        unsafe {
            let address = libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0);
            assert_ne!(address, libc::MAP_FAILED);
            let words = address.cast::<AtomicU64>();
            Self {
                length: &*words,
                entries: std::slice::from_raw_parts(words.add(1).cast(), 2 * ACCESSES),
            }
        }
    }

    /// kind, file, open file, offset, bytes, unaligned memory, start, end
    fn add(&self, entry: [u64; FIELDS]) {
        let index = self.length.fetch_add(1, Relaxed) as usize;
        for (slot, value) in self.entries[index].iter().zip(entry) {
            slot.store(value, Relaxed);
        }
    }
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives here.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One open file, with its position as the program knows it.
struct Open {
    file: usize,
    number: u64,
    fd: i32,
    position: u64,
    size: u64,
}

/// Runs it in one child; `seed` makes the sequence.
pub fn run(truth: &mut Truth, dir: &str, seed: u64) {
    let names: Vec<String> = (0..FILES)
        .map(|file| format!("{dir}/pattern-{file}"))
        .collect();
    let list = List::new();
    truth.run("pattern", &names, |book| {
        work(book, &names, &list, Random(seed | 1));
    });
    put(truth, &list, &names);
}

/// As [`run`], forward through one file with few sizes and strides, so that tables of few hold them all, and with
/// pauses, so that it lasts for several of a recorder's shortest intervals.
pub fn run_steady(truth: &mut Truth, dir: &str) {
    let names = [format!("{dir}/steady")];
    let list = List::new();
    truth.run("steady", &names, |book| work_steady(book, &names[0], &list));
    put(truth, &list, &names);
}

/// Adds the list to what the program prints.
fn put(truth: &mut Truth, list: &List, names: &[String]) {
    let length = list.length.load(Relaxed) as usize;
    let entries: Vec<_> = list.entries[..length]
        .iter()
        .map(|entry| {
            let [kind, file, open, offset, bytes, unaligned, start, end] =
                std::array::from_fn(|field| entry[field].load(Relaxed));
            let kind = ["open", "read", "write", "close", "other"][kind as usize];
            json!({
                "kind": kind, "file": names[file as usize], "open": open, "offset": offset, "bytes": bytes,
                "unaligned": unaligned != 0, "start": start, "end": end,
            })
        })
        .collect();
    truth.more.insert("accesses".into(), entries.into());
}

fn work_steady(book: &'static Book, name: &str, list: &List) {
    const LENGTH: u64 = 8 << 20;
    const SIZES: [usize; 4] = [512, 4096, 10_000, 65_536];
    const STRIDES: [u64; 6] = [0, 0, 0, 4096, 100, 7777];
    let c = Calls { book };
    let add = |kind, offset, bytes, start| {
        list.add([kind, 0, 1, offset, bytes, 0, start, now()]);
    };
    let start = now();
    let fd = c.open(1, &path(name), libc::O_CREAT | libc::O_RDWR);
    add(OPEN, 0, 0, start);
    let args = [fd as usize, LENGTH as usize];
    let start = now();
    c.must(Op::Truncate, 1, libc::SYS_ftruncate, &args);
    add(OTHER, 0, 0, start);
    let mut random = Random(4711);
    let mut memory = vec![0_u64; 10_000];
    let buffer = memory.as_mut_ptr() as usize;
    let mut next = [0_u64; 2];
    for step in 0..ACCESSES {
        if step.is_multiple_of(50) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let write = random.below(3) == 0;
        let size = SIZES[random.below(SIZES.len() as u64) as usize];
        let mut offset =
            next[usize::from(write)] + STRIDES[random.below(STRIDES.len() as u64) as usize];
        if offset + size as u64 > LENGTH {
            // From the start again: neither sequential nor a stride.
            offset = 0;
        }
        let (op, nr, kind) = if write {
            (Op::Write, libc::SYS_pwrite64, WRITE)
        } else {
            (Op::Read, libc::SYS_pread64, READ)
        };
        let start = now();
        let bytes = c.must(op, 1, nr, &[fd as usize, buffer, size, offset as usize]) as u64;
        add(kind, offset, bytes, start);
        next[usize::from(write)] = offset + bytes;
    }
    let start = now();
    c.close(1, fd);
    add(CLOSE, 0, 0, start);
}

fn work(book: &'static Book, names: &[String], list: &List, mut random: Random) {
    let c = Calls { book };
    let mut opened = 0;
    let mut sizes = [0_u64; FILES];
    // Two open files of the first, one of each other: their positions do not disturb each other.
    let mut open = |file: usize, size: u64| {
        let start = now();
        let fd = c.open(
            file + 1,
            &path(names[file].as_str()),
            libc::O_CREAT | libc::O_RDWR,
        );
        opened += 1;
        list.add([OPEN, file as u64, opened, 0, 0, 0, start, now()]);
        Open {
            file,
            number: opened,
            fd,
            position: 0,
            size,
        }
    };
    let mut files: Vec<Open> = [0, 0, 1, 2].into_iter().map(|file| open(file, 0)).collect();
    let mut memory = vec![0_u64; 40_000];
    let base = memory.as_mut_ptr() as usize;
    const LENGTHS: [u64; 12] = [
        1, 100, 101, 512, 1024, 1025, 4096, 10_240, 10_241, 102_400, 102_401, 200_000,
    ];
    for step in 0..ACCESSES {
        if step % 500 == 499 {
            // Closed and opened again: the last access is forgotten.
            let index = random.below(files.len() as u64) as usize;
            let old = files.swap_remove(index);
            let start = now();
            c.close(old.file + 1, old.fd);
            list.add([CLOSE, old.file as u64, old.number, 0, 0, 0, start, now()]);
            files.push(open(old.file, sizes[old.file]));
        }
        let index = random.below(files.len() as u64) as usize;
        let file = &mut files[index];
        file.size = sizes[file.file];
        let sheet = file.file + 1;
        let write = random.below(3) == 0;
        let length = if random.below(20) == 0 {
            0
        } else {
            LENGTHS[random.below(LENGTHS.len() as u64) as usize]
        };
        let unaligned = random.below(4) == 0;
        let buffer = base
            + if unaligned {
                1 + random.below(7) as usize
            } else {
                8
            };
        if random.below(10) == 0 {
            let to = random.below(1 << 20) & !if random.below(2) == 0 { 4095 } else { 0 };
            let start = now();
            c.seek(sheet, file.fd, to as i64, libc::SEEK_SET);
            list.add([OTHER, file.file as u64, file.number, 0, 0, 0, start, now()]);
            file.position = to;
        }
        // With an offset of its own, or at the position; in one piece, or in two.
        let (positional, vectored) = (random.below(3) == 0, random.below(4) == 0);
        let offset = if positional {
            random.below(1 << 20)
        } else {
            file.position
        };
        let (op, kind) = if write {
            (Op::Write, WRITE)
        } else {
            (Op::Read, READ)
        };
        let half = (length / 2) & !7;
        let vectors = [
            [buffer, half as usize],
            [buffer + half as usize, (length - half) as usize],
        ];
        let fd = file.fd as usize;
        let v = vectors.as_ptr() as usize;
        let (nr, args) = match (write, vectored, positional) {
            (false, false, false) => (libc::SYS_read, vec![fd, buffer, length as usize]),
            (false, false, true) => (
                libc::SYS_pread64,
                vec![fd, buffer, length as usize, offset as usize],
            ),
            (false, true, false) => (libc::SYS_readv, vec![fd, v, 2]),
            (false, true, true) => (libc::SYS_preadv, vec![fd, v, 2, offset as usize, 0]),
            (true, false, false) => (libc::SYS_write, vec![fd, buffer, length as usize]),
            (true, false, true) => (
                libc::SYS_pwrite64,
                vec![fd, buffer, length as usize, offset as usize],
            ),
            (true, true, false) => (libc::SYS_writev, vec![fd, v, 2]),
            (true, true, true) => (libc::SYS_pwritev, vec![fd, v, 2, offset as usize, 0]),
        };
        let start = now();
        let bytes = c.must(op, sheet, nr, &args) as u64;
        let end = now();
        list.add([
            kind,
            file.file as u64,
            file.number,
            offset,
            bytes,
            unaligned.into(),
            start,
            end,
        ]);
        if write && bytes > 0 {
            sizes[file.file] = sizes[file.file].max(offset + bytes);
        }
        if !positional {
            file.position = offset + bytes;
        }
    }
    for file in files {
        let start = now();
        c.close(file.file + 1, file.fd);
        list.add([CLOSE, file.file as u64, file.number, 0, 0, 0, start, now()]);
    }
}
