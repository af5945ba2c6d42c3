//! Parts of paths, any bytes.

/// The directory that a path is in, without a slash behind it; empty for what is in the root, and for a name alone.
pub fn parent(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    &path[..slash.unwrap_or(0)]
}

/// What follows the last slash.
pub fn name(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    &path[slash.map_or(0, |at| at + 1)..]
}

/// What a path's file name ends with, from its last dot on; empty without a dot.
pub fn suffix(path: &[u8]) -> &[u8] {
    let name = name(path);
    let dot = name.iter().rposition(|byte| *byte == b'.');
    &name[dot.unwrap_or(name.len())..]
}

/// A path's file name without its [`suffix`].
pub fn stem(path: &[u8]) -> &[u8] {
    let name = name(path);
    &name[..name.len() - suffix(path).len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_and_a_slash_are_the_path() {
        for (path, expected) in [
            ("/a/b/c", ("/a/b", "c")),
            ("/a", ("", "a")),
            ("name", ("", "name")),
            ("/a/", ("/a", "")),
        ] {
            let path = path.as_bytes();
            let (directory, last) = (expected.0.as_bytes(), expected.1.as_bytes());
            assert_eq!((parent(path), name(path)), (directory, last));
        }
    }
}
