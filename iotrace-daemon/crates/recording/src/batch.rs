//! Rows of one table as columns: filled row by row and written, or read and taken row by row.
//!
//! Both ways go through the columns in the order of the schema, so the code that writes a row and the code that
//! reads it look alike.

use parquet::data_type::ByteArray;

use super::schema::{Kind, Schema};

/// The values of one Parquet column.
#[derive(Debug)]
pub(super) enum Values {
    Ints(Vec<i64>),
    Bytes(Vec<ByteArray>),
    Flags(Vec<bool>),
}

/// One Parquet column: values, and where it has them the levels that say which are there.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) values: Values,
    /// Integers before those in `values`, all 0: most counters are 0 for most files.
    pub(super) zeros: usize,
    pub(super) definitions: Vec<i16>,
    pub(super) repetitions: Vec<i16>,
    /// Position of the next value and level to be taken.
    next_value: usize,
    next_level: usize,
}

/// Rows as columns.
#[derive(Debug)]
pub struct Batch {
    pub(super) leaves: Vec<Leaf>,
    cursor: usize,
    pub(super) rows: usize,
}

impl Batch {
    /// No rows yet.
    pub fn new(schema: &Schema) -> Self {
        let leaf = |kind| Leaf {
            values: match kind {
                Kind::Text | Kind::Bytes => Values::Bytes(Vec::new()),
                Kind::Flag => Values::Flags(Vec::new()),
                Kind::Int | Kind::Unsigned | Kind::Timestamp | Kind::Pairs(..) => {
                    Values::Ints(Vec::new())
                }
            },
            zeros: 0,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            next_value: 0,
            next_level: 0,
        };
        let leaves = schema
            .fields
            .iter()
            .flat_map(|field| std::iter::repeat_n(field.kind, field.leaves()));
        Self {
            leaves: leaves.map(leaf).collect(),
            cursor: 0,
            rows: 0,
        }
    }

    fn next_leaf(&mut self) -> &mut Leaf {
        let leaf = &mut self.leaves[self.cursor];
        self.cursor += 1;
        leaf
    }

    /// Puts an integer; unsigned ones keep their bits.
    pub fn put(&mut self, value: i64) {
        self.next_leaf().push_int(value);
    }

    /// Puts an integer or nothing.
    pub fn put_option(&mut self, value: Option<i64>) {
        let leaf = self.next_leaf();
        leaf.definitions.push(value.is_some().into());
        value.into_iter().for_each(|value| leaf.push_int(value));
    }

    /// Puts text.
    pub fn put_text(&mut self, text: &str) {
        self.next_leaf().push_bytes(text.as_bytes());
    }

    /// Puts bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.next_leaf().push_bytes(bytes);
    }

    /// Puts bytes or nothing.
    pub fn put_bytes_option(&mut self, bytes: Option<&[u8]>) {
        let leaf = self.next_leaf();
        leaf.definitions.push(bytes.is_some().into());
        bytes.into_iter().for_each(|bytes| leaf.push_bytes(bytes));
    }

    /// Puts a flag.
    pub fn put_flag(&mut self, flag: bool) {
        if let Values::Flags(values) = &mut self.next_leaf().values {
            values.push(flag);
        }
    }

    /// Puts a list of pairs.
    pub fn put_pairs(&mut self, pairs: &[(u64, u64)]) {
        for second in [false, true] {
            let leaf = self.next_leaf();
            for (index, pair) in pairs.iter().enumerate() {
                leaf.definitions.push(1);
                leaf.repetitions.push((index > 0).into());
                leaf.push_int(if second { pair.1 } else { pair.0 } as i64);
            }
            if pairs.is_empty() {
                leaf.definitions.push(0);
                leaf.repetitions.push(0);
            }
        }
    }

    /// Takes an integer.
    pub fn take(&mut self) -> i64 {
        self.next_leaf().next_int()
    }

    /// Takes an integer or nothing.
    pub fn take_option(&mut self) -> Option<i64> {
        let leaf = self.next_leaf();
        leaf.next_is_there().then(|| leaf.next_int())
    }

    /// Takes bytes or text.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.next_leaf().next_bytes()
    }

    /// Takes bytes or text, or nothing.
    pub fn take_bytes_option(&mut self) -> Option<Vec<u8>> {
        let leaf = self.next_leaf();
        leaf.next_is_there().then(|| leaf.next_bytes())
    }

    /// Takes a flag.
    pub fn take_flag(&mut self) -> bool {
        let leaf = self.next_leaf();
        leaf.next_value += 1;
        matches!(&leaf.values, Values::Flags(values) if values.get(leaf.next_value - 1) == Some(&true))
    }

    /// Takes a list of pairs.
    pub fn take_pairs(&mut self) -> Vec<(u64, u64)> {
        let first = self.next_leaf().next_list();
        let second = self.next_leaf().next_list();
        first.into_iter().zip(second).collect()
    }

    /// Passes a column by.
    pub fn skip(&mut self) {
        let leaf = self.next_leaf();
        if leaf.definitions.is_empty() || leaf.next_is_there() {
            leaf.next_value += 1;
        }
    }

    /// Ends a row that was put or taken.
    pub fn end_row(&mut self) {
        debug_assert_eq!(self.cursor, self.leaves.len(), "columns of the row");
        self.cursor = 0;
    }
}

impl Leaf {
    fn push_int(&mut self, value: i64) {
        if let Values::Ints(values) = &mut self.values {
            if value == 0 && values.is_empty() {
                self.zeros += 1;
            } else {
                values.push(value);
            }
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        if let Values::Bytes(values) = &mut self.values {
            // Rows of one part share their host, place and the like: those are kept once.
            let shared = values.last().filter(|last| last.data() == bytes).cloned();
            values.push(shared.unwrap_or_else(|| ByteArray::from(bytes.to_vec())));
        }
    }

    fn next_is_there(&mut self) -> bool {
        self.next_level += 1;
        self.definitions.get(self.next_level - 1) == Some(&1)
    }

    fn next_int(&mut self) -> i64 {
        self.next_value += 1;
        match &self.values {
            Values::Ints(values) => values.get(self.next_value - 1).copied().unwrap_or(0),
            Values::Bytes(_) | Values::Flags(_) => 0,
        }
    }

    fn next_bytes(&mut self) -> Vec<u8> {
        self.next_value += 1;
        match &self.values {
            Values::Bytes(values) => values
                .get(self.next_value - 1)
                .map(|bytes| bytes.data().to_vec())
                .unwrap_or_default(),
            Values::Ints(_) | Values::Flags(_) => Vec::new(),
        }
    }

    fn next_list(&mut self) -> Vec<u64> {
        let mut list = Vec::new();
        loop {
            if self.next_is_there() {
                list.push(self.next_int() as u64);
            }
            if self.repetitions.get(self.next_level) != Some(&1) {
                return list;
            }
        }
    }

    /// Forgets the rows.
    pub(super) fn clear(&mut self) {
        match &mut self.values {
            Values::Ints(values) => values.clear(),
            Values::Bytes(values) => values.clear(),
            Values::Flags(values) => values.clear(),
        }
        self.zeros = 0;
        self.definitions.clear();
        self.repetitions.clear();
    }
}
