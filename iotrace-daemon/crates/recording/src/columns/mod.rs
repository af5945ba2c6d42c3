//! Columns of tables, by type: the type of a row's field says which Parquet columns it takes, how it is written to them and
//! how it is read.
//!
//! [`row!`] declares a row. Schema, writer, reader and reference page of a table all come from that one declaration, so a
//! new column is one line there, and a value of another type does not compile.

mod buffer;
mod counters;
mod names;
pub mod pairs;
mod values;

use iotrace_model::run::Clock;
use parquet::{basic::Type, data_type::DataType, schema::types::ColumnPath};

pub use buffer::{AnyBuffer, Buffer};
pub use counters::{AllCounters, SpanCounters};
pub use names::*;
pub use pairs::Buckets;
pub use values::*;

/// Why a row cannot be true.
pub type Damage = &'static str;

/// A value of a row, which takes one or more columns.
pub trait Column<'a>: Sized {
    /// Where its values are, between the rows and the file.
    type Store: Store;

    /// Its Parquet columns, by the name of the row's field.
    fn fields(name: &str) -> Vec<Field>;

    /// Adds it to the columns.
    fn put(&self, store: &mut Self::Store, clock: &Clock);

    /// Loads the next one from the columns.
    fn load(store: &'a Self::Store, clock: &Clock) -> Result<Self, Damage>;
}

/// A value that takes one column.
pub trait Value<'a>: Sized {
    /// Its type in Parquet.
    type Type: DataType;
    /// What the type stands for.
    const MEANING: Meaning;

    /// Adds it to the column.
    fn put(&self, to: &mut Buffer<Self::Type>, clock: &Clock);

    /// Loads the next one from the column.
    fn load(from: &'a Buffer<Self::Type>, clock: &Clock) -> Result<Self, Damage>;
}

impl<'a, V: Value<'a>> Column<'a> for V {
    type Store = Buffer<V::Type>;

    fn fields(name: &str) -> Vec<Field> {
        vec![Field::new::<V::Type>(name, V::MEANING, Presence::Required)]
    }

    fn put(&self, store: &mut Self::Store, clock: &Clock) {
        Value::put(self, store, clock);
    }

    fn load(store: &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        Value::load(store, clock)
    }
}

/// A value, or null.
impl<'a, V: Value<'a>> Column<'a> for Option<V> {
    type Store = Buffer<V::Type>;

    fn fields(name: &str) -> Vec<Field> {
        vec![Field::new::<V::Type>(name, V::MEANING, Presence::Optional)]
    }

    fn put(&self, store: &mut Self::Store, clock: &Clock) {
        store.push_presence(self.is_some());
        if let Some(value) = self {
            value.put(store, clock);
        }
    }

    fn load(store: &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        let value = store.next_presence().then(|| V::load(store, clock));
        value.transpose()
    }
}

/// What follows from other columns, and is written for other readers: iotrace does not read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Derived<C>(pub C);

impl<'a, C: Column<'a> + Default> Column<'a> for Derived<C> {
    type Store = C::Store;

    fn fields(name: &str) -> Vec<Field> {
        let derived = |field| Field {
            is_derived: true,
            ..field
        };
        C::fields(name).into_iter().map(derived).collect()
    }

    fn put(&self, store: &mut Self::Store, clock: &Clock) {
        self.0.put(store, clock);
    }

    fn load(_: &'a Self::Store, _: &Clock) -> Result<Self, Damage> {
        Ok(Self::default())
    }
}

/// The columns of one or more values.
pub trait Store: Default + Send {
    /// Appends them, in their order.
    fn buffers<'s>(&'s mut self, to: &mut Vec<&'s mut dyn AnyBuffer>);
}

impl<T: DataType> Store for Buffer<T> {
    fn buffers<'s>(&'s mut self, to: &mut Vec<&'s mut dyn AnyBuffer>) {
        to.push(self);
    }
}

impl Store for () {
    fn buffers<'s>(&'s mut self, _: &mut Vec<&'s mut dyn AnyBuffer>) {}
}

impl<S: Store> Store for [S; 2] {
    fn buffers<'s>(&'s mut self, to: &mut Vec<&'s mut dyn AnyBuffer>) {
        self.iter_mut().for_each(|store| store.buffers(to));
    }
}

impl<A: Store, B: Store> Store for (A, B) {
    fn buffers<'s>(&'s mut self, to: &mut Vec<&'s mut dyn AnyBuffer>) {
        self.0.buffers(to);
        self.1.buffers(to);
    }
}

/// What the type of a column stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// As the type itself.
    Plain,
    /// 64 bits without a sign.
    Unsigned,
    /// Microseconds since the Unix epoch, UTC.
    Timestamp,
    /// UTF-8.
    Text,
    /// A list of pairs, by the names of their two members.
    Pairs([&'static str; 2]),
}

/// Whether a column has a value in each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Required,
    Optional,
    /// Any number of values.
    List,
}

/// How a column is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// By a dictionary, as long as that is short.
    #[default]
    Dictionary,
    /// As differences: many values, each near the one before.
    Differences,
    /// By a dictionary, as long as that is short, then as differences.
    DictionaryOrDifferences,
}

/// One column, or two for a list of pairs.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// In Parquet.
    pub physical: Type,
    pub meaning: Meaning,
    pub presence: Presence,
    pub encoding: Encoding,
    /// See [`Derived`].
    pub is_derived: bool,
}

