//! Text of any bytes for a terminal: nothing that moves the cursor, colours or hides leaves this file.

use unicode_width::UnicodeWidthChar;

/// The text with control characters, invisible characters and invalid UTF-8 as escapes (`\n`, `\x1b`, `\xff`).
pub fn escape(bytes: &[u8]) -> String {
    pieces(bytes).concat()
}

/// As [`escape`], shortened in the middle to `width` columns; the end, which tells files apart, keeps the most.
pub fn shorten(bytes: &[u8], width: usize) -> String {
    let pieces = pieces(bytes);
    if columns(&pieces) <= width {
        return pieces.concat();
    }
    let room = width.saturating_sub(1); // for the ellipsis
    let head = fitting(pieces.iter(), room / 3);
    let tail = fitting(pieces.iter().rev(), room - columns(&pieces[..head]));
    [
        &pieces[..head].concat(),
        "…",
        &pieces[pieces.len() - tail..].concat(),
    ]
    .concat()
}

/// The beginning of a text, up to a word, if it is wider than the room.
pub fn clipped(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut end = 0;
    for (at, _) in text.char_indices().filter(|(_, c)| *c == ' ') {
        if width(&text[..at]) < room {
            end = at;
        }
    }
    format!("{}…", text[..end].trim_end())
}

/// Columns that a text without escapes takes on a terminal.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

fn columns(pieces: &[String]) -> usize {
    pieces.iter().map(|piece| width(piece)).sum()
}

/// How many pieces fit into `room` columns.
fn fitting<'a>(pieces: impl Iterator<Item = &'a String>, room: usize) -> usize {
    let mut used = 0;
    pieces
        .take_while(|piece| {
            used += width(piece);
            used <= room
        })
        .count()
}

/// One piece per character or escape, so that none is cut in two.
fn pieces(bytes: &[u8]) -> Vec<String> {
    let mut pieces = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        pieces.extend(chunk.valid().chars().map(piece));
        pieces.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    pieces
}

fn piece(c: char) -> String {
    match c {
        '"' | '\'' => c.to_string(),
        '\n' | '\r' | '\t' | '\\' => c.escape_debug().collect(),
        _ if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        _ if c.is_ascii() => c.to_string(),
        _ if c.width().unwrap_or(0) == 0 => c.escape_unicode().collect(),
        _ => c.escape_debug().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(
            escape(b"/a b/\n\t\x1b[31m\x7f\\\xff"),
            r"/a b/\n\t\x1b[31m\x7f\\\xff"
        );
        assert_eq!(
            escape("\u{202e}\u{85}\u{200b}".as_bytes()),
            r"\u{202e}\u{85}\u{200b}"
        );
        assert_eq!(escape("'ä' 模型".as_bytes()), "'ä' 模型");
    }

    #[test]
    fn shortens_in_the_middle() {
        let path = b"/data/imagenet/train/n01440764/n01440764_10026.JPEG";
        assert_eq!(shorten(path, 60).as_bytes(), path);
        let short = shorten(path, 30);
        assert_eq!(width(&short), 30);
        assert_eq!(short, "/data/ima…n01440764_10026.JPEG");
    }

    #[test]
    fn wide_characters_and_escapes_are_not_cut() {
        for width_wanted in 1..40 {
            let short = shorten("/模型/模型/模型\n\n\n\n/模型".as_bytes(), width_wanted);
            assert!(width(&short) <= width_wanted, "{short:?}");
            assert_eq!(short.matches('\\').count(), short.matches("\\n").count());
        }
    }
}
