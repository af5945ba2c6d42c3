//! Requests of io_uring: of every kind that is accounted, on descriptors and on registered files, in chains, failing, and
//! submitted by a thread of the kernel.

use std::{ffi::CString, sync::atomic::Ordering::Relaxed};

use io_uring::{IoUring, opcode, squeue, types};

use crate::{
    book::{BY_NAME, Book, Op, Truth},
    calls::path,
};

/// A request, what it counts as, and on which sheet; where it fails, on which.
struct Request(squeue::Entry, Op, usize, usize);

const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

/// Works through rings of both kinds on a file each.
pub fn run(truth: &mut Truth, dir: &str) {
    let files = ["plain", "polled"].map(|name| format!("{dir}/{name}"));
    truth.run("requester", &files, |book| {
        let names = Names::new(dir);
        let mut ring = IoUring::new(32).expect("a ring");
        every_kind(&mut ring, book, &names);
        in_chains(&mut ring, book, &names);
        let mut polled = IoUring::builder()
            .setup_sqpoll(50)
            .build(32)
            .expect("a polled ring");
        by_the_kernel(&mut polled, book, &path(format!("{dir}/polled")));
    });
}

struct Names {
    file: CString,
    directory: CString,
    first: CString,
    second: CString,
    missing: CString,
}

impl Names {
    fn new(dir: &str) -> Self {
        let name = |name: &str| path(format!("{dir}/{name}"));
        Self {
            file: name("plain"),
            directory: name("made"),
            first: name("first"),
            second: name("second"),
            missing: name("missing"),
        }
    }
}

/// Submits requests together, waits for all and counts each; their results.
fn submit(ring: &mut IoUring, book: &Book, requests: &[Request]) -> Vec<i32> {
    book.begun.fetch_add(requests.len() as u64, Relaxed);
    for (index, request) in requests.iter().enumerate() {
        let entry = request.0.clone().user_data(index as u64);
        // SAFETY: what the callers' requests point to lives until this returns.
        unsafe { ring.submission().push(&entry) }.expect("room in the ring");
    }
    ring.submit_and_wait(requests.len()).expect("submission");
    let mut results = vec![i32::MIN; requests.len()];
    for end in ring.completion() {
        results[end.user_data() as usize] = end.result();
    }
    for (request, result) in requests.iter().zip(&results) {
        assert_ne!(*result, i32::MIN, "a request has not ended");
        let sheet = if *result < 0 { request.3 } else { request.2 };
        book.count(request.1, sheet, i64::from(*result));
    }
    results
}

/// As [`submit`], of one request, which must not fail.
#[track_caller]
fn must(
    ring: &mut IoUring,
    book: &Book,
    entry: impl Into<squeue::Entry>,
    op: Op,
    sheet: usize,
) -> i32 {
    let result = submit(ring, book, &[Request(entry.into(), op, sheet, sheet)])[0];
    assert!(
        result >= 0,
        "{op:?}: {}",
        std::io::Error::from_raw_os_error(-result)
    );
    result
}

/// As [`submit`], of one request, which must fail with `errno`.
#[track_caller]
fn must_fail(
    ring: &mut IoUring,
    book: &Book,
    entry: squeue::Entry,
    op: Op,
    sheet: usize,
    errno: i32,
) {
    let result = submit(ring, book, &[Request(entry, op, sheet, sheet)])[0];
    assert_eq!(result, -errno, "{op:?}");
}

fn every_kind(ring: &mut IoUring, book: &Book, names: &Names) {
    let open = opcode::OpenAt::new(HERE, names.file.as_ptr())
        .flags(libc::O_CREAT | libc::O_RDWR)
        .mode(0o644)
        .build();
    let fd = must(ring, book, open, Op::Open, 1);
    let file = types::Fd(fd);
    let (data, mut room) = ([7_u8; 5000], [0_u8; 9000]);
    let write = opcode::Write::new(file, data.as_ptr(), 5000)
        .offset(0)
        .build();
    assert_eq!(must(ring, book, write, Op::Write, 1), 5000);
    let parts = [part(&data[..10]), part(&data[..90])];
    let written = opcode::Writev::new(file, parts.as_ptr(), 2)
        .offset(5000)
        .build();
    assert_eq!(must(ring, book, written, Op::Write, 1), 100);
    // Short: the file ends there. Then nothing is left.
    let read = |offset, room: &mut [u8]| {
        opcode::Read::new(file, room.as_mut_ptr(), room.len() as u32)
            .offset(offset)
            .build()
    };
    assert_eq!(must(ring, book, read(4000, &mut room), Op::Read, 1), 1100);
    assert_eq!(must(ring, book, read(5100, &mut room), Op::Read, 1), 0);
    let sync = opcode::Fsync::new(file).build();
    must(ring, book, sync, Op::Fsync, 1);
    let data_sync = opcode::Fsync::new(file)
        .flags(types::FsyncFlags::DATASYNC)
        .build();
    must(ring, book, data_sync, Op::Fdatasync, 1);
    let range = opcode::SyncFileRange::new(file, 4096).offset(1024).build();
    must(ring, book, range, Op::SyncFileRange, 1);
    let allocate = opcode::Fallocate::new(file, 1 << 16).offset(512).build();
    must(ring, book, allocate, Op::Fallocate, 1);
    registered(ring, book, fd);
    by_name(ring, book, names);
    must(ring, book, opcode::Close::new(file).build(), Op::Close, 1);
    must_fail(
        ring,
        book,
        read(0, &mut room),
        Op::Read,
        BY_NAME,
        libc::EBADF,
    );
}