impl Field {
    /// A column of this type.
    pub fn new<T: DataType>(name: impl Into<String>, meaning: Meaning, presence: Presence) -> Self {
        Self {
            name: name.into(),
            physical: T::get_physical_type(),
            meaning,
            presence,
            encoding: Encoding::default(),
            is_derived: false,
        }
    }

    /// Paths of its Parquet columns.
    pub fn paths(&self) -> Vec<ColumnPath> {
        match self.meaning {
            Meaning::Pairs(members) => {
                let of_member =
                    |member: &str| [&*self.name, "list", "element", member].map(Into::into);
                let paths = members.map(|member| ColumnPath::new(of_member(member).to_vec()));
                paths.to_vec()
            }
            _ => vec![ColumnPath::from(&*self.name)],
        }
    }

    /// It in Parquet's notation.
    pub fn declaration(&self) -> String {
        let name = &self.name;
        let presence = match self.presence {
            Presence::Optional => "optional",
            _ => "required",
        };
        let physical = match self.physical {
            Type::INT64 => "int64",
            Type::BOOLEAN => "boolean",
            _ => "binary",
        };
        let annotation = match self.meaning {
            Meaning::Plain => "",
            Meaning::Unsigned => " (INTEGER(64,false))",
            Meaning::Timestamp => " (TIMESTAMP(MICROS,true))",
            Meaning::Text => " (STRING)",
            Meaning::Pairs([first, second]) => {
                return format!(
                    "required group {name} (LIST) {{ repeated group list {{ required group element {{ \
                     required int64 {first}; required int64 {second}; }} }} }}"
                );
            }
        };
        format!("{presence} {physical} {name}{annotation};")
    }
}

/// One row of a table, declared by [`row!`].
pub trait Row<'a>: Sized {
    /// The table: its file is `NAME.parquet`.
    const NAME: &'static str;
    /// Whether each part has the table; otherwise only parts with a row for it.
    const IN_EACH_PART: bool;
    type Store: Store;

    /// Its columns in order: those of each value, and what the value means.
    fn columns() -> Vec<(Vec<Field>, String)>;

    /// Adds it to the columns.
    fn put(&self, store: &mut Self::Store, clock: &Clock);

    /// Loads the next one from the columns.
    fn load(store: &'a Self::Store, clock: &Clock) -> Result<Self, Damage>;

    /// Its columns in order.
    fn fields() -> Vec<Field> {
        let columns = Self::columns().into_iter();
        columns.flat_map(|(fields, _)| fields).collect()
    }
}

/// Declares the row of a table.
///
/// ```text
/// row! {
///     /// Failed calls.
///     pub struct Row<'a> in each "errors" {          // `in each`: parts without a row have the table, too; else `in`
///         /// the operation class                    // what the reference page says of the column
///         operation: Operation,
///         calls: u64 as Differences,                 // an `Encoding`
///     }
/// }
/// ```
macro_rules! row {
    ($(#[$meta:meta])* pub struct $row:ident<$life:lifetime> in each $name:literal { $($body:tt)* }) => {
        row!(@declare [$(#[$meta])*] [$row<$life>] $life $name true $($body)*);
    };
    ($(#[$meta:meta])* pub struct $row:ident<$life:lifetime> in $name:literal { $($body:tt)* }) => {
        row!(@declare [$(#[$meta])*] [$row<$life>] $life $name false $($body)*);
    };
    ($(#[$meta:meta])* pub struct $row:ident in each $name:literal { $($body:tt)* }) => {
        row!(@declare [$(#[$meta])*] [$row] 'a $name true $($body)*);
    };
    ($(#[$meta:meta])* pub struct $row:ident in $name:literal { $($body:tt)* }) => {
        row!(@declare [$(#[$meta])*] [$row] 'a $name false $($body)*);
    };
    (
        @declare [$(#[$meta:meta])*] [$($row:tt)*] $life:lifetime $name:literal $each:literal
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $encoding:ident)?,)+
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $($row)* {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl<$life> $crate::columns::Row<$life> for $($row)* {
            const NAME: &'static str = $name;
            const IN_EACH_PART: bool = $each;
            type Store = row!(@store $life $($type,)+);

            fn columns() -> Vec<(Vec<$crate::columns::Field>, String)> {
                vec![$({
                    let name = stringify!($field).trim_start_matches("r#");
                    let fields = <$type as $crate::columns::Column>::fields(name);
                    $(let fields = $crate::columns::encoded(fields, $crate::columns::Encoding::$encoding);)?
                    (fields, [$($doc),+].concat().trim().to_owned())
                }),+]
            }

            fn put(&self, row!(@pattern $($field,)+): &mut Self::Store, clock: &iotrace_model::run::Clock) {
                $($crate::columns::Column::put(&self.$field, $field, clock);)+
            }

            fn load(
                row!(@pattern $($field,)+): &$life Self::Store,
                clock: &iotrace_model::run::Clock,
            ) -> Result<Self, $crate::columns::Damage> {
                Ok(Self { $($field: $crate::columns::Column::load($field, clock)?,)+ })
            }
        }
    };
    (@store $life:lifetime) => { () };
    (@store $life:lifetime $type:ty, $($rest:ty,)*) => {
        (<$type as $crate::columns::Column<$life>>::Store, row!(@store $life $($rest,)*))
    };
    (@pattern) => { () };
    (@pattern $field:ident, $($rest:ident,)*) => { ($field, row!(@pattern $($rest,)*)) };
}
pub(crate) use row;

/// The same columns, encoded in this way.
pub fn encoded(fields: Vec<Field>, encoding: Encoding) -> Vec<Field> {
    let fields = fields.into_iter();
    fields.map(|field| Field { encoding, ..field }).collect()
}
