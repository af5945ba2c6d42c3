//! What iotrace says of its drains.

use crate::bench::iotrace::Outcome;

/// What iotrace says of its drains at the end.
pub struct Drains {
    pub count: f64,
    pub total_ms: f64,
    pub slowest_ms: f64,
    pub entries: f64,
}

impl Drains {
    /// From `N drains took 1.2ms (345µs at most) for M entries`.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        Self::parse(outcome.message(" drains took ")?)
    }

    fn parse(message: &str) -> Option<Self> {
        let (count, rest) = message.split_once(" drains took ")?;
        let (total, rest) = rest.split_once(" (")?;
        let (slowest, rest) = rest.split_once(" at most) for ")?;
        let entries = rest.split(' ').next()?.parse().ok()?;
        let (total_ms, slowest_ms) = (millis(total)?, millis(slowest)?);
        Some(Self {
            count: count.parse().ok()?,
            total_ms,
            slowest_ms,
            entries,
        })
    }
}

/// Milliseconds of a duration as Rust prints it.
fn millis(duration: &str) -> Option<f64> {
    let unit = duration.find(|c: char| c.is_alphabetic() || c == 'µ')?;
    let (number, unit) = duration.split_at(unit);
    let scale = match unit {
        "s" => 1e3,
        "ms" => 1.0,
        "µs" => 1e-3,
        "ns" => 1e-6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_the_drains_is_read() {
        let message = "3 drains took 1.5s (23.105245ms at most) for 26 entries";
        let drains = Drains::parse(message).unwrap();
        let Drains {
            count,
            total_ms,
            slowest_ms,
            entries,
        } = drains;
        assert_eq!(
            (count, total_ms, slowest_ms, entries),
            (3.0, 1500.0, 23.105245, 26.0)
        );
        assert_eq!(millis("12.5µs"), Some(0.0125));
    }
}
