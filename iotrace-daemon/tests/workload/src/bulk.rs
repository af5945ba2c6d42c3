//! Many files, and files in places that are hard to reach.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use crate::{
    book::{Op, Truth},
    calls::{Calls, path, raw},
};

const FILES_PER_DIRECTORY: usize = 1000;

/// Makes `count` files, then reads each twice, the second time to its end. File N has N % 5000 + 1 bytes.
pub fn many(truth: &mut Truth, dir: &str, count: usize) {
    truth.run("many files", &["all of them".into()], |book| {
        let c = Calls { book };
        let mut buffer = vec![0_u8; 6000];
        let name = |number: usize| path(format!("{dir}/{}/{number}", number / FILES_PER_DIRECTORY));
        for number in 0..count {
            if number.is_multiple_of(FILES_PER_DIRECTORY) {
                let directory = path(format!("{dir}/{}", number / FILES_PER_DIRECTORY));
                let args = [libc::AT_FDCWD as usize, directory.as_ptr() as usize, 0o755];
                c.must(Op::Mkdir, 0, libc::SYS_mkdirat, &args);
            }
            let fd = c.open(1, &name(number), libc::O_CREAT | libc::O_WRONLY);
            let length = number % 5000 + 1;
            assert_eq!(c.write(1, fd, &buffer[..length]), Ok(length));
            c.close(1, fd);
        }
        for number in 0..count {
            let fd = c.open(1, &name(number), libc::O_RDONLY);
            assert_eq!(c.read(1, fd, &mut buffer), Ok(number % 5000 + 1));
            assert_eq!(c.read(1, fd, &mut buffer), Ok(0));
            c.close(1, fd);
        }
    });
}

/// Writes 10 bytes to each path, made if it is not there, and reads 4 of them.
pub fn touch(truth: &mut Truth, paths: Vec<OsString>) {
    let labels: Vec<String> = (0..paths.len())
        .map(|index| format!("path {index}"))
        .collect();
    let paths: Vec<_> = paths
        .into_iter()
        .map(|name| path(name.into_vec()))
        .collect();
    truth.run("touch", &labels, |book| {
        let c = Calls { book };
        for (index, name) in paths.iter().enumerate() {
            let sheet = index + 1;
            let fd = c.open(sheet, name, libc::O_CREAT | libc::O_RDWR);
            assert_eq!(c.write(sheet, fd, &[0; 10]), Ok(10));
            assert_eq!(c.pread(sheet, fd, &mut [0; 4], 0), Ok(4));
            c.close(sheet, fd);
        }
    });
}

/// Goes down `depth` directories named by `component`, making each, and touches a file there: a path that no call
/// could take whole.
pub fn deep(truth: &mut Truth, dir: &str, depth: usize, component: &str) {
    truth.run("deep", &["leaf".into()], |book| {
        let c = Calls { book };
        assert_eq!(raw(libc::SYS_chdir, &[path(dir).as_ptr() as usize]), 0);
        let name = path(component);
        for _ in 0..depth {
            let args = [libc::AT_FDCWD as usize, name.as_ptr() as usize, 0o755];
            c.must(Op::Mkdir, 0, libc::SYS_mkdirat, &args);
            assert_eq!(raw(libc::SYS_chdir, &[name.as_ptr() as usize]), 0);
        }
        let fd = c.open(1, &path("leaf"), libc::O_CREAT | libc::O_RDWR);
        assert_eq!(c.write(1, fd, &[0; 10]), Ok(10));
        c.close(1, fd);
    });
}

/// Reads a byte `count` times in all, by threads, each from a file of its own; prints the count.
pub fn reads(dir: &str, count: u64, threads: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let name = std::path::Path::new(dir).join(format!("read by {thread}"));
                std::fs::write(&name, [7; 4096]).expect("a file");
                let file = std::fs::File::open(&name).expect("the file");
                for at in 0..count / threads {
                    let mut byte = [0];
                    std::os::unix::fs::FileExt::read_at(&file, &mut byte, at % 4096)
                        .expect("a read");
                }
            });
        }
    });
    println!("{{\"reads\":{}}}", count / threads * threads);
}

/// As [`touch`] on `name`, inside a changed root.
pub fn in_root(truth: &mut Truth, root: &str, name: &str) {
    truth.run("in a changed root", &["file".into()], |book| {
        let c = Calls { book };
        assert_eq!(
            raw(libc::SYS_chroot, &[path(root).as_ptr() as usize]),
            0,
            "chroot {root}"
        );
        assert_eq!(raw(libc::SYS_chdir, &[c"/".as_ptr() as usize]), 0);
        let fd = c.open(1, &path(name), libc::O_CREAT | libc::O_RDWR);
        assert_eq!(c.write(1, fd, &[0; 10]), Ok(10));
        c.close(1, fd);
    });
}
