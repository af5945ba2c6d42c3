//! Where the datatypes of Open MPI have their size.
//!
//! A datatype is a struct there, which no header describes. But the predefined ones are data that the library exports, and
//! it is known how large they are: so the word that has their size is found by their contents in the library's own file.

use object::{Object, ObjectSegment as _, ObjectSymbol as _};

/// Predefined datatypes, and their sizes: those that are the same everywhere.
const KNOWN: [(&str, u64); 6] = [
    ("ompi_mpi_byte", 1),
    ("ompi_mpi_short", 2),
    ("ompi_mpi_int", 4),
    ("ompi_mpi_float", 4),
    ("ompi_mpi_double", 8),
    ("ompi_mpi_cxx_dblcplex", 16),
];
const WORD: usize = 8;
/// Words that are looked at.
const WORDS: usize = 64;

/// The 64-bit word of a datatype that has its size; 0 where the library's datatypes are no such structs.
pub fn size_word<'data>(file: &impl Object<'data>) -> u8 {
    let contents: Option<Vec<_>> = KNOWN
        .iter()
        .map(|(symbol, size)| Some((contents(file, symbol)?, *size)))
        .collect();
    let Some(contents) = contents else { return 0 };
    // The bounds of a datatype are the same number where it has no holes; they stand behind the size.
    let word = (1..WORDS).find(|word| {
        contents.iter().all(|(content, size)| {
            content.get(word * WORD..(word + 1) * WORD) == Some(&size.to_le_bytes())
        })
    });
    word.unwrap_or_default() as u8
}

/// What a symbol of data is in the file.
fn contents<'data>(file: &impl Object<'data>, name: &str) -> Option<&'data [u8]> {
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
    let (address, size) = (symbol.address(), symbol.size());
    file.segments()
        .find_map(|segment| segment.data_range(address, size).ok().flatten())
}
