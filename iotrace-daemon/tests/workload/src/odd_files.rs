//! Files whose names are not what they seem: without a name, removed, renamed, with several names, with the inode
//! number of another.

use crate::{
    book::{BY_NAME, Book, Op, Truth},
    calls::{Calls, path, raw},
};

/// Files without names, with several, and with names that go.
pub fn run(truth: &mut Truth, dir: &str) {
    let files = [
        format!("{dir}/deleted"),
        "/memfd:in memory".to_owned(),
        format!("{dir}/linked"),
        format!("{dir}/swapped-2"),
        format!("{dir}/swapped-1"),
        format!("{dir}/moved/inner/file"),
        format!("{dir}/replaced"),
        format!("{dir}/written-then-opened"),
    ];
    truth.run("odd files", &files, |book| {
        let c = Calls { book };
        let p = |name: &str| path(format!("{dir}/{name}"));
        // Removed while open.
        let fd = c.open(1, &p("deleted"), libc::O_CREAT | libc::O_RDWR);
        assert_eq!(c.write(1, fd, &[0; 10]), Ok(10));
        c.unlink(1, &p("deleted"));
        assert_eq!(c.write(1, fd, &[0; 5]), Ok(5));
        assert_eq!(c.pread(1, fd, &mut [0; 100], 0), Ok(15));
        c.close(1, fd);
        // In memory.
        let fd = raw(libc::SYS_memfd_create, &[c"in memory".as_ptr() as usize, 0]) as i32;
        assert_eq!(c.write(2, fd, &[0; 4321]), Ok(4321));
        assert_eq!(c.pread(2, fd, &mut [0; 1000], 4000), Ok(321));
        c.close(2, fd);
        // Two names of one file: it keeps the first that was seen.
        let fd = c.open(3, &p("linked"), libc::O_CREAT | libc::O_WRONLY);
        assert_eq!(c.write(3, fd, &[0; 20]), Ok(20));
        c.close(3, fd);
        let cwd = libc::AT_FDCWD as usize;
        let (one, other) = (p("linked"), p("linked-also"));
        let args = [cwd, one.as_ptr() as usize, cwd, other.as_ptr() as usize, 0];
        c.must(Op::Link, BY_NAME, libc::SYS_linkat, &args);
        let fd = c.open(3, &other, libc::O_RDONLY);
        assert_eq!(c.read(3, fd, &mut [0; 100]), Ok(20));
        c.close(3, fd);
        // Two files that swap their names: sheet 4 is made as swapped-1, sheet 5 as swapped-2.
        for (sheet, name, length) in [(4, "swapped-1", 41), (5, "swapped-2", 52)] {
            let fd = c.open(sheet, &p(name), libc::O_CREAT | libc::O_WRONLY);
            assert_eq!(c.write(sheet, fd, &vec![0; length]), Ok(length));
            c.close(sheet, fd);
        }
        c.rename(4, &p("swapped-1"), &p("swapped-2"), libc::RENAME_EXCHANGE);
        let fd = c.open(4, &p("swapped-2"), libc::O_RDONLY);
        assert_eq!(c.read(4, fd, &mut [0; 100]), Ok(41));
        c.close(4, fd);
        // A directory that moves with a file in it.
        for name in ["staging", "staging/inner"] {
            c.must(
                Op::Mkdir,
                BY_NAME,
                libc::SYS_mkdirat,
                &[cwd, p(name).as_ptr() as usize, 0o755],
            );
        }
        let fd = c.open(6, &p("staging/inner/file"), libc::O_CREAT | libc::O_RDWR);
        assert_eq!(c.write(6, fd, &[0; 60]), Ok(60));
        c.rename(BY_NAME, &p("staging"), &p("moved"), 0);
        assert_eq!(c.write(6, fd, &[0; 6]), Ok(6));
        c.close(6, fd);
        // A file that takes the place of another, by paths with detours.
        let fd = c.open(7, &p("replacement"), libc::O_CREAT | libc::O_WRONLY);
        assert_eq!(c.write(7, fd, &[0; 70]), Ok(70));
        c.close(7, fd);
        c.rename(7, &p("moved/../replacement"), &p("./moved/..//replaced"), 0);
        let fd = c.open(7, &p("replaced"), libc::O_RDONLY);
        assert_eq!(c.read(7, fd, &mut [0; 100]), Ok(70));
        c.close(7, fd);
        // Made without a name, given one later; where the filesystem has no such files (overlayfs before Linux 6.3) made
        // with it.
        let made = c.try_open(8, &path(dir), libc::O_TMPFILE | libc::O_RDWR);
        let is_nameless = made != Err(libc::EOPNOTSUPP);
        let fd = if is_nameless {
            made.expect("a file without a name")
        } else {
            let flags = libc::O_CREAT | libc::O_RDWR;
            c.open(8, &p("written-then-opened"), flags)
        };
        assert_eq!(c.write(8, fd, &[0; 80]), Ok(80));
        let (nameless, name) = (
            path(format!("/proc/self/fd/{fd}")),
            p("written-then-opened"),
        );
        let follow = libc::AT_SYMLINK_FOLLOW as usize;
        let args = [
            cwd,
            nameless.as_ptr() as usize,
            cwd,
            name.as_ptr() as usize,
            follow,
        ];
        if is_nameless {
            c.must(Op::Link, BY_NAME, libc::SYS_linkat, &args);
        }
        c.close(8, fd);
        let fd = c.open(8, &name, libc::O_RDONLY);
        assert_eq!(c.read(8, fd, &mut [0; 100]), Ok(80));
        c.close(8, fd);
    });
}

/// `count` files, each made, written, read and removed before the next: on ext4 they share inode numbers.
pub fn reused_inodes(truth: &mut Truth, dir: &str, count: usize) {
    truth.run(
        "reused inode numbers",
        &["all of them".into()],
        |book: &'static Book| {
            let c = Calls { book };
            let mut buffer = vec![0_u8; count + 1];
            for number in 0..count {
                let name = path(format!("{dir}/{number}"));
                let fd = c.open(1, &name, libc::O_CREAT | libc::O_RDWR);
                assert_eq!(c.write(1, fd, &buffer[..number + 1]), Ok(number + 1));
                assert_eq!(c.pread(1, fd, &mut buffer, 0), Ok(number + 1));
                c.close(1, fd);
                c.unlink(1, &name);
            }
        },
    );
}
