//! Aligned tables.

/// Prints rows with their columns aligned: the first to the left, the others to the right.
pub fn print(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let cell = if column == 0 {
                format!("{cell:width$}")
            } else {
                format!("  {cell:>width$}")
            };
            line.push_str(&cell);
        }
        println!("{}", line.trim_end());
    }
}

/// The word for a target.
pub fn verdict(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "missed" }
}

/// A row of the words that `|` parts.
pub fn words(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
}
