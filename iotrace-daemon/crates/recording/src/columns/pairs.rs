//! Columns of pairs of a value and a count.

use iotrace_model::run::Clock;
use parquet::data_type::Int64Type;

use super::{Buffer, Column, Damage, Field, Meaning, Presence, plausible};

/// The two columns of a list of pairs.
pub type PairBuffers = [Buffer<Int64Type>; 2];

/// A list of pairs whose members have these names.
pub fn field(name: &str, members: [&'static str; 2]) -> Field {
    Field::new::<Int64Type>(name, Meaning::Pairs(members), Presence::List)
}

/// Adds a list.
pub fn put(pairs: impl Iterator<Item = (u64, u64)> + Clone, [first, second]: &mut PairBuffers) {
    first.push_list(pairs.clone().map(|(value, _)| value as i64));
    second.push_list(pairs.map(|(_, count)| count as i64));
}

/// Loads a list.
pub fn load(
    [first, second]: &PairBuffers,
) -> Result<impl Iterator<Item = Result<(u64, u64), Damage>>, Damage> {
    let pairs = first.next_list()?.into_iter().zip(second.next_list()?);
    Ok(pairs.map(|(value, count)| Ok((*value as u64, plausible(*count)?))))
}

/// Counts by bucket; the column has those that are not 0.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<const N: usize>(pub [u64; N]);

impl<'a, const N: usize> Column<'a> for Buckets<N> {
    type Store = PairBuffers;

    fn fields(name: &str) -> Vec<Field> {
        vec![field(name, ["bucket", "count"])]
    }

    fn put(&self, store: &mut Self::Store, _: &Clock) {
        let counts = (0..).zip(self.0);
        put(counts.filter(|(_, count)| *count > 0), store);
    }

    fn load(store: &'a Self::Store, _: &Clock) -> Result<Self, Damage> {
        let mut buckets = [0; N];
        for pair in load(store)? {
            let (bucket, count) = pair?;
            let known = buckets.get_mut(bucket as usize);
            *known.ok_or("it has a bucket that does not exist")? = count;
        }
        Ok(Self(buckets))
    }
}
