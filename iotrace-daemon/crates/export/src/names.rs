//! Names as an export has them: as recorded, or replaced by a keyed hash.

use std::{
    borrow::Cow,
    hash::{BuildHasher as _, RandomState},
};

/// Names of an export: paths, hosts, programs and command lines.
pub struct Names {
    /// A random key, of this export alone, which nobody keeps; none: names are exported as they are.
    key: Option<RandomState>,
}

impl Names {
    /// Names as they were recorded.
    pub fn plain() -> Self {
        Self { key: None }
    }

    /// Names that say nothing: equal ones are equal, within one export only.
    pub fn anonymous() -> Self {
        Self {
            key: Some(RandomState::new()),
        }
    }

    /// Whether names are replaced.
    pub fn are_anonymous(&self) -> bool {
        self.key.is_some()
    }

    /// A path. Each of its components is replaced on its own, so that directories stay directories.
    pub fn path<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(key) = &self.key else {
            return path.into();
        };
        let components = path.split(|byte| *byte == b'/');
        let hidden: Vec<_> = components
            .map(|component| hide(key, component).into_bytes())
            .collect();
        hidden.join(&b'/').into()
    }

    /// A host, a program's name or one argument of a command line.
    pub fn word<'a>(&self, word: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.key {
            Some(key) => hide(key, word).into_bytes().into(),
            None => word.into(),
        }
    }

    /// The same of text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.key {
            Some(key) => hide(key, text.as_bytes()).into(),
            None => text.into(),
        }
    }
}

/// 16 hexadecimal digits; nothing stays nothing.
fn hide(key: &RandomState, text: &[u8]) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{:016x}", key.hash_one(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_names_keep_their_shape_and_nothing_else() {
        let names = Names::anonymous();
        let (file, other) = (names.path(b"/data/a/x.npy"), names.path(b"/data/b/x.npy"));
        assert_eq!(file.len(), "/".len() * 3 + 16 * 3);
        assert_eq!(file[..18], other[..18], "the same directory");
        assert_ne!(file, other);
        assert_eq!(names.path(b"/"), b"/".as_slice());
        assert_eq!(names.word(b"data")[..], file[1..17]);
        assert_ne!(
            names.text("data"),
            Names::anonymous().text("data"),
            "another key"
        );
        assert_eq!(Names::plain().path(b"/data"), b"/data".as_slice());
    }
}
