//! Numbers for people: counts, bytes, durations and shares, each at most as wide as a column.

/// A count with its thousands apart: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in powers of 1024, three digits: `1.50 MiB`; exact below 1 KiB.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let mut scaled = value as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), UNITS[unit])
}

/// As [`bytes`]; empty for none, so that a table shows where bytes moved.
pub fn some_bytes(value: u64) -> String {
    if value == 0 {
        String::new()
    } else {
        bytes(value)
    }
}

/// As [`count`]; empty for none.
pub fn some(value: u64) -> String {
    if value == 0 {
        String::new()
    } else {
        count(value)
    }
}

/// A duration from nanoseconds: `12.3 ms`, `45.6 s`, `3 m 05 s`, `2 h 07 m`; `0` for none.
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..999_500 => format!("{} µs", three_digits(ns as f64 / 1e3)),
        999_500..999_500_000 => format!("{} ms", three_digits(ns as f64 / 1e6)),
        999_500_000..120_000_000_000 => format!("{} s", three_digits(ns as f64 / 1e9)),
        _ if seconds < 7_200 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", count(seconds / 3_600), seconds / 60 % 60),
    }
}

/// A share of a whole: `12 %`, `<1 %`; empty where there is no whole.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if part > 0 && percent < 0.5 {
        "<1 %".to_owned()
    } else {
        format!("{percent:.0} %")
    }
}

/// A share within bounds: `9-17 %`.
pub fn shares(at_least: u64, at_most: u64, whole: u64) -> String {
    let (least, most) = (share(at_least, whole), share(at_most, whole));
    match (least.strip_suffix(" %"), most.strip_suffix(" %")) {
        (Some("<1"), Some("1")) => "≤1 %".to_owned(),
        (Some("0"), Some("<1")) => most,
        (Some(from), Some(to)) if from != to => format!("{from}-{to} %"),
        _ => most,
    }
}

/// Bytes per second while inside calls: `1.20 GiB/s`; empty where there is no time.
pub fn rate(bytes_moved: u64, ns: u64) -> String {
    if ns == 0 || bytes_moved == 0 {
        return String::new();
    }
    format!("{}/s", bytes((bytes_moved as f64 * 1e9 / ns as f64) as u64))
}

/// A rate that is known, `1.20 GiB/s`; empty for one that is not.
pub fn some_rate(rate: Option<f64>) -> String {
    rate.filter(|rate| *rate >= 1.0)
        .map(|rate| format!("{}/s", bytes(rate as u64)))
        .unwrap_or_default()
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact() {
        let values = [0, 999, 1_000, 1_234_567, u64::MAX];
        let texts = values.map(count);
        assert_eq!(
            texts,
            [
                "0",
                "999",
                "1,000",
                "1,234,567",
                "18,446,744,073,709,551,615"
            ]
        );
    }

    #[test]
    fn bytes_have_three_digits() {
        let values = [
            0,
            1023,
            1024,
            1_572_864,
            10_239 << 10,
            1 << 30,
            (1 << 20) - 1,
            u64::MAX,
        ];
        let texts = values.map(bytes);
        let expected = [
            "0 B", "1023 B", "1.00 KiB", "1.50 MiB", "10.0 MiB", "1.00 GiB", "1.00 MiB", "16.0 EiB",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn durations_never_round_up_into_a_wider_number() {
        let values = [
            0,
            999,
            1_500,
            999_499,
            999_500,
            999_499_999,
            1_000_000_000,
            119_900_000_000,
        ];
        let texts = values.map(duration);
        assert_eq!(
            texts,
            [
                "0", "999 ns", "1.50 µs", "999 µs", "1.00 ms", "999 ms", "1.00 s", "120 s"
            ]
        );
        assert_eq!(duration(185_000_000_000), "3 m 05 s");
        assert_eq!(duration(7_620_000_000_000), "2 h 07 m");
    }

    #[test]
    fn shares_within_bounds_say_both_where_they_differ() {
        let cases = [(9, 17), (12, 12), (0, 3), (0, 0)].map(|(from, to)| shares(from, to, 100));
        assert_eq!(cases, ["9-17 %", "12 %", "0-3 %", "0 %"]);
        assert_eq!(shares(1, 10, 1_000), "≤1 %");
        assert_eq!(shares(0, 1, 1_000), "<1 %");
        assert_eq!(shares(1, 50, 1_000), "<1-5 %");
    }

    #[test]
    fn shares_and_rates_need_a_whole() {
        assert_eq!(
            [share(1, 0), share(1, 1_000), share(1, 4)],
            ["", "<1 %", "25 %"]
        );
        assert_eq!(
            [rate(0, 5), rate(5, 0), rate(1 << 20, 500_000_000)],
            ["", "", "2.00 MiB/s"]
        );
    }
}
