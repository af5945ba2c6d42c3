//! The types of columns.

use std::borrow::Cow;

use iotrace_common::key::FileId;
use iotrace_model::{File, history::Bounds, input::ProcessId, run::Clock};
use parquet::data_type::{BoolType, ByteArrayType, Int64Type};

use super::{Buffer, Column, Damage, Device, Field, Meaning, Presence, Value};

/// No interval has more of anything than this: 64 PiB, or two years in nanoseconds. A value above it is damage, and
/// kept out so that no sum overflows.
const MAX_COUNT: u64 = 1 << 56;

/// A count, unless it is too large.
pub fn plausible(stored: i64) -> Result<u64, Damage> {
    let count = stored as u64;
    let is_plausible = count < MAX_COUNT;
    is_plausible
        .then_some(count)
        .ok_or("a counter is too large to be true")
}

/// A value that is stored as an integer.
trait Integer: Copy {
    const MEANING: Meaning = Meaning::Plain;

    fn stored(self, clock: &Clock) -> i64;

    fn restored(stored: i64, clock: &Clock) -> Result<Self, Damage>;
}

impl Integer for i64 {
    fn stored(self, _: &Clock) -> i64 {
        self
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        Ok(stored)
    }
}

impl Integer for u32 {
    fn stored(self, _: &Clock) -> i64 {
        self.into()
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        Self::try_from(stored).map_err(|_| "a number is too large to be true")
    }
}

/// A count.
impl Integer for u64 {
    fn stored(self, _: &Clock) -> i64 {
        self as i64
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        plausible(stored)
    }
}

/// Any 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Word(pub u64);

impl Integer for Word {
    fn stored(self, _: &Clock) -> i64 {
        self.0 as i64
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        Ok(Self(stored as u64))
    }
}

/// The number of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inode(pub u64);

impl Integer for Inode {
    const MEANING: Meaning = Meaning::Unsigned;

    fn stored(self, _: &Clock) -> i64 {
        self.0 as i64
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        Ok(Self(stored as u64))
    }
}

/// A moment by `CLOCK_MONOTONIC`; the column has nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// None for 0, which is never.
    pub fn unless_zero(monotonic: u64) -> Option<Self> {
        (monotonic != 0).then_some(Self(monotonic))
    }
}

impl Integer for Moment {
    fn stored(self, clock: &Clock) -> i64 {
        clock.unix_ns(self.0)
    }

    fn restored(stored: i64, clock: &Clock) -> Result<Self, Damage> {
        Ok(Self(clock.monotonic_ns(stored)))
    }
}

/// Nanoseconds since the Unix epoch; the column has a time to the microsecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timestamp(pub i64);

impl Integer for Timestamp {
    const MEANING: Meaning = Meaning::Timestamp;

    fn stored(self, _: &Clock) -> i64 {
        self.0.div_euclid(1_000)
    }

    fn restored(stored: i64, _: &Clock) -> Result<Self, Damage> {
        Ok(Self(stored.saturating_mul(1_000)))
    }
}

macro_rules! integers {
    ($($type:ty)+) => {$(
        impl<'a> Value<'a> for $type {
            type Type = Int64Type;
            const MEANING: Meaning = <$type as Integer>::MEANING;

            fn put(&self, to: &mut Buffer<Int64Type>, clock: &Clock) {
                to.push(self.stored(clock));
            }

            fn load(from: &'a Buffer<Int64Type>, clock: &Clock) -> Result<Self, Damage> {
                Self::restored(*from.next()?, clock)
            }
        }
    )+};
}

integers! { i64 u32 u64 Word Inode Moment Timestamp }

impl<'a> Value<'a> for bool {
    type Type = BoolType;
    const MEANING: Meaning = Meaning::Plain;

    fn put(&self, to: &mut Buffer<BoolType>, _: &Clock) {
        to.push(*self);
    }

    fn load(from: &'a Buffer<BoolType>, _: &Clock) -> Result<Self, Damage> {
        from.next().copied()
    }
}

impl<'a> Value<'a> for &'a str {
    type Type = ByteArrayType;
    const MEANING: Meaning = Meaning::Text;

    fn put(&self, to: &mut Buffer<ByteArrayType>, _: &Clock) {
        to.push_bytes(self.as_bytes());
    }

    fn load(from: &'a Buffer<ByteArrayType>, _: &Clock) -> Result<Self, Damage> {
        std::str::from_utf8(from.next_bytes()?).map_err(|_| "a text is not UTF-8")
    }
}

impl<'a> Value<'a> for Cow<'a, str> {
    type Type = ByteArrayType;
    const MEANING: Meaning = Meaning::Text;

    fn put(&self, to: &mut Buffer<ByteArrayType>, _: &Clock) {
        to.push_bytes(self.as_bytes());
    }

    fn load(from: &'a Buffer<ByteArrayType>, clock: &Clock) -> Result<Self, Damage> {
        Value::load(from, clock).map(Self::Borrowed)
    }
}

/// Bytes that need not be UTF-8.
impl<'a> Value<'a> for Cow<'a, [u8]> {
    type Type = ByteArrayType;
    const MEANING: Meaning = Meaning::Plain;

    fn put(&self, to: &mut Buffer<ByteArrayType>, _: &Clock) {
        to.push_bytes(self);
    }

    fn load(from: &'a Buffer<ByteArrayType>, _: &Clock) -> Result<Self, Damage> {
        from.next_bytes().map(Self::Borrowed)
    }
}

/// A name of any bytes: as text, with U+FFFD for what is not UTF-8, and if there is such a place the bytes themselves in
/// a second column.
#[derive(Clone, Debug, Default)]
pub struct Name<'a>(pub Option<Cow<'a, [u8]>>);

