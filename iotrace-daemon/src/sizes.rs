//! Sizes on the command line.

/// Reads a size in bytes: 4096, 64K, 500M, 10G.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..]
        .trim_end_matches("iB")
        .trim_end_matches('B')
    {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("write bytes, or a number followed by K, M, G or T".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "it begins with no number".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "it is larger than any disk".into())
}
