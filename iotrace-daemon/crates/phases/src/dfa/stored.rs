//! The table of the built-in rules as a file of this crate: every command needs it, and making it takes 80 ms of CPU time.
//!
//! The file begins with a [`mark`] of the rules that it was made of; with other rules it is not used. A test compares it with
//! what is made of the rules, and with `IOTRACE_WRITE_DOCS` in the environment it is written instead.
//!
//! ```text
//! mark: u64 | deflate(postcard(table))
//! ```

use std::io::Read as _;

use flate2::read::DeflateDecoder;

use super::Table;

const STORED_TABLE: &[u8] = include_bytes!("../builtin.table");
const MARK_SIZE: usize = size_of::<u64>();

/// The table of these rules, if it is the one that is stored.
pub fn table(rules: &str) -> Option<Table> {
    let (of, compressed) = STORED_TABLE.split_first_chunk::<MARK_SIZE>()?;
    if u64::from_le_bytes(*of) != mark(rules) {
        return None;
    }
    let mut bytes = Vec::new();
    DeflateDecoder::new(compressed)
        .read_to_end(&mut bytes)
        .ok()?;
    postcard::from_bytes(&bytes).ok()
}

/// Tells rules from others (FNV-1a, as the same for each build).
fn mark(rules: &str) -> u64 {
    rules.bytes().fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The classes of bytes, of which serde knows no array this long.
pub mod classes {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(classes: &[u8; 256], serializer: S) -> Result<S::Ok, S::Error> {
        classes.as_slice().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 256], D::Error> {
        let classes = Vec::<u8>::deserialize(deserializer)?;
        let wrong = |classes: Vec<u8>| D::Error::invalid_length(classes.len(), &"256 classes");
        classes.try_into().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use flate2::{Compression, write::DeflateEncoder};

    use super::*;
    use crate::{
        dfa::build,
        rules::{BUILTIN_TEXT, RuleSet},
    };

    const TABLE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/builtin.table");

    #[test]
    fn the_stored_table_is_that_of_the_rules() {
        let made = build(RuleSet::builtin().unwrap().all()).unwrap();
        if std::env::var_os("IOTRACE_WRITE_DOCS").is_some() {
            let mut file = DeflateEncoder::new(
                mark(BUILTIN_TEXT).to_le_bytes().to_vec(),
                Compression::best(),
            );
            file.write_all(&postcard::to_stdvec(&made).unwrap())
                .unwrap();
            return fs::write(TABLE_PATH, file.finish().unwrap()).unwrap();
        }
        let advice = "write it with IOTRACE_WRITE_DOCS=1 cargo test --lib";
        let stored = table(BUILTIN_TEXT).expect(advice);
        assert!(stored == made, "{advice}");
    }

    #[test]
    fn other_rules_have_no_stored_table() {
        assert!(table("").is_none());
        assert!(table(&BUILTIN_TEXT.replacen("train", "brain", 1)).is_none());
    }
}
