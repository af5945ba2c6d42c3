//! Processes that run already when somebody attaches, and that go on for as long as they are told to.

use std::{
    io::{Read as _, Write as _},
    os::fd::AsRawFd as _,
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    book::{self, Book, Op, Truth},
    calls::{Calls, path},
};

/// Opens files, starts threads and a child, says "ready", waits for a line, and only then counts what it does.
pub fn attached(truth: &mut Truth, dir: &str, workers: usize) {
    let file = |name: &str| format!("{dir}/{name}");
    let mut children = Vec::new();
    for worker in 0..workers {
        let names = [
            file(&format!("before-{worker}")),
            file(&format!("after-{worker}")),
        ];
        let grandchild_name = [file(&format!("grandchild-{worker}"))];
        let grandchild = truth.book("grandchild made while traced", &grandchild_name, true);
        let (mut go_reader, go_writer) = std::io::pipe().expect("a pipe");
        let (ready_reader, mut ready_writer) = std::io::pipe().expect("a pipe");
        let writer = go_writer.try_clone().expect("a descriptor");
        let child = truth.fork("attached", &names, |book| {
            drop(writer);
            let early = Calls {
                book: book::map_shared(None),
            };
            // Not traced yet: counted in a book that nobody reads.
            let before = early.open(1, &path(names[0].as_str()), libc::O_CREAT | libc::O_RDWR);
            early.write(1, before, &[0; 5000]).expect("write");
            early.seek(1, before, 100, libc::SEEK_SET);
            let c = Calls { book };
            let (ready, go) = (Barrier::new(5), Barrier::new(5));
            std::thread::scope(|scope| {
                for thread in 0..4_u64 {
                    let (ready, go) = (&ready, &go);
                    scope.spawn(move || {
                        ready.wait();
                        go.wait();
                        for round in 0..50 {
                            c.pread(1, before, &mut [0; 64], thread * 100 + round)
                                .expect("pread");
                        }
                    });
                }
                ready.wait();
                ready_writer.write_all(b"r").expect("a pipe");
                go_reader.read_exact(&mut [0]).expect("a pipe");
                go.wait();
            });
            assert_eq!(c.read(1, before, &mut [0; 1000]), Ok(1000));
            c.close(1, before);
            let after = c.open(2, &path(names[1].as_str()), libc::O_CREAT | libc::O_WRONLY);
            assert_eq!(c.write(2, after, &[0; 999]), Ok(999));
            let pid = book::fork(grandchild, |book| {
                let c = Calls { book };
                let fd = c.open(
                    1,
                    &path(grandchild_name[0].as_str()),
                    libc::O_CREAT | libc::O_WRONLY,
                );
                assert_eq!(c.write(1, fd, &[0; 123]), Ok(123));
                c.close(1, fd);
            });
            assert_eq!(book::wait(pid), 0);
            c.must(Op::Fsync, 2, libc::SYS_fsync, &[after as usize]);
            c.close(2, after);
        });
        children.push((child, go_writer, ready_reader));
    }
    let mut pids = Vec::new();
    for (child, _, ready) in &mut children {
        ready.read_exact(&mut [0]).expect("a pipe");
        pids.push(child.pid.to_string());
    }
    println!("ready {}", pids.join(" "));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    for (_, go, _) in &mut children {
        go.write_all(b"g").expect("a pipe");
    }
    for (child, ..) in &children {
        child.wait();
    }
}

/// Works on files without end, with its progress in the memory-mapped file `progress` (four numbers: writes begun,
/// writes done, reads begun, reads done), until it is ended or, where `seconds` is not 0, time is up.
pub fn endless(dir: &str, progress: &str, seconds: u64) {
    let counts = map_progress(progress);
    let [writes_begun, writes_done, reads_begun, reads_done] = counts;
    let book: &'static Book = book::map_shared(None);
    let c = Calls { book };
    let started = std::time::Instant::now();
    for round in 0_u64.. {
        if seconds != 0 && started.elapsed().as_secs() >= seconds {
            return;
        }
        let fd = c.open(
            1,
            &path(format!("{dir}/endless-{}", round % 50)),
            libc::O_CREAT | libc::O_RDWR,
        );
        for _ in 0..20 {
            writes_begun.fetch_add(1, Relaxed);
            c.pwrite(1, fd, &[0; 100], 0).expect("pwrite");
            writes_done.fetch_add(1, Relaxed);
            reads_begun.fetch_add(1, Relaxed);
            c.pread(1, fd, &mut [0; 100], 0).expect("pread");
            reads_done.fetch_add(1, Relaxed);
        }
        c.close(1, fd);
    }
}

fn map_progress(progress: &str) -> &'static [AtomicU64; 4] {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(progress)
        .expect("the progress file");
    file.set_len(4096).expect("the progress file");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a file that is long enough; never unmapped.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            4096,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(address, libc::MAP_FAILED);
        &*address.cast()
    }
}