impl<'a> Name<'a> {
    /// None for the empty name, which is not known.
    pub fn unless_empty(name: impl Into<Cow<'a, [u8]>>) -> Self {
        Self(Some(name.into()).filter(|name| !name.is_empty()))
    }

    /// The path of a file.
    pub fn of(file: Option<&File<'a>>) -> Self {
        Self::unless_empty(file.map_or(&[][..], |file| file.path))
    }

    /// The name; empty if there is none.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.map_or_else(Vec::new, Cow::into_owned)
    }
}

impl<'a> Column<'a> for Name<'a> {
    type Store = [Buffer<ByteArrayType>; 2];

    fn fields(name: &str) -> Vec<Field> {
        name_fields(name, Presence::Optional)
    }

    fn put(&self, [text, raw]: &mut Self::Store, _: &Clock) {
        text.push_presence(self.0.is_some());
        if let Some(name) = &self.0 {
            text.push_bytes(String::from_utf8_lossy(name).as_bytes());
        }
        put_raw(self.0.as_deref(), raw);
    }

    fn load([text, raw]: &'a Self::Store, _: &Clock) -> Result<Self, Damage> {
        let text = text
            .next_presence()
            .then(|| text.next_bytes())
            .transpose()?;
        Ok(Self(take_raw(raw)?.or(text).map(Cow::Borrowed)))
    }
}

/// As [`Name`], of what always has one.
#[derive(Clone, Copy, Debug)]
pub struct RequiredName<'a>(pub &'a [u8]);

impl<'a> Column<'a> for RequiredName<'a> {
    type Store = [Buffer<ByteArrayType>; 2];

    fn fields(name: &str) -> Vec<Field> {
        name_fields(name, Presence::Required)
    }

    fn put(&self, [text, raw]: &mut Self::Store, _: &Clock) {
        text.push_bytes(String::from_utf8_lossy(self.0).as_bytes());
        put_raw(Some(self.0), raw);
    }

    fn load([text, raw]: &'a Self::Store, _: &Clock) -> Result<Self, Damage> {
        let text = text.next_bytes()?;
        Ok(Self(take_raw(raw)?.unwrap_or(text)))
    }
}

fn name_fields(name: &str, presence: Presence) -> Vec<Field> {
    let raw = format!("{name}_raw");
    vec![
        Field::new::<ByteArrayType>(name, Meaning::Text, presence),
        Field::new::<ByteArrayType>(raw, Meaning::Plain, Presence::Optional),
    ]
}

fn put_raw(name: Option<&[u8]>, to: &mut Buffer<ByteArrayType>) {
    let raw = name.filter(|name| std::str::from_utf8(name).is_err());
    to.push_presence(raw.is_some());
    raw.into_iter().for_each(|raw| to.push_bytes(raw));
}

fn take_raw(from: &Buffer<ByteArrayType>) -> Result<Option<&[u8]>, Damage> {
    from.next_presence().then(|| from.next_bytes()).transpose()
}

/// The interval of a row, to the microsecond.
impl<'a> Column<'a> for Bounds {
    type Store = [Buffer<Int64Type>; 2];

    fn fields(name: &str) -> Vec<Field> {
        let ends = [format!("{name}_start"), format!("{name}_end")];
        let field = |name| Field::new::<Int64Type>(name, Meaning::Timestamp, Presence::Required);
        ends.map(field).into()
    }

    fn put(&self, [start, end]: &mut Self::Store, clock: &Clock) {
        Value::put(&Timestamp(self.start), start, clock);
        Value::put(&Timestamp(self.end), end, clock);
    }

    fn load([start, end]: &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        let moment = |from| <Timestamp as Value>::load(from, clock);
        Ok(Self {
            start: moment(start)?.0,
            end: moment(end)?.0,
        })
    }
}

impl<'a> Column<'a> for ProcessId {
    type Store = [Buffer<Int64Type>; 2];

    fn fields(_: &str) -> Vec<Field> {
        let field = |name| Field::new::<Int64Type>(name, Meaning::Plain, Presence::Required);
        ["pid", "start_key"].map(field).into()
    }

    fn put(&self, [pid, start]: &mut Self::Store, clock: &Clock) {
        Value::put(&self.pid, pid, clock);
        Value::put(&self.start, start, clock);
    }

    fn load([pid, start]: &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        Ok(Self {
            pid: Value::load(pid, clock)?,
            start: Value::load(start, clock)?,
        })
    }
}

/// The identity of a file, or null.
impl<'a> Column<'a> for Option<FileId> {
    type Store = (
        Buffer<ByteArrayType>,
        (Buffer<Int64Type>, Buffer<Int64Type>),
    );

    fn fields(_: &str) -> Vec<Field> {
        let device = <Option<Device> as Column>::fields("device");
        let inode = <Option<Inode> as Column>::fields("inode");
        let generation = <Option<u32> as Column>::fields("generation");
        [device, inode, generation].concat()
    }

    fn put(&self, (device, (inode, generation)): &mut Self::Store, clock: &Clock) {
        Column::put(&self.map(|file| Device(file.device)), device, clock);
        Column::put(&self.map(|file| Inode(file.inode)), inode, clock);
        Column::put(&self.map(|file| file.generation), generation, clock);
    }

    fn load((device, (inode, generation)): &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        let device = Option::<Device>::load(device, clock)?;
        let inode = Option::<Inode>::load(inode, clock)?;
        let generation = Option::<u32>::load(generation, clock)?;
        let identity = device.zip(inode).zip(generation);
        Ok(identity.map(|((device, inode), generation)| FileId {
            device: device.0,
            inode: inode.0,
            generation,
        }))
    }
}
