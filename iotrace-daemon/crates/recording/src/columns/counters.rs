//! The counters of a file as columns: one column for each row of the table of counters.

use std::cell::OnceCell;

use iotrace_model::{
    counters::{COUNT, Counters, Descriptor, TABLE, Unit},
    run::Clock,
    spans,
};
use parquet::data_type::Int64Type;

use super::{
    AnyBuffer, Buffer, Column, Damage, Field, Moment, Store,
    pairs::{self, PairBuffers},
};

/// All counters, and the tables of sizes and strides.
#[derive(Debug)]
pub struct AllCounters(pub Counters);

impl<'a> Column<'a> for AllCounters {
    type Store = (CounterBuffers<COUNT>, [PairBuffers; 2]);

    fn fields(_: &str) -> Vec<Field> {
        let mut fields: Vec<Field> = TABLE.iter().flat_map(field).collect();
        fields.push(pairs::field("access_sizes", ["size", "count"]));
        fields.push(pairs::field("strides", ["stride", "count"]));
        fields
    }

    fn put(&self, (values, [sizes, strides]): &mut Self::Store, clock: &Clock) {
        let Self(counters) = self;
        values.put(0..COUNT, counters, clock);
        pairs::put(counters.sizes.entries().iter().copied(), sizes);
        pairs::put(counters.strides.entries().iter().copied(), strides);
    }

    fn load((values, [sizes, strides]): &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        let mut counters = values.load(0..COUNT, clock)?;
        for pair in pairs::load(sizes)? {
            let (size, count) = pair?;
            counters.sizes.add(size, count);
        }
        for pair in pairs::load(strides)? {
            let (stride, count) = pair?;
            counters.strides.add(stride, count);
        }
        Ok(Self(counters))
    }
}

/// The counters that spans have.
#[derive(Debug)]
pub struct SpanCounters(pub Counters);

impl<'a> Column<'a> for SpanCounters {
    type Store = CounterBuffers<{ spans::COUNTERS.len() }>;

    fn fields(_: &str) -> Vec<Field> {
        let counters = spans::COUNTERS.iter();
        counters.flat_map(|index| field(&TABLE[*index])).collect()
    }

    fn put(&self, store: &mut Self::Store, clock: &Clock) {
        store.put(spans::COUNTERS, &self.0, clock);
    }

    fn load(store: &'a Self::Store, clock: &Clock) -> Result<Self, Damage> {
        store.load(spans::COUNTERS, clock).map(Self)
    }
}

/// Columns of `N` counters.
pub struct CounterBuffers<const N: usize> {
    buffers: [Buffer<Int64Type>; N],
    /// Of columns that were read: those that have a value other than 0, a few of all, with the indices of their counters.
    counted: OnceCell<Vec<(usize, usize)>>,
}

impl<const N: usize> Default for CounterBuffers<N> {
    fn default() -> Self {
        Self {
            buffers: std::array::from_fn(|_| Buffer::default()),
            counted: OnceCell::new(),
        }
    }
}

impl<const N: usize> Store for CounterBuffers<N> {
    fn buffers<'s>(&'s mut self, to: &mut Vec<&'s mut dyn AnyBuffer>) {
        let buffers = self.buffers.iter_mut();
        to.extend(buffers.map(|buffer| buffer as &mut dyn AnyBuffer));
    }
}

impl<const N: usize> CounterBuffers<N> {
    /// Adds the counters with these indices.
    fn put(
        &mut self,
        indices: impl IntoIterator<Item = usize>,
        counters: &Counters,
        clock: &Clock,
    ) {
        for (index, buffer) in indices.into_iter().zip(&mut self.buffers) {
            let value = counters.v[index];
            match TABLE[index].unit {
                Unit::Moment => Column::put(&Moment::unless_zero(value), buffer, clock),
                _ => Column::put(&value, buffer, clock),
            }
        }
    }

    /// Loads them; all others are 0.
    fn load(
        &self,
        indices: impl IntoIterator<Item = usize>,
        clock: &Clock,
    ) -> Result<Counters, Damage> {
        let counted = self.counted.get_or_init(|| {
            let places = indices.into_iter().enumerate();
            let is_counted = |(place, _): &(usize, usize)| !self.buffers[*place].is_zero();
            places.filter(is_counted).collect()
        });
        let mut counters = Counters::ZERO;
        for (place, index) in counted.iter().copied() {
            let buffer = &self.buffers[place];
            counters.v[index] = match TABLE[index].unit {
                Unit::Moment => Option::<Moment>::load(buffer, clock)?.map_or(0, |moment| moment.0),
                _ => u64::load(buffer, clock)?,
            };
        }
        Ok(counters)
    }
}

fn field(descriptor: &Descriptor) -> Vec<Field> {
    match descriptor.unit {
        Unit::Moment => Option::<Moment>::fields(descriptor.column),
        _ => u64::fields(descriptor.column),
    }
}
