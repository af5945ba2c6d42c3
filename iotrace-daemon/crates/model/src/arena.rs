//! Where the bytes of file names lie: packed end to end, so that a name costs its length and a reference.
//!
//! Names are never removed. A rename keeps the old one; that is rare and small.

/// A name in an [`Arena`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Name {
    chunk: u32,
    offset: u32,
    len: u32,
}

impl Name {
    /// Whether the name has no bytes: a file that has not been named yet.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Size of a chunk; a longer name gets its own chunk. Large enough to be mapped and returned page by page.
const CHUNK_BYTES: usize = 1 << 20;

/// Append-only storage of names.
#[derive(Debug, Default)]
pub struct Arena {
    chunks: Vec<Vec<u8>>,
}

impl Arena {
    /// Keeps `bytes`.
    pub fn keep(&mut self, bytes: &[u8]) -> Name {
        if bytes.is_empty() {
            return Name::default();
        }
        if self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.capacity() - chunk.len() < bytes.len())
        {
            self.chunks
                .push(Vec::with_capacity(CHUNK_BYTES.max(bytes.len())));
        }
        let index = self.chunks.len() - 1;
        let chunk = &mut self.chunks[index];
        let name = Name {
            chunk: index as u32,
            offset: chunk.len() as u32,
            len: bytes.len() as u32,
        };
        chunk.extend_from_slice(bytes);
        name
    }

    /// The bytes of `name`.
    pub fn get(&self, name: Name) -> &[u8] {
        let start = name.offset as usize;
        self.chunks
            .get(name.chunk as usize)
            .map_or(&[], |chunk| &chunk[start..start + name.len as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_names_of_any_length() {
        let mut arena = Arena::default();
        assert_eq!(arena.get(Name::default()), b"");
        let names: Vec<Vec<u8>> = (0..3000)
            .map(|i| vec![i as u8; i])
            .chain([vec![7; CHUNK_BYTES + 1], vec![8]])
            .collect();
        let kept: Vec<Name> = names.iter().map(|name| arena.keep(name)).collect();
        for (name, kept) in names.iter().zip(kept) {
            assert_eq!(arena.get(kept), name);
        }
    }
}