/// On a file that the ring holds, by its place there.
fn registered(ring: &mut IoUring, book: &Book, fd: i32) {
    ring.submitter()
        .register_files(&[fd])
        .expect("a registered file");
    let place = types::Fixed(0);
    let mut room = [0_u8; 64];
    let read = opcode::Read::new(place, room.as_mut_ptr(), 64)
        .offset(0)
        .build();
    assert_eq!(must(ring, book, read, Op::Read, 1), 64);
    let sync = opcode::Fsync::new(place).build();
    must(ring, book, sync, Op::Fsync, 1);
    ring.submitter().unregister_files().expect("unregistered");
}

/// Requests that name no open file.
fn by_name(ring: &mut IoUring, book: &Book, names: &Names) {
    let Names {
        directory,
        first,
        second,
        missing,
        file,
    } = names;
    // SAFETY: a plain structure, for which zeros are valid.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let place: *mut libc::statx = &raw mut status;
    let stat = opcode::Statx::new(HERE, file.as_ptr(), place.cast())
        .mask(libc::STATX_SIZE)
        .build();
    must(ring, book, stat, Op::Stat, BY_NAME);
    let make = opcode::MkDirAt::new(HERE, directory.as_ptr())
        .mode(0o755)
        .build();
    must(ring, book, make, Op::Mkdir, BY_NAME);
    let link = opcode::SymlinkAt::new(HERE, file.as_ptr(), first.as_ptr()).build();
    must(ring, book, link, Op::Symlink, BY_NAME);
    let rename = opcode::RenameAt::new(HERE, first.as_ptr(), HERE, second.as_ptr()).build();
    must(ring, book, rename, Op::Rename, BY_NAME);
    let hard = opcode::LinkAt::new(HERE, file.as_ptr(), HERE, first.as_ptr()).build();
    must(ring, book, hard, Op::Link, BY_NAME);
    for name in [first, second] {
        let remove = opcode::UnlinkAt::new(HERE, name.as_ptr()).build();
        must(ring, book, remove, Op::Unlink, BY_NAME);
    }
    let remove = opcode::UnlinkAt::new(HERE, directory.as_ptr())
        .flags(libc::AT_REMOVEDIR)
        .build();
    must(ring, book, remove, Op::Rmdir, BY_NAME);
    let open = opcode::OpenAt::new(HERE, missing.as_ptr()).build();
    must_fail(ring, book, open, Op::Open, BY_NAME, libc::ENOENT);
}

/// Requests that wait for each other; one fails, and the one behind it is not done.
fn in_chains(ring: &mut IoUring, book: &Book, names: &Names) {
    let open = opcode::OpenAt::new(HERE, names.file.as_ptr())
        .flags(libc::O_WRONLY)
        .build();
    let file = types::Fd(must(ring, book, open, Op::Open, 1));
    let data = [1_u8; 300];
    let write = |offset| {
        opcode::Write::new(file, data.as_ptr(), 300)
            .offset(offset)
            .build()
            .flags(squeue::Flags::IO_LINK)
    };
    let sync = opcode::Fsync::new(file).build();
    let chain: Vec<Request> = (0..8)
        .map(|index| Request(write(300 * index), Op::Write, 1, 1))
        .chain([Request(sync, Op::Fsync, 1, 1)])
        .collect();
    assert!(submit(ring, book, &chain).iter().all(|result| *result >= 0));
    let mut room = [0_u8; 8];
    let refused = opcode::Read::new(file, room.as_mut_ptr(), 8)
        .build()
        .flags(squeue::Flags::IO_LINK);
    // The second one is called off. One of a descriptor would have its file by then, or not: that is the kernel's.
    let open = opcode::OpenAt::new(HERE, names.file.as_ptr()).build();
    let broken = [
        Request(refused, Op::Read, 1, 1),
        Request(open, Op::Open, 1, BY_NAME),
    ];
    assert_eq!(
        submit(ring, book, &broken),
        [-libc::EBADF, -libc::ECANCELED]
    );
    must(ring, book, opcode::Close::new(file).build(), Op::Close, 1);
}

/// Submitted by the kernel's own thread, many at a time.
fn by_the_kernel(ring: &mut IoUring, book: &Book, name: &CString) {
    let open = opcode::OpenAt::new(HERE, name.as_ptr())
        .flags(libc::O_CREAT | libc::O_RDWR)
        .mode(0o600)
        .build();
    let file = types::Fd(must(ring, book, open, Op::Open, 2));
    let data = [2_u8; 512];
    for turn in 0..16 {
        let requests: Vec<Request> = (0..16)
            .map(|index| {
                let offset = 512 * (16 * turn + index);
                let entry = opcode::Write::new(file, data.as_ptr(), 512)
                    .offset(offset)
                    .build();
                Request(entry, Op::Write, 2, 2)
            })
            .collect();
        assert!(
            submit(ring, book, &requests)
                .iter()
                .all(|result| *result == 512)
        );
    }
    must(ring, book, opcode::Close::new(file).build(), Op::Close, 2);
}

fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}
