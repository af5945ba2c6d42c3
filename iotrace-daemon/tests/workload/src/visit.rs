//! Files by a list of their paths, and files whose names change while they are used.

use std::fs;

use crate::{
    book::{Op, Truth},
    calls::{Calls, path},
};

/// Reads each file of a list (paths, each ended by NUL), then writes it; lists each directory of it.
pub fn all(truth: &mut Truth, list: &str) {
    let list = fs::read(list).expect("the list");
    truth.run("visitor", &["all".into()], |book| {
        let c = Calls { book };
        for name in list
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            let name = path(name);
            if name.as_bytes().ends_with(b"/") {
                let fd = c.open(1, &name, libc::O_RDONLY | libc::O_DIRECTORY);
                let mut entries = [0_u8; 512];
                let args = [fd as usize, entries.as_mut_ptr() as usize, entries.len()];
                c.must(Op::Getdents, 1, libc::SYS_getdents64, &args);
                c.close(1, fd);
                continue;
            }
            let fd = c.open(1, &name, libc::O_RDONLY);
            c.read(1, fd, &mut [0; 16]).expect("read");
            c.close(1, fd);
            let fd = c.open(1, &name, libc::O_WRONLY);
            c.write(1, fd, b"seen").expect("write");
            c.close(1, fd);
        }
    });
}

/// Bytes of each write of [`renamed`].
const BLOCK: usize = 4096;

/// Checkpoints under a temporary name first: of the file, and of its directory. Three writes before, two after it, and
/// a read by the final name.
pub fn renamed(truth: &mut Truth, dir: &str) {
    let cases = [
        ("step.partial", "step.partial", "model.ckpt", "model.ckpt"),
        (
            "run.partial/weights",
            "run.partial",
            "checkpoint-100",
            "checkpoint-100/weights",
        ),
    ];
    let names: Vec<String> = cases
        .iter()
        .map(|case| format!("{dir}/{}", case.3))
        .collect();
    fs::create_dir(format!("{dir}/run.partial")).expect("a directory");
    truth.run("saver", &names, |book| {
        let c = Calls { book };
        for (sheet, (first, from, to, last)) in (1..).zip(cases) {
            let name = |name: &str| path(format!("{dir}/{name}"));
            let fd = c.open(sheet, &name(first), libc::O_CREAT | libc::O_WRONLY);
            for _ in 0..3 {
                c.write(sheet, fd, &[1; BLOCK]).expect("write");
            }
            c.must(Op::Fsync, sheet, libc::SYS_fsync, &[fd as usize]);
            // The rename is the file's where it is the one that is renamed.
            let renamed = if first == from { sheet } else { 0 };
            let (from, to) = (name(from), name(to));
            let at = libc::AT_FDCWD as usize; // arm64 has no rename(2)
            let args = [at, from.as_ptr() as usize, at, to.as_ptr() as usize];
            c.must(Op::Rename, renamed, libc::SYS_renameat, &args);
            for _ in 0..2 {
                c.write(sheet, fd, &[2; BLOCK]).expect("write");
            }
            c.close(sheet, fd);
            let fd = c.open(sheet, &name(last), libc::O_RDONLY);
            c.read(sheet, fd, &mut [0; BLOCK]).expect("read");
            c.close(sheet, fd);
        }
    });
}
