//! Many threads at a time: on one file, on many, and without a rest.

use std::time::{Duration, Instant};

use crate::{
    book::{BY_NAME, Op, Truth},
    calls::{Calls, path},
};

const THREADS: usize = 16;
const FILES_PER_THREAD: usize = 4;
const ROUNDS: usize = 300;

/// 16 threads on one file: by a descriptor that all share, and by one of each thread's own.
pub fn on_one(truth: &mut Truth, dir: &str) {
    let name = format!("{dir}/shared");
    truth.run(
        "16 threads on one file",
        std::slice::from_ref(&name),
        |book| {
            let c = Calls { book };
            let shared = c.open(1, &path(name.as_str()), libc::O_CREAT | libc::O_RDWR);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let name = path(name.as_str());
                    scope.spawn(move || {
                        let own = c.open(1, &name, libc::O_RDWR);
                        let mut buffer = vec![thread as u8; 1 + 100 * thread];
                        let length = buffer.len();
                        for round in 0..ROUNDS {
                            let offset = (round * 4096) as u64;
                            assert_eq!(c.pwrite(1, shared, &buffer, offset), Ok(length));
                            c.pread(1, shared, &mut buffer, offset).expect("pread");
                            c.read(1, own, &mut buffer).expect("read");
                            if round % 10 == thread % 10 {
                                c.seek(1, own, 0, libc::SEEK_SET);
                                let copy = c.must(Op::Dup, 1, libc::SYS_dup, &[shared as usize]);
                                // The others' descriptors come and go meanwhile.
                                c.close(1, copy as i32);
                                // Nothing is open there.
                                let args = [usize::MAX, 0, 0];
                                c.must_fail(Op::Read, BY_NAME, libc::SYS_read, &args, libc::EBADF);
                            }
                        }
                        c.close(1, own);
                    });
                }
            });
            c.close(1, shared);
        },
    );
}

/// 16 threads with four files each.
pub fn on_many(truth: &mut Truth, dir: &str) {
    let names: Vec<String> = (0..THREADS * FILES_PER_THREAD)
        .map(|file| format!("{dir}/file-{file:02}"))
        .collect();
    truth.run("16 threads on many files", &names, |book| {
        let c = Calls { book };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let names = &names;
                scope.spawn(move || {
                    let own = names.iter().enumerate().skip(thread * FILES_PER_THREAD);
                    for (index, name) in own.take(FILES_PER_THREAD) {
                        let (sheet, name) = (index + 1, path(name.as_str()));
                        let mut buffer = vec![0_u8; 10 + 97 * index];
                        let fd = c.open(sheet, &name, libc::O_CREAT | libc::O_RDWR);
                        for round in 0..ROUNDS / 10 + index {
                            c.write(sheet, fd, &buffer).expect("write");
                            if round % 3 == 0 {
                                c.seek(sheet, fd, 0, libc::SEEK_SET);
                                c.read(sheet, fd, &mut buffer).expect("read");
                            }
                        }
                        c.must(Op::Fdatasync, sheet, libc::SYS_fdatasync, &[fd as usize]);
                        c.close(sheet, fd);
                    }
                });
            }
        });
    });
}

/// Threads that never rest: what a hook skips while it runs for another of them is lost.
const BUSY_THREADS: usize = 4;
const BUSY_FILES_PER_THREAD: usize = 3;

/// Four threads that read three files each, again and again.
pub fn busy(truth: &mut Truth, dir: &str, milliseconds: u64) {
    let names: Vec<String> = (0..BUSY_THREADS * BUSY_FILES_PER_THREAD)
        .map(|file| format!("{dir}/busy-{file}"))
        .collect();
    truth.run("busy threads", &names, |book| {
        let end = Instant::now() + Duration::from_millis(milliseconds);
        std::thread::scope(|scope| {
            for (thread, names) in names.chunks(BUSY_FILES_PER_THREAD).enumerate() {
                scope.spawn(move || {
                    read_until(
                        end,
                        Calls { book },
                        1 + thread * BUSY_FILES_PER_THREAD,
                        names,
                    );
                });
            }
        });
    });
}

/// Reads the files in turn; the first has this sheet.
fn read_until(end: Instant, c: Calls, first: usize, names: &[String]) {
    let open = |(index, name): (usize, &String)| {
        let flags = libc::O_CREAT | libc::O_RDWR;
        let fd = c.open(first + index, &path(name.as_str()), flags);
        c.write(first + index, fd, &[7; 16]).expect("write");
        (first + index, fd)
    };
    let files: Vec<_> = names.iter().enumerate().map(open).collect();
    while Instant::now() < end {
        for (sheet, fd) in files.iter().cycle().take(99) {
            c.pread(*sheet, *fd, &mut [0], 0).expect("pread");
        }
    }
    for (sheet, fd) in files {
        c.close(sheet, fd);
    }
}
