//! Columns of names from a fixed set: classes of operations, phases and the like.

use std::borrow::Cow;

use iotrace_common::{
    block::class,
    global_merged::{self, GROUPS},
    key::FileId,
    op,
};
use iotrace_model::{
    PhaseSet, errno, input::Place, mounts::parse_device, run::Clock, timeline::Cause, waits::Leaf,
};
use iotrace_phases::phase::{Class, Phase};
use parquet::data_type::ByteArrayType;

use super::{Buffer, Damage, Meaning, Value};

/// A value that is stored as its name.
trait Named: Copy {
    /// Why a name is none of them.
    const UNKNOWN: Damage;

    fn name(self) -> Cow<'static, str>;

    /// Undoes [`Named::name`].
    fn of_name(name: &[u8]) -> Option<Self>;
}

macro_rules! named {
    ($($type:ty)+) => {$(
        impl<'a> Value<'a> for $type {
            type Type = ByteArrayType;
            const MEANING: Meaning = Meaning::Text;

            fn put(&self, to: &mut Buffer<ByteArrayType>, _: &Clock) {
                match Named::name(*self) {
                    Cow::Borrowed(name) => to.push_static(name),
                    Cow::Owned(name) => to.push_bytes(name.as_bytes()),
                }
            }

            fn load(from: &'a Buffer<ByteArrayType>, _: &Clock) -> Result<Self, Damage> {
                Self::of_name(from.next_bytes()?).ok_or(Self::UNKNOWN)
            }
        }
    )+};
}

named! { OperationClass ErrorName PhaseCode Phases MergedPhases PlaceName DeviceClass Device Leaf Cause TimedClass }

fn position(names: &[&str], name: &[u8]) -> Option<usize> {
    names.iter().position(|known| known.as_bytes() == name)
}

/// A class of operations whose durations are counted together ([`op::class`]).
#[derive(Clone, Copy, Debug)]
pub struct TimedClass(pub u8);

impl Named for TimedClass {
    const UNKNOWN: Damage = "it names a class of operations that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        op::class::NAMES[usize::from(self.0)].into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        position(&op::class::NAMES, name).map(|index| Self(index as u8))
    }
}

/// An operation class ([`op`]).
#[derive(Clone, Copy, Debug)]
pub struct OperationClass(pub u32);

impl Named for OperationClass {
    const UNKNOWN: Damage = "it names an operation that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        let name = op::NAMES.get(self.0 as usize).copied();
        name.unwrap_or("unknown").into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        position(&op::NAMES, name).map(|index| Self(index as u32))
    }
}

/// An error by its number.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorName(pub u32);

impl Named for ErrorName {
    const UNKNOWN: Damage = "errors are read by their numbers";

    fn name(self) -> Cow<'static, str> {
        errno::name(self.0)
    }

    fn of_name(_: &[u8]) -> Option<Self> {
        None
    }
}

/// Numbers of phases, 0 included.
const PHASES: u16 = Phase::ALL.len() as u16 + 1;

/// A phase by its number ([`Phase::code`]); 0 for calls that name no open file.
#[derive(Clone, Copy, Debug)]
pub struct PhaseCode(pub u16);

impl Named for PhaseCode {
    const UNKNOWN: Damage = "it names a phase that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        phase_name(self.0).into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        let mut codes = (0..PHASES).map(Self);
        codes.find(|code| phase_name(code.0).as_bytes() == name)
    }
}

/// A phase by its class, if it has one.
fn phase_name(code: u16) -> &'static str {
    if code == 0 {
        return "none";
    }
    let phase = Phase::from_code(code);
    phase.class().map_or(phase.name(), Class::name)
}

fn joined(codes: impl Iterator<Item = u16>) -> Cow<'static, str> {
    codes.map(phase_name).collect::<Vec<_>>().join("+").into()
}

/// Phases with a plus between them.
#[derive(Clone, Copy, Debug)]
pub struct Phases(pub PhaseSet);

impl Named for Phases {
    const UNKNOWN: Damage = "";

    fn name(self) -> Cow<'static, str> {
        joined(self.0.codes())
    }

    /// Phases that this iotrace does not know are left out.
    fn of_name(name: &[u8]) -> Option<Self> {
        let names = name.split(|byte| *byte == b'+');
        let codes = names.filter_map(PhaseCode::of_name);
        let set = codes.fold(PhaseSet::default(), |set, code| set.with(code.0.into()));
        Some(Self(set))
    }
}

/// A group of phases whose merged time is kept, by its number: the names of its members.
#[derive(Clone, Copy, Debug)]
pub struct MergedPhases(pub usize);

impl Named for MergedPhases {
    const UNKNOWN: Damage = "it names phases that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        joined((0..PHASES).filter(|phase| {
            let of = |nth| global_merged::group(u32::from(*phase), nth) as usize;
            (0..global_merged::GROUPS_PER_CALL).any(|nth| of(nth) == self.0)
        }))
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        let mut groups = (0..GROUPS).map(Self);
        groups.find(|group| group.name().as_bytes() == name)
    }
}

/// Where a count belongs, without the identity of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceName {
    File,
    PathOnly,
    Overflow,
}

impl PlaceName {
    /// With the identity of the file, which a count of a file has.
    pub fn place(self, file: Option<FileId>) -> Result<Place, Damage> {
        match self {
            Self::File => file.map(Place::File).ok_or("a row names no file"),
            Self::PathOnly => Ok(Place::PathOnly),
            Self::Overflow => Ok(Place::Overflow),
        }
    }
}

impl From<Place<u32>> for PlaceName {
    fn from(place: Place<u32>) -> Self {
        match place {
            Place::File(_) => Self::File,
            Place::PathOnly => Self::PathOnly,
            Place::Overflow => Self::Overflow,
        }
    }
}

impl Named for PlaceName {
    const UNKNOWN: Damage = "a row names no place";

    fn name(self) -> Cow<'static, str> {
        match self {
            Self::File => "file",
            Self::PathOnly => "by_name",
            Self::Overflow => "overflow",
        }
        .into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        let mut all = [Self::File, Self::PathOnly, Self::Overflow].into_iter();
        all.find(|place| place.name().as_bytes() == name)
    }
}

/// A class of requests to block devices ([`class`]).
#[derive(Clone, Copy, Debug)]
pub struct DeviceClass(pub usize);

impl Named for DeviceClass {
    const UNKNOWN: Damage = "it names an operation of a device that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        class::NAMES[self.0].into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        position(&class::NAMES, name).map(Self)
    }
}

/// A device, in the kernel's encoding; the column has `major:minor`.
#[derive(Clone, Copy, Debug)]
pub struct Device(pub u32);

impl Named for Device {
    const UNKNOWN: Damage = "a device is not major:minor";

    fn name(self) -> Cow<'static, str> {
        format!("{}:{}", self.0 >> 20, self.0 & 0xf_ffff).into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        let device = std::str::from_utf8(name).ok().and_then(parse_device);
        device.map(Self)
    }
}

impl Named for Leaf {
    const UNKNOWN: Damage = "it names a kind of wait that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        Leaf::name(self).into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        Leaf::of_name(name)
    }
}

impl Named for Cause {
    const UNKNOWN: Damage = "it names a cause of a wait that this iotrace does not know";

    fn name(self) -> Cow<'static, str> {
        Cause::name(self).into()
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        Cause::of_name(name)
    }
}
