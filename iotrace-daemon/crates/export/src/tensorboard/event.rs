//! TensorBoard's events, as protocol buffers: `tensorflow.Event` with a `Summary` of scalars and histograms.
//!
//! The few fields that are written have these numbers in `event.proto` and `summary.proto`.

/// What a tag has at one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Scalar(f32),
    Histogram(Histogram),
}

/// How often values of each size occurred.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    pub min: f64,
    pub max: f64,
    /// Sum of the values, and of their squares; 0 where they are not known.
    pub sum: f64,
    pub sum_squares: f64,
    /// Upper bounds, with the number of values between the one before and this one.
    pub buckets: Vec<(f64, f64)>,
}

impl Histogram {
    /// Of values, in buckets that double.
    pub fn of(values: &[u64]) -> Self {
        let mut histogram = Self {
            min: values.iter().min().copied().unwrap_or(0) as f64,
            max: values.iter().max().copied().unwrap_or(0) as f64,
            ..Self::default()
        };
        let mut counts = [0_u64; 65];
        for value in values {
            histogram.sum += *value as f64;
            histogram.sum_squares += (*value as f64).powi(2);
            counts[(u64::BITS - value.leading_zeros()) as usize] += 1;
        }
        let bounds = counts.iter().enumerate();
        let bounds = bounds.map(|(bits, count)| ((bits as f64).exp2(), *count as f64));
        histogram.buckets = trimmed(bounds.collect());
        histogram
    }

    /// Of counts below upper bounds; the values themselves are not known.
    pub fn of_counts(counts: impl Iterator<Item = (u64, u64)>) -> Self {
        let buckets = trimmed(
            counts
                .map(|(bound, count)| (bound as f64, count as f64))
                .collect(),
        );
        Self {
            max: buckets.last().map_or(0.0, |(bound, _)| *bound),
            buckets,
            ..Self::default()
        }
    }
}

/// Without the empty buckets behind the last value, and all but one before the first.
fn trimmed(mut buckets: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let is_used = |(_, count): &(f64, f64)| *count > 0.0;
    buckets.truncate(buckets.iter().rposition(is_used).map_or(0, |last| last + 1));
    let first = buckets.iter().position(is_used).unwrap_or(0);
    buckets.drain(..first.saturating_sub(1));
    buckets
}

/// The event that opens a file: the version of its format.
pub fn version(wall_time: f64) -> Vec<u8> {
    let mut event = Message::default();
    event.double(1, wall_time);
    event.bytes(3, b"brain.Event:2");
    event.0
}

/// An event with values by tag.
pub fn summary(wall_time: f64, step: i64, values: &[(String, Value)]) -> Vec<u8> {
    let mut summary = Message::default();
    for (tag, value) in values {
        let mut entry = Message::default();
        entry.bytes(1, tag.as_bytes());
        match value {
            Value::Scalar(scalar) => entry.float(2, *scalar),
            Value::Histogram(histogram) => entry.bytes(5, &encode(histogram)),
        }
        summary.bytes(1, &entry.0);
    }
    let mut event = Message::default();
    event.double(1, wall_time);
    event.varint(2, step as u64);
    event.bytes(5, &summary.0);
    event.0
}

fn encode(histogram: &Histogram) -> Vec<u8> {
    let mut message = Message::default();
    let (bounds, counts): (Vec<f64>, Vec<f64>) = histogram.buckets.iter().copied().unzip();
    let number = counts.iter().sum();
    let sums = [
        histogram.min,
        histogram.max,
        number,
        histogram.sum,
        histogram.sum_squares,
    ];
    for (field, value) in (1..).zip(sums) {
        message.double(field, value);
    }
    for (field, values) in [(6, bounds), (7, counts)] {
        let packed: Vec<u8> = values.into_iter().flat_map(f64::to_le_bytes).collect();
        message.bytes(field, &packed);
    }
    message.0
}

/// A message, field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Wire types.
    const VARINT: u32 = 0;
    const EIGHT_BYTES: u32 = 1;
    const LENGTH: u32 = 2;
    const FOUR_BYTES: u32 = 5;

    fn key(&mut self, field: u32, wire_type: u32) {
        self.put_varint((field << 3 | wire_type).into());
    }

    fn put_varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u32, value: u64) {
        self.key(field, Self::VARINT);
        self.put_varint(value);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.key(field, Self::EIGHT_BYTES);
        self.0.extend(value.to_le_bytes());
    }

    fn float(&mut self, field: u32, value: f32) {
        self.key(field, Self::FOUR_BYTES);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, Self::LENGTH);
        self.put_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_by_the_book() {
        let event = summary(1.0, 300, &[("a".into(), Value::Scalar(2.0))]);
        let mut expected = vec![9];
        expected.extend(1.0_f64.to_le_bytes());
        expected.extend([
            0x10, 0xac, 0x02, 0x2a, 10, 0x0a, 8, 0x0a, 1, b'a', 0x15, 0, 0, 0, 0x40,
        ]);
        assert_eq!(event, expected);
    }

    #[test]
    fn histograms_count_every_value_once() {
        let histogram = Histogram::of(&[0, 1, 5, 6, 7, 1024]);
        let buckets = [(1.0, 1.0), (2.0, 1.0), (4.0, 0.0), (8.0, 3.0)];
        assert_eq!(histogram.buckets[..4], buckets);
        assert_eq!(histogram.buckets.last(), Some(&(2048.0, 1.0)));
        assert_eq!((histogram.max, histogram.sum), (1024.0, 1043.0));
        assert!(Histogram::of(&[]).buckets.is_empty());
        let sizes =
            Histogram::of_counts([(100, 0), (1024, 0), (10240, 4), (u64::MAX, 0)].into_iter());
        assert_eq!(sizes.buckets, [(1024.0, 0.0), (10240.0, 4.0)]);
        assert_eq!(sizes.max, 10240.0);
    }
}
