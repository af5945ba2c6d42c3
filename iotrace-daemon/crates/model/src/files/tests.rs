//! Names of files over renames and removals.

use super::*;

fn id(inode: u64) -> FileId {
    FileId {
        device: 8 << 20 | 1,
        generation: 1,
        inode,
    }
}

fn name(inode: u64, path: &str) -> FileName {
    FileName {
        file: id(inode),
        path: path.into(),
        size: 10,
        mode: libc::S_IFREG | 0o644,
        magic: 0xef53,
        block_size: 4096,
        truncated: false,
        deleted: false,
        existed: false,
    }
}

fn named(paths: &[&str]) -> Files {
    let mut files = Files::default();
    paths
        .iter()
        .enumerate()
        .for_each(|(inode, path)| files.name(&name(inode as u64, path)));
    files
}

#[test]
fn keeps_the_first_name() {
    let mut files = named(&["/a"]);
    files.name(&name(0, "/hard-link"));
    assert_eq!(files.get(0).path, b"/a");
    assert_eq!(files.count(), 1);
    assert_eq!(files.changed(), [0]);
    files.settle();
    files.name(&name(0, "/a"));
    assert!(files.changed().is_empty());
}

#[test]
fn a_rename_moves_the_path_and_replaces_the_target() {
    let mut files = named(&["/d/tmp", "/d/model"]);
    assert_eq!(files.rename(b"/d/tmp", b"/d/model"), Some(0));
    let (renamed, replaced) = (files.get(0), files.get(1));
    assert_eq!(
        (renamed.path, renamed.opened_as),
        (b"/d/model".as_slice(), Some(b"/d/tmp".as_slice()))
    );
    assert!(!renamed.deleted && replaced.deleted);
    assert_eq!(
        files.rename(b"/d/model", b"/d/old"),
        Some(0),
        "the newer file answers to the path"
    );
    assert_eq!(
        files.get(0).opened_as,
        Some(b"/d/tmp".as_slice()),
        "the first path stays"
    );
    assert_eq!(files.rename(b"/d/tmp", b"/x"), None);
}

#[test]
fn a_rename_to_another_name_of_the_same_file_changes_nothing() {
    let mut files = named(&["/a"]);
    assert_eq!(files.rename(b"/a", b"/a"), Some(0));
    assert!(!files.get(0).deleted);
}

#[test]
fn a_directory_takes_its_files_along() {
    let mut files = named(&["/c/tmp/a", "/c/tmp/s/b", "/c/tmp2/a", "/c/tmp"]);
    assert_eq!(files.rename(b"/c/tmp", b"/c/step-1"), Some(3));
    let paths: Vec<_> = (0..4)
        .map(|index| String::from_utf8_lossy(files.get(index).path))
        .collect();
    assert_eq!(
        paths,
        ["/c/step-1/a", "/c/step-1/s/b", "/c/tmp2/a", "/c/step-1"]
    );
    assert_eq!(files.rename(b"/c/step-1", b"/e"), Some(3));
    assert_eq!(files.get(1).path, b"/e/s/b");
    assert_eq!(files.unlink(b"/e/s/b"), Some(1));
}

#[test]
fn an_unlinked_path_can_be_taken_by_another_file() {
    let mut files = named(&["/a"]);
    assert_eq!(files.unlink(b"/a"), Some(0));
    assert_eq!(files.unlink(b"/a"), None);
    files.name(&name(7, "/a"));
    assert_eq!(files.unlink(b"/a"), Some(1));
    assert!(files.get(0).deleted && files.get(1).deleted);
}

#[test]
fn a_name_that_comes_late_or_twice_is_taken() {
    let mut files = Files::default();
    let index = files.intern(id(9));
    assert_eq!(files.get(index).path, b"");
    files.name(&name(9, "/late"));
    assert_eq!(files.get(index).path, b"/late");
    files.unlink(b"/late");
    files.name(&name(9, "/again"));
    assert_eq!(files.get(index).path, b"/again");
    assert!(!files.get(index).deleted);
}
