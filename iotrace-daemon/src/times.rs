//! Times on the command line.

use std::time::Duration;

/// Reads a time: `30s`, `5m`, `1h 30m`, `250ms`; a number alone is of seconds.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_seconds() {
        let times = ["3", "0.5", "250ms", "2m"].map(|text| parse_time(text).unwrap().as_millis());
        assert_eq!(times, [3_000, 500, 250, 120_000]);
        for wrong in ["", "x", "-1", "nan", "inf", "3 apples"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
