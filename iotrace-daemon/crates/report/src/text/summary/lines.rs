//! Lines of the screen.

use super::super::{
    escape::{clipped, width},
    table::Style,
    units::count,
};

/// Lines that belong together.
pub type Lines = Vec<(Style, String)>;

/// A number with its noun: `1 save`, `1,200 saves`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{} {many}", count(number)),
    }
}

/// Words on at most `most` indented lines; an ellipsis replaces the rest.
pub fn wrapped(style: Style, text: &str, columns: usize, indent: usize, most: usize) -> Lines {
    let margin = " ".repeat(indent);
    let mut lines: Vec<String> = vec![margin.clone()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let is_first = lines[last].len() == indent;
        let needed = width(&lines[last]) + usize::from(!is_first) + width(word);
        if needed <= columns {
            if !is_first {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        } else if lines.len() < most {
            lines.push(format!("{margin}{word}"));
        } else {
            let clipped = clipped(&format!("{} {word}", lines[last]), columns);
            lines[last] = clipped;
            break;
        }
    }
    lines.into_iter().map(|line| (style, line)).collect()
}
